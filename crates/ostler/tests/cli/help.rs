//! Help, manual pages, completions: the whole reference is one snapshot, so no flag changes unseen.

use testkit::home::TempHome;

use super::run::{claude_session, ostler, ran, run};

const COMMANDS: &[&str] = &[
    "ls",
    "show",
    "why",
    "logs",
    "search",
    "usage",
    "adapters",
    "du",
    "access",
    "create",
    "run",
    "type",
    "paste",
    "send-keys",
    "batch",
    "wait",
    "snapshot",
    "screenshot",
    "record",
    "inspect",
    "resize",
    "signal",
    "mark",
    "attach",
    "destroy",
    "verify",
    "skills",
    "status",
    "doctor",
    "summary",
    "finalize",
    "gc",
    "pin",
    "undo",
    "trash",
    "agents",
    "store",
    "vault",
    "events",
    "daemon",
    "hook",
    "hooks",
    "config",
    "schema",
    "completions",
    "man",
    "version",
    "help",
];

const STORE: &[&str] = &["ls", "show", "cleanup", "verify", "rebuild"];

const ACCESS: &[&str] = &["open", "list", "show", "env", "exec", "log", "stop", "prune"];

#[test]
fn the_reference() {
    let home = TempHome::new();
    let mut reference = run(&home, "help").exits(0).stdout;
    for command in COMMANDS {
        reference.push_str(&format!("\n======== ostler help {command}\n\n"));
        reference.push_str(&run(&home, &format!("help {command}")).exits(0).stdout);
    }
    for command in ACCESS {
        reference.push_str(&format!("\n======== ostler access {command} --help\n\n"));
        reference.push_str(&run(&home, &format!("access {command} --help")).exits(0).stdout);
    }
    for command in STORE {
        reference.push_str(&format!("\n======== ostler store {command} --help\n\n"));
        reference.push_str(&run(&home, &format!("store {command} --help")).exits(0).stdout);
    }
    reference.push_str("\n======== ostler help exit-codes\n\n");
    reference.push_str(&run(&home, "help exit-codes").exits(0).stdout);
    insta::assert_snapshot!("reference", reference);
}

#[test]
fn every_command_of_the_help_is_in_the_reference() {
    let home = TempHome::new();
    let help = run(&home, "--help").exits(0).stdout;
    let listed: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
        .collect();
    for command in COMMANDS {
        assert!(listed.contains(command), "{command} is not in {listed:?}");
    }
}

#[test]
fn version_answers_in_every_form() {
    let home = TempHome::new();
    for line in ["version", "--version", "-V"] {
        assert_eq!(
            run(&home, line).exits(0).stdout,
            format!("ostler {}\n", env!("CARGO_PKG_VERSION"))
        );
    }
    assert_eq!(run(&home, "version --json").result()["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn manual_pages_are_written() {
    let home = TempHome::new();
    assert!(run(&home, "man").exits(0).stdout.contains(".TH ostler"));
    assert!(run(&home, "man ls").exits(0).stdout.contains("ostler"));
    let pages = home.join("pages");
    std::fs::create_dir(&pages).unwrap();
    run(&home, "man --out pages").exits(0);
    assert!(pages.join("ostler.1").exists() && pages.join("ostler-ls.1").exists());
    run(&home, "man --out no/such/place").exits(8);
}

#[test]
fn completions_offer_live_ids() {
    let home = TempHome::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&home, &format!("completions {shell}")).exits(0).stdout;
        assert!(script.contains("ostler"), "{shell}");
    }
    claude_session(&home, "abcd1234-0000-4000-8000-000000000000", "/a", "find me");
    let mut command = ostler(&home);
    command.env("COMPLETE", "fish").args(["--", "ostler", "show", "abcd"]);
    let offered = ran(&mut command).stdout;
    assert!(offered.contains("abcd1234-0000-4000-8000-000000000000"), "{offered}");
}
