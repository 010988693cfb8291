//! Amp: files written after the layout that other readers describe.

mod observe;

use model::conversation::ConversationRole;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState};
use model::time::Time;
use observe::{fixtures, observe};
use testkit::home::TempHome;

const FIRST: &str = "T-0a1b2c3d-0000-4000-8000-000000000001";
const SECOND: &str = "T-0a1b2c3d-0000-4000-8000-000000000002";

#[test]
fn threads_are_read_whole() {
    let home = TempHome::new();
    home.lay_out(&fixtures("amp/2026.03"), ".local/share/amp");
    let observed = observe(ostler_adapters::by_id("amp").unwrap(), &home, &[]);
    let expected = TranscriptDigest {
        cwd: Some("/home/user/my repo".into()),
        title: Some("Fix the parser".into()),
        first_prompt: Some("fix the parser".into()),
        model: Some("claude-opus-4-5".into()),
        branch: Some("main".into()),
        started_at: Some(Time::from_millis(1_771_449_540_000)),
        last_activity_at: Some(Time::from_millis(1_771_449_541_000)),
        tokens: Some(TokenUsage { input: 22, output: 120, cache_read: 11_200, cache_write: 1500 }),
        turns: 1,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(*observed.digest(FIRST), expected);
    let said = observed.said(FIRST);
    let expected = [
        (ConversationRole::User, "fix the parser"),
        (ConversationRole::Tool, "Read"),
        (ConversationRole::Result, "int main(void) { return 1; }"),
        (ConversationRole::Assistant, "It returns 0 now."),
    ];
    assert_eq!(said, expected.map(|(role, text)| (role, text.to_owned())));
    let open = observed.digest(SECOND);
    assert_eq!((open.turn.clone(), open.turns, open.tokens), (TurnState::Open, 1, None));
    // The answer is still being written.
    assert_eq!(observed.said(SECOND), [(ConversationRole::User, "list the files".to_owned())]);
    assert!(observed.problems.is_empty(), "{:?}", observed.problems);
}

#[test]
fn the_data_directory_may_be_elsewhere() {
    let home = TempHome::new();
    home.lay_out(&fixtures("amp/2026.03"), "data/amp");
    let adapter = ostler_adapters::by_id("amp").unwrap();
    assert_eq!(observe(adapter, &home, &[("XDG_DATA_HOME", "data")]).sessions.len(), 2);
}
