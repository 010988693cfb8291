//! Gemini CLI: real transcripts of 0.61.0, and the older format after its source.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod observe;

use model::conversation::ConversationRole;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState};
use model::time::Time;
use observe::{Observed, fixtures, observe};
use testkit::home::TempHome;

fn home() -> TempHome {
    let home = TempHome::new();
    home.lay_out(&fixtures("gemini/0.61.0"), ".gemini");
    home
}

fn look(home: &TempHome) -> Observed {
    observe(ostler_adapters::by_id("gemini").unwrap(), home, &[])
}

fn time(text: &str) -> Option<Time> {
    Some(Time::parse(text).unwrap())
}

fn tokens(input: u64, output: u64) -> Option<TokenUsage> {
    Some(TokenUsage { input, output, cache_read: 0, cache_write: 0 })
}

#[test]
fn a_turn_with_a_tool_counts_each_message_once() {
    let observed = look(&home());
    let expected = TranscriptDigest {
        cwd: Some("/home/user/repo".into()),
        first_prompt: Some("[[delay:5]][[tool:env | grep -E 'GEMINI|AGENT'; sleep 2]] go".into()),
        model: Some("gemini-3.8-flash".into()),
        started_at: time("2026-11-15T18:01:28.446Z"),
        last_activity_at: time("2026-11-15T18:01:46.747Z"),
        // Three lines carry usage, two messages do.
        tokens: tokens(2468, 112),
        turns: 1,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(*observed.digest("361de265-539f-4574-b148-d55d51b38392"), expected);
    assert!(observed.problems.is_empty(), "{:?}", observed.problems);
    assert!(observed.registrations.is_empty());
    assert_eq!(observed.sessions.len(), 5);
}

#[test]
fn short_sessions_and_a_generated_title() {
    let observed = look(&home());
    let plain = TranscriptDigest {
        cwd: Some("/home/user/repo".into()),
        first_prompt: Some("hello interactive".into()),
        model: Some("gemini-2.5-flash".into()),
        started_at: time("2026-11-15T18:31:08.939Z"),
        last_activity_at: time("2026-11-15T18:31:24.560Z"),
        tokens: tokens(1234, 56),
        turns: 1,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(*observed.digest("7d755d05-0326-4434-8e4c-60af30df46eb"), plain);
    let other = observed.digest("fdf5a3db-899e-4ac6-b4f4-f4d82b777a63");
    assert_eq!(other.first_prompt.as_deref(), Some("hi there"));
    assert_eq!(other.started_at, time("2026-11-15T18:01:04.951Z"));
    // A later start of the program summed up this one.
    let titled = observed.digest("6b7dcb01-dcaf-4270-acfb-25cbd68040ab");
    assert_eq!(titled.title.as_deref(), Some("hello from the fake model"));
    assert_eq!(titled.last_activity_at, time("2026-11-15T21:12:08.136Z"));
}

#[test]
fn a_session_killed_in_mid_turn_is_open() {
    let observed = look(&home());
    let killed = observed.digest("cfc6d7d8-1ab1-44e8-8d30-5f9b27cfbae4");
    assert_eq!((killed.turn.clone(), killed.turns, killed.tokens), (TurnState::Open, 1, None));
    assert_eq!(killed.model, None);
}

#[test]
fn the_conversation_is_told_once_from_the_start_and_when_followed() {
    let home = home();
    let observed = look(&home);
    let said = observed.said("361de265-539f-4574-b148-d55d51b38392");
    let roles: Vec<_> = said.iter().map(|(role, _)| *role).collect();
    assert_eq!(
        roles,
        [
            ConversationRole::User,
            ConversationRole::Tool,
            ConversationRole::Result,
            ConversationRole::Assistant
        ]
    );
    assert_eq!(said[1].1, "run_shell_command");
    assert!(said[2].1.contains("GEMINI_CLI=1"), "{}", said[2].1);
    assert_eq!(said[3].1, "hello from the fake model");

    // Followed line by line, the message that is written twice is still told once.
    let adapter = ostler_adapters::by_id("gemini").unwrap();
    let (source, _) = &observed.sessions["361de265-539f-4574-b148-d55d51b38392"];
    let whole = home.read(".gemini/tmp/repo/chats/session-2026-11-15T18-01-361de265.jsonl");
    let file = ".gemini/tmp/repo/chats/session-2026-11-15T18-01-361de265.jsonl";
    home.write(file, b"");
    let (mut followed, mut position) = (Vec::new(), 0);
    for line in whole.split_inclusive(|byte| *byte == b'\n') {
        home.append(file, line);
        position =
            adapter.read_conversation(source, position, &mut |entry| followed.push(entry)).unwrap();
    }
    assert_eq!(position, whole.len() as u64);
    assert_eq!(followed, observed.conversations["361de265-539f-4574-b148-d55d51b38392"]);
}

#[test]
fn the_older_document_is_read_and_a_resumed_one_lives_on_as_lines() {
    let home = home();
    home.lay_out(&fixtures("gemini/0.9.0"), ".gemini");
    let observed = look(&home);
    let old = observed.digest("1f2e3d4c-0000-4000-8000-000000000001");
    let expected = TranscriptDigest {
        // By the hash of the path: the directory has no other name.
        cwd: Some("/home/user/repo".into()),
        title: Some("Fix the parser".into()),
        first_prompt: Some("fix the parser".into()),
        model: Some("gemini-2.5-pro".into()),
        started_at: time("2025-09-20T10:00:00.000Z"),
        last_activity_at: time("2025-09-20T10:01:00.000Z"),
        tokens: Some(TokenUsage { input: 1700, output: 150, cache_read: 300, cache_write: 0 }),
        turns: 1,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(*old, expected);
    let roles: Vec<_> = observed
        .said("1f2e3d4c-0000-4000-8000-000000000001")
        .into_iter()
        .map(|(role, _)| role)
        .collect();
    assert_eq!(
        roles,
        [
            ConversationRole::User,
            ConversationRole::Tool,
            ConversationRole::Result,
            ConversationRole::Assistant
        ]
    );

    let hash = "c26848463faf0f27a9b73be872230455e679bd57c1733c045f9dc28f8352bd2a";
    let old_path = format!(".gemini/tmp/{hash}/chats/session-2025-09-20T10-00-1f2e3d4c.json");
    home.write(
        format!("{old_path}l"),
        r#"{"sessionId":"1f2e3d4c-0000-4000-8000-000000000001","projectHash":"x","startTime":"2025-09-21T10:00:00.000Z","lastUpdated":"2025-09-21T10:00:00.000Z"}
"#,
    );
    let observed = look(&home);
    let resumed = observed.digest("1f2e3d4c-0000-4000-8000-000000000001");
    assert_eq!(resumed.started_at, time("2025-09-21T10:00:00.000Z"));
    assert!(observed.extras.iter().any(|extra| extra.path.ends_with(&old_path)));
}

#[test]
fn a_subagent_names_its_parent() {
    let home = home();
    let parent = "361de265-539f-4574-b148-d55d51b38392";
    home.write(
        format!(".gemini/tmp/repo/chats/{parent}/sub-1.jsonl"),
        r#"{"sessionId":"sub-1","projectHash":"x","startTime":"2026-11-15T18:01:30.000Z","lastUpdated":"2026-11-15T18:01:30.000Z","kind":"subagent"}
{"id":"a","timestamp":"2026-11-15T18:01:31.000Z","type":"gemini","content":"done","tokens":{"input":5,"output":1,"cached":0,"total":6},"model":"gemini-3.8-flash"}
"#,
    );
    let observed = look(&home);
    let (source, digest) = &observed.sessions["sub-1"];
    assert_eq!(source.parent.as_deref(), Some(parent));
    assert_eq!(digest.tokens, tokens(5, 1));
    assert_eq!(digest.cwd.as_deref(), Some("/home/user/repo"));
    assert_eq!(observed.digest(parent).tokens, tokens(2468, 112));
}

#[test]
fn the_variable_stands_for_the_home_directory() {
    let home = TempHome::new();
    home.lay_out(&fixtures("gemini/0.61.0"), "elsewhere/.gemini");
    let adapter = ostler_adapters::by_id("gemini").unwrap();
    assert!(look(&home).sessions.is_empty());
    assert_eq!(observe(adapter, &home, &[("GEMINI_CLI_HOME", "elsewhere")]).sessions.len(), 5);
}

const CHAT: &str = ".gemini/tmp/repo/chats/session-2026-11-18T00-49-15af6223.jsonl";
const CHAT_ID: &str = "15af6223-a668-491c-829d-1caaf10f86bd";

/// A chat with one answered prompt, at 00:50:00.
fn chat(home: &TempHome) {
    let lines = [
        r#"{"sessionId":"15af6223-a668-491c-829d-1caaf10f86bd","startTime":"2026-11-18T00:49:00.000Z","lastUpdated":"2026-11-18T00:49:00.000Z"}"#,
        r#"{"id":"u1","timestamp":"2026-11-18T00:49:44.000Z","type":"user","content":[{"text":"first"}]}"#,
        r#"{"id":"g1","timestamp":"2026-11-18T00:50:00.000Z","type":"gemini","content":"ok","model":"m"}"#,
    ];
    home.write(CHAT, lines.map(|line| format!("{line}\n")).concat());
    home.write(".gemini/tmp/repo/.project_root", "/home/user/repo");
}

/// Its router is asked before the chat gets the prompt; what was typed is listed at once.
#[test]
fn b12_a_prompt_that_the_router_has_is_a_turn() {
    let home = TempHome::new();
    chat(&home);
    assert_eq!(look(&home).digest(CHAT_ID).turn, TurnState::Closed);
    let typed = |message: &str, at: &str, id: &str| {
        let entry = format!(
            r#"{{"sessionId":"{id}","messageId":1,"type":"user","message":"{message}","timestamp":"{at}"}}"#
        );
        home.write(".gemini/tmp/repo/logs.json", format!("[{entry}]"));
        look(&home).digest(CHAT_ID).clone()
    };
    let later = typed("second", "2026-11-18T00:50:33.325Z", CHAT_ID);
    assert_eq!(
        (later.turn, later.last_activity_at),
        (TurnState::Open, time("2026-11-18T00:50:33.325Z"))
    );
    assert_eq!(later.cwd.as_deref(), Some("/home/user/repo"));
    assert_eq!(typed("first", "2026-11-18T00:49:43.900Z", CHAT_ID).turn, TurnState::Closed);
    assert_eq!(typed("/help", "2026-11-18T00:50:33.325Z", CHAT_ID).turn, TurnState::Closed);
    assert_eq!(typed("second", "2026-11-18T00:50:33.325Z", "another").turn, TurnState::Closed);
}

/// As 0.61.0 writes it after Esc: the prompt, then the history anew with the prompt as its end.
#[test]
fn b12_an_interrupt_ends_the_turn() {
    let home = TempHome::new();
    chat(&home);
    let prompt = r#"{"id":"u2","timestamp":"2026-11-18T00:50:40.223Z","type":"user","content":[{"text":"second"}]}"#;
    home.append(CHAT, format!("{prompt}\n"));
    assert_eq!(look(&home).digest(CHAT_ID).turn, TurnState::Open);
    home.append(
        CHAT,
        format!(r#"{{"$set":{{"messages":[{prompt}],"lastUpdated":"2026-11-18T00:50:40.230Z"}}}}"#)
            + "\n",
    );
    assert_eq!(look(&home).digest(CHAT_ID).turn, TurnState::Closed);
}
