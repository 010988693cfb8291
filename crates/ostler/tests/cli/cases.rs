//! The registry of commands as the suites see it, and homes to run its lines in.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use serde::Deserialize;
use testkit::access::wait_until;
use testkit::home::{Snapshot, TempHome};

use super::agent::Agent;
use super::run::{Ran, ostler, ran, run, sample_home};

#[derive(Debug, Deserialize)]
pub(crate) struct Registry {
    pub(crate) commands: Vec<Entry>,
    pub(crate) leaves: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) place: (String, u8),
    pub(crate) effect: String,
    pub(crate) agent_tty: u8,
    pub(crate) answers: Vec<Answer>,
    pub(crate) examples: Vec<Example>,
    pub(crate) cases: Vec<Case>,
    pub(crate) uncased: Vec<(String, String)>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    pub(crate) suffix: String,
    pub(crate) streams: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Example {
    pub(crate) line: String,
    pub(crate) stage: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) kind: String,
    pub(crate) stage: String,
    pub(crate) before: Vec<String>,
    pub(crate) line: String,
    pub(crate) harmless: bool,
}

impl Case {
    /// Whether it is meant to be an error.
    pub(crate) fn is_error(&self) -> bool {
        self.kind == "refused" || self.stage == "person"
    }

    /// Whether it may end with this code: what is shown as usual with success, or with 12 where something could
    /// not be read; what is refused with another code of the documented table. In an empty home many a command
    /// finds nothing, and snapshots hold which code that is.
    pub(crate) fn may_end_with(&self, command: &str, code: i32) -> bool {
        const INCOMPLETE: i32 = 12;
        let has_findings = command == "doctor" && code == 1;
        match self.kind.as_str() {
            _ if self.is_error() => is_documented(code) && ![0, INCOMPLETE].contains(&code),
            "empty" | "also" => is_documented(code),
            _ => [0, INCOMPLETE].contains(&code) || has_findings,
        }
    }
}

/// Whether `ostler help exit-codes` has a row for it. A panic ends with 101.
pub(crate) fn is_documented(code: i32) -> bool {
    (0..=17).contains(&code)
}

/// What the binary says of itself.
pub(crate) static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let printed = run(&TempHome::new(), "_commands").exits(0).stdout;
    serde_json::from_str(&printed).unwrap()
});

impl Registry {
    /// The commands, without their families.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = &Entry> {
        self.commands.iter().filter(|entry| self.leaves.contains(&entry.name))
    }

    /// Whether a command, or its family, keeps agent-tty's contract, too.
    pub(crate) fn is_of_agent_tty(&self, entry: &Entry) -> bool {
        let top = entry.name.split(' ').next();
        self.commands.iter().any(|one| Some(one.name.as_str()) == top && one.agent_tty > 0)
    }
}

impl Entry {
    /// The schema of the answer in an envelope, and that of one line of a stream.
    pub(crate) fn schema(&self, streams: bool) -> Option<String> {
        let is_plain = |answer: &&Answer| answer.suffix.is_empty() && answer.streams == streams;
        self.answers.iter().find(is_plain).map(|_| self.name.clone())
    }
}

/// A home for some cases. ostler's own places lie beside it: nothing but foreign files is in it.
pub(crate) struct Stage {
    pub(crate) home: TempHome,
    pub(crate) own: TempHome,
    /// What `ID` stands for: what the stage has, or else what the first line before a case made.
    id: String,
    _agent: Option<Agent>,
    /// The hook of an agent that asks for a permission.
    asking: Option<Child>,
}

impl Stage {
    pub(crate) fn new(name: &str) -> Self {
        let home = match name {
            "worked" | "broken" => sample_home(),
            "store" | "trashed" => store_home(),
            _ => TempHome::new(),
        };
        if name == "broken" {
            break_home(&home);
        }
        let mut stage =
            Self { home, own: TempHome::new(), id: String::new(), _agent: None, asking: None };
        stage.lay_out(name);
        stage
    }

    /// The same foreign files, and nothing of ostler's.
    pub(crate) fn renewed(mut self) -> Self {
        self.end_terminals();
        self.own = TempHome::new();
        self.id.clear();
        self
    }

