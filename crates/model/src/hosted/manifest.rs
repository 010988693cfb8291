//! `session.json`: what a hosted session is and how it ended.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::Status;
use crate::time::Time;

/// The manifest of a hosted session. Strict: a field that is not here makes it invalid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionManifest {
    /// The version of the format: 1.
    pub version: u32,
    /// The session's id.
    pub session_id: String,
    /// When it was created.
    pub created_at: Time,
    /// When this was last written.
    pub updated_at: Time,
    /// The lifecycle state, as last written down.
    pub status: Status,
    /// Why it failed, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_origin: Option<FailureOrigin>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where it was started.
    pub cwd: String,
    /// A name that a person gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Variables that were given on creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// The shell that would be run without a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// The terminal that the program believes to be on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<String>,
    pub cols: u16,
    pub rows: u16,
    /// Columns on creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_cols: Option<u16>,
    /// Rows on creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_rows: Option<u16>,
    /// After how long without input or output it is hung up; absent for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// The host's pid; null once a dead host was noticed.
    pub host_pid: Option<u32>,
    /// The program's pid; null once a dead host was noticed.
    pub child_pid: Option<u32>,
    /// How the program ended; 0 when a signal ended it.
    pub exit_code: Option<i32>,
    /// The number of the signal that ended it.
    pub exit_signal: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureOrigin {
    /// The host process ended before the session did.
    HostDeath,
    /// The screen could not be drawn.
    RendererFailure,
    /// Files of the session are damaged.
    StorageCorruption,
    Unknown,
}

/// How a session ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TerminationCategory {
    /// It has not.
    Running,
    /// The program ended with 0.
    CleanExit,
    /// The program ended with another code.
    NonzeroExit,
    /// A signal ended the program.
    SignalExit,
    /// The host process ended before the session did.
    HostDeath,
    /// The screen could not be drawn.
    RendererFailure,
    /// Files of the session are damaged.
    StorageCorruption,
    /// It was destroyed on request.
    Destroyed,
    /// It is not known.
    Unknown,
}

impl TerminationCategory {
    /// The word of the JSON contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::CleanExit => "clean-exit",
            Self::NonzeroExit => "nonzero-exit",
            Self::SignalExit => "signal-exit",
            Self::HostDeath => "host-death",
            Self::RendererFailure => "renderer-failure",
            Self::StorageCorruption => "storage-corruption",
            Self::Destroyed => "destroyed",
            Self::Unknown => "unknown",
        }
    }
}

/// How a program ended: by itself or by a signal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgramExit {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal's number or name, as its host noted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_signal: Option<String>,
}

impl SessionManifest {
    /// How its program ended, if that was noted. Beside a signal the code means nothing.
    pub fn program_exit(&self) -> Option<ProgramExit> {
        let exit_signal = self.exit_signal.clone();
        let exit_code = self.exit_code.filter(|_| exit_signal.is_none());
        (exit_code.is_some() || exit_signal.is_some())
            .then_some(ProgramExit { exit_code, exit_signal })
    }

    /// How it ended.
    pub fn termination_category(&self) -> TerminationCategory {
        if self.status.is_destroyed() {
            return TerminationCategory::Destroyed;
        }
        if self.status.is_active() {
            return TerminationCategory::Running;
        }
        match (self.failure_origin, &self.exit_signal, self.exit_code) {
            (Some(FailureOrigin::HostDeath), ..) => TerminationCategory::HostDeath,
            (Some(FailureOrigin::RendererFailure), ..) => TerminationCategory::RendererFailure,
            (Some(FailureOrigin::StorageCorruption), ..) => TerminationCategory::StorageCorruption,
            (_, Some(_), _) => TerminationCategory::SignalExit,
            (_, None, Some(0)) => TerminationCategory::CleanExit,
            (_, None, Some(_)) => TerminationCategory::NonzeroExit,
            (_, None, None) => TerminationCategory::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
        "version": 1, "sessionId": "01J", "createdAt": "2026-11-15T10:00:00.000Z",
        "updatedAt": "2026-11-15T10:00:01.000Z", "status": "running", "command": ["/bin/sh"],
        "cwd": "/", "cols": 80, "rows": 24, "hostPid": 4, "childPid": 5, "exitCode": null,
        "exitSignal": null
    }"#;

    #[test]
    fn nulls_are_written_only_where_the_format_has_them() {
        let manifest: SessionManifest = serde_json::from_str(TEXT).unwrap();
        let value = serde_json::to_value(&manifest).unwrap();
        assert_eq!(value, serde_json::from_str::<serde_json::Value>(TEXT).unwrap());
    }

    #[test]
    fn an_unknown_field_makes_it_invalid() {
        let text = TEXT.replacen("\"version\"", "\"extra\": 1, \"version\"", 1);
        assert!(serde_json::from_str::<SessionManifest>(&text).is_err());
    }

    #[test]
    fn every_end_has_its_word() {
        let running: SessionManifest = serde_json::from_str(TEXT).unwrap();
        let ended = |status, code, signal: Option<&str>, origin| SessionManifest {
            status,
            exit_code: code,
            exit_signal: signal.map(str::to_owned),
            failure_origin: origin,
            ..running.clone()
        };
        let words = [
            running.clone(),
            ended(Status::Exited, Some(0), None, None),
            ended(Status::Exited, Some(3), None, None),
            ended(Status::Exited, Some(0), Some("9"), None),
            ended(Status::Failed, None, None, Some(FailureOrigin::HostDeath)),
            ended(Status::Destroyed, Some(0), Some("1"), None),
            ended(Status::Destroying, None, None, None),
            ended(Status::Failed, None, None, None),
        ]
        .map(|manifest| manifest.termination_category().as_str());
        assert_eq!(
            words,
            [
                "running",
                "clean-exit",
                "nonzero-exit",
                "signal-exit",
                "host-death",
                "destroyed",
                "running",
                "unknown"
            ]
        );
    }
}
