//! Every example of the README is run.

use std::fs;
use std::path::Path;

use super::run::{ostler, ran, sample_home};

/// Commands that set up a machine; CI runs them itself.
const SETUP: [&str; 2] = ["cargo xtask install && ostler ls", ".ci/run"];

#[test]
fn every_example_works() {
    let readme =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let home = sample_home();
    // `-` is the newest session: let it be one that has said something.
    fs::remove_dir_all(home.join(".claude/sessions")).unwrap();
    let mut examples = 0;
    let mut in_console = false;
    for line in readme.lines() {
        if let Some(fence) = line.strip_prefix("```") {
            in_console = fence == "console";
            continue;
        }
        let Some(command) = line.strip_prefix("$ ").filter(|_| in_console) else { continue };
        let command = command.split("  #").next().unwrap().trim();
        if SETUP.contains(&command) {
            continue;
        }
        let args = command
            .strip_prefix("ostler ")
            .unwrap_or_else(|| panic!("the README shows `{command}`, which no test runs"));
        let outcome = ran(ostler(&home).args(args.split_whitespace()));
        assert!([0, 12].contains(&outcome.code), "`{command}`: {outcome:?}");
        examples += 1;
    }
    assert!(examples >= 8, "only {examples} examples");
    for command in SETUP {
        assert!(readme.contains(&format!("$ {command}\n")), "`{command}` is missing");
    }
}
