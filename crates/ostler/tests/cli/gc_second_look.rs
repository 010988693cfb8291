//! What happens between the plan of a collection and its removals, end to end.

use std::fs;
use std::process::Stdio;

use serde_json::Value;
use testkit::home::TempHome;

use super::collect::{age, items};
use super::live::{FakeAgent, lab};
use super::openers::{DAY, gemini, refusal};
use super::run::{claude_session, ostler};

const ONE: &str = "11111111-1111-4111-8111-111111111111";
const TWO: &str = "22222222-2222-4222-8222-222222222222";

/// A collection that stops when its plan is made, while something happens.
pub(crate) fn gc_while(home: &TempHome, agent: &str, meanwhile: impl FnOnce()) -> Value {
    let pauses = testkit::pause::Pauses::new();
    pauses.arm("gc.planned");
    let line = format!("gc --include transcripts --older-than 1s --agent {agent} --yes --json");
    let mut command = ostler(home);
    command.args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = pauses.apply(&mut command).spawn().unwrap();
    pauses.wait("gc.planned");
    meanwhile();
    pauses.release("gc.planned");
    let answer = child.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    answer["result"].clone()
}

#[test]
fn b1_a_run_that_begins_between_plan_and_removal_may_have_resumed_the_session() {
    let (home, repo) = lab();
    let path = gemini(&home, &repo, ONE, 2 * DAY, &[2 * DAY]);
    let elsewhere = repo.with_file_name("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let mut agents = Vec::new();
    let result = gc_while(&home, "gemini", || {
        agents.push(FakeAgent::start(&home, "gemini", &elsewhere));
        agents.push(FakeAgent::start(&home, "gemini", &repo));
    });
    assert_eq!(refusal(&result, &path), "couldBeOpen");
    let reason = result["items"][0]["refused"]["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("pid {}", agents[1].pid())), "{reason}");
    assert!(path.exists());
    agents.pop().unwrap().kill();
    // A run in another directory cannot open it.
    let result = gc_while(&home, "gemini", || {
        agents.push(FakeAgent::start(&home, "gemini", &elsewhere));
    });
    assert_eq!(items(&result, "trashed"), [path.to_str().unwrap()], "{result:#}");
}

#[test]
fn b1_a_run_that_registers_the_session_between_plan_and_removal_keeps_it() {
    let (home, repo) = lab();
    let (one, two) = (ONE, TWO);
    let path = claude_session(&home, two, repo.to_str().unwrap(), "hello");
    age(&path, 10);
    let agent = FakeAgent::start(&home, "claude", &repo);
    super::live::register(&home, &agent, &agent.registration(one, &repo));
    let result = gc_while(&home, "claude-code", || {
        super::live::register(&home, &agent, &agent.registration(two, &repo));
    });
    assert_eq!(refusal(&result, &path), "alive");
    assert!(path.exists());
}
