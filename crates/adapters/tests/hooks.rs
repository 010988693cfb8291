//! Payloads that real agents sent to hooks, and what they are understood as.

#![allow(clippy::unwrap_used, reason = "a test says what it means with unwrap")]
#![allow(clippy::disallowed_methods, reason = "fixtures of our own")]

use model::event::HookHappening;
use ostler_adapters::{self as adapters, hooks};
use serde_json::value::RawValue;

#[derive(serde::Deserialize)]
struct Line<'a> {
    event: String,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// What the hooks of one real run said, event by event.
fn told(agent: &str, version: &str) -> Vec<(String, Option<model::event::HookEvent>)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/hook-payloads");
    let lines = std::fs::read_to_string(format!("{directory}/{agent}-{version}.jsonl")).unwrap();
    let hooks = adapters::by_id(agent).unwrap().agent_profile().hooks.unwrap();
    let read = |line: &str| {
        let line: Line<'_> = serde_json::from_str(line).unwrap();
        let told = hooks::read_hook_event(hooks, &line.event, line.payload.get().as_bytes());
        (line.event, told)
    };
    lines.lines().map(read).collect()
}

/// The happenings of the main conversation, with repetitions as they came.
fn happenings(agent: &str, version: &str) -> Vec<&'static str> {
    let events = told(agent, version).into_iter().filter_map(|(_, event)| event);
    events.filter(|event| event.subagent.is_none()).map(|event| event.happening.as_str()).collect()
}

#[test]
fn claude_code_tells_of_turns_questions_and_ends() {
    let told = happenings("claude-code", "2.1.325");
    let first = ["session-start", "turn-start", "turn-end", "turn-start", "waiting", "waiting"];
    assert_eq!(told[..6], first);
    assert_eq!(told[6..8], ["progress", "turn-end"]);
    assert_eq!(told.iter().filter(|word| **word == "session-end").count(), 2);
    assert_eq!(told.last(), Some(&"session-end"));
}

#[test]
fn a_subagent_is_named_as_one() {
    let events = told("claude-code", "2.1.325");
    let subagent = |(event, told): &(String, Option<model::event::HookEvent>)| {
        event.starts_with("Subagent").then(|| told.as_ref().unwrap().subagent.is_some())
    };
    assert_eq!(events.iter().filter_map(subagent).collect::<Vec<_>>(), [true, true]);
}

#[test]
fn codex_tells_of_turns_and_questions() {
    let told = happenings("codex", "0.166.0");
    let expected =
        ["session-start", "turn-start", "turn-end", "turn-start", "waiting", "session-end"];
    assert_eq!(told, expected);
}

