//! Plain text: every line that left the top of the screen, then the screen as it was at the end.

use std::io::{self, Write};
use std::time::Duration;

use super::{Header, Item, Recorder};
use crate::line;
use crate::screen::{Limits, Screen};

/// What a person would have scrolled through. Lines that were wrapped are whole again; what a
/// full-screen program drew is not in it, unless it is there still.
#[derive(Debug)]
pub struct Txt<W> {
    out: W,
    pub(super) screen: Screen,
}

impl<W: Write> Txt<W> {
    /// No piece of this size can scroll more lines than the screen remembers.
    const PIECE: usize = 4 << 10;

    pub fn new(out: W, header: &Header<'_>) -> Txt<W> {
        let limits = Limits { scrollback_lines: 2 * Self::PIECE };
        Txt { out, screen: Screen::new(header.size, limits) }
    }

    fn drain(&mut self) -> io::Result<()> {
        for line in self.screen.term.history.newest(usize::MAX) {
            self.out.write_all(line::text(line).as_bytes())?;
            if !line::is_wrapped(line) {
                self.out.write_all(b"\n")?;
            }
        }
        self.screen.term.history.clear();
        Ok(())
    }
}

impl<W: Write> Recorder for Txt<W> {
    fn record(&mut self, _: Duration, item: Item<'_>) -> io::Result<()> {
        match item {
            Item::Output(bytes) => {
                for piece in bytes.chunks(Self::PIECE) {
                    let _ = self.screen.advance(piece);
                    self.drain()?;
                }
            }
            Item::Resize(size) => {
                let _ = self.screen.resize(size);
                self.drain()?;
            }
            Item::Input(_) | Item::Marker(_) | Item::Exit(_) => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.screen.release();
        let rows = &self.screen.grid().rows;
        let shown = rows.iter().rposition(|row| !row.is_blank()).map_or(0, |last| last + 1);
        for row in rows.iter().take(shown) {
            self.out.write_all(row.text(&self.screen.term.clusters).as_bytes())?;
            if !row.wrapped {
                self.out.write_all(b"\n")?;
            }
        }
        self.out.flush()
    }
}
