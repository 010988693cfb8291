//! What programs read about access sessions.

use schemars::JsonSchema;
use serde::Serialize;

use crate::rules::log::AccessLogEntry;
use model::time::Time;

/// One access session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessView {
    /// The name of its directory.
    pub id: String,
    /// `active`, `expired`, `stopped` or `unknown`.
    pub state: &'static str,
    /// Why it is unknown: a `SKIP_` code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The same in words, or another remark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AccessAgentView>,
    /// Whether the process that serves its socket is there: `alive`, `dead` or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keeper: Option<&'static str>,
    /// When it was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// When its keys expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// When it was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<Time>,
    /// What a person called it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyView>,
    /// The socket that is lent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// Whether each use of a key asks a person.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub confirm: bool,
    /// Whether the borrower may not add keys.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Where the keys may be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<String>,
    /// The session it is lent to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<BoundView>,
}

/// The agent of an access session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AccessAgentView {
    /// `present`, `absent` or `unknown`.
    pub presence: &'static str,
    /// A reason code.
    pub reason: &'static str,
    pub pid: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KeyView {
    pub fingerprint: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// The session that an access is lent to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BoundView {
    pub agent: String,
    pub id: String,
    /// The pid it had.
    pub pid: u32,
    /// Whether that process is there: `alive`, `dead` or `unknown`.
    pub owner: &'static str,
}

/// The result of `access list`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AccessListResult {
    pub sessions: Vec<AccessView>,
}

/// The result of `access show`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AccessShowResult {
    pub session: AccessView,
}

/// The result of `access open` and `access env`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AccessEnvResult {
    pub id: String,
    /// When its keys expire.
    #[serde(rename = "expiresAt")]
    pub expires_at: Time,
    /// The variables that lend it.
    pub environment: LentEnvironment,
    pub keys: Vec<KeyView>,
}

/// What a borrower's environment needs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LentEnvironment {
    /// `SSH_AUTH_SOCK`.
    pub ssh_auth_sock: String,
    /// `SSH_AGENT_PID`.
    pub ssh_agent_pid: u32,
}

/// The result of `access stop`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AccessStopResult {
    /// One for each session that was chosen.
    pub sessions: Vec<StoppedView>,
}

/// What was done about one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StoppedView {
    pub id: String,
    /// `stopped`, `refused`, `unproven`, `still-running`, or `would-stop`.
    pub outcome: &'static str,
    pub detail: String,
}

/// The result of `access prune`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessPruneResult {
    /// Nothing was changed.
    pub dry_run: bool,
    /// One for each entry.
    pub items: Vec<PruneView>,
    /// How many were removed, or would be.
    pub pruned: usize,
    /// How many were kept.
    pub skipped: usize,
    /// How many could not be removed although they might.
    pub failed: usize,
    /// The receipt of what went: `ostler trash ls` shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
}

/// What was done about one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PruneView {
    /// `remove` or `skip`.
    pub action: &'static str,
    /// `access`, or `access-log` for the log of a session that is gone.
    pub kind: &'static str,
    pub id: String,
    /// `PRUNED`, `PRUNED_LOG`, a `SKIP_` code, or `FAIL_REMOVE`; under `--dry-run` `WOULD_PRUNE`,
    /// `WOULD_PRUNE_LOG`, or the code with `WOULD_` in front.
    pub code: String,
    pub reason: String,
}

/// The result of `access log`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AccessLogResult {
    pub id: String,
    /// Oldest first.
    pub entries: Vec<AccessLogEntry>,
    /// How many lines could not be understood.
    #[serde(skip_serializing_if = "is_zero")]
    pub damaged: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}
