//! Rows 87 and 88: prompts from agents to agents, with one that keeps Claude Code's files; how many terminals a tree has.

use std::path::Path;

use serde_json::{Value, json};

use super::mcp::McpClient;
use super::stage::{Name, Stage, until};

const SESSION: &str = "5b1e0c52-8a5e-4b8e-9a55-d0a3a0c3c001";

fn start_agent(stage: &Stage, options: &[&str]) -> String {
    let record = stage.home.join("record");
    let files = format!("claude={}", stage.home.join(".claude").display());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/terminal/fake_agent.py");
    let mut command = vec!["python3", script.to_str().unwrap(), record.to_str().unwrap(), &files];
    command.extend(options);
    let terminal = stage.create(&command);
    until("the agent is linked to its terminal", || {
        let shown = stage.run(&["show", SESSION, "--json"]).stdout;
        let shown: Value = serde_json::from_str(&shown).unwrap_or_default();
        shown["result"]["session"]["linked"][0]["id"] == *terminal
            || shown["result"]["linked"][0]["id"] == *terminal
    });
    terminal
}

#[test]
fn row_87_a_prompt_gets_a_receipt_and_says_who_sent_it() {
    let stage = Stage::new(Name::Ostler);
    start_agent(&stage, &[]);
    let mut client =
        McpClient::start(&stage, Path::new("/"), &["--allow", "prompt", "--scope", "all"]);
    let receipt = client.ok("prompt_session", json!({ "id": SESSION, "text": "run the tests" }));
    assert_eq!(receipt["state"], "accepted", "{receipt}");
    let talk = client.ok("read_talk", json!({ "id": SESSION }));
    let told = talk["entries"].to_string();
    assert!(told.contains("by ostler mcp] run the tests"), "{told}");
}

#[test]
fn row_87_neither_the_caller_nor_one_above_it_is_prompted() {
    let stage = Stage::new(Name::Ostler);
    let terminal = start_agent(&stage, &[]);
    // As if this server's client ran in a terminal that the agent had made.
    let mut maker =
        McpClient::start(&stage, Path::new("/"), &["--allow", "terminals", "--scope", "all"]);
    let shell =
        maker.ok("create_terminal", json!({ "command": ["/bin/bash", "--norc", "--noprofile"] }));
    let shell = shell["id"].as_str().unwrap().to_owned();
    let manifest = stage.directory(&shell).join("session.json");
    let mut written: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    written["env"]["OSTLER_MCP_LINEAGE"] = json!(format!("claude-code:{SESSION}"));
    std::fs::write(&manifest, written.to_string()).unwrap();
    maker.ok("wait", json!({ "id": shell, "text": "$" }));
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let rest = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let prompt = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params":
        { "name": "prompt_session", "arguments": { "id": SESSION, "text": "loop" } } });
    let ask = stage.home.write("ask", format!("{hello}\n{rest}\n{prompt}\n"));
    let server = env!("CARGO_BIN_EXE_ostler");
    let run = format!(
        "(cat {}; sleep 3) | {server} mcp --allow prompt --scope all 2>/dev/null | grep -c 'one that started it'",
        ask.display()
    );
    let told = maker.ok("run", json!({ "id": shell, "command": run }));
    assert!(told["quotedOutput"].as_str().unwrap().contains('1'), "{told}");
    let noted = std::fs::read_to_string(stage.home.join("record")).unwrap_or_default();
    assert!(!noted.contains("loop"), "{noted}");
    drop(terminal);
}

/// A shell that is registered as an agent's process, and whose last prompt was this.
fn agent_shell(stage: &Stage, id: &str, prompt: &str) -> String {
    let shell = stage.shell();
    let pid = stage.pid(&shell, "childPid");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start = stat[stat.rfind(')').unwrap() + 2..].split(' ').nth(19).unwrap().to_owned();
    let registration = json!({
        "pid": pid, "sessionId": id, "cwd": stage.home.path(), "procStart": start,
        "startedAt": 1_800_000_000_000_u64, "version": "2.1.325", "kind": "interactive",
        "status": "busy", "statusUpdatedAt": 1_800_000_000_000_u64,
    });
    stage.home.write(format!(".claude/sessions/{pid}.json"), registration.to_string());
    let line = json!({
        "type": "user", "sessionId": id, "cwd": stage.home.path(), "version": "2.1.325",
        "timestamp": "2026-11-15T10:00:00.000Z", "message": { "role": "user", "content": prompt }
    });
    stage.home.write(format!(".claude/projects/-x/{id}.jsonl"), format!("{line}\n"));
    shell
}

