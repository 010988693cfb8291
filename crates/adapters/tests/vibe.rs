//! Mistral Vibe: what a real 3.0.2 wrote, at rest and at a question.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod observe;

use model::conversation::ConversationRole;
use model::sighting::{
    RegistrationProof, RegistrationScope, TokenUsage, TranscriptDigest, TurnState,
};
use model::time::Time;
use observe::{Observed, fixtures, observe};
use testkit::home::TempHome;

const DONE: &str = "c3eb52db-deaa-593a-8adc-69aa21a37a72";
const ASKING: &str = "0bf784a3-6695-7c10-8bc3-123d6272a6b9";

fn home() -> TempHome {
    let home = TempHome::new();
    home.lay_out_agent("vibe", &fixtures("vibe/3.0.2"));
    home
}

fn look(home: &TempHome) -> Observed {
    observe(ostler_adapters::by_id("vibe").unwrap(), home, &[])
}

#[test]
fn a_finished_session_says_everything() {
    let observed = look(&home());
    assert!(observed.problems.is_empty(), "{:?}", observed.problems);
    assert_eq!(observed.sessions.len(), 2);
    let expected = TranscriptDigest {
        cwd: Some("/home/user/repo".into()),
        first_prompt: Some("hi vibe [[say:ok]]".into()),
        model: Some("fake-model".into()),
        started_at: Some(Time::parse("2026-11-16T10:33:03.340Z").unwrap()),
        last_activity_at: Some(Time::from_millis(1_794_825_184_055)),
        tokens: Some(TokenUsage { input: 1234, output: 56, cache_read: 0, cache_write: 0 }),
        turns: 1,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(*observed.digest(DONE), expected);
    let roles: Vec<_> = observed.conversations[DONE].iter().map(|entry| entry.role).collect();
    assert_eq!(roles, [ConversationRole::User, ConversationRole::Assistant]);
}

/// The prompt and the question stand only in the journal.
#[test]
fn b3_a_question_that_is_not_answered_is_waiting() {
    let home = home();
    let observed = look(&home);
    let digest = observed.digest(ASKING);
    assert_eq!(digest.turn, TurnState::Waiting(Some("User input required".into())));
    assert_eq!(digest.turns, 1);
    assert!(digest.first_prompt.as_ref().unwrap().starts_with("ask me"));
    let roles: Vec<_> = observed.conversations[ASKING].iter().map(|entry| entry.role).collect();
    assert_eq!(roles, [ConversationRole::User, ConversationRole::Tool]);

    let journal = format!(".vibe/logs/session/unified/{ASKING}/journal/0000000000000001.jsonl");
    let text = String::from_utf8(home.read(&journal)).unwrap();
    let asked = text.lines().find(|line| line.contains("callback_registered")).unwrap();
    let asked: serde_json::Value = serde_json::from_str(asked).unwrap();
    let answered = serde_json::json!({
        "payload": {"callback_id": asked["payload"]["callback_id"], "state": "resolved"},
        "sequence": 999, "type": "callback_resolved",
    });
    home.append(&journal, format!("{answered}\n"));
    assert_eq!(look(&home).digest(ASKING).turn, TurnState::Open);
}

#[test]
fn a_lease_names_the_process_and_the_lock_that_it_holds() {
    let observed = look(&home());
    let [lease] = &observed.registrations[..] else { panic!("{:?}", observed.registrations) };
    assert_eq!(lease.scope, RegistrationScope::Session(ASKING.to_owned()));
    let RegistrationProof::Process { identity, holds } = &lease.proof else { panic!() };
    assert_eq!(identity.pid, Some(18181));
    assert!(holds.is_some() && identity.recorded_at.is_some());
}

/// The interface makes the directory when it starts, and fills it at the first prompt.
#[test]
fn a_session_that_was_only_begun_is_no_problem() {
    let home = TempHome::new();
    home.directory(".vibe/logs/session/unified/9bf784a3-6695-7c10-8bc3-123d6272a6b9");
    let observed = look(&home);
    assert!(observed.sessions.is_empty() && observed.problems.is_empty(), "{observed:?}");
}
