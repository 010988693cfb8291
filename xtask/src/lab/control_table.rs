//! What ostler's control tables were written from, agent by agent, and the comparison with what was seen.

use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};

use super::stage::Stage;

/// Something that was seen, under the name it has in the table.
#[derive(Clone, Debug)]
pub(crate) struct Fact {
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

/// How one agent is driven by the lab, and what is expected of it.
#[derive(Debug)]
pub(crate) struct ControlCase {
    pub(crate) agent: &'static str,
    /// Its arguments, so that it asks before it runs a command.
    pub(crate) arguments: &'static [&'static str],
    /// Keys with which a person trusts a directory.
    pub(crate) trust_keys: &'static [&'static str],
    /// Words of its question, blanks as they are; none if it asks nothing.
    pub(crate) question: Option<&'static str>,
    /// How the model makes it run `{}` in a shell, so that it has to ask.
    pub(crate) tool: &'static str,
    /// What is written before its first run, beside what the lab writes.
    pub(crate) prepare: fn(&Stage) -> Result<(), String>,
    /// The table.
    pub(crate) expected: &'static [(&'static str, &'static str)],
}

/// The case of an agent, if it is driven.
pub(crate) fn case_of(agent: &str) -> Option<&'static ControlCase> {
    CASES.iter().find(|case| case.agent == agent)
}

/// The rows of the table for one agent, and where it differs from what is expected.
pub(crate) fn compare_facts(case: &ControlCase, seen: &[Fact]) -> (String, Vec<String>) {
    let mut table = format!("| {} | seen | expected |\n|---|---|---|", case.agent);
    let mut differences = Vec::new();
    let value_of =
        |name: &str| seen.iter().find(|fact| fact.name == name).map(|fact| fact.value.as_str());
    for (name, expected) in case.expected {
        let value = value_of(name).unwrap_or("not seen");
        let _ = write!(table, "\n| {name} | {value} | {expected} |");
        if value != *expected {
            differences.push(format!("{name}: {value}, expected {expected}"));
        }
    }
    for fact in seen.iter().filter(|fact| !case.expected.iter().any(|(name, _)| *name == fact.name))
    {
        let _ = write!(table, "\n| {} | {} | – |", fact.name, fact.value);
    }
    (table, differences)
}

/// Changes the JSON file below the agent's home.
fn change_json(stage: &Stage, name: &str, change: impl FnOnce(&mut Value)) -> Result<(), String> {
    let path = stage.home.join(name);
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read(&path).map_err(|error| failed(&error))?;
    let mut value: Value = serde_json::from_slice(&text).map_err(|error| failed(&error))?;
    change(&mut value);
    fs::write(&path, value.to_string()).map_err(|error| failed(&error))
}

/// Has OpenCode, or a fork of it, ask before it runs a command.
pub(crate) fn ask_before_shell(stage: &Stage, config: &str) -> Result<(), String> {
    change_json(stage, config, |config| config["permission"] = json!({ "bash": "ask" }))
}

/// The same for all who hold one conversation in one file and take pastes.
const COMMON: ControlCase = ControlCase {
    agent: "",
    arguments: &[],
    trust_keys: &["Enter"],
    question: None,
    tool: "[[tool:{}]]",
    prepare: |_| Ok(()),
    expected: &[],
};

