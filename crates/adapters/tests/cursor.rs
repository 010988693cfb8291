//! Cursor CLI: files written after the layout that other readers describe.

mod observe;

use model::conversation::ConversationRole;
use model::sighting::{TranscriptDigest, TurnState};
use model::time::Time;
use observe::{fixtures, observe};
use testkit::home::TempHome;

const FIRST: &str = "c0ffee00-0000-4000-8000-000000000001";

fn home() -> TempHome {
    let home = TempHome::new();
    home.lay_out(&fixtures("cursor/2026.09"), ".cursor");
    home
}

#[test]
fn a_transcript_is_described_by_its_chat() {
    let observed = observe(ostler_adapters::by_id("cursor").unwrap(), &home(), &[]);
    let expected = TranscriptDigest {
        cwd: Some("/home/user/repo".into()),
        title: Some("Parser fix".into()),
        first_prompt: Some("fix the parser".into()),
        model: Some("gpt-5.5".into()),
        started_at: Some(Time::parse("2026-09-07T10:00:00Z").unwrap()),
        turns: 2,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(*observed.digest(FIRST), expected);
    let said = observed.said(FIRST);
    let expected = [
        (ConversationRole::User, "fix the parser"),
        (ConversationRole::Assistant, "I look at it."),
        (ConversationRole::Tool, "Read"),
        (ConversationRole::Assistant, "It returns 0 now."),
        (ConversationRole::User, "and the tests?"),
        (ConversationRole::Assistant, "They pass."),
    ];
    assert_eq!(said, expected.map(|(role, text)| (role, text.to_owned())));
    assert!(observed.problems.is_empty(), "{:?}", observed.problems);
}

#[test]
fn subagents_open_turns_and_chats_without_a_transcript() {
    let observed = observe(ostler_adapters::by_id("cursor").unwrap(), &home(), &[]);
    assert_eq!(observed.sessions.len(), 4);
    let (subagent, _) = &observed.sessions["c0ffee00-0000-4000-8000-000000000009"];
    assert_eq!(subagent.parent.as_deref(), Some(FIRST));
    let open = observed.digest("c0ffee00-0000-4000-8000-000000000002");
    assert_eq!((open.turn.clone(), open.turns, open.cwd.clone()), (TurnState::Open, 1, None));
    let (source, chat) = &observed.sessions["c0ffee00-0000-4000-8000-000000000003"];
    assert_eq!(source.format, "cursor-store");
    let expected = TranscriptDigest {
        cwd: Some("/home/user/other".into()),
        // Its name is only what every new chat is called.
        title: None,
        model: Some("composer-2".into()),
        started_at: Some(Time::parse("2026-09-07T11:00:00Z").unwrap()),
        ..TranscriptDigest::default()
    };
    assert_eq!(*chat, expected);
}

#[test]
fn a_store_of_another_version_is_named_and_hides_no_transcript() {
    let home = home();
    for chat in [FIRST, "c0ffee00-0000-4000-8000-000000000003"] {
        let path = home.remove(format!(".cursor/chats/5f2b/{chat}/store.db"));
        let sql = home.write("new.sql", "create table other (a);");
        testkit::sql::load_sql(&sql, &path);
    }
    let observed = observe(ostler_adapters::by_id("cursor").unwrap(), &home, &[]);
    assert_eq!(observed.digest(FIRST).damage.broken, 1);
    assert_eq!(observed.digest(FIRST).turns, 2);
    let only_store = ".cursor/chats/5f2b/c0ffee00-0000-4000-8000-000000000003/store.db";
    assert!(observed.names(&home.join(only_store)), "{:?}", observed.problems);
}

#[test]
fn the_variable_is_honoured() {
    let home = TempHome::new();
    home.lay_out(&fixtures("cursor/2026.09"), "elsewhere");
    let adapter = ostler_adapters::by_id("cursor").unwrap();
    assert_eq!(observe(adapter, &home, &[("CURSOR_CONFIG_DIR", "elsewhere")]).sessions.len(), 4);
}
