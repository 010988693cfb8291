//! A credential that was lent goes through the reaper, and is discarded: journal, receipt and undo say so.

use std::fs;
use std::process::Child;

use serde_json::Value;
use testkit::access::{ID, Sessions, chmod};
use testkit::pause::Pauses;

use super::super::run::{Ran, ran};
use super::{ostler, run};

fn plain(sessions: &Sessions, line: &str) -> Ran {
    ran(ostler(sessions).args(line.split_whitespace()))
}

fn steps(sessions: &Sessions) -> Value {
    plain(sessions, "trash ls --json").exits(0).result()["receipts"].clone()
}

#[test]
fn what_was_pruned_has_a_receipt_that_says_discarded_and_no_undo() {
    let sessions = Sessions::expired();
    let pruned = run(&sessions, "prune --json").exits(0).result();
    let receipt = pruned["receipt"].as_str().unwrap().to_owned();
    let listed = steps(&sessions);
    assert_eq!(listed[0]["receipt"], *receipt, "{listed}");
    assert_eq!(listed[0]["command"], "access prune");
    assert_eq!(listed[0]["undoable"], false);
    let item = &listed[0]["items"][0];
    assert_eq!((&item["action"], &item["state"]), (&"discarded".into(), &"done".into()), "{item}");
    let undone = plain(&sessions, &format!("undo {receipt}"));
    assert_ne!(undone.code, 0, "{undone:?}");
    let said = format!("{}{}", undone.stdout, undone.stderr);
    assert!(said.contains("removed for good"), "{said}");
    assert!(!sessions.of(ID).exists());
    assert!(plain(&sessions, "trash ls").exits(0).stdout.contains("discarded"));
    let kept = fs::read_dir(sessions.root().join(format!("trash/{receipt}/0"))).unwrap().count();
    assert_eq!(kept, 0, "no copy was kept");
}

#[test]
fn a_log_that_expired_is_in_the_trash_and_comes_back() {
    let sessions = Sessions::expired();
    run(&sessions, "prune").exits(0);
    let log = sessions.root().join(format!("access/log/{ID}.jsonl"));
    let line = "{\"at\":\"2020-01-01T00:00:00Z\",\"event\":\"pruned\",\"state\":\"expired\",\"agent\":\"gone\"}\n";
    fs::write(&log, line).unwrap();
    chmod(&log, 0o600);
    run(&sessions, "prune --logs 30d").exits(0);
    assert!(!log.exists());
    plain(&sessions, "undo").exits(0);
    assert_eq!(fs::read_to_string(&log).unwrap(), line);
}

/// Starts `access prune`, and kills it at a point.
fn killed_at(sessions: &Sessions, point: &str) {
    let pauses = Pauses::new();
    pauses.arm(point);
    let mut command = ostler(sessions);
    pauses.apply(&mut command);
    let mut child: Child = command.args(["access", "prune"]).spawn().unwrap();
    pauses.wait(point);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn row_47_a_kill_at_any_point_of_the_journal_is_finished_by_the_next_run() {
    for point in [
        "reap.opened",
        "reap.begun",
        "access-prune-renamed",
        "reap.discarded-file",
        "reap.moved",
        "reap.done",
    ] {
        let sessions = Sessions::expired();
        killed_at(&sessions, point);
        run(&sessions, "prune").exits(0);
        assert_eq!(sessions.directory().read_dir().unwrap().count(), 0, "{point}");
        // Whoever was killed after the last file left its line to the next run of the reaper.
        sessions.add(ID, &testkit::access::reaped());
        run(&sessions, "prune").exits(0);
        let verified = plain(&sessions, "trash verify --json").exits(0).result();
        assert_eq!(verified["interrupted"], 0, "{point}: {verified}");
        assert_eq!(verified["problems"], Value::Array(Vec::new()), "{point}: {verified}");
    }
}
