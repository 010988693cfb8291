//! Looking at a terminal: snapshots (data) and screenshots (pictures).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// The result of `snapshot`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotResult {
    /// In which form.
    pub format: SnapshotFormat,
    pub session_id: String,
    /// The last event behind the screen; -1 before the first.
    pub captured_at_seq: i64,
    pub cols: u16,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible_lines: Option<Vec<SnapshotLine>>,
    /// The rows that scrolled away, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrollback_lines: Option<Vec<SnapshotLine>>,
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

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotCell {
    pub char: String,
    /// Its colour, if it has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fg: Option<String>,
    /// The colour behind it, if it has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bg: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bold: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub italic: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub underline: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strikethrough: bool,
}

/// The result of `screenshot`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScreenshotResult {
    pub session_id: String,
    /// The last event behind the screen.
    pub captured_at_seq: i64,
    /// The profile it was drawn with.
    pub profile_name: String,
    pub cols: u16,
    pub rows: u16,
    pub artifact_path: String,
    pub png_size_bytes: u64,
    /// Whether the cursor is drawn.
    pub cursor_visible: bool,
    /// What drew it.
    pub renderer_backend: String,
    pub pixel_width: u32,
    pub pixel_height: u32,
    pub sha256: String,
    /// The hash of the profile.
    pub render_profile_hash: String,
}
