//! Recordings as frames, and the lines that scrolled away.

use schemars::JsonSchema;
use serde::Serialize;

use super::SnapshotLine;

/// A stretch of text: what it says, the number of its style, and 1 if it is one wide grapheme.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum FrameRun {
    /// One column for each character.
    Plain(String, usize),
    /// Two columns for one grapheme.
    Wide(String, usize, u8),
}

/// A moment of a recording, as `ostler frames` prints it: what changed on the screen.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RecordingFrame {
    /// Milliseconds since the first event.
    pub t: u64,
    /// Columns and rows; everything before is void.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<(u16, u16)>,
    /// Styles that are used for the first time, as CSS; their numbers go on from 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub css: Vec<String>,
    /// Rows that changed: their number, from 0, and what stands there now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<(usize, Vec<FrameRun>)>,
    /// Row and column of the cursor, unless it is hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<(u16, u16)>,
    /// A mark that was set here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

/// The result of `scrollback`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScrollbackResult {
    pub session_id: String,
    /// How many lines scrolled away and are kept.
    pub total: usize,
    /// Some of them, the oldest first.
    pub lines: Vec<SnapshotLine>,
}
