//! The results of `ostler setup` and `ostler service`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{FileChange, HookAgent, HookProblem};

/// The result of `setup`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetupResult {
    /// Whether it is taken back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
    /// Whether nothing was written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Whether anything is, or would be, different afterwards.
    pub changes: bool,
    /// The agents that were found, and their hooks.
    pub hooks: Vec<HookAgent>,
    /// The shells that were found, and their completions.
    pub completions: Vec<SetupCompletion>,
    /// The daemon as a service of the user.
    pub service: ServiceResult,
}

/// The completions of one shell.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetupCompletion {
    pub shell: String,
    /// Where they are.
    pub path: String,
    /// What came of the file, or would.
    pub change: FileChange,
    /// The change, line by line; only where nothing was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// What a person should know or do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Why nothing was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The result of `service install`, `service uninstall` and `service status`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceResult {
    /// The service manager of the user, if one answers: `systemd` or `launchd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<&'static str>,
    /// The unit's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// What came of that file, or would; absent where it was only looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<FileChange>,
    /// The change, line by line; only where nothing was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Whether there is a unit.
    pub installed: bool,
    /// Whether it is started with the user's session.
    pub enabled: bool,
    /// Whether it runs.
    pub active: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Whether it goes on after the user has logged out, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linger: Option<bool>,
    /// What a person should know or do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why nothing was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<HookProblem>,
}

/// The result of `service logs`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceLogsResult {
    /// Where they were read: `journal`, or a file.
    pub source: String,
    /// The last lines.
    pub lines: Vec<String>,
}

/// One line of `service logs --follow`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceLogLine {
    /// As it was said.
    pub line: String,
}
