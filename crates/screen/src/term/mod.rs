//! The terminal's state, and what printing and control characters do to it.
//!
//! Sequences with parameters are in [`csi`], strings in [`osc`], answers in [`query`], resizing in
//! [`resize`], lines that pass without being seen in [`flood`], characters that share a cell in
//! [`grapheme`]. Everything here is plain data so that a keyframe can hold all of it.

mod csi;
mod flood;
mod grapheme;
pub(crate) mod modes;
mod osc;
pub(crate) mod query;
mod resize;
pub(crate) mod sgr;

use serde::{Deserialize, Serialize};
use unicode_width::UnicodeWidthChar;

use crate::cell::{Cell, CellPart, Clusters, Glyph, Style};
use crate::contract::{Personality, ScreenEvent, ScreenSize};
use crate::grid::{Area, Grid, Row};
use crate::history::History;
use crate::palette::Palette;
use modes::Modes;

/// Where the next character goes, and how it will look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TermCursor {
    pub(crate) row: usize,
    pub(crate) col: usize,
    /// The last column is written; the next character goes to the next line.
    pub(crate) wrap_pending: bool,
    pub(crate) pen: Style,
    pub(crate) charsets: [Charset; 4],
    pub(crate) active_charset: usize,
}

/// Which set is shifted in for one character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum SingleShift {
    G2,
    G3,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Charset {
    #[default]
    Ascii,
    LineDrawing,
    British,
}

impl Charset {
    fn map_byte(self, byte: u8) -> char {
        const LINES: [char; 31] = [
            '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻',
            '─', '⎼', '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
        ];
        match (self, byte) {
            (Charset::LineDrawing, 0x60..=0x7e) => LINES[usize::from(byte - 0x60)],
            (Charset::LineDrawing, b'_') => ' ',
            (Charset::British, b'#') => '£',
            _ => char::from(byte),
        }
    }
}

/// What `DECSC` keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedCursor {
    pub(crate) cursor: TermCursor,
    pub(crate) origin: bool,
}

/// What belongs to one of the two screens and not to the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Page {
    pub(crate) grid: Grid,
    pub(crate) saved: SavedCursor,
    /// The Kitty keyboard flags that the program pushed.
    pub(crate) keyboard: Vec<u8>,
}

impl Page {
    fn new(size: ScreenSize) -> Page {
        Page {
            grid: Grid::new(size.cols.into(), size.rows.into()),
            saved: SavedCursor::default(),
            keyboard: Vec::new(),
        }
    }
}

/// The screen as it was when a synchronized frame began: what is shown until the frame ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldScreen {
    pub(crate) grid: Grid,
    pub(crate) cursor: TermCursor,
    pub(crate) visible: bool,
    pub(crate) alt: bool,
}

/// What one call of `advance` has to say.
#[derive(Debug, Default)]
pub(crate) struct TermEffects {
    pub(crate) reply: Vec<u8>,
    pub(crate) events: Vec<ScreenEvent>,
    /// Something that can be seen may have changed.
    pub(crate) dirty: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Term {
    pub(crate) size: ScreenSize,
    pub(crate) personality: Personality,
    /// The page in use and the other one; the main one has the history.
    pub(crate) page: Page,
    pub(crate) other: Page,
    pub(crate) alt: bool,
    pub(crate) history: History,
    pub(crate) clusters: Clusters,
    pub(crate) cursor: TermCursor,
    pub(crate) modes: Modes,
    /// The scrolling region.
    pub(crate) area: Area,
    pub(crate) tabs: Vec<bool>,
    pub(crate) cursor_shape: u8,
    pub(crate) title: String,
    pub(crate) titles: Vec<String>,
    pub(crate) palette: Palette,
    /// The cell printed last, while nothing but printing happened since: what a combining mark joins.
    last: Option<(usize, usize)>,
    /// The character printed last, for `REP`.
    repeat: Option<char>,
    /// The character set of the next character only (`SS2`, `SS3`).
    single_shift: Option<SingleShift>,
    pub(crate) held: Option<HeldScreen>,
    #[serde(skip)]
    pub(crate) effects: TermEffects,
}

impl Term {
    pub(crate) fn new(size: ScreenSize, scrollback: usize, personality: Personality) -> Term {
        Term {
            size,
            personality,
            page: Page::new(size),
            other: Page::new(size),
            alt: false,
            history: History::new(scrollback),
            clusters: Clusters::default(),
            cursor: TermCursor::default(),
            modes: Modes::default(),
            area: Area { rows: 0..size.rows.into(), cols: 0..size.cols.into() },
            tabs: default_tabs(size.cols.into()),
            cursor_shape: 0,
            title: String::new(),
            titles: Vec::new(),
            palette: Palette::default(),
            last: None,
            repeat: None,
            single_shift: None,
            held: None,
            effects: TermEffects::default(),
        }
    }

