//! Help, manual pages, completions: the whole reference is one snapshot, so no flag changes unseen.

use testkit::home::TempHome;

use super::cases::REGISTRY;
use super::run::{claude_session, ostler, ran, run};

#[test]
fn the_reference() {
    let home = TempHome::new();
    let mut reference = run(&home, "help").exits(0).stdout;
    for entry in &REGISTRY.commands {
        reference.push_str(&format!("\n======== ostler help {}\n\n", entry.name));
        reference.push_str(&run(&home, &format!("help {}", entry.name)).exits(0).stdout);
    }
    reference.push_str("\n======== ostler help exit-codes\n\n");
    reference.push_str(&run(&home, "help exit-codes").exits(0).stdout);
    insta::assert_snapshot!("reference", reference);
}

#[test]
fn the_help_lists_every_command_once_under_its_heading() {
    let home = TempHome::new();
    let help = run(&home, "--help").exits(0).stdout;
    let listed: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Every day:")
        .take_while(|line| *line != "Options:")
        .filter(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(listed[..5], ["ls", "show", "why", "status", "attach"]);
    for entry in &REGISTRY.commands {
        let is_shown = !entry.name.contains(' ') && entry.place.0 != "internal";
        let times = listed.iter().filter(|name| **name == entry.name).count();
        assert_eq!(times, usize::from(is_shown), "{} in {help}", entry.name);
    }
}

#[test]
fn the_help_of_every_command_ends_with_its_examples() {
    let home = TempHome::new();
    for entry in &REGISTRY.commands {
        let mut help = entry.name.split(' ').collect::<Vec<_>>();
        help.push("--help");
        let text = ran(ostler(&home).args(help)).exits(0).stdout;
        for example in &entry.examples {
            assert!(text.contains(&format!("  ostler {}\n", example.line)), "{text}");
        }
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
