//! Factory Droid, read from files that 0.215.0 wrote.
#![allow(clippy::disallowed_methods, reason = "tests make the files that the adapters read")]

mod fixture;

use std::path::PathBuf;

use fixture::time;
use model::conversation::ConversationRole;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState};

const TOOL: &str = "040b39a0-ca85-4785-84a6-9e74397d5763";
const PLAIN: &str = "1f57f7ee-1192-47b0-9c4b-2ba91bcae1ef";
const KILLED: &str = "de651a4a-5f97-4752-af10-1ad1712bb4fd";

fn root() -> PathBuf {
    fixture::path("droid/0.215.0")
}

#[test]
fn a_headless_turn_says_everything() {
    let survey = fixture::survey("droid", &root());
    assert_eq!(survey.problems, []);
    assert_eq!(survey.sources.len(), 3);
    assert_eq!(
        fixture::digest("droid", &survey, PLAIN),
        TranscriptDigest {
            cwd: Some("/home/user/repo".into()),
            first_prompt: Some("hi there".into()),
            model: Some("custom:Fake-0".into()),
            started_at: time("2026-11-15T18:05:40.502Z"),
            last_activity_at: time("2026-11-15T18:05:41.153Z"),
            tokens: Some(TokenUsage { input: 1234, output: 56, cache_read: 0, cache_write: 0 }),
            turns: 1,
            turn: TurnState::Closed,
            ..TranscriptDigest::default()
        }
    );
}

#[test]
fn hooks_are_no_prompts_and_the_last_one_ends_the_session() {
    let survey = fixture::survey("droid", &root());
    let read = fixture::digest("droid", &survey, TOOL);
    assert_eq!((read.turns, read.turn), (1, TurnState::Closed));
    assert_eq!(read.ended_at, time("2026-11-15T18:06:21.587Z"));
    assert_eq!(read.started_at, time("2026-11-15T18:06:08.551Z"));
    assert_eq!(read.tokens, Some(TokenUsage { input: 2468, output: 112, ..TokenUsage::default() }));
}

#[test]
fn a_killed_turn_is_open() {
    let survey = fixture::survey("droid", &root());
    let read = fixture::digest("droid", &survey, KILLED);
    assert_eq!((read.turn, read.turns, read.ended_at), (TurnState::Open, 1, None));
    assert_eq!(read.tokens, None);
    assert_eq!(read.model, None);
}

#[test]
fn settings_that_are_cut_off_are_damage_and_not_zero() {
    let home = fixture::copied("droid/0.215.0");
    let settings = home.path().join(format!("sessions/-home-user-repo/{PLAIN}.settings.json"));
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, &text[..text.len() - 2]).unwrap();
    let read = fixture::digest("droid", &fixture::survey("droid", home.path()), PLAIN);
    assert_eq!((read.tokens, read.damage.broken), (None, 1));
    std::fs::remove_file(&settings).unwrap();
    let read = fixture::digest("droid", &fixture::survey("droid", home.path()), PLAIN);
    assert_eq!((read.tokens, read.damage.broken, read.turns), (None, 0, 1));
}

#[test]
fn an_old_session_lies_beside_the_projects() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("sessions")).unwrap();
    let line = r#"{"type":"session_start","id":"s1","title":"New Session","cwd":"/r"}"#;
    std::fs::write(home.path().join("sessions/s1.jsonl"), line).unwrap();
    let survey = fixture::survey("droid", home.path());
    assert_eq!(fixture::digest("droid", &survey, "s1").cwd.as_deref(), Some("/r"));
}

#[test]
fn the_conversation_is_told() {
    use ConversationRole::{Assistant, Result, System, Tool, User};
    let survey = fixture::survey("droid", &root());
    let source = fixture::source(&survey, TOOL);
    let (said, end) = fixture::converse("droid", source, 0);
    let roles: Vec<ConversationRole> =
        fixture::roles(&said).into_iter().filter(|role| *role != System).collect();
    assert_eq!(roles, [User, Tool, Result, Assistant]);
    let tool = said.iter().find(|entry| entry.role == Tool).unwrap();
    assert_eq!(tool.tool.as_deref(), Some("Execute"));
    assert_eq!(said.last().unwrap().text, "hello from the fake model");
    assert_eq!(end, source.stamp.bytes);
}

#[test]
fn the_root_follows_the_environment() {
    assert_eq!(fixture::roots("droid", &[("HOME", "/h")]), [PathBuf::from("/h/.factory")]);
    let both = [("HOME", "/h"), ("FACTORY_HOME_OVERRIDE", "/f")];
    assert_eq!(fixture::roots("droid", &both), [PathBuf::from("/f/.factory")]);
}
