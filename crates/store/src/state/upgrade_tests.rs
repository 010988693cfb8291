//! Stores of every earlier version: what they hold is read as it is, and survives the steps to this one.
//! A store of a later version is refused and left as it is.

use super::*;
use model::control::locks::DirectoryId;
use model::session::SessionName;

/// What each step was when it was released. A store that has taken a step never takes it again, so a change of
/// one would reach new stores only.
const RELEASED_STEPS: [&str; 10] = [
    "1e7db9d708b07c0405cc332266262e85c44427c3661cfabbdd693dd1ab0d847b",
    "49d19c3a3f92d6c63222b6978de71577d57b5eabaae21440cffc6884a3d877f5",
    "d82a833eb595ad20f90a78943d06de5f3175a14fd7352d7a6b0374d00a1d5502",
    "4a717f9e28b52d0201fe27713cbbfcfd5de76f8470740845179a7e173558923a",
    "8c3dc1e4386197785838997e60a99d68279d51e7c7bd728b0c663f9e25c92a8a",
    "48c62488f326faba0cb94666f46c92c0cffba1a110a7c7645ab110d7ec1519cc",
    "e89a002372c4ea52733f1cdf299f76b637ce7b5e24972685e326ed894a43ecaf",
    "b3c0171dab0263ed3abdb7e4fdb54944d591af8d7e1648f76a9045b635249954",
    "0e07412da81ff1f63c594a57ee50ca2a49a32ecf8f43b3a0557448e8ce62bf98",
    "5c7747df3fdbdb4ef56f36fb11d59c251ef0e97f0685224e196b80c50c3c374d",
];

