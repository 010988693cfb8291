//! The daemon: one of it, at once, and nothing lost when it is killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use flows::writer::{HomeId, socket_name};
use serde_json::{Value, json};
use testkit::home::TempHome;

use super::agent::{Agent, state};
use super::run::{ostler, run};

const ID: &str = "11111111-1111-4111-8111-111111111111";

/// A daemon that is killed with the value.
pub(crate) struct Daemon(Child);

impl Daemon {
    pub(crate) fn start(home: &TempHome) -> Self {
        Self::with(ostler(home))
    }

    pub(crate) fn with(mut command: std::process::Command) -> Self {
        command.args(["daemon", "run"]);
        Self::spawn(command)
    }

    /// Starts it by a whole command line.
    pub(crate) fn spawn(mut command: std::process::Command) -> Self {
        command.stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("pid"), "{line}");
        Self(child)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a signal, as `kill` names it.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.pid().to_string();
        let sent = std::process::Command::new("kill").args([signal, &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for its end; says whether it was a good one.
    pub(crate) fn wait(mut self) -> bool {
        self.0.wait().unwrap().success()
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A follower of the stream of events.
struct Follower(Child, BufReader<std::process::ChildStdout>);

impl Follower {
    fn start(home: &TempHome, since: &str) -> Self {
        let mut command = ostler(home);
        command.args(["events", "-f", "--json", "--since", since]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self(child, stdout)
    }

    /// The next event of that kind.
    fn next(&mut self, kind: &str) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.1.read_line(&mut line).unwrap() > 0, "the stream ended");
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["kind"] == kind {
                return event;
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_killed_agent_is_finalized_at_once() {
    let home = TempHome::new();
    let _daemon = Daemon::start(&home);
    let mut follower = Follower::start(&home, "0");
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    assert_eq!(follower.next("turn-start")["session"], ID);
    agent.kill();
    assert_eq!(follower.next("exited")["session"], ID);
    assert_eq!(follower.next("condensed")["session"], ID);
    let one = run(&home, "ls -a --json").exits(0).session(ID);
    assert_eq!(one["status"], "exited");
}

#[test]
fn an_agent_that_ends_before_it_is_held_on_to_is_finalized_at_once() {
    let home = TempHome::new();
    let pauses = testkit::pause::Pauses::new();
    let mut command = ostler(&home);
    pauses.apply(&mut command);
    let _daemon = Daemon::with(command);
    let mut follower = Follower::start(&home, "0");
    let mut agent = Agent::start(&home, ID);
    // It takes an order only once its first look is over.
    run(&home, "finalize").exits(0);
    pauses.arm("daemon.hold");
    agent.hook("UserPromptSubmit", json!({"prompt": "do it"}));
    pauses.wait("daemon.hold");
    agent.kill();
    pauses.release("daemon.hold");
    let begun = Instant::now();
    assert_eq!(follower.next("exited")["session"], ID);
    assert!(begun.elapsed() < Duration::from_secs(20), "it was left to the next look");
}

#[test]
fn a_follower_sleeps_through_nothing() {
    let home = TempHome::new();
    let _daemon = Daemon::start(&home);
    let mut follower = Follower::start(&home, "0");
    let mut agent = Agent::start(&home, ID);
    // Each is waited for alone, so that no later one wakes a follower that missed it.
    for _ in 0..60 {
        agent.hook("UserPromptSubmit", json!({"prompt": "again"}));
        follower.next("turn-start");
    }
}

#[test]
fn commands_go_through_the_daemon() {
    let home = TempHome::new();
    let daemon = Daemon::start(&home);
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    let swept = run(&home, "finalize --json").exits(0).result();
    assert_eq!(swept["ended"], json!([]));
    let status = run(&home, "daemon status --json").exits(0).result();
    assert_eq!(status["running"], true);
    assert_eq!(status["pid"], daemon.0.id());
    assert_eq!(status["watching"], 1);
}

#[test]
fn b18_a_second_daemon_is_refused_and_starting_one_that_runs_is_no_error() {
    let home = TempHome::new();
    let first = Daemon::start(&home);
    let second = run(&home, "daemon run").exits(13);
    assert!(second.stderr.contains(&format!("pid {}", first.0.id())), "{second:?}");
    let again = run(&home, "daemon start").exits(0);
    assert!(again.stdout.contains(&format!("pid {}", first.0.id())), "{again:?}");
    assert_eq!(again.stderr, "it runs already\n");
}

/// Which home that is, for its daemon.
pub(crate) fn home_id(home: &TempHome) -> HomeId {
    HomeId::of_path(&state(home)).unwrap()
}

/// Where the daemon of a home listens.
pub(crate) fn socket(home: &TempHome) -> PathBuf {
    home.join("run/ostler").join(socket_name(home_id(home)))
}

/// What the daemon answers to these headers and this order.
pub(crate) fn say_raw(socket: &Path, headers: &str, order: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    let length = order.len();
    let head = "POST /v1/orders HTTP/1.1\r\nhost: x\r\nconnection: close";
    let request = format!("{head}\r\n{headers}content-length: {length}\r\n\r\n{order}");
    // One that is refused by its headers is answered, and closed, before its body has come: in one piece.
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// What the daemon answers to an order that is put in another version of the language.
fn say_in_another_version(home: &TempHome, order: &str) -> String {
    let id = home_id(home);
    let headers = format!("x-ostler-protocol: 999\r\nx-ostler-home: {id}\r\n");
    say_raw(&socket(home), &headers, order)
}

#[test]
fn an_order_in_another_version_is_refused_but_status_and_stop_are_not() {
    let home = TempHome::new();
    let mut daemon = Daemon::start(&home);
    let refused = say_in_another_version(&home, r#"{"order":"work","work":"undo","receipt":null}"#);
    assert!(refused.starts_with("HTTP/1.1 426"), "{refused}");
    assert!(refused.contains("ostler daemon stop"), "{refused}");
    let unknown = say_in_another_version(&home, r#"{"order":"fly"}"#);
    assert!(unknown.starts_with("HTTP/1.1 426"), "{unknown}");
    let status = serde_json::to_string(&flows::writer::DaemonOrder::Status).unwrap();
    assert!(say_in_another_version(&home, &status).contains("\"running\":true"));
    let stop = serde_json::to_string(&flows::writer::DaemonOrder::Stop).unwrap();
    assert!(say_in_another_version(&home, &stop).starts_with("HTTP/1.1 200"));
    assert!(daemon.0.wait().unwrap().success());
}

#[test]
fn row_17_an_order_with_a_limit_that_is_not_known_is_refused() {
    use flows::writer::{DAEMON_PROTOCOL, DaemonOrder};

    let home = TempHome::new();
    let _daemon = Daemon::start(&home);
    let id = home_id(&home);
    let headers = format!(
        "x-ostler-protocol: {DAEMON_PROTOCOL}\r\nx-ostler-home: {id}\r\nexpect: 100-continue\r\n"
    );
    let sweep = DaemonOrder::Sweep { only: Vec::new() };
    let mut order = serde_json::to_value(&sweep).unwrap();
    let known = say_raw(&socket(&home), &headers, &order.to_string());
    assert!(known.contains("HTTP/1.1 200"), "{known}");
    order["onlyOlderThanMs"] = json!(1000);
    let refused = say_raw(&socket(&home), &headers, &order.to_string());
    assert!(refused.contains("HTTP/1.1 400"), "{refused}");
    assert!(refused.contains("ostler daemon stop"), "{refused}");
}

#[test]
fn row_17_a_daemon_of_another_release_is_named_with_what_to_do() {
    use std::os::unix::net::UnixListener;

    // What an older release answered at its door, to the byte.
    const STATUS: &str =
        r#"{"answer":"status","running":true,"pid":7,"version":"0.0.9","socket":"/s"}"#;
    let home = TempHome::new();
    run(&home, "pin").exits(0);
    home.directory(".local/state/ostler");
    let path = socket(&home);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    for directory in [path.parent().unwrap(), &home.join(".local/state/ostler")] {
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(directory, private).unwrap();
    }
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 2048];
            let heard = stream.read(&mut head).unwrap();
            assert!(String::from_utf8_lossy(&head[..heard]).contains("/v1/status"));
            let length = STATUS.len();
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{STATUS}").unwrap();
        }
    });
    let own = env!("CARGO_PKG_VERSION");
    for line in ["daemon status", "doctor --no-sweep"] {
        let said = run(&home, line);
        let text = format!("{}{}", said.stdout, said.stderr);
        assert!(text.contains(&format!("is of ostler 0.0.9, and this is {own}")), "{line}: {text}");
        assert!(text.contains("`ostler daemon stop`"), "{line}: {text}");
    }
}

#[test]
fn one_that_was_killed_is_taken_over_and_nothing_is_lost() {
    let home = TempHome::new();
    let daemon = Daemon::start(&home);
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    let mut follower = Follower::start(&home, "0");
    let cursor = follower.next("turn-start")["cursor"].to_string();
    daemon.kill();
    agent.kill();
    assert!(socket(&home).exists(), "its socket was left behind");
    let swept = run(&home, "daemon status --json").exits(0).result();
    assert_eq!(swept["running"], false);
    let _next = Daemon::start(&home);
    let mut resumed = Follower::start(&home, &cursor);
    assert_eq!(resumed.next("exited")["session"], ID, "the cursor survives the restart");
}

#[test]
fn without_it_the_lock_holder_writes_and_a_held_lock_is_named() {
    let home = TempHome::new();
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    let daemon = Daemon::start(&home);
    // A daemon that hangs: it holds the lock and does not answer.
    std::fs::remove_file(socket(&home)).unwrap();
    daemon.signal("-STOP");
    let refused = run(&home, "finalize --json").exits(13);
    let error = &refused.envelope()["error"];
    assert_eq!(error["code"], "REFUSED");
    assert!(error["message"].as_str().unwrap().contains(&daemon.0.id().to_string()), "{error}");
    daemon.signal("-CONT");
}

#[test]
fn started_and_stopped() {
    let home = TempHome::new();
    let started = run(&home, "daemon start --json").exits(0).result();
    assert_eq!(started["running"], true);
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    let stopped = run(&home, "daemon stop --json").exits(0).result();
    assert_eq!(stopped["running"], false);
    run(&home, "daemon stop").exits(0);
    agent.kill();
    let swept = run(&home, "finalize --json").exits(0).result();
    assert_eq!(swept["ended"][0]["session"], ID);
    assert!(state(&home).join("daemon.log").exists());
}

#[test]
fn an_idle_daemon_uses_no_processor_time() {
    let home = TempHome::new();
    let daemon = Daemon::start(&home);
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    // Until it watches the agent it is busy.
    let begun = Instant::now();
    while run(&home, "daemon status --json").result()["watching"] != 1 {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    let switches = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.0.id())).unwrap();
        tasks
            .map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).unwrap())
            .flat_map(|text| {
                text.lines()
                    .filter(|line| line.contains("ctxt_switches"))
                    .map(|line| line.split_whitespace().last().unwrap().parse::<u64>().unwrap())
                    .collect::<Vec<_>>()
            })
            .sum::<u64>()
    };
    // It may still be going to sleep after its last answer.
    let mut before = switches();
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = switches();
        if now == before {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it never sleeps");
        before = now;
    }
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(switches(), before, "it woke up though nothing happened");
}
