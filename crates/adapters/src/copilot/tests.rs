use super::*;

fn digest(lines: &[&str]) -> TranscriptDigest {
    let mut reading = Reading::default();
    for line in lines {
        reading.read_line(line.as_bytes());
    }
    reading.into_digest()
}

const USAGE: &str = r#"{"type":"session.usage_record","data":{"usage":{"apiCallId":"c1","inputTokens":100,"outputTokens":7,"cacheReadTokens":60,"cacheWriteTokens":30}}}"#;
const SHUTDOWN: &str = r#"{"type":"session.shutdown","timestamp":"2026-11-15T18:00:00.000Z","data":{"modelMetrics":{"a":{"usage":{"inputTokens":50,"outputTokens":1}},"b":{"usage":{"inputTokens":5,"outputTokens":1}}}}}"#;
const RESUME: &str = r#"{"type":"session.resume","data":{}}"#;

#[test]
fn a_request_counts_once_and_a_sum_only_where_nothing_else_was_recorded() {
    let once = TokenUsage { input: 10, output: 7, cache_read: 60, cache_write: 30 };
    assert_eq!(digest(&[USAGE, USAGE, SHUTDOWN]).tokens, Some(once));
    let summed = TokenUsage { input: 55, output: 2, ..TokenUsage::default() };
    assert_eq!(digest(&[SHUTDOWN]).tokens, Some(summed));
    let mut both = once;
    both.add_usage(summed);
    assert_eq!(digest(&[USAGE, SHUTDOWN, RESUME, SHUTDOWN]).tokens, Some(both));
}

#[test]
fn a_resumed_session_has_not_ended() {
    assert_eq!(digest(&[SHUTDOWN]).ended_at, Time::parse("2026-11-15T18:00:00Z"));
    assert_eq!(digest(&[SHUTDOWN, RESUME]).ended_at, None);
}

#[test]
fn a_turn_that_asked_for_tools_goes_on() {
    let start = r#"{"type":"assistant.turn_start","data":{}}"#;
    let end = r#"{"type":"assistant.turn_end","data":{}}"#;
    let asks = r#"{"type":"assistant.message","data":{"toolRequests":[{"name":"bash"}]}}"#;
    let says = r#"{"type":"assistant.message","data":{"content":"done","toolRequests":[]}}"#;
    assert_eq!(digest(&[start, asks, end]).turn, TurnState::Open);
    assert_eq!(digest(&[start, asks, end, start, says, end]).turn, TurnState::Closed);
}

#[test]
fn injected_messages_and_those_to_sub_agents_are_no_prompts() {
    let read = digest(&[
        r#"{"type":"user.message","data":{"content":"hello"}}"#,
        r#"{"type":"user.message","data":{"content":"skill","source":"skill-pdf"}}"#,
        r#"{"type":"user.message","agentId":"a1","data":{"content":"explore"}}"#,
    ]);
    assert_eq!((read.turns, read.first_prompt.as_deref()), (1, Some("hello")));
}

#[test]
fn a_workspace_is_read_however_its_strings_are_quoted() {
    let read =
        |name: &str| Workspace::parse(&format!("cwd: /a: b\nname: {name}\nuser_named: true\n"));
    assert_eq!(read("plain").cwd.as_deref(), Some("/a: b"));
    assert_eq!(read("'it''s'").name.as_deref(), Some("it's"));
    assert_eq!(read(r#""a\nb""#).name.as_deref(), Some("a\nb"));
    let block = read("|-\n  two\n  lines");
    assert_eq!((block.name.as_deref(), block.user_named), (Some("two\nlines"), true));
    assert_eq!(Workspace::parse("\u{0}\n::\n - x"), Workspace::default());
}
