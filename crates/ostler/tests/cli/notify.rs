//! Notifications: whoever is needed is told once per request, by the daemon, and never for a sub-agent.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::agent::Agent;
use super::daemon::Daemon;
use super::run::{ostler, run};

const ID: &str = "11111111-1111-4111-8111-111111111111";

/// A home whose `[notify]` runs a program that appends what it is given.
fn notified_home(more: &str) -> (TempHome, PathBuf) {
    let home = TempHome::new();
    let told = home.join("told.jsonl");
    let script = home.write(
        "tell",
        "#!/bin/sh\nread -r line\nprintf '%s\\n' \"$line\" >> \"$1\"\nprintf '%s' \"$OSTLER_NOTICE_TEXT\" > \"$1.text\"\n",
    );
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let config = format!("[notify]\ncommand = [{script:?}, {told:?}]\n{more}");
    home.write(".config/ostler/config.toml", config);
    (home, told)
}

/// Everything that was told, once it is at least so much.
#[track_caller]
fn await_told(told: &PathBuf, count: usize) -> Vec<Value> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let text = std::fs::read_to_string(told).unwrap_or_default();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        if lines.len() >= count {
            return lines;
        }
        assert!(Instant::now() < until, "{count} were to be told, and there are {lines:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_request_is_told_once_and_a_subagents_never() {
    let (home, told) = notified_home("");
    let _daemon = Daemon::start(&home);
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    let asks = json!({"tool_name": "Bash", "message": "$(touch pwned); `x` \u{1b}[31m -- \"q\""});
    agent.hook("PermissionRequest", asks.clone());
    assert_eq!(await_told(&told, 1)[0]["kind"], "waiting");
    // The same question again, as a notification, and a question of a sub-agent.
    agent.hook("Notification", json!({"notification_type": "permission_prompt", "message": "?"}));
    agent.hook("PermissionRequest", json!({"tool_name": "Edit", "agent_id": "sub"}));
    agent.hook("PostToolUse", json!({"tool_name": "Bash"}));
    agent.hook("PermissionRequest", json!({"tool_name": "Write"}));
    let second = await_told(&told, 2);
    assert_eq!(second[1]["text"], "Write", "only the session's own, and each once: {second:?}");
    agent.hook("StopFailure", json!({"message": "529 overloaded"}));
    assert_eq!(await_told(&told, 3)[2]["kind"], "failed");
    agent.hook("UserPromptSubmit", json!({"prompt": "again"}));
    agent.kill();
    let all = await_told(&told, 4);
    assert_eq!(all[3]["kind"], "died");
    assert_eq!(all.len(), 4, "{all:?}");
    assert_eq!(all[0]["session"], ID);
    assert_eq!(all[0]["title"], "Claude Code in project needs you");
    assert_eq!(all[0]["text"], "Bash: $(touch pwned); `x` [31m -- \"q\"");
    assert!(!home.join("pwned").exists(), "no shell has seen the text");
}

#[test]
fn a_question_that_was_answered_before_anybody_looked_is_not_told() {
    let (home, told) = notified_home("");
    let mut agent = Agent::start(&home, ID);
    // The first daemon marks where the telling begins.
    let first = Daemon::start(&home);
    run(&home, "finalize").exits(0);
    first.kill();
    agent.begin();
    agent.hook("PermissionRequest", json!({"tool_name": "Bash"}));
    agent.hook("PostToolUse", json!({"tool_name": "Bash"}));
    let _daemon = Daemon::start(&home);
    run(&home, "finalize").exits(0);
    agent.hook("PermissionRequest", json!({"tool_name": "Edit"}));
    let all = await_told(&told, 1);
    assert_eq!(all[0]["text"], "Edit", "{all:?}");
}

#[test]
fn a_daemon_that_is_killed_while_it_tells_never_tells_twice() {
    let (home, told) = notified_home("");
    let pauses = Pauses::new();
    let mut command = ostler(&home);
    pauses.apply(&mut command);
    let daemon = Daemon::with(command);
    run(&home, "finalize").exits(0);
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    // What was told so far is behind the mark: the pause is reached by the question, and by nothing before it.
    run(&home, "finalize").exits(0);
    pauses.arm("notify.moved");
    agent.hook("PermissionRequest", json!({"tool_name": "Bash"}));
    pauses.wait("notify.moved");
    daemon.kill();
    let _daemon = Daemon::start(&home);
    // Told again by the agent, and still one question.
    agent.hook("Notification", json!({"notification_type": "permission_prompt", "message": "?"}));
    agent.hook("PermissionRequest", json!({"tool_name": "Write"}));
    let all = await_told(&told, 1);
    assert_eq!(all[0]["text"], "Write", "{all:?}");
}

#[test]
fn only_what_is_asked_for_is_told() {
    let (home, told) = notified_home("on = [\"failed\"]\n");
    let _daemon = Daemon::start(&home);
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    agent.hook("PermissionRequest", json!({"tool_name": "Bash"}));
    agent.hook("StopFailure", json!({}));
    assert_eq!(await_told(&told, 1)[0]["kind"], "failed");
}

#[test]
fn notify_test_says_what_became_of_it_on_each_way() {
    let (home, told) = notified_home("");
    let sent = run(&home, "notify test --json").exits(0).result();
    assert_eq!(sent["channels"], json!([{"channel": "command", "sent": true}]));
    assert_eq!(sent["daemon"], false);
    assert_eq!(await_told(&told, 1)[0]["test"], true);
    let broken = "[notify]\ncommand = [\"/no/such/program\"]\nbell = true\n";
    home.write(".config/ostler/config.toml", broken);
    let failed = run(&home, "notify test --json").exits(12).result();
    let channels = failed["channels"].as_array().unwrap();
    assert!(channels.iter().all(|one| one["sent"] == false), "{failed}");
    assert!(channels[1]["reason"].as_str().unwrap().contains("/no/such/program"), "{failed}");
    home.write(".config/ostler/config.toml", "[notify]\non = [\"never\"]\n");
    let wrong = run(&home, "notify test").exits(2);
    assert!(wrong.stderr.contains("line 2"), "{wrong:?}");
}

#[test]
fn a_program_that_hangs_does_not_hold_the_daemon_up() {
    let home = TempHome::new();
    home.write(".config/ostler/config.toml", "[notify]\ncommand = [\"sleep\", \"15\"]\n");
    let _daemon = Daemon::start(&home);
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    agent.hook("PermissionRequest", json!({"tool_name": "Bash"}));
    let begun = Instant::now();
    agent.kill();
    run(&home, "finalize").exits(0);
    assert_eq!(run(&home, "ls -a --json").exits(0).session(ID)["status"], "exited");
    assert!(begun.elapsed() < Duration::from_secs(8), "it waited for the program");
}
