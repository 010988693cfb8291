//! Processes that cannot be looked into, by another mount namespace or another user: each is a doubt, end to end.
#![allow(clippy::print_stderr, reason = "a test that was skipped says so")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use testkit::home::TempHome;

use super::collect::{age, items};
use super::live::{FakeAgent, assert_liveness, lab, listed, wait_until};
use super::openers::gc;
use super::run::{claude_session, run};

const ONE: &str = "11111111-1111-4111-8111-111111111111";
const TWO: &str = "22222222-2222-4222-8222-222222222222";

/// Runs something until it is killed, as another user or in a namespace of its own.
struct Elsewhere(Child);

impl Elsewhere {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn may_unshare() -> bool {
    let permitted = Command::new("unshare").args(["-m", "true"]).output();
    let may = permitted.is_ok_and(|output| output.status.success());
    if !may {
        eprintln!("SKIPPED: unshare -m is not permitted here");
    }
    may
}

/// Waits until a process works in that directory, by the name that it has there.
fn wait_for_cwd(child: &Child, directory: &str) {
    let link = format!("/proc/{}/cwd", child.id());
    wait_until("the process is in its directory", || {
        fs::read_link(&link).is_ok_and(|cwd| cwd == Path::new(directory))
    });
}

#[test]
fn h3_a_process_in_another_mount_namespace_keeps_its_worktree() {
    if !may_unshare() {
        return;
    }
    let home = TempHome::new();
    let tree = super::collect::worktree(&home);
    let line = "gc --include worktrees --older-than 0s --agent claude-code --json";
    let refused = || {
        let result = run(&home, line).exits(0).result();
        result["items"][0]["refused"]["refusal"].as_str().unwrap_or("none").to_owned()
    };
    assert_eq!(refused(), "none");
    let script = format!("mount --bind {} /mnt && cd /mnt && exec sleep 1000", tree.display());
    let inside = Elsewhere::start(Command::new("unshare").args(["-m", "sh", "-c", &script]));
    wait_for_cwd(&inside.0, "/mnt");
    assert_eq!(refused(), "workedIn");
}

#[test]
fn h3_an_agent_in_another_mount_namespace_leaves_no_session_dead() {
    if !may_unshare() {
        return;
    }
    let (home, repo) = lab();
    let path = claude_session(&home, ONE, repo.to_str().unwrap(), "hello");
    age(&path, 10);
    fs::create_dir_all(home.join("bin")).unwrap();
    let program = home.join("bin/claude");
    fs::copy("/bin/sleep", &program).unwrap();
    let script = format!(
        "mount --bind {} /mnt && cd /mnt && exec {} 1000",
        repo.display(),
        program.display()
    );
    let inside = Elsewhere::start(
        Command::new("unshare")
            .args(["-m", "sh", "-c", &script])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", home.path()),
    );
    wait_for_cwd(&inside.0, "/mnt");
    wait_until("the agent runs", || {
        fs::read_to_string(format!("/proc/{}/comm", inside.0.id()))
            .is_ok_and(|comm| comm == "claude\n")
    });
    let session = run(&home, "ls --json").session(ONE);
    assert_liveness(&session, "unknown", "unknown", "blind", "derived");
    assert!(items(&gc(&home, "claude-code"), "trashed").is_empty());
    // Of another home it is none of its business.
    let other = TempHome::new();
    claude_session(&other, TWO, repo.to_str().unwrap(), "hello");
    assert_eq!(listed(&other).session(TWO)["status"], "exited");
}

#[test]
fn h3_what_another_user_hides_is_a_doubt_where_that_user_could_write() {
    if sys::private::our_uid() != 0 {
        eprintln!("SKIPPED: only root can be two users");
        return;
    }
    // No other test runs this agent: every one of root's counts for whoever is not root.
    let plain = super::permissions::Plain::new();
    let repo = plain.home.join("repo");
    fs::create_dir(&repo).unwrap();
    let start = json!({"type": "session_start", "id": ONE, "title": "t", "cwd": repo});
    let path =
        plain.home.write(format!(".factory/sessions/-repo/{ONE}.jsonl"), format!("{start}\n"));
    age(&path, 10);
    fs::create_dir_all(plain.home.join("bin")).unwrap();
    fs::copy("/bin/sleep", plain.home.join("bin/droid")).unwrap();
    plain.hand_over();
    assert_eq!(plain.run("ls -a --json").session(ONE)["status"], "exited");
    // Root's: it cannot be looked into, and may write anywhere.
    let agent = FakeAgent::start(&plain.home, "droid", &repo);
    let session = plain.run("ls --json").session(ONE);
    assert_liveness(&session, "unknown", "unknown", "blind", "derived");
    let why = plain.run(&format!("why {ONE} --json")).result();
    assert!(why["evidence"].to_string().contains(&format!("pid {}", agent.pid())), "{why:#}");
    assert_eq!(why["collect"]["allowed"], false);
}
