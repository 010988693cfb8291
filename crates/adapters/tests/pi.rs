//! Pi: real transcripts of 0.73.1.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod observe;

use model::conversation::ConversationRole;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState};
use model::time::Time;
use observe::{fixtures, observe};
use testkit::home::TempHome;

fn home() -> TempHome {
    let home = TempHome::new();
    home.lay_out(&fixtures("pi/0.73.1"), ".pi");
    home
}

fn time(text: &str) -> Option<Time> {
    Some(Time::parse(text).unwrap())
}

#[test]
fn a_turn_with_a_tool() {
    let observed = observe(ostler_adapters::by_id("pi").unwrap(), &home(), &[]);
    let id = "01a1e05f-ad35-700a-a6ce-2e45ef7e3470";
    let expected = TranscriptDigest {
        cwd: Some("/home/user/repo".into()),
        first_prompt: Some("[[delay:4]][[tool:env | grep -E 'PI|AGENT'; sleep 2]] go".into()),
        model: Some("fake-model".into()),
        started_at: time("2026-11-15T18:02:09.078Z"),
        last_activity_at: time("2026-11-15T18:02:19.494Z"),
        tokens: Some(TokenUsage { input: 2468, output: 112, cache_read: 0, cache_write: 0 }),
        // Twice 0.001346 dollars.
        cost_micro_usd: Some(2692),
        turns: 1,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(*observed.digest(id), expected);
    assert!(observed.problems.is_empty(), "{:?}", observed.problems);
    assert!(observed.registrations.is_empty());
    let said = observed.said(id);
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
    assert_eq!(said[1].1, "bash");
    assert!(said[2].1.starts_with("PI_CODING_AGENT=true"));
    assert_eq!(said[3].1, "hello from the fake model");
}

#[test]
fn a_session_killed_in_mid_turn_is_open() {
    let observed = observe(ostler_adapters::by_id("pi").unwrap(), &home(), &[]);
    let killed = observed.digest("01a1e10e-6200-702a-9aa0-edc91f209231");
    assert_eq!((killed.turn.clone(), killed.turns), (TurnState::Open, 1));
    assert_eq!(killed.tokens.unwrap().input, 1234);
    assert_eq!(killed.cost_micro_usd, Some(1346));
    assert_eq!(observed.sessions.len(), 2);
}

#[test]
fn a_session_that_was_only_opened_is_a_session() {
    let home = home();
    home.write(
        ".pi/agent/sessions/--w--/2026-11-15T21-12-31-512Z_new-one.jsonl",
        r#"{"type":"session","version":3,"id":"new-one","timestamp":"2026-11-15T21:12:31.512Z","cwd":"/w"}
{"type":"model_change","id":"1","parentId":null,"timestamp":"2026-11-15T21:12:31.529Z","provider":"lab","modelId":"fake-model"}
"#,
    );
    let observed = observe(ostler_adapters::by_id("pi").unwrap(), &home, &[]);
    let new = observed.digest("new-one");
    assert_eq!((new.cwd.as_deref(), new.model.as_deref()), (Some("/w"), Some("fake-model")));
    assert_eq!((new.turns, new.turn.clone(), new.tokens), (0, TurnState::Unknown, None));
}

#[test]
fn both_variables_are_honoured() {
    let home = TempHome::new();
    home.lay_out(&fixtures("pi/0.73.1/agent"), "a");
    home.lay_out(&fixtures("pi/0.73.1/agent/sessions/--home-user-repo--"), "s");
    let adapter = ostler_adapters::by_id("pi").unwrap();
    assert!(observe(adapter, &home, &[]).sessions.is_empty());
    assert_eq!(observe(adapter, &home, &[("PI_CODING_AGENT_DIR", "a")]).sessions.len(), 2);
    let elsewhere = observe(adapter, &home, &[("PI_CODING_AGENT_SESSION_DIR", "s")]);
    assert_eq!(elsewhere.sessions.len(), 2);
}
