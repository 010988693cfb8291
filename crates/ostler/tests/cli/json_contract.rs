//! Every `--json` answer is what `ostler schema` promises, and keeps the rules of the contract.

use serde_json::Value;
use testkit::home::TempHome;

use super::run::{run, sample_home};

const ANSWERS: &[(&str, &str)] = &[
    ("ls", "ls --json"),
    ("ls", "ls -a --json"),
    ("ls", "ls -a --json --subagents"),
    ("show", "show 666e4f9b --json"),
    ("why", "why 666e4f9b --json"),
    ("why", "why 2f8e36cc --json"),
    ("logs", "logs 666e4f9b --json"),
    ("search", "search --json --limit 5 the"),
    ("search", "search --json no-such-word-anywhere"),
    ("error", "search --json --regex ("),
    ("error", "ls --json --filter ist:waiting"),
    ("usage", "usage --json"),
    ("usage", "usage --by model --since 9999d --json"),
    ("error", "usage --since soon --json"),
    ("adapters", "adapters --json"),
    ("du", "du --json"),
    ("access list", "access list --json"),
    ("access prune", "access prune --json"),
    ("access prune", "access prune --dry-run --json"),
    ("access stop", "access stop --orphaned --json"),
    ("status", "status --all --json"),
    ("doctor", "doctor --json"),
    ("summary", "summary 666e4f9b --json"),
    ("finalize", "finalize --json"),
    ("gc", "gc --include transcripts,temps --older-than 0s --json"),
    ("pin", "pin 666e4f9b --note keep --json"),
    ("pin", "pin --json"),
    ("ls", "ls -a --json"),
    ("why", "why 666e4f9b --json"),
    ("pin", "pin 666e4f9b --remove --json"),
    ("error", "pin no-such-session --json"),
    ("agents ls", "agents ls --json"),
    ("error", "agents delete main --force --json"),
    ("trash ls", "trash ls --json"),
    ("trash empty", "trash empty --json"),
    ("trash verify", "trash verify --json"),
    ("config check", "config check --json"),
    ("store ls", "store ls --json"),
    ("store verify", "store verify --json"),
    ("vault ls", "vault ls --json"),
    ("vault verify", "vault verify --json"),
    ("daemon status", "daemon status --json"),
    ("daemon stop", "daemon stop --json"),
    ("config show", "config show --json"),
    ("hooks status", "hooks status --json"),
    ("hooks install", "hooks install --dry-run --json"),
    ("hooks uninstall", "hooks uninstall --json"),
    ("version", "version --json"),
    ("error", "show no-such-session --json"),
    ("error", "ls --json --no-such-option"),
    ("error", "show 0 --json"),
    ("error", "access show nothing --json"),
    ("error", "access open --ttl 1s --json"),
    ("error", "hooks install clod --json"),
    ("error", "store show nothing --json"),
    ("error", "store ls --agent nobody --json"),
];

#[test]
fn every_answer_fits_its_schema() {
    let home = sample_home();
    let schemas: Value = serde_json::from_str(&run(&home, "schema").exits(0).stdout).unwrap();
    for (name, line) in ANSWERS {
        fits(&home, &schemas, name, line);
    }
}

#[track_caller]
fn fits(home: &TempHome, schemas: &Value, name: &str, line: &str) {
    let answer = run(home, line).envelope();
    let validator = jsonschema::validator_for(&schemas[name]).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&answer)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "`ostler {line}`: {errors:#?}");
    check(&answer, "$", line);
}

#[test]
fn every_answer_about_an_access_session_fits_its_schema() {
    let home = sample_home();
    let schemas: Value = serde_json::from_str(&run(&home, "schema").exits(0).stdout).unwrap();
    let opened = run(&home, "access open --ttl 5m --generate --label contract --json").exits(0);
    let id = opened.result()["id"].as_str().unwrap().to_owned();
    let mut answers = vec![("access open", opened.envelope())];
    for (name, line) in [
        ("access list", "access list --probe --json".to_owned()),
        ("access show", format!("access show {id} --json")),
        ("access env", format!("access env {id} --json")),
        ("ls", "ls --json".to_owned()),
        ("why", format!("why {id} --json")),
        ("access stop", format!("access stop {id} --json")),
        ("access prune", "access prune --json".to_owned()),
        ("access log", format!("access log {id} --json")),
    ] {
        answers.push((name, run(&home, &line).envelope()));
    }
    for (name, answer) in &answers {
        let validator = jsonschema::validator_for(&schemas[name]).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(answer)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:#?} {answer:#}");
        check(answer, "$", name);
    }
}

#[test]
fn a_wrong_answer_does_not_fit() {
    let home = sample_home();
    let schemas: Value = serde_json::from_str(&run(&home, "schema").stdout).unwrap();
    let validator = jsonschema::validator_for(&schemas["ls"]).unwrap();
    let mut answer = run(&home, "ls -a --json").envelope();
    answer["result"]["sessions"][0]["status"] = "zombie".into();
    assert!(!validator.is_valid(&answer));
}

