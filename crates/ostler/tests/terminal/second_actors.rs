//! Somebody else is at work: another home, a stop beside a resume, and kills at any moment (control.md rows 17, 19,
//! 51, 61).

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use testkit::pause::Pauses;

use super::launch::InstalledClaude;
use super::stage::{is_alive, kill, until};

fn reason(answer: &Value) -> &Value {
    &answer["error"]["details"]["reason"]
}

fn launched(claude: &InstalledClaude) -> (String, u32) {
    let (code, answer) = claude.run(&["launch", "claude", "begin with this"]);
    assert_eq!(code, 0, "{answer}");
    let id = answer["result"]["session"]["id"].as_str().unwrap().to_owned();
    let pid = u32::try_from(answer["result"]["process"]["pid"].as_u64().unwrap()).unwrap();
    (id, pid)
}

fn holders(claude: &InstalledClaude, id: &str) -> Vec<Value> {
    let (_, who) = claude.run(&["who", id]);
    who["result"]["conversations"][0]["holders"].as_array().cloned().unwrap_or_default()
}

#[test]
fn row_17_of_prompts_by_two_homes_only_that_of_the_terminals_own_home_is_typed() {
    let claude = InstalledClaude::new(&[]);
    let (id, _) = launched(&claude);
    let other = claude.stage.home.join("other-state");
    std::thread::scope(|threads| {
        let foreign = threads.spawn(|| {
            let mut command = claude.command();
            command.env("OSTLER_HOME", &other).args(["prompt", &id, "from afar", "--json"]);
            super::stage::ran(&mut command)
        });
        let (code, answer) = claude.run(&["prompt", &id, "from here"]);
        assert_eq!(code, 0, "{answer}");
        let foreign = foreign.join().unwrap();
        let answer: Value = serde_json::from_str(&foreign.stdout).unwrap();
        assert_eq!((foreign.code, reason(&answer)), (13, &"not-reachable".into()), "{answer}");
    });
    assert_eq!(claude.noted("prompt"), ["begin with this", "from here"]);
    assert_eq!(claude.noted("pasted").len(), 2);
}

#[test]
fn row_61_a_resume_beside_a_stop_is_refused_and_goes_on_afterwards() {
    let claude = InstalledClaude::new(&[]);
    let (id, old) = launched(&claude);
    let pauses = Pauses::new();
    pauses.arm("stop-planned");
    let mut command = claude.command();
    pauses.apply(command.args(["stop", &id]).stdout(Stdio::null()));
    let mut stop = command.spawn().unwrap();
    pauses.wait("stop-planned");
    let (code, answer) = claude.run(&["resume", &id]);
    assert_eq!((code, reason(&answer)), (13, &"held".into()), "{answer}");
    pauses.release("stop-planned");
    assert!(stop.wait().unwrap().success());
    assert!(!is_alive(old));
    let (code, answer) = claude.run(&["resume", &id]);
    assert_eq!(code, 0, "{answer}");
    assert_eq!(holders(&claude, &id).len(), 1);
}

#[test]
fn row_61_a_stop_that_comes_while_it_is_resumed_wins_and_the_resume_does_not_claim_success() {
    let claude = InstalledClaude::new(&[]);
    let (id, old) = launched(&claude);
    let (code, answer) = claude.run(&["stop", &id]);
    assert_eq!(code, 0, "{answer}");
    assert!(!is_alive(old));
    let pauses = Pauses::new();
    pauses.arm("launch.ready");
    let mut command = claude.command();
    pauses.apply(command.args(["resume", &id, "a plan", "--json"]).stdout(Stdio::piped()));
    let resume = command.spawn().unwrap();
    pauses.wait("launch.ready");
    until("its registration", || !holders(&claude, &id).is_empty());
    let (code, answer) = claude.run(&["stop", &id]);
    assert_eq!(code, 0, "{answer}");
    assert!(holders(&claude, &id).is_empty());
    pauses.release("launch.ready");
    let resumed = resume.wait_with_output().unwrap();
    assert!(!resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stdout));
    assert!(holders(&claude, &id).is_empty());
    assert_eq!(claude.noted("prompt"), ["begin with this"], "and it was told nothing");
}

/// How long a killed command is given: spread over all of its steps, with what a loaded machine adds.
fn moments() -> impl Iterator<Item = Duration> {
    let count = std::env::var("OSTLER_TEST_KILLS").ok().and_then(|text| text.parse().ok());
    let count: u64 = count.unwrap_or(10);
    (0..count).map(move |at| Duration::from_millis(5 + at * 700 / count))
}

#[test]
fn row_19_killed_at_any_moment_a_prompt_is_recorded_at_most_once_and_told_truly() {
    let claude = InstalledClaude::new(&[]);
    let (id, _) = launched(&claude);
    for (at, moment) in moments().enumerate() {
        let text = format!("prompt number {at}, please");
        let mut command = claude.command();
        command.args(["prompt", &id, &text]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut prompt = command.spawn().unwrap();
        std::thread::sleep(moment);
        kill(prompt.id(), "-KILL");
        prompt.wait().unwrap();
        // The host settles what it had begun; the composer is free again when the next one is taken.
        let after = format!("after number {at}, please");
        until("the next prompt is taken", || {
            let (code, answer) = claude.run(&["prompt", &id, &after, "--key", &after]);
            assert!([0, 13, 14, 15].contains(&code), "{answer}");
            claude.run(&[
                "send-keys",
                holders(&claude, &id)[0]["terminal"].as_str().unwrap(),
                "Enter",
            ]);
            claude.noted("prompt").iter().any(|one| one.as_str().unwrap().contains(&after))
        });
        let taken = claude.noted("prompt");
        let count = taken.iter().filter(|one| one.as_str().unwrap().contains(&text)).count();
        assert!(count <= 1, "{text}: {taken:?}");
        let exact = taken.iter().filter(|one| *one == &text).count();
        let (_, kept) = claude.run(&["deliveries", &id]);
        let accepted = kept["result"]["deliveries"].as_array().unwrap().iter().filter(|one| {
            one["state"] == "accepted" && one["bytes"].as_u64() == Some(text.len() as u64)
        });
        assert!(accepted.count() <= taken.len());
        assert!(exact <= 1);
    }
}

#[test]
fn row_51_killed_at_any_moment_a_hand_over_leaves_one_holder_at_most() {
    for moment in moments() {
        let claude = InstalledClaude::new(&[]);
        let (id, _) = launched(&claude);
        let (code, answer) = claude.run(&["stop", &id, "--now"]);
        assert_eq!(code, 0, "{answer}");
        let mut command = claude.command();
        command.args(["resume", &id]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut resume = command.spawn().unwrap();
        std::thread::sleep(moment);
        kill(resume.id(), "-KILL");
        resume.wait().unwrap();
        // Whoever comes next has it, or is told who has it: never both.
        until("one holder", || {
            let (code, answer) = claude.run(&["resume", &id, "--take-over"]);
            assert!([0, 13].contains(&code), "{answer}");
            assert!(holders(&claude, &id).len() <= 1, "{moment:?}");
            code == 0
        });
        assert_eq!(holders(&claude, &id).len(), 1, "{moment:?}");
    }
}
