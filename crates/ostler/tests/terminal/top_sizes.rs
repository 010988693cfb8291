//! The dashboard at every size that people have, driven by our own terminals.

use serde_json::json;
use testkit::pause::Pauses;

use super::stage::{Name, Stage, until};
use super::top::{keys, seat, seat_of, select, shows, subject};

/// A Claude Code session that asks something, held by a process of its own.
fn lay_out_question(stage: &Stage) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal/fake_agent.py");
    let files = format!("claude={}", stage.home.join(".claude").display());
    let record = stage.home.join("record");
    let command =
        ["python3", script, record.to_str().unwrap(), &files, "status=waiting", "dialog=1"];
    let terminal = subject(stage, "asks", &command);
    until("it waits", || stage.run(&["top"]).stdout.starts_with("NEEDS YOU"));
    terminal
}

/// Nothing is wider than the screen, and the screen is no higher than it is.
fn fits(stage: &Stage, seat: &str, (columns, rows): (u16, u16)) -> String {
    let screen = stage.screen(seat);
    assert!(screen.lines().count() <= usize::from(rows), "{screen}");
    for line in screen.lines() {
        let width = unicode_width::UnicodeWidthStr::width(line);
        assert!(width <= usize::from(columns), "{columns}x{rows}: {line}");
    }
    assert!(screen.starts_with(" ostler "), "{screen}");
    screen
}

#[test]
fn row_07_every_size_is_opened_moved_in_and_read() {
    for size in [(60, 15), (80, 24), (120, 40), (200, 50)] {
        let stage = Stage::new(Name::Ostler);
        lay_out_question(&stage);
        subject(&stage, "builder", &["/bin/bash", "-c", "echo BUILT $((1+1)); cat"]);
        let seat = seat(&stage, size, "");
        shows(&stage, &seat, "builder");
        let screen = fits(&stage, &seat, size);
        assert!(screen.lines().next().unwrap().contains("▲ 1"), "{screen}");
        let place = |word: &str| screen.lines().position(|line| line.contains(word)).unwrap();
        assert!(place("asks") < place("builder"), "who needs somebody is first: {screen}");
        let selected = |name: &str| {
            let screen = fits(&stage, &seat, size);
            screen.lines().any(|line| line.starts_with('▌') && line.contains(name))
        };
        keys(&stage, &seat, &["G"]);
        until("another is selected", || !selected("asks"));
        keys(&stage, &seat, &["n"]);
        until("who needs somebody is selected", || selected("asks"));
        select(&stage, &seat, "builder");
        until("one is left", || selected("builder"));
        if size.0 == 60 {
            keys(&stage, &seat, &["Tab"]);
        }
        shows(&stage, &seat, "BUILT 2");
        fits(&stage, &seat, size);
        for (key, title) in [("Space", "─ talk"), ("v", "─ facts"), ("w", "─ why")] {
            keys(&stage, &seat, &[key]);
            shows(&stage, &seat, title);
            fits(&stage, &seat, size);
        }
        keys(&stage, &seat, &["?"]);
        shows(&stage, &seat, "key goes back");
        let help = fits(&stage, &seat, size);
        assert!(help.contains("next that needs you"), "{help}");
        keys(&stage, &seat, &["x", "q"]);
        shows(&stage, &seat, "left with 0");
    }
}

/// What time it takes is `cargo xtask bench surfaces`; here is what does not depend on the machine: the
/// first frame stands on the first look alone, while whatever else is read has not even begun.
#[test]
fn row_30_the_first_frame_needs_the_first_look_and_no_more() {
    let stage = Stage::new(Name::Ostler);
    for number in 0..300 {
        let id = format!("11111111-1111-4111-8111-{number:012}");
        let line = json!({
            "type": "user", "sessionId": id, "cwd": "/a", "timestamp": "2026-11-15T10:00:00.000Z",
            "message": { "role": "user", "content": format!("question {number}") }
        });
        stage.home.write(format!(".claude/projects/-a/{id}.jsonl"), format!("{line}\n"));
    }
    lay_out_question(&stage);
    subject(&stage, "builder", &["/bin/bash", "-c", "echo BUILT $((1+1)); cat"]);
    let pauses = Pauses::new();
    // Neither a terminal's screen nor what was said is there before these are let go.
    pauses.arm("top.preview");
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let words = format!("OSTLER_PAUSE={} {ostler} top", pauses.path().display());
    let seat = seat_of(&stage, (120, 40), &words);
    pauses.wait("top.preview");
    shows(&stage, &seat, "builder");
    let screen = fits(&stage, &seat, (120, 40));
    assert!(screen.contains("▲ 1 needs you") && !screen.contains("1. Yes"), "{screen}");
    assert!(!screen.contains("question 7"), "ended ones are not asked for: {screen}");
    pauses.release("top.preview");
    shows(&stage, &seat, "1. Yes");
}
