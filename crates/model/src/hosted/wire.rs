//! Requests to a session's host and their answers, which are also what commands print as JSON.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SessionManifest, TerminationCategory};
use crate::time::Time;

mod batch;
mod ready;
mod recording;
mod snapshot;
mod submit;
mod wait;

pub use batch::{BatchResult, StepError, StepRecord};
pub use ready::{ReadyParams, ReadyResult};
pub use recording::{FrameRun, RecordingFrame, ScrollbackResult};
pub use snapshot::{
    ScreenshotParams, ScreenshotResult, SnapshotCell, SnapshotCells, SnapshotFormat, SnapshotLine,
    SnapshotParams, SnapshotResult,
};
pub use submit::{
    LONGEST_SUBMISSION, SubmissionProofAnswer, SubmissionProofParams, SubmissionState,
    SubmitParams, SubmitResult,
};
pub use wait::{AgentSeen, AwaitedSession, RenderParams, WaitParams, WaitResult};

const fn default_true() -> bool {
    true
}

/// Nothing is asked for but the request itself.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InspectParams {}

/// Nothing is asked for but the request itself.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyframeParams {}

/// The screen itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeyframeResult {
    /// The last event behind it; -1 before the first.
    pub seq: i64,
    /// The screen, in base64.
    pub keyframe: String,
}

/// Text to be typed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeParams {
    pub text: String,
    /// Who, for the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Text to be pasted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PasteParams {
    pub text: String,
    /// Brackets around it whether or not the program asked for them.
    #[serde(default = "default_true")]
    pub bracketed: bool,
    /// Who, for the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A command for the shell.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunParams {
    pub command: String,
    /// Do not wait for its end.
    #[serde(default)]
    pub no_wait: bool,
    /// How long to wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Return what it printed.
    #[serde(default)]
    pub capture: bool,
    /// Who, for the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkParams {
    /// What it says.
    pub label: String,
}

/// Keys to press.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeysParams {
    pub keys: Vec<String>,
    /// Only the keys and encodings that agent-tty knows.
    #[serde(default)]
    pub plain: bool,
    /// Who, for the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A new size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dimensions {
    pub cols: u16,
    pub rows: u16,
}

/// A signal to send.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignalParams {
    pub signal: String,
    /// To the whole group.
    #[serde(default)]
    pub group: bool,
}

/// How to end the session.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestroyParams {
    #[serde(default)]
    pub force: bool,
    /// Answer when it is over, not when it has begun.
    #[serde(default)]
    pub wait: bool,
}

/// A viewer that wants to see, and perhaps write.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttachParams {
    /// The size of the viewer's terminal.
    #[serde(default)]
    pub size: Option<Dimensions>,
    /// Only look.
    #[serde(default)]
    pub read_only: bool,
    /// Take the keyboard away from its holder.
    #[serde(default)]
    pub take: bool,
    /// Who, for the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What a viewer is told before the stream begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachResult {
    pub session_id: String,
    /// The size of the terminal.
    pub cols: u16,
    /// The size of the terminal.
    pub rows: u16,
    /// Whether what it types reaches the program.
    pub writer: bool,
    /// How many viewers there are, this one counted.
    pub viewers: usize,
}

/// The result of `create`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateResult {
    /// The new session.
    pub session_id: String,
    /// When it was created.
    pub created_at: Time,
    pub cols: u16,
    pub rows: u16,
    pub shell: String,
    /// The given variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// The idle timeout, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// The agent that was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The agent's own id of its conversation, where it could be chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_session: Option<String>,
}

/// The result of `type`, `paste` and `mark`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SeqResult {
    pub seq: u64,
}

/// The result of `send-keys`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeysResult {
    /// The keys as they were given.
    pub accepted: Vec<String>,
    /// How many bytes they were.
    pub bytes_written: usize,
    pub seq: u64,
}

/// The result of `run`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// Always true: the command was handed to the terminal.
    pub accepted: bool,
    /// Whether its end was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<bool>,
    /// Whether the time was up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<bool>,
    /// The event that began it.
    pub seq: u64,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Names the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What it printed, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Whether the beginning of `output` was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_truncated: Option<bool>,
}

/// What a host answers to `signal`: that it was done.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct SignalAnswer {}

