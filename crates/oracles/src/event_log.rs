//! The log of a hosted session, written by any program, damaged or not.

use std::path::Path;

use host::log::{self, LogReader};
use host::screen::ScreenLimits;
use model::hosted::{LogFact, LogPayload, SessionManifest};
use model::time::Time;
use serde_json::Value;

use crate::scratch;

const MANIFEST: &str = r#"{"version":1,"sessionId":"01J","createdAt":"2026-11-15T10:00:00.000Z",
    "updatedAt":"2026-11-15T10:00:01.000Z","status":"exited","command":["/bin/sh"],"cwd":"/",
    "cols":20,"rows":6,"hostPid":4,"childPid":5,"exitCode":0,"exitSignal":null}"#;

/// How many lines from the end the last event is looked for.
const LAST_LINES: usize = 16;

/// How many problems are named.
const MOST_PROBLEMS: usize = 100;

#[derive(Clone, Debug, PartialEq)]
enum Told {
    Output(Vec<u8>),
    Fact(LogFact),
}

#[derive(Clone, Debug, PartialEq)]
struct Event {
    /// Where its line ends, which is its own name here.
    ends: u64,
    seq: u64,
    at: Time,
    told: Told,
}

/// Every line is told, named or torn; what is valid is understood as a full parser understands it; and it
/// does not matter where reading begins.
pub fn event_log(bytes: &[u8]) {
    scratch::with(|directory| {
        std::fs::write(directory.join(log::LOG_FILE), bytes).expect("the log");
        ask(directory, bytes);
    });
}

fn ask(directory: &Path, bytes: &[u8]) {
    let lines = lines(bytes);
    let whole = lines.last().map_or(0, |line| line.ends);
    let length = bytes.len() as u64;
    let torn = (whole < length).then_some(length - whole);

    let mut reader = LogReader::open(directory).expect("it is there");
    let events = read(&mut reader);
    assert_eq!((reader.offset(), reader.torn), (whole, torn));
    assert!(reader.problems.is_sorted_by_key(|problem| problem.offset));
    let begins: Vec<u64> = lines.iter().map(|line| line.begins).collect();
    assert!(reader.problems.iter().all(|problem| begins.contains(&problem.offset)));
    let event_of = |line: &Line<'_>| events.iter().find(|event| event.ends == line.ends);
    for line in &lines {
        let is_named = reader.problems.iter().any(|problem| problem.offset == line.begins);
        assert!(event_of(line).is_some() || is_named || reader.problems.len() == MOST_PROBLEMS);
        check_line(line.text, event_of(line));
    }
    assert_eq!(lines.iter().filter_map(event_of).count(), events.len());

    if let Some(line) = lines.get(lines.len() / 2) {
        let mut reader = LogReader::open_anywhere(directory, line.begins).expect("it is there");
        let rest = events.iter().filter(|event| event.ends > line.begins);
        assert!(read(&mut reader).iter().eq(rest));
    }
    let last = lines.iter().rev().take(LAST_LINES).find_map(event_of);
    let told = log::last_event(directory).expect("it is there");
    assert_eq!(told, last.map(|event| (event.seq, event.at)));

    let manifest: SessionManifest = serde_json::from_str(MANIFEST).expect("a manifest");
    let limits = ScreenLimits { scrollback_lines: 100 };
    let replayed = host::replay::replay_log(directory, &manifest, limits).expect("it is there");
    assert_eq!((replayed.torn, replayed.problems), (torn, reader.problems));

    assert_eq!(log::repair_log(directory).expect("it is there"), torn);
    let mut repaired = LogReader::open(directory).expect("it is there");
    assert_eq!((read(&mut repaired), repaired.torn), (events, None));
}

fn read(reader: &mut LogReader) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().expect("it can be read") {
        let told = match event.payload {
            LogPayload::Output(bytes) => Told::Output(bytes.to_vec()),
            LogPayload::Fact(fact) => Told::Fact(fact),
        };
        let (seq, at) = (event.seq, event.at);
        events.push(Event { ends: reader.offset(), seq, at, told });
    }
    events
}

/// A line, with its end.
struct Line<'a> {
    begins: u64,
    ends: u64,
    text: &'a [u8],
}

fn lines(bytes: &[u8]) -> Vec<Line<'_>> {
    let mut begins = 0;
    let mut lines = Vec::new();
    for text in bytes.split_inclusive(|byte| *byte == b'\n') {
        if text.ends_with(b"\n") {
            let ends = begins + text.len() as u64;
            lines.push(Line { begins, ends, text });
            begins = ends;
        }
    }
    lines
}

fn check_line(line: &[u8], event: Option<&Event>) {
    let (Some(event), Ok(value)) = (event, serde_json::from_slice::<Value>(line)) else { return };
    assert_eq!(value["seq"].as_u64(), Some(event.seq));
    match &event.told {
        Told::Output(bytes) => {
            assert_eq!(value["type"], "output");
            let text = value["payload"]["data"].as_str().expect("output has text");
            if value["payload"]["raw"].is_null() {
                assert_eq!(bytes, text.as_bytes());
            }
        }
        Told::Fact(fact) => {
            let again = serde_json::to_value(fact).expect("a fact can be written");
            assert_eq!(again["type"], value["type"]);
        }
    }
}