    pub(crate) fn cols(&self) -> usize {
        self.size.cols.into()
    }

    pub(crate) fn rows(&self) -> usize {
        self.size.rows.into()
    }

    pub(crate) fn whole_area(&self) -> Area {
        Area { rows: 0..self.rows(), cols: 0..self.cols() }
    }

    pub(crate) fn erased_cell(&self) -> Cell {
        Cell::erased_with(self.cursor.pen)
    }

    pub(crate) fn row_mut(&mut self) -> &mut Row {
        &mut self.page.grid.rows[self.cursor.row]
    }

    /// Forgets what was printed: a cursor movement or an erasure came between.
    pub(crate) fn forget_printed(&mut self) {
        self.last = None;
        self.effects.dirty = true;
    }

    /// The column after the last one that printing reaches from here.
    fn right_edge(&self) -> usize {
        if self.cursor.col < self.area.cols.end { self.area.cols.end } else { self.cols() }
    }

    fn left_edge(&self) -> usize {
        if self.cursor.col >= self.area.cols.start { self.area.cols.start } else { 0 }
    }

    pub(crate) fn print_ascii(&mut self, bytes: &[u8]) {
        let Some(shift) = self.single_shift.take() else { return self.print_in_set(bytes) };
        let Some((&first, rest)) = bytes.split_first() else { return };
        let set = match shift {
            SingleShift::G2 => 2,
            SingleShift::G3 => 3,
        };
        self.print_char(self.cursor.charsets[set].map_byte(first));
        self.print_in_set(rest);
    }

    fn print_in_set(&mut self, bytes: &[u8]) {
        let charset = self.cursor.charsets[self.cursor.active_charset];
        if charset != Charset::Ascii || self.modes.insert {
            bytes.iter().for_each(|&byte| self.print_char(charset.map_byte(byte)));
            return;
        }
        self.effects.dirty = true;
        let pen = self.cursor.pen;
        let mut rest = bytes;
        while !rest.is_empty() {
            self.wrap_line();
            let right = self.right_edge();
            let col = self.cursor.col;
            let count = rest.len().min(right - col);
            let (now, later) = rest.split_at(count);
            self.row_mut().write_ascii(col, now, pen);
            self.last = Some((self.cursor.row, col + count - 1));
            self.place_after(col + count, right);
            rest = later;
        }
        self.repeat = bytes.last().map(|&byte| char::from(byte));
    }

    pub(crate) fn print_char(&mut self, c: char) {
        self.effects.dirty = true;
        self.single_shift = None;
        let width = c.width().unwrap_or(0);
        if self.may_join(c, width) && self.join_grapheme(c) || width == 0 {
            return;
        }
        self.repeat = Some(c);
        self.wrap_line();
        let mut right = self.right_edge();
        // In one column a wide glyph has to be content with it.
        let width = width.min(2).min(right - self.left_edge());
        if self.cursor.col + width > right {
            if self.modes.autowrap {
                let col = self.cursor.col;
                self.row_mut().split_wide_at(col);
                self.row_mut().set_cell(col, Cell { kind: CellPart::Filler, ..Cell::BLANK });
                self.cursor.wrap_pending = true;
                self.wrap_line();
                right = self.right_edge();
            } else {
                self.cursor.col = right - width;
            }
        }
        let (col, style) = (self.cursor.col, self.cursor.pen);
        if self.modes.insert {
            let erased = self.erased_cell();
            self.row_mut().insert_cells(col..right, width, erased);
        }
        self.write_cell(
            self.cursor.row,
            col,
            Cell { glyph: Glyph::from_char(c), style, kind: CellPart::Narrow },
            width,
        );
        self.last = Some((self.cursor.row, col));
        self.place_after(col + width, right);
    }

