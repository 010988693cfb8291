//! OpenClaw: the databases of a real 2026.9.6, and file stores as versions up to 2026.7 wrote them.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests lay out the homes that adapters read, and say what they mean with unwrap"
)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use model::conversation::{ConversationEntry, ConversationRole};
use model::identity::{Identity, IdentityRecorder};
use model::sighting::{
    ProcessRegistration, RegistrationProof, RegistrationScope, TokenUsage, TranscriptDigest,
    TurnState,
};
use model::time::Time;
use ostler_adapters::{Adapter, EnvLookup, ExtraFileKind, Survey, TranscriptSource, by_id};
use rusqlite::Connection;
use testkit::sql::load_sql;

fn openclaw() -> &'static dyn Adapter {
    by_id("openclaw").unwrap()
}

const DATABASE: &str = "agents/main/agent/openclaw-agent.sqlite";
const STATE: &str = "state/openclaw.sqlite";
const SESSION: &str = "0785f0f1-5ef0-419f-a2fe-8d067374d652";

fn load(home: &Path, name: &str) -> Connection {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/openclaw/2026.9.6");
    load_sql(&fixtures.join(format!("{name}.sql")), &home.join(name))
}

/// A state directory with the agent's real database, which a dump leaves without its version.
fn home() -> (tempfile::TempDir, Connection) {
    let home = tempfile::tempdir().unwrap();
    let connection = load(home.path(), DATABASE);
    connection.pragma_update(None, "user_version", 23).unwrap();
    (home, connection)
}

fn survey(root: &Path) -> Survey {
    let mut survey = Survey::new(root);
    openclaw().survey_root(&mut survey);
    survey
}

fn converse(source: &TranscriptSource, from: u64) -> (Vec<ConversationEntry>, u64) {
    let mut entries = Vec::new();
    let position =
        openclaw().read_conversation(source, from, &mut |entry| entries.push(entry)).unwrap();
    (entries, position)
}

