//! Answers about directories that are busy or locked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;
use crate::wire::IncompleteSource;

/// Why a directory is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LockKind {
    /// A session that is live, or may be, works in it.
    Busy,
    /// It is locked.
    Manual,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LockView {
    /// Why it is listed.
    pub kind: LockKind,
    /// The worktree or directory; of a lock, where it was when it was locked.
    pub path: String,
    /// Whether it is no longer at that path. The lock follows it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moved: bool,
    /// The sessions that work there, as `agent:id`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<String>,
    /// Who locked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when it is locked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// The pid of the process that it was locked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_pid: Option<u32>,
    /// Whether that process is proven to be gone: the lock no longer holds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

/// The result of `locks`, `lock` and `unlock`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocksResult {
    /// The directories: of `lock` the one that is locked, of `unlock` the one that was.
    pub locks: Vec<LockView>,
    /// Whose lock was taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_from: Option<String>,
    /// Who did it: `daemon` or `local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// What could not be read: more directories may be busy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<IncompleteSource>,
}
