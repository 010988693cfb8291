//! Sessions that ended, by directory; stores of earlier versions.

use super::*;
use model::rules::track::EndReason;

fn a_home() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;

    let private = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(private).tempdir().unwrap()
}

fn note_end(state: &mut StateStore, id: &str, cwd: &str, at: i64) {
    let at = Time::from_millis(at);
    let end = Some(TrackEnd { at, reason: EndReason::Exited });
    let track = HookTrack { end, cwd: Some(cwd.to_owned()), ..HookTrack::default() };
    let tracked = TrackedSession { agent: "claude-code".into(), id: id.into(), track };
    let transaction = state.connection.transaction().unwrap();
    save_track(&transaction, &tracked).unwrap();
    transaction.commit().unwrap();
}

fn ids(state: &StateStore, within: Option<&str>, most: usize) -> Vec<String> {
    let ended = state.ended_sessions(Time::from_millis(10), within, most).unwrap();
    ended.into_iter().map(|one| one.id).collect()
}

fn plan_of(state: &StateStore, question: &str) -> String {
    let mut statement =
        state.connection.prepare(&format!("explain query plan {question}")).unwrap();
    let none: [Option<&str>; 3] = [None; 3];
    let values = &none[..statement.parameter_count()];
    let lines = statement
        .query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>(3))
        .unwrap();
    lines.collect::<rusqlite::Result<Vec<_>>>().unwrap().join("\n")
}

#[test]
fn what_ended_in_a_directory_is_what_ended_there_or_below_the_newest_first() {
    let home = a_home();
    let mut state = StateStore::open(home.path()).unwrap();
    for (id, cwd, at) in [
        ("early", "/repo", 9),
        ("here", "/repo", 20),
        ("below", "/repo/crates/x", 30),
        ("beside", "/repo2", 40),
        ("before", "/repo-old", 50),
        ("above", "/", 60),
        ("here-again", "/repo", 70),
    ] {
        note_end(&mut state, id, cwd, at);
    }
    assert_eq!(ids(&state, Some("/repo"), 9), ["here-again", "below", "here"]);
    assert_eq!(ids(&state, Some("/repo"), 2), ["here-again", "below"]);
    assert_eq!(ids(&state, Some("/repo/crates"), 9), ["below"]);
    assert_eq!(ids(&state, Some("/rep"), 9), Vec::<String>::new());
    assert_eq!(ids(&state, Some("/"), 9).len(), 6);
    assert_eq!(ids(&state, None, 3), ["here-again", "above", "before"]);
}

#[test]
fn what_ended_in_a_directory_is_found_without_reading_what_ended_elsewhere() {
    let home = a_home();
    let state = StateStore::open(home.path()).unwrap();
    let plan = plan_of(&state, &newest_within("cwd", 10, 9));
    assert_eq!(plan.matches("COVERING INDEX ended_session_in").count(), 2, "{plan}");
    assert_eq!(plan.matches("SEARCH session USING PRIMARY KEY").count(), 1, "{plan}");
}

#[test]
fn a_store_of_the_first_version_is_read_and_brought_up_to_date_when_it_is_written() {
    let home = a_home();
    let old = Connection::open(database_path(home.path())).unwrap();
    old.execute_batch(MIGRATIONS[0]).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    let track =
        r#"{"cwd":"/repo/crates","end":{"at":"1970-01-01T00:00:00.015Z","reason":"exited"}}"#;
    let row = "insert into session values ('claude-code', 'old', ?1, 0, 0, 15)";
    old.execute(row, [track]).unwrap();
    drop(old);
    let mut state = StateStore::open_read_only(home.path()).unwrap().unwrap();
    assert_eq!(ids(&state, Some("/repo"), 9), ["old"]);

    state = StateStore::open(home.path()).unwrap();
    assert_eq!(state.schema_version().unwrap(), MIGRATIONS.len() as i64);
    note_end(&mut state, "here", "/repo", 20);
    assert_eq!(ids(&state, Some("/repo"), 9), ["here", "old"]);
}
