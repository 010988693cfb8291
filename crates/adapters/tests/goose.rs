//! Goose: a database after its documented schema, and the files of older versions.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests lay out the homes that adapters read, and say what they mean with unwrap"
)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use model::conversation::{ConversationEntry, ConversationRole};
use model::sighting::{TokenUsage, TranscriptDigest, TurnState};
use model::time::Time;
use ostler_adapters::{Adapter, EnvLookup, Survey, TranscriptSource, by_id};
use rusqlite::Connection;
use testkit::sql::load_sql;

fn goose() -> &'static dyn Adapter {
    by_id("goose").unwrap()
}

fn home() -> (tempfile::TempDir, Connection) {
    let home = tempfile::tempdir().unwrap();
    let sql = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/goose/schema-16/sessions/sessions.db.sql");
    let connection = load_sql(&sql, &home.path().join("sessions/sessions.db"));
    (home, connection)
}

fn survey(root: &Path) -> Survey {
    let mut survey = Survey::new(root);
    goose().survey_root(&mut survey);
    survey
}

fn converse(source: &TranscriptSource, from: u64) -> (Vec<ConversationEntry>, u64) {
    let mut entries = Vec::new();
    let position =
        goose().read_conversation(source, from, &mut |entry| entries.push(entry)).unwrap();
    (entries, position)
}

fn told(entries: &[ConversationEntry]) -> Vec<(ConversationRole, &str)> {
    entries.iter().map(|entry| (entry.role, entry.text.as_str())).collect()
}

