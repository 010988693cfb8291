//! Runs the binary as a user would, and reads what it printed.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::home::TempHome;

/// A program, with nothing in its environment but the home.
pub fn bare(program: impl AsRef<Path>, home: &TempHome) -> Command {
    let mut command = Command::new(program.as_ref());
    command
        .env_clear()
        .env("HOME", home.path())
        .env("TZ", "UTC")
        .env("XDG_RUNTIME_DIR", home.join("run"))
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .current_dir(home.path())
        .stdin(Stdio::null());
    command
}

/// What a run printed.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; -1 when a signal ended it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command to its end.
///
/// # Panics
/// If it cannot be run, or does not print text.
#[track_caller]
pub fn ran(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().expect("a program that runs");
    Ran {
        code: status.code().unwrap_or(-1),
        stdout: String::from_utf8(stdout).expect("text"),
        stderr: String::from_utf8(stderr).expect("text"),
    }
}

/// Each of these fails the test unless the run is as it is expected to be.
#[expect(clippy::missing_panics_doc, reason = "that is what they are for")]
impl Ran {
    /// It ended with this exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// The whole envelope.
    #[track_caller]
    pub fn envelope(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The result in the envelope.
    #[track_caller]
    pub fn result(&self) -> Value {
        let mut envelope = self.envelope();
        assert_eq!(envelope["ok"], true, "{self:?}");
        envelope["result"].take()
    }

    /// The code of the error in the envelope.
    #[track_caller]
    pub fn error(&self) -> String {
        self.of_error("code")
    }

    /// The message of the error in the envelope.
    #[track_caller]
    pub fn message(&self) -> String {
        self.of_error("message")
    }

    #[track_caller]
    fn of_error(&self, field: &str) -> String {
        let envelope = self.envelope();
        assert_eq!(envelope["ok"], false, "{self:?}");
        envelope["error"][field].as_str().expect("a text").to_owned()
    }

    /// The sessions in the result of `ls`.
    #[track_caller]
    pub fn sessions(&self) -> Vec<Value> {
        self.result()["sessions"].as_array().expect("a list").clone()
    }

    /// The only session whose id is this.
    #[track_caller]
    pub fn session(&self, id: &str) -> Value {
        let found: Vec<Value> =
            self.sessions().into_iter().filter(|session| session["id"] == id).collect();
        assert_eq!(found.len(), 1, "sessions `{id}` in {self:?}");
        found[0].clone()
    }
}
