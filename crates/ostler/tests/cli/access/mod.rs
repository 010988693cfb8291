//! Access sessions: the rows of the specification, as a user would meet them.

use std::process::{Command, Stdio};

use testkit::access::Sessions;

use super::run::{Ran, ran};

mod discard;
mod leaks;
mod lifecycle;
mod logs;
mod pressure;
mod races;
mod rows_directories;
mod rows_environment;
mod rows_processes;
mod rows_records;
mod rows_stop;
mod sshd;

/// The binary on these sessions, with nothing else in its environment.
fn ostler(sessions: &Sessions) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    command
        .env_clear()
        .env("HOME", sessions.home.path())
        .env("OSTLER_HOME", sessions.root())
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .current_dir(sessions.home.path())
        .stdin(Stdio::null());
    command
}

#[track_caller]
fn run(sessions: &Sessions, line: &str) -> Ran {
    ran(ostler(sessions).arg("access").args(line.split_whitespace()))
}

/// What `prune` says of the base session, which it keeps as it is.
#[track_caller]
fn kept(sessions: &Sessions, code: &str) -> Ran {
    let before = sessions.home.snapshot();
    let dry = run(sessions, "prune --dry-run").exits(0);
    let ran = run(sessions, "prune").exits(0);
    let line = first_line(&ran);
    assert_eq!(line.split(' ').next(), Some(code), "{ran:?}");
    let would = dry.stdout.replace("WOULD_", "").replace("would be ", "");
    assert_eq!(would, ran.stdout, "a dry run says the same");
    let changes = before.changes(&sessions.home.snapshot());
    assert!(changes.is_empty(), "{changes:#?}");
    ran
}

/// `prune` removes the base session, and says so in this line.
#[track_caller]
fn pruned(sessions: &Sessions, line: &str) -> Ran {
    let before = sessions.home.snapshot();
    let dry = run(sessions, "prune --dry-run").exits(0);
    assert!(before.changes(&sessions.home.snapshot()).is_empty(), "a dry run changes nothing");
    assert_eq!(first_line(&dry), format!("WOULD_{}", line.replacen("PRUNED", "PRUNE", 1)));
    let ran = run(sessions, "prune").exits(0);
    assert_eq!(first_line(&ran), line, "{ran:?}");
    assert!(!sessions.of(testkit::access::ID).exists());
    assert_eq!(sessions.directory().read_dir().unwrap().count(), 0, "nothing is left over");
    ran
}

fn first_line(ran: &Ran) -> String {
    ran.stdout.lines().next().unwrap_or("").to_owned()
}

/// The state that `list` shows for the only session.
#[track_caller]
fn listed(sessions: &Sessions, args: &str) -> serde_json::Value {
    let result = run(sessions, &format!("list --json {args}")).exits(0).result();
    let all = result["sessions"].as_array().unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].clone()
}
