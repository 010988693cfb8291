//! `ostler setup` where an ostler of another package, release or cache was before.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::run::{Ran, ran, run};
use super::setup::{assert_same, picture, start_paused, worked_home};

/// This program as another package installs it, outside of the home.
fn installed_at(packages: &TempHome, below: &str) -> PathBuf {
    let program = packages.join(below);
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    let built = env!("CARGO_BIN_EXE_ostler");
    if fs::hard_link(built, &program).is_err() {
        fs::copy(built, &program).unwrap();
    }
    program
}

fn run_other(home: &TempHome, program: &PathBuf, line: &str) -> Ran {
    ran(testkit::run::bare(program, home).args(line.split_whitespace()))
}

fn record(home: &TempHome) -> Value {
    serde_json::from_slice(&home.read(".local/state/ostler/setup.json")).unwrap()
}

#[test]
fn d4_hooks_of_another_package_come_back_to_the_byte() {
    let packages = TempHome::new();
    let npm = installed_at(&packages, "npm/bin/ostler");
    let deb = installed_at(&packages, "deb/bin/ostler");
    let home = worked_home();
    run_other(&home, &npm, "hooks install").exits(0);
    let before = picture(&home);
    for point in [None, Some("setup.recorded"), Some("atomic-update"), Some("setup.hooked")] {
        if let Some(point) = point {
            let pauses = Pauses::new();
            let words = ["setup", "--yes", "--without", "service"];
            let mut child = start_paused(&home, &pauses, point, &words);
            child.kill().unwrap();
            child.wait().unwrap();
        }
        run(&home, "setup --yes --without service").exits(0);
        let text = String::from_utf8(home.read(".claude/settings.json")).unwrap();
        assert!(!text.contains("npm/bin/ostler"), "it is put right: {text}");
        run_other(&home, &deb, "setup --yes --without service").exits(0);
        let set_up = picture(&home);
        let preview = run(&home, "setup --undo --dry-run --json").exits(0).result();
        assert_eq!(preview["changes"], true, "{preview}");
        assert_same(&set_up, &picture(&home), "a dry run of the undo");
        run(&home, "setup --undo --yes").exits(0);
        let mut after = picture(&home);
        // A temporary file of the killed process is nobody's change.
        after.retain(|path, _| path.extension().is_none_or(|end| end != "tmp"));
        assert_same(&before, &after, &format!("{point:?}"));
        assert_eq!(record(&home)["version"], 1, "nothing is left that an older one would drop");
    }
}

#[test]
fn d4_a_file_that_changed_since_names_the_program_again_that_it_named() {
    let packages = TempHome::new();
    let npm = installed_at(&packages, "npm/bin/ostler");
    let home = worked_home();
    run_other(&home, &npm, "hooks install").exits(0);
    let before = home.read(".gemini/settings.json");
    run(&home, "setup --yes --without service").exits(0);
    assert_eq!(record(&home)["version"], 2, "an older ostler does not touch it");
    let settings = home.join(".claude/settings.json");
    let text = fs::read_to_string(&settings).unwrap().replace("notify-send done", "beep");
    fs::write(&settings, text).unwrap();
    run(&home, "hooks uninstall qwen").exits(0);
    let without = home.read(".qwen/settings.json");
    run(&home, "setup --undo --yes").exits(0);
    let text = fs::read_to_string(&settings).unwrap();
    assert!(text.contains("\"beep\"") && text.contains("npm/bin/ostler"), "{text}");
    assert!(!text.contains(env!("CARGO_BIN_EXE_ostler")), "{text}");
    assert_eq!(home.read(".gemini/settings.json"), before);
    assert_eq!(home.read(".qwen/settings.json"), without, "what somebody took out stays out");
}

#[test]
fn d5_hooks_of_an_agent_that_only_a_later_ostler_knows_are_named_and_kept() {
    let home = TempHome::new();
    home.write(".qwen/settings.json", "{}\n");
    let before = picture(&home);
    run(&home, "setup --yes --without service").exits(0);
    let mut written = record(&home);
    let later = serde_json::json!({"agent": "of-tomorrow", "keptDirectories": []});
    written["hooks"].as_array_mut().unwrap().push(later.clone());
    home.write(".local/state/ostler/setup.json", written.to_string());
    let undone = run(&home, "setup --undo --yes").exits(13);
    assert!(undone.stderr.contains("`of-tomorrow` was set up by a later ostler"), "{undone:?}");
    assert!(undone.stderr.contains("hint: that ostler's `ostler setup --undo`"), "{undone:?}");
    assert_same(&before, &picture(&home), "the rest is taken back");
    assert_eq!(record(&home)["hooks"], serde_json::json!([later]));
    run(&home, "setup --yes --without service").exits(0);
    assert!(record(&home)["hooks"].as_array().unwrap().contains(&later));
}

#[test]
fn d7_a_program_in_a_cache_is_not_written_into_settings() {
    let packages = TempHome::new();
    let home = worked_home();
    let before = picture(&home);
    for (cache, remedy) in [
        (".cache/uv/archive-v0/x1/bin/ostler", "uv tool install ostler"),
        (".npm/_npx/ab/node_modules/@ostler/linux-x64/bin/ostler", "npm install -g ostler"),
    ] {
        let program = installed_at(&packages, cache);
        for line in ["setup --yes", "setup --dry-run", "hooks install", "service install"] {
            let refused = run_other(&home, &program, line).exits(13);
            assert!(refused.stderr.contains(remedy), "{line}: {}", refused.stderr);
        }
        for line in ["setup --undo --dry-run", "hooks status", "service status", "version"] {
            run_other(&home, &program, line).exits(0);
        }
        // Completions name no path.
        run_other(&home, &program, "setup --dry-run --without hooks,service").exits(0);
    }
    assert_same(&before, &picture(&home), "refused");
}

#[test]
fn d9_a_script_of_an_earlier_release_is_renewed() {
    let home = worked_home();
    let before = picture(&home);
    run(&home, "setup --yes --without service").exits(0);
    // As an earlier release has written it, and written it down.
    let fish = home.write(".config/fish/completions/ostler.fish", "# of an earlier release\n");
    let sum = Command::new("sha256sum").arg(&fish).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap()[..64].to_owned();
    let mut written = record(&home);
    let scripts = written["completions"].as_array_mut().unwrap();
    scripts.iter_mut().find(|one| one["shell"] == "fish").unwrap()["contentHash"] = sum.into();
    home.write(".local/state/ostler/setup.json", written.to_string());
    let planned = run(&home, "setup --dry-run --json --without service").exits(0).result();
    let planned = planned["completions"].as_array().unwrap().clone();
    let planned = planned.iter().find(|one| one["shell"] == "fish").unwrap();
    assert_eq!(planned["change"], "changed", "{planned}");
    // A kill before it is renewed loses nothing.
    let pauses = Pauses::new();
    let words = ["setup", "--yes", "--without", "service"];
    let mut child = start_paused(&home, &pauses, "setup.hooked", &words);
    child.kill().unwrap();
    child.wait().unwrap();
    let done = run(&home, "setup --yes --without service").exits(0);
    assert!(!done.stderr.contains("another file is there"), "{}", done.stderr);
    assert!(!fs::read_to_string(&fish).unwrap().contains("earlier release"));
    let again = run(&home, "setup --yes --json --without service").exits(0).result();
    assert_eq!(again["changes"], false, "{again}");
    run(&home, "setup --undo --yes").exits(0);
    assert_same(&before, &picture(&home), "taken back");
}