const CASES: &[ControlCase] = &[
    ControlCase {
        agent: "claude-code",
        arguments: &["--permission-mode", "default"],
        question: Some("Do you want to"),
        expected: &[
            ("id", "chosen"),
            ("waiting", "seen"),
            ("live id", "held"),
            ("unknown id", "not found"),
            ("other directory", "its own"),
            ("headless", "accepted"),
            ("second of equal length", "accepted"),
            ("stop --turn", "ends the turn"),
            ("turn that hangs", "11 open"),
            ("trust", "asks"),
        ],
        ..COMMON
    },
    ControlCase {
        agent: "codex",
        // Within its sandbox it does not ask.
        tool: "[[call:exec_command:{\"cmd\":\"{}\",\"sandbox_permissions\":\"require_escalated\",\"justification\":\"lab\"}]]",
        question: Some("Would you like to run"),
        expected: &[
            ("id", "registered"),
            ("waiting", "seen"),
            ("live id", "held"),
            ("unknown id", "not found"),
            ("other directory", "its own"),
            ("headless", "accepted"),
            ("second of equal length", "accepted"),
            ("stop --turn", "ends the turn"),
            ("turn that hangs", "11 open"),
            ("trust", "does not ask"),
        ],
        ..COMMON
    },
    ControlCase {
        agent: "opencode",
        question: Some("Permission required"),
        prepare: |stage| ask_before_shell(stage, ".config/opencode/opencode.json"),
        expected: &[
            ("id", "first-prompt"),
            ("waiting", "seen"),
            ("live id", "held"),
            ("unknown id", "not found"),
            ("other directory", "its own"),
            ("headless", "accepted"),
            ("second of equal length", "accepted"),
            ("stop --turn", "ends the turn"),
            ("turn that hangs", "11 open"),
            ("trust", "does not ask"),
        ],
        ..COMMON
    },
    ControlCase {
        agent: "gemini",
        question: Some("Allow execution"),
        expected: &[
            ("id", "chosen"),
            ("waiting", "seen"),
            ("live id", "held"),
            ("unknown id", "not found"),
            ("other directory", "its own"),
            ("headless", "accepted"),
            ("second of equal length", "accepted"),
            ("stop --turn", "ends the turn"),
            ("turn that hangs", "11 open"),
            ("trust", "does not ask"),
        ],
        ..COMMON
    },
    ControlCase {
        agent: "qwen",
        arguments: &["--approval-mode", "default"],
        question: Some("Allow execution"),
        expected: &[
            ("id", "chosen"),
            ("waiting", "seen"),
            ("live id", "held"),
            ("unknown id", "not found"),
            ("other directory", "its own"),
            ("headless", "accepted"),
            ("second of equal length", "altered"),
            ("stop --turn", "ends the turn"),
            ("turn that hangs", "11 open"),
            ("trust", "does not ask"),
        ],
        ..COMMON
    },
    ControlCase {
        agent: "copilot",
        trust_keys: &["Down", "Enter"],
        question: Some("Do you want to run"),
        expected: &[
            ("id", "chosen"),
            ("waiting", "seen"),
            ("live id", "held"),
            ("unknown id", "not found"),
            ("other directory", "its own"),
            ("headless", "accepted"),
            ("second of equal length", "accepted"),
            ("stop --turn", "ends the turn"),
            ("turn that hangs", "11 open"),
            ("trust", "asks"),
        ],
        ..COMMON
    },
    ControlCase {
        agent: "pi",
        arguments: &["--provider", "lab", "--model", "fake-model"],
        expected: &[
            ("id", "first-prompt"),
            ("live id", "held"),
            ("unknown id", "not found"),
            ("other directory", "its own"),
            ("headless", "accepted"),
            ("second of equal length", "accepted"),
            ("stop --turn", "ends the turn"),
            ("turn that hangs", "11 open"),
            ("trust", "does not ask"),
        ],
        ..COMMON
    },
    ControlCase {
        agent: "kimi",
        question: Some("Run this command?"),
        expected: &[
            ("id", "first-prompt"),
            ("waiting", "seen"),
            ("live id", "held"),
            ("unknown id", "not found"),
            ("other directory", "its own"),
            ("headless", "refused"),
            ("second of equal length", "accepted"),
            ("stop --turn", "ends the turn"),
            ("turn that hangs", "11 open"),
            ("trust", "asks"),
        ],
        ..COMMON
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_that_differs_or_was_not_seen_is_told() {
        let case = ControlCase { expected: &[("id", "chosen"), ("trust", "asks")], ..COMMON };
        let seen = [Fact { name: "id", value: "none".to_owned() }];
        let (table, differences) = compare_facts(&case, &seen);
        assert_eq!(differences, ["id: none, expected chosen", "trust: not seen, expected asks"]);
        assert!(table.contains("| id | none | chosen |"));
    }
}
