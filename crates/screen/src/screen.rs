//! [`Screen`]: the emulator behind one type.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sha2::{Digest, Sha256};

use crate::cell::{Attrs, Cell, CellPart, Style};
use crate::contract::{Personality, ScreenEvent, ScreenLimits, ScreenSize};
use crate::grid::Grid;
use crate::line;
use crate::palette::Theme;
use crate::parser::Parser;
use crate::term::modes::Modes;
use crate::term::{self, Term};

/// What one call of [`Screen::advance`] has to say.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ScreenOutput {
    /// Answers to the program's questions, to be written to its terminal.
    pub reply: Vec<u8>,
    pub events: Vec<ScreenEvent>,
    /// The emulator failed on these bytes and the screen was blanked.
    pub fault: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorShape {
    Block,
    Underline,
    Bar,
}

/// Where the cursor is, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreenCursor {
    pub row: u16,
    pub col: u16,
    pub visible: bool,
    pub shape: CursorShape,
}

/// One cell, its colours by value; none is the terminal's default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StyledCell {
    /// A whole grapheme; empty in the right half of a wide one.
    pub text: String,
    pub fg: Option<[u8; 3]>,
    pub bg: Option<[u8; 3]>,
    pub attrs: Attrs,
}

impl StyledCell {
    /// `#rrggbb`, as snapshots write a colour.
    pub fn color_hex([r, g, b]: [u8; 3]) -> String {
        format!("#{r:02x}{g:02x}{b:02x}")
    }
}

#[derive(Debug)]
pub struct Screen {
    pub(crate) parser: Parser,
    pub(crate) term: Term,
    pub(crate) generation: u64,
    /// Bytes since a synchronized frame began.
    pub(crate) held_bytes: usize,
}

impl Screen {
    /// A frame that is longer than this is shown as it comes.
    const MAX_FRAME_BYTES: usize = 2 << 20;

    pub fn new(size: ScreenSize, limits: ScreenLimits) -> Screen {
        Screen::with_personality(size, limits, Personality::Ostler)
    }

    pub fn with_personality(
        size: ScreenSize,
        limits: ScreenLimits,
        personality: Personality,
    ) -> Screen {
        Screen {
            parser: Parser::default(),
            term: Term::new(size.clamped(), limits.scrollback_lines, personality),
            generation: 0,
            held_bytes: 0,
        }
    }

    /// Shows what the program wrote. The result does not depend on how the bytes are cut.
    pub fn advance(&mut self, bytes: &[u8]) -> ScreenOutput {
        let mut output = self.run_guarded(|parser, term| parser.advance(bytes, term));
        self.held_bytes = if self.is_holding() { self.held_bytes + bytes.len() } else { 0 };
        if self.held_bytes > Self::MAX_FRAME_BYTES {
            self.release_frame();
        }
        self.collect_output(&mut output);
        output
    }

    /// Another size. Text is wrapped anew; the answer may hold a size report the program asked for.
    pub fn resize(&mut self, size: ScreenSize) -> ScreenOutput {
        let mut output = self.run_guarded(|_, term| term.resize(size.clamped()));
        self.collect_output(&mut output);
        output
    }

    /// Runs the emulator so that a fault in it ends here.
    fn run_guarded(&mut self, run: impl FnOnce(&mut Parser, &mut Term)) -> ScreenOutput {
        let (parser, term) = (&mut self.parser, &mut self.term);
        let Err(payload) = catch_unwind(AssertUnwindSafe(|| run(parser, term))) else {
            return ScreenOutput::default();
        };
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        self.parser = Parser::default();
        let (size, limit) = (self.term.size, self.term.history.limit());
        self.term = Term::new(size.clamped(), limit, self.term.personality);
        self.generation += 1;
        ScreenOutput {
            fault: Some(text.unwrap_or_else(|| "unknown fault".to_owned())),
            ..ScreenOutput::default()
        }
    }

    fn collect_output(&mut self, output: &mut ScreenOutput) {
        let effects = std::mem::take(&mut self.term.effects);
        output.reply.extend(effects.reply);
        output.events.extend(effects.events);
        if effects.dirty {
            // While a frame is held nothing new can be seen; what happened is seen when it ends.
            if self.is_holding() { self.term.effects.dirty = true } else { self.generation += 1 }
        }
    }

    pub fn size(&self) -> ScreenSize {
        self.term.size
    }

    /// Grows whenever what can be seen may have changed.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the program is in the middle of a frame that it asked not to be shown in parts.
    /// A caller with a clock should [release](Self::release_frame) it after a moment.
    pub fn is_holding(&self) -> bool {
        self.term.held.is_some()
    }

    /// Shows an unfinished frame.
    pub fn release_frame(&mut self) {
        if self.is_holding() {
            self.term.synchronize_output(false);
            self.term.effects.dirty = false;
            self.generation += 1;
        }
    }

