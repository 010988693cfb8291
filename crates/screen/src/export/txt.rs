//! Plain text: every line that left the top of the screen, then the screen as it was at the end.

use std::io::{self, Write};
use std::time::Duration;

use super::{RecordingEvent, RecordingHeader, RecordingWriter};
use crate::contract::ScreenLimits;
use crate::line;
use crate::screen::Screen;

/// What a person would have scrolled through. Lines that were wrapped are whole again; what a
/// full-screen program drew is not in it, unless it is there still.
#[derive(Debug)]
pub struct Txt<W> {
    out: W,
    pub(super) screen: Screen,
}

impl<W: Write> Txt<W> {
    /// No piece of this size can scroll more lines than the screen remembers.
    const MAX_ADVANCE_BYTES: usize = 4 << 10;

    pub fn new(out: W, header: &RecordingHeader<'_>) -> Txt<W> {
        let limits = ScreenLimits { scrollback_lines: 2 * Self::MAX_ADVANCE_BYTES };
        Txt { out, screen: Screen::new(header.size, limits) }
    }

    fn write_scrolled_lines(&mut self) -> io::Result<()> {
        for line in self.screen.term.history.newest_lines(usize::MAX) {
            self.out.write_all(line::line_text(line).as_bytes())?;
            if !line::is_wrapped(line) {
                self.out.write_all(b"\n")?;
            }
        }
        self.screen.term.history.clear();
        Ok(())
    }
}

impl<W: Write> RecordingWriter for Txt<W> {
    fn record(&mut self, _: Duration, item: RecordingEvent<'_>) -> io::Result<()> {
        match item {
            RecordingEvent::Output(bytes) => {
                for piece in bytes.chunks(Self::MAX_ADVANCE_BYTES) {
                    let _ = self.screen.advance(piece);
                    self.write_scrolled_lines()?;
                }
            }
            RecordingEvent::Resize(size) => {
                let _ = self.screen.resize(size);
                self.write_scrolled_lines()?;
            }
            RecordingEvent::Input(_) | RecordingEvent::Marker(_) | RecordingEvent::Exit(_) => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.screen.release_frame();
        let rows = &self.screen.grid().rows;
        let shown = rows.iter().rposition(|row| !row.is_blank()).map_or(0, |last| last + 1);
        for row in rows.iter().take(shown) {
            self.out.write_all(row.row_text(&self.screen.term.clusters).as_bytes())?;
            if !row.wrapped {
                self.out.write_all(b"\n")?;
            }
        }
        self.out.flush()
    }
}
