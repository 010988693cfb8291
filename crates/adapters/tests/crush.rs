//! Crush: a project's database after its documented schema, and its lock.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests lay out the homes that adapters read, and say what they mean with unwrap"
)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use model::conversation::{ConversationEntry, ConversationRole};
use model::sighting::{RegistrationProof, RegistrationScope, TranscriptDigest, TurnState};
use model::time::Time;
use ostler_adapters::{Adapter, EnvLookup, Survey, TranscriptSource, by_id, files};
use rusqlite::Connection;
use testkit::sql::load_sql;

fn crush() -> &'static dyn Adapter {
    by_id("crush").unwrap()
}

/// A global data directory and one project, both below the same temporary directory.
fn home(data_dir: &str) -> (tempfile::TempDir, PathBuf, Connection) {
    let home = tempfile::tempdir().unwrap();
    let project = std::fs::canonicalize(home.path()).unwrap().join("repo");
    let data = project.join(data_dir);
    let sql = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/crush/documented/crush.db.sql");
    let connection = load_sql(&sql, &data.join("crush.db"));
    let lock = r#"{"pid": 4242, "version": "v0.96.1", "started_at": "2026-11-15T18:00:00Z"}"#;
    std::fs::write(data.join("crush.lock"), lock).unwrap();
    let projects = serde_json::json!({ "projects": [
        { "path": project, "data_dir": data_dir, "last_accessed": "2026-11-15T18:00:00Z" },
        { "path": project, "data_dir": data, "last_accessed": "2026-11-15T18:00:00Z" },
        { "path": home.path().join("gone"), "data_dir": ".crush" },
    ]});
    std::fs::create_dir_all(home.path().join("data")).unwrap();
    std::fs::write(home.path().join("data/projects.json"), projects.to_string()).unwrap();
    (home, project, connection)
}

fn survey(home: &Path) -> Survey {
    let mut survey = Survey::new(&home.join("data"));
    crush().survey_root(&mut survey);
    survey
}

fn converse(source: &TranscriptSource, from: u64) -> (Vec<ConversationEntry>, u64) {
    let mut entries = Vec::new();
    let position =
        crush().read_conversation(source, from, &mut |entry| entries.push(entry)).unwrap();
    (entries, position)
}

fn told(entries: &[ConversationEntry]) -> Vec<(ConversationRole, &str)> {
    entries.iter().map(|entry| (entry.role, entry.text.as_str())).collect()
}

