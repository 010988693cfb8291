//! Aider: a chat history written after its documented layout.

mod observe;

use model::conversation::ConversationRole;
use model::sighting::{TranscriptDigest, TurnState};
use observe::{fixtures, observe};
use testkit::home::TempHome;

#[test]
fn the_history_of_the_current_directory_is_one_session() {
    let home = TempHome::new();
    home.lay_out(&fixtures("aider/0.86.2"), "repo");
    let adapter = ostler_adapters::by_id("aider").unwrap();
    let observed = observe(adapter, &home, &[("PWD", "repo")]);
    let (id, (_, digest)) = observed.sessions.first_key_value().unwrap();
    let directory = home.path().canonicalize().unwrap().join("repo");
    let expected = TranscriptDigest {
        cwd: Some(directory.to_str().unwrap().into()),
        first_prompt: Some("fix the parser\nand its tests".into()),
        model: Some("openai/other-model".into()),
        other_models: vec!["openai/fake-model".into()],
        version: Some("0.86.2".into()),
        cost_micro_usd: Some(2000),
        turns: 2,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(*digest, expected);
    assert_eq!(observed.sessions.len(), 1);
    let spoken: Vec<_> = observed
        .said(id)
        .into_iter()
        .filter(|(role, _)| *role != ConversationRole::System)
        .collect();
    let expected = [
        (ConversationRole::User, "fix the parser\nand its tests"),
        (ConversationRole::Assistant, "The parser returned 1.\n\nIt returns 0 now."),
        (ConversationRole::User, "/add README.md"),
        (ConversationRole::User, "say hello"),
        (ConversationRole::Assistant, "hello"),
    ];
    assert_eq!(spoken, expected.map(|(role, text)| (role, text.to_owned())));
}

#[test]
fn the_id_stays_and_differs_between_repositories() {
    let home = TempHome::new();
    home.lay_out(&fixtures("aider/0.86.2"), "one");
    home.lay_out(&fixtures("aider/0.86.2"), "two");
    let adapter = ostler_adapters::by_id("aider").unwrap();
    let id = |below| {
        let observed = observe(adapter, &home, &[("PWD", below)]);
        observed.sessions.into_keys().next().unwrap()
    };
    let before = id("one");
    home.append("one/.aider.chat.history.md", "\n#### more  \n");
    assert_eq!(id("one"), before);
    assert_ne!(id("two"), before);
    assert_eq!(before.len(), 16);
}

#[test]
fn a_directory_without_a_history_is_no_root() {
    let home = TempHome::new();
    let adapter = ostler_adapters::by_id("aider").unwrap();
    let observed = observe(adapter, &home, &[("PWD", "repo")]);
    assert!(observed.sessions.is_empty() && observed.problems.is_empty());
    let relative = |name: &str| (name == "PWD").then(|| ".".into());
    assert!(adapter.session_roots(&ostler_adapters::EnvLookup::new(&relative)).is_empty());
}