    fn write_cell(&mut self, row: usize, col: usize, cell: Cell, width: usize) {
        let row = &mut self.page.grid.rows[row];
        row.split_wide_at(col);
        row.split_wide_at(col + width);
        if width == 2 {
            row.set_cell(col, Cell { kind: CellPart::Wide, ..cell });
            row.set_cell(col + 1, Cell { glyph: Glyph::SPACE, kind: CellPart::Spacer, ..cell });
        } else {
            row.set_cell(col, Cell { kind: CellPart::Narrow, ..cell });
        }
    }

    fn place_after(&mut self, col: usize, right: usize) {
        self.cursor.wrap_pending = col >= right;
        self.cursor.col = col.min(right - 1);
    }

    /// Goes to the next line if the last column was written and more text comes.
    fn wrap_line(&mut self) {
        if !std::mem::take(&mut self.cursor.wrap_pending) || !self.modes.autowrap {
            return;
        }
        self.row_mut().wrapped = true;
        self.line_feed();
        self.cursor.col = self.left_edge();
    }

    pub(crate) fn execute_control(&mut self, byte: u8) {
        match byte {
            0x07 if !self.effects.events.contains(&ScreenEvent::Bell) => {
                self.effects.events.push(ScreenEvent::Bell);
            }
            0x08 => {
                self.forget_printed();
                let left = self.left_edge();
                if self.cursor.col > left {
                    self.cursor.col -= 1;
                }
                self.cursor.wrap_pending = false;
            }
            0x09 => self.tab_forward(1),
            0x0a..=0x0c => {
                self.line_feed();
                if self.modes.newline {
                    self.carriage_return();
                }
            }
            0x0d => self.carriage_return(),
            0x0e => self.cursor.active_charset = 1,
            0x0f => self.cursor.active_charset = 0,
            _ => {}
        }
    }

    pub(crate) fn carriage_return(&mut self) {
        self.forget_printed();
        self.cursor.col = self.left_edge();
        self.cursor.wrap_pending = false;
    }

    pub(crate) fn line_feed(&mut self) {
        self.forget_printed();
        self.cursor.wrap_pending = false;
        if self.cursor.row + 1 == self.area.rows.end {
            if self.area.cols.contains(&self.cursor.col) {
                self.scroll_up(self.area.clone(), 1);
            }
        } else if self.cursor.row + 1 < self.rows() {
            self.cursor.row += 1;
        }
    }

    pub(crate) fn reverse_line_feed(&mut self) {
        self.forget_printed();
        self.cursor.wrap_pending = false;
        if self.cursor.row == self.area.rows.start {
            let erased = self.erased_cell();
            self.page.grid.scroll_down(&self.area, 1, erased);
        } else {
            self.cursor.row = self.cursor.row.saturating_sub(1);
        }
    }

    /// Scrolls; what leaves the top of the main screen goes to the history.
    pub(crate) fn scroll_up(&mut self, area: Area, count: usize) {
        let erased = self.erased_cell();
        let keep = !self.alt && area.rows.start == 0;
        let (history, clusters) = (&mut self.history, &self.clusters);
        self.page.grid.scroll_up(&area, count, erased, |row| {
            if keep {
                history.push(row, clusters);
            }
        });
    }

    pub(crate) fn tab_forward(&mut self, count: usize) {
        self.forget_printed();
        let right = self.right_edge();
        for _ in 0..count.min(self.cols()) {
            let next = (self.cursor.col + 1..right).find(|&col| self.tabs[col]);
            self.cursor.col = next.unwrap_or(right - 1);
        }
    }

    pub(crate) fn tab_back(&mut self, count: usize) {
        self.forget_printed();
        self.cursor.wrap_pending = false;
        let left = if self.modes.origin { self.left_edge() } else { 0 };
        for _ in 0..count.min(self.cols()) {
            let before = (left..self.cursor.col).rev().find(|&col| self.tabs[col]);
            self.cursor.col = before.unwrap_or(left);
        }
    }

