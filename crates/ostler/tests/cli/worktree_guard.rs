//! What keeps a worktree that git says nothing against: sessions that were not seen, sub-agents, and what was
//! just written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::collect::{age, age_below, worktree};
use super::live::{FakeAgent, register};
use super::run::{claude_session, ostler, run};

const ONE: &str = "11111111-1111-4111-8111-111111111111";
const GC: &str = "gc --include worktrees --older-than 0s --agent claude-code --json";

/// Why the only worktree stays, or `none`.
fn refusal(home: &TempHome) -> String {
    refusal_in(&run(home, GC).result())
}

fn refusal_in(result: &Value) -> String {
    let items = result["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{result}");
    items[0]["refused"]["refusal"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn what_could_not_be_listed_keeps_every_worktree() {
    let home = TempHome::new();
    worktree(&home);
    assert_eq!(refusal(&home), "none");
    let databases =
        [".local/share/opencode/opencode.db", ".local/share/goose/sessions/sessions.db"];
    for database in databases {
        let path = home.write(database, "this is no database");
        assert_eq!(refusal(&home), "listedInPart", "{database}");
        fs::remove_file(path).unwrap();
    }
    // A transcript that cannot be read may be of a session that works there.
    let transcript = claude_session(&home, ONE, "/elsewhere", "hello");
    fs::remove_file(&transcript).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&transcript).status().unwrap().success());
    assert_eq!(refusal(&home), "listedInPart");
    fs::remove_file(&transcript).unwrap();
    assert_eq!(refusal(&home), "none");
}

#[test]
fn a_live_sub_agent_keeps_the_worktree_that_it_works_in() {
    let home = TempHome::new();
    let tree = worktree(&home);
    let elsewhere = fs::canonicalize(home.path()).unwrap().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let parent = claude_session(&home, ONE, elsewhere.to_str().unwrap(), "go");
    let line = json!({"type": "user", "sessionId": ONE, "agentId": "ab12", "isSidechain": true,
        "cwd": tree, "version": "2.1.325", "timestamp": "2026-01-15T10:00:00.000Z",
        "message": {"role": "user", "content": "do it there"}});
    let child = parent.with_extension("").join("subagents/agent-ab12.jsonl");
    let name = child.strip_prefix(home.path()).unwrap();
    age(&home.write(name, format!("{line}\n")), 10);
    age(&parent, 10);
    assert_eq!(refusal(&home), "none");
    let agent = FakeAgent::start(&home, "claude", &elsewhere);
    register(&home, &agent, &agent.registration(ONE, &elsewhere));
    assert_eq!(refusal(&home), "workedIn");
    agent.kill();
    assert_eq!(refusal(&home), "none");
}

/// A worktree whose build output git ignores.
fn with_ignored_file(home: &TempHome) -> (PathBuf, PathBuf) {
    let tree = worktree(home);
    home.write("repo/.git/info/exclude", "*.log\n");
    let output = home.write("tree/build.log", "made");
    age_below(&tree, 30);
    (tree, output)
}

fn save(path: &Path) {
    fs::write(path, "made again").unwrap();
}

#[test]
fn a_file_that_git_ignores_and_that_was_just_saved_keeps_its_worktree() {
    let home = TempHome::new();
    let (tree, output) = with_ignored_file(&home);
    assert_eq!(refusal(&home), "none");
    save(&output);
    assert_eq!(refusal(&home), "justWritten");
    age(&output, 2);
    assert_eq!(refusal(&home), "none");
    let older = run(&home, &GC.replace("0s", "3d")).exits(0).result();
    assert_eq!(refusal_in(&older), "young", "what a program wrote counts as much as a session");
    // What was removed was worked on, too.
    fs::remove_file(&output).unwrap();
    assert_eq!(refusal(&home), "justWritten");
    age_below(&tree, 30);
    assert_eq!(refusal(&home), "none");
}

#[test]
fn what_is_saved_between_plan_and_removal_keeps_its_worktree() {
    let home = TempHome::new();
    let (tree, output) = with_ignored_file(&home);
    let pauses = Pauses::new();
    pauses.arm("gc.planned");
    let mut command = ostler(&home);
    command.args(GC.split(' ')).arg("--yes").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = pauses.apply(&mut command).spawn().unwrap();
    pauses.wait("gc.planned");
    save(&output);
    pauses.release("gc.planned");
    let answer = child.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(refusal_in(&answer["result"]), "justWritten");
    assert!(tree.exists());
}

#[test]
fn sessions_of_configured_places_keep_worktrees_and_are_not_collected() {
    let home = TempHome::new();
    let tree = worktree(&home);
    home.write(".config/ostler/config.toml", "[adapters.claude-code]\nroots = [\"~/.fork\"]\n");
    let usual = claude_session(&home, ONE, tree.to_str().unwrap(), "go");
    let theirs = home.join(".fork/projects/p").join(usual.file_name().unwrap());
    fs::create_dir_all(theirs.parent().unwrap()).unwrap();
    fs::rename(usual, &theirs).unwrap();
    age(&theirs, 10);
    assert_eq!(refusal(&home), "none");
    run(&home, "pin 1111").exits(0);
    assert_eq!(refusal(&home), "pinned");
    run(&home, "pin --remove 1111").exits(0);
    let agent = FakeAgent::start(&home, "claude", home.path());
    let record = agent.registration(ONE, home.path());
    home.write(format!(".fork/sessions/{}.json", agent.pid()), record.to_string());
    assert_eq!(refusal(&home), "workedIn");
    agent.kill();
    let line = "gc --include transcripts --older-than 0s --agent claude-code --yes --json";
    run(&home, line).exits(0);
    assert!(theirs.exists(), "of a configured place nothing is collected");
}
