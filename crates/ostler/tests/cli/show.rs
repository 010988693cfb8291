//! `ostler show`, `why`, `adapters` and `du` over the sample home.

use testkit::home::TempHome;

use super::collect::age;
use super::run::{claude_session, run, sample_home};

/// What differs from run to run, replaced.
fn stable(home: &TempHome, text: &str) -> String {
    let home = home.path().to_str().unwrap().to_owned();
    let text = text.replace(&home, "[HOME]").replace("just now", "1s ago");
    let mut out = String::new();
    for line in text.lines() {
        let ago = line.find(" ago").map(|end| (line[..end].rfind(['(', ' ']).unwrap() + 1, end));
        match ago {
            Some((start, end)) => {
                out.extend([&line[..start], "[AGE]", &line[end..], "\n"]);
            }
            None => out.extend([line, "\n"]),
        }
    }
    out
}

#[test]
fn one_session_in_full() {
    let home = sample_home();
    let ran = run(&home, "show 36daf00a");
    insta::assert_snapshot!(stable(&home, &ran.stdout));
}

#[test]
fn why_it_is_called_exited() {
    let home = sample_home();
    let id = "36daf00a-a422-47b9-af3b-8b492999df19";
    age(&home.join(format!(".claude/projects/-home-user-repo/{id}.jsonl")), 1);
    let ran = run(&home, "why 36daf00a");
    insta::assert_snapshot!(stable(&home, &ran.stdout));
}

#[test]
fn why_it_may_not_be_collected() {
    let home = sample_home();
    let why = run(&home, "why 2f8e36cc --json").result();
    assert_eq!(why["verdict"]["status"], "unknown");
    assert_eq!(why["verdict"]["reason"], "foreign-host");
    assert_eq!(why["collect"]["allowed"], false);
    assert!(why["collect"]["remedy"].is_string());
    for fact in why["evidence"].as_array().unwrap() {
        for field in ["fact", "value", "source", "observedAt", "ageMs", "effect"] {
            assert!(fact.get(field).is_some(), "{field} of {fact}");
        }
    }
}

#[test]
fn subagents_are_part_of_their_parent() {
    let home = sample_home();
    let shown = run(&home, "show 666e4f9b --json").result();
    assert_eq!(shown["session"]["tokens"]["input"], 11106, "as the agent's own total");
    assert_eq!(shown["session"]["tokens"]["output"], 504);
    assert_eq!(shown["session"]["costMicroUsd"], 54504);
    assert_eq!(shown["subagents"].as_array().unwrap().len(), 1);
    let plain = run(&home, "ls -a --json").sessions();
    assert!(
        plain
            .iter()
            .all(|session| session["agent"] != "claude-code" || session.get("parent").is_none())
    );
    let all = run(&home, "ls -a --json --subagents").sessions();
    assert!(
        all.iter()
            .any(|session| session["parent"].as_str().is_some_and(|p| p.starts_with("666e4f9b")))
    );
}

#[test]
fn a_session_is_addressed_by_name_directory_and_newest() {
    let home = TempHome::new();
    let here = std::fs::canonicalize(home.path()).unwrap();
    claude_session(&home, "aaaa1111-0000-4000-8000-000000000000", here.to_str().unwrap(), "here");
    claude_session(&home, "bbbb1111-0000-4000-8000-000000000000", "/elsewhere", "there");
    home.append(
        ".claude/projects/-elsewhere/bbbb1111-0000-4000-8000-000000000000.jsonl",
        "{\"type\":\"custom-title\",\"customTitle\":\"My work\"}\n{\"type\":\"user\",\"timestamp\":\"2026-11-15T12:00:00.000Z\",\"message\":{\"content\":\"x\"}}\n",
    );
    let id = |address: &str| {
        let mut command = super::run::ostler(&home);
        let ran = super::run::ran(command.args(["show", "--json", address]));
        ran.result()["session"]["id"].as_str().unwrap()[..4].to_owned()
    };
    assert_eq!(id("."), "aaaa");
    assert_eq!(id("-"), "bbbb");
    assert_eq!(id("My work"), "bbbb");
    assert_eq!(id("claude-code:aaaa"), "aaaa");
}

#[test]
fn bytes_add_up() {
    let home = sample_home();
    let du = run(&home, "du --json").result();
    let agents = du["agents"].as_array().unwrap();
    let sum: u64 = agents.iter().map(|agent| agent["bytes"].as_u64().unwrap()).sum();
    assert_eq!(du["totalBytes"], sum);
    for agent in agents {
        let parts = ["transcriptBytes", "attachmentBytes", "archiveBytes", "temporaryBytes"];
        let whole: u64 = parts.iter().map(|part| agent[part].as_u64().unwrap()).sum();
        let projects: u64 = agent["projects"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| p["bytes"].as_u64().unwrap())
            .sum();
        assert_eq!(agent["bytes"], whole, "{agent}");
        assert_eq!(agent["bytes"], projects, "{agent}");
    }
    let biggest: Vec<u64> = agents.iter().map(|agent| agent["bytes"].as_u64().unwrap()).collect();
    assert!(biggest.is_sorted_by(|a, b| a >= b), "biggest first");
}

#[test]
fn adapters_say_how_certain_they_are() {
    let home = sample_home();
    let result = run(&home, "adapters --json").exits(0).result();
    let adapters = result["adapters"].as_array().unwrap();
    let known: Vec<(&str, &str)> = adapters
        .iter()
        .map(|one| (one["id"].as_str().unwrap(), one["certainty"].as_str().unwrap()))
        .collect();
    assert_eq!(
        known,
        [
            ("claude-code", "lab"),
            ("codex", "lab"),
            ("opencode", "lab"),
            ("gemini", "lab"),
            ("pi", "lab"),
            ("openclaw", "lab"),
            ("copilot", "lab"),
            ("qwen", "lab"),
            ("droid", "lab"),
            ("kimi", "lab"),
            ("cline", "lab"),
            ("kilo", "lab"),
            ("vibe", "lab"),
            ("hermes", "lab"),
            ("continue", "lab"),
            ("cursor", "documented"),
            ("goose", "documented"),
            ("amp", "documented"),
            ("aider", "documented"),
            ("crush", "documented"),
        ]
    );
    for one in &adapters[..11] {
        assert!(one["found"].as_u64().unwrap() > 0, "{one}");
    }
}
