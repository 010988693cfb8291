//! Asks the `ostler` binary under test, as a user of the agent's scratch home would.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The binary and the home it looks at.
#[derive(Debug)]
pub(crate) struct Ostler {
    binary: PathBuf,
    home: PathBuf,
}

impl Ostler {
    pub(crate) fn new(binary: &Path, home: &Path) -> Ostler {
        Ostler { binary: binary.to_owned(), home: home.to_owned() }
    }

    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }

    fn output(&self, arguments: &[&str]) -> Result<String, String> {
        let shown = format!("ostler {}", arguments.join(" "));
        let output = Command::new(&self.binary)
            .args(arguments)
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", "/usr/bin:/bin")
            .current_dir(&self.home)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{shown}: {error}"))?;
        // 12 is a right answer that is not complete; the caller looks at `incomplete`.
        if !output.status.success() && output.status.code() != Some(12) {
            let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
            said.push_str(&String::from_utf8_lossy(&output.stdout));
            let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
            let said: String = said.chars().take(300).collect();
            return Err(format!("{shown}: {}: {said}", output.status));
        }
        String::from_utf8(output.stdout).map_err(|error| format!("{shown}: {error}"))
    }

    /// `ls -a --json`: the result.
    pub(crate) fn list(&self) -> Result<Value, String> {
        let result = self.result(&["ls", "-a", "--json"])?;
        match result["sessions"].is_array() {
            true => Ok(result),
            false => Err(format!("ostler ls -a --json: no sessions in {result}")),
        }
    }

    /// The result of any command that answers in JSON.
    pub(crate) fn result(&self, arguments: &[&str]) -> Result<Value, String> {
        let text = self.output(arguments)?;
        let shown = format!("ostler {}", arguments.join(" "));
        let mut envelope: Value =
            serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}"))?;
        if envelope["ok"] != true {
            return Err(format!("{shown}: no result in {text}"));
        }
        Ok(envelope["result"].take())
    }

    /// `logs <id> --json`, one object or one per line: every string in it.
    pub(crate) fn log_texts(&self, id: &str) -> Result<Vec<String>, String> {
        let text = self.output(&["logs", id, "--json"])?;
        let mut found = Vec::new();
        for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
            let value = value.map_err(|error| format!("ostler logs {id} --json: {error}"))?;
            strings(&value, &mut found);
        }
        Ok(found)
    }
}

fn strings(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| strings(value, found)),
        Value::Object(members) => members.values().for_each(|value| strings(value, found)),
        _ => {}
    }
}
