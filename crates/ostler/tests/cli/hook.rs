//! The hook: whatever happens, the agent is not disturbed and nothing is lost.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::json;
use testkit::home::TempHome;

use super::agent::{Agent, spool, spooled, state};
use super::run::{Ran, ostler, ran, run};

const ID: &str = "11111111-1111-4111-8111-111111111111";

/// Gives `payload` to a hook.
fn hook(command: &mut Command, event: &str, payload: &[u8]) -> Ran {
    command.args(["hook", "claude-code", event]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A hook that has already given up is no failure here.
    let _ = child.stdin.take().unwrap().write_all(payload);
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[track_caller]
fn unharmed(ran: &Ran) {
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));
}

fn payload(prompt: &str) -> Vec<u8> {
    // In the order in which agents write it: what names the session comes first.
    let prompt = json!(prompt);
    format!(r#"{{"session_id":"{ID}","cwd":"/somewhere","prompt":{prompt}}}"#).into_bytes()
}

fn problems(home: &TempHome) -> String {
    fs::read_to_string(state(home).join("hook-problems.log")).unwrap_or_default()
}

#[test]
fn a_report_is_one_private_line_with_its_owner() {
    let home = TempHome::new();
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    let lines = spooled(&home);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["happening"], "turn-start");
    assert_eq!(lines[1]["session"], ID);
    assert_eq!(lines[1]["owner"]["pid"], agent.pid());
    assert!(lines[1]["owner"]["start"].is_u64());
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&spool(&home)), 0o600);
    assert_eq!(mode(spool(&home).parent().unwrap()), 0o700);
    assert_eq!(mode(&state(&home)), 0o700);
}

/// A time as the spool has it, so many seconds ago.
fn ago(seconds: &str) -> String {
    let when = format!("{seconds} seconds ago");
    let date = ran(Command::new("date").args(["-u", "-d", &when, "+%Y-%m-%dT%H:%M:%S.%3NZ"]));
    date.stdout.trim().to_owned()
}

/// As Qwen does after Esc: the record of the interrupt and a notification come together.
#[test]
fn b12_a_notification_makes_the_word_before_an_interrupt_no_newer() {
    let home = TempHome::new();
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    agent.hook("Notification", json!({ "notification_type": "auth_success" }));
    let shows = || run(&home, "ls -a --json").exits(0).session(ID)["activity"].clone();
    assert_eq!(shows(), "working");
    let times = [ago("20"), ago("20"), ago("10")];
    let lines: String = spooled(&home)
        .into_iter()
        .zip(&times)
        .map(|(mut line, time)| {
            line["at"] = json!(time);
            format!("\n{line}\n")
        })
        .collect();
    fs::write(spool(&home), lines).unwrap();
    let interrupted = json!({
        "type": "user", "sessionId": ID, "cwd": agent.directory, "timestamp": times[2],
        "message": { "role": "user",
                     "content": [{ "type": "text", "text": "[Request interrupted by user]" }] },
    });
    let mut transcript = fs::OpenOptions::new().append(true).open(&agent.transcript).unwrap();
    writeln!(transcript, "{interrupted}").unwrap();
    assert_eq!(shows(), "idle");
}

#[test]
fn what_cannot_be_understood_is_logged_and_harmless() {
    let home = TempHome::new();
    for garbage in [&b""[..], b"{", b"null", b"[1]", b"\xff\xfe\x00", b"{\"cwd\":\"/\"}"] {
        unharmed(&hook(&mut ostler(&home), "Stop", garbage));
    }
    unharmed(&hook(&mut ostler(&home), "NoSuchEvent", &payload("x")));
    assert_eq!(problems(&home).lines().count(), 6, "{}", problems(&home));
    assert!(spooled(&home).is_empty());
}

#[test]
fn wrong_arguments_are_logged_and_harmless() {
    let home = TempHome::new();
    for line in ["hook", "hook claude-code", "hook nobody Stop", "hook --json x", "hook a b c d"] {
        unharmed(&run(&home, line));
    }
    assert_eq!(problems(&home).lines().count(), 5, "{}", problems(&home));
}

#[test]
fn a_closed_stdin_is_harmless() {
    let home = TempHome::new();
    let like_us = ostler(&home);
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" hook claude-code Stop <&-", env!("CARGO_BIN_EXE_ostler")]);
    command.env_clear();
    for (name, value) in like_us.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    unharmed(&ran(&mut command));
    assert!(spooled(&home).is_empty());
}

