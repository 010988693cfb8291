//! What a hand does on the dashboard that something else comes in between of: another typist, a plan, a filter.

use testkit::pause::Pauses;

use super::stage::{Name, Stage, until};
use super::top::{keys, seat, seat_of, select, shows, subject};

#[test]
fn row_11_who_loses_the_keyboard_is_told_and_types_into_nothing() {
    let stage = Stage::new(Name::Ostler);
    let typist = subject(&stage, "typist", &["/bin/cat"]);
    let seat = seat(&stage, (120, 40), "");
    select(&stage, &seat, "typist");
    shows(&stage, &seat, "80×24");
    keys(&stage, &seat, &["i"]);
    shows(&stage, &seat, "TYPING");
    stage.ok(&["type", &seat, "mine"]);
    stage.ok(&["wait", &typist, "--text", "mine"]);
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let other = subject(&stage, "other", &[ostler, "attach", "--take", &typist]);
    shows(
        &stage,
        &seat,
        "Somebody else types into typist now: what you typed last may not have arrived.",
    );
    assert!(!stage.screen(&seat).contains("TYPING"), "{}", stage.screen(&seat));
    // It is watched on, and can be had again when the other has left.
    stage.ok(&["type", &other, "theirs"]);
    shows(&stage, &seat, "minetheirs");
    keys(&stage, &other, &["Ctrl+]"]);
    until("the other has left", || stage.ok(&["inspect", &typist])["viewers"] == 1);
    // Keys that follow at once are taken for the rest of what was typed into the terminal.
    stage.ok(&["wait", &seat, "--idle-ms", "500"]);
    keys(&stage, &seat, &["i"]);
    shows(&stage, &seat, "TYPING");
    stage.ok(&["type", &seat, "again"]);
    stage.ok(&["wait", &typist, "--text", "again"]);
}

#[test]
fn row_14_a_y_that_was_meant_for_something_else_cleans_up_nothing() {
    let stage = Stage::new(Name::Ostler);
    let old = subject(&stage, "old", &["/bin/true"]);
    until("its end", || stage.manifest(&old)["status"] == "exited");
    let config = "[retention]\nterminals = \"0s\"\n";
    stage.home.write(".config/ostler/config.toml", config);
    let pauses = Pauses::new();
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let words = format!("OSTLER_PAUSE={} {ostler} top", pauses.path().display());
    let seat = seat_of(&stage, (120, 40), &words);
    shows(&stage, &seat, "? help");
    // The plan is there and not on the screen; whoever copies an id now has not seen it.
    pauses.arm("top.planned");
    keys(&stage, &seat, &["c"]);
    pauses.wait("top.planned");
    assert!(!stage.screen(&seat).contains("to the trash"));
    keys(&stage, &seat, &["y"]);
    pauses.release("top.planned");
    shows(&stage, &seat, "y does it · ");
    shows(&stage, &seat, "That was before you could read it.");
    assert!(stage.directory(&old).exists());
    keys(&stage, &seat, &["y"]);
    shows(&stage, &seat, "moved to the trash");
}
