//! The dashboard in words (`--accessible`): every verb that the screen has.

use super::stage::{Name, Stage, until};
use super::top::{seat, shows, subject};
use super::top_verbs::{prompts, start_agent};

/// Says a line and waits for what comes of it.
fn says(stage: &Stage, seat: &str, line: &str, answer: &str) {
    stage.ok(&["type", seat, &format!("{line}\n")]);
    shows(stage, seat, answer);
}

#[test]
fn row_26_accessible_mode_replies_searches_pins_and_stops() {
    let stage = Stage::new(Name::Ostler);
    let (_, record) = start_agent(&stage, &[]);
    let seat = seat(&stage, (200, 60), "--accessible");
    shows(&stage, &seat, "(claude)");
    let screen = stage.screen(&seat);
    let line = screen.lines().find(|line| line.contains("(claude)")).unwrap();
    let number = line.split(' ').next().unwrap().to_owned();
    says(&stage, &seat, &format!("reply {number}"), "reply needs a text.");
    let reply = format!("reply {number} run the tests of the parser");
    says(&stage, &seat, &reply, "accepted by claude-code");
    assert_eq!(prompts(&record), ["run the tests of the parser"]);
    says(&stage, &seat, "search", "search needs words.");
    says(&stage, &seat, "search parser", "run the tests of the [parser]");
    says(&stage, &seat, &format!("pin {number}"), "is pinned: never collected");
    says(&stage, &seat, "yes", "There is nothing to say yes to.");
    says(&stage, &seat, &format!("stop {number}"), "Say yes to do it");
    assert!(stage.screen(&seat).contains("python3 (started "), "{}", stage.screen(&seat));
    // Anything else is no consent, and what was asked is forgotten.
    says(&stage, &seat, "next", "Nobody needs you.");
    says(&stage, &seat, &format!("stop {number}"), "Say yes to do it");
    says(&stage, &seat, "yes", "Stopped claude-code:");
}

#[test]
fn row_26_accessible_mode_cleans_up_undoes_and_finalizes() {
    let stage = Stage::new(Name::Ostler);
    let old = subject(&stage, "old", &["/bin/true"]);
    until("its end", || stage.manifest(&old)["status"] == "exited");
    stage.home.write(".config/ostler/config.toml", "[retention]\nterminals = \"0s\"\n");
    let seat = seat(&stage, (200, 60), "--accessible");
    shows(&stage, &seat, "quit");
    says(&stage, &seat, "undo", "Nothing was cleaned up from here.");
    says(&stage, &seat, "clean", "Say yes to do it");
    assert!(stage.directory(&old).exists());
    says(&stage, &seat, "yes", "moved to the trash");
    assert!(!stage.directory(&old).exists());
    says(&stage, &seat, "undo", "What was cleaned up is back (receipt ");
    assert!(stage.directory(&old).exists());
    says(&stage, &seat, "finalize", "There is nothing to finalize.");
}
