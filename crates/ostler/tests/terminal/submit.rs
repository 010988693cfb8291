//! Submitting prompts (control rows 6, 9, 12 to 17, 20) to a fake agent that does the wrong thing on purpose.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flows::terminal::stream::{self, FrameKind};
use flows::terminal::submit::{settle_submission, submit_text};
use flows::terminal::{HostedSession, TerminalHome};
use model::hosted::wire::{AttachParams, SubmissionState, SubmitParams, SubmitResult};
use model::hosted::{FaultCode, HostFault};
use serde_json::Value;

use super::stage::{Name, Stage, kill, until};

/// A session with a fake agent in it.
struct FakeAgent {
    stage: Stage,
    id: String,
    record: PathBuf,
}

impl FakeAgent {
    fn start(options: &[&str]) -> Self {
        let stage = Stage::new(Name::Ostler);
        let record = stage.home.join("record");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/terminal/fake_agent.py");
        let mut command = vec!["python3", script.to_str().unwrap(), record.to_str().unwrap()];
        command.extend(options);
        let id = stage.create(&command);
        Self { stage, id, record }
    }

    fn session(&self) -> HostedSession {
        let machine = sys::machine::Machine::with_home(self.stage.root.clone());
        TerminalHome::at_root(&self.stage.root, &machine).open_session(&self.id).unwrap()
    }

    fn submit(&self, delivery: &str, text: &str) -> Result<SubmitResult, HostFault> {
        submit(&self.session(), delivery, text, 20_000)
    }

    /// What it noted under that name, in order.
    fn noted(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.record).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter_map(|line| line.get(name).cloned()).collect()
    }

    /// Events of the log that are input.
    fn inputs(&self) -> Vec<Value> {
        let is_input =
            |event: &Value| event["type"].as_str().is_some_and(|kind| kind.starts_with("input"));
        self.stage.events(&self.id).into_iter().filter(is_input).collect()
    }
}

fn submit(
    session: &HostedSession,
    delivery: &str,
    text: &str,
    ready_ms: u64,
) -> Result<SubmitResult, HostFault> {
    let params = SubmitParams {
        delivery: delivery.to_owned(),
        text: text.to_owned(),
        ready_timeout_ms: Some(ready_ms),
        ..SubmitParams::default()
    };
    submit_text(session, &params, Duration::from_secs(60))
}

const TEXT: &str = "please mend the parser, then run all of its tests";

#[test]
fn row_06_enters_that_are_swallowed_are_pressed_again_and_the_text_is_pasted_once() {
    for (swallowed, enters, state) in [
        ("swallow=0", 1, SubmissionState::Submitted),
        ("swallow=1", 2, SubmissionState::Submitted),
        ("swallow=3", 4, SubmissionState::Submitted),
        ("swallow=99", 4, SubmissionState::Stuck),
    ] {
        let agent = FakeAgent::start(&[swallowed]);
        let result = agent.submit("d", TEXT).unwrap();
        assert_eq!((result.state, result.enters), (state, enters), "{result:?}");
        assert!(result.composed_ms.unwrap() >= 120, "{result:?}");
        assert_eq!(agent.noted("pasted").len(), 1);
        assert_eq!(agent.noted("enter").len(), enters as usize);
        let taken = if state == SubmissionState::Submitted { vec![TEXT] } else { Vec::new() };
        assert_eq!(agent.noted("prompt"), taken);
        if state == SubmissionState::Stuck {
            // The text still stands there: nothing is pasted behind it.
            let again = agent.submit("e", "something else entirely").unwrap();
            assert_eq!((again.state, again.enters), (SubmissionState::ComposerNotEmpty, 0));
            assert_eq!(agent.noted("pasted").len(), 1);
        }
    }
}

#[test]
fn row_06_a_proof_ends_the_enters() {
    let agent = FakeAgent::start(&["swallow=99"]);
    let session = agent.session();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| agent.submit("d", TEXT).unwrap());
        until("Enter", || !agent.noted("enter").is_empty());
        assert!(settle_submission(&session, "d", true).unwrap().under_way);
        let result = waiting.join().unwrap();
        assert_eq!((result.state, result.enters), (SubmissionState::Submitted, 1));
    });
    assert!(!settle_submission(&session, "d", true).unwrap().under_way);
}