    fn lay_out(&mut self, name: &str) {
        match name {
            "terminal" => {
                self.run("create --name build -- /bin/bash --norc --noprofile").exits(0);
                self.run("wait build --text $ --screen-stable-ms 100").exits(0);
            }
            "driven" => {
                let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal/fake_agent.py");
                let record = self.own.join("record");
                let files = self.home.join(".claude");
                let (record, files) = (record.display(), files.display());
                self.run(&format!(
                    "create --name build -- python3 {script} {record} claude={files}"
                ))
                .exits(0);
                self.run("wait build --text help --screen-stable-ms 100").exits(0);
            }
            "installed" | "paused" | "grouped" => {
                let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal/fake_agent.py");
                let (record, files) = (self.own.join("record"), self.home.join(".claude"));
                let words = format!(
                    "#!/bin/sh\nexec python3 {script} {} claude={} -- \"$@\"\n",
                    record.display(),
                    files.display()
                );
                self.own.write("bin/claude", words);
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
                std::fs::set_permissions(self.own.join("bin/claude"), mode).unwrap();
                if name == "paused" {
                    let launched = self.run("launch claude begin --headless --wait idle --json");
                    let launched = launched.exits(0).result();
                    self.id = launched["session"]["id"].as_str().unwrap().to_owned();
                }
                if name == "grouped" {
                    self.run("launch claude 'begin now' --group race").exits(0);
                }
            }
            "notified" => {
                let config = "[notify]\ncommand = [\"/bin/cat\"]\n";
                self.home.write(".config/ostler/config.toml", config);
            }
            "fused" => {
                let set = self.run("fuse set --dir . --after 1h --do event --json").exits(0);
                self.id = set.result()["fuses"][0]["id"].as_str().unwrap().to_owned();
            }
            "hooked" => {
                let added = self.run("webhook add --url http://127.0.0.1:9/hook --json").exits(0);
                self.id = added.result()["webhooks"][0]["id"].as_str().unwrap().to_owned();
            }
            "asking" => self.let_an_agent_ask(),
            "access" => {
                let opened = self.run("access open --ttl 5m --generate --label work --json");
                self.id = opened.exits(0).result()["id"].as_str().unwrap().to_owned();
            }
            "trashed" => {
                let rebuilt = self.run("store rebuild --yes --json").exits(0).result();
                self.id = rebuilt["receipt"].as_str().unwrap().to_owned();
            }
            "told" | "kept" => {
                self.id = "11111111-1111-4111-8111-111111111111".to_owned();
                let own =
                    [("OSTLER_HOME", self.state()), ("XDG_CACHE_HOME", self.own.join("cache"))];
                let mut agent = Agent::beside(&self.home, &self.id, &own);
                agent.begin();
                agent.kill();
                self._agent = Some(agent);
                if name == "kept" {
                    self.run("finalize").exits(0);
                }
            }
            _ => {}
        }
    }

    /// Lets an agent's hook wait for the answer to a permission request.
    fn let_an_agent_ask(&mut self) {
        self.id = "11111111-1111-4111-8111-111111111111".to_owned();
        let asked = serde_json::json!({"session_id": self.id, "cwd": "/p", "tool_name": "Bash",
            "tool_input": {"command": "deploy"}});
        let mut hook = self.command("hook claude-code PermissionRequest");
        hook.env("OSTLER_PERMITS", "60s").stdin(Stdio::piped()).stdout(Stdio::null());
        let mut hook = hook.spawn().unwrap();
        hook.stdin.take().unwrap().write_all(asked.to_string().as_bytes()).unwrap();
        self.asking = Some(hook);
        wait_until("the request", || {
            let told = self.run("permits --json").exits(0).result();
            !told["requests"].as_array().unwrap().is_empty()
        });
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.own.join("state")
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = ostler(&self.home);
        command
            .env("XDG_CACHE_HOME", self.own.join("cache"))
            .env("XDG_RUNTIME_DIR", self.own.path())
            .env("OSTLER_HOME", self.state())
            .env("PS1", "$ ")
            .env("COLUMNS", "160")
            .env("PATH", format!("{}:/usr/bin:/bin", self.own.join("bin").display()))
            .args(self.words(line));
        command
    }

    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> Ran {
        ran(&mut self.command(line))
    }

    /// The words of a line, as a shell would take them.
    fn words(&self, line: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for (index, part) in line.split('\'').enumerate() {
            match index % 2 {
                0 => words.extend(
                    part.split_whitespace()
                        .map(|word| if word == "ID" { self.id.clone() } else { word.to_owned() }),
                ),
                _ => words.push(part.to_owned()),
            }
        }
        words
    }

    /// Text without what is different in every home.
    pub(crate) fn nameless(&self, text: &str) -> String {
        let mut text = text.replace(env!("CARGO_BIN_EXE_ostler"), "[OSTLER]");
        for (path, name) in [(self.home.path(), "[HOME]"), (self.own.path(), "[OWN]")] {
            text = text.replace(path.to_str().unwrap(), name);
            // A directory of Claude Code's is named after the one that it worked in.
            let slug = path.to_str().unwrap().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
            text = text.replace(&slug, name);
        }
        text
    }

