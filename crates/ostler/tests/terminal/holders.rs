//! Who holds a conversation, when that is several, nobody, or somebody who cannot be seen (control.md rows 42, 45, 46,
//! 48, 52).

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::pause::Pauses;

use super::launch::InstalledClaude;
use super::resume::ForeignClaude;
use super::stage::{is_alive, kill, ran, until};

fn reason(answer: &Value) -> &Value {
    &answer["error"]["details"]["reason"]
}

/// A conversation that began without a terminal and is over.
fn paused() -> (InstalledClaude, String) {
    let claude = InstalledClaude::new(&[]);
    let (code, answer) = claude.run(&["launch", "claude", "begin", "--headless", "--wait", "idle"]);
    assert_eq!(code, 0, "{answer}");
    let id = answer["result"]["session"]["id"].as_str().unwrap().to_owned();
    (claude, id)
}

fn holders(claude: &InstalledClaude, id: &str) -> Vec<Value> {
    let (_, who) = claude.run(&["who", id]);
    who["result"]["conversations"][0]["holders"].as_array().cloned().unwrap_or_default()
}

/// How many owners an answer says that a session has.
fn find_owners(answer: &Value, id: &str) -> Option<usize> {
    if answer["id"] == id && answer["owners"].is_array() {
        return answer["owners"].as_array().map(Vec::len);
    }
    match answer {
        Value::Array(all) => all.iter().find_map(|one| find_owners(one, id)),
        Value::Object(all) => all.values().find_map(|one| find_owners(one, id)),
        _ => None,
    }
}

#[test]
fn row_42_a_holder_in_another_pid_namespace_may_hold_it() {
    let (claude, id) = paused();
    let (code, answer) = claude.run(&["resume", &id]);
    assert_eq!(code, 0, "{answer}");
    let started = claude.noted("started").len();
    let inside = claude.command();
    let mut elsewhere = Command::new("unshare");
    elsewhere.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]);
    elsewhere.arg(inside.get_program()).current_dir(claude.stage.home.path()).env_clear();
    for (key, value) in inside.get_envs() {
        value.map(|value| elsewhere.env(key, value));
    }
    let told = ran(elsewhere.args(["resume", &id, "--json"]));
    let Ok(answer) = serde_json::from_str::<Value>(&told.stdout) else {
        eprintln!("skipped: no user namespaces here: {}", told.stderr);
        return;
    };
    assert_eq!((told.code, reason(&answer)), (13, &"maybe-held".into()), "{answer}");
    assert_eq!(claude.noted("started").len(), started, "nothing was started");
}

#[test]
fn row_42_a_holder_whose_registration_cannot_be_read_may_hold_it() {
    let (claude, id) = paused();
    let _foreign = ForeignClaude::start(&claude, &id);
    let pid = u32::try_from(holders(&claude, &id)[0]["process"]["pid"].as_u64().unwrap()).unwrap();
    let registration = claude.stage.home.join(format!(".claude/sessions/{pid}.json"));
    std::fs::write(&registration, "{\"pid\": ").unwrap();
    let started = claude.noted("started").len();
    for words in [&["resume", &id][..], &["resume", &id, "--take-over"]] {
        let (code, answer) = claude.run(words);
        assert_eq!(code, 13, "{words:?} {answer}");
        if words.len() == 2 {
            assert_eq!(reason(&answer), "maybe-held", "{answer}");
        }
    }
    assert_eq!(claude.noted("started").len(), started, "nothing was started");
    assert!(is_alive(pid), "and nobody was stopped");
}

#[test]
fn row_45_after_a_kill_in_mid_turn_the_same_conversation_goes_on_and_nothing_is_sent_again() {
    let claude = InstalledClaude::new(&["turn=60"]);
    let (code, answer) = claude.run(&["launch", "claude", "a long piece of work"]);
    assert_eq!(code, 0, "{answer}");
    let id = answer["result"]["session"]["id"].as_str().unwrap().to_owned();
    let pid = u32::try_from(answer["result"]["process"]["pid"].as_u64().unwrap()).unwrap();
    kill(pid, "-KILL");
    until("it is gone", || !is_alive(pid));
    until("its terminal has ended", || holders(&claude, &id).is_empty());
    let (code, answer) = claude.run(&["resume", &id]);
    assert_eq!((code, &answer["result"]["session"]["id"]), (0, &id.as_str().into()), "{answer}");
    assert_eq!(claude.noted("prompt"), ["a long piece of work"]);
}