#[test]
fn row_09_a_question_gets_no_enter() {
    for (option, text) in [
        ("opens=1", TEXT),
        ("dialog=1", TEXT),
        ("dialog=1", "1"),
        ("dialog=1", "y"),
        ("dialog=1", "1\n\ny\n"),
    ] {
        let agent = FakeAgent::start(&[option]);
        let result = agent.submit("d", text).unwrap();
        assert_eq!((result.state, result.enters), (SubmissionState::NotComposed, 0), "{text:?}");
        assert!(result.screen.contains("1. Yes"), "{}", result.screen);
        assert_eq!(agent.noted("pasted").len(), 1);
        assert!(agent.noted("enter").is_empty() && agent.noted("approved").is_empty());
    }
}

/// What a question shows of its own: `rm -rf build`, `rm-rf`, its choices, its heading.
const HELD_BY_A_QUESTION: [&str; 5] =
    ["rm -rf build", "Run `rm -rf build`?", "1. Yes", "2. No (esc)", "Yes"];

#[test]
fn row_09_a_question_that_shows_the_text_gets_no_enter() {
    for text in HELD_BY_A_QUESTION {
        let agent = FakeAgent::start(&["opens=1"]);
        let result = agent.submit("d", text).unwrap();
        assert_eq!((result.state, result.enters), (SubmissionState::NotComposed, 0), "{text:?}");
        assert!(agent.noted("enter").is_empty() && agent.noted("approved").is_empty());
    }
}

#[test]
fn row_24_a_question_that_opens_at_any_moment_with_the_text_in_it_is_not_answered() {
    // The paste is never drawn, so that whatever is seen of the text is the question's.
    let tries = 20;
    std::thread::scope(|threads| {
        for lane in 0..4 {
            threads.spawn(move || {
                for number in (lane..tries).step_by(4) {
                    let plain = if number % 2 == 0 { "plain=0" } else { "plain=1" };
                    let pops = format!("pops={}", f64::from(number) * 0.025);
                    let agent = FakeAgent::start(&["show=60", plain, &pops]);
                    let params = SubmitParams {
                        delivery: "d".to_owned(),
                        text: "rm -rf build".to_owned(),
                        ready_timeout_ms: Some(20_000),
                        questions: vec!["Run `".to_owned()],
                        ..SubmitParams::default()
                    };
                    let result =
                        submit_text(&agent.session(), &params, Duration::from_secs(60)).unwrap();
                    let told = (result.state, result.enters);
                    assert_eq!(told, (SubmissionState::NotComposed, 0), "{result:?}");
                    assert!(result.screen.contains("Run `rm -rf build`?"), "{}", result.screen);
                    assert!(agent.noted("approved").is_empty());
                }
            });
        }
    });
}

#[test]
fn row_17_a_submission_for_an_idle_agent_is_not_pasted_once_enter_was_pressed() {
    let agent = FakeAgent::start(&[]);
    let session = agent.session();
    assert_eq!(agent.submit("d", TEXT).unwrap().state, SubmissionState::Submitted);
    let conditional = |delivery: &str, enters: u64| {
        let params = SubmitParams {
            delivery: delivery.to_owned(),
            text: "something else entirely".to_owned(),
            if_enters: Some(enters),
            ..SubmitParams::default()
        };
        submit_text(&session, &params, Duration::from_secs(60)).unwrap()
    };
    let late = conditional("e", 0);
    assert_eq!((late.state, late.enters), (SubmissionState::Overtaken, 0));
    assert_eq!(agent.noted("pasted").len(), 1);
    assert_eq!(conditional("f", 1).state, SubmissionState::Submitted);
}