/// Rows as the versions wrote them, and the first version that has such.
const ROWS: &[(i64, &str)] = &[
    (
        1,
        r#"insert into event (id, at, kind, agent, session, body) values
        ('e1', 5, 'turn-end', 'claude-code', 'open', '{"event":"Stop"}'),
        ('e2', 6, 'waiting', 'claude-code', 'open', '{"event":"Notification"}')"#,
    ),
    (
        1,
        r#"insert into session (agent, id, track, open, condensed, ended_at) values
        ('claude-code', 'open', '{"cwd":"/repo"}', 1, 0, null),
        ('codex', 'ended', '{"cwd":"/repo/crates","end":{"at":"1970-01-01T00:00:00.015Z","reason":"exited"}}', 0, 1, 15),
        ('codex', 'uncondensed', '{"cwd":"/repo2","end":{"at":"1970-01-01T00:00:00.016Z","reason":"exited"}}', 0, 0, 16)"#,
    ),
    (1, "insert into spool values (7, 4096, x'0a')"),
    (1, r#"insert into kept values ('codex', 'ended', 17, '{"session":"ended"}')"#),
    (2, "update session set cwd = json_extract(track, '$.cwd')"),
    (3, "insert into pin values ('codex', 'ended', 18, 'the schema')"),
    (5, "insert into cursor values ('notify', 1)"),
    (
        5,
        r#"insert into tally values ('turn-end', '{"agent":"claude-code","event":"Stop"}', 0, 1, 0)"#,
    ),
    (
        6,
        r#"insert into directory_lock values
        (3, 4, '{"path":"/repo","directory":{"device":3,"inode":4},"by":"me","takenAt":"1970-01-01T00:00:00.019Z"}')"#,
    ),
    (
        6,
        r#"insert into fuse values
        ('f1', 'armed', '{"id":"f1","target":{"kind":"directory","path":"/repo"},"due":{"kind":"at","at":"1970-01-01T00:00:01Z"},"action":{"kind":"event"},"late":"fire","createdAt":"1970-01-01T00:00:00.020Z","createdBy":"me","state":"armed"}'),
        ('f2', 'fired', '{"id":"f2","target":{"kind":"session","agent":"codex","id":"ended"},"due":{"kind":"idle","spanMs":5,"lastSignAt":"1970-01-01T00:00:00Z"},"action":{"kind":"stop"},"late":"fire","createdAt":"1970-01-01T00:00:00.020Z","createdBy":"me","state":"fired"}')"#,
    ),
    (
        7,
        r#"insert into delivery values
        ('d1', 'codex', 'ended', 21, 'key', '{"id":"d1","session":"ended","agent":"codex","channel":"terminal","sha256":"00","bytes":3,"state":"accepted","begunAt":"1970-01-01T00:00:00.021Z","key":"key"}', '{"pid":7}')"#,
    ),
    (
        8,
        r#"insert into webhook values
        ('w1', '{"id":"w1","url":"https://example.invalid","secretFiles":["/secret"],"addedAt":"1970-01-01T00:00:00.022Z","cursor":1}')"#,
    ),
    (
        9,
        r#"insert into kept_tab values
        ('laptop', '{"name":"laptop","tokenHash":"h","right":"control","since":"1970-01-01T00:00:00.023Z","until":"2970-01-01T00:00:00Z"}')"#,
    ),
    (
        10,
        r#"insert into group_member values
        ('fix', 'one', 1, '{"id":"m1","group":"fix","slot":"one","agent":"codex","launcher":{"pid":7},"state":"started","madeAt":"1970-01-01T00:00:00.024Z"}')"#,
    ),
];

/// A store as version `version` left it.
fn store_of_version(version: i64) -> tempfile::TempDir {
    let private: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    let home = tempfile::Builder::new().permissions(private).tempdir().unwrap();
    let old = Connection::open(database_path(home.path())).unwrap();
    for step in &MIGRATIONS[..version as usize] {
        old.execute_batch(step).unwrap();
    }
    for (_, rows) in ROWS.iter().filter(|(since, _)| *since <= version) {
        old.execute_batch(rows)
            .unwrap_or_else(|error| panic!("version {version}: {rows}: {error}"));
    }
    old.pragma_update(None, "user_version", version).unwrap();
    home
}

/// What one reader gives, and the version that brought it.
struct Reading {
    reader: &'static str,
    since: i64,
    found: String,
}

/// Asks every reader that there is.
fn read_everything(state: &StateStore) -> Vec<Reading> {
    let ended = SessionName::new("codex", "ended");
    let open = SessionName::new("claude-code", "open");
    let directory = DirectoryId { device: 3, inode: 4, born_at: None };
    let all = DeliveryQuery { most: 9, ..DeliveryQuery::default() };
    macro_rules! read {
        ($($since:literal $method:ident($($argument:expr),*);)*) => {
            vec![$(Reading {
                reader: stringify!($method),
                since: $since,
                found: match state.$method($($argument),*) {
                    Ok(found) => format!("{found:?}"),
                    Err(error) => panic!("{}: {error}", stringify!($method)),
                },
            }),*]
        };
    }
    read![
        1 open_sessions();
        1 recorded_ends();
        1 uncondensed_sessions();
        1 count_uncondensed();
        1 ended_sessions(Time::from_millis(0), None, 9);
        1 ended_sessions(Time::from_millis(0), Some("/repo"), 9);
        1 find_track("codex", "ended");
        1 spool_mark(7);
        1 list_kept();
        1 events_after(0, 9);
        1 newest_event();
        1 happening_before(&open, 9);
        1 check_integrity();
        3 list_pins();
        3 pin_of(&ended);
        5 read_cursor("notify");
        5 list_tallies();
        6 list_locks();
        6 lock_of(&directory);
        6 list_fuses(true);
        6 list_fuses(false);
        6 find_fuse("f2");
        7 list_deliveries(all);
        7 find_delivery("d1");
        8 list_webhooks();
        8 find_webhook("w1");
        9 list_kept_tabs();
        10 list_members(MemberScope::Every);
        10 list_members(MemberScope::Open);
        10 list_members(MemberScope::Of("fix"));
    ]
}

fn assert_readings(seen: &[Reading], full: &[Reading], empty: &[Reading], version: i64) {
    for ((seen, full), empty) in seen.iter().zip(full).zip(empty) {
        let expected = if full.since <= version { &full.found } else { &empty.found };
        assert_eq!(&seen.found, expected, "{} of a store of version {version}", seen.reader);
    }
}

fn newest() -> i64 {
    MIGRATIONS.len() as i64
}

#[test]
fn row_17_every_earlier_store_is_read_as_it_is_and_loses_nothing_on_its_way_up() {
    let full_home = store_of_version(newest());
    let full = read_everything(&StateStore::open_read_only(full_home.path()).unwrap().unwrap());
    for reading in &full {
        let says_nothing = ["None", "[]", "0"].contains(&reading.found.as_str());
        assert!(
            !says_nothing || reading.reader == "check_integrity",
            "{} has no row",
            reading.reader
        );
    }
    let empty_home = tempfile::tempdir().unwrap();
    let mut empty = StateStore::open(&empty_home.path().join("state")).unwrap();
    let nothing = read_everything(&empty);
    empty.checkpoint().unwrap();
    for version in 1..=newest() {
        let home = store_of_version(version);
        let file = database_path(home.path());
        let before = std::fs::read(&file).unwrap();
        let reader = StateStore::open_read_only(home.path()).unwrap().unwrap();
        assert_readings(&read_everything(&reader), &full, &nothing, version);
        drop(reader);
        assert_eq!(std::fs::read(&file).unwrap(), before, "a reader changed version {version}");

        let mut state = StateStore::open(home.path()).unwrap();
        assert_eq!(state.schema_version().unwrap(), newest());
        let mut after = read_everything(&state);
        // What was counted since the fifth version is counted from the events of the earlier ones.
        let tallies = |reading: &Reading| reading.reader == "list_tallies";
        let counted = after.iter().position(tallies).map(|at| after.remove(at).found);
        assert_eq!(counted, full.iter().find(|one| tallies(one)).map(|one| one.found.clone()));
        let without = |readings: &[Reading]| -> Vec<Reading> {
            let others = readings.iter().filter(|one| !tallies(one));
            let copy = |one: &Reading| Reading { found: one.found.clone(), ..*one };
            others.map(copy).collect()
        };
        assert_readings(&after, &without(&full), &without(&nothing), version);
        assert_eq!(state.store_identity().unwrap().len(), 16);
        state.move_cursor("new", 2).unwrap();
        assert_eq!(state.read_cursor("new").unwrap(), Some(2));
    }
}

#[test]
fn row_17_every_table_has_rows_in_this_test() {
    let home = store_of_version(newest());
    let state = StateStore::open_read_only(home.path()).unwrap().unwrap();
    let query = "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'";
    let mut statement = state.connection.prepare(query).unwrap();
    let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    for name in names.map(Result::unwrap) {
        let count = format!("select count(*) from {name}");
        let rows: i64 = state.connection.query_row(&count, [], |row| row.get(0)).unwrap();
        assert!(rows > 0, "the table {name} is new: give it rows, and its readers a line");
    }
}

#[test]
fn row_17_a_released_step_is_never_changed() {
    for (index, digest) in RELEASED_STEPS.iter().enumerate() {
        assert_eq!(sys::hash::sha256(MIGRATIONS[index].as_bytes()), *digest, "step {index}");
    }
}

#[test]
fn row_17_a_store_of_a_later_version_is_refused_and_left_as_it_is() {
    let home = store_of_version(newest());
    let file = database_path(home.path());
    let old = Connection::open(&file).unwrap();
    old.pragma_update(None, "user_version", newest() + 1).unwrap();
    drop(old);
    let before = std::fs::read(&file).unwrap();
    for refused in
        [StateStore::open(home.path()).map(drop), StateStore::open_read_only(home.path()).map(drop)]
    {
        let reason = refused.unwrap_err();
        assert!(matches!(reason, StateError::Newer { .. }), "{reason}");
        assert!(reason.to_string().contains("was written by a newer ostler"), "{reason}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), before);
}
