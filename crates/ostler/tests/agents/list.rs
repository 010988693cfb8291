//! `agents ls`

use serde_json::{Value, json};
use testkit::gateway::{FakeGateway, Manner};

use super::stage::{HOUSE, Running, Stage};

fn agent(result: &Value, id: &str) -> Value {
    let agents = result["agents"].as_array().unwrap();
    agents.iter().find(|agent| agent["id"] == id).unwrap_or_else(|| panic!("{result:#}")).clone()
}

#[test]
fn agents_are_listed_with_what_they_have() {
    let stage = Stage::house();
    let result = stage.unchanged("agents ls --json").exits(0).result();
    let (main, ops) = (agent(&result, "main"), agent(&result, "ops"));
    assert_eq!((&main["default"], &ops["default"]), (&json!(true), &json!(false)));
    assert_eq!((&ops["sessions"], &ops["live"]), (&json!(1), &json!("dead")));
    assert_eq!(ops["workspace"], stage.home.join("ops-ws").to_str().unwrap());
    assert_eq!(ops["agentDir"], stage.home.join(".openclaw/agents/ops/agent").to_str().unwrap());
    assert!(ops["bytes"].as_u64().unwrap() > 50, "{ops}");
    assert_eq!(result["gateway"], json!({ "state": "dead" }));
    let text = stage.run("agents ls").exits(0).stdout;
    assert!(text.contains("ops") && text.contains("does not run"), "{text}");
}

#[test]
fn whether_somebody_is_at_work_is_shown() {
    let stage = Stage::house();
    let writer = Running::in_directory(std::path::Path::new("/"));
    let start = sys::proc::identify_process(writer.pid()).unwrap().start;
    let lock = json!({ "pid": writer.pid(), "starttime": start, "createdAt": sys::clock::now().to_string() });
    stage.home.write(".openclaw/agents/ops/sessions/s1.jsonl.lock", lock.to_string());
    let result = stage.run("agents ls --json").exits(0).result();
    assert_eq!(agent(&result, "ops")["live"], "alive");
    assert_eq!(agent(&result, "main")["live"], "dead");
}

#[test]
fn the_gateway_is_seen_without_being_asked() {
    let stage = Stage::house();
    let gateway = Running::gateway(stage.home.path());
    let result = stage.unchanged("agents ls --json").exits(0).result();
    assert_eq!(result["gateway"]["state"], "alive");
    assert_eq!(result["gateway"]["pid"], gateway.pid());
    let fake = FakeGateway::start(Manner::Silent);
    let stage = Stage::with_gateway(HOUSE, fake.port);
    let result = stage.unchanged("agents ls --json").exits(0).result();
    assert_eq!(result["gateway"]["state"], "unknown");
    assert_eq!(fake.asked(), Vec::<Value>::new());
}

#[test]
fn without_a_configuration_there_is_the_main_agent_and_without_openclaw_nobody() {
    let stage = Stage::new("{}");
    stage.home.remove(".openclaw/openclaw.json");
    let result = stage.unchanged("agents ls --json").exits(0).result();
    assert_eq!(agent(&result, "main")["configured"], false);
    stage.home.remove(".openclaw");
    let result = stage.unchanged("agents ls --json").exits(0).result();
    assert_eq!(result["agents"], json!([]));
    let text = stage.unchanged("agents ls").exits(0).stdout;
    assert!(text.starts_with("OpenClaw has nothing in "), "{text}");
}

#[test]
fn a_store_that_cannot_be_read_is_named() {
    let stage = Stage::house();
    stage.home.write(".openclaw/agents/ops/sessions/sessions.json", "{\"cut");
    let ran = stage.unchanged("agents ls --json").exits(12);
    assert!(agent(&ran.result(), "ops").get("sessions").is_none());
    assert!(ran.stdout.contains("sessions.json"));
}
