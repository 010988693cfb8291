//! Row 95, races and kills: what could not be done is said, nothing is lost, and the same command
//! goes on.

use std::process::{Child, Stdio};

use serde_json::Value;
use testkit::pause::Pauses;

use super::stage::{HOUSE, Running, Stage, item};

const DELETE: &str = "agents delete ops --force --json";

#[test]
fn row_95_what_could_not_be_trashed_is_named_and_a_retry_goes_on_with_it() {
    let stage = Stage::house();
    let before = stage.files();
    let worker = Running::in_directory(&stage.home.join("ops-ws"));
    let ran = stage.run(DELETE).exits(8);
    let result = ran.result();
    assert_eq!((result["applied"].as_bool(), result["failed"].as_u64()), (Some(true), Some(1)));
    let failed = item(&result, &stage.home.join("ops-ws"));
    assert_eq!(failed["outcome"], "failed");
    assert!(failed["refused"]["reason"].as_str().unwrap().contains(&worker.pid().to_string()));
    assert!(!stage.config().contains("ops"), "the configuration stands");
    assert!(!stage.has(".openclaw/agents/ops/sessions") && stage.has("ops-ws/notes.md"));
    // Still at work: it is tried, and fails again.
    let again = stage.run(DELETE).exits(8).result();
    assert_eq!(again["resumes"], result["receipt"]);
    assert!(again.get("receipt").is_none(), "nothing was moved: {again:#}");
    drop(worker);
    let last = stage.run(DELETE).exits(0).result();
    assert_eq!(last["resumes"], result["receipt"]);
    assert_eq!(item(&last, &stage.home.join("ops-ws"))["outcome"], "done");
    assert!(!stage.has("ops-ws"));
    stage.unchanged(DELETE).exits(3);
    for receipt in [&last["receipt"], &result["receipt"]] {
        stage.run(&format!("undo {}", receipt.as_str().unwrap())).exits(0);
    }
    assert_eq!(stage.files(), before);
}

#[test]
fn row_95_what_came_after_a_deletion_is_not_the_agents() {
    let stage = Stage::house();
    stage.delete("ops");
    stage.home.write("ops-ws/new.md", "somebody else's");
    stage.unchanged(DELETE).exits(3);
    let worker_stage = Stage::house();
    let worker = Running::in_directory(&worker_stage.home.join("ops-ws"));
    worker_stage.run(DELETE).exits(8);
    drop(worker);
    // It is removed by hand, and something new takes its place.
    worker_stage.home.remove("ops-ws");
    worker_stage.home.write("ops-ws/new.md", "somebody else's");
    worker_stage.unchanged(DELETE).exits(3);
}

const SHARED: &str = "{ gateway: GATEWAY, session: { store: '~/store/sessions.json' },
    agents: { list: [ { id: 'main' }, { id: 'ops', workspace: '~/ops-ws' } ] } }";
const ROWS: &str = r#"{"agent:ops:main":{"sessionId":"a"},"agent:main:main":{"sessionId":"b"}}"#;

fn start(stage: &Stage, pauses: &Pauses) -> Child {
    let mut command = stage.command(DELETE);
    pauses.apply(&mut command);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn finish(child: Child) -> (Option<i32>, Value) {
    let output = child.wait_with_output().unwrap();
    let answer = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), answer)
}

