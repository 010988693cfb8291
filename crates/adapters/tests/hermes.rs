//! Hermes Agent: the database that a real 0.19.0 wrote, and what its rows say in between.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod observe;

use model::conversation::ConversationRole;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState};
use model::time::Time;
use observe::{Observed, fixtures, observe};
use testkit::home::TempHome;

const ID: &str = "20261116_103421_2ac5d1";

fn home() -> TempHome {
    let home = TempHome::new();
    home.lay_out_agent("hermes", &fixtures("hermes/0.19.0"));
    home
}

fn look(home: &TempHome) -> Observed {
    observe(ostler_adapters::by_id("hermes").unwrap(), home, &[])
}

#[test]
fn a_finished_session_says_everything() {
    let observed = look(&home());
    assert!(observed.problems.is_empty(), "{:?}", observed.problems);
    let digest = observed.digest(ID);
    let expected = TranscriptDigest {
        cwd: Some("/home/user/repo".into()),
        first_prompt: Some("hi hermes [[say:ok]]".into()),
        model: Some("fake-model".into()),
        started_at: digest.started_at,
        last_activity_at: digest.last_activity_at,
        ended_at: digest.ended_at,
        // A price of nothing is no price.
        cost_micro_usd: None,
        tokens: Some(TokenUsage { input: 1234, output: 56, cache_read: 0, cache_write: 0 }),
        turns: 1,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(*digest, expected);
    // A one-shot run that was over had not written its end yet.
    assert_eq!(digest.ended_at, None);
    assert!(digest.started_at >= Some(Time::parse("2026-11-16T10:34:00.000Z").unwrap()));
    let roles: Vec<_> = observed.conversations[ID].iter().map(|entry| entry.role).collect();
    assert_eq!(roles, [ConversationRole::User, ConversationRole::Assistant]);
}

#[test]
fn a_turn_is_open_until_the_last_answer_and_a_known_price_is_a_cost() {
    let home = home();
    let database = home.database(".hermes/state.db");
    let change = |sql: &str| database.execute_batch(sql).unwrap();
    change("update sessions set ended_at = null, end_reason = null, estimated_cost_usd = 0.25");
    assert_eq!(look(&home).digest(ID).turn, TurnState::Closed);
    assert_eq!(look(&home).digest(ID).cost_micro_usd, Some(250_000));
    change("update messages set finish_reason = 'tool_calls' where role = 'assistant'");
    assert_eq!(look(&home).digest(ID).turn, TurnState::Open);
    change("delete from messages where role = 'assistant'");
    assert_eq!(
        (look(&home).digest(ID).turn.clone(), look(&home).digest(ID).turns),
        (TurnState::Open, 1)
    );
    change("update messages set active = 0");
    assert_eq!(look(&home).digest(ID).turns, 0);
}