/// Asks the server below a shell to prompt the fake agent; what it said.
fn prompt_from(stage: &Stage, shell: &str, text: &str) -> String {
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let rest = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let prompt = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params":
        { "name": "prompt_session", "arguments": { "id": SESSION, "text": text } } });
    let ask = stage.home.write("ask", format!("{hello}\n{rest}\n{prompt}\n"));
    let (answer, server) = (stage.home.join("answer"), env!("CARGO_BIN_EXE_ostler"));
    let line = format!(
        "(cat {}; while [ $(wc -l <{answer}) -lt 2 ]; do sleep 0.1; done) | {server} mcp --allow prompt --scope all >{answer}",
        ask.display(),
        answer = answer.display()
    );
    stage.home.write("answer", "");
    stage.ok(&["run", shell, &line, "--timeout", "60000"]);
    std::fs::read_to_string(answer).unwrap()
}

#[test]
fn row_87_two_that_prompt_each_other_do_not_go_round() {
    let stage = Stage::new(Name::Ostler);
    start_agent(&stage, &[]);
    let (one, two) =
        ("aaaa1111-0000-4000-8000-000000000000", "bbbb2222-0000-4000-8000-000000000000");
    let mark = |sender: &str| format!("[from claude-code:{sender}, by ostler mcp] do your part");
    // One works because the target asked it; two because one did.
    let first = agent_shell(&stage, one, &mark(SESSION));
    let second = agent_shell(&stage, two, &mark(one));
    for shell in [&first, &second] {
        let told = prompt_from(&stage, shell, "loop");
        assert!(told.contains("itself or through others"), "{told}");
    }
    let noted = std::fs::read_to_string(stage.home.join("record")).unwrap_or_default();
    assert!(!noted.contains("loop"), "{noted}");
    // As soon as a person has the word again, it is free.
    let third = agent_shell(&stage, one, "now ask the other one");
    let told = prompt_from(&stage, &third, "a question");
    assert!(told.contains("accepted"), "{told}");
}

#[test]
fn row_88_starts_within_a_minute_are_limited_even_if_each_is_ended() {
    let stage = Stage::new(Name::Ostler);
    let directory = stage.home.path().canonicalize().unwrap();
    let mut client = McpClient::start(&stage, &directory, &["--allow", "terminals"]);
    for _ in 0..10 {
        let made = client.ok("create_terminal", json!({ "command": ["cat"] }));
        client.ok("destroy_terminal", json!({ "id": made["id"] }));
    }
    let told = client.refused("create_terminal", json!({ "command": ["cat"] }));
    assert!(told.contains("within the last minute"), "{told}");
    // Another server of the same client is no way round it.
    let mut client = McpClient::start(&stage, &directory, &["--allow", "terminals"]);
    let told = client.refused("create_terminal", json!({ "command": ["cat"] }));
    assert!(told.contains("within the last minute"), "{told}");
}

#[test]
fn row_88_a_tree_has_twenty_descendants_whoever_made_them() {
    let stage = Stage::new(Name::Ostler);
    let directory = stage.home.path().canonicalize().unwrap();
    let mut client = McpClient::start(&stage, &directory, &["--allow", "terminals"]);
    let made = client.ok("create_terminal", json!({ "command": ["cat"] }));
    let env = stage.manifest(made["id"].as_str().unwrap())["env"].clone();
    let tree = format!("OSTLER_MCP_TREE={}", env["OSTLER_MCP_TREE"].as_str().unwrap());
    // As agents below it would have made them.
    for _ in 0..19 {
        stage
            .run(&["create", "--env", &tree, "--env", "OSTLER_MCP_MAKER=other", "--", "cat"])
            .exits(0);
    }
    let told = client.refused("create_terminal", json!({ "command": ["cat"] }));
    assert!(told.contains("descend from the same agent"), "{told}");
}
