//! Going on when a usage limit is over (control.md row 81): by choice, with the user's own words, and never against them.

use serde_json::Value;

use super::launch::InstalledClaude;
use super::stage::until;

const PAST: &str = "2026-01-01T00:00:00Z";

/// A conversation that a limit ended, which nobody has open, and the file with the words to go on with.
fn limited() -> (InstalledClaude, String, String) {
    let claude = InstalledClaude::new(&["end=limited"]);
    let words = ["launch", "claude", "first", "--headless", "--wait", "idle"];
    let (code, answer) = claude.run(&words);
    assert_eq!(code, 17, "{answer}");
    let launch = &answer["error"]["details"]["launch"];
    let id = launch["session"]["id"].as_str().unwrap().to_owned();
    let file = claude.stage.home.write("go-on.txt", "please go on with it");
    claude.install(&[]);
    (claude, id, file.to_str().unwrap().to_owned())
}

fn set(claude: &InstalledClaude, id: &str, file: &str, more: &[&str]) -> (i32, Value) {
    let words = ["fuse", "set", id, "--do", "resume", "--file", file];
    claude.run(&[&words[..], more].concat())
}

/// The only fuse, once a daemon has settled it.
fn settled(claude: &InstalledClaude) -> Value {
    let (code, answer) = claude.run(&["daemon", "start"]);
    assert_eq!(code, 0, "{answer}");
    let mut fuse = Value::Null;
    until("the fuse is settled", || {
        let (_, listed) = claude.run(&["fuse", "ls", "-a"]);
        fuse = listed["result"]["fuses"][0].clone();
        !["armed", "firing"].contains(&fuse["state"].as_str().unwrap_or("armed"))
    });
    let (code, answer) = claude.run(&["daemon", "stop"]);
    assert_eq!(code, 0, "{answer}");
    fuse
}

fn is_free(claude: &InstalledClaude, id: &str) -> bool {
    let (_, who) = claude.run(&["who", id]);
    who["result"]["conversations"][0]["holders"].as_array().is_none_or(Vec::is_empty)
}

#[test]
fn row_81_what_a_limit_ended_goes_on_at_its_time_with_the_users_words() {
    let (claude, id, file) = limited();
    let (code, answer) = set(&claude, &id, &file, &["--at", PAST]);
    assert_eq!(code, 0, "{answer}");
    let fuse = settled(&claude);
    assert_eq!(fuse["state"], "fired", "{fuse}");
    assert_eq!(claude.noted("prompt"), ["first", "please go on with it"]);
    assert_eq!(claude.noted("started"), [id.as_str(), id.as_str()], "the same conversation");
}

#[test]
fn row_81_a_prompt_of_a_person_takes_it_back() {
    let (claude, id, file) = limited();
    let (code, answer) = set(&claude, &id, &file, &["--at", PAST]);
    assert_eq!(code, 0, "{answer}");
    let words = ["resume", &id, "I go on myself", "--headless", "--wait", "idle"];
    let (code, answer) = claude.run(&words);
    assert_eq!(code, 0, "{answer}");
    let fuse = settled(&claude);
    assert_eq!(fuse["state"], "cancelled", "{fuse}");
    assert!(fuse["outcome"].as_str().unwrap().contains("prompted"), "{fuse}");
    assert_eq!(claude.noted("prompt"), ["first", "I go on myself"]);
}

#[test]
fn row_81_what_somebody_has_open_is_not_tried() {
    let (claude, id, file) = limited();
    let (code, answer) = claude.run(&["resume", &id]);
    assert_eq!(code, 0, "{answer}");
    let (code, answer) = set(&claude, &id, &file, &["--at", PAST]);
    assert_eq!(code, 0, "{answer}");
    let fuse = settled(&claude);
    assert_eq!(fuse["state"], "held-back", "{fuse}");
    assert_eq!(claude.noted("prompt"), ["first"]);
    assert!(!is_free(&claude, &id), "and it was left alone");
}

