//! Finalize end to end: a session ends when its agent does, once, and never before.

use std::fs;
use std::process::{Child, Command};

use serde_json::{Value, json};
use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::agent::{Agent, paused, state};
use super::run::{ostler, ran, run};

const ID: &str = "11111111-1111-4111-8111-111111111111";
const OTHER: &str = "22222222-2222-4222-8222-222222222222";

/// Events of a kind, in order.
fn events(home: &TempHome, kind: &str) -> Vec<Value> {
    let ran = run(home, "events --json").exits(0);
    let lines = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.filter(|event: &Value| event["kind"] == kind).collect()
}

/// A home, and an agent that is at work in session `ID`.
fn working() -> (TempHome, Agent) {
    let home = TempHome::new();
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    (home, agent)
}

/// The same, and the agent was killed at it.
fn killed() -> (TempHome, Agent) {
    let (home, mut agent) = working();
    agent.kill();
    (home, agent)
}

/// A sweep that has come to a named point and waits there.
fn stopped_at(home: &TempHome, point: &str) -> (Pauses, Child) {
    let pauses = Pauses::new();
    pauses.arm(point);
    let sweep = paused(home, &pauses, "finalize --json");
    pauses.wait(point);
    (pauses, sweep)
}

fn swept(home: &TempHome) -> Value {
    run(home, "finalize --json").exits(0).result()
}

#[test]
fn the_next_status_ends_a_session_whose_agent_was_killed() {
    let (home, mut agent) = working();
    let directory = agent.directory.clone();
    let status = || ran(ostler(&home).args(["status", "--json"]).current_dir(&directory)).result();
    let live = status();
    assert_eq!(live["sessions"][0]["id"], ID);
    assert_eq!(live["sessions"][0]["activity"], "working");
    assert_eq!(live["swept"]["ended"], json!([]));
    agent.kill();
    let over = status();
    assert_eq!(over["sessions"], json!([]));
    assert_eq!(over["swept"]["ended"][0]["session"], ID);
    assert_eq!(over["swept"]["ended"][0]["reason"], "exited");
    assert_eq!(over["swept"]["condensed"][0]["session"], ID);
    assert_eq!(over["ended"][0]["session"], ID);
    assert_eq!(status()["swept"]["ended"], json!([]), "ended once, not twice");
    assert_eq!(events(&home, "exited").len(), 1);
}

#[test]
fn a_clean_end_is_ended_once_and_condensed() {
    let (home, mut agent) = working();
    agent.hook("Stop", json!({"last_assistant_message": "done"}));
    agent.hook("SessionEnd", json!({"reason": "other"}));
    agent.kill();
    let first = swept(&home);
    assert_eq!(first["ended"], json!([]), "the agent itself said so");
    assert_eq!(first["condensed"][0]["reason"], "ended (other)");
    assert_eq!(swept(&home)["condensed"], json!([]));
    assert_eq!(events(&home, "session-end").len(), 1);
    assert_eq!(events(&home, "exited").len(), 0);
    assert_eq!(events(&home, "condensed").len(), 1);
}

#[test]
fn the_summary_has_prompts_models_tokens_and_the_copy_is_the_transcript() {
    let (home, _agent) = killed();
    swept(&home);
    let summary = run(&home, "summary 1111 --json").exits(0).result();
    assert_eq!(summary["prompts"], json!(["do it"]));
    assert_eq!(summary["models"], json!(["claude-opus-5-5"]));
    assert_eq!(summary["tokens"]["input"], 10);
    assert_eq!(summary["tokens"]["output"], 5);
    assert_eq!(summary["turns"], 1);
    assert_eq!(summary["reason"], "exited");
    assert_eq!(summary["lastMessage"], "done");
    let shown = run(&home, "vault show 1111 --json").exits(0).result();
    let original = fs::read_to_string(shown["files"][0]["path"].as_str().unwrap()).unwrap();
    assert_eq!(run(&home, "vault cat 1111").exits(0).stdout, original);
    assert_eq!(run(&home, "vault verify --json").exits(0).result()["sound"], 1);
    let to = home.join("back");
    let restored = ran(ostler(&home).args(["vault", "restore", "1111", "--to"]).arg(&to)).exits(0);
    assert!(restored.stdout.contains(ID), "{restored:?}");
    let back = fs::read_to_string(to.join(format!("{ID}.jsonl"))).unwrap();
    assert_eq!(back, original);
    ran(ostler(&home).args(["vault", "restore", "1111", "--to"]).arg(&to)).exits(8);
}

