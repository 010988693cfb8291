//! A fleet on one machine: a real nats-server, a home for the hub and one for each member.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use testkit::home::TempHome;
use testkit::run::{Ran, ran};

use super::kit::{TestDaemon, ostler, wait_until};

/// The directory of a `nats-server` that will do: PATH's, else the pinned wheel. Without one the suite fails.
pub(crate) fn engine_directory() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).find(|one| is_engine(&one.join("nats-server")));
    if let Some(directory) = found {
        return directory;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tools =
        Path::new(env!("CARGO_BIN_EXE_ostler-net")).ancestors().nth(2).unwrap().join("tools");
    if !is_engine(&tools.join("bin/nats-server")) {
        let installed = Command::new("pip3")
            .args(["install", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"])
            .arg("--requirement")
            .arg(root.join("crates/net/requirements-engine.txt"))
            .arg("--target")
            .arg(&tools)
            .status();
        assert!(
            installed.is_ok_and(|status| status.success()),
            "the fleet's tests need nats-server 2.11.15, 2.12.6 or newer, and pip could not install it"
        );
    }
    assert!(is_engine(&tools.join("bin/nats-server")));
    tools.join("bin")
}

fn is_engine(path: &Path) -> bool {
    let Ok(output) = Command::new(path).arg("--version").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.trim().rsplit('v').next().is_some_and(net::engine::is_engine_new_enough)
}

pub(crate) fn with_engine(mut command: Command) -> Command {
    let mut path = engine_directory().into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    command.env("PATH", path);
    command
}

#[track_caller]
pub(crate) fn fleet_run(home: &TempHome, words: &[&str]) -> Ran {
    ran(with_engine(ostler(home)).args(words))
}

/// A hub that runs.
pub(crate) struct TestHub {
    pub(crate) home: TempHome,
    engine: Option<Child>,
}

impl TestHub {
    pub(crate) fn start(more: &[&str]) -> Self {
        let home = TempHome::new();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let listen = format!("127.0.0.1:{port}");
        let words: Vec<&str> = ["--json", "fleet", "init", "--listen", &listen]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        fleet_run(&home, &words).exits(0);
        let mut hub = Self { home, engine: None };
        hub.run_engine();
        hub
    }

    /// Runs the engine, or runs it again.
    pub(crate) fn run_engine(&mut self) {
        let mut command = with_engine(ostler(&self.home));
        let engine = command.args(["fleet", "hub"]).stderr(Stdio::null()).spawn().unwrap();
        self.engine = Some(engine);
        let home = &self.home;
        wait_until("a hub that answers", || {
            let status = fleet_run(home, &["--json", "fleet", "status"]);
            Some(()).filter(|()| status.stdout.contains("\"reachable\": true"))
        });
    }

    /// `kill -9`.
    pub(crate) fn kill_engine(&mut self) {
        if let Some(mut engine) = self.engine.take() {
            engine.kill().unwrap();
            engine.wait().unwrap();
        }
    }

    pub(crate) fn signal_engine(&self, signal: &str) {
        signal_process(self.engine.as_ref().unwrap().id(), signal);
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.home.join(".local/state/ostler/fleet/hub")
    }

    /// A home that has joined; its daemon does not run yet.
    pub(crate) fn join(&self, name: &str, level: &str) -> TempHome {
        let home = TempHome::new();
        home.write(".config/ostler/config.toml", "[fleet]\nrenew = \"1s\"\nlook = \"1s\"\n");
        let words = ["--json", "fleet", "join", "--name", name, "--level", level];
        let asked = fleet_run(&home, &words).exits(0).result();
        let request = asked["request"].as_str().unwrap();
        let admitted =
            fleet_run(&self.home, &["--json", "fleet", "admit", request]).exits(0).result();
        let answer = admitted["answer"].as_str().unwrap();
        fleet_run(&home, &["--json", "fleet", "join", answer]).exits(0);
        home
    }

    /// The state of a member as the hub's own machine reads it.
    pub(crate) fn member(&self, name: &str) -> Option<Value> {
        let status = fleet_run(&self.home, &["--json", "fleet", "status"]).result();
        let members = status["members"].as_array().unwrap().clone();
        members.into_iter().find(|one| one["name"] == name)
    }

    #[track_caller]
    pub(crate) fn wait_for_state(&self, name: &str, state: &str) -> Value {
        wait_until(&format!("{name} being {state}"), || {
            self.member(name).filter(|one| one["state"] == state)
        })
    }
}

impl Drop for TestHub {
    fn drop(&mut self) {
        if let Some(mut engine) = self.engine.take() {
            let _ = engine.kill();
            let _ = engine.wait();
        }
    }
}

pub(crate) fn signal_process(pid: u32, signal: &str) {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).status();
    assert!(sent.unwrap().success());
}

/// The daemon of a member.
pub(crate) fn start_member(home: &TempHome) -> TestDaemon {
    TestDaemon::with(with_engine(ostler(home)))
}

/// The link that a daemon has started.
pub(crate) fn link_pid(daemon: &TestDaemon) -> u32 {
    wait_until("a link", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.0.id())).ok()?;
        let children = tasks
            .filter_map(|one| std::fs::read_to_string(one.ok()?.path().join("children")).ok())
            .collect::<String>();
        children.split_whitespace().find_map(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            String::from_utf8_lossy(&line).contains("\0link").then(|| pid.parse().unwrap())
        })
    })
}

/// Waits until a member answers orders: its link listens as soon as it holds the lease.
pub(crate) fn wait_for_link(home: &TempHome) {
    wait_until("a link that publishes", || Some(()).filter(|()| link_state(home) == "publishing"));
}

pub(crate) fn link_state(home: &TempHome) -> String {
    let report =
        std::fs::read(home.join(".local/state/ostler/fleet/link.json")).unwrap_or_default();
    let report: Value = serde_json::from_slice(&report).unwrap_or_default();
    report["state"].as_str().unwrap_or("").to_owned()
}
