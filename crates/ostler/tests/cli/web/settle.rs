//! What a page asked for while something died, or while somebody else writes.

use std::time::Duration;

use serde_json::{Value, json};
use sys::writer_lock::WriterLock;
use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::client::WebUnderTest;
use crate::cli::daemon::Daemon;
use crate::cli::run::{ostler, run, sample_home};

const SESSION: &str = "666e4f9b-6b85-4b9f-83d1-1435ba512bba";

fn start_paused(home: &TempHome, pauses: &Pauses) -> WebUnderTest {
    let mut command = ostler(home);
    command.args(["web", "--port", "0", "--json", "--allow", "manage"]);
    pauses.apply(&mut command);
    WebUnderTest::spawn(command)
}

#[test]
fn row_41_killed_while_it_applies_the_journal_settles_it() {
    for point in ["reap.begun", "reap.moved", "reap.done"] {
        let home = sample_home();
        let old = home.join(format!(".claude/projects/-home-user-repo/{SESSION}.jsonl"));
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(86_400);
        std::fs::File::options().append(true).open(&old).unwrap().set_modified(long_ago).unwrap();
        let content = std::fs::read(&old).unwrap();
        let pauses = Pauses::new();
        let web = start_paused(&home, &pauses);
        let token = web.sign_in();
        let plan = web.get("/v1/gc?include=transcripts&olderThan=0s", &token).json();
        let body = json!({
            "planHash": plan["result"]["plan"], "include": "transcripts", "olderThan": "0s",
        });
        pauses.arm(point);
        let answer = std::thread::scope(|scope| {
            let asked = scope.spawn(|| web.call("POST", "/v1/gc", &token, &body));
            pauses.wait(point);
            assert!(
                std::process::Command::new("kill")
                    .args(["-9", &web.pid().to_string()])
                    .status()
                    .unwrap()
                    .success()
            );
            asked.join().unwrap()
        });
        // No answer at all: the page says that it may have been applied (its own row 41).
        assert_eq!(answer.status, 0, "{point}: {}", answer.head);
        drop(web);
        let web = WebUnderTest::start(&home, "--allow manage");
        let token = web.sign_in();
        let again = web.get("/v1/gc?include=transcripts&olderThan=0s", &token);
        assert_eq!(again.status, 200, "{point}: {}", again.text());
        run(&home, "status").exits(0);
        let receipts = web.get("/v1/receipts", &token).json()["result"]["receipts"].clone();
        if !old.exists() {
            let receipt = receipts[0]["id"].as_str().or(receipts[0]["receipt"].as_str());
            let receipt = receipt.unwrap_or_else(|| panic!("{point}: {receipts}"));
            let path = format!("/v1/receipts/{receipt}/undo");
            let undone = web.call("POST", &path, &token, &Value::Null);
            assert_eq!(undone.status, 200, "{point}: {}", undone.text());
        }
        assert_eq!(std::fs::read(&old).unwrap(), content, "{point}");
    }
}

#[test]
fn row_43_a_held_writer_is_503_and_then_it_works_with_a_daemon_and_without() {
    let home = sample_home();
    let web = WebUnderTest::start(&home, "--allow manage");
    let token = web.sign_in();
    let pin = format!("/v1/sessions/{SESSION}/pin");
    let put = || web.call("PUT", &pin, &token, &json!({ "note": "keep" }));
    let pinned = || {
        let told = run(&home, &format!("show {SESSION} --json")).exits(0).result();
        told["session"]["pinned"] == true
    };
    let held = WriterLock::take(&home.join(".local/state/ostler"), Duration::from_secs(5)).unwrap();
    let busy = put();
    assert_eq!(busy.status, 503, "{}", busy.text());
    assert_eq!(busy.json()["error"]["retryable"], true, "{}", busy.text());
    assert!(!pinned(), "nothing was done");
    // Whoever only looks waits for nobody.
    assert_eq!(web.get("/v1/sessions?all=true", &token).status, 200);
    drop(held);
    assert_eq!(put().status, 200);
    assert!(pinned());
    let daemon = Daemon::start(&home);
    assert_eq!(web.call("DELETE", &pin, &token, &Value::Null).status, 200);
    assert!(!pinned());
    drop(daemon);
    let without = put();
    assert_eq!(without.status, 200, "{}", without.text());
    assert!(pinned());
}
