//! What a person sets for terminals: how much scrolls away, and how they are drawn.

use super::stage::{Name, Stage};

fn configured(text: &str) -> Stage {
    let stage = Stage::new(Name::Ostler);
    stage.home.write(".config/ostler/config.toml", text);
    stage
}

#[test]
fn own_profiles_are_drawn_with() {
    let stage = configured(
        "[terminal]\nprofile = \"big\"\n\
         [profiles.big]\nscale = 2\n\
         [profiles.paper.theme]\nforeground = \"#000000\"\nbackground = \"#ffffff\"\n",
    );
    let id = stage.script("printf hello; sleep 60");
    stage.ok(&["wait", &id, "--text", "hello"]);
    let big = stage.ok(&["screenshot", &id]);
    assert_eq!(big["profileName"], "big");
    assert_eq!((&big["pixelWidth"], &big["pixelHeight"]), (&1280.into(), &768.into()));
    let paper = stage.ok(&["screenshot", &id, "--profile", "paper"]);
    assert_eq!(paper["pixelWidth"], 640);
    let dark = stage.ok(&["screenshot", &id, "--profile", "reference-dark"]);
    assert_ne!(paper["renderProfileHash"], dark["renderProfileHash"]);
    assert_ne!(paper["sha256"], dark["sha256"]);
    let page = stage.home.join("page.html");
    let out = page.to_str().unwrap();
    stage.ok(&["record", "export", &id, "--format", "html", "--profile", "paper", "--out", out]);
    assert!(std::fs::read_to_string(page).unwrap().contains("#ffffff"));

    let unknown = stage.run(&["screenshot", &id, "--profile", "small", "--json"]).exits(2);
    assert!(unknown.message().ends_with("reference-light, big, paper"), "{unknown:?}");
    let shown = stage.run(&["config", "show"]).exits(0).stdout;
    assert!(shown.contains("terminal.profile = \"big\"\n"), "{shown}");
    assert!(shown.contains("profiles = [\"big\", \"paper\"]\n"), "{shown}");
}

#[test]
fn under_the_agent_tty_name_there_are_its_two_profiles() {
    let stage = Stage::new(Name::AgentTty);
    stage.home.write(".config/ostler/config.toml", "[profiles.mine]\nscale = 2\n");
    let id = stage.shell();
    assert_eq!(stage.ok(&["screenshot", &id])["profileName"], "reference-dark");
    assert_eq!(stage.fails(&["screenshot", &id, "--profile", "mine"]).0, 2);
}

#[test]
fn the_scrollback_is_what_was_set() {
    let stage = configured("[terminal]\nscrollback = 5\n");
    let lines = "seq 1 100; echo end; sleep 60";
    let kept = |args: &[&str]| {
        let command = ["--", "/bin/bash", "-c", lines];
        let created =
            stage.run(&[&["create", "--json"], args, &command].concat()).exits(0).result();
        let id = created["sessionId"].as_str().unwrap();
        stage.ok(&["wait", id, "--text", "end"]);
        let shown = stage.ok(&["snapshot", id, "--include-scrollback"]);
        shown["scrollbackLines"].as_array().unwrap().len()
    };
    assert_eq!(kept(&[]), 5);
    assert_eq!(kept(&["--scrollback", "7"]), 7);
}

#[test]
fn wrong_settings_name_the_thing_and_the_reason() {
    for (text, expected) in [
        ("[terminal]\nscrolback = 5\n", "line 2"),
        ("[profiles.x]\nscale = 9\n", "`profiles.x` has `scale = 9`, which is not 1 to 4"),
        ("[profiles.reference-dark]\nscale = 2\n", "cannot be changed; choose another name"),
        ("[profiles.x]\nname = \"y\"\n", "`profiles.x` is called `y` in it"),
        ("[profiles.x.theme]\ncursor = \"red\"\n", "`red` is not a colour; write #rrggbb"),
        ("[terminal]\nprofile = \"x\"\n", "`terminal.profile`: unknown render profile `x`"),
    ] {
        let refused = configured(text).run(&["config", "check"]).exits(2);
        assert!(refused.stderr.contains(expected), "{text}: {}", refused.stderr);
    }
}

#[test]
fn the_documented_file_is_valid_and_begins_with_the_defaults() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks: Vec<&str> =
        page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 6);
    let shown = |text: &str| configured(text).run(&["config", "show"]).exits(0).stdout;
    assert_eq!(shown(blocks[0]), shown(""));
    assert!(shown(&blocks.concat()).contains("profiles = [\"paper\"]\n"));
}