#[test]
fn a_session_of_the_database() {
    let (home, _connection) = home();
    let survey = survey(home.path());
    assert_eq!(survey.problems, []);
    assert_eq!((survey.ready.len(), survey.sources.len()), (2, 0));
    let (source, digest) = &survey.ready[0];
    assert_eq!((source.id.as_str(), source.bytes), ("20261115_1", Some(509)));
    let expected = TranscriptDigest {
        cwd: Some("/home/user/repo".into()),
        title: Some("Count the files".into()),
        first_prompt: Some("how many files are here?".into()),
        model: Some("fake-model".into()),
        started_at: Time::parse("2026-11-15T18:00:00Z"),
        last_activity_at: Some(Time::from_millis(1_794_765_609_000)),
        // 1200 in, of which 700 read from and 200 written to the cache.
        tokens: Some(TokenUsage { input: 300, output: 100, cache_read: 700, cache_write: 200 }),
        cost_micro_usd: Some(12_500),
        turns: 1,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(digest, &expected);
    assert_eq!(goose().read_digest(source).unwrap(), expected);
    let (child, digest) = &survey.ready[1];
    assert_eq!(child.parent.as_deref(), Some("20261115_1"));
    assert_eq!((digest.title.as_deref(), digest.tokens), (None, None));
    assert_eq!((digest.turn.clone(), digest.turns), (TurnState::Open, 1));
}

#[test]
fn the_conversation_tells_calls_results_and_what_was_injected() {
    let (home, connection) = home();
    let source = survey(home.path()).ready.remove(0).0;
    let (entries, position) = converse(&source, 0);
    assert_eq!(
        told(&entries),
        [
            (ConversationRole::User, "how many files are here?"),
            (ConversationRole::Assistant, "Let me look."),
            (ConversationRole::Tool, r#"{"command":"ls"}"#),
            (ConversationRole::Result, "a\nb"),
            (ConversationRole::System, "(the conversation was compacted)"),
            (ConversationRole::Assistant, "Two."),
        ]
    );
    assert_eq!(entries[2].tool.as_deref(), Some("developer__shell"));
    assert_eq!(position, 5);
    assert_eq!(converse(&source, position), (vec![], 5));
    connection
        .execute("insert into messages (id, session_id, role, content_json, created_timestamp) values (9, '20261115_1', 'assistant', '[{\"type\":\"toolConfirmationRequest\",\"id\":\"x\"}]', 1794765700000)", [])
        .unwrap();
    let digest = survey(home.path()).ready.remove(0).1;
    assert_eq!(digest.turn, TurnState::Waiting(Some("permission".into())));
    assert_eq!(digest.last_activity_at, Some(Time::from_millis(1_794_765_700_000)));
    assert_eq!(converse(&source, 5).1, 9);
}

#[test]
fn an_older_schema_says_less_and_an_unknown_one_says_so() {
    let (home, connection) = home();
    connection
        .execute_batch(
            "alter table sessions drop column accumulated_cache_read_tokens;
             alter table sessions drop column parent_session_id;
             alter table messages drop column metadata_json;",
        )
        .unwrap();
    let older = survey(home.path());
    assert_eq!((older.ready.len(), older.problems.len()), (2, 0));
    assert_eq!(older.ready[0].1.tokens, None, "how many came from a cache is not known");
    assert_eq!(older.ready[0].1.turns, 2, "nor is what was injected");
    connection.execute_batch("alter table messages rename column content_json to content").unwrap();
    let unknown = survey(home.path());
    assert_eq!(unknown.ready.len(), 0);
    let reason = "unknown schema: table `messages` has no column `content_json`";
    assert_eq!(unknown.problems[0].reason, reason);
}

#[test]
fn older_files_are_read_unless_the_database_has_them() {
    let (home, _connection) = home();
    let lines = concat!(
        r#"{"working_dir":"/home/user/old","description":"An old one","message_count":2,"total_tokens":9}"#,
        "\n",
        r#"{"role":"user","created":1700000001,"content":[{"type":"text","text":"fix it"}]}"#,
        "\n",
        r#"{"role":"assistant","created":1700000002,"content":[{"type":"toolRequest","id":"1","toolCall":{"Ok":{"name":"sh","arguments":{}}}}]}"#,
        "\n",
        r#"{"role":"user","created":1700000003,"content":[{"type":"toolResponse","id":"1","toolResult":{"Ok":[{"type":"text","text":"ok"}]}}]}"#,
        "\nnot json\n",
    );
    for name in ["20250620_013617.jsonl", "20261115_1.jsonl"] {
        std::fs::write(home.path().join("sessions").join(name), lines).unwrap();
    }
    let survey = survey(home.path());
    assert_eq!((survey.sources.len(), survey.extras.len(), survey.problems.len()), (1, 1, 0));
    assert_eq!(survey.extras[0].session.as_deref(), Some("20261115_1"));
    let source = &survey.sources[0];
    assert_eq!(source.id, "20250620_013617");
    let digest = goose().read_digest(source).unwrap();
    assert_eq!(digest.cwd.as_deref(), Some("/home/user/old"));
    assert_eq!(digest.title.as_deref(), Some("An old one"));
    assert_eq!(digest.first_prompt.as_deref(), Some("fix it"));
    assert_eq!((digest.turns, digest.turn, digest.damage.broken), (1, TurnState::Open, 1));
    assert_eq!(digest.last_activity_at, Some(Time::from_millis(1_700_000_003_000)));
    let (entries, position) = converse(source, 0);
    assert_eq!(
        told(&entries),
        [
            (ConversationRole::User, "fix it"),
            (ConversationRole::Tool, "{}"),
            (ConversationRole::Result, "ok")
        ]
    );
    assert_eq!(position, lines.len() as u64);
}

#[test]
fn roots_follow_the_environment() {
    let roots = |variables: &[(&str, &str)]| {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        goose().session_roots(&EnvLookup::new(&lookup))
    };
    assert_eq!(roots(&[("HOME", "/h")]), [PathBuf::from("/h/.local/share/goose")]);
    assert_eq!(roots(&[("HOME", "/h"), ("XDG_DATA_HOME", "/d")]), [PathBuf::from("/d/goose")]);
    assert_eq!(roots(&[("HOME", "/h"), ("GOOSE_PATH_ROOT", "/g")]), [PathBuf::from("/g/data")]);
}