#[test]
fn a_home_that_cannot_be_is_harmless_and_logged_elsewhere() {
    let home = TempHome::new();
    for missing in ["/dev/null/home", "/proc/ostler"] {
        let mut command = ostler(&home);
        unharmed(&hook(command.env("OSTLER_HOME", missing), "Stop", &payload("x")));
    }
    let mut command = ostler(&home);
    unharmed(&hook(command.env_remove("HOME"), "Stop", &payload("x")));
    let log = fs::read_to_string(home.join("run/ostler/hook-problems.log")).unwrap();
    assert_eq!(log.lines().count(), 3, "{log}");
}

#[test]
fn a_home_open_to_others_is_not_written_to() {
    let home = TempHome::new();
    let shared = home.join("shared/spool");
    fs::create_dir_all(&shared).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", shared.join("events.jsonl")).unwrap();
    let mut command = ostler(&home);
    let before = fs::read("/etc/passwd").unwrap();
    unharmed(&hook(command.env("OSTLER_HOME", home.join("shared")), "Stop", &payload("x")));
    assert_eq!(fs::read("/etc/passwd").unwrap(), before, "a link is never followed");
}

#[test]
fn a_full_disk_is_harmless() {
    let home = TempHome::new();
    let like_us = ostler(&home);
    let script = r#"mount -t tmpfs -o size=16k none "$1" || exit 77
        head -c 100000 /dev/zero > "$1/filler" 2>/dev/null
        printf '%s' "$2" | OSTLER_HOME="$1/state" "$0" hook claude-code Stop"#;
    let disk = home.join("disk");
    fs::create_dir_all(&disk).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_ostler")]);
    command.arg(&disk).arg(String::from_utf8(payload("x")).unwrap()).env_clear();
    for (name, value) in like_us.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let ran = ran(&mut command);
    if ran.code == 77 || ran.stderr.contains("unshare") {
        eprintln!("SKIPPED: no mount namespaces here: {ran:?}");
        return;
    }
    unharmed(&ran);
    let log = fs::read_to_string(home.join("run/ostler/hook-problems.log")).unwrap();
    assert!(log.contains("No space left"), "{log}");
}

#[test]
fn a_long_prompt_is_shortened_in_the_line_and_whole_beside_it() {
    let home = TempHome::new();
    let long = "word \"and\" more\n".repeat(2000);
    unharmed(&hook(&mut ostler(&home), "UserPromptSubmit", &payload(&long)));
    let bytes = fs::read(spool(&home)).unwrap();
    assert!(bytes.len() <= 4096, "{}", bytes.len());
    let line = &spooled(&home)[0];
    assert!(long.starts_with(line["prompt"].as_str().unwrap()));
    let spill = state(&home).join("spool/spill").join(line["spill"].as_str().unwrap());
    assert_eq!(fs::read(spill).unwrap(), payload(&long));
}

#[test]
fn a_payload_beyond_a_mebibyte_is_cut_and_said() {
    let home = TempHome::new();
    let huge = payload(&"x".repeat(5 << 20));
    unharmed(&hook(&mut ostler(&home), "UserPromptSubmit", &huge));
    let line = &spooled(&home)[0];
    assert_eq!(line["cut"], true);
    assert_eq!(line["session"], ID);
    let spill = state(&home).join("spool/spill").join(line["spill"].as_str().unwrap());
    assert_eq!(fs::read(spill).unwrap().len(), 1 << 20);
}

#[test]
fn two_hundred_hooks_at_once_lose_no_line() {
    let home = TempHome::new();
    let start = |index: usize| {
        let mut command = ostler(&home);
        command.args(["hook", "claude-code", "UserPromptSubmit"]).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let payload = payload(&format!("number {index} {}", "x".repeat(index * 20)));
        (child.stdin.take().unwrap().write_all(&payload), child)
    };
    let children: Vec<_> = (0..200).map(start).collect();
    for (written, mut child) in children {
        written.unwrap();
        assert!(child.wait().unwrap().success());
    }
    let lines = spooled(&home);
    assert_eq!(lines.len(), 200);
    let mut numbers: Vec<String> = lines
        .iter()
        .map(|line| line["prompt"].as_str().unwrap().split(' ').nth(1).unwrap().to_owned())
        .collect();
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), 200);
    assert_eq!(problems(&home), "");
}

#[test]
fn the_log_of_problems_does_not_grow_for_ever() {
    let home = TempHome::new();
    fs::create_dir_all(state(&home)).unwrap();
    fs::set_permissions(state(&home), fs::Permissions::from_mode(0o700)).unwrap();
    let log = state(&home).join("hook-problems.log");
    fs::write(&log, "x\n".repeat(40_000)).unwrap();
    unharmed(&hook(&mut ostler(&home), "Stop", b"{"));
    assert_eq!(log.metadata().unwrap().len(), 80_000);
}
