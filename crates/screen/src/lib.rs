//! A terminal's screen: bytes in; text, cells, hash, picture and recordings out.
//!
//! No files, no processes, no clock. [`Screen`] is the only door to the emulator: a fault behind it
//! becomes a blank screen and a word in [`ScreenOutput`], never the end of a session. All of its state is
//! plain data, so [`Screen::to_keyframe`] holds the whole of it and a screen that is read back goes on
//! as if it had never stopped.

#![forbid(unsafe_code)]

mod cell;
mod contract;
pub mod export;
mod grid;
mod history;
mod keyframe;
pub mod keys;
mod line;
mod palette;
mod parser;
pub mod png;
mod redraw;
pub mod runs;
mod screen;
mod sequence;
mod term;

pub use cell::{Attrs, Color, Style};
pub use contract::{Personality, PromptMark, ScreenEvent, ScreenLimits, ScreenSize};
pub use keyframe::KeyframeError;
pub use palette::Theme;
pub use redraw::RESTORE;
pub use screen::{CursorShape, Screen, ScreenCursor, ScreenOutput, StyledCell, hash_rows};
pub use term::modes::{Modes, MouseEncoding, MouseTracking};

/// A cell's size in pixels: what programs are told, and what the reference profiles draw.
pub const CELL_WIDTH: u32 = 8;
pub const CELL_HEIGHT: u32 = 16;