#[test]
fn row_95_rows_that_could_not_be_purged_are_purged_by_a_retry() {
    let stage = Stage::new(SHARED).furnished();
    stage.home.write("store/sessions.json", ROWS);
    let pauses = Pauses::new();
    pauses.arm("agents.planned");
    let child = start(&stage, &pauses);
    pauses.wait("agents.planned");
    // OpenClaw's own tools are quicker.
    let newer = ROWS.replace("\"b\"", "\"c\"");
    stage.home.write("store/sessions.json", &newer);
    pauses.release("agents.planned");
    let (code, answer) = finish(child);
    assert_eq!(code, Some(8), "{answer:#}");
    assert_eq!(answer["result"]["failed"], 1);
    assert_eq!(stage.home.read("store/sessions.json"), newer.as_bytes(), "never overwritten");
    let result = stage.run(DELETE).exits(0).result();
    assert_eq!(result["removedSessions"], 1, "{result:#}");
    let left = stage.home.read("store/sessions.json");
    assert_eq!(left, br#"{"agent:main:main":{"sessionId":"c"}}"#);
    stage.unchanged(DELETE).exits(3);
}

#[test]
fn a_configuration_that_changes_meanwhile_stops_everything() {
    let stage = Stage::house();
    let pauses = Pauses::new();
    pauses.arm("agents.planned");
    let child = start(&stage, &pauses);
    pauses.wait("agents.planned");
    let newer = stage.config().replace("// the house", "// another house");
    stage.home.write(".openclaw/openclaw.json", &newer);
    let before = stage.files();
    pauses.release("agents.planned");
    let (code, answer) = finish(child);
    assert_eq!((code, answer["error"]["code"].as_str()), (Some(13), Some("REFUSED")));
    assert_eq!(stage.files(), before);
}

#[test]
fn a_gateway_that_starts_meanwhile_stops_the_rest() {
    let stage = Stage::house();
    let pauses = Pauses::new();
    pauses.arm("agents.step");
    let child = start(&stage, &pauses);
    pauses.wait("agents.step");
    let gateway = Running::gateway(stage.home.path());
    pauses.release("agents.step");
    let (code, answer) = finish(child);
    assert_eq!(code, Some(8), "{answer:#}");
    assert!(!stage.config().contains("ops") && stage.has("ops-ws/notes.md"));
    let failed = item(&answer["result"], &stage.home.join("ops-ws"));
    assert_eq!(failed["refused"]["refusal"], "busy");
    stage.unchanged(DELETE).exits(13);
    drop(gateway);
    assert_eq!(stage.run(DELETE).exits(0).result()["failed"], 0);
    assert!(!stage.has("ops-ws"));
}

#[test]
fn killed_before_anything_is_done_it_begins_anew() {
    for point in ["agents.planned", "reap.opened", "reap.begun"] {
        killed_at(point, 1);
    }
}

#[test]
fn killed_while_a_file_is_rewritten_it_goes_on() {
    for (point, times) in [("reap.backed-up", 1), ("reap.backed-up", 2), ("reap.moved", 1)] {
        killed_at(point, times);
    }
}

#[test]
fn killed_between_directories_it_goes_on() {
    for (point, times) in [("reap.begun", 3), ("reap.moved", 3), ("reap.moved", 5)] {
        killed_at(point, times);
    }
}

#[test]
fn killed_between_two_steps_it_goes_on() {
    for times in [1, 2, 5] {
        killed_at("agents.step", times);
    }
}

/// Kills a deletion when it gets to a point for the nth time. It takes five steps: the configuration,
/// the store, and three directories.
fn killed_at(point: &str, times: usize) {
    let stage = Stage::new(SHARED).furnished();
    stage.home.write("store/sessions.json", ROWS);
    let before = stage.files();
    let pauses = Pauses::new();
    pauses.arm(point);
    let mut child = start(&stage, &pauses);
    pauses.wait(point);
    for _ in 1..times {
        pauses.arm(point);
        pauses.release(point);
        pauses.wait(point);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    stage.run("trash verify").exits(0);
    let ran = stage.run(DELETE);
    assert!([0, 3].contains(&ran.code), "{point} {times}: {ran:?}");
    for gone in ["ops-ws", ".openclaw/agents/ops/agent", ".openclaw/agents/ops/sessions"] {
        assert!(!stage.has(gone), "{point} {times}: {gone}");
    }
    assert!(!stage.config().contains("ops'"), "{point} {times}");
    let store = stage.home.read("store/sessions.json");
    assert!(!String::from_utf8(store).unwrap().contains("ops"), "{point} {times}");
    while stage.run("undo").code == 0 {}
    assert_eq!(stage.files(), before, "{point} {times}");
    stage.run("trash verify").exits(0);
}

#[test]
fn the_daemon_does_it_if_it_runs() {
    let stage = Stage::new(HOUSE).furnished();
    stage.run("daemon start").exits(0);
    let deleted = stage.run(DELETE);
    let undone = stage.run("undo");
    stage.run("daemon stop").exits(0);
    assert_eq!(deleted.exits(0).result()["transport"], "daemon");
    undone.exits(0);
    assert!(stage.has("ops-ws/notes.md"));
}
