//! A home in which OpenClaw has agents.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use testkit::gateway::{TOKEN, closed_port};
use testkit::home::TempHome;

/// The home, and ostler's own places beside it.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) home: TempHome,
    pub(crate) own: TempHome,
}

/// Two agents, one of which can go.
pub(crate) const HOUSE: &str = "{
  // the house
  gateway: GATEWAY,
  agents: { list: [
    { id: 'main', default: true }, // stays
    { id: 'ops', workspace: '~/ops-ws' },
  ] },
}
";

impl Stage {
    /// With this configuration; `GATEWAY` stands for one that does not run.
    pub(crate) fn new(config: &str) -> Self {
        Self::with_gateway(config, closed_port())
    }

    /// With a gateway on that port.
    pub(crate) fn with_gateway(config: &str, port: u16) -> Self {
        let stage = Self { home: TempHome::new(), own: TempHome::new() };
        let gateway = format!("{{ port: {port}, auth: {{ token: '{TOKEN}' }} }}");
        stage.home.write(".openclaw/openclaw.json", config.replace("GATEWAY", &gateway));
        stage.home.directory("tmp");
        let run = stage.own.directory("run");
        std::fs::set_permissions(&run, PermissionsExt::from_mode(0o700)).unwrap();
        stage
    }

    /// With everything that the agent `ops` of [`HOUSE`] could have.
    pub(crate) fn house() -> Self {
        Self::new(HOUSE).furnished()
    }

    pub(crate) fn furnished(self) -> Self {
        self.home.write("ops-ws/notes.md", "what ops knows");
        self.home.write(".openclaw/agents/ops/agent/auth.json", "{}");
        self.home.write(".openclaw/agents/ops/sessions/s1.jsonl", "{\"type\":\"session\"}\n");
        let store = r#"{"agent:ops:main":{"sessionId":"s1","updatedAt":1}}"#;
        self.home.write(".openclaw/agents/ops/sessions/sessions.json", store);
        self.home.write(".openclaw/agents/main/sessions/sessions.json", "{}");
        self
    }

    /// The binary, with nothing in its environment but the home.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        command
            .env_clear()
            .env("HOME", self.home.path())
            .env("TMPDIR", self.home.join("tmp"))
            .env("OSTLER_HOME", self.own.join("state"))
            .env("XDG_CACHE_HOME", self.own.join("cache"))
            .env("XDG_RUNTIME_DIR", self.own.join("run"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .current_dir(self.own.path())
            .stdin(Stdio::null())
            .args(line.split_whitespace());
        command
    }

    /// Runs a command line, split at spaces.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> Ran {
        ran(&mut self.command(line))
    }

    /// Deletes an agent and gives the answer.
    #[track_caller]
    pub(crate) fn delete(&self, id: &str) -> Value {
        self.run(&format!("agents delete {id} --force --json")).exits(0).result()
    }

    pub(crate) fn config(&self) -> String {
        String::from_utf8(self.home.read(".openclaw/openclaw.json")).unwrap()
    }

    pub(crate) fn has(&self, below: &str) -> bool {
        self.home.join(below).exists()
    }

    /// Every file of the home, with its content and its mode.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, (Vec<u8>, u32)> {
        let mut files = BTreeMap::new();
        let mut pending = vec![self.home.path().to_owned()];
        while let Some(directory) = pending.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let metadata = std::fs::symlink_metadata(&path).unwrap();
                if metadata.is_dir() {
                    pending.push(path);
                } else {
                    let bytes = std::fs::read(&path).unwrap_or_default();
                    files.insert(path, (bytes, metadata.permissions().mode()));
                }
            }
        }
        files
    }

    /// Runs something that must change nothing.
    #[track_caller]
    pub(crate) fn unchanged(&self, line: &str) -> Ran {
        let before = self.home.snapshot();
        let ran = self.run(line);
        let changes = before.changes(&self.home.snapshot());
        assert!(changes.is_empty(), "after `ostler {line}`: {changes:#?}");
        ran
    }
}

/// What a run printed.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    #[track_caller]
    fn envelope(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn result(&self) -> Value {
        let mut envelope = self.envelope();
        assert_eq!(envelope["ok"], true, "{self:?}");
        envelope["result"].take()
    }

    /// The code and the words of the error.
    #[track_caller]
    pub(crate) fn error(&self) -> (String, String) {
        let error = self.envelope()["error"].take();
        let text = |name: &str| error[name].as_str().unwrap().to_owned();
        (text("code"), text("message"))
    }
}

#[track_caller]
pub(crate) fn ran(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().unwrap();
    Ran {
        code: status.code().unwrap_or(-1),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

/// The item of that path.
#[track_caller]
pub(crate) fn item(result: &Value, path: &Path) -> Value {
    let items = result["items"].as_array().unwrap();
    let found: Vec<&Value> =
        items.iter().filter(|item| item["path"] == path.to_str().unwrap()).collect();
    assert_eq!(found.len(), 1, "{} in {result:#}", path.display());
    found[0].clone()
}

/// A process that is ended with the value.
pub(crate) struct Running(Child);

impl Running {
    /// One that works in a directory.
    pub(crate) fn in_directory(directory: &Path) -> Self {
        Self(Command::new("/bin/sleep").arg("300").current_dir(directory).spawn().unwrap())
    }

    /// One that looks like OpenClaw's gateway of that home.
    pub(crate) fn gateway(home: &Path) -> Self {
        let mut command = Command::new("/bin/sleep");
        command.arg0("openclaw-gateway").arg("300").env_clear().env("HOME", home);
        Self(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
