//! A fake agent that is a real process and runs real hooks.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use testkit::home::TempHome;
use testkit::pause::Pauses;

use super::run::{claude_session, ostler};

/// Runs every line it is given as a hook: the event, then the payload.
const SCRIPT: &str = r#"
export CLAUDE_PID=$$
while read -r event payload; do
    printf '%s' "$payload" | "$OSTLER" hook claude-code "$event"
    echo "exit $?"
done
"#;

/// An agent with one session, in a directory of its own. It is killed with the value.
pub(crate) struct Agent {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    pub(crate) id: String,
    pub(crate) directory: PathBuf,
    pub(crate) transcript: PathBuf,
}

impl Agent {
    /// Starts the agent. It has written a transcript, and no hook has run yet.
    pub(crate) fn start(home: &TempHome, id: &str) -> Self {
        Self::wrapped(home, id, &[])
    }

    /// Starts it with ostler's own places somewhere else.
    pub(crate) fn beside(home: &TempHome, id: &str, own: &[(&str, PathBuf)]) -> Self {
        let words: Vec<String> =
            own.iter().map(|(name, path)| format!("{name}={}", path.display())).collect();
        let wrapper: Vec<&str> =
            ["env"].into_iter().chain(words.iter().map(String::as_str)).collect();
        Self::wrapped(home, id, &wrapper)
    }

    /// Starts it below another program.
    pub(crate) fn wrapped(home: &TempHome, id: &str, wrapper: &[&str]) -> Self {
        let directory = home.join("project");
        std::fs::create_dir_all(&directory).unwrap();
        let transcript = claude_session(home, id, directory.to_str().unwrap(), "do it");
        let like_us = ostler(home);
        let words: Vec<&str> = wrapper.iter().copied().chain(["bash", "-c", SCRIPT]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env_clear();
        for (name, value) in like_us.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let mut child = command
            .env("OSTLER", env!("CARGO_BIN_EXE_ostler"))
            .current_dir(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout, id: id.to_owned(), directory, transcript }
    }

    /// Runs one hook and waits for it.
    pub(crate) fn hook(&mut self, event: &str, mut payload: Value) {
        payload["session_id"] = json!(self.id);
        payload["cwd"] = json!(self.directory);
        payload["transcript_path"] = json!(self.transcript);
        writeln!(self.stdin, "{event} {payload}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "exit 0\n", "a hook always succeeds and prints nothing");
    }

    /// Opens the session and starts a turn.
    pub(crate) fn begin(&mut self) {
        self.hook("SessionStart", json!({"source": "startup"}));
        self.hook("UserPromptSubmit", json!({"prompt": "do it"}));
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, and waits until it is reaped.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs ostler in the background, stopping at whatever is armed.
pub(crate) fn paused(home: &TempHome, pauses: &Pauses, line: &str) -> Child {
    let mut command = ostler(home);
    command.args(line.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    pauses.apply(&mut command).spawn().unwrap()
}

/// The lines of the spool.
pub(crate) fn spooled(home: &TempHome) -> Vec<Value> {
    let text = std::fs::read_to_string(spool(home)).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn spool(home: &TempHome) -> PathBuf {
    state(home).join("spool/events.jsonl")
}

/// ostler's own home.
pub(crate) fn state(home: &TempHome) -> PathBuf {
    Path::new(home.path()).join(".local/state/ostler")
}
