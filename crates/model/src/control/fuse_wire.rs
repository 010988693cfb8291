//! Answers about fuses.

use schemars::JsonSchema;
use serde::Serialize;

use super::fuses::{FuseState, LatePolicy, ResumeAtReset};
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FuseView {
    pub id: String,
    /// How far it has come.
    pub state: FuseState,
    /// The agent of the session that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The directory: the session's, or the one that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// `stop`, `event`, `exec` or `resume`.
    pub action: String,
    /// The program that is run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// How the conversation is to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<ResumptionView>,
    /// When it comes due; of one that waits for silence, if there is no sign of life until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Time>,
    /// The silence that it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// What is done if its time is missed.
    pub late: LatePolicy,
    /// When it was set.
    pub created_at: Time,
    pub created_by: String,
    /// When it came due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fired_at: Option<Time>,
    /// What became of it, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// A conversation that goes on once its usage limit is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumptionView {
    /// The file that holds the prompt.
    pub file: String,
    /// How often it was tried, and ran into the limit again.
    pub tries: u32,
    /// How often it is tried at most.
    pub max: u32,
    /// After which time it is not tried any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

impl From<&ResumeAtReset> for ResumptionView {
    fn from(plan: &ResumeAtReset) -> Self {
        Self { file: plan.file.clone(), tries: plan.tries, max: plan.max, until: plan.until }
    }
}

/// The result of every `fuse` command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FusesResult {
    /// The fuses: those that are pending, or the one that was set or changed.
    pub fuses: Vec<FuseView>,
    /// Whether a daemon runs; nothing fires without one.
    pub daemon: bool,
}