#[test]
fn row_81_limited_again_without_a_time_it_ends_and_leaves_nothing_running() {
    let (claude, id, file) = limited();
    claude.install(&["end=limited"]);
    let (code, answer) = set(&claude, &id, &file, &["--at", PAST, "--max", "3"]);
    assert_eq!(code, 0, "{answer}");
    let fuse = settled(&claude);
    assert_eq!(fuse["state"], "failed", "{fuse}");
    assert!(fuse["outcome"].as_str().unwrap().contains("limited again"), "{fuse}");
    assert_eq!(claude.noted("prompt"), ["first", "please go on with it"], "tried once");
    assert!(is_free(&claude, &id), "what was started for it is ended");
}

#[test]
fn row_81_it_needs_a_limit_a_time_and_words_that_stay_the_same() {
    let (claude, id, file) = limited();
    let (code, answer) = set(&claude, &id, &file, &["--at-reset"]);
    assert_eq!(code, 13, "its record does not say when: {answer}");
    assert!(answer["error"]["hint"].as_str().unwrap().contains("--at"), "{answer}");
    let (code, answer) = claude.run(&["fuse", "set", &id, "--at", PAST, "--do", "resume"]);
    assert_eq!(code, 2, "no words are made up: {answer}");
    let (code, answer) = set(&claude, &id, &file, &["--at", PAST]);
    assert_eq!(code, 0, "{answer}");
    claude.stage.home.write("go-on.txt", "delete everything");
    let fuse = settled(&claude);
    assert_eq!(fuse["state"], "failed", "{fuse}");
    assert_eq!(claude.noted("prompt"), ["first"]);
    let words = ["resume", &id, "go on", "--headless", "--wait", "idle"];
    assert_eq!(claude.run(&words).0, 0);
    let (code, answer) = set(&claude, &id, &file, &["--at", PAST]);
    assert_eq!(code, 13, "its last turn was answered: {answer}");
}

#[test]
fn row_81_the_time_is_that_of_the_agents_own_record() {
    let claude = InstalledClaude::new(&[]);
    let id = "01a1e3c6-0000-7000-8000-0000000000bb";
    let home = claude.stage.home.path().display().to_string();
    // In the year 2100.
    let lines = [
        format!(r#"{{"type":"session_meta","payload":{{"id":"{id}","cwd":"{home}"}}}}"#),
        r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"do it"}]}}"#.to_owned(),
        r#"{"type":"event_msg","payload":{"type":"token_count","rate_limits":{"primary":{"resets_at":4102444800}}}}"#.to_owned(),
        r#"{"type":"event_msg","payload":{"type":"task_complete","error":{"codex_error_info":"usage_limit_exceeded"}}}"#.to_owned(),
    ];
    let place = format!(".codex/sessions/2026/11/18/rollout-2026-11-18T00-00-00-{id}.jsonl");
    let stamped = lines
        .map(|line| line.replacen('{', r#"{"timestamp":"2026-11-18T00:00:00.000Z","#, 1) + "\n");
    claude.stage.home.write(place, stamped.concat());
    let file = claude.stage.home.write("go-on.txt", "please go on with it");
    let (code, answer) = set(&claude, id, file.to_str().unwrap(), &["--at-reset"]);
    assert_eq!(code, 0, "{answer}");
    let due = answer["result"]["fuses"][0]["dueAt"].as_str().unwrap();
    assert!(("2100-01-01T00:01:00"..="2100-01-01T00:01:31").contains(&due), "{answer}");
    let (_, listed) = claude.run(&["ls", "-a"]);
    let sessions = listed["result"]["sessions"].as_array().unwrap();
    let one = sessions.iter().find(|one| one["id"] == id).unwrap();
    assert_eq!(one["resumesAt"], due, "{one}");
    assert!(sessions.iter().all(|other| other["id"] == id || other["resumesAt"].is_null()));
}
