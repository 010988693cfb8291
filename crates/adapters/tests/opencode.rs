//! OpenCode: the database of a real 1.18.33, at rest and in the middle of a turn, and the files of
//! older versions.
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
use testkit::sql::load_sql;

fn opencode() -> &'static dyn Adapter {
    by_id("opencode").unwrap()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/opencode").join(name)
}

/// A data directory with a fixture's database in it.
fn home(version: &str) -> (tempfile::TempDir, rusqlite::Connection) {
    let home = tempfile::tempdir().unwrap();
    let sql = fixture(version).join("opencode.db.sql");
    let connection = load_sql(&sql, &home.path().join("opencode.db"));
    (home, connection)
}

fn survey(root: &Path) -> Survey {
    let mut survey = Survey::new(root);
    opencode().survey_root(&mut survey);
    survey
}

fn only(root: &Path, id: &str) -> (TranscriptSource, TranscriptDigest) {
    let survey = survey(root);
    assert_eq!(survey.problems, []);
    let mut found: Vec<_> = survey.ready.into_iter().filter(|(s, _)| s.id == id).collect();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

fn converse(source: &TranscriptSource, from: u64) -> (Vec<ConversationEntry>, u64) {
    let mut entries = Vec::new();
    let position =
        opencode().read_conversation(source, from, &mut |entry| entries.push(entry)).unwrap();
    (entries, position)
}

fn told(entries: &[ConversationEntry]) -> Vec<(ConversationRole, &str)> {
    entries.iter().map(|entry| (entry.role, entry.text.as_str())).collect()
}

const HELLO: &str = "ses_e1fa3dad8ffehnCJ7cZY63nsx7";
const WITH_TOOL: &str = "ses_e1fa35c2affeCmjgPkkXrVKNL5";
const MIDTURN: &str = "ses_e1ef0a848ffeemoyueORWIVvkP";

#[test]
fn a_finished_session_of_the_database() {
    let (home, connection) = home("1.18.33");
    let (source, digest) = only(home.path(), HELLO);
    let size = "select page_count * page_size from pragma_page_count, pragma_page_size";
    let size: i64 = connection.query_row(size, [], |row| row.get(0)).unwrap();
    // Four of eleven parts.
    assert_eq!(source.bytes, Some(size as u64 * 4 / 11));
    assert_eq!(source.parent, None);
    assert_eq!(source.path, std::fs::canonicalize(home.path()).unwrap().join("opencode.db"));
    let expected = TranscriptDigest {
        cwd: Some("/home/user/repo".into()),
        title: Some("hello from the fake model".into()),
        first_prompt: Some("\"hi there\"".into()),
        model: Some("fake-model".into()),
        version: Some("1.18.33".into()),
        started_at: Some(Time::from_millis(1_794_765_497_640)),
        last_activity_at: Some(Time::from_millis(1_794_765_505_030)),
        tokens: Some(TokenUsage { input: 1234, output: 56, cache_read: 0, cache_write: 0 }),
        cost_micro_usd: Some(1346),
        turns: 1,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(digest, expected);
    assert_eq!(opencode().read_digest(&source).unwrap(), expected);
}

#[test]
fn two_answers_of_one_turn_are_counted_once_each() {
    let (home, _connection) = home("1.18.33");
    let (_, digest) = only(home.path(), WITH_TOOL);
    let expected = TokenUsage { input: 2468, output: 112, cache_read: 0, cache_write: 0 };
    assert_eq!(digest.tokens, Some(expected));
    assert_eq!((digest.turns, digest.cost_micro_usd), (1, Some(2692)));
    assert_eq!(digest.last_activity_at, Some(Time::from_millis(1_794_765_548_341)));
}

#[test]
fn the_conversation_is_told_with_calls_and_results() {
    let (home, _connection) = home("1.18.33");
    let (source, _) = only(home.path(), WITH_TOOL);
    let (entries, position) = converse(&source, 0);
    assert_eq!(
        entries.iter().map(|entry| entry.role).collect::<Vec<_>>(),
        [
            ConversationRole::User,
            ConversationRole::Tool,
            ConversationRole::Result,
            ConversationRole::Assistant
        ]
    );
    assert_eq!(entries[1].tool.as_deref(), Some("bash"));
    assert!(entries[1].text.starts_with(r#"{"command":"env | grep -E 'OPENCODE|AGENT'; sleep 2""#));
    assert_eq!(entries[1].at, Some(Time::from_millis(1_794_765_540_442)));
    assert!(entries[2].text.contains("OPENCODE_PID=7961\n"));
    assert_eq!(entries[2].at, Some(Time::from_millis(1_794_765_542_791)));
    assert_eq!(entries[3].text, "hello from the fake model");
    // Seven parts, two steps each; nothing is left to tell.
    assert_eq!(position, 14);
    assert_eq!(converse(&source, position), (vec![], 14));
}

#[test]
fn in_the_middle_of_a_turn_the_turn_is_open_and_nothing_is_spent() {
    let (home, connection) = home("1.18.33-midturn");
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    connection
        .execute("update session set title = 'New session - 2026-11-15T21:14:01.528Z'", [])
        .unwrap();
    let names = || {
        let mut names: Vec<_> =
            std::fs::read_dir(home.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let (source, digest) = only(home.path(), MIDTURN);
    assert_eq!(names(), before, "reading must leave no trace");
    assert_eq!((digest.turn, digest.turns), (TurnState::Open, 1));
    assert_eq!((digest.tokens, digest.cost_micro_usd), (None, None));
    assert_eq!(digest.title, None, "a placeholder is no title");
    assert_eq!(digest.last_activity_at, Some(Time::from_millis(1_794_777_242_885)));

    let (entries, position) = converse(&source, 0);
    assert_eq!(entries.len(), 1);
    assert_eq!(position, 2, "the answer has no part yet");
    let part = |id: &str, data: &str| {
        connection
            .execute(
                "insert or replace into part values (?1, 'msg_1e10f5d05001cO19xSP1gl2pXG', ?2, 1, 1, ?3)",
                [id, MIDTURN, data],
            )
            .unwrap();
    };
    let running =
        r#"{"type":"tool","tool":"bash","state":{"status":"running","input":{"command":"ls"}}}"#;
    part("prt_2", running);
    let (entries, position) = converse(&source, position);
    assert_eq!(
        (told(&entries), position),
        (vec![(ConversationRole::Tool, r#"{"command":"ls"}"#)], 3)
    );
    assert_eq!(converse(&source, position), (vec![], 3));
    part(
        "prt_2",
        &running.replace("running", "completed").replace("\"input\"", "\"output\":\"a\",\"input\""),
    );
    part("prt_3", r#"{"type":"text","text":"par","time":{"start":5}}"#);
    let (entries, position) = converse(&source, position);
    assert_eq!((told(&entries), position), (vec![(ConversationRole::Result, "a")], 4));
    assert_eq!(told(&converse(&source, 0).0).last(), Some(&(ConversationRole::Assistant, "par")));
    part("prt_3", r#"{"type":"text","text":"partial","time":{"start":5,"end":6}}"#);
    let (entries, position) = converse(&source, position);
    assert_eq!((told(&entries), position), (vec![(ConversationRole::Assistant, "partial")], 6));
}

/// The parent's call says that the task is done; the child's own rows do not.
#[test]
fn b13_a_subagent_is_over_when_its_task_is() {
    let (home, database) = home("1.18.33");
    let change = format!("update session set parent_id = '{HELLO}' where id = '{WITH_TOOL}'");
    database.execute_batch(&change).unwrap();
    assert_eq!(only(home.path(), WITH_TOOL).1.ended_at, None);
    let call = |id: &str, status: &str, time: &str| {
        let data = format!(
            r#"{{"type":"tool","tool":"task","state":{{"status":"{status}","metadata":{{"sessionId":"{WITH_TOOL}"}},"time":{time}}}}}"#
        );
        let message: String = database
            .query_row("select id from message where session_id = ?1", [HELLO], |row| row.get(0))
            .unwrap();
        let insert = "insert into part (id, message_id, session_id, time_created, time_updated, data) values (?1, ?2, ?3, 1, 1, ?4)";
        database.execute(insert, [id, &message, HELLO, &data]).unwrap();
    };
    call("prt_zz1", "running", r#"{"start":1794777252000}"#);
    assert_eq!(only(home.path(), WITH_TOOL).1.ended_at, None);
    call("prt_zz2", "completed", r#"{"start":1794777252000,"end":1794777260000}"#);
    let ended = only(home.path(), WITH_TOOL).1.ended_at;
    assert_eq!(ended, Some(Time::from_millis(1_794_777_260_000)));
    // Given another task, it works again.
    call("prt_zz3", "running", r#"{"start":1794777270000}"#);
    assert_eq!(only(home.path(), WITH_TOOL).1.ended_at, None);
}

#[test]
fn a_sub_agent_knows_its_parent_and_injected_messages_are_no_prompts() {
    let (home, connection) = home("1.18.33");
    connection
        .execute_batch(&format!(
            "update session set parent_id = '{HELLO}' where id = '{WITH_TOOL}';
             insert into message values ('msg_z1', '{HELLO}', 1794765506000, 1, '{{\"role\":\"user\",\"time\":{{\"created\":1794765506000}}}}');
             insert into part values ('prt_z1', 'msg_z1', '{HELLO}', 1, 1, '{{\"type\":\"compaction\",\"auto\":true}}');
             insert into message values ('msg_z2', '{HELLO}', 1794765507000, 1, '{{\"role\":\"assistant\",\"finish\":\"stop\",\"modelID\":\"other\",\"time\":{{\"created\":1794765507000,\"completed\":1794765508000}},\"tokens\":{{\"total\":115,\"input\":10,\"output\":5,\"reasoning\":0,\"cache\":{{\"read\":70,\"write\":30}}}}}}');
             insert into message values ('msg_z3', '{HELLO}', 1794765509000, 1, 'not json');"
        ))
        .unwrap();
    let (child, digest) = only(home.path(), WITH_TOOL);
    assert_eq!((child.parent.as_deref(), digest.parent.as_deref()), (Some(HELLO), Some(HELLO)));
    let (_, digest) = only(home.path(), HELLO);
    assert_eq!((digest.turns, digest.turn, digest.damage.broken), (1, TurnState::Closed, 1));
    assert_eq!(
        digest.tokens,
        Some(TokenUsage { input: 1244, output: 61, cache_read: 70, cache_write: 30 })
    );
    assert_eq!(digest.model.as_deref(), Some("other"));
    assert_eq!(digest.other_models, ["fake-model"]);
}

#[test]
fn a_schema_that_is_not_known_is_a_problem_and_not_an_empty_store() {
    let (home, connection) = home("1.18.33");
    connection.execute_batch("alter table message rename column data to content").unwrap();
    let survey = survey(home.path());
    assert_eq!(survey.ready.len(), 0);
    assert_eq!(survey.problems.len(), 1);
    assert_eq!(survey.problems[0].reason, "unknown schema: table `message` has no column `data`");
    std::fs::write(home.path().join("opencode-dev.db"), "").unwrap();
    std::fs::write(home.path().join("opencode-nightly.db"), "no database at all, but long")
        .unwrap();
    assert_eq!(self::survey(home.path()).problems.len(), 3);
}

/// A session as versions before 1.2 wrote it.
fn write_storage(home: &Path, id: &str, updated: u64) {
    let write = |path: String, json: String| {
        let path = home.join("storage").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, json).unwrap();
    };
    write(
        format!("session/26376aa6/{id}.json"),
        format!(
            r#"{{"id":"{id}","version":"1.1.4","projectID":"26376aa6","directory":"/home/user/old","title":"An old one","time":{{"created":1700000000000,"updated":{updated}}}}}"#
        ),
    );
    write(
        format!("message/{id}/msg_1.json"),
        format!(
            r#"{{"id":"msg_1","sessionID":"{id}","role":"user","time":{{"created":1700000001000}}}}"#
        ),
    );
    write("part/msg_1/prt_1.json".into(), r#"{"id":"prt_1","type":"text","text":"fix it"}"#.into());
    write(
        format!("message/{id}/msg_2.json"),
        format!(
            r#"{{"id":"msg_2","sessionID":"{id}","role":"assistant","modelID":"m-1","cost":0.5,"tokens":{{"input":3,"output":4,"reasoning":5,"cache":{{"read":6,"write":7}}}},"time":{{"created":1700000002000,"completed":1700000003000}}}}"#
        ),
    );
    write(
        "part/msg_2/prt_2.json".into(),
        r#"{"id":"prt_2","type":"text","text":"done","time":{"start":1700000002500,"end":1700000003000}}"#.into(),
    );
}

#[test]
fn the_files_of_older_versions_are_read() {
    let home = tempfile::tempdir().unwrap();
    write_storage(home.path(), "ses_old", 1_700_000_003_000);
    let survey = survey(home.path());
    assert_eq!((survey.problems.len(), survey.ready.len(), survey.sources.len()), (0, 0, 1));
    let source = &survey.sources[0];
    assert_eq!(source.beside.len(), 2, "each message has its stamp");
    let digest = opencode().read_digest(source).unwrap();
    let expected = TranscriptDigest {
        cwd: Some("/home/user/old".into()),
        title: Some("An old one".into()),
        first_prompt: Some("fix it".into()),
        model: Some("m-1".into()),
        version: Some("1.1.4".into()),
        started_at: Some(Time::from_millis(1_700_000_000_000)),
        last_activity_at: Some(Time::from_millis(1_700_000_003_000)),
        tokens: Some(TokenUsage { input: 3, output: 9, cache_read: 6, cache_write: 7 }),
        cost_micro_usd: Some(500_000),
        turns: 1,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(digest, expected);
    let (entries, position) = converse(source, 0);
    assert_eq!(
        told(&entries),
        [(ConversationRole::User, "fix it"), (ConversationRole::Assistant, "done")]
    );
    assert_eq!(converse(source, position), (vec![], 4));
}

#[test]
fn a_session_in_both_stores_is_listed_once_and_the_newer_one_counts() {
    let (home, _connection) = home("1.18.33");
    write_storage(home.path(), HELLO, 1_794_765_505_052);
    let same_age = survey(home.path());
    assert_eq!((same_age.ready.len(), same_age.sources.len()), (2, 0));
    assert_eq!(same_age.extras.len(), 1);
    assert_eq!(same_age.extras[0].session.as_deref(), Some(HELLO));
    write_storage(home.path(), HELLO, 1_794_765_505_053);
    let files_newer = survey(home.path());
    assert_eq!((files_newer.ready.len(), files_newer.sources.len()), (1, 1));
    assert_eq!(files_newer.sources[0].id, HELLO);
}

#[test]
fn channels_have_databases_of_their_own_and_the_newest_copy_counts() {
    let (home, _connection) = home("1.18.33");
    let other = load_sql(&fixture("1.18.33/opencode.db.sql"), &home.path().join("opencode-dev.db"));
    other
        .execute("update session set title = 'newer', time_updated = time_updated + 1", [])
        .unwrap();
    let (source, digest) = only(home.path(), HELLO);
    assert_eq!(digest.title.as_deref(), Some("newer"));
    assert_eq!(source.path.file_name().unwrap(), "opencode-dev.db");
}

#[test]
fn roots_follow_the_environment() {
    let roots = |variables: &[(&str, &str)]| {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        opencode().session_roots(&EnvLookup::new(&lookup))
    };
    let data = "/h/.local/share/opencode";
    let expect = |variables: &[(&str, &str)], expected: &[&str]| {
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(roots(variables), expected);
    };
    expect(&[("HOME", "/h")], &[data]);
    expect(&[("HOME", "/h"), ("XDG_DATA_HOME", "/d")], &["/d/opencode"]);
    expect(&[("HOME", "/h"), ("OPENCODE_DB", ":memory:")], &[data]);
    expect(&[("HOME", "/h"), ("OPENCODE_DB", "opencode-x.db")], &[data]);
    let mine = format!("{data}/mine.db");
    expect(&[("HOME", "/h"), ("OPENCODE_DB", "mine.db")], &[data, &mine]);
    expect(&[("HOME", "/h"), ("OPENCODE_DB", "/x/y.db")], &[data, "/x/y.db"]);
}

#[test]
fn a_database_that_the_environment_names_is_a_root() {
    let (home, _connection) = home("1.18.33");
    let elsewhere = home.path().join("mine.db");
    std::fs::rename(home.path().join("opencode.db"), &elsewhere).unwrap();
    assert_eq!(survey(&elsewhere).ready.len(), 2);
    assert_eq!(survey(home.path()).ready.len(), 0);
}
