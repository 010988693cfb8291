//! Batches: several steps in one request, and the result of each.

use schemars::JsonSchema;
use serde::Serialize;

/// One step of a `batch`, when it is over.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRecord {
    /// Its place, from 0.
    pub index: usize,
    /// How long it took.
    pub duration_ms: u64,
    /// What it was.
    pub kind: &'static str,
    /// `completed`, `failed`, `not-run` or `interrupted`.
    pub status: &'static str,
    /// The event it made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Run: whether no client waited for its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_wait: Option<bool>,
    /// Run: whether its end was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<bool>,
    /// Wait: the event whose screen was the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_baseline: Option<i64>,
    /// Wait: whether it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched: Option<bool>,
    /// Run and wait: whether the time was up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<bool>,
    /// Run: `completed`, `timedOut`, `sessionExited` or `started`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_outcome: Option<&'static str>,
    /// Run: how it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Wait: what the pattern matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched_text: Option<String>,
    /// Wait: the last event behind the screen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub captured_at_seq: Option<i64>,
    /// Wait: the screen's hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub screen_hash: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<StepError>,
}

/// Why a step failed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StepError {
    /// The stable code.
    pub code: &'static str,
    pub message: String,
}

/// The result of `batch`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchResult {
    pub steps: Vec<StepRecord>,
    /// How many were completed.
    pub completed_count: usize,
    pub failed_indices: Vec<usize>,
}
