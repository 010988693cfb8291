//! A home with terminals in it, which are ended with the value.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::home::TempHome;
pub(crate) use testkit::run::{Ran, ran};

/// Under which name the binary is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Ostler,
    AgentTty,
}

/// A home of its own for one test.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) home: TempHome,
    pub(crate) root: PathBuf,
    name: Name,
}

impl Stage {
    pub(crate) fn new(name: Name) -> Self {
        let home = TempHome::new();
        let root = home.join(match name {
            Name::Ostler => "state",
            Name::AgentTty => "agent-tty",
        });
        Self::at(name, home, root)
    }

    /// With the sessions somewhere else.
    pub(crate) fn at(name: Name, home: TempHome, root: PathBuf) -> Self {
        let run = home.join("run");
        std::fs::create_dir(&run).unwrap();
        std::fs::set_permissions(&run, PermissionsExt::from_mode(0o700)).unwrap();
        if name == Name::AgentTty {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ostler"), home.join("agent-tty-bin"))
                .unwrap();
            std::fs::create_dir(home.join("bin")).unwrap();
            std::fs::rename(home.join("agent-tty-bin"), home.join("bin/agent-tty")).unwrap();
        }
        Self { home, root, name }
    }

    /// The binary, with nothing in its environment but the home.
    pub(crate) fn command(&self) -> Command {
        let program = match self.name {
            Name::Ostler => PathBuf::from(env!("CARGO_BIN_EXE_ostler")),
            Name::AgentTty => self.home.join("bin/agent-tty"),
        };
        let mut command = testkit::run::bare(program, &self.home);
        command.env("OSTLER_HOME", &self.root).env("AGENT_TTY_HOME", &self.root).env("PS1", "$ ");
        command
    }

    #[track_caller]
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        ran(self.command().args(args))
    }

    /// Runs with `--json` and gives the result.
    #[track_caller]
    pub(crate) fn ok(&self, args: &[&str]) -> Value {
        self.run(&[args, &["--json"]].concat()).exits(0).result()
    }

    /// Runs with `--json` and gives the exit code and the error's code.
    #[track_caller]
    pub(crate) fn fails(&self, args: &[&str]) -> (i32, String) {
        let ran = self.run(&[&["--json"], args].concat());
        (ran.code, ran.error())
    }

    /// Makes a session that runs `command` and gives its id.
    #[track_caller]
    pub(crate) fn create(&self, command: &[&str]) -> String {
        let args = [&["--json", "create", "--"], command].concat();
        let created = self.run(&args).exits(0).result();
        created["sessionId"].as_str().unwrap().to_owned()
    }

    /// A shell at its prompt.
    #[track_caller]
    pub(crate) fn shell(&self) -> String {
        let id = self.create(&["/bin/bash", "--norc", "--noprofile"]);
        self.ok(&["wait", &id, "--text", "$"]);
        id
    }

    /// A session that runs a script.
    #[track_caller]
    pub(crate) fn script(&self, script: &str) -> String {
        self.create(&["/bin/bash", "-c", script])
    }

    /// What is on the screen.
    #[track_caller]
    pub(crate) fn screen(&self, id: &str) -> String {
        let shown = self.ok(&["snapshot", id, "--format", "text"]);
        shown["text"].as_str().unwrap().trim_end().to_owned()
    }

    pub(crate) fn directory(&self, id: &str) -> PathBuf {
        self.root.join("sessions").join(id)
    }

    #[track_caller]
    pub(crate) fn manifest(&self, id: &str) -> Value {
        read_json(&self.directory(id).join("session.json"))
    }

    /// The pid of the host or the child.
    #[track_caller]
    pub(crate) fn pid(&self, id: &str, which: &str) -> u32 {
        u32::try_from(self.manifest(id)[which].as_u64().unwrap()).unwrap()
    }

    /// The events of the log.
    #[track_caller]
    pub(crate) fn events(&self, id: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.directory(id).join("events.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // However the test ended, nothing it started is left.
        for entry in std::fs::read_dir(self.root.join("sessions")).into_iter().flatten().flatten() {
            let id = entry.file_name().into_string().unwrap();
            let _ = self.command().args(["destroy", "--force", &id]).output();
        }
    }
}

#[track_caller]
pub(crate) fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rfind(')').and_then(|at| stat[at + 2..].chars().next());
    state.is_some_and(|state| !"ZX".contains(state))
}

pub(crate) fn kill(pid: u32, signal: &str) {
    let status = Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

/// Waits for something that is bound to come; a name, so that a failure says what did not.
#[track_caller]
pub(crate) fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}
