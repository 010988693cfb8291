//! Rows 86 to 94 of the specification.

use std::path::Path;

use serde_json::{Value, json};
use testkit::gateway::{FakeGateway, Manner};

use super::stage::{HOUSE, Running, Stage, item, ran};

#[test]
fn row_86_main_an_unknown_agent_and_nobody_to_ask_change_nothing() {
    let stage = Stage::house();
    for (line, code, word) in [
        ("agents delete main --force --json", 13, "REFUSED"),
        ("agents delete MAIN --force --json", 13, "REFUSED"),
        ("agents delete nobody --force --json", 3, "NOT_FOUND"),
        ("agents delete ops --json", 13, "REFUSED"),
    ] {
        let (found, message) = stage.unchanged(line).exits(code).error();
        assert_eq!(found, word, "{line}: {message}");
    }
    let ran = stage.unchanged("agents delete nobody --force").exits(3);
    assert!(ran.stderr.contains("there are: main, ops"), "{ran:?}");
    let ran = stage.unchanged("agents delete ops").exits(13);
    assert!(ran.stderr.contains("--force"), "{ran:?}");
}

/// Deletes at a terminal and answers the question.
fn at_a_terminal(stage: &Stage, answer: &str) -> String {
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let script = format!("{ostler} agents delete ops; echo left with $?; read wait");
    let mut create = stage.command("create --json -- /bin/bash -c");
    let created = ran(create.arg(script)).exits(0).result();
    let id = created["sessionId"].as_str().unwrap();
    stage.run(&format!("wait {id} --text [y/N]")).exits(0);
    let mut answering = stage.command(&format!("type {id}"));
    ran(answering.arg(format!("{answer}\n"))).exits(0);
    stage.run(&format!("wait {id} --text left")).exits(0);
    let screen = stage.run(&format!("snapshot {id}")).exits(0).stdout;
    stage.run(&format!("destroy {id} --force"));
    screen
}

#[test]
fn row_86_at_a_terminal_it_is_asked_and_no_is_the_default() {
    let stage = Stage::house();
    let before = stage.files();
    for answer in ["", "n", "what?"] {
        let screen = at_a_terminal(&stage, answer);
        assert!(screen.contains("would go"), "the plan is shown: {screen}");
        assert!(screen.contains("left with 0"), "{screen}");
        assert_eq!(stage.files(), before, "{answer}");
    }
    at_a_terminal(&stage, "y");
    assert!(!stage.has("ops-ws"));
}

#[test]
fn an_agent_goes_with_everything_that_is_its_own_and_comes_back() {
    let stage = Stage::house();
    let before = stage.files();
    let result = stage.delete("ops");
    assert_eq!(result["applied"], true);
    assert_eq!(result["agentId"], "ops");
    assert_eq!(result["transport"], "local");
    assert_eq!(result["failed"], 0);
    assert_eq!(result["workspace"], stage.home.join("ops-ws").to_str().unwrap());
    for field in ["workspaceRetained", "workspaceRetainedReason", "workspaceSharedWith"] {
        assert!(result.get(field).is_none(), "{field}: {result:#}");
    }
    for gone in ["ops-ws", ".openclaw/agents/ops/agent", ".openclaw/agents/ops/sessions"] {
        assert!(!stage.has(gone), "{gone}");
        assert_eq!(item(&result, &stage.home.join(gone))["outcome"], "done");
    }
    assert!(stage.has(".openclaw/agents/main/sessions/sessions.json"));
    let after = stage.config();
    assert!(after.starts_with("{\n  // the house\n") && after.contains("// stays"), "{after}");
    assert!(!after.contains("ops"), "{after}");
    stage.unchanged("agents delete ops --force").exits(3);
    stage.run("trash verify").exits(0);
    stage.run(&format!("undo {}", result["receipt"].as_str().unwrap())).exits(0);
    assert_eq!(stage.files(), before);
}

#[test]
fn the_preview_is_what_is_done() {
    let stage = Stage::house();
    let preview = stage.unchanged("agents delete ops --dry-run --json").exits(0).result();
    assert_eq!(preview["applied"], false);
    assert!(preview.get("receipt").is_none() && preview.get("transport").is_none());
    let done = stage.delete("ops");
    let what = |result: &Value| -> Vec<Value> {
        let of = |item: &Value| json!([item["action"], item["kind"], item["path"], item["bytes"]]);
        result["items"].as_array().unwrap().iter().map(of).collect()
    };
    assert_eq!(what(&preview), what(&done));
}

