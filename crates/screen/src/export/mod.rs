//! Recordings in other formats, written as they are read: memory does not depend on their length.
//!
//! Each format is a [`RecordingWriter`]. A recorder is given every event with its time since the first one,
//! in order, and is then finished.

mod cast;
mod film;
mod frames;
mod gif;
mod html;
mod txt;

use std::io;
use std::time::Duration;

pub use cast::{CastV2, CastV3};
pub use film::{FRAMES_A_SECOND, FilmMarks, FilmSettings, FilmWriter, RawVideo};
pub use frames::FrameLines;
pub use gif::Gif;
pub use html::Html;
pub use txt::Txt;

use crate::contract::ScreenSize;

/// What is known before the first event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingHeader<'a> {
    /// The size at the start, not the latest one.
    pub size: ScreenSize,
    /// Seconds since 1970 of the first event.
    pub timestamp: i64,
    pub title: &'a str,
    pub session_id: &'a str,
    pub term: &'a str,
    pub tool_version: &'a str,
}

/// One event of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordingEvent<'a> {
    /// The program's output, exactly; a character may be cut in two.
    Output(&'a [u8]),
    Input(&'a str),
    Resize(ScreenSize),
    Marker(&'a str),
    Exit(i32),
}

pub trait RecordingWriter {
    fn record(&mut self, time: Duration, item: RecordingEvent<'_>) -> io::Result<()>;

    /// Writes what is left. Nothing may be recorded after it.
    fn finish(&mut self) -> io::Result<()>;
}

/// Text from bytes whose characters may be cut between events: a cut character waits for its end.
#[derive(Debug, Default)]
struct Utf8Decoder {
    pending: Vec<u8>,
}

impl Utf8Decoder {
    fn decode(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.pending);
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            let bad = chunk.invalid();
            let at_end = bad.as_ptr_range().end == bytes.as_ptr_range().end;
            let incomplete = std::str::from_utf8(bad).is_err_and(|e| e.error_len().is_none());
            if at_end && incomplete {
                self.pending.extend_from_slice(bad);
            } else if !bad.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }

    /// What never got its end.
    fn take_rest(&mut self) -> Option<String> {
        let pending = std::mem::take(&mut self.pending);
        (!pending.is_empty()).then(|| String::from_utf8_lossy(&pending).into_owned())
    }
}

#[cfg(test)]
mod film_tests;
#[cfg(test)]
mod tests;
