//! Answers about what hooks told, what ended and what was kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{IncompleteSource, SessionView};
use crate::summary::KeptSession;
use crate::time::Time;

/// One event: a report of a hook, or something ostler did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventView {
    /// Where to go on: `--since CURSOR` gives what came after.
    pub cursor: i64,
    /// When it happened.
    pub at: Time,
    /// What: a happening of a hook, `exited` or `condensed`.
    pub kind: String,
    pub agent: String,
    /// The agent's own session id.
    pub session: String,
    /// More about it.
    pub detail: serde_json::Value,
}

/// A session that a sweep dealt with, or left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SweptSession {
    pub agent: String,
    /// The agent's own session id.
    pub session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The last evidence of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Why it was ended or left alone.
    pub reason: String,
    /// In a preview: the process that had it, `pid:start`, as `finalize --identity` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SweepResult {
    /// Reports that were taken in from the spool.
    pub reports: u64,
    /// Lines of the spool that could not be understood; they are kept beside it.
    pub rejected: u64,
    /// Sessions that were ended, because their owner is gone.
    pub ended: Vec<SweptSession>,
    /// Sessions that were condensed into the vault.
    pub condensed: Vec<SweptSession>,
    /// Open sessions that were left alone although their owner was not seen alive.
    pub kept: Vec<SweptSession>,
    /// Sessions that are over and wait to be condensed.
    pub pending: u64,
    /// Notes of agents that were started and are long gone; they went to the trash.
    #[serde(default, skip_serializing_if = "is_none")]
    pub launches: u64,
    /// Whether nothing was changed, because only a preview was asked for.
    pub dry_run: bool,
}

/// The result of `status`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusResult<'a> {
    /// The directory that was asked about; none for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// The other worktrees of its repository, which were looked at too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub worktrees: Vec<String>,
    /// Sessions that are active there.
    pub sessions: Vec<SessionView<'a>>,
    /// Sessions that ended there in the last day, as far as hooks told of them.
    pub ended: Vec<SweptSession>,
    /// What the sweep did, unless there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swept: Option<SweepResult>,
    /// Why there was no sweep although one was wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_swept: Option<String>,
    /// What could not be read.
    pub incomplete: &'a [IncompleteSource],
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckGrade {
    /// As it should be.
    Ok,
    Note,
    /// Something is wrong.
    Problem,
}

/// One thing that `doctor` looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoctorFinding {
    /// What was looked at.
    pub check: String,
    /// How it is.
    pub grade: CheckGrade,
    /// What was found.
    pub found: String,
    /// What can be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Whether `doctor --fix` does that.
    pub fixable: bool,
}

/// The result of `doctor`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoctorResult {
    /// Whether nothing is wrong.
    pub healthy: bool,
    /// Everything that was looked at.
    pub findings: Vec<DoctorFinding>,
    /// What the sweep did, unless there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swept: Option<SweepResult>,
    /// What `--fix` did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Vec<String>>,
    /// The tarball that `--bundle` wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleView>,
}

/// A tarball for a bug report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleView {
    /// Where it is.
    pub path: String,
    /// What is in it.
    pub files: Vec<BundledFile>,
}

/// One file of a tarball.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundledFile {
    pub name: String,
    /// How long it is.
    pub bytes: usize,
}

impl DoctorFinding {
    /// All is well.
    pub fn ok(check: impl Into<String>, found: impl Into<String>) -> Self {
        let (check, found) = (check.into(), found.into());
        Self { check, grade: CheckGrade::Ok, found, remedy: None, fixable: false }
    }

    pub fn note(
        check: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { grade: CheckGrade::Note, remedy: Some(remedy.into()), ..Self::ok(check, found) }
    }

    /// Something is wrong.
    pub fn problem(
        check: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { grade: CheckGrade::Problem, ..Self::note(check, found, remedy) }
    }
}

/// The result of `vault ls`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VaultLsResult {
    /// What the vault holds, the newest first.
    pub kept: Vec<KeptSession>,
    /// How many bytes the originals had.
    pub bytes: u64,
    /// How many bytes the copies have.
    pub kept_bytes: u64,
}

/// The result of `vault verify`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VaultVerifyResult {
    /// Files that are what they should be.
    pub sound: u64,
    /// Files that are not, and why.
    pub damaged: Vec<IncompleteSource>,
}

/// The result of `vault restore` and `vault export`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VaultWrittenResult {
    /// The files that were written.
    pub written: Vec<String>,
    /// How many secrets were taken out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redacted: Option<u64>,
    /// What kinds of secrets these were. Redaction is best effort: a kind that is not here may be in
    /// the text all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redaction: Option<RedactionView>,
}

/// What redaction found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedactionView {
    /// Always true: secrets of an unknown form stay in.
    pub best_effort: bool,
    /// The kinds, by name.
    pub kinds: Vec<SecretKindCount>,
}

/// How many secrets of one kind were taken out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKindCount {
    /// The kind, e.g. `github-token` or `url-password`.
    pub kind: String,
    pub count: u64,
}

/// The result of `daemon status`, `start` and `stop`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonResult {
    /// Whether it runs.
    pub running: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// When it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    pub socket: String,
    /// How many owners it watches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watching: Option<u64>,
}
