//! Logs outlive their sessions, and go when somebody asks for that.

use std::fs;
use std::path::PathBuf;

use testkit::access::{ID, Sessions, chmod, now_s, reaped, rfc3339};

use super::run;

const DAY: i64 = 24 * 60 * 60;

fn log_of(sessions: &Sessions, id: &str) -> PathBuf {
    sessions.root().join(format!("access/log/{id}.jsonl"))
}

/// Writes the log of a session whose last line is so many days old.
fn write_log(sessions: &Sessions, id: &str, days: i64) {
    let line = |at: i64| {
        format!(
            "{{\"at\":\"{}\",\"event\":\"pruned\",\"state\":\"expired\",\"agent\":\"gone\"}}\n",
            rfc3339(at)
        )
    };
    let lines = line(now_s() - 400 * DAY) + &line(now_s() - days * DAY);
    fs::write(log_of(sessions, id), lines).unwrap();
    chmod(&log_of(sessions, id), 0o600);
}

/// A home in which the base session was pruned.
fn pruned() -> Sessions {
    let sessions = Sessions::expired();
    run(&sessions, "prune").exits(0);
    assert!(log_of(&sessions, ID).exists(), "its log tells the end");
    sessions
}

#[test]
fn an_old_log_of_a_session_that_is_gone_goes_on_request() {
    let sessions = pruned();
    assert_eq!(run(&sessions, "prune --logs 30d").exits(0).stdout, "0 pruned, 0 skipped\n");
    write_log(&sessions, ID, 29);
    assert_eq!(run(&sessions, "prune --logs 30d").exits(0).stdout, "0 pruned, 0 skipped\n");
    write_log(&sessions, ID, 31);
    assert_eq!(run(&sessions, "prune").exits(0).stdout, "0 pruned, 0 skipped\n");
    let before = sessions.home.snapshot();
    let dry = run(&sessions, "prune --logs 30d --dry-run").exits(0).stdout;
    assert_eq!(
        dry,
        format!("WOULD_PRUNE_LOG {ID} last line 4w ago\n1 would be pruned, 0 would be skipped\n")
    );
    assert!(before.changes(&sessions.home.snapshot()).is_empty(), "a dry run changes nothing");
    let ran = run(&sessions, "prune --logs 30d --json").exits(0).result();
    assert_eq!(ran["items"][0]["kind"], "access-log");
    assert_eq!(ran["items"][0]["code"], "PRUNED_LOG");
    assert!(!log_of(&sessions, ID).exists());
}

#[test]
fn a_log_is_kept_while_its_session_is_there_and_when_in_doubt() {
    let sessions = pruned();
    write_log(&sessions, ID, 31);
    // The session is there, under its own name or under that of a removal that was cut off.
    for name in [ID.to_owned(), format!(".pruning-{ID}-0a1b2c3d")] {
        fs::create_dir(sessions.of(&name)).unwrap();
        run(&sessions, "prune --logs 1d").exits(0);
        assert!(log_of(&sessions, ID).exists(), "{name}");
        let _ = fs::remove_dir(sessions.of(&name));
    }
    // Not a log as we write them: damaged, open to others, a link, another name.
    let victim = sessions.home.write("victim", "{}");
    fs::write(log_of(&sessions, ID), "{\"at\":\"once\"}\n").unwrap();
    write_log(&sessions, "s-beta0001", 31);
    chmod(&log_of(&sessions, "s-beta0001"), 0o644);
    std::os::unix::fs::symlink(&victim, log_of(&sessions, "s-gamma001")).unwrap();
    write_log(&sessions, "No id", 31);
    let before = sessions.home.snapshot();
    let ran = run(&sessions, "prune --logs 1d").exits(0);
    assert_eq!(ran.stdout, "0 pruned, 0 skipped\n");
    assert!(before.changes(&sessions.home.snapshot()).is_empty());
    sessions.add(ID, &reaped());
    run(&sessions, "prune --logs soon").exits(2);
}
