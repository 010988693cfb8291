//! Runs the binary in a home of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use testkit::home::{TempHome, lay_out_samples};

/// A home with the fixtures of every adapter, as the agents would have written them.
pub(crate) fn sample_home() -> TempHome {
    let home = TempHome::new();
    lay_out_samples(&home, &fixtures());
    home
}

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../adapters/fixtures")
}

/// The binary, with nothing in its environment but the home.
pub(crate) fn ostler(home: &TempHome) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    command
        .env_clear()
        .env("HOME", home.path())
        .env("XDG_RUNTIME_DIR", home.join("run"))
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .current_dir(home.path())
        .stdin(Stdio::null());
    command
}

/// What a run printed.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Fails the test unless the exit code is this.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// The whole envelope.
    #[track_caller]
    pub(crate) fn envelope(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The result in the envelope.
    #[track_caller]
    pub(crate) fn result(&self) -> Value {
        let mut envelope = self.envelope();
        assert_eq!(envelope["ok"], true, "{self:?}");
        envelope["result"].take()
    }

    /// The sessions in the result of `ls`.
    #[track_caller]
    pub(crate) fn sessions(&self) -> Vec<Value> {
        self.result()["sessions"].as_array().unwrap().clone()
    }

    /// The only session whose id is this.
    #[track_caller]
    pub(crate) fn session(&self, id: &str) -> Value {
        let found: Vec<Value> =
            self.sessions().into_iter().filter(|session| session["id"] == id).collect();
        assert_eq!(found.len(), 1, "sessions `{id}` in {self:?}");
        found[0].clone()
    }
}

/// Runs a command line, split at spaces.
#[track_caller]
pub(crate) fn run(home: &TempHome, line: &str) -> Ran {
    ran(ostler(home).args(line.split_whitespace()))
}

/// Runs a command to its end.
#[track_caller]
pub(crate) fn ran(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().unwrap();
    Ran {
        code: status.code().unwrap_or(-1),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

/// A Claude Code transcript of one finished turn.
pub(crate) fn claude_transcript(id: &str, cwd: &str, prompt: &str) -> String {
    let prompt = serde_json::to_string(prompt).unwrap();
    format!(
        r#"{{"type":"user","sessionId":"{id}","cwd":"{cwd}","gitBranch":"main","version":"2.1.325","timestamp":"2026-11-15T10:00:00.000Z","message":{{"role":"user","content":{prompt}}}}}
{{"type":"assistant","sessionId":"{id}","cwd":"{cwd}","gitBranch":"main","version":"2.1.325","timestamp":"2026-11-15T10:00:05.000Z","message":{{"id":"msg_{id}","role":"assistant","model":"claude-opus-5-5","content":[{{"type":"text","text":"done"}}],"stop_reason":"end_turn","usage":{{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":2,"cache_creation_input_tokens":1}}}}}}
"#
    )
}

/// Writes such a transcript where Claude Code would.
pub(crate) fn claude_session(home: &TempHome, id: &str, cwd: &str, prompt: &str) -> PathBuf {
    let slug = cwd.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    home.write(format!(".claude/projects/{slug}/{id}.jsonl"), claude_transcript(id, cwd, prompt))
}
