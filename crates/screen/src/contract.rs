//! What is agreed with a screen's user before and beside its text: size, limits, personality, events.
//!
//! A leaf: the emulator and [`crate::Screen`], which is made of it, both speak of these.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenSize {
    pub cols: u16,
    pub rows: u16,
}

impl ScreenSize {
    const MAX_CELLS: u32 = 1 << 20;

    /// The nearest size that a screen can have: at least one cell, at most about a million.
    pub fn clamped(self) -> ScreenSize {
        let cols = self.cols.max(1);
        let most_rows = Self::MAX_CELLS / u32::from(cols);
        ScreenSize { cols, rows: u32::from(self.rows).clamp(1, most_rows) as u16 }
    }

    pub(crate) fn is_sound(self) -> bool {
        self == self.clamped()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreenLimits {
    pub scrollback_lines: usize,
}

impl Default for ScreenLimits {
    fn default() -> Self {
        ScreenLimits { scrollback_lines: 10_000 }
    }
}

/// Whose behaviour is shown where the two names differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Personality {
    #[default]
    Ostler,
    AgentTty,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScreenEvent {
    Title(String),
    Bell,
    Mark(PromptMark),
}

/// The shell's marks around prompt and command (`OSC 133`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptMark {
    /// A prompt begins.
    Prompt,
    /// The prompt is over; what the user types follows.
    Command,
    /// The command runs; its output follows.
    Output,
    /// The command ended.
    End { exit: Option<i32> },
}
