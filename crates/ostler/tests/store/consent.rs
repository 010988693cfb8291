//! A person is asked before anything goes: on a real terminal.

use std::process::Command;
use std::time::{Duration, Instant};

use sys::pty::{PtyMaster, PtyRead, PtySize, spawn_on_pty};

use super::stage::{DAY, Stage, aged};

/// How long a program may take to say something. Hearing it ends the wait at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads until the terminal has said `words`, or until its end.
fn hear(master: &PtyMaster, words: Option<&str>) -> String {
    let (mut heard, mut buffer, begun) = (Vec::new(), [0; 4096], Instant::now());
    loop {
        let text = String::from_utf8_lossy(&heard).into_owned();
        if words.is_some_and(|words| text.contains(words)) {
            return text;
        }
        assert!(begun.elapsed() < PATIENCE, "waited for {words:?}, heard {text}");
        match master.read(&mut buffer).unwrap() {
            PtyRead::Bytes(count) => heard.extend_from_slice(&buffer[..count]),
            PtyRead::Nothing => std::thread::sleep(Duration::from_millis(2)),
            PtyRead::Closed => {
                assert!(words.is_none(), "it ended before it said {words:?}: {text}");
                return text;
            }
        }
    }
}

/// Answers the questions of a command, in order; gives what it said last and how it ended.
fn answered(command: Command, question: &str, answers: &[&str]) -> (String, Option<i32>) {
    let (master, program) = spawn_on_pty(command, PtySize { cols: 200, rows: 50 }).unwrap();
    for answer in answers {
        hear(&master, Some(question));
        assert_eq!(master.write(answer.as_bytes()).unwrap(), answer.len());
    }
    let said = hear(&master, None);
    (said, program.reap().unwrap().code())
}

fn stage() -> Stage {
    let stage = Stage::new();
    stage.index(&[("agent:main:old", aged("old", 31 * DAY)), ("agent:main:new", aged("new", 0))]);
    stage
}

#[test]
fn a_cleanup_shows_its_plan_and_asks() {
    let stage = stage();
    let question = "Carry this out? [y/N]";
    for no in ["n\n", "\n", "what\n"] {
        let (_, code) = answered(stage.command("cleanup"), question, &[no]);
        assert_eq!((code, stage.keys().len()), (Some(0), 2), "{no:?}");
    }
    let (said, code) = answered(stage.command("cleanup"), question, &["y\n"]);
    assert_eq!((code, stage.keys()), (Some(0), vec!["agent:main:new".to_owned()]));
    assert!(said.contains("ostler undo"), "{said}");
    // Nothing to do needs no consent.
    let (said, code) = answered(stage.command("cleanup"), question, &[]);
    assert!(said.contains("nothing went") && code == Some(0), "{said}");
}

#[test]
fn a_plan_that_has_changed_is_shown_again() {
    let stage = stage();
    let question = "Carry this out? [y/N]";
    let (master, program) =
        spawn_on_pty(stage.command("cleanup"), PtySize { cols: 200, rows: 50 }).unwrap();
    hear(&master, Some(question));
    stage.index(&[
        ("agent:main:old", aged("old", 31 * DAY)),
        ("agent:main:older", aged("older", 32 * DAY)),
        ("agent:main:new", aged("new", 0)),
    ]);
    master.write(b"y\n").unwrap();
    let again = hear(&master, Some(question));
    assert!(again.contains("agent:main:older"), "{again}");
    assert_eq!(stage.keys().len(), 3, "nothing went that was not agreed to");
    master.write(b"y\n").unwrap();
    hear(&master, None);
    assert_eq!(program.reap().unwrap().code(), Some(0));
    assert_eq!(stage.keys(), ["agent:main:new"]);
}

#[test]
fn a_rebuild_asks_too() {
    let stage = Stage::new();
    stage.write("sessions.json", "{\"a\"");
    stage.transcript("s");
    let question = "Write this index? [y/N]";
    answered(stage.command("rebuild"), question, &["n\n"]);
    assert_eq!(stage.text(), "{\"a\"");
    answered(stage.command("rebuild"), question, &["yes\n"]);
    assert_eq!(stage.keys(), ["agent:main:recovered:s"]);
}