#[test]
fn row_12_control_characters_are_refused_and_nothing_is_written() {
    let agent = FakeAgent::start(&[]);
    for text in ["a\x1bb", "a\x03b", "a\x1b[201~b", "a\0b", "a\rb", "", "  \n "] {
        let fault = agent.submit("d", text).unwrap_err();
        assert_eq!(fault.code, FaultCode::InvalidInput, "{text:?}");
    }
    assert!(agent.inputs().is_empty());
    // Line feeds and tabs are text.
    let result = agent.submit("d", "first line\r\n\tsecond line\nthird").unwrap();
    assert_eq!(result.state, SubmissionState::Submitted, "{result:?}");
    assert_eq!(agent.noted("prompt"), ["first line\n\tsecond line\nthird"]);
}

#[test]
fn row_13_a_prompt_right_after_create_waits_until_the_program_is_ready() {
    for start in ["start=0", "start=0.1", "start=0.5", "start=1"] {
        let agent = FakeAgent::start(&[start]);
        let result = agent.submit("d", TEXT).unwrap();
        assert_eq!((result.state, result.enters), (SubmissionState::Submitted, 1), "{result:?}");
        assert_eq!(agent.noted("prompt"), [TEXT]);
    }
}

#[test]
fn row_14_a_program_that_never_asks_for_brackets_gets_nothing() {
    for options in [&["paste=0"] as &[&str], &["raw=0"]] {
        let agent = FakeAgent::start(options);
        agent.stage.ok(&["wait", &agent.id, "--text", "for help"]);
        let begun = Instant::now();
        let result = submit(&agent.session(), "d", TEXT, 400).unwrap();
        assert_eq!((result.state, result.enters), (SubmissionState::NotReady, 0));
        assert!(begun.elapsed() >= Duration::from_millis(400));
        assert!(agent.inputs().is_empty() && agent.noted("pasted").is_empty());
    }
}

#[test]
fn row_15_half_a_line_in_the_composer_is_not_written_over() {
    let agent = FakeAgent::start(&[]);
    agent.stage.ok(&["wait", &agent.id, "--text", "for help"]);
    agent.stage.ok(&["type", &agent.id, "half a li"]);
    agent.stage.ok(&["wait", &agent.id, "--text", "half a li"]);
    let result = agent.submit("d", TEXT).unwrap();
    assert_eq!((result.state, result.enters), (SubmissionState::ComposerNotEmpty, 0));
    assert!(agent.noted("pasted").is_empty());
    agent.stage.ok(&["send-keys", &agent.id, "Enter"]);
    let result = agent.submit("d", TEXT).unwrap();
    assert_eq!(result.state, SubmissionState::Submitted, "{result:?}");
    assert_eq!(agent.noted("prompt"), ["half a li", TEXT]);
}

/// A person who watches, on a terminal that is hosted itself.
fn attach(agent: &FakeAgent) -> String {
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let seat = agent.stage.create(&[ostler, "attach", &agent.id]);
    agent.stage.ok(&["wait", &seat, "--text", "for help"]);
    seat
}

#[test]
fn row_15_a_person_who_types_is_not_talked_over() {
    let agent = FakeAgent::start(&[]);
    let seat = attach(&agent);
    agent.stage.ok(&["type", &seat, "hello\r"]);
    agent.stage.ok(&["wait", &agent.id, "--text", "> hello"]);
    let typed = Instant::now();
    let result = agent.submit("d", TEXT).unwrap();
    // On a machine that took longer than that, the person does not type any more.
    if typed.elapsed() < Duration::from_millis(1500) {
        assert_eq!((result.state, result.enters), (SubmissionState::PersonTypes, 0));
        assert!(agent.noted("pasted").is_empty());
    }
    let params = SubmitParams {
        delivery: "over".to_owned(),
        text: TEXT.to_owned(),
        over_person: true,
        ..SubmitParams::default()
    };
    let result = submit_text(&agent.session(), &params, Duration::from_secs(30)).unwrap();
    assert_eq!(result.state, SubmissionState::Submitted, "{result:?}");
}