#[test]
fn an_id_is_written_as_openclaw_writes_it_and_that_is_said() {
    let stage = Stage::house();
    let ran = stage.run("agents delete OPS! --force --json").exits(0);
    assert_eq!(ran.result()["agentId"], "ops");
    assert_eq!(ran.result()["normalizedFrom"], "OPS!");
    assert!(ran.stderr.contains("`OPS!` is written `ops`"), "{ran:?}");
}

/// A house in which `lab` works somewhere else.
fn beside(workspace: &str) -> Stage {
    let stage = Stage::new(&format!(
        "{{ gateway: GATEWAY, agents: {{ list: [
            {{ id: 'main' }}, {{ id: 'ops', workspace: '~/ws' }},
            {{ id: 'lab', workspace: '{workspace}' }} ] }} }}"
    ));
    stage.home.write("ws/child/notes.md", "what they know");
    stage
}

#[test]
fn row_87_a_shared_workspace_is_kept_and_three_fields_say_so() {
    for workspace in ["~/ws", "~/ws/child", "~", "~/alias", "~/alias/child"] {
        let stage = beside(workspace);
        stage.home.link("alias", stage.home.join("ws"));
        let result = stage.delete("ops");
        assert_eq!(result["workspaceRetained"], true, "{workspace}: {result:#}");
        assert_eq!(result["workspaceRetainedReason"], "shared");
        assert_eq!(result["workspaceSharedWith"], json!(["lab"]));
        assert!(stage.has("ws/child/notes.md"), "{workspace}");
        assert_eq!(item(&result, &stage.home.join("ws"))["action"], "keep");
    }
}

#[test]
fn row_88_a_workspace_whose_name_only_begins_like_another_goes() {
    let stage = beside("~/ws-lab");
    stage.home.write("ws-lab/notes.md", "what lab knows");
    let result = stage.delete("ops");
    assert!(result.get("workspaceRetained").is_none(), "{result:#}");
    assert!(!stage.has("ws") && stage.has("ws-lab/notes.md"));
}

#[test]
fn row_89_a_workspace_that_is_not_there_yet_is_compared_by_its_name() {
    let stage = beside("~/ws/not/yet");
    assert_eq!(stage.delete("ops")["workspaceSharedWith"], json!(["lab"]));
    assert!(stage.has("ws/child/notes.md"));
    let stage = beside("~/nor/this");
    assert!(stage.delete("ops").get("workspaceRetained").is_none());
    assert!(!stage.has("ws"));
}

#[test]
fn row_90_only_its_own_rows_leave_a_shared_store() {
    let stage = Stage::new(
        "{ gateway: GATEWAY, session: { store: '~/store/sessions.json' },
           agents: { list: [ { id: 'main' }, { id: 'ops' } ] } }",
    );
    let before = "{\n  \"agent:ops:main\": {\"sessionId\":\"a\",\"unknown\":[1 , 2]},\n  \"main\": {\"sessionId\":\"b\",  \"odd\": 1.50},\n  \"quietchat:direct:u1\": {\"sessionId\":\"c\"},\n  \"agent:ops:direct:u2\": {\"sessionId\":\"d\"},\n  \"global\": {\"sessionId\":\"e\"}\n}";
    stage.home.write("store/sessions.json", before);
    stage.home.write("store/a.jsonl", "kept");
    let result = stage.delete("ops");
    assert_eq!(result["removedSessions"], 2, "{result:#}");
    let after = String::from_utf8(stage.home.read("store/sessions.json")).unwrap();
    assert_eq!(
        after,
        "{\n  \"main\": {\"sessionId\":\"b\",  \"odd\": 1.50},\n  \"quietchat:direct:u1\": {\"sessionId\":\"c\"},\n  \"global\": {\"sessionId\":\"e\"}\n}"
    );
    assert!(stage.has("store/a.jsonl"));
    stage.run("undo").exits(0);
    assert_eq!(stage.home.read("store/sessions.json"), before.as_bytes());
}

