//! Hostile input end to end: ids, texts, files and repositories that were made to do harm.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::json;
use testkit::home::TempHome;

use super::run::{fixtures, ostler, ran, run};

/// Runs one hook of OpenCode's.
fn opencode_hook(home: &TempHome, event: &str, id: &str) {
    let payload = json!({"session_id": id, "cwd": home.path()}).to_string();
    let payload = home.write("payload", payload);
    let stdin = fs::File::open(payload).unwrap();
    ran(ostler(home).args(["hook", "opencode", event]).stdin(Stdio::from(stdin))).exits(0);
}

/// A home with OpenCode's database and the ids in it.
fn opencode_home() -> (TempHome, Vec<String>) {
    let home = TempHome::new();
    home.lay_out_agent("opencode", &fixtures().join("opencode/1.18.33"));
    let database = home.database(".local/share/opencode/opencode.db");
    let mut rows = database.prepare("select id from session order by id").unwrap();
    let ids = rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    drop(rows);
    (home, ids)
}

#[test]
fn h7_a_conversation_out_of_a_database_is_written_below_to_or_not_at_all() {
    let (home, ids) = opencode_home();
    let id = &ids[0];
    opencode_hook(&home, "session-start", id);
    opencode_hook(&home, "session-end", id);
    run(&home, "finalize").exits(0);
    let before = fs::read_dir(home.join(".local/share/opencode")).unwrap().count();
    let refused = ran(ostler(&home).args(["vault", "restore", id, "--json"])).exits(13);
    assert_eq!(refused.error(), "REFUSED");
    let after = fs::read_dir(home.join(".local/share/opencode")).unwrap().count();
    assert_eq!(before, after, "nothing was written into the agent's data");
    let to = ran(ostler(&home).args(["vault", "restore", id, "--to", "out", "--json"])).exits(0);
    let shown = ran(ostler(&home).args(["vault", "show", id, "--json"])).result();
    let hash = shown["files"][0]["sha256"].as_str().unwrap().to_owned();
    assert_eq!(to.result()["written"], json!([format!("out/{hash}")]));
    assert!(!home.read(format!("out/{hash}")).is_empty());
}

#[test]
fn h7_what_an_older_version_kept_under_a_hostile_id_is_not_written_there() {
    let (home, ids) = opencode_home();
    let id = &ids[0];
    opencode_hook(&home, "session-start", id);
    opencode_hook(&home, "session-end", id);
    run(&home, "finalize").exits(0);
    // A manifest as it was written before ids were looked at.
    let hostile = home.join(".local/share/opencode/opencode.db#x/../../../../.ssh/rc");
    home.database(".ostler/ostler.db")
        .execute(
            "update kept set manifest = json_remove(json_set(manifest, '$.files[0].path', ?1), \
             '$.files[0].form')",
            [hostile.to_str().unwrap()],
        )
        .unwrap();
    ran(ostler(&home).args(["vault", "restore", id])).exits(13);
    assert!(!home.join(".ssh").exists());
    assert!(!home.join(".local/share/opencode/opencode.db#x").exists());
    ran(ostler(&home).args(["vault", "restore", id, "--to", "out"])).exits(0);
    assert_eq!(fs::read_dir(home.join("out")).unwrap().count(), 1);
}

#[test]
fn h7_a_session_with_an_id_that_is_a_path_is_shown_and_never_tracked() {
    let (home, ids) = opencode_home();
    let hostile = "x/../../../../.ssh/rc";
    home.database(".local/share/opencode/opencode.db")
        .execute_batch(&format!(
            "pragma foreign_keys=off; update session set id = '{hostile}' where id = '{}'; \
             update message set session_id = '{hostile}' where session_id = '{0}';",
            ids[0]
        ))
        .unwrap();
    assert_eq!(run(&home, "ls -a --json").exits(0).session(hostile)["agent"], "opencode");
    for event in ["session-start", "session-end"] {
        opencode_hook(&home, event, hostile);
    }
    run(&home, "finalize").exits(0);
    ran(ostler(&home).args(["vault", "restore", hostile])).exits(3);
    assert!(!home.join(".ssh").exists());
    let doctor = run(&home, "doctor --json");
    assert!(doctor.stdout.contains("names no session by an id"), "{doctor:?}");
}