    pub fn cursor(&self) -> ScreenCursor {
        let (cursor, visible) = self.shown_cursor();
        ScreenCursor {
            row: cursor.row as u16,
            col: cursor.col as u16,
            visible,
            shape: match self.term.cursor_shape {
                3 | 4 => CursorShape::Underline,
                5 | 6 => CursorShape::Bar,
                _ => CursorShape::Block,
            },
        }
    }

    fn shown_cursor(&self) -> (term::TermCursor, bool) {
        match &self.term.held {
            Some(held) => (held.cursor, held.visible),
            None => (self.term.cursor, self.term.modes.cursor_visible),
        }
    }

    pub fn is_alt_screen(&self) -> bool {
        self.term.held.as_ref().map_or(self.term.alt, |held| held.alt)
    }

    pub fn modes(&self) -> Modes {
        self.term.modes
    }

    pub fn title(&self) -> &str {
        &self.term.title
    }

    pub(crate) fn grid(&self) -> &Grid {
        self.term.held.as_ref().map_or(&self.term.page.grid, |held| &held.grid)
    }

    /// The canonical text: one entry for each row, whole graphemes, no trailing spaces.
    pub fn rows(&self) -> Vec<String> {
        self.grid().rows.iter().map(|row| row.row_text(&self.term.clusters)).collect()
    }

    /// The newest `count` lines that left the top of the main screen, oldest of them first.
    pub fn scrollback(&self, count: usize) -> Vec<String> {
        self.term.history.newest_lines(count).map(line::line_text).collect()
    }

    /// SHA-256 of the rows joined by newlines: equal exactly when the visible text is.
    pub fn hash(&self) -> String {
        hash_rows(&self.rows())
    }

    pub fn cells(&self) -> Vec<Vec<StyledCell>> {
        self.grid().rows.iter().map(|row| self.styled_cells(row.cells())).collect()
    }

    fn styled_cells(&self, cells: &[Cell]) -> Vec<StyledCell> {
        cells.iter().map(|cell| self.styled_cell(cell, &self.term.clusters)).collect()
    }

    fn styled_cell(&self, cell: &Cell, clusters: &crate::cell::Clusters) -> StyledCell {
        let Style { fg, bg, mut attrs } = cell.style;
        // Not seen.
        attrs.set(Attrs::PROTECTED, false);
        let spacer = cell.kind == CellPart::Spacer;
        StyledCell {
            text: if spacer { String::new() } else { clusters.glyph_text(cell.glyph) },
            fg: self.term.palette.resolve_color_in(fg, &Theme::DARK),
            bg: self.term.palette.resolve_color_in(bg, &Theme::DARK),
            attrs,
        }
    }
}

/// The hash of rows that are in canonical form already.
pub fn hash_rows(rows: &[String]) -> String {
    let mut hash = Sha256::new();
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            hash.update(b"\n");
        }
        hash.update(row.as_bytes());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(cols: u16, rows: u16) -> Screen {
        Screen::new(ScreenSize { cols, rows }, ScreenLimits::default())
    }

    #[test]
    fn the_hash_is_the_specified_one() {
        let mut screen = screen(10, 3);
        let _ = screen.advance(b"a\r\nb\r\nc");
        assert_eq!(screen.rows(), ["a", "b", "c"]);
        assert_eq!(
            screen.hash(),
            "ea7fb08b7a2dc4619ffb7c7bb38d95a2047935fa165d71b12efd3852a2e6d0cc"
        );
    }

    #[test]
    fn a_fault_in_the_emulator_ends_in_a_blank_screen() {
        let mut screen = screen(10, 3);
        let _ = screen.advance(b"text\x1b[?2004h");
        let generation = screen.generation();
        let output = screen.run_guarded(|_, _| panic!("broken"));
        assert_eq!(output.fault.as_deref(), Some("broken"));
        assert_eq!(screen.rows(), ["", "", ""]);
        assert_eq!(screen.size(), ScreenSize { cols: 10, rows: 3 });
        assert!(screen.generation() > generation);
        let _ = screen.advance(b"again");
        assert_eq!(screen.rows()[0], "again");
    }

    #[test]
    fn a_synchronized_frame_is_shown_only_when_it_is_whole() {
        let mut screen = screen(10, 2);
        let _ = screen.advance(b"old");
        let before = screen.generation();
        let _ = screen.advance(b"\x1b[?2026h\x1b[2J\x1b[Hne");
        assert_eq!((screen.rows()[0].as_str(), screen.generation()), ("old", before));
        assert_eq!(screen.cursor().col, 3);
        let _ = screen.advance(b"w\x1b[?2026l");
        assert_eq!(screen.rows()[0], "new");
        assert!(screen.generation() > before);

        let _ = screen.advance(b"\x1b[?2026h!");
        assert!(screen.is_holding());
        screen.release_frame();
        assert_eq!(screen.rows()[0], "new!");
    }

    #[test]
    fn a_frame_that_never_ends_is_shown() {
        let mut screen = screen(10, 2);
        let _ = screen.advance(b"\x1b[?2026h");
        for _ in 0..3 {
            let _ = screen.advance(&vec![b'x'; 1 << 20]);
        }
        assert_eq!(screen.rows()[0], "xxxxxxxxxx");
    }
}
