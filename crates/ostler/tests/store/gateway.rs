//! Whose change it is: the gateway's if it runs; ours only on the proof that it does not.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use serde_json::json;
use testkit::gateway::{FakeGateway, Manner, TOKEN, closed_port};

use super::faults::meanwhile;
use super::stage::{DAY, SESSIONS, Stage, aged, ran, run};

fn beside(gateway: &FakeGateway) -> Stage {
    let stage = Stage::new();
    stage.config(json!({ "gateway": { "port": gateway.port, "auth": { "token": TOKEN } } }));
    stage.index(&[("agent:main:direct:old", aged("old", 31 * DAY))]);
    stage.transcript("old");
    stage
}

#[test]
fn row_74_without_a_gateway_the_cleanup_is_ours() {
    let stage = Stage::new();
    stage.index(&[("old", aged("old", 31 * DAY))]);
    let result = stage.run("cleanup --enforce --json").exits(0).result();
    assert_eq!((result["transport"].as_str(), stage.text().as_str()), (Some("local"), "{}"));
}

#[test]
fn a_gateway_that_runs_does_the_cleanup() {
    let answer = json!({ "agentId": "main", "storePath": "/s/sessions.json", "mode": "enforce",
        "beforeCount": 3, "afterCount": 1, "pruned": 1, "capped": 0, "missing": 0,
        "repaired": 4, "dmScopeRetired": 1,
        "diskBudget": null, "wouldMutate": true, "applied": true, "appliedCount": 1 });
    let gateway = FakeGateway::start(Manner::Answers(answer));
    let stage = beside(&gateway);
    let before = stage.text();
    let line = "cleanup --enforce --fix-missing --fix-dm-scope --active-key k --agent main --json";
    let result = stage.run(line).exits(0).result();
    assert_eq!(
        (result["transport"].as_str(), result["count"].as_u64()),
        (Some("gateway"), Some(2))
    );
    let store = &result["stores"][0];
    assert_eq!((&store["pruned"], &store["repaired"]), (&json!(1), &json!(4)));
    assert_eq!(store["dmScopeRetired"], 1);
    assert_eq!(stage.text(), before);
    let asked = gateway.asked();
    let expected = json!({ "agent": "main", "enforce": true, "fixMissing": true,
        "fixDmScope": true, "activeKey": "k" });
    assert_eq!(asked.last().unwrap()["params"], expected);
    let several = json!({ "allAgents": true, "mode": "warn", "dryRun": false, "stores": [
        { "agentId": "a", "beforeCount": 1, "afterCount": 1 },
        { "agentId": "b", "beforeCount": 2, "afterCount": 0 } ] });
    let gateway = FakeGateway::start(Manner::Answers(several));
    let result = beside(&gateway).run("cleanup --yes --all-agents --json").exits(0).result();
    assert_eq!(result["stores"].as_array().unwrap().len(), 2, "one shape");
}

#[test]
fn row_75_and_76_whatever_a_gateway_does_wrong_nothing_is_written_here() {
    for (manner, code, words) in [
        (Manner::Closes(1008, "unauthorized"), 13, "let us in"),
        (Manner::Drops, 14, "may have been applied"),
        (Manner::Babbles, 14, "may have been applied"),
        (Manner::OffersNothing, 13, "sessions.cleanup"),
        (Manner::Fails("INVALID_REQUEST", "no such thing"), 13, "no such thing"),
        (Manner::Http(404), 13, "could not be asked"),
    ] {
        let gateway = FakeGateway::start(manner.clone());
        let stage = beside(&gateway);
        let before = stage.home.snapshot();
        let ran = stage.run("cleanup --enforce").exits(code);
        assert!(ran.stderr.contains(words), "{manner:?}: {ran:?}");
        assert!(before.changes(&stage.home.snapshot()).is_empty(), "{manner:?}");
    }
}

#[test]
fn row_77_a_gateway_elsewhere_is_never_replaced() {
    let stage = Stage::new();
    let url = format!("ws://127.0.0.1:{}", closed_port());
    stage.config(json!({ "gateway": { "mode": "remote", "remote": { "url": url } } }));
    stage.index(&[("old", aged("old", 31 * DAY))]);
    let before = stage.text();
    stage.run("cleanup --enforce").exits(13);
    assert_eq!(stage.text(), before);
}

#[test]
fn row_78_a_preview_and_a_named_store_ask_nothing_of_the_gateway() {
    let gateway = FakeGateway::start(Manner::Answers(json!({})));
    let stage = beside(&gateway);
    stage.run("cleanup --dry-run").exits(0);
    let copy = stage.home.write("copy/sessions.json", stage.text());
    stage.run(&format!("cleanup --enforce --store {}", copy.display())).exits(0);
    assert_eq!(std::fs::read(&copy).unwrap(), b"{}", "a copy is nobody's");
    // The gateway's own store is refused by name, too: it would write it back.
    let own = stage.path("sessions.json");
    let ran = stage.run(&format!("cleanup --enforce --store {}", own.display())).exits(13);
    assert!(ran.stderr.contains("openclaw gateway stop"), "{ran:?}");
    assert_eq!(gateway.methods(), Vec::<String>::new());
    assert_eq!(stage.keys().len(), 1);
}

#[test]
fn a_process_that_ends_while_it_is_looked_at_is_no_doubt() {
    let stage = Stage::new();
    stage.index(&[("old", aged("old", 31 * DAY))]);
    // A gateway of another home that shows no environment, as one does that gives its memory back.
    let mut ending = Command::new("/bin/cat");
    ending.arg0("openclaw-gateway").env_clear().stdin(Stdio::piped());
    let mut ending = ending.spawn().unwrap();
    let ran = meanwhile(&stage, "cleanup --enforce --json", "gateway.untold", || {
        ending.kill().unwrap();
        ending.wait().unwrap();
    });
    assert_eq!(ran.exits(0).result()["transport"], "local");
    assert_eq!(stage.text(), "{}");
}

/// Stops the daemon of a home, whatever becomes of the test.
struct Stop<'a>(&'a Stage);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        run(&self.0.home, "daemon stop");
    }
}

#[test]
fn the_daemon_does_it_if_it_runs() {
    let stage = Stage::new();
    stage.index(&[("agent:main:main", aged("m", 0)), ("old", aged("old", 31 * DAY))]);
    run(&stage.home, "daemon start").exits(0);
    let _stop = Stop(&stage);
    // The directory is the asker's, and so is the environment.
    let state = stage.home.join(".openclaw");
    let mut command = stage.command("cleanup --enforce --store sessions.json --json");
    command.current_dir(stage.home.join(SESSIONS)).env("OPENCLAW_STATE_DIR", &state);
    let result = ran(&mut command).exits(0).result();
    assert_eq!((&result["transport"], &result["count"]), (&json!("daemon"), &json!(1)));
    assert_eq!(stage.keys(), ["agent:main:main"]);
    let receipt = result["receipt"].as_str().unwrap();
    run(&stage.home, &format!("undo {receipt}")).exits(0);
    assert_eq!(stage.keys().len(), 2);
    stage.write("sessions.json", "{");
    stage.transcript("s");
    assert_eq!(stage.run("rebuild --yes --json").exits(0).result()["applied"], true);
    stage.write("sessions.json", "[]");
    let error = stage.run("cleanup --enforce --json").exits(8).envelope();
    assert!(error["error"]["hint"].as_str().unwrap().contains("store rebuild"), "{error:#}");
}
