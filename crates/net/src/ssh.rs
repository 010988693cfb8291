//! ssh as a way to a hub or a member that the hub does not reach: one command, no shared connections.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use model::helper::{HelperFailure, HelperFailureKind};
use model::wire::{FleetJoinResult, FleetLevel};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::membership::{ask_to_join, take_answer};
use crate::ssh_target::check_target;
use crate::timeouts::SSH_TIMEOUT;

/// How much of an answer is read.
const MOST_ANSWER_BYTES: u64 = 16 << 20;

/// Quotes an argument for a POSIX shell: any content stays one word.
pub fn quote_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// What a command printed on another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshRun {
    /// How it ended; ssh itself ends with 255.
    pub exit: u8,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it, or ssh, complained about.
    pub stderr: String,
}

/// What ssh ends with when it is ssh that failed.
pub const SSH_FAILED: u8 = 255;

/// Runs `ostler` on another machine. A machine that does not answer in time is an error; the child is
/// killed with the value that holds it.
pub async fn run_by_ssh(
    target: &str,
    words: &[String],
    timeout: Duration,
) -> Result<SshRun, HelperFailure> {
    check_target(target)?;
    let line: Vec<String> =
        std::iter::once("ostler").chain(words.iter().map(String::as_str)).map(quote_word).collect();
    let mut child = Command::new("ssh")
        .args(["-T", "-n", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"])
        .args(["-o", "ControlPath=none", "--", target, &line.join(" ")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| unreachable_by_ssh(target, &format!("ssh cannot be started: {error}")))?;
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let answering = async {
        let reading = async {
            if let Some(stdout) = stdout {
                stdout.take(MOST_ANSWER_BYTES).read_to_end(&mut said).await?;
            }
            Ok::<_, std::io::Error>(())
        };
        let listening = async {
            if let Some(stderr) = stderr {
                stderr.take(64 << 10).read_to_end(&mut complained).await?;
            }
            Ok::<_, std::io::Error>(())
        };
        tokio::try_join!(reading, listening)?;
        child.wait().await
    };
    let ended = tokio::time::timeout(timeout, answering).await;
    let status = match ended {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => return Err(unreachable_by_ssh(target, &error.to_string())),
        Err(_) => {
            return Err(HelperFailure::new(
                HelperFailureKind::Timeout,
                format!("`{target}` did not answer by ssh in time"),
                "`ssh TARGET ostler version` must work without asking anything",
            ));
        }
    };
    let exit = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(SSH_FAILED);
    let stderr = String::from_utf8_lossy(&complained).trim().to_owned();
    Ok(SshRun { exit, stdout: said, stderr })
}

/// Runs `ostler` on another machine and returns its JSON result.
pub async fn ask_by_ssh(target: &str, words: &[&str]) -> Result<Value, HelperFailure> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let run = run_by_ssh(target, &words, SSH_TIMEOUT).await?;
    let envelope: Value = serde_json::from_slice(&run.stdout).unwrap_or_default();
    if envelope.get("ok") == Some(&Value::Bool(true)) {
        return Ok(envelope.get("result").cloned().unwrap_or_default());
    }
    match envelope.pointer("/error/message").and_then(Value::as_str) {
        Some(message) => {
            let hint = envelope.pointer("/error/hint").and_then(Value::as_str).unwrap_or("");
            Err(HelperFailure::new(
                HelperFailureKind::Refused,
                format!("{target} says: {message}"),
                hint,
            ))
        }
        None => Err(unreachable_by_ssh(target, &format!("exit {}: {}", run.exit, run.stderr))),
    }
}

/// A machine that ssh does not reach.
pub fn unreachable_by_ssh(target: &str, reason: &str) -> HelperFailure {
    HelperFailure::new(
        HelperFailureKind::Unreachable,
        format!("`{target}` was not reached by ssh: {reason}"),
        "`ssh TARGET ostler version` must work without asking anything",
    )
}

/// Asks a hub through ssh to admit this home, and joins with its answer.
pub async fn join_by_ssh(
    home: &Path,
    target: &str,
    name: &str,
    level: FleetLevel,
    new: bool,
) -> Result<FleetJoinResult, HelperFailure> {
    let asked = ask_to_join(home, name, level, new)?;
    let request = asked.request.unwrap_or_default();
    // Whoever may run commands there could say so there.
    let words = ["--json", "fleet", "admit", &request, "--level", level.as_str()];
    let admitted = ask_by_ssh(target, &words).await?;
    let answer = admitted.get("answer").and_then(Value::as_str).unwrap_or_default();
    take_answer(home, answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_72_arguments_stay_one_word() {
        for text in
            ["", "a b", "$(touch x)", "`x`", "a'b", "a\"b", "a\\b", ";", "\n", "*", "~", "!x", "ü"]
        {
            let line = format!("printf %s {}", quote_word(text));
            let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
    }
}