    pub(crate) fn dispatch_escape(&mut self, intermediate: u8, byte: u8) {
        match (intermediate, byte) {
            (0, b'7') => self.save_cursor(),
            (0, b'8') => self.restore_cursor(),
            (0, b'D') => self.line_feed(),
            (0, b'E') => {
                self.line_feed();
                self.carriage_return();
            }
            (0, b'H') => self.tabs[self.cursor.col] = true,
            (0, b'M') => self.reverse_line_feed(),
            (0, b'c') => self.full_reset(),
            (0, b'=') => self.modes.application_keypad = true,
            (0, b'>') => self.modes.application_keypad = false,
            (0, b'N') => self.single_shift = Some(SingleShift::G2),
            (0, b'O') => self.single_shift = Some(SingleShift::G3),
            (0, b'n') => self.cursor.active_charset = 2,
            (0, b'o') => self.cursor.active_charset = 3,
            (b'#', b'8') => self.alignment_pattern(),
            (b'('..=b'+', _) => {
                self.cursor.charsets[usize::from(intermediate - b'(')] = match byte {
                    b'0' => Charset::LineDrawing,
                    b'A' => Charset::British,
                    _ => Charset::Ascii,
                };
            }
            _ => {}
        }
    }

    pub(crate) fn save_cursor(&mut self) {
        self.page.saved = SavedCursor { cursor: self.cursor, origin: self.modes.origin };
    }

    pub(crate) fn restore_cursor(&mut self) {
        self.forget_printed();
        let saved = self.page.saved;
        self.cursor = saved.cursor;
        self.modes.origin = saved.origin;
        self.clamp_cursor();
        // A region set since then holds the cursor, as it does wherever origin mode places it.
        if saved.origin {
            let (rows, cols) = (&self.area.rows, &self.area.cols);
            self.cursor.row = self.cursor.row.clamp(rows.start, rows.end - 1);
            self.cursor.col = self.cursor.col.clamp(cols.start, cols.end - 1);
        }
    }

    pub(crate) fn clamp_cursor(&mut self) {
        self.cursor.row = self.cursor.row.min(self.rows() - 1);
        self.cursor.col = self.cursor.col.min(self.cols() - 1);
    }

    /// Everything as new, but for the scrollback.
    fn full_reset(&mut self) {
        let fresh = Term::new(self.size, 0, self.personality);
        let history = std::mem::replace(&mut self.history, History::new(0));
        let effects = std::mem::take(&mut self.effects);
        *self = Term { history, effects, ..fresh };
        self.forget_printed();
    }

    fn alignment_pattern(&mut self) {
        self.forget_printed();
        self.area = self.whole_area();
        self.page.grid.clear(Cell { glyph: Glyph::from_char('E'), ..Cell::BLANK });
        self.cursor = TermCursor { pen: self.cursor.pen, ..TermCursor::default() };
    }

    /// Switches between the main and the alternate screen.
    pub(crate) fn show_alt(&mut self, alt: bool) {
        if self.alt == alt {
            return;
        }
        self.forget_printed();
        self.alt = alt;
        std::mem::swap(&mut self.page, &mut self.other);
        self.modes.kitty_keyboard = self.page.keyboard.last().copied().unwrap_or(0);
    }

    /// Begins or ends a frame that is shown only when it is whole.
    pub(crate) fn synchronize_output(&mut self, on: bool) {
        self.modes.synchronized = on;
        if !on {
            self.effects.dirty |= self.held.take().is_some();
        } else if self.held.is_none() {
            self.held = Some(HeldScreen {
                grid: self.page.grid.clone(),
                cursor: self.cursor,
                visible: self.modes.cursor_visible,
                alt: self.alt,
            });
        }
    }

    /// Whether every place that the state points to exists: asked of what a keyframe gave.
    pub(crate) fn is_sound(&self) -> bool {
        let (cols, rows) = (self.cols(), self.rows());
        let fits = |grid: &Grid| {
            grid.cols == cols
                && grid.rows.len() == rows
                && grid.rows.iter().all(|row| row.is_sound(cols))
        };
        let on = |cursor: &TermCursor| {
            cursor.row < rows && cursor.col < cols && cursor.active_charset < 4
        };
        self.size.is_sound()
            && fits(&self.page.grid)
            && fits(&self.other.grid)
            && self.held.as_ref().is_none_or(|held| fits(&held.grid) && on(&held.cursor))
            && on(&self.cursor)
            && self.page.saved.cursor.active_charset < 4
            && self.other.saved.cursor.active_charset < 4
            && self.last.is_none_or(|(row, col)| row < rows && col < cols)
            && self.tabs.len() == cols
            && !self.area.rows.is_empty()
            && !self.area.cols.is_empty()
            && self.area.rows.end <= rows
            && self.area.cols.end <= cols
            && self.history.is_sound()
    }
}

pub(crate) fn default_tabs(cols: usize) -> Vec<bool> {
    (0..cols).map(|col| col % 8 == 0 && col > 0).collect()
}
