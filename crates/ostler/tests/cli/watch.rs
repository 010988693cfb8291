//! `ls --watch`, which stands on `flows::live`: told by the kernel, at rest otherwise, honest when it has to ask.

use std::io::{BufRead, BufReader, Lines, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::home::TempHome;

use super::run::{claude_session, ostler, run};

fn id(number: usize) -> String {
    format!("11111111-1111-4111-8111-{number:012}")
}

/// `ls --watch --json` under way. Ended with the value.
struct Watching {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watching {
    fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn total(&mut self) -> Option<u64> {
        let line = self.lines.next()?.unwrap();
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        line["total"].as_u64()
    }

    /// Ticks of the processor, and how often it slept by its own will.
    fn spent(&self) -> (u64, u64) {
        let pid = self.child.id();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        (ticks, sleeps.unwrap().trim().parse().unwrap())
    }

    fn stop(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn watching(home: &TempHome) -> Watching {
    let mut command = ostler(home);
    command.args(["ls", "-a", "--json", "--watch"]);
    Watching::start(command)
}

#[test]
fn row_23_nothing_happens_while_nothing_happens() {
    let home = TempHome::new();
    for number in 0..200 {
        claude_session(&home, &id(number), &format!("/repo-{}", number % 20), "hello");
    }
    run(&home, "pin 11111111-1111-4111-8111-000000000000").exits(0);
    let mut watching = watching(&home);
    assert_eq!(watching.total(), Some(200));
    // The first look is followed by one at what was not under watch before.
    std::thread::sleep(Duration::from_secs(2));
    let before = watching.spent();
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(watching.spent(), before, "ticks and wake-ups of five seconds");
}

#[test]
fn what_the_writer_changes_is_told() {
    let home = TempHome::new();
    claude_session(&home, &id(1), "/repo", "hello");
    let mut watching = watching(&home);
    assert_eq!(watching.total(), Some(1));
    run(&home, "pin 11111111").exits(0);
    assert_eq!(watching.total(), Some(1), "a pin changes a session");
}

/// In a user namespace of its own, with that limit of inotify; `None` where that cannot be.
fn limited(home: &TempHome, limit: &str) -> Option<Watching> {
    let like_us = ostler(home);
    let mut command = Command::new("unshare");
    command.env_clear();
    for (name, value) in like_us.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let script = format!("{limit} || exit 77; exec \"$0\" ls -a --json --watch");
    command.args(["-Ur", "sh", "-c", &script, env!("CARGO_BIN_EXE_ostler")]);
    let can = Command::new("unshare").args(["-Ur", "sh", "-c", limit]).status();
    can.is_ok_and(|status| status.success()).then(|| Watching::start(command))
}

#[test]
fn row_22_without_watches_it_asks_every_second_and_says_so() {
    for (limit, setting) in [
        ("echo 0 > /proc/sys/user/max_inotify_instances", "fs.inotify.max_user_instances"),
        ("echo 3 > /proc/sys/user/max_inotify_watches", "fs.inotify.max_user_watches"),
    ] {
        let home = TempHome::new();
        for number in 0..8 {
            claude_session(&home, &id(number), &format!("/repo-{number}"), "hello");
        }
        let Some(mut watching) = limited(&home, limit) else { return };
        assert_eq!(watching.total(), Some(8));
        let began = Instant::now();
        claude_session(&home, &id(9), "/repo-9", "another");
        while watching.total() != Some(9) {}
        assert!(began.elapsed() < Duration::from_secs(5));
        let said = watching.stop();
        assert!(said.contains("asks every second: no inotify"), "{said}");
        assert!(said.contains(setting), "{said}");
    }
}
