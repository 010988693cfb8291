//! `ostler mcp` in real agents: told of it by the lines that `--print-config` prints, an agent calls
//! `list_sessions` and hands the answer to its model.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::ostler::Ostler;
use super::report::{Outcome, Verdict};
use super::stage::{Stage, until, yes};

/// The columns of this part of the lab.
pub(crate) const CHECKS: &[&str] = &["drive", "config", "offered", "called"];

/// How long a turn may take; some agents install things first.
const TURN: Duration = Duration::from_secs(150);

const TOOL: &str = "list_sessions";

/// What an agent needs to call a tool without asking a person, beside what it is started with anyway.
fn consent_words(agent: &str) -> &'static [&'static str] {
    match agent {
        "claude-code" => &["--allowedTools", "mcp__ostler__list_sessions"],
        "gemini" | "qwen" => &["--approval-mode", "yolo"],
        "droid" => &["--auto", "high"],
        _ => &[],
    }
}

/// Claude Code looks for tools of MCP servers when it needs them; here they are offered at once.
const OFFERED_AT_ONCE: (&str, &str) = ("ENABLE_TOOL_SEARCH", "false");

/// Runs the part for one agent.
pub(crate) fn run(stage: &Stage, binary: &Path) -> Vec<Outcome> {
    let outcome = |check, verdict, reason| Outcome { check, verdict, reason };
    let judge = |check, result: Result<(), String>| match result {
        Ok(()) => outcome(check, Verdict::Pass, String::new()),
        Err(reason) => outcome(check, Verdict::Fail, reason),
    };
    let ostler = Ostler::new(binary, &stage.home);
    let settings = match ostler.result(&["mcp", "--print-config", stage.agent.id, "--json"]) {
        Ok(settings) => settings,
        Err(reason) => return vec![outcome("config", Verdict::NotApplicable, reason)],
    };
    let mut outcomes = vec![judge("drive", turn(stage, binary, "mcp-zero", ""))];
    let written = write_settings(stage, &settings);
    outcomes.push(judge("config", written));
    let driven = turn(stage, binary, "mcp-one", &format!("[[call:{TOOL}:{{}}]] "));
    outcomes.push(judge("drive", driven));
    let turns = stage.server.turns("mcp-one");
    let tools = turns.iter().flat_map(|turn| turn.tools.clone()).collect::<Vec<_>>();
    let is_offered = tools.iter().any(|tool| tool.ends_with(TOOL));
    outcomes.push(judge("offered", yes(is_offered, &format!("offered were {tools:?}"))));
    outcomes.push(judge("called", is_answered(&ostler, &turns)));
    outcomes
}

/// The model was told of the session that was there before, by its id.
fn is_answered(ostler: &Ostler, turns: &[super::model_server::Entry]) -> Result<(), String> {
    let list = ostler.list()?;
    let sessions = list["sessions"].as_array().cloned().unwrap_or_default();
    let ids: Vec<&str> = sessions.iter().filter_map(|session| session["id"].as_str()).collect();
    yes(!ids.is_empty(), "no session is listed")?;
    let told: String = turns.iter().map(|turn| turn.tool_text.as_str()).collect();
    let shown: String = told.chars().take(300).collect();
    yes(ids.iter().any(|id| told.contains(id)), &format!("none of {ids:?} in {shown:?}"))
}

/// One turn without a terminal, to its end, with ostler in the agent's path.
fn turn(stage: &Stage, binary: &Path, tag: &str, marks: &str) -> Result<(), String> {
    let prompt = format!("Reply to {tag} {marks}[[say:answer to {tag}]]");
    let mut words: Vec<String> =
        stage.agent.headless.iter().map(|word| word.replace("{}", &prompt)).collect();
    words.extend(consent_words(stage.agent.id).iter().map(|word| (*word).to_owned()));
    let bin = stage.dir.join("bin");
    let program = bin.join("ostler");
    fs::create_dir_all(&bin).map_err(|error| format!("{}: {error}", bin.display()))?;
    if !program.exists() {
        fs::copy(binary, &program).map_err(|error| format!("{}: {error}", program.display()))?;
    }
    let path = stage.path_with(&bin);
    let mut child = stage.start(&words, &[("PATH", &path), OFFERED_AT_ONCE], tag)?;
    let ended = until(&format!("the end of {tag}"), TURN, || {
        child.ended().ok_or_else(|| "it still runs".to_owned())
    });
    let status = ended.map_err(|reason| format!("{reason}; it printed: {}", stage.printed(tag)))?;
    yes(status.success(), &format!("{status}; it printed: {}", stage.printed(tag)))?;
    yes(stage.server.turns(tag).iter().any(|turn| turn.answered), "no answer")
}

/// Puts the printed lines where the printed file is, beside what is in it.
fn write_settings(stage: &Stage, settings: &Value) -> Result<(), String> {
    let file = settings["file"].as_str().unwrap_or_default();
    let lines = settings["lines"].as_str().unwrap_or_default();
    let path = settings_path(stage, file);
    let error = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(error)?;
    }
    let before = fs::read_to_string(&path).unwrap_or_default();
    let is_json = path.extension().is_some_and(|kind| kind == "json");
    let after = if is_json && !before.trim().is_empty() {
        let read = |text: &str| {
            serde_json::from_str::<Value>(text).map_err(|reason| format!("{file}: {reason}"))
        };
        let mut all = read(&before)?;
        merge(&mut all, read(lines)?);
        format!("{all:#}\n")
    } else {
        format!("{before}\n{lines}")
    };
    fs::write(&path, after).map_err(error)
}

/// The file that people are told of, in this home. Claude's own place for every project needs no dialog.
fn settings_path(stage: &Stage, file: &str) -> PathBuf {
    match (stage.agent.id, file.strip_prefix("~/")) {
        ("claude-code", _) => stage.home.join(".claude.json"),
        (_, Some(below)) => stage.home.join(below),
        _ => stage.repo.join(file),
    }
}

/// Adds the members of one document to another.
fn merge(into: &mut Value, other: Value) {
    match (into, other) {
        (Value::Object(into), Value::Object(other)) => {
            for (key, value) in other {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, other) => *into = other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_in_a_document_stays_beside_what_is_added() {
        let mut all = json!({ "a": { "b": 1 }, "c": [1] });
        merge(&mut all, json!({ "a": { "d": 2 }, "c": [2] }));
        assert_eq!(all, json!({ "a": { "b": 1, "d": 2 }, "c": [2] }));
    }
}
