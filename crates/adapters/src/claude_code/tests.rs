use super::*;

fn digest(lines: &[&str]) -> TranscriptDigest {
    let mut reading = Reading::default();
    for line in lines {
        reading.read_line(line.as_bytes());
    }
    reading.into_digest(false)
}

#[test]
fn b8_a_cost_that_is_older_than_the_last_request_is_not_given() {
    let asked = |id: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"{id}","usage":{{"input_tokens":1,"output_tokens":1}}}}}}"#
        )
    };
    let left = r#"{"type":"cost-state","totalCostUSD":0.5}"#;
    assert_eq!(digest(&[&asked("m1"), left]).cost_micro_usd, Some(500_000));
    assert_eq!(digest(&[&asked("m1"), left, &asked("m2")]).cost_micro_usd, None);
    assert_eq!(digest(&[&asked("m1"), left, &asked("m2"), left]).cost_micro_usd, Some(500_000));
}

#[test]
fn b18_an_interrupt_is_no_prompt() {
    let line = r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user for tool use]"}]}}"#;
    let mut said = Vec::new();
    converse_line(line.as_bytes(), &mut |entry| said.push(entry.role));
    assert_eq!((said, digest(&[line]).turns), (vec![ConversationRole::System], 0));
}

#[test]
fn usage_is_counted_once_per_message() {
    let line = r#"{"type":"assistant","message":{"id":"m1","model":"x","usage":{"input_tokens":10,"output_tokens":3,"cache_read_input_tokens":5}}}"#;
    let later = line.replace(r#""output_tokens":3"#, r#""output_tokens":7"#);
    let other = line.replace("m1", "m2");
    let tokens = digest(&[line, &later, &other, line, &other]).tokens.unwrap();
    assert_eq!(tokens, TokenUsage { input: 20, output: 10, cache_read: 10, cache_write: 0 });
}

#[test]
fn what_every_line_repeats_is_read_again_when_it_changes() {
    let line = |place: &str, at: &str| {
        format!(
            r#"{{"type":"user","timestamp":"2026-11-15T{at}:00:00.000Z","userType":"external",{place},"message":{{"content":"x"}}}}"#
        )
    };
    let one = r#""cwd":"/a","sessionId":"s","version":"1","gitBranch":"main""#;
    let two = r#""cwd":"/a","sessionId":"s","version":"2","gitBranch":"fix""#;
    let last = |lines: &[String]| {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let read = digest(&lines);
        assert_eq!((read.damage.broken, read.turns), (0, lines.len() as u32));
        (read.branch.unwrap(), read.version.unwrap())
    };
    let of = |branch: &str, version: &str| (branch.to_owned(), version.to_owned());
    assert_eq!(last(&[line(one, "10"), line(one, "11"), line(one, "12")]), of("main", "1"));
    assert_eq!(last(&[line(one, "10"), line(one, "11"), line(two, "12")]), of("fix", "2"));
    assert_eq!(last(&[line(one, "10"), line(two, "11"), line(one, "12")]), of("main", "1"));
    // The same fields, but the last of them goes on where the run ended.
    let longer = one.replace("\"main\"", "\"main\", \"slug\": \"x\"");
    assert_eq!(last(&[line(one, "10"), line(&longer, "11")]), of("main", "1"));
}

#[test]
fn a_repeated_block_that_is_passed_over_still_ends_its_turn() {
    let prompt = r#"{"type":"user","cwd":"/a","timestamp":"2026-11-15T10:00:00.000Z","message":{"content":"x"}}"#;
    let block = |id: &str, stop: &str, at: &str, output: u32| {
        format!(
            r#"{{"type":"assistant","timestamp":"2026-11-15T{at}:00:00.000Z","message":{{"id":"{id}","model":"m","content":[],"stop_reason":{stop},"usage":{{"input_tokens":1,"output_tokens":{output}}}}}}}"#
        )
    };
    let read = |lines: &[&str]| {
        let read = digest(lines);
        (
            read.turn,
            read.tokens.unwrap().output,
            read.last_activity_at.unwrap().to_string()[11..13].to_owned(),
        )
    };
    let (open, done) = (block("m1", "null", "11", 5), block("m1", r#""end_turn""#, "12", 5));
    let after = r#"{"type":"last-prompt"}"#;
    let twelve = "12".to_owned();
    assert_eq!(read(&[prompt, &open, &done]), (TurnState::Closed, 5, twelve.clone()));
    assert_eq!(read(&[prompt, &open, &done, after]), (TurnState::Closed, 5, twelve.clone()));
    assert_eq!(
        read(&[prompt, &open, &open, &open, &done, after]),
        (TurnState::Closed, 5, twelve.clone())
    );
    let grown = block("m1", r#""end_turn""#, "12", 9);
    assert_eq!(read(&[prompt, &open, &grown]), (TurnState::Closed, 9, twelve.clone()));
    let other = block("m2", r#""end_turn""#, "12", 5);
    assert_eq!(read(&[prompt, &open, &other]), (TurnState::Closed, 10, twelve));
}

#[test]
fn a_tool_result_that_is_passed_over_still_tells_time_and_place() {
    let prompt = r#"{"type":"user","cwd":"/a","gitBranch":"main","timestamp":"2026-11-15T10:00:00.000Z","message":{"content":"x"}}"#;
    let result = r#"{"type":"user","gitBranch":"fix","version":"9","timestamp":"2026-11-15T11:00:00.000Z","message":{"content":[{"type":"tool_result","content":"y"}]}}"#;
    let read = digest(&[prompt, result, r#"{"type":"mode"}"#, result]);
    assert_eq!((read.turns, &read.turn), (1, &TurnState::Open));
    assert_eq!(read.branch.as_deref(), Some("fix"));
    assert_eq!(read.version.as_deref(), Some("9"));
    assert_eq!(read.last_activity_at, Time::parse("2026-11-15T11:00:00Z"));
    let torn = &result[..result.len() - 5];
    assert_eq!(digest(&[prompt, result, torn]).last_activity_at, read.last_activity_at);
    // Something else that carries tool results does not reopen a turn.
    let done = r#"{"type":"system","subtype":"turn_duration"}"#;
    let request = r#"{"type":"api-request","params":{"messages":[{"role":"user","content":[{"type":"tool_result"}]}]}}"#;
    assert_eq!(digest(&[prompt, result, done, request]).turn, TurnState::Closed);
}

#[test]
fn commands_and_notifications_are_no_prompts() {
    let user =
        |text: &str| format!(r#"{{"type":"user","message":{{"role":"user","content":"{text}"}}}}"#);
    let read = digest(&[
        &user("<command-name>/clear</command-name>"),
        &user("<task-notification>\\nx"),
        &user("fix the parser"),
        r#"{"type":"user","isMeta":true,"message":{"content":"meta"}}"#,
        r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"x"}]}}"#,
    ]);
    assert_eq!((read.turns, read.first_prompt.as_deref()), (1, Some("fix the parser")));
}

#[test]
fn the_last_custom_title_wins() {
    let read = digest(&[
        r#"{"type":"summary","summary":"old"}"#,
        r#"{"type":"custom-title","customTitle":"one"}"#,
        r#"{"type":"custom-title","customTitle":"two"}"#,
    ]);
    assert_eq!(read.title.as_deref(), Some("two"));
}