#[test]
fn a_project_is_listed_once_with_its_sessions_and_its_lock() {
    let (home, project, _connection) = home(".crush");
    let survey = survey(home.path());
    assert_eq!(survey.problems, []);
    assert_eq!((survey.ready.len(), survey.sources.len()), (2, 0));
    let (source, digest) = &survey.ready[0];
    assert_eq!(source.id, "b7e1c6de-0001-4000-8000-000000000001");
    assert_eq!((source.bytes, &source.path), (Some(764), &project.join(".crush/crush.db")));
    let expected = TranscriptDigest {
        cwd: Some(project.to_str().unwrap().into()),
        title: Some("Rename a function".into()),
        first_prompt: Some("rename foo to bar".into()),
        model: Some("other-model".into()),
        other_models: vec!["fake-model".into()],
        started_at: Some(Time::from_millis(1_794_765_600_000)),
        last_activity_at: Some(Time::from_millis(1_794_765_607_000)),
        // The counters of the row are those of the last request.
        tokens: None,
        cost_micro_usd: Some(12_500),
        cost_covers_subagents: true,
        turns: 1,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(digest, &expected);
    assert_eq!(crush().read_digest(source).unwrap(), TranscriptDigest { cwd: None, ..expected });
    let (child, digest) = &survey.ready[1];
    assert_eq!(child.parent.as_deref(), Some(source.id.as_str()));
    assert_eq!((digest.title.as_deref(), digest.turn.clone()), (None, TurnState::Open));
    assert!(!digest.cost_covers_subagents);

    assert_eq!(survey.registrations.len(), 1);
    let lock = &survey.registrations[0];
    assert_eq!(lock.scope, RegistrationScope::Store(source.path.clone()));
    let file = project.join(".crush/crush.lock");
    assert_eq!(lock.proof, RegistrationProof::Lock(files::stamp_path(&file).unwrap()));
    assert_eq!(lock.source, file);
}

#[test]
fn a_message_that_is_being_written_is_not_told_to_followers() {
    let (home, _project, connection) = home(".crush");
    let source = survey(home.path()).ready.remove(0).0;
    let (entries, position) = converse(&source, 0);
    assert_eq!(
        told(&entries),
        [
            (ConversationRole::User, "rename foo to bar"),
            (ConversationRole::Assistant, "I search."),
            (ConversationRole::Tool, r#"{"pattern":"foo"}"#),
            (ConversationRole::Result, "main.go:3"),
            (ConversationRole::System, "Continue."),
            (ConversationRole::Assistant, "Renamed."),
        ]
    );
    assert_eq!((entries[2].tool.as_deref(), position), (Some("grep"), 5));
    let write = |parts: &str| {
        connection
            .execute(
                "insert or replace into messages (rowid, id, session_id, role, parts, model, created_at, updated_at) values (7, 'm7', ?1, 'assistant', ?2, 'm', 1794765700, 1)",
                [source.id.as_str(), parts],
            )
            .unwrap();
    };
    write(r#"[{"type":"text","data":{"text":"And"}}]"#);
    assert_eq!(converse(&source, 5), (vec![], 5));
    let (entries, position) = converse(&source, 0);
    assert_eq!((told(&entries).last(), position), (Some(&(ConversationRole::Assistant, "And")), 5));
    assert_eq!(survey(home.path()).ready[0].1.turn, TurnState::Open);
    write(
        r#"[{"type":"text","data":{"text":"And more"}},{"type":"finish","data":{"reason":"canceled","time":1}}]"#,
    );
    let (entries, position) = converse(&source, 5);
    assert_eq!((told(&entries), position), (vec![(ConversationRole::Assistant, "And more")], 7));
    assert_eq!(survey(home.path()).ready[0].1.turn, TurnState::Closed);
}

#[test]
fn a_data_directory_may_be_named_in_the_list() {
    let (home, project, _connection) = home("state/of/crush");
    assert_eq!(survey(home.path()).ready[0].0.path, project.join("state/of/crush/crush.db"));
}

#[test]
fn what_cannot_be_understood_is_a_problem() {
    let (home, project, connection) = home(".crush");
    connection.execute_batch("alter table messages drop column parts").unwrap();
    let unknown = survey(home.path());
    let reason = "unknown schema: table `messages` has no column `parts`";
    assert_eq!((unknown.ready.len(), unknown.problems[0].reason.as_str()), (0, reason));
    assert_eq!(unknown.registrations.len(), 1, "somebody may still have it open");
    std::fs::write(project.join(".crush/crush.db"), "").unwrap();
    assert_eq!(survey(home.path()).problems[0].reason, "empty file");
    for list in ["", "[]", "{\"projects\""] {
        std::fs::write(home.path().join("data/projects.json"), list).unwrap();
        assert_eq!(survey(home.path()).problems.len(), 1, "{list}");
    }
    std::fs::remove_file(home.path().join("data/projects.json")).unwrap();
    assert_eq!(survey(home.path()).problems, []);
}

#[test]
fn roots_follow_the_environment() {
    let roots = |variables: &[(&str, &str)]| {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        crush().session_roots(&EnvLookup::new(&lookup))
    };
    assert_eq!(roots(&[("HOME", "/h")]), [PathBuf::from("/h/.local/share/crush")]);
    assert_eq!(roots(&[("HOME", "/h"), ("CRUSH_GLOBAL_DATA", "/c")]), [PathBuf::from("/c")]);
}