#[test]
fn row_16_keys_of_a_person_arrive_after_the_enter_in_order() {
    let agent = FakeAgent::start(&["show=1.5"]);
    let seat = attach(&agent);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| agent.submit("d", TEXT).unwrap());
        until("the paste", || !agent.noted("pasted").is_empty());
        for letter in "abcdefghij".chars() {
            agent.stage.ok(&["type", &seat, &letter.to_string()]);
        }
        let result = waiting.join().unwrap();
        assert_eq!((result.state, result.enters), (SubmissionState::Submitted, 1), "{result:?}");
    });
    assert_eq!(agent.noted("prompt"), [TEXT]);
    agent.stage.ok(&["wait", &agent.id, "--text", "> abcdefghij"]);
    assert_eq!(agent.noted("prompt"), [TEXT]);
    assert_eq!(agent.noted("enter").len(), 1);
}

#[test]
fn row_15_a_paste_that_a_question_swallowed_does_not_keep_the_next_prompt_away() {
    for answer in ["1", "y"] {
        let agent = FakeAgent::start(&["opens=1"]);
        agent.stage.ok(&["wait", &agent.id, "--text", "for help"]);
        let result = agent.submit("d", TEXT).unwrap();
        assert_eq!(result.state, SubmissionState::NotComposed, "{result:?}");
        let asked = agent.submit("e", TEXT).unwrap();
        assert_eq!(asked.state, SubmissionState::ComposerNotEmpty, "while it asks");
        agent.stage.ok(&["type", &agent.id, answer]);
        agent.stage.ok(&["wait", &agent.id, "--text", "for help"]);
        let result = agent.submit("f", TEXT).unwrap();
        // The fake one asks at each paste: it got this one, and no Enter.
        assert_eq!(result.state, SubmissionState::NotComposed, "{answer}: {result:?}");
        assert_eq!(agent.noted("pasted").len(), 2, "{answer}");
        assert!(agent.noted("enter").is_empty());
        // What a person types behind it stands there.
        agent.stage.ok(&["type", &agent.id, answer]);
        agent.stage.ok(&["wait", &agent.id, "--text", "for help"]);
        agent.stage.ok(&["type", &agent.id, "half a li"]);
        agent.stage.ok(&["wait", &agent.id, "--text", "half a li"]);
        let kept = agent.submit("g", TEXT).unwrap();
        assert_eq!(kept.state, SubmissionState::ComposerNotEmpty, "{kept:?}");
    }
}

#[test]
fn row_15_a_paste_that_is_not_shown_and_met_no_question_still_stands() {
    let agent = FakeAgent::start(&["show=60"]);
    assert_eq!(agent.submit("d", TEXT).unwrap().state, SubmissionState::NotComposed);
    assert_eq!(agent.submit("e", TEXT).unwrap().state, SubmissionState::ComposerNotEmpty);
    assert_eq!(agent.noted("pasted").len(), 1);
}

/// Takes brackets, shows nothing, and keeps all that it is given.
const SINK: &str = "import os, sys, tty\ntty.setraw(0)\nos.write(1, b'\\x1b[?2004hready')\n\
                    got = open(sys.argv[1], 'wb', 0)\n\
                    while True:\n    got.write(os.read(0, 1 << 20))\n";