#[test]
fn an_export_has_no_secrets_in_it() {
    let home = TempHome::new();
    let mut agent = Agent::start(&home, ID);
    let secret = format!("ghp_{}", "a1b2c3d4e5".repeat(4));
    let transcript = super::run::claude_transcript(ID, "/p", &format!("use {secret} please"));
    let path = home.join(".claude/projects");
    let project = fs::read_dir(path).unwrap().next().unwrap().unwrap().path();
    fs::write(project.join(format!("{ID}.jsonl")), transcript).unwrap();
    agent.begin();
    agent.kill();
    swept(&home);
    assert!(run(&home, "vault cat 1111").exits(0).stdout.contains(&secret));
    let exported = run(&home, "vault export 1111").exits(0).stdout;
    assert!(!exported.contains(&secret) && exported.contains("[redacted]"));
    assert!(run(&home, "vault export 1111 --no-redact").exits(0).stdout.contains(&secret));
}

#[test]
fn a_later_turn_revives_an_exited_session() {
    let (home, _agent) = killed();
    assert_eq!(swept(&home)["ended"][0]["session"], ID);
    let mut resumed = Agent::start(&home, ID);
    resumed.hook("UserPromptSubmit", json!({"prompt": "go on"}));
    let one = run(&home, "ls --json").exits(0).session(ID);
    assert_eq!(one["status"], "running");
    assert_eq!(one["owner"]["pid"], resumed.pid());
    assert_eq!(swept(&home)["ended"], json!([]));
    resumed.kill();
    let again = swept(&home);
    assert_eq!(again["ended"][0]["session"], ID, "no exit is sticky");
    assert_eq!(again["condensed"][0]["session"], ID);
}

#[test]
fn from_inside_another_pid_namespace_a_live_session_is_not_ended() {
    let (home, _agent) = working();
    let like_us = ostler(&home);
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", env!("CARGO_BIN_EXE_ostler")]);
    command.args(["status", "--all", "--json"]).env_clear();
    for (name, value) in like_us.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let ran = ran(command.current_dir(home.path()));
    if ran.stderr.contains("unshare:") {
        eprintln!("SKIPPED: no pid namespaces here: {ran:?}");
        return;
    }
    let status = ran.result();
    assert_eq!(status["swept"]["ended"], json!([]), "{status}");
    assert_eq!(status["swept"]["kept"][0]["session"], ID);
    let one = run(&home, "ls --json").exits(0).session(ID);
    assert_eq!(one["status"], "running", "and outside it is seen to be there");
}

#[test]
fn a_session_of_another_namespace_is_not_ended_from_outside() {
    let home = TempHome::new();
    let wrapper = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    if !Command::new("unshare").args(["--pid", "--fork", "true"]).status().unwrap().success() {
        eprintln!("SKIPPED: no pid namespaces here");
        return;
    }
    let mut agent = Agent::wrapped(&home, ID, &wrapper);
    agent.begin();
    agent.kill();
    let swept = swept(&home);
    assert_eq!(swept["ended"], json!([]), "sight was lost, and that protects: {swept}");
    assert_eq!(swept["kept"][0]["session"], ID);
}

#[test]
fn a_turn_that_starts_between_listing_and_ending_saves_the_session() {
    let (home, _agent) = killed();
    let (pauses, sweep) = stopped_at(&home, "sweep.listed");
    let mut resumed = Agent::start(&home, ID);
    resumed.hook("UserPromptSubmit", json!({"prompt": "still here"}));
    pauses.release("sweep.listed");
    let output = sweep.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["result"]["ended"], json!([]), "{answer}");
    assert_eq!(run(&home, "ls --json").exits(0).session(ID)["status"], "running");
    assert_eq!(events(&home, "exited").len(), 0);
}

#[test]
fn two_sweeps_at_once_end_it_once() {
    let (home, _agent) = killed();
    let (pauses, first) = stopped_at(&home, "sweep.listed");
    let second = paused(&home, &Pauses::new(), "finalize --json");
    pauses.release("sweep.listed");
    let ended = |child: Child| {
        let output = child.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["result"]["ended"].as_array().unwrap().len()
    };
    assert_eq!(ended(first) + ended(second), 1);
    assert_eq!(events(&home, "exited").len(), 1);
}

