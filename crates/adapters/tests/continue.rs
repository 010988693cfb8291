//! Continue's command line: what a real 1.5.47 wrote, at rest and at a question.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod observe;

use model::conversation::ConversationRole;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState};
use model::time::Time;
use observe::{Observed, fixtures, observe};
use testkit::home::TempHome;

const DONE: &str = "707020ce-8757-40e5-8a34-fb45787d2f71";
const ASKING: &str = "c1488851-3e23-46ca-9c92-0a3e467358a3";

fn home() -> TempHome {
    let home = TempHome::new();
    home.lay_out_agent("continue", &fixtures("continue/1.5.47"));
    home
}

fn look(home: &TempHome) -> Observed {
    observe(ostler_adapters::by_id("continue").unwrap(), home, &[])
}

#[test]
fn a_finished_session_says_everything() {
    let observed = look(&home());
    assert!(observed.problems.is_empty(), "{:?}", observed.problems);
    let expected = TranscriptDigest {
        cwd: Some("/home/user/repo".into()),
        first_prompt: Some("hi cn [[say:ok]]".into()),
        model: Some("fake-model".into()),
        tokens: Some(TokenUsage { input: 1234, output: 56, cache_read: 0, cache_write: 0 }),
        cost_micro_usd: Some(1346),
        turns: 1,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(*observed.digest(DONE), expected);
    let begun = observed.sessions[DONE].0.started_at;
    assert_eq!(begun, Some(Time::from_millis(1_794_825_260_424)));
    let roles: Vec<_> = observed.conversations[DONE].iter().map(|entry| entry.role).collect();
    assert_eq!(roles, [ConversationRole::User, ConversationRole::Assistant]);
}

#[test]
fn b3_a_call_that_nobody_has_allowed_yet_is_waiting() {
    let home = home();
    assert_eq!(look(&home).digest(ASKING).turn, TurnState::Waiting(Some("Bash".into())));
    let file = format!(".continue/sessions/{ASKING}.json");
    let text = String::from_utf8(home.read(&file)).unwrap();
    for (status, turn) in
        [("calling", TurnState::Open), ("done", TurnState::Open), ("canceled", TurnState::Closed)]
    {
        let (was, is) = (r#""status": "generated""#, format!(r#""status": "{status}""#));
        assert!(text.contains(was), "{text}");
        home.write(&file, text.replace(was, &is));
        assert_eq!(look(&home).digest(ASKING).turn, turn, "{status}");
    }
}
