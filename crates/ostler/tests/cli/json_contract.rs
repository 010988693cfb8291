//! Every `--json` answer is what `ostler schema` promises, and keeps the rules of the contract.

use serde_json::Value;
use testkit::home::TempHome;

use super::cases::{REGISTRY, Stages};
use super::run::{run, sample_home};

/// Every case of every command: its JSON is what its entry promises, or an error.
fn check_cases(part: usize) {
    let schemas: Value = serde_json::from_str(&run(&TempHome::new(), "schema").stdout).unwrap();
    let mut stages = Stages::default();
    let mut unexpected = Vec::new();
    for entry in REGISTRY.leaves().enumerate().filter(|(at, _)| at % 3 == part).map(|(_, one)| one)
    {
        for case in &entry.cases {
            let line = format!("--json {}", case.line);
            let outcome = stages.run(case, &line);
            let (printed, code) = (outcome.ran.stdout, outcome.ran.code);
            // Waiting in vain is an answer under `--json`.
            let waited = case.line.starts_with("wait");
            if !case.may_end_with(&entry.name, code) && !waited {
                unexpected.push(format!("{line}: {code}, {printed}"));
            }
            if let Some(name) = entry.schema(true).filter(|_| !printed.contains("\"ok\": false")) {
                for line in printed.lines() {
                    fits(&schemas, &name, &case.line, &serde_json::from_str(line).unwrap());
                }
                continue;
            }
            let answer: Value = match serde_json::from_str(&printed) {
                Ok(answer) => answer,
                // What has no JSON of its own prints what it always prints, or an error.
                Err(_) if entry.answers.is_empty() => continue,
                Err(error) => panic!("`ostler {line}`: {error}: {printed}"),
            };
            let name = entry.schema(false).filter(|_| answer["ok"] != false);
            match name {
                // agent-tty's records have `null` for what is not there and numbers for some times, and they
                // stay as they are.
                Some(name) if REGISTRY.is_of_agent_tty(entry) => {
                    fits_schema(&schemas, &name, &case.line, &answer);
                }
                Some(name) => fits(&schemas, &name, &case.line, &answer),
                None if answer["ok"] == false => fits(&schemas, "error", &case.line, &answer),
                None => {}
            }
            assert!(!case.is_error() || answer["ok"] == false || waited, "{line}: {answer}");
        }
    }
    assert!(unexpected.is_empty(), "{unexpected:#?}");
}

#[test]
fn every_answer_fits_its_schema_1() {
    check_cases(0);
}

#[test]
fn every_answer_fits_its_schema_2() {
    check_cases(1);
}

#[test]
fn every_answer_fits_its_schema_3() {
    check_cases(2);
}

#[track_caller]
fn fits(schemas: &Value, name: &str, line: &str, answer: &Value) {
    fits_schema(schemas, name, line, answer);
    check(answer, "$", line);
}

#[track_caller]
fn fits_schema(schemas: &Value, name: &str, line: &str, answer: &Value) {
    let validator = jsonschema::validator_for(&schemas[name]).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(answer)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "`ostler {line}`: {errors:#?} {answer:#}");
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

/// Nothing is null, keys are camel case, times have milliseconds.
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
fn the_status_of_an_agent_that_hooks_told_of_fits_its_schema() {
    let home = TempHome::new();
    let mut agent = super::agent::Agent::start(&home, "11111111-1111-4111-8111-111111111111");
    agent.begin();
    let schemas: Value = serde_json::from_str(&run(&home, "schema").exits(0).stdout).unwrap();
    let line = "status --all --json";
    fits(&schemas, "status", line, &run(&home, line).envelope());
    agent.kill();
    fits(&schemas, "status", line, &run(&home, line).envelope());
}
