//! Permission requests: one answer, from somebody else, while the agent waits.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::home::TempHome;

use super::agent::{Agent, spooled, state};
use super::run::{Ran, claude_session, ostler, ran, run};

const ID: &str = "11111111-1111-4111-8111-111111111111";

/// A hook that waits, as an agent runs it.
struct AskingHook(Child);

impl AskingHook {
    fn ask(home: &TempHome, agent: &str, marker: &str, payload: &Value) -> Self {
        let mut command = ostler(home);
        command.args(["hook", agent, "PermissionRequest"]).env("OSTLER_PERMITS", marker);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
        Self(child)
    }

    fn claude(home: &TempHome, marker: &str) -> Self {
        let input = json!({"command": "rm -rf \u{1b}[31mbuild; $(x)"});
        let asked =
            json!({"session_id": ID, "cwd": "/p", "tool_name": "Bash", "tool_input": input});
        Self::ask(home, "claude-code", marker, &asked)
    }

    /// What it told the agent, once it has ended.
    fn answer(mut self) -> String {
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.0.wait().unwrap().success());
        text
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn requests(home: &TempHome) -> Vec<Value> {
    run(home, "permits --json").exits(0).result()["requests"].as_array().unwrap().clone()
}

/// Waits until so many requests are there.
#[track_caller]
fn await_requests(home: &TempHome, count: usize) -> Vec<Value> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let all = requests(home);
        if all.len() == count {
            return all;
        }
        assert!(Instant::now() < until, "{all:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn left_behind(home: &TempHome) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state(home).join("permits")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn row_62_an_answer_reaches_the_agent_in_its_own_words() {
    for agent in ["claude-code", "codex"] {
        let home = TempHome::new();
        let asked = json!({"session_id": ID, "cwd": "/p", "tool_name": "Bash", "tool_input": {"command": "ls"}});
        let hook = AskingHook::ask(&home, agent, "60s", &asked);
        let request = await_requests(&home, 1).remove(0);
        assert_eq!(request["tool"], "Bash");
        assert_eq!(request["input"], json!({"command": "ls"}));
        let answered = run(&home, "permit 1111 --allow --json").exits(0).result();
        assert_eq!(answered["answered"], "allow");
        let said: Value = serde_json::from_str(&hook.answer()).unwrap();
        let decision = &said["hookSpecificOutput"];
        assert_eq!(decision["hookEventName"], "PermissionRequest");
        assert_eq!(decision["decision"], json!({"behavior": "allow"}));
        let hook = AskingHook::ask(&home, agent, "60s", &asked);
        await_requests(&home, 1);
        let mut deny = ostler(&home);
        ran(deny.args(["permit", ID, "--deny", "--message", "not on a Friday"])).exits(0);
        let said: Value = serde_json::from_str(&hook.answer()).unwrap();
        let denied = json!({"behavior": "deny", "message": "not on a Friday"});
        assert_eq!(said["hookSpecificOutput"]["decision"], denied);
        assert!(left_behind(&home).is_empty(), "the request is gone");
        let events = run(&home, "events --json").exits(0).stdout;
        let count = |kind: &str| events.matches(&format!("\"kind\":\"{kind}\"")).count();
        assert_eq!(count("permission.answered"), 2, "{events}");
    }
}

#[test]
fn row_63_a_person_who_is_faster_closes_the_request() {
    let home = TempHome::new();
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    let hook = AskingHook::claude(&home, "60s");
    let request = await_requests(&home, 1).remove(0);
    let begun = Instant::now();
    agent.hook("PostToolUse", json!({"tool_name": "Bash"}));
    assert_eq!(hook.answer(), "", "the agent's own answer stands");
    assert!(begun.elapsed() < Duration::from_secs(5));
    let id = request["request"].as_str().unwrap();
    let late = run(&home, &format!("permit {ID} {id} --allow --json")).exits(4);
    assert!(late.message().contains(id), "{late:?}");
}

#[test]
fn row_63_a_call_that_was_refused_on_the_screen_closes_the_request() {
    let home = TempHome::new();
    let transcript = home.write("transcript.jsonl", "{}\n");
    let asked = json!({"session_id": ID, "cwd": "/p", "tool_name": "Bash", "tool_input": {},
                       "tool_use_id": "toolu_1", "transcript_path": transcript});
    let hook = AskingHook::ask(&home, "claude-code", "60s", &asked);
    await_requests(&home, 1);
    home.append("transcript.jsonl", r#"{"content":[{"tool_use_id":"toolu_0"}]}"#);
    assert_eq!(requests(&home).len(), 1, "another call");
    home.append(
        "transcript.jsonl",
        r#"{"content":[{"type":"tool_result","tool_use_id":"toolu_1"}]}"#,
    );
    assert_eq!(hook.answer(), "");
}

#[test]
fn row_64_of_two_answers_one_is_taken_and_a_dead_request_takes_none() {
    let home = TempHome::new();
    claude_session(&home, ID, "/p", "do it");
    let hook = AskingHook::claude(&home, "60s");
    await_requests(&home, 1);
    let answer = |verdict: &str| {
        let mut command = ostler(&home);
        command.args(["permit", ID, verdict]);
        move || ran(&mut command)
    };
    let (mut allow, mut deny) = (answer("--allow"), answer("--deny"));
    let codes: Vec<Ran> = std::thread::scope(|scope| {
        let both = [scope.spawn(&mut allow), scope.spawn(&mut deny)];
        both.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let taken = codes.iter().filter(|one| one.code == 0).count();
    assert_eq!(taken, 1, "{codes:?}");
    assert!(codes.iter().all(|one| [0, 4].contains(&one.code)), "{codes:?}");
    let said = hook.answer();
    assert_eq!(said.contains("\"allow\""), codes[0].code == 0, "{said}");
    let killed = AskingHook::claude(&home, "60s");
    let request = await_requests(&home, 1).remove(0);
    killed.kill();
    assert!(requests(&home).is_empty(), "it died with its process");
    let id = request["request"].as_str().unwrap();
    run(&home, &format!("permit {ID} {id} --allow")).exits(4);
}

#[test]
fn row_65_nobody_answers_and_the_agents_own_question_remains() {
    let home = TempHome::new();
    claude_session(&home, ID, "/p", "do it");
    let begun = Instant::now();
    let hook = AskingHook::claude(&home, "1s");
    assert_eq!(hook.answer(), "", "no answer of its own");
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert!(left_behind(&home).is_empty());
    run(&home, &format!("permit {ID} --allow")).exits(4);
}

#[test]
fn row_66_without_a_marker_or_with_a_home_that_cannot_be_used_it_returns_at_once() {
    let home = TempHome::new();
    for marker in ["", "soon"] {
        let begun = Instant::now();
        assert_eq!(AskingHook::claude(&home, marker).answer(), "");
        assert!(begun.elapsed() < Duration::from_secs(2));
    }
    assert!(left_behind(&home).is_empty());
    let lost = TempHome::new();
    lost.write(".local/state/ostler", "not a directory");
    let begun = Instant::now();
    assert_eq!(AskingHook::claude(&lost, "60s").answer(), "");
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[test]
fn row_67_a_huge_or_hostile_request_is_whole_or_named_as_cut_and_shown_escaped() {
    let home = TempHome::new();
    let hook = AskingHook::claude(&home, "60s");
    await_requests(&home, 1);
    let shown = run(&home, "permits").exits(0).stdout;
    assert!(!shown.contains('\u{1b}') && shown.contains("[31mbuild"), "{shown:?}");
    run(&home, "permit 1111 --deny").exits(0);
    hook.answer();
    let large = "x".repeat(700 << 10);
    let asked = json!({"session_id": ID, "tool_name": "Write", "tool_input": {"content": large}});
    let hook = AskingHook::ask(&home, "claude-code", "60s", &asked);
    let request = await_requests(&home, 1).remove(0);
    assert_eq!(request["input"]["content"].as_str().unwrap().len(), 700 << 10, "whole");
    run(&home, "permit 1111 --deny").exits(0);
    hook.answer();
    let asked = json!({"session_id": ID, "tool_name": "Write", "tool_input": {"content": "y".repeat(2 << 20)}});
    let mut command = ostler(&home);
    command.args(["hook", "claude-code", "PermissionRequest"]).env("OSTLER_PERMITS", "60s");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // It reads only so much of it.
    let mut stdin = child.stdin.take().unwrap();
    let feeding = std::thread::spawn(move || drop(stdin.write_all(asked.to_string().as_bytes())));
    let request = await_requests(&home, 1).remove(0);
    assert_eq!((&request["cut"], &request["input"]), (&json!(true), &Value::Null));
    run(&home, "permit 1111 --deny").exits(0);
    child.wait().unwrap();
    feeding.join().unwrap();
}

#[test]
fn row_68_an_agent_does_not_permit_anything_to_itself() {
    let home = TempHome::new();
    let agent = home.join("claude");
    std::fs::copy("/bin/bash", &agent).unwrap();
    let script = r#"
        export CLAUDE_PID=$$
        printf '%s' "$PAYLOAD" | OSTLER_PERMITS=60s "$OSTLER" hook claude-code PermissionRequest > answer &
        while [ -z "$(ls .local/state/ostler/permits/*.json 2>/dev/null)" ]; do sleep 0.01; done
        "$OSTLER" permit 1111 --allow --json > said; echo "exit $?" >> said; wait
    "#;
    let asked = json!({"session_id": ID, "tool_name": "Bash", "tool_input": {}});
    let mut command = testkit::run::bare(&agent, &home);
    command.args(["-c", script]).env("OSTLER", env!("CARGO_BIN_EXE_ostler"));
    command.env("PAYLOAD", asked.to_string());
    let mut child = command.spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let said = loop {
        let said = std::fs::read_to_string(home.join("said")).unwrap_or_default();
        if said.contains("exit") {
            break said;
        }
        assert!(Instant::now() < until, "it did not try: {said}");
        std::thread::sleep(Duration::from_millis(5));
    };
    run(&home, "permit 1111 --deny").exits(0);
    child.wait().unwrap();
    assert!(said.contains("exit 13") && said.contains("is-calling"), "{said}");
    assert!(std::fs::read_to_string(home.join("answer")).unwrap().contains("deny"));
}

#[test]
fn a_waiting_hook_rests_and_one_that_is_there_for_nothing_else_reports_nothing() {
    let home = TempHome::new();
    let hook = AskingHook::claude(&home, "only:60s");
    await_requests(&home, 1);
    let happenings: Vec<Value> =
        spooled(&home).into_iter().map(|line| line["happening"].clone()).collect();
    assert_eq!(happenings, ["sign"], "another hook of the agent tells that it waits");
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", hook.0.id())).unwrap();
    let used = |stat: String| {
        let words: Vec<String> =
            stat.rsplit(") ").next().unwrap().split(' ').map(str::to_owned).collect();
        (words[11].clone(), words[12].clone())
    };
    let before = used(stat());
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(used(stat()), before, "it used processor time");
    run(&home, "finalize").exits(0);
    let events = run(&home, "events --json").exits(0).stdout;
    assert!(events.contains("\"permission.requested\""), "{events}");
    let metrics = run(&home, "metrics").exits(0).stdout;
    assert!(metrics.contains("ostler_permissions_pending{agent=\"claude-code\"} 1"), "{metrics}");
    run(&home, "permit 1111 --allow").exits(0);
    hook.answer();
}
