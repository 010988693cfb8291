//! Kilo Code: the database that a real 7.7.7 wrote, in OpenCode's schema.

mod observe;

use model::conversation::ConversationRole;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState};
use model::time::Time;
use observe::{fixtures, observe};
use testkit::home::TempHome;

#[test]
fn a_finished_session_says_everything() {
    let home = TempHome::new();
    home.lay_out_agent("kilo", &fixtures("kilo/7.7.7"));
    let observed = observe(ostler_adapters::by_id("kilo").unwrap(), &home, &[]);
    assert!(observed.problems.is_empty(), "{:?}", observed.problems);
    let id = "ses_e1c14d1fdffeten96M7L0seKKA";
    let expected = TranscriptDigest {
        cwd: Some("/home/user/repo".into()),
        first_prompt: Some("\"hi kilo [[say:ok]]\"".into()),
        model: Some("fake-model".into()),
        version: Some("7.7.7".into()),
        started_at: Some(Time::parse("2026-11-16T10:33:23.202Z").unwrap()),
        last_activity_at: Some(Time::parse("2026-11-16T10:33:49.136Z").unwrap()),
        tokens: Some(TokenUsage { input: 1234, output: 56, cache_read: 0, cache_write: 0 }),
        cost_micro_usd: Some(1346),
        turns: 1,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(*observed.digest(id), expected);
    let roles: Vec<_> = observed.conversations[id].iter().map(|entry| entry.role).collect();
    assert_eq!(roles, [ConversationRole::User, ConversationRole::Assistant]);
}

/// Neither reads the other's database, although both could.
#[test]
fn opencode_and_kilo_keep_to_their_own() {
    let home = TempHome::new();
    home.lay_out_agent("kilo", &fixtures("kilo/7.7.7"));
    home.lay_out_agent("opencode", &fixtures("opencode/1.18.33"));
    let sessions = |agent| {
        let observed = observe(ostler_adapters::by_id(agent).unwrap(), &home, &[]);
        observed.sessions.into_keys().collect::<Vec<_>>()
    };
    let (kilo, opencode) = (sessions("kilo"), sessions("opencode"));
    assert_eq!(kilo.len(), 1);
    assert!(!opencode.is_empty() && !opencode.contains(&kilo[0]));
}
