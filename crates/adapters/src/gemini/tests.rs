use super::*;

fn digest(lines: &[&str]) -> TranscriptDigest {
    let mut reading = Reading::default();
    for line in lines {
        reading.read_line(line.as_bytes());
    }
    reading.into_digest(None)
}

const ANSWER: &str = r#"{"id":"m1","timestamp":"2026-01-02T03:04:05.000Z","type":"gemini","content":"hi","tokens":{"input":100,"output":7,"cached":40,"thoughts":3,"tool":2,"total":112},"model":"g"}"#;

#[test]
fn cached_input_is_taken_out_and_thoughts_are_output() {
    let tokens = digest(&[ANSWER]).tokens.unwrap();
    assert_eq!(tokens, TokenUsage { input: 62, output: 10, cache_read: 40, cache_write: 0 });
}

#[test]
fn a_message_written_again_counts_once_and_the_last_writing_wins() {
    let again = ANSWER.replace(r#""output":7"#, r#""output":8"#);
    let listed = format!(r#"{{"$set":{{"messages":[{ANSWER}]}}}}"#);
    assert_eq!(digest(&[ANSWER, &again]).tokens.unwrap().output, 11);
    assert_eq!(digest(&[&again, &listed]).tokens.unwrap().output, 10);
}

#[test]
fn commands_context_and_tool_answers_are_no_prompts() {
    let user = |id: &str, text: &str| {
        format!(r#"{{"id":"{id}","type":"user","content":[{{"text":"{text}"}}]}}"#)
    };
    let read = digest(&[
        &user("a", "<session_context>x"),
        &user("b", "/clear"),
        r#"{"id":"c","type":"user","content":[{"functionResponse":{"id":"1"}}]}"#,
        &user("d", "/etc/hosts is wrong"),
        &user("d", "/etc/hosts is wrong"),
        r#"{"$set":{"messages":[{"id":"e","type":"user","content":"summary of it all"}]}}"#,
    ]);
    assert_eq!((read.turns, read.first_prompt.as_deref()), (1, Some("/etc/hosts is wrong")));
}

#[test]
fn a_turn_ends_with_text_and_goes_on_with_tools() {
    let with = |calls: &str| {
        ANSWER.replace(r#""model":"g""#, &format!(r#""model":"g","toolCalls":[{calls}]"#))
    };
    let done = with(r#"{"id":"1","name":"sh","status":"success"}"#);
    let asks = with(r#"{"id":"1","name":"sh","status":"awaiting_approval"}"#);
    let refused = with(r#"{"id":"1","name":"sh","status":"cancelled"}"#);
    assert_eq!(digest(&[ANSWER]).turn, TurnState::Closed);
    let calls = ANSWER.replace("\"hi\"", "\"\"");
    assert_eq!(digest(&[&calls]).turn, TurnState::Asking(None));
    assert_eq!(digest(&[&calls.replace("\"tokens\"", "\"t\"")]).turn, TurnState::Open);
    assert_eq!(digest(&[ANSWER, &done]).turn, TurnState::Open);
    assert_eq!(digest(&[&asks]).turn, TurnState::Waiting(Some("sh".into())));
    assert_eq!(digest(&[&refused]).turn, TurnState::Closed);
    assert_eq!(digest(&[&done, r#"{"$rewindTo":"m1"}"#]).turn, TurnState::Closed);
    let cancelled = r#"{"id":"i","type":"info","content":"Request cancelled."}"#;
    assert_eq!(digest(&[&done, cancelled]).turn, TurnState::Closed);
}

/// As 0.61 writes it: the router's request is cancelled, then the prompt is written, then the history
/// without it.
#[test]
fn b12_a_prompt_cancelled_while_the_router_has_it_is_no_turn() {
    let cancelled = r#"{"id":"i","type":"info","content":"Request cancelled."}"#;
    let prompt = r#"{"id":"p","type":"user","content":[{"text":"wait"}]}"#;
    let listed = format!(r#"{{"$set":{{"messages":[{ANSWER}]}}}}"#);
    assert_eq!(digest(&[ANSWER, cancelled, prompt]).turn, TurnState::Open);
    assert_eq!(digest(&[ANSWER, cancelled, prompt, &listed]).turn, TurnState::Closed);
    // The history is also written anew when it is compressed, in the middle of a turn.
    assert_eq!(digest(&[ANSWER, prompt, &listed]).turn, TurnState::Open);
    let again = prompt.replace("\"p\"", "\"q\"");
    assert_eq!(digest(&[cancelled, prompt, &listed, &again]).turn, TurnState::Open);
}

#[test]
fn a_document_that_is_cut_off_keeps_what_it_says() {
    let mut reading = Reading::default();
    let text = br#"{"sessionId":"s","startTime":"2026-01-02T03:04:05.000Z","messages":[{"id""#;
    reading.read_document(text).unwrap();
    assert_eq!(reading.digest.damage.broken, 1);
    assert!(reading.digest.started_at.is_some());
    assert!(Reading::default().read_document(br#"{"sessionId":"#).is_err());
}