/// The result of `signal`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SignalResult {
    pub signal: String,
    /// Always true.
    pub delivered: bool,
}

/// The result of `destroy`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DestroyResult {
    pub session_id: String,
    /// Always true.
    pub destroyed: bool,
}

/// What a live host says about its session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostReport {
    /// The manifest as the host has it.
    pub session: SessionManifest,
    /// The version of the host, as agent-tty counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cli_version: Option<String>,
    /// Where it listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpc_socket_path: Option<String>,
    /// What draws its screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renderer_backend: Option<String>,
    /// Whether that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renderer_booted: Option<bool>,
    /// Whether it is being started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renderer_boot_in_flight: Option<bool>,
    /// What only ostler's clients ask for.
    #[serde(flatten)]
    pub counts: Option<HostCounts>,
}

/// What a host of ostler's counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostCounts {
    /// Events so far.
    pub event_count: u64,
    /// The last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event_seq: Option<u64>,
    /// Bytes of the log.
    pub event_log_bytes: u64,
    /// Milliseconds since creation.
    pub uptime: u64,
    pub viewers: usize,
    /// Present while nothing can be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_paused: Option<LogPaused>,
    /// The host's version.
    pub version: String,
}

/// Why nothing is being recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogPaused {
    /// The system's answer.
    pub reason: String,
    /// Bytes of output that are missing so far.
    pub lost_bytes: u64,
    /// Events that are missing so far.
    pub lost_events: u64,
}

/// The result of `inspect`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InspectResult {
    /// The whole record.
    pub session: SessionManifest,
    /// Events in the log.
    pub event_count: u64,
    /// Milliseconds from creation until now or its end.
    pub uptime: u64,
    /// The last event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_event_seq: Option<u64>,
    /// How it ended.
    pub termination_category: TerminationCategory,
    /// What was made of it.
    pub artifacts: ArtifactsHealth,
    /// Whether the host was not asked.
    pub used_offline_replay: bool,
    /// What draws its screen.
    pub renderer_runtime: RendererRuntime,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostView>,
    /// Bytes of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_log_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub viewers: Option<usize>,
    /// Present while nothing can be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_paused: Option<LogPaused>,
    /// What is wrong with the log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log_problems: Vec<String>,
}

/// The artifacts of a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactsHealth {
    /// How many are listed.
    pub total: usize,
    pub by_kind: BTreeMap<String, usize>,
    /// How many of them are not there.
    pub missing_count: usize,
    /// In one word.
    pub health: &'static str,
    /// Which are not there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// What draws a session's screen.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RendererRuntime {
    pub backend: &'static str,
    /// `live-host` or `offline-replay`.
    pub mode: &'static str,
    /// `healthy`, `fallback` or `unavailable`.
    pub status: &'static str,
    /// Why the host was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// Of a live one under agent-tty's name: it draws already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub booted: Option<bool>,
    /// The same: whether it is being started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_in_flight: Option<bool>,
}

/// The host of a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cli_version: Option<String>,
    /// Where it listens.
    pub rpc_socket_path: String,
}

/// The result of `record export`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportResult {
    pub session_id: String,
    pub format: &'static str,
    /// Where it was written.
    pub artifact_path: String,
    /// How large it is.
    pub bytes: u64,
    pub sha256: String,
    /// The last event in it.
    pub captured_at_seq: i64,
    /// From the first to the last event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What is in it.
    pub metadata: ExportMetadata,
}

/// What is in a recording.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportMetadata {
    /// Columns at the start.
    pub width: u16,
    /// Rows at the start.
    pub height: u16,
    pub title: String,
    /// The first event, in seconds since 1970.
    pub timestamp: i64,
    pub output_event_count: u64,
    pub resize_event_count: u64,
    pub marker_count: u64,
}

/// The result of `verify`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyResult {
    pub session_id: String,
    /// Whether nothing is wrong.
    pub sound: bool,
    /// Events in the log.
    pub events: u64,
    /// Bytes of the log.
    pub bytes: u64,
    /// How much of it the chain of hashes covers.
    pub chained_bytes: u64,
    /// Whether every link of the chain holds; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_holds: Option<bool>,
    /// What is wrong, with its place.
    pub problems: Vec<String>,
}
