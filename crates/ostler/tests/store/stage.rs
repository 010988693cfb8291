//! A home in which OpenClaw has worked.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use testkit::gateway::closed_port;
use testkit::home::TempHome;
pub(crate) use testkit::run::{Ran, ran};

pub(crate) const DAY: i64 = 86_400_000;
pub(crate) const SESSIONS: &str = ".openclaw/agents/main/sessions";

pub(crate) struct Stage {
    pub(crate) home: TempHome,
}

impl Stage {
    /// An OpenClaw whose gateway does not run.
    pub(crate) fn new() -> Self {
        let stage = Self { home: TempHome::new() };
        stage.config(json!({}));
        std::fs::create_dir_all(stage.home.join(SESSIONS)).unwrap();
        stage
    }

    /// Sets OpenClaw's configuration; without a gateway's port, one on which nobody listens.
    pub(crate) fn config(&self, mut config: Value) {
        if config.pointer("/gateway").is_none() {
            config["gateway"] = json!({ "port": closed_port() });
        }
        self.home.write(".openclaw/openclaw.json", config.to_string());
    }

    pub(crate) fn maintenance(&self, maintenance: Value) {
        self.config(json!({ "session": { "maintenance": maintenance } }));
    }

    /// Writes the index as OpenClaw would.
    pub(crate) fn index(&self, entries: &[(&str, Value)]) -> PathBuf {
        let mut text = String::from("{");
        for (key, value) in entries {
            text.push_str(if text.len() == 1 { "\n" } else { ",\n" });
            text.push_str(&format!("  {}: {value}", Value::from(*key)));
        }
        text.push_str("\n}");
        self.write("sessions.json", &text)
    }

    /// Writes a file beside the index, for its owner only.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;

        let path = self.home.write(format!("{SESSIONS}/{name}"), text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// A transcript with one message.
    pub(crate) fn transcript(&self, id: &str) -> PathBuf {
        self.write(&format!("{id}.jsonl"), format!("{}{}\n", header(id), MESSAGE))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.join(SESSIONS).join(name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.home.read(format!("{SESSIONS}/sessions.json"))).unwrap()
    }

    /// The keys of the index.
    pub(crate) fn keys(&self) -> Vec<String> {
        let index: Value = serde_json::from_str(&self.text()).unwrap();
        index.as_object().unwrap().keys().cloned().collect()
    }

    /// The names beside the index.
    pub(crate) fn names(&self) -> Vec<String> {
        let listed = std::fs::read_dir(self.home.join(SESSIONS)).unwrap();
        let mut names: Vec<String> =
            listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = ostler(&self.home);
        command.arg("store").args(line.split_whitespace());
        command
    }

    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> Ran {
        ran(&mut self.command(line))
    }

    /// The one store of a cleanup's answer.
    #[track_caller]
    pub(crate) fn cleanup(&self, line: &str) -> Value {
        let ran = self.run(&format!("cleanup --json {line}")).exits(0);
        let result = ran.result();
        assert_eq!(result["stores"].as_array().unwrap().len(), 1, "{result:#}");
        result["stores"][0].clone()
    }
}

fn ostler(home: &TempHome) -> Command {
    testkit::run::bare(env!("CARGO_BIN_EXE_ostler"), home)
}

/// Runs another command line, split at spaces.
#[track_caller]
pub(crate) fn run(home: &TempHome, line: &str) -> Ran {
    ran(ostler(home).args(line.split_whitespace()))
}

pub(crate) const MESSAGE: &str = r#"{"type":"message","id":"1","message":{"role":"user"}}"#;

pub(crate) fn header(id: &str) -> String {
    let line = json!({ "type": "session", "id": id, "timestamp": "2026-07-01T10:00:00.000Z" });
    format!("{line}\n")
}

pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// An entry of that age.
pub(crate) fn aged(id: &str, age_ms: i64) -> Value {
    json!({ "sessionId": id, "updatedAt": now() - age_ms })
}

/// Makes a file look older.
pub(crate) fn age(path: &std::path::Path, by: Duration) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - by).unwrap();
}

/// A process that is there for as long as the value lives.
pub(crate) struct Living(pub(crate) Child);

impl Living {
    pub(crate) fn new() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }

    /// The lock that it would hold on a transcript.
    pub(crate) fn lock(&self) -> String {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let after_name = stat.rsplit_once(") ").unwrap().1;
        let start: u64 = after_name.split(' ').nth(19).unwrap().parse().unwrap();
        let created = model::time::Time::from_millis(now()).to_string();
        json!({ "pid": self.0.id(), "createdAt": created, "starttime": start }).to_string()
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}
