//! Requests to a session's host and their answers, which are also what commands print as JSON.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SessionManifest, TerminationCategory};
use crate::time::Time;

mod wait;

pub use wait::{AgentSeen, RenderParams, WaitParams, WaitResult};

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
    /// The text.
    pub text: String,
}

/// Text to be pasted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PasteParams {
    /// The text.
    pub text: String,
    /// Brackets around it whether or not the program asked for them.
    #[serde(default = "default_true")]
    pub bracketed: bool,
}

/// A command for the shell.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunParams {
    /// The command.
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
}

/// A mark.
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
    /// Their names.
    pub keys: Vec<String>,
    /// Only the keys and encodings that agent-tty knows.
    #[serde(default)]
    pub plain: bool,
}

/// A new size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dimensions {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

/// A signal to send.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignalParams {
    /// Its name.
    pub signal: String,
    /// To the whole group.
    #[serde(default)]
    pub group: bool,
}

/// How to end the session.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestroyParams {
    /// At once.
    #[serde(default)]
    pub force: bool,
    /// Answer when it is over, not when it has begun.
    #[serde(default)]
    pub wait: bool,
}

/// Which screen is wanted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SnapshotParams {
    /// In which form.
    #[serde(default)]
    pub format: SnapshotFormat,
    /// With what has scrolled away.
    #[serde(default)]
    pub include_scrollback: bool,
    /// With every cell.
    #[serde(default)]
    pub include_cells: bool,
    /// Which of agent-tty's renderers is meant; there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renderer_name: Option<String>,
}

/// Which picture is wanted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScreenshotParams {
    /// The profile to draw with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// With the cursor.
    #[serde(default)]
    pub show_cursor: bool,
    /// Which of agent-tty's renderers is meant; there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renderer_name: Option<String>,
}

/// The form of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotFormat {
    /// Rows, and more on request.
    #[default]
    Structured,
    /// One text.
    Text,
}

impl SnapshotFormat {
    /// The word of the JSON contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Structured => "structured",
            Self::Text => "text",
        }
    }
}

/// A viewer that wants to see, and perhaps write.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttachParams {
    /// The size of the viewer's terminal.
    #[serde(default)]
    pub size: Option<Dimensions>,
    /// Only look.
    #[serde(default)]
    pub read_only: bool,
    /// Take the keyboard away from whoever has it.
    #[serde(default)]
    pub take: bool,
}

/// What a viewer is told before the stream begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachResult {
    /// The session.
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
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// The shell.
    pub shell: String,
    /// The given variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// The idle timeout, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
}

/// The result of `type`, `paste` and `mark`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SeqResult {
    /// The event.
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
    /// The event.
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
    /// Its name.
    pub signal: String,
    /// Always true.
    pub delivered: bool,
}

/// The result of `destroy`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DestroyResult {
    /// The session.
    pub session_id: String,
    /// Always true.
    pub destroyed: bool,
}

/// The result of `snapshot`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotResult {
    /// In which form.
    pub format: SnapshotFormat,
    /// The session.
    pub session_id: String,
    /// The last event behind the screen; -1 before the first.
    pub captured_at_seq: i64,
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// The cursor's row, from 0.
    pub cursor_row: u16,
    /// The cursor's column, from 0.
    pub cursor_col: u16,
    /// Hash of the visible rows.
    pub screen_hash: String,
    /// Whether a full-screen program has the screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_alt_screen: Option<bool>,
    /// The rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible_lines: Option<Vec<SnapshotLine>>,
    /// The rows that scrolled away, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrollback_lines: Option<Vec<SnapshotLine>>,
    /// Every cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cells: Option<Vec<SnapshotCells>>,
    /// The rows as one text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// One row of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotLine {
    /// Its place, from 0.
    pub row: usize,
    /// What it says, without blanks at the end.
    pub text: String,
}

/// The cells of one row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotCells {
    /// Its place, from 0.
    pub line_number: usize,
    /// By column; a wide character is followed by an empty one.
    pub cells: Vec<SnapshotCell>,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotCell {
    /// The character.
    pub char: String,
    /// Its colour, if it has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fg: Option<String>,
    /// The colour behind it, if it has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bg: Option<String>,
    /// Bold.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bold: bool,
    /// Italic.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub italic: bool,
    /// Underlined.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub underline: bool,
    /// Struck through.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strikethrough: bool,
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
    /// Who watches.
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
    /// Its host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostView>,
    /// Bytes of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_log_bytes: Option<u64>,
    /// Who watches.
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
    /// By kind.
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
    /// Its name.
    pub backend: &'static str,
    /// `live-host` or `offline-replay`.
    pub mode: &'static str,
    /// `healthy`, `fallback` or `unavailable`.
    pub status: &'static str,
    /// Why the host was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
}

/// The host of a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostView {
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cli_version: Option<String>,
    /// Where it listens.
    pub rpc_socket_path: String,
}

/// The result of `screenshot`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScreenshotResult {
    /// The session.
    pub session_id: String,
    /// The last event behind the screen.
    pub captured_at_seq: i64,
    /// The profile it was drawn with.
    pub profile_name: String,
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// The picture.
    pub artifact_path: String,
    /// Its size.
    pub png_size_bytes: u64,
    /// Whether the cursor is drawn.
    pub cursor_visible: bool,
    /// What drew it.
    pub renderer_backend: String,
    /// Its width.
    pub pixel_width: u32,
    /// Its height.
    pub pixel_height: u32,
    /// Its hash.
    pub sha256: String,
    /// The hash of the profile.
    pub render_profile_hash: String,
}

/// The result of `record export`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportResult {
    /// The session.
    pub session_id: String,
    /// The format.
    pub format: &'static str,
    /// Where it was written.
    pub artifact_path: String,
    /// How large it is.
    pub bytes: u64,
    /// Its hash.
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
    /// The session.
    pub title: String,
    /// The first event, in seconds since 1970.
    pub timestamp: i64,
    /// How many.
    pub output_event_count: u64,
    /// How many.
    pub resize_event_count: u64,
    /// How many.
    pub marker_count: u64,
}

/// The result of `verify`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyResult {
    /// The session.
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
    /// Run: whether nobody waited for its end.
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
    /// In words.
    pub message: String,
}

/// The result of `batch`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchResult {
    /// By step.
    pub steps: Vec<StepRecord>,
    /// How many were completed.
    pub completed_count: usize,
    /// Which failed.
    pub failed_indices: Vec<usize>,
}