#[test]
fn a_hook_is_not_delayed_by_condensing() {
    let (home, _agent) = killed();
    let (pauses, sweep) = stopped_at(&home, "condense.begin");
    let mut other = Agent::start(&home, OTHER);
    other.begin();
    let mut resumed = Agent::start(&home, ID);
    resumed.hook("UserPromptSubmit", json!({"prompt": "the very session being condensed"}));
    pauses.release("condense.begin");
    assert!(sweep.wait_with_output().unwrap().status.success());
    let live = run(&home, "ls --json").exits(0).sessions();
    assert_eq!(live.len(), 2);
}

#[test]
fn a_sweeper_killed_at_any_step_is_completed_by_the_next() {
    for point in [
        "intake.read",
        "intake.taken-in",
        "sweep.listed",
        "sweep.ended",
        "condense.begin",
        "vault.written",
        "condense.copied",
    ] {
        let (home, _agent) = killed();
        let (_pauses, mut sweep) = stopped_at(&home, point);
        sweep.kill().unwrap();
        sweep.wait().unwrap();
        run(&home, "finalize").exits(0);
        assert_eq!(events(&home, "session-start").len(), 1, "{point}");
        assert_eq!(events(&home, "turn-start").len(), 1, "{point}");
        assert_eq!(events(&home, "exited").len(), 1, "{point}");
        assert_eq!(events(&home, "condensed").len(), 1, "{point}");
        let kept = run(&home, "vault ls --json").exits(0).result();
        assert_eq!(kept["kept"].as_array().unwrap().len(), 1, "{point}");
        run(&home, "vault verify").exits(0);
    }
}

#[test]
fn reads_use_what_hooks_told_and_write_nothing() {
    let (home, mut agent) = working();
    agent.hook("PermissionRequest", json!({"tool_name": "Bash"}));
    let before = testkit::home::Snapshot::of(&state(&home));
    let one = run(&home, "ls --json").exits(0).session(ID);
    assert_eq!(one["activity"], "waiting");
    assert_eq!(one["liveness"]["state"], "alive");
    assert_eq!(one["liveness"]["source"], "hook");
    run(&home, "show 1111").exits(0);
    let why = run(&home, "why 1111").exits(0);
    assert!(why.stdout.contains("a hook of the session ran below this process"), "{why:?}");
    assert_eq!(testkit::home::Snapshot::of(&state(&home)), before);
    agent.kill();
    let one = run(&home, "ls -a --json").exits(0).session(ID);
    assert_eq!(one["status"], "exited", "dead by proof, though nothing has swept yet");
}

#[test]
fn a_preview_changes_nothing_and_a_name_narrows_it() {
    let home = TempHome::new();
    let (mut one, mut two) = (Agent::start(&home, ID), Agent::start(&home, OTHER));
    one.begin();
    two.begin();
    one.kill();
    two.kill();
    let preview = run(&home, "finalize --dry-run --json").exits(0).result();
    assert_eq!(preview["ended"].as_array().unwrap().len(), 2);
    assert_eq!(preview["dryRun"], true);
    assert!(!state(&home).join("ostler.db").exists());
    let swept = run(&home, "finalize 2222 --json").exits(0).result();
    assert_eq!(swept["ended"].as_array().unwrap().len(), 1);
    assert_eq!(swept["ended"][0]["session"], OTHER);
    run(&home, "finalize nobody").exits(3);
}

#[test]
fn status_on_a_machine_without_hooks_makes_no_home() {
    let home = TempHome::new();
    run(&home, "status").exits(0);
    run(&home, "doctor").exits(0);
    assert!(!state(&home).exists());
}

#[test]
fn doctor_shows_what_hooks_could_not_do_and_fix_sets_it_aside() {
    let home = TempHome::new();
    run(&home, "hook nobody Stop").exits(0);
    let found = run(&home, "doctor").exits(1);
    assert!(found.stdout.contains("there is no adapter of that name"), "{found:?}");
    let fixed = run(&home, "doctor --fix");
    assert!(fixed.stdout.contains("set "), "{fixed:?}");
    run(&home, "doctor").exits(0);
    assert!(state(&home).join("hook-problems.log.old").exists(), "nothing is lost");
}