fn identity(registration: &ProcessRegistration) -> &Identity {
    match &registration.proof {
        RegistrationProof::Process { identity, holds: None } => identity,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_of_the_database() {
    let (home, _connection) = home();
    let survey = survey(home.path());
    assert_eq!(survey.problems, []);
    assert_eq!((survey.ready.len(), survey.sources.len()), (1, 0));
    let (source, digest) = &survey.ready[0];
    assert_eq!((source.id.as_str(), source.bytes), (SESSION, Some(5380)));
    assert_eq!(source.path, std::fs::canonicalize(home.path()).unwrap().join(DATABASE));
    let expected = TranscriptDigest {
        cwd: Some("/home/user/workspace".into()),
        first_prompt: Some("hi there".into()),
        name: Some("agent:main:main".into()),
        model: Some("fake-model".into()),
        started_at: Some(Time::from_millis(1_794_766_105_496)),
        last_activity_at: Time::parse("2026-11-15T18:11:00.313Z"),
        tokens: Some(TokenUsage { input: 3702, output: 168, cache_read: 0, cache_write: 0 }),
        cost_micro_usd: Some(4038),
        turns: 2,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(digest, &expected);
    assert_eq!(openclaw().read_digest(source).unwrap(), expected);
}

#[test]
fn the_conversation_goes_on_where_it_was_left() {
    let (home, connection) = home();
    let source = survey(home.path()).ready.remove(0).0;
    let (entries, position) = converse(&source, 0);
    let roles: Vec<_> = entries.iter().map(|entry| entry.role).collect();
    assert_eq!(
        roles,
        [
            ConversationRole::User,
            ConversationRole::Assistant,
            ConversationRole::User,
            ConversationRole::Tool,
            ConversationRole::Result,
            ConversationRole::Assistant
        ]
    );
    assert_eq!(entries[3].tool.as_deref(), Some("exec"));
    assert_eq!(entries[3].text, r#"{"command":"env | grep -E 'OPENCLAW|AGENT'; sleep 2"}"#);
    assert_eq!(entries[3].at, Time::parse("2026-11-15T18:10:52.049Z"));
    assert!(entries[4].text.starts_with("OPENCLAW_NO_UPDATE=1\n"));
    assert_eq!(position, 13);
    assert_eq!(converse(&source, 13), (vec![], 13));
    let event =
        r#"{"type":"message","message":{"role":"user","content":[{"type":"text","text":"more"}]}}"#;
    connection
        .execute("insert into transcript_events (session_id, seq, event_json, created_at) values (?1, 13, ?2, 1)", [SESSION, event])
        .unwrap();
    let (entries, position) = converse(&source, 13);
    assert_eq!((entries.len(), entries[0].text.as_str(), position), (1, "more", 14));
    assert_eq!(survey(home.path()).ready[0].1.turn, TurnState::Open);
}

#[test]
fn packed_events_are_unpacked_and_broken_ones_are_counted() {
    let (home, connection) = home();
    connection.pragma_update(None, "ignore_check_constraints", true).unwrap();
    let event = br#"{"type":"message","message":{"role":"assistant","provider":"lab","model":"big","usage":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"cost":{"total":0.5}},"stopReason":"toolUse","responseId":"r","content":[]}}"#;
    let packed = zstd::bulk::compress(event, 3).unwrap();
    for (seq, blob) in [(20, packed.as_slice()), (21, packed.as_slice()), (22, b"not zstd")] {
        connection
            .execute("insert into transcript_events (session_id, seq, event_zstd, created_at, event_utf8_bytes) values (?1, ?2, ?3, 1, 9)", rusqlite::params![SESSION, seq, blob])
            .unwrap();
    }
    let digest = survey(home.path()).ready.remove(0).1;
    let expected = TokenUsage { input: 3703, output: 170, cache_read: 3, cache_write: 4 };
    assert_eq!(digest.tokens, Some(expected), "one response is counted once");
    assert_eq!(digest.cost_micro_usd, Some(504_038));
    assert_eq!((digest.turn, digest.damage.broken), (TurnState::Open, 1));
    assert_eq!(digest.model.as_deref(), Some("big"));
    assert_eq!(digest.other_models, ["fake-model"]);
}

#[test]
fn leases_of_a_killed_process_name_it_once_for_its_store() {
    let (home, _connection) = home();
    let _state = load(home.path(), STATE);
    let survey = survey(home.path());
    assert_eq!(survey.problems, []);
    assert_eq!(survey.registrations.len(), 1, "three rows, one process");
    let lease = &survey.registrations[0];
    assert_eq!(lease.scope, RegistrationScope::Store(survey.ready[0].0.path.clone()));
    let expected = Identity {
        pid: Some(25902),
        start: Some(224_474),
        recorded_at: Some(Time::from_millis(1_794_777_792_017)),
        recorder: IdentityRecorder::Agent,
        comm: Some("openclaw".into()),
        ..Identity::default()
    };
    assert_eq!(identity(lease), &expected);
}

#[test]
fn leases_that_cannot_be_read_leave_every_store_in_doubt() {
    let (home, _connection) = home();
    std::fs::create_dir_all(home.path().join("state")).unwrap();
    std::fs::write(home.path().join(STATE), "this is no database, whatever its name says").unwrap();
    let survey = survey(home.path());
    assert_eq!(survey.problems.len(), 1);
    assert_eq!(survey.registrations.len(), 1);
    assert_eq!(
        survey.registrations[0].scope,
        RegistrationScope::Store(survey.ready[0].0.path.clone())
    );
    assert_eq!(identity(&survey.registrations[0]).pid, None);
}

#[test]
fn a_schema_that_is_not_known_is_named() {
    let (home, connection) = home();
    connection.pragma_update(None, "user_version", 24).unwrap();
    let newer = survey(home.path());
    assert_eq!(newer.ready.len(), 1);
    assert_eq!(newer.problems[0].reason, "schema 24 is newer than 23: it may hold more");
    connection.execute_batch("alter table transcript_events rename to events_2").unwrap();
    let unknown = survey(home.path());
    assert_eq!((unknown.ready.len(), unknown.problems.len()), (0, 1));
    let reason = "unknown schema: no table `transcript_events` (version 24, known is 23)";
    assert_eq!(unknown.problems[0].reason, reason);
}

#[test]
fn a_spawned_session_knows_its_parent_and_a_label_is_the_title() {
    let (home, connection) = home();
    connection
        .execute_batch(
            "insert into session_nodes (session_key, current_session_id, entry_json, updated_at, spawned_by, label)
             values ('agent:main:subagent:x', 'child', '{}', 1794766200000, 'agent:main:main', 'Look it up');",
        )
        .unwrap();
    let survey = survey(home.path());
    let (source, digest) = survey.ready.iter().find(|(source, _)| source.id == "child").unwrap();
    assert_eq!(source.parent.as_deref(), Some(SESSION));
    assert_eq!(digest.parent.as_deref(), Some(SESSION));
    assert_eq!(digest.title.as_deref(), Some("Look it up"));
    assert_eq!(digest.last_activity_at, Some(Time::from_millis(1_794_766_200_000)));
    assert_eq!(survey.ready.iter().filter(|(source, _)| source.parent.is_some()).count(), 1);
}

const HEADER: &str =
    r#"{"type":"session","version":3,"id":"a","timestamp":"2026-06-01T10:00:00.000Z","cwd":"/w"}"#;
const PROMPT: &str = r#"{"type":"message","timestamp":"2026-06-01T10:00:01.000Z","message":{"role":"user","content":[{"type":"text","text":"hello"}]}}"#;
const HEARTBEAT: &str = r#"{"type":"message","timestamp":"2026-06-01T10:01:00.000Z","message":{"role":"user","content":"Read HEARTBEAT.md if it exists (workspace context)."}}"#;
const MIRROR: &str = r#"{"type":"message","timestamp":"2026-06-01T10:01:30.000Z","message":{"role":"assistant","provider":"openclaw","model":"delivery-mirror","content":[{"type":"text","text":"sent"}],"usage":{"input":9,"output":9},"stopReason":"stop"}}"#;

/// A sessions directory of the file era.
fn write_files(home: &Path, files: &[(&str, String)]) {
    let directory = home.join("agents/main/sessions");
    std::fs::create_dir_all(&directory).unwrap();
    for (name, content) in files {
        std::fs::write(directory.join(name), content).unwrap();
    }
}

#[test]
fn a_file_store_gives_transcripts_entries_and_leftovers() {
    let home = tempfile::tempdir().unwrap();
    let index = r#"{
  "agent:main:main": {"sessionId": "a", "label": "Main thing", "updatedAt": 1780308060000, "skillsSnapshot": {"prompt": "}"}},
  "agent:main:telegram:group:-1:topic:7": {"sessionId": "b", "sessionFile": "/elsewhere/b-topic-7.jsonl", "updatedAt": 5},
  "agent:main:subagent:q": {"sessionId": "c", "spawnedBy": "agent:main:main", "label": "Lost", "status": "running", "model": "m", "updatedAt": 1780308000000, "sessionStartedAt": 1780307000000},
  "agent:main:odd": "what"
}"#;
    let transcript = [HEADER, PROMPT, HEARTBEAT, MIRROR].join("\n") + "\n";
    write_files(
        home.path(),
        &[
            ("sessions.json", index.to_owned()),
            ("a.jsonl", transcript.clone()),
            ("b-topic-7.jsonl", transcript.replace(r#""id":"a""#, r#""id":"b""#)),
            ("orphan.jsonl", transcript.clone()),
            ("a.checkpoint.0785f0f1.jsonl", transcript.clone()),
            ("a.jsonl.reset.2026-02-23T12-34-56.000Z", transcript),
            ("sessions.json.12.tmp", "{".into()),
            (
                "a.jsonl.lock",
                r#"{"pid":4242,"createdAt":"2026-06-01T10:01:40.000Z","starttime":99}"#.into(),
            ),
            ("b-topic-7.jsonl.lock", "{".into()),
        ],
    );
    let survey = survey(home.path());
    let mut sources: Vec<_> =
        survey.sources.iter().map(|s| (s.id.as_str(), s.name.as_deref())).collect();
    sources.sort();
    assert_eq!(
        sources,
        [
            ("a", Some("agent:main:main")),
            ("b", Some("agent:main:telegram:group:-1:topic:7")),
            ("orphan", None)
        ]
    );
    let kinds = |kind| survey.extras.iter().filter(|extra| extra.kind == kind).count();
    assert_eq!(
        (
            kinds(ExtraFileKind::Attachment),
            kinds(ExtraFileKind::Archive),
            kinds(ExtraFileKind::Temporary)
        ),
        (1, 1, 1)
    );

    let main = survey.sources.iter().find(|source| source.id == "a").unwrap();
    assert_eq!(main.title.as_deref(), Some("Main thing"));
    let expected = TranscriptDigest {
        cwd: Some("/w".into()),
        first_prompt: Some("hello".into()),
        name: Some("agent:main:main".into()),
        started_at: Time::parse("2026-06-01T10:00:00Z"),
        last_activity_at: Time::parse("2026-06-01T10:01:30Z"),
        turns: 1,
        turn: TurnState::Open,
        ..TranscriptDigest::default()
    };
    assert_eq!(openclaw().read_digest(main).unwrap(), expected);
    let (entries, position) = converse(main, 0);
    let roles: Vec<_> = entries.iter().map(|entry| entry.role).collect();
    assert_eq!(roles, [ConversationRole::User, ConversationRole::System, ConversationRole::System]);
    assert_eq!(position, main.stamp.bytes);

    assert_eq!(survey.ready.len(), 1, "an entry without a transcript is not lost");
    let (source, digest) = &survey.ready[0];
    assert_eq!((source.id.as_str(), source.parent.as_deref()), ("c", Some("a")));
    assert_eq!((digest.title.as_deref(), digest.model.as_deref()), (Some("Lost"), Some("m")));
    assert_eq!(digest.turn, TurnState::Open);
    assert_eq!(digest.started_at, Some(Time::from_millis(1_780_307_000_000)));
    assert_eq!(
        openclaw().read_digest(source).unwrap().name.as_deref(),
        Some("agent:main:subagent:q")
    );

    let reasons: Vec<_> = survey.problems.iter().map(|problem| problem.reason.as_str()).collect();
    assert!(reasons.contains(&"1 entries without a usable session id"), "{reasons:?}");
    assert_eq!(reasons.len(), 2, "the lock that is cut off is the other");
    let lock = |id: &str| {
        let scope = RegistrationScope::Session(id.to_owned());
        identity(survey.registrations.iter().find(|lock| lock.scope == scope).unwrap())
    };
    assert_eq!((lock("a").pid, lock("a").start), (Some(4242), Some(99)));
    assert_eq!(lock("a").recorded_at, Time::parse("2026-06-01T10:01:40Z"));
    assert_eq!(lock("b").pid, None, "somebody may be writing: the doubt stays with the session");
}

#[test]
fn an_index_that_is_cut_off_or_empty_is_a_problem_and_transcripts_stay() {
    for content in ["", "[]", r#"{"agent:main:main": {"sessionId": "a"}, "agent"#] {
        let home = tempfile::tempdir().unwrap();
        write_files(
            home.path(),
            &[("sessions.json", content.to_owned()), ("a.jsonl", format!("{HEADER}\n{PROMPT}\n"))],
        );
        let survey = survey(home.path());
        assert_eq!((survey.problems.len(), survey.sources.len()), (1, 1), "{content}");
    }
}

#[test]
fn a_session_in_both_stores_is_listed_once() {
    let (home, connection) = home();
    let file = format!("{SESSION}.jsonl");
    write_files(home.path(), &[(&file, format!("{HEADER}\n{PROMPT}\n"))]);
    connection.execute("update session_windows set updated_at = 9000000000000", []).unwrap();
    let imported = survey(home.path());
    assert_eq!((imported.ready.len(), imported.sources.len(), imported.extras.len()), (1, 0, 1));
    connection.execute("update session_windows set updated_at = 1000", []).unwrap();
    let went_on = survey(home.path());
    assert_eq!((went_on.ready.len(), went_on.sources.len()), (0, 1));
}

#[test]
fn roots_follow_the_environment() {
    let roots = |variables: &[(&str, &str)]| {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        openclaw().session_roots(&EnvLookup::new(&lookup))
    };
    assert_eq!(roots(&[("HOME", "/h")]), [PathBuf::from("/h/.openclaw")]);
    assert_eq!(roots(&[("HOME", "/h"), ("OPENCLAW_HOME", "/o")]), [PathBuf::from("/o/.openclaw")]);
    assert_eq!(roots(&[("HOME", "/h"), ("OPENCLAW_STATE_DIR", "/s")]), [PathBuf::from("/s")]);
    assert_eq!(
        roots(&[("HOME", "/h"), ("OPENCLAW_PROFILE", "dev")]),
        [PathBuf::from("/h/.openclaw-dev")]
    );
}