#[test]
fn row_91_the_alias_of_the_main_session_goes_with_the_default_agent() {
    let stage = Stage::new(
        "{ gateway: GATEWAY, session: { store: '~/store/sessions.json' },
           agents: { list: [ { id: 'ops' }, { id: 'lab' } ] } }",
    );
    let rows = r#"{"agent:main:main":{},"agent:main:x:direct:u2":{},"global":{}}"#;
    stage.home.write("store/sessions.json", rows);
    assert_eq!(stage.delete("ops")["removedSessions"], 1);
    let after: Value = serde_json::from_slice(&stage.home.read("store/sessions.json")).unwrap();
    assert_eq!(after, json!({ "agent:main:x:direct:u2": {}, "global": {} }));
}

#[test]
fn a_shared_store_among_its_transcripts_keeps_them_there() {
    let stage = Stage::new(
        "{ gateway: GATEWAY, session: { store: '~/.openclaw/agents/ops/sessions/sessions.json' },
           agents: { list: [ { id: 'main' }, { id: 'ops' } ] } }",
    );
    let store = ".openclaw/agents/ops/sessions/sessions.json";
    stage.home.write(store, r#"{"agent:ops:main":{},"agent:main:main":{"sessionId":"m"}}"#);
    let result = stage.delete("ops");
    let kept = item(&result, &stage.home.join(".openclaw/agents/ops/sessions"));
    assert_eq!(kept["action"], "keep");
    assert_eq!(kept["reason"], "something of main is in it");
    let after: Value = serde_json::from_slice(&stage.home.read(store)).unwrap();
    assert_eq!(after, json!({ "agent:main:main": { "sessionId": "m" } }));
}

#[test]
fn row_92_bindings_and_the_allow_list_forget_it() {
    let stage = Stage::new(
        "{ gateway: GATEWAY, agents: { list: [ { id: 'main' }, { id: 'ops' } ] },
           bindings: [ { agentId: 'ops' }, { agentId: 'main' }, { agentId: 'Ops' } ],
           tools: { agentToAgent: { allow: ['main', 'ops'] } } }",
    );
    let result = stage.delete("ops");
    assert_eq!((&result["removedBindings"], &result["removedAllow"]), (&json!(2), &json!(1)));
    let after = stage.config();
    assert!(after.contains("bindings: [ { agentId: 'main' } ]"), "{after}");
    assert!(after.contains("allow: ['main']"), "{after}");
}

#[test]
fn row_93_an_id_of_which_nothing_is_left_is_not_the_default_agents() {
    let stage = Stage::house();
    for id in ["агент✨", "!!!", "-"] {
        let mut command = stage.command("agents delete --force --json --");
        let (code, message) = ran(command.arg(id)).exits(3).error();
        assert_eq!(code, "NOT_FOUND");
        assert!(message.contains(id), "{message}");
    }
    assert!(stage.has("ops-ws/notes.md"));
}

#[test]
fn row_94_what_lies_elsewhere_or_holds_more_than_the_agent_is_not_moved() {
    for workspace in ["/", "/usr/share", "~/.openclaw", "~/.openclaw/agents"] {
        let stage = Stage::new(&format!(
            "{{ gateway: GATEWAY, agents: {{ list: [
                {{ id: 'ops', workspace: '{workspace}' }} ] }} }}"
        ));
        stage.home.write(".openclaw/agents/ops/agent/auth.json", "{}");
        let result = stage.delete("ops");
        let path = workspace.replace('~', stage.home.path().to_str().unwrap());
        let kept = item(&result, Path::new(&path));
        assert_eq!(kept["action"], "keep", "{result:#}");
        assert_eq!(kept["refused"]["refusal"], "outOfBounds");
        assert!(Path::new(&path).exists());
        assert!(!stage.has(".openclaw/agents/ops/agent"));
    }
}

#[test]
fn row_94_a_trash_that_is_a_link_takes_nothing() {
    let stage = Stage::house();
    let elsewhere = stage.own.directory("elsewhere");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(stage.own.directory("state"), mode).unwrap();
    stage.own.link("state/trash", &elsewhere);
    let ran = stage.unchanged("agents delete ops --force --json");
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.error().1.contains("trash"), "{ran:?}");
    assert_eq!(std::fs::read_dir(elsewhere).unwrap().count(), 0);
}

#[test]
fn a_workspace_that_is_a_link_goes_and_what_it_leads_to_stays() {
    let stage = Stage::new(HOUSE_BY_LINK);
    stage.home.write("real/notes.md", "what ops knows");
    stage.home.link("link", stage.home.join("real"));
    stage.delete("ops");
    assert!(!stage.has("link") && stage.has("real/notes.md"));
}

