//! A home in which both releases are used. Everything that was started ends with it.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::home::TempHome;

use super::Release;

/// Whose program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The release whose daemon, host or page runs.
    Running,
    /// The release that asks it.
    Asking,
}

pub(super) struct Room {
    pub(super) home: TempHome,
    pub(super) running: Release,
    pub(super) asking: Release,
}

/// What a command came to.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) line: String,
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Said {
    /// It worked.
    pub(super) fn expect_done(self) -> Result<Self, String> {
        if self.code == 0 { Ok(self) } else { Err(self.describe()) }
    }

    /// It worked, or it says which release is in the way and what to do. Returns whether it worked.
    pub(super) fn expect_done_or_named(self) -> Result<bool, String> {
        const NAMES: [&str; 4] = [
            "newer ostler",
            "ostler daemon stop",
            "install both from the same version",
            "is of another release",
        ];
        // As JSON, errors are answers.
        let is_named =
            NAMES.iter().any(|name| self.stderr.contains(name) || self.stdout.contains(name));
        match self.code {
            0 => Ok(true),
            // A panic, a usage error and a crash name nothing.
            code if code > 2 && is_named => Ok(false),
            _ => Err(self.describe()),
        }
    }

    pub(super) fn describe(&self) -> String {
        format!("{} ended with {}: {}{}", self.line, self.code, self.stdout, self.stderr)
    }

    pub(super) fn result(&self) -> Result<Value, String> {
        let envelope: Value =
            serde_json::from_str(&self.stdout).map_err(|error| format!("{error}: {self:?}"))?;
        Ok(envelope["result"].clone())
    }
}

impl Room {
    pub(super) fn new(running: &Release, asking: &Release) -> Result<Self, String> {
        let home = TempHome::new();
        home.directory("project");
        Ok(Self { home, running: running.clone(), asking: asking.clone() })
    }

    pub(super) fn release(&self, side: Side) -> &Release {
        match side {
            Side::Running => &self.running,
            Side::Asking => &self.asking,
        }
    }

    /// A program with nothing in its environment but the home.
    pub(super) fn command(&self, program: PathBuf) -> Command {
        let mut command = testkit::run::bare(program, &self.home);
        // Where CI puts the engine of the fleet, unless the machine has one.
        let mut path = std::env::var_os("PATH").unwrap_or_default();
        path.push(concat!(":", env!("CARGO_MANIFEST_DIR"), "/../target/tools/bin"));
        command.env("PATH", path).stdin(Stdio::null());
        command
    }

    /// Runs ostler.
    pub(super) fn ostler(&self, side: Side, words: &[&str]) -> Result<Said, String> {
        let release = self.release(side);
        let mut command = self.command(release.ostler());
        let output = command.args(words).output().map_err(|error| error.to_string())?;
        Ok(Said {
            line: format!("{} ostler {}", release.name, words.join(" ")),
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs ostler, which must work.
    pub(super) fn done(&self, side: Side, words: &[&str]) -> Result<Said, String> {
        self.ostler(side, words)?.expect_done()
    }

    /// Asks again until it is so.
    pub(super) fn wait_until(
        &self,
        what: &str,
        mut is_so: impl FnMut() -> Result<bool, String>,
    ) -> Result<(), String> {
        let begun = Instant::now();
        while !is_so()? {
            if begun.elapsed() > Duration::from_secs(60) {
                return Err(format!("waited in vain: {what}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// The kinds of all events, in order, as a release reads them.
    pub(super) fn events(&self, side: Side) -> Result<Vec<String>, String> {
        let said = self.done(side, &["events", "--json", "--since", "0"])?;
        let lines = said.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Ok(lines.filter_map(|event| Some(event["kind"].as_str()?.to_owned())).collect())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // Either may be the one that runs; a daemon that is not there is no error.
        for side in [Side::Running, Side::Asking] {
            drop(self.ostler(side, &["daemon", "stop"]));
        }
    }
}

/// Runs every line it is given as a hook: the program, the event, then the payload.
const AGENT: &str = r#"
export CLAUDE_PID=$$
while read -r ostler event payload; do
    printf '%s' "$payload" | "$ostler" hook claude-code "$event"
    echo "exit $?"
done
"#;

/// An agent: a process that runs hooks, of one release or the other.
pub(super) struct Agent {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    id: String,
    cwd: PathBuf,
    transcript: PathBuf,
}

impl Agent {
    pub(super) fn start(room: &Room, id: &str) -> Result<Self, String> {
        let cwd = room.home.join("project");
        let line = json!({"type": "user", "sessionId": id, "cwd": cwd, "version": "2.1.325",
            "timestamp": "2026-11-15T10:00:00.000Z", "message": {"role": "user", "content": "do it"}});
        let path = format!(".claude/projects/project/{id}.jsonl");
        let transcript = room.home.write(path, format!("{line}\n"));
        let mut command = room.command("/bin/bash".into());
        command.args(["-c", AGENT]).current_dir(&cwd);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let stdin = child.stdin.take().ok_or("no input")?;
        let stdout = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Self { child, stdin, stdout, id: id.to_owned(), cwd, transcript })
    }

    /// Runs one hook and waits for it.
    pub(super) fn hook(&mut self, release: &Release, event: &str) -> Result<(), String> {
        let payload = json!({"session_id": self.id, "cwd": self.cwd, "prompt": "do it",
            "transcript_path": self.transcript, "source": "startup"});
        writeln!(self.stdin, "{} {event} {payload}", release.ostler().display())
            .map_err(|error| error.to_string())?;
        let mut line = String::new();
        self.stdout.read_line(&mut line).map_err(|error| error.to_string())?;
        if line == "exit 0\n" { Ok(()) } else { Err(format!("a hook said {line:?}")) }
    }

    /// Kills it and waits for its end.
    pub(super) fn kill(&mut self) -> Result<(), String> {
        self.child.kill().map_err(|error| error.to_string())?;
        self.child.wait().map(drop).map_err(|error| error.to_string())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.kill());
    }
}