    fn end_terminals(&self) {
        let sessions = std::fs::read_dir(self.state().join("sessions")).into_iter().flatten();
        for entry in sessions.flatten() {
            let id = entry.file_name().into_string().unwrap();
            let _ = self.command(&format!("destroy --force {id}")).output();
        }
        let opened = std::fs::read_dir(self.state().join("access/sessions")).into_iter().flatten();
        for entry in opened.flatten() {
            let id = entry.file_name().into_string().unwrap();
            let _ = self.command(&format!("access stop {id}")).output();
        }
        if self.state().join("daemon.log").exists() {
            let _ = self.command("daemon stop").output();
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.end_terminals();
        if let Some(mut hook) = self.asking.take() {
            let _ = hook.kill();
            let _ = hook.wait();
        }
    }
}

/// Gives every case a stage: the same foreign files for as long as they may not be written, and
/// nothing of ostler's that an earlier case left.
#[derive(Default)]
pub(crate) struct Stages(Vec<(String, Stage)>);

impl Stages {
    /// Runs a line after those that come before it, and says what it changed.
    pub(crate) fn run(&mut self, case: &Case, line: &str) -> Outcome {
        let known = self.0.iter().position(|(name, _)| *name == case.stage);
        let mut stage = match known.map(|at| self.0.swap_remove(at).1) {
            Some(stage) => stage.renewed(),
            None => Stage::new(&case.stage),
        };
        for before in &case.before {
            let ran = stage.run(before).exits(0);
            if stage.id.is_empty() {
                // What it made, named by its first word.
                stage.id = ran.stdout.split_whitespace().next().unwrap_or_default().to_owned();
            }
        }
        let seen = |path: &Path| path.exists().then(|| Snapshot::of(path));
        let (foreign, own) = (Snapshot::of(stage.home.path()), seen(&stage.state()));
        let ran = stage.run(line);
        let foreign = foreign.changes(&Snapshot::of(stage.home.path()));
        let mut own = match (own, seen(&stage.state())) {
            (Some(before), Some(after)) => before.changes(&after),
            (None, Some(_)) => vec!["ostler's directory is new".to_owned()],
            _ => Vec::new(),
        };
        // A reader of a database in WAL mode makes these two; they hold nothing of its own.
        own.retain(|change| !change.starts_with("ostler.db-"));
        let outcome = Outcome {
            stdout: stage.nameless(&ran.stdout),
            stderr: stage.nameless(&ran.stderr),
            ran,
            foreign,
            own,
        };
        // What has something of ostler's in it is made anew, and so is what was changed.
        let is_plain = ["fresh", "worked", "broken", "store"].contains(&case.stage.as_str());
        if is_plain && outcome.foreign.is_empty() {
            self.0.push((case.stage.clone(), stage));
        }
        outcome
    }
}

/// What a case came to.
pub(crate) struct Outcome {
    pub(crate) ran: Ran,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// What it changed of foreign files.
    pub(crate) foreign: Vec<String>,
    /// What it changed of ostler's.
    pub(crate) own: Vec<String>,
}

/// Things that go wrong: they must not be written to either.
fn break_home(home: &TempHome) {
    home.fifo(".claude/sessions/77.json");
    home.link(".codex/sessions/out.jsonl", "/etc/hostname");
    home.write(".claude/projects/-x/broken.jsonl", b"{not json\n\xff\xfe\n");
    home.write(".claude/projects/-x/empty.jsonl", b"");
    home.write(".openclaw/agents/main/sessions/sessions.json", b"{not json");
}

/// An OpenClaw whose gateway does not run, with a session, an odd entry and a lost transcript.
fn store_home() -> TempHome {
    let home = TempHome::new();
    let sessions = ".openclaw/agents/main/sessions";
    let port = testkit::gateway::closed_port();
    let maintenance = r#""maintenance":{"maxDiskBytes":"1mb","rotateBytes":1}"#;
    let agents = r#""agents":{"list":[{"id":"main","default":true},{"id":"helper"}]}"#;
    let config = format!(r#"{{"gateway":{{"port":{port}}},{agents},"session":{{{maintenance}}}}}"#);
    home.write(".openclaw/openclaw.json", config);
    let index = r#"{"agent:main:direct:u":{"sessionId":"s","updatedAt":1},"odd":null}"#;
    home.write(format!("{sessions}/sessions.json"), index);
    home.write(format!("{sessions}/s.jsonl"), "{\"type\":\"message\"}\n");
    home.write(format!("{sessions}/orphan.jsonl"), "{}\n");
    home
}
