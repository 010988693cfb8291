//! What a page asked for while something died, or while somebody else writes.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};
use sys::writer_lock::WriterLock;
use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::client::WebUnderTest;
use crate::cli::daemon::Daemon;
use crate::cli::live::wait_until;
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

/// Whether a server still has a connection with a client of that port.
fn has_connection(web: &WebUnderTest, client: u16) -> bool {
    let table = std::fs::read_to_string(format!("/proc/{}/net/tcp", web.pid())).unwrap();
    let (ours, theirs) = (format!(":{:04X}", web.port), format!(":{client:04X}"));
    // Established, or left by the client alone.
    table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|words| {
        words[1].ends_with(&ours) && words[2].ends_with(&theirs) && ["01", "08"].contains(&words[3])
    })
}

#[test]
fn row_45_an_act_is_an_event_also_when_its_client_has_left() {
    let home = sample_home();
    let pauses = Pauses::new();
    let web = start_paused(&home, &pauses);
    let token = web.sign_in();
    pauses.arm("api.running");
    let mut client = web.connect();
    let (host, body) = (web.host(), r#"{"note":"keep"}"#);
    let head = format!(
        "PUT /v1/sessions/{SESSION}/pin HTTP/1.1\r\nHost: {host}\r\n\
         Authorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(head.as_bytes()).unwrap();
    pauses.wait("api.running");
    let port = client.local_addr().unwrap().port();
    drop(client);
    wait_until("the server has seen that its client left", || !has_connection(&web, port));
    pauses.release("api.running");
    let event = |events: &str| {
        let line = events.lines().find(|line| line.contains("page.command"))?;
        serde_json::from_str::<Value>(line).ok()
    };
    wait_until("the act is an event", || {
        event(&run(&home, "events --json").exits(0).stdout).is_some()
    });
    let told = event(&run(&home, "events --json").exits(0).stdout).unwrap();
    assert_eq!(told["session"], SESSION, "{told}");
    let detail = json!({ "by": "web:tab-1", "command": "pin", "outcome": "UNREAD" });
    assert_eq!(told["detail"], detail, "{told}");
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