#[test]
fn nothing_is_null_keys_are_camel_case_and_times_have_milliseconds() {
    let home = sample_home();
    for (_, line) in ANSWERS {
        check(&run(&home, line).envelope(), "$", line);
    }
}

fn check(value: &Value, path: &str, line: &str) {
    match value {
        Value::Null => panic!("`ostler {line}`: {path} is null"),
        Value::Object(fields) => {
            for (key, value) in fields {
                assert!(
                    key.chars().all(|c| c.is_ascii_alphanumeric())
                        && key.starts_with(|c: char| c.is_ascii_lowercase()),
                    "`ostler {line}`: {path}.{key}"
                );
                if key.ends_with("At") || key == "timestamp" {
                    let text = value.as_str().unwrap();
                    assert!(text.len() == 24 && text.ends_with('Z'), "{path}.{key}: {text}");
                }
                check(value, &format!("{path}.{key}"), line);
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                check(element, &format!("{path}[{index}]"), line);
            }
        }
        _ => {}
    }
}

#[test]
fn the_envelope_is_indented_by_two_with_one_newline_at_the_end() {
    let home = sample_home();
    let ran = run(&home, "ls -a --json");
    assert!(
        ran.stdout.starts_with("{\n  \"ok\": true,\n  \"command\": \"ls\",\n  \"timestamp\": \"")
    );
    assert!(ran.stdout.ends_with("}\n") && !ran.stdout.ends_with("\n\n"));
}

#[test]
fn an_owner_is_named_exactly_when_alive_and_proven() {
    let home = sample_home();
    for session in run(&home, "ls -a --json").sessions() {
        let proven =
            session["liveness"]["state"] == "alive" && session["liveness"]["certainty"] == "proven";
        assert_eq!(session.get("owner").is_some(), proven, "{session}");
        let active = ["running", "exiting", "destroying", "unknown"];
        let is_active = active.contains(&session["status"].as_str().unwrap());
        assert_eq!(session.get("activity").is_some(), is_active, "{session}");
    }
}

#[test]
fn a_usage_error_in_json_names_the_command() {
    let home = sample_home();
    let ran = run(&home, "ls --json --no-such-option").exits(2);
    assert_eq!(ran.envelope()["command"], "ls");
    assert_eq!(ran.envelope()["error"]["code"], "INVALID_INPUT");
    assert_eq!(ran.stderr, "");
}

#[test]
fn answers_about_what_hooks_told_fit_their_schemas() {
    let home = TempHome::new();
    let mut agent = super::agent::Agent::start(&home, "11111111-1111-4111-8111-111111111111");
    agent.begin();
    let schemas: Value = serde_json::from_str(&run(&home, "schema").exits(0).stdout).unwrap();
    fits(&home, &schemas, "status", "status --all --json");
    agent.kill();
    fits(&home, &schemas, "status", "status --all --json");
    fits(&home, &schemas, "vault ls", "vault ls --json");
    fits(&home, &schemas, "vault show", "vault show 1111 --json");
    fits(&home, &schemas, "vault restore", "vault restore 1111 --to back --json");
    fits(&home, &schemas, "vault export", "vault export 1111 --out exported --json");
    fits(&home, &schemas, "summary", "summary 1111 --json");
    let schema = jsonschema::validator_for(&schemas["events"]).unwrap();
    for line in run(&home, "events --json").exits(0).stdout.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert!(schema.is_valid(&event), "{event}");
    }
}

#[test]
fn answers_about_stores_fit_their_schemas() {
    let home = TempHome::new();
    let sessions = ".openclaw/agents/main/sessions";
    let port = testkit::gateway::closed_port();
    let maintenance = r#""maintenance":{"maxDiskBytes":"1mb","rotateBytes":1}"#;
    let config = format!(r#"{{"gateway":{{"port":{port}}},"session":{{{maintenance}}}}}"#);
    home.write(".openclaw/openclaw.json", config);
    let index = r#"{"agent:main:direct:u":{"sessionId":"s","updatedAt":1},"odd":null}"#;
    home.write(format!("{sessions}/sessions.json"), index);
    home.write(format!("{sessions}/s.jsonl"), "{\"type\":\"message\"}\n");
    home.write(format!("{sessions}/orphan.jsonl"), "{}\n");
    let schemas: Value = serde_json::from_str(&run(&home, "schema").exits(0).stdout).unwrap();
    fits(&home, &schemas, "store ls", "store ls --json");
    fits(&home, &schemas, "store show", "store show agent:main:direct:u --json");
    fits(&home, &schemas, "store verify", "store verify --json");
    fits(&home, &schemas, "store cleanup", "store cleanup --dry-run -a --json");
    fits(&home, &schemas, "error", "store cleanup --json");
    fits(
        &home,
        &schemas,
        "store cleanup",
        "store cleanup --yes --fix-missing --fix-dm-scope --json",
    );
    fits(&home, &schemas, "store rebuild", "store rebuild --dry-run --json");
    fits(&home, &schemas, "store rebuild", "store rebuild --yes --json");
}