#[test]
fn a_question_is_told_with_what_the_tool_is_to_do() {
    let asked = |input: &str| {
        let hooks = adapters::by_id("claude-code").unwrap().agent_profile().hooks.unwrap();
        let payload = format!(r#"{{"session_id":"s","tool_name":"T","tool_input":{input}}}"#);
        let told = hooks::read_hook_event(hooks, "PermissionRequest", payload.as_bytes()).unwrap();
        assert_eq!(told.detail.as_deref(), Some("T"));
        told.message
    };
    let known = [
        (r#"{"description":"d","command":"cargo test"}"#, "cargo test"),
        (r#"{"file_path":"/a b","content":"long"}"#, "/a b"),
        (r#"{"url":"https://x.example"}"#, "https://x.example"),
        (r#"{"questions":[{"question":"Which of the two?","options":[]}]}"#, "Which of the two?"),
    ];
    for (input, about) in known {
        assert_eq!(asked(input).as_deref(), Some(about), "{input}");
    }
    for input in ["{}", "[]", "null", r#""text""#, r#"{"command":7}"#, r#"{"questions":[]}"#] {
        assert_eq!(asked(input), None, "{input}");
    }
    let long = asked(&format!(r#"{{"command":"{}"}}"#, "é".repeat(5000))).unwrap();
    assert_eq!(long.chars().count(), 301, "a glance, not a page");
    // Real ones, of real runs.
    for (agent, version) in [("claude-code", "2.1.325"), ("codex", "0.166.0")] {
        let mut events = told(agent, version).into_iter();
        let asks = events.find(|(event, _)| event == "PermissionRequest").unwrap().1.unwrap();
        assert!(asks.detail.is_some() && asks.message.is_some(), "{agent}: {asks:?}");
    }
}

#[test]
fn gemini_calls_a_turn_an_agent() {
    let told = happenings("gemini", "0.61.0");
    let expected = [
        "session-start",
        "turn-start",
        "compaction",
        "progress",
        "compaction",
        "turn-end",
        "session-end",
    ];
    assert_eq!(told, expected);
}

#[test]
fn qwen_submits_an_empty_prompt_after_a_tool() {
    let told = happenings("qwen", "0.24.4");
    assert_eq!(told, ["session-start", "sign", "turn-start", "progress", "progress", "turn-end"]);
}

#[test]
fn copilot_writes_its_names_in_camel_case() {
    let told = happenings("copilot", "1.0.102");
    let expected =
        ["session-start", "turn-start", "progress", "progress", "turn-end", "session-end"];
    assert_eq!(told, expected);
}

#[test]
fn droid_starts_its_turns_with_a_tool() {
    let told = happenings("droid", "0.215.0");
    assert_eq!(told, ["session-start", "progress", "progress", "turn-end", "session-end"]);
}

#[test]
fn kimi_gives_its_prompt_in_blocks() {
    let events = told("kimi", "2.1.0");
    let prompt = events.iter().find_map(|(_, event)| event.as_ref()?.prompt.as_deref());
    assert!(prompt.unwrap().ends_with("] go"), "{prompt:?}");
    let told = happenings("kimi", "2.1.0");
    assert_eq!(told, ["session-start", "turn-start", "progress", "progress", "turn-end"]);
}

#[test]
fn every_payload_names_a_session_its_directory_and_only_starts_carry_a_prompt() {
    for (agent, version) in [
        ("claude-code", "2.1.325"),
        ("codex", "0.166.0"),
        ("copilot", "1.0.102"),
        ("droid", "0.215.0"),
        ("gemini", "0.61.0"),
        ("kimi", "2.1.0"),
        ("qwen", "0.24.4"),
    ] {
        for (name, event) in told(agent, version) {
            let Some(event) = event else { continue };
            assert!(event.session.len() > 20, "{agent} {name}");
            assert_eq!(event.cwd.as_deref(), Some("/home/user/repo"), "{agent} {name}");
            let starts = event.happening == HookHappening::TurnStart;
            assert_eq!(event.prompt.is_some(), starts, "{agent} {name}");
        }
    }
}

#[test]
fn the_notify_program_of_codex_tells_of_the_end_of_a_turn() {
    let hooks = adapters::by_id("codex").unwrap().agent_profile().hooks.unwrap();
    let payload = br#"{"type":"agent-turn-complete","thread-id":"01a1e05b","turn-id":"t",
        "cwd":"/home/user/repo","input-messages":["hi"],"last-assistant-message":"hello"}"#;
    let event = hooks::read_hook_event(hooks, "notify", payload).unwrap();
    assert_eq!((event.session.as_str(), event.happening), ("01a1e05b", HookHappening::TurnEnd));
    assert_eq!(event.message.as_deref(), Some("hello"));
}

#[test]
fn what_cannot_be_understood_says_nothing() {
    let hooks = adapters::by_id("claude-code").unwrap().agent_profile().hooks.unwrap();
    let garbage: [&[u8]; 9] = [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"{\"session_id\":7}",
        b"{\"session_id\":\"\"}",
        b"{\"session_id\":\"a\\nb\"}",
        b"{\"cwd\":\"/\"}",
    ];
    for payload in garbage {
        assert_eq!(hooks::read_hook_event(hooks, "Stop", payload), None);
    }
    assert_eq!(hooks::read_hook_event(hooks, "Nonsense", b"{\"session_id\":\"a\"}"), None);
}

#[test]
fn b3_a_permission_that_gemini_asks_for_is_waiting() {
    let hooks = adapters::by_id("gemini").unwrap().agent_profile().hooks.unwrap();
    let payload = br#"{"session_id":"s1","cwd":"/repo","notification_type":"ToolPermission","message":"Tool Confirm Shell Command requires execution","details":{"type":"exec"}}"#;
    let told = hooks::read_hook_event(hooks, "Notification", payload).unwrap();
    assert_eq!(told.happening.as_str(), "waiting");
    assert_eq!(told.message.as_deref(), Some("Tool Confirm Shell Command requires execution"));
}
