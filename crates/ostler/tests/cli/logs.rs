//! `ostler logs`: any agent's conversation in one format.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use testkit::home::TempHome;

use super::run::{claude_session, ostler, run, sample_home};

#[test]
fn a_conversation_reads_the_same_whoever_held_it() {
    let home = sample_home();
    let ran = run(&home, "logs 36daf00a").exits(0);
    insta::assert_snapshot!(ran.stdout);
}

#[test]
fn every_sample_session_has_a_prompt_and_an_answer() {
    let home = sample_home();
    for session in run(&home, "ls -a --json").sessions() {
        let (agent, id) = (session["agent"].as_str().unwrap(), session["id"].as_str().unwrap());
        // One that was killed before the first answer may not have written the prompt.
        if session.get("transcript").is_none() || session.get("tokens").is_none() {
            continue;
        }
        let ran = run(&home, &format!("logs {agent}:{id} --json"));
        let entries = ran.result()["entries"].as_array().unwrap().clone();
        assert!(entries.iter().any(|entry| entry["role"] == "user"), "{agent}:{id} {ran:?}");
    }
}

#[test]
fn only_the_last_entries() {
    let home = TempHome::new();
    claude_session(&home, "aaaa1111-0000-4000-8000-000000000000", "/a", "one");
    let ran = run(&home, "logs aaaa -n 1 --json").exits(0).result();
    assert_eq!(ran["entries"].as_array().unwrap().len(), 1);
    assert_eq!(ran["entries"][0]["text"], "done");
    assert_eq!(ran["omitted"], 1);
}

#[test]
fn following_shows_what_is_appended() {
    let home = TempHome::new();
    let path = claude_session(&home, "aaaa1111-0000-4000-8000-000000000000", "/a", "one");
    let mut child = ostler(&home)
        .args(["logs", "aaaa", "-f", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next =
        || -> serde_json::Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["text"], "one");
    assert_eq!(next()["text"], "done");
    let mut file = std::fs::File::options().append(true).open(path).unwrap();
    // A line that is not whole yet is told once, when it is.
    file.write_all(b"{\"type\":\"user\",\"message\":{\"content\":\"and ").unwrap();
    file.flush().unwrap();
    file.write_all(b"now?\"}}\n").unwrap();
    let told = next();
    assert_eq!((&told["role"], &told["text"]), (&"user".into(), &"and now?".into()));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn following_sleeps_until_something_is_appended() {
    let home = TempHome::new();
    let path = claude_session(&home, "aaaa1111-0000-4000-8000-000000000000", "/a", "one");
    let mut command = ostler(&home);
    command.args(["logs", "aaaa", "-f", "--json"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    for known in ["one", "done"] {
        assert!(next().contains(known));
    }
    // Each is waited for alone, so that no later one wakes a follower that missed it.
    let mut file = std::fs::File::options().append(true).open(path).unwrap();
    for n in 0..30 {
        let line = format!("{{\"type\":\"user\",\"message\":{{\"content\":\"n{n}\"}}}}\n");
        file.write_all(line.as_bytes()).unwrap();
        assert!(next().contains(&format!("\"n{n}\"")));
    }
    let switches = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("voluntary")).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    };
    // One that looks again and again never has a second in which it did nothing.
    let slept = (0..20).any(|_| {
        let before = switches();
        std::thread::sleep(std::time::Duration::from_secs(1));
        before == switches()
    });
    assert!(slept);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_session_without_a_transcript_says_so() {
    let home = TempHome::new();
    let ran = run(&home, "logs nope").exits(3);
    assert!(ran.stderr.contains("no session `nope`"));
}