#[test]
fn row_48_of_three_holders_all_are_named_and_a_prompt_needs_a_terminal() {
    let (claude, id) = paused();
    let (code, answer) = claude.run(&["resume", &id]);
    assert_eq!(code, 0, "{answer}");
    let terminal = answer["result"]["terminal"].as_str().unwrap().to_owned();
    let _others = [ForeignClaude::start(&claude, &id), ForeignClaude::start(&claude, &id)];
    until("three hold it", || holders(&claude, &id).len() == 3);
    for words in [&["show", &id][..], &["ls"]] {
        let (code, answer) = claude.run(words);
        assert!([0, 12].contains(&code), "{answer}");
        let pids = find_owners(&answer, &id).expect("its owners");
        assert_eq!(pids, 3, "{words:?} {answer}");
    }
    let (code, answer) = claude.run(&["prompt", &id, "to whom?"]);
    assert_eq!((code, reason(&answer)), (13, &"several-holders".into()), "{answer}");
    let told = ran(claude.command().args(["events", "--since", "0", "--json"])).stdout;
    assert!(told.contains("holders.conflict"), "{told}");
    let (code, answer) = claude.run(&["prompt", &terminal, "to this one"]);
    assert_eq!(code, 0, "{answer}");
    assert_eq!(claude.noted("prompt").last().unwrap(), "to this one");
    // Only one that is asked for takes it from all of them.
    let (code, answer) = claude.run(&["resume", &id, "--take-over"]);
    assert_eq!((code, reason(&answer)), (13, &"several-holders".into()), "{answer}");
    assert_eq!(holders(&claude, &id).len(), 3, "nobody was stopped");
}

#[test]
fn row_52_a_holder_that_ends_before_the_stop_gets_no_signal_and_the_resume_goes_on() {
    let (claude, id) = paused();
    let foreign = ForeignClaude::start(&claude, &id);
    let old = holders(&claude, &id)[0]["process"]["pid"].as_u64().unwrap();
    let pauses = Pauses::new();
    pauses.arm("hand-over.planned");
    let mut command = claude.command();
    pauses.apply(command.args(["resume", &id, "--take-over", "--json"]).stdout(Stdio::piped()));
    let resume = command.spawn().unwrap();
    pauses.wait("hand-over.planned");
    kill(u32::try_from(old).unwrap(), "-KILL");
    drop(foreign);
    until("it is gone", || !is_alive(u32::try_from(old).unwrap()));
    pauses.release("hand-over.planned");
    let done = resume.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    assert_eq!(holders(&claude, &id).len(), 1);
}

#[test]
fn row_46_what_only_the_vault_has_is_refused_until_it_is_restored() {
    let (claude, id) = paused();
    let transcript = claude.stage.home.join(format!(".claude/projects/-x/{id}.jsonl"));
    // Of sessions that hooks told of a copy is kept.
    for event in ["SessionStart", "SessionEnd"] {
        let mut hook = claude.command();
        hook.args(["hook", "claude-code", event]).stdin(Stdio::piped());
        let mut hook = hook.spawn().unwrap();
        let told = serde_json::json!({"session_id": id, "cwd": claude.stage.home.path(),
            "transcript_path": transcript, "hook_event_name": event});
        hook.stdin.take().unwrap().write_all(told.to_string().as_bytes()).unwrap();
        assert!(hook.wait().unwrap().success());
    }
    ran(claude.command().arg("finalize")).exits(0);
    let before = std::fs::read(&transcript).unwrap();
    std::fs::remove_file(&transcript).unwrap();
    let started = claude.noted("started").len();
    let (code, answer) = claude.run(&["resume", &id]);
    assert_eq!((code, reason(&answer)), (13, &"only-in-vault".into()), "{answer}");
    assert_eq!(claude.noted("started").len(), started);
    let hint = answer["error"]["hint"].as_str().unwrap();
    assert!(hint.contains(&format!("ostler vault restore {id}")), "{answer}");
    ran(claude.command().args(["vault", "restore", &id])).exits(0);
    assert_eq!(std::fs::read(&transcript).unwrap(), before);
    let (code, answer) = claude.run(&["resume", &id]);
    assert_eq!((code, &answer["result"]["session"]["id"]), (0, &id.as_str().into()), "{answer}");
}
