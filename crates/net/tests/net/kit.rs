//! Homes with a daemon, and events in them.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::home::TempHome;
use testkit::run::{Ran, bare, ran};

/// How long something may take that happens by itself, also on a machine with much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The `ostler` that was built beside the helper.
pub(crate) fn ostler_program() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_ostler-net")).with_file_name("ostler");
    assert!(path.exists(), "build `ostler` first: cargo build --package ostler");
    path
}

pub(crate) fn ostler(home: &TempHome) -> Command {
    bare(ostler_program(), home)
}

#[track_caller]
pub(crate) fn run(home: &TempHome, line: &str) -> Ran {
    ran(ostler(home).args(line.split_whitespace()))
}

/// A daemon that ends with the value.
pub(crate) struct TestDaemon(pub(crate) Child);

impl TestDaemon {
    pub(crate) fn start(home: &TempHome) -> Self {
        Self::with(ostler(home))
    }

    pub(crate) fn with(mut command: Command) -> Self {
        command.args(["daemon", "run"]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains("pid"), "{line}");
        // What its helpers complain about is read on, so that none of them waits.
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                println!("daemon: {line}");
            }
        });
        Self(child)
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for TestDaemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for something.
#[track_caller]
pub(crate) fn wait_until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The shortest of three runs: one that is slow by its nature is slow each time, a busy machine is not.
pub(crate) fn quickest_run(mut work: impl FnMut()) -> Duration {
    let time = |_| {
        let begun = Instant::now();
        work();
        begun.elapsed()
    };
    (0..3).map(time).min().unwrap_or_default()
}

/// A port that nobody listens on, below those that the kernel gives to connections: none of them takes it before the
/// one that is to listen there.
pub(crate) fn free_port() -> u16 {
    loop {
        let chance = u16::from_be_bytes(sys::random::random_bytes::<2>().unwrap());
        let port = 12_000 + chance % 20_000;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Reports something as an agent's hook does.
pub(crate) fn report_hook(home: &TempHome, session: &str, event: &str, prompt: &str) {
    let payload = serde_json::json!({
        "session_id": session, "hook_event_name": event, "prompt": prompt,
        "cwd": home.path(), "transcript_path": home.join("t.jsonl"),
    });
    let mut child = ostler(home)
        .args(["hook", "claude-code", event])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// The webhooks of a home.
pub(crate) fn webhooks(home: &TempHome) -> Vec<Value> {
    let result = run(home, "webhook ls --json").exits(0).result();
    result["webhooks"].as_array().unwrap().clone()
}
