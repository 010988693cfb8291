use model::time::Time;

use super::survey::thread_of;
use super::*;

fn digest(lines: &[&str]) -> TranscriptDigest {
    let mut reading = Reading { thread: "t1", ..Reading::default() };
    for line in lines {
        reading.read_line(line.as_bytes());
    }
    reading.into_digest()
}

#[test]
fn b3_an_escalated_call_without_output_asks() {
    let begun = r#"{"type":"event_msg","payload":{"type":"task_started"}}"#;
    let call = r#"{"type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{\"cmd\": \"touch /etc/x\", \"sandbox_permissions\": \"require_escalated\"}","call_id":"c1"}}"#;
    let plain = r#"{"type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{\"cmd\": \"make\"}","call_id":"c0"}}"#;
    let output = r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"ok"}}"#;
    let aborted = r#"{"type":"event_msg","payload":{"type":"turn_aborted"}}"#;
    let asking = TurnState::Asking(Some("touch /etc/x".into()));
    assert_eq!(digest(&[begun, plain]).turn, TurnState::Open);
    assert_eq!(digest(&[begun, plain, call]).turn, asking);
    assert_eq!(digest(&[begun, call, output]).turn, TurnState::Open);
    assert_eq!(digest(&[begun, call, aborted]).turn, TurnState::Closed);
    let old = call.replace(
        r#"\"sandbox_permissions\": \"require_escalated\""#,
        r#"\"with_escalated_permissions\": true"#,
    );
    assert_eq!(digest(&[begun, &old]).turn, asking);
    let question = call.replace("exec_command", "request_user_input");
    assert_eq!(digest(&[begun, &question]).turn, TurnState::Waiting(Some("an answer".into())));
}

#[test]
fn t3_a_total_without_the_last_request_is_the_whole() {
    let count = |input: u32, cached: u32| {
        format!(
            r#"{{"type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{input},"cached_input_tokens":{cached},"output_tokens":7}}}}}}}}"#
        )
    };
    let tokens = digest(&[&count(500, 0), &count(900, 100)]).tokens.unwrap();
    assert_eq!((tokens.input, tokens.cache_read, tokens.output), (800, 100, 7));
}

#[test]
fn a_repeated_running_total_is_counted_once_and_cached_input_is_taken_out() {
    let count = |total: u32| {
        format!(
            r#"{{"type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{total}}},"last_token_usage":{{"input_tokens":100,"cached_input_tokens":60,"output_tokens":9,"reasoning_output_tokens":4}}}}}}}}"#
        )
    };
    let no_info = r#"{"type":"event_msg","payload":{"type":"token_count","info":null}}"#;
    let read = digest(&[no_info, &count(100), &count(100), &count(200)]);
    assert_eq!(
        read.tokens,
        Some(TokenUsage { input: 80, output: 18, cache_read: 120, cache_write: 0 })
    );
}

#[test]
fn usage_records_win_over_totals_and_those_of_another_thread_do_not_count() {
    let record = |thread: &str, response: &str| {
        format!(
            r#"{{"type":"token_usage_record","payload":{{"thread_id":"{thread}","response_id":"{response}","usage":{{"input_tokens":10,"output_tokens":2}},"thread_token_usage":{{"input_tokens":999}}}}}}"#
        )
    };
    let count = r#"{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":999},"last_token_usage":{"input_tokens":999}}}}"#;
    let read = digest(&[
        &record("parent", "r0"),
        &record("t1", "r1"),
        &record("t1", "r1"),
        count,
        &record("t1", "r2"),
    ]);
    let tokens = TokenUsage { input: 20, output: 4, ..TokenUsage::default() };
    assert_eq!(read.tokens, Some(tokens));
}

#[test]
fn older_events_are_prompts_and_leave_the_turn_open_or_unknown() {
    let prompt = r#"{"type":"event_msg","payload":{"type":"user_message","message":"fix it"}}"#;
    let item = r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"fix it"}]}}"#;
    let answer = r#"{"type":"event_msg","payload":{"type":"agent_message","message":"done"}}"#;
    let read = digest(&[item, prompt]);
    assert_eq!((read.turns, read.turn), (1, TurnState::Open));
    assert_eq!(digest(&[item, prompt, answer]).turn, TurnState::Unknown);
}

#[test]
fn the_oldest_rollouts_have_no_envelope() {
    let read = digest(&[
        r#"{"id":"t1","timestamp":"2025-06-01T10:00:00.000Z","instructions":null,"git":{"branch":"dev"}}"#,
        r#"{"record_type":"state"}"#,
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>x"}]}"#,
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}"#,
    ]);
    assert_eq!((read.turns, read.first_prompt.as_deref()), (1, Some("hello")));
    assert_eq!(read.branch.as_deref(), Some("dev"));
    assert_eq!(read.started_at, Time::parse("2025-06-01T10:00:00Z"));
    assert_eq!(read.damage.broken, 0);
}

#[test]
fn a_sub_agent_names_its_parent_and_copied_history_changes_nothing() {
    let read = digest(&[
        r#"{"type":"session_meta","payload":{"id":"t1","cwd":"/a","source":{"subagent":{"thread_spawn":{"parent_thread_id":"p","depth":1,"agent_nickname":"Ada"}}}}}"#,
        r#"{"type":"session_meta","payload":{"id":"p","cwd":"/b","source":"cli"}}"#,
    ]);
    assert_eq!(read.parent.as_deref(), Some("p"));
    assert_eq!((read.name.as_deref(), read.cwd.as_deref()), (Some("Ada"), Some("/a")));
    let other = r#"{"type":"session_meta","payload":{"id":"t1","source":{"subagent":"review"}}}"#;
    assert_eq!(digest(&[other]).parent, None);
}

#[test]
fn the_thread_is_the_end_of_the_file_name() {
    let stem = "rollout-2026-11-15T17-55-49-01a1e059-e0bc-7313-8247-ecfc1125a526";
    assert_eq!(thread_of(stem), Some("01a1e059-e0bc-7313-8247-ecfc1125a526"));
    for odd in ["rollout-", "rollout-é1e059-e0bc-7313-8247-ecfc1125a526", "notes"] {
        assert_eq!(thread_of(odd), None, "{odd}");
    }
}
