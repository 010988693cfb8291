//! The skill is kept true: its examples are run as they stand.

use std::process::Command;

use super::stage::{Name, Stage, ran};

#[test]
fn the_examples_of_the_skill_work() {
    let stage = Stage::new(Name::Ostler);
    let skill = stage.run(&["skills", "get", "ostler"]).exits(0).stdout;
    let examples: Vec<&str> =
        skill.lines().filter_map(|line| line.strip_prefix("$ ostler ")).collect();
    assert!(examples.len() >= 10);
    for example in examples {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("exec \"$OSTLER\" {example}")]);
        for (key, value) in stage.command().get_envs() {
            command.env(key, value.unwrap());
        }
        command.env("OSTLER", env!("CARGO_BIN_EXE_ostler")).current_dir(stage.home.path());
        let ran = ran(&mut command);
        assert_eq!(ran.code, 0, "{example}: {ran:?}");
        assert_eq!(ran.envelope()["ok"], true, "{example}");
    }
}

#[test]
fn agents_find_the_skill() {
    let stage = Stage::new(Name::Ostler);
    let listed = stage.ok(&["skills", "list"]);
    assert_eq!(listed["skills"][0]["name"], "ostler");
    assert!(!listed["skills"][0]["description"].as_str().unwrap().is_empty());
    assert_eq!(stage.fails(&["skills", "get", "nope"]), (1, "SKILL_NOT_FOUND".into()));
}