const HOUSE_BY_LINK: &str = "{ gateway: GATEWAY, agents: { list: [ { id: 'main' }, { id: 'ops', workspace: '~/link' } ] } }";

#[test]
fn a_transcript_that_is_being_written_keeps_its_agent() {
    let stage = Stage::house();
    let writer = Running::in_directory(Path::new("/"));
    let start = sys::proc::identify_process(writer.pid()).unwrap().start;
    let lock = json!({ "pid": writer.pid(), "starttime": start, "createdAt": sys::clock::now().to_string() });
    stage.home.write(".openclaw/agents/ops/sessions/s1.jsonl.lock", lock.to_string());
    let (code, message) = stage.unchanged("agents delete ops --force --json").exits(13).error();
    assert_eq!(code, "REFUSED");
    assert!(message.contains(&writer.pid().to_string()), "{message}");
    drop(writer);
    assert_eq!(stage.delete("ops")["failed"], 0);
}

#[test]
fn sessions_in_a_database_are_left_to_openclaw() {
    let stage = Stage::house();
    stage.home.write(".openclaw/agents/ops/agent/openclaw-agent.sqlite", "SQLite format 3\0");
    let (code, message) = stage.unchanged("agents delete ops --force --json").exits(13).error();
    assert_eq!(code, "REFUSED");
    assert!(message.contains("openclaw-agent.sqlite"), "{message}");
}

#[test]
fn a_configuration_or_a_store_that_cannot_be_read_stops_everything() {
    let stage = Stage::house();
    let config = stage.config();
    stage.home.write(".openclaw/openclaw.json", &config[..config.len() - 9]);
    let ran = stage.unchanged("agents delete ops --force").exits(2);
    assert!(ran.stderr.contains("line "), "{ran:?}");
    stage.unchanged("agents ls").exits(2);
    let stage = Stage::new(
        "{ gateway: GATEWAY, session: { store: '~/store.json' },
           agents: { list: [ { id: 'main' }, { id: 'ops' } ] } }",
    );
    for broken in ["", "{\"agent:ops:main\": {", "[]"] {
        stage.home.write("store.json", broken);
        let ran = stage.unchanged("agents delete ops --force").exits(8);
        assert!(ran.stderr.contains("store.json"), "{ran:?}");
    }
}

#[test]
fn names_with_control_characters_are_escaped_for_people() {
    let stage = Stage::new(
        "{ gateway: GATEWAY, agents: { list: [
            { id: 'main' }, { id: 'ops', workspace: '~/w\\u001b[2Js' } ] } }",
    );
    let text = stage.run("agents delete ops --dry-run").exits(0).stdout;
    let listed = stage.run("agents ls").exits(0).stdout;
    assert!(!text.contains('\u{1b}') && !listed.contains('\u{1b}'));
}

#[test]
fn every_answer_fits_its_schema() {
    let stage = Stage::house();
    let schemas: Value = serde_json::from_str(&stage.run("schema").exits(0).stdout).unwrap();
    for (name, line) in [
        ("agents ls", "agents ls --json"),
        ("agents delete", "agents delete OPS --dry-run --json"),
        ("agents delete", "agents delete ops --force --json"),
        ("error", "agents delete ops --force --json"),
    ] {
        let answer: Value = serde_json::from_str(&stage.run(line).stdout).unwrap();
        let validator = jsonschema::validator_for(&schemas[name]).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&answer).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{line}: {errors:#?} {answer:#}");
        assert!(!answer.to_string().contains("null"), "{answer:#}");
    }
}

#[test]
fn a_pinned_session_keeps_its_agent_whoever_would_delete_it() {
    let gateway = FakeGateway::start(Manner::Answers(json!({ "ok": true })));
    for stage in [Stage::house(), Stage::with_gateway(HOUSE, gateway.port).furnished()] {
        stage.run("pin openclaw:s1").exits(0);
        for line in ["agents delete ops --force --json", "agents delete ops --dry-run --json"] {
            let (code, message) = stage.unchanged(line).exits(13).error();
            assert_eq!(code, "REFUSED");
            assert!(message.contains("pinned") && message.contains("s1"), "{message}");
        }
    }
    assert_eq!(gateway.methods(), Vec::<String>::new(), "the gateway knows of no pins");
    let stage = Stage::house();
    stage.run("pin openclaw:s1").exits(0);
    stage.run("pin --remove s1").exits(0);
    stage.delete("ops");
    assert!(!stage.has("ops-ws"));
}