#[test]
fn row_16_not_one_of_forty_million_keys_is_lost() {
    let stage = Stage::new(Name::Ostler);
    let got = stage.home.join("got");
    let id = stage.create(&["python3", "-c", SINK, got.to_str().unwrap()]);
    stage.ok(&["wait", &id, "--text", "ready"]);
    let machine = sys::machine::Machine::with_home(stage.root.clone());
    let session = TerminalHome::at_root(&stage.root, &machine).open_session(&id).unwrap();
    let length = || std::fs::metadata(&got).map_or(0, |file| file.len());
    let keys: Vec<u8> =
        (0..5_000_000_u32).flat_map(|at| format!("{at:07} ").into_bytes()).collect();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| submit(&session, "d", TEXT, 20_000).unwrap());
        until("the paste", || length() > 0);
        let params = AttachParams { size: None, read_only: false, take: true, by: None };
        let (_, _, mut stream) = flows::terminal::ask::attach_terminal(&session, params).unwrap();
        let mut frames = Vec::new();
        stream::put_frame(&mut frames, FrameKind::Bytes, &keys);
        // What the terminal shows is read on: the host waits for nobody.
        let mut shown = stream.try_clone().unwrap();
        scope.spawn(move || std::io::copy(&mut shown, &mut std::io::sink()));
        std::io::Write::write_all(&mut stream, &frames).unwrap();
        assert_eq!(waiting.join().unwrap().state, SubmissionState::NotComposed);
        let pasted = TEXT.len() as u64 + 12;
        let whole = pasted + keys.len() as u64;
        let begun = Instant::now();
        while length() < whole && begun.elapsed() < Duration::from_secs(80) {
            std::thread::sleep(Duration::from_millis(20));
        }
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    });
    let got = std::fs::read(&got).unwrap();
    let typed = &got[TEXT.len() + 12..];
    assert_eq!(typed.len(), keys.len());
    assert!(typed == keys, "in their order");
}

#[test]
fn row_17_ten_prompts_at_once_come_one_after_the_other() {
    let agent = FakeAgent::start(&[]);
    let session = agent.session();
    let text = |number: usize| format!("prompt number {number} of those that came at once");
    std::thread::scope(|scope| {
        for number in 0..10 {
            let (session, text) = (&session, text(number));
            scope.spawn(move || {
                let result = submit(session, &format!("d{number}"), &text, 20_000).unwrap();
                assert_eq!((result.state, result.enters), (SubmissionState::Submitted, 1));
            });
        }
    });
    let taken = agent.noted("prompt");
    let pasted: Vec<Value> = agent
        .inputs()
        .iter()
        .filter(|event| event["type"] == "input_paste")
        .map(|event| {
            let data = event["payload"]["data"].as_str().unwrap();
            let text = data.trim_start_matches("\x1b[200~").trim_end_matches("\x1b[201~");
            Value::from(text)
        })
        .collect();
    assert_eq!(taken, pasted, "each once, in the order in which their turn came");
    let mut sorted: Vec<String> =
        taken.iter().map(|one| one.as_str().unwrap().to_owned()).collect();
    sorted.sort();
    assert_eq!(sorted, (0..10).map(text).collect::<Vec<_>>());
}

#[test]
fn row_20_a_host_that_is_killed_in_mid_delivery_is_said_and_nothing_is_sent_again() {
    let agent = FakeAgent::start(&["show=30"]);
    let host = agent.stage.pid(&agent.id, "hostPid");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| agent.submit("d", TEXT));
        until("the paste", || !agent.noted("pasted").is_empty());
        kill(host, "-9");
        let fault = waiting.join().unwrap().unwrap_err();
        let codes = [FaultCode::HostUnreachable, FaultCode::SessionNotRunning];
        assert!(codes.contains(&fault.code), "{fault:?}");
    });
    assert_eq!(agent.noted("pasted").len(), 1);
    assert!(agent.noted("prompt").is_empty() && agent.noted("enter").is_empty());
}

#[test]
fn row_02_a_long_text_behind_a_placeholder_is_submitted() {
    let agent = FakeAgent::start(&["place=1"]);
    let long: String = (0..200).map(|n| format!("line {n} of a long text, 日本 👩‍👩‍👧\n")).collect();
    for delivery in ["d", "e"] {
        let result = agent.submit(delivery, long.trim_end()).unwrap();
        assert_eq!(result.state, SubmissionState::Submitted, "{result:?}");
    }
    assert_eq!(agent.noted("prompt"), [long.trim_end(), long.trim_end()]);
}

#[test]
fn a_program_that_ends_in_mid_delivery_is_said() {
    let agent = FakeAgent::start(&["show=30"]);
    let child = agent.stage.pid(&agent.id, "childPid");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| agent.submit("d", TEXT).unwrap());
        until("the paste", || !agent.noted("pasted").is_empty());
        kill(child, "-9");
        let result = waiting.join().unwrap();
        assert_eq!((result.state, result.enters), (SubmissionState::Ended, 0));
    });
}
