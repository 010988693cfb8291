//! Repaint: escape sequences that make another terminal show this screen.

use std::fmt::Write;

use crate::cell::{Cell, CellPart, Clusters, Style};
use crate::grid::Grid;
use crate::palette::ColorSlot;
use crate::screen::Screen;
use crate::term::modes::Modes;
use crate::term::sgr::sgr_parameters;
use crate::term::{Charset, Page, Term, TermCursor};

/// What brings a terminal back that a program, or [`Screen::redraw`], has changed: the main screen, no
/// modes, no region, the user's own colours and cursor. Its text stays.
pub const RESTORE: &str = concat!(
    "\x1b[?2026l\x1b[<99u\x1b[?1049l\x1b[<99u\x1b[>4;0m",
    "\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l",
    "\x1b[?1004l\x1b[?2004l\x1b[?2031l\x1b[?2048l\x1b[?1l\x1b[?66l\x1b>\x1b[?5l\x1b[?12l\x1b[?1007h",
    "\x1b7\x1b[?69l\x1b[?6l\x1b[r\x1b8\x1b[?6l\x1b[?7h\x1b[4l\x1b[20l",
    "\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\",
    "\x1b(B\x1b)B\x1b*B\x1b+B\x0f\x1b[0m\x1b[0 q\x1b[?25h",
);

/// ASCII means ASCII.
const PLAIN_TEXT: &str = "\x1b(B\x0f";

impl Screen {
    /// Draws both screens, sets modes, region, tabs and pen, and leaves the cursor where it is. On a
    /// fresh terminal of the same size the program can go on as if it had been there all along.
    pub fn redraw(&self) -> Vec<u8> {
        let term = &self.term;
        let mut out = RedrawWriter { out: String::new(), style: Style::default() };
        out.write_text(
            "\x1b[!p\x1b[?6l\x1b[?69l\x1b[r\x1b[0m\x1b(B\x1b)B\x1b*B\x1b+B\x0f\x1b[?7h\x1b[4l",
        );
        let (main, alt) =
            if term.alt { (&term.other, Some(&term.page)) } else { (&term.page, None) };
        out.draw_grid(&main.grid, &term.clusters);
        out.place_cursor(&main.saved.cursor, main, term, main.saved.origin.then_some((0, 0)));
        out.write_text("\x1b7");
        out.set_keyboard(&main.keyboard);
        if let Some(alt) = alt {
            out.set_origin(false);
            out.set_style(Style::default());
            out.write_text("\x1b[?1049h");
            out.draw_grid(&alt.grid, &term.clusters);
            out.place_cursor(&alt.saved.cursor, alt, term, alt.saved.origin.then_some((0, 0)));
            out.write_text("\x1b7");
            out.set_keyboard(&alt.keyboard);
        }
        out.write_settings(term);
        let corner = (term.area.rows.start, term.area.cols.start);
        out.place_cursor(&term.cursor, &term.page, term, term.modes.origin.then_some(corner));
        out.write_modes(term);
        out.out.into_bytes()
    }
}

struct RedrawWriter {
    out: String,
    style: Style,
}

impl RedrawWriter {
    fn write_text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn set_style(&mut self, style: Style) {
        if self.style != style {
            let _ = write!(self.out, "\x1b[{}m", sgr_parameters(style));
            self.style = style;
        }
    }

    fn go_to(&mut self, row: usize, col: usize) {
        let _ = write!(self.out, "\x1b[{};{}H", row + 1, col + 1);
    }

    fn draw_cell(&mut self, cell: &Cell, clusters: &Clusters) {
        if matches!(cell.kind, CellPart::Spacer | CellPart::Filler) {
            return;
        }
        self.set_style(cell.style);
        clusters.push_to(cell.glyph, &mut self.out);
    }

    /// A row that goes on in the next one is printed so that it wraps there as well.
    fn draw_grid(&mut self, grid: &Grid, clusters: &Clusters) {
        self.set_style(Style::default());
        self.write_text(PLAIN_TEXT);
        self.write_text("\x1b[H\x1b[2J");
        let mut continued = false;
        for (index, row) in grid.rows.iter().enumerate() {
            let cells = row.stored_cells();
            if !continued && !cells.is_empty() {
                self.go_to(index, 0);
            }
            for (col, cell) in cells.iter().enumerate() {
                // Left by a glyph that did not fit before the right margin: text follows it in this row.
                if cell.kind == CellPart::Filler && col + 1 < grid.cols {
                    self.draw_cell(&Cell { kind: CellPart::Narrow, ..*cell }, clusters);
                } else {
                    self.draw_cell(cell, clusters);
                }
            }
            let next = grid.rows.get(index + 1).and_then(|row| row.stored_cells().first());
            // After a filler only a wide glyph wraps by itself.
            let fits = cells.last().is_some_and(|last| last.kind != CellPart::Filler);
            let wraps = |next: &Cell| fits || next.kind == CellPart::Wide;
            continued = row.wrapped && next.is_some_and(wraps);
        }
        self.set_style(Style::default());
    }

    fn set_origin(&mut self, on: bool) {
        self.write_text(if on { "\x1b[?6h" } else { "\x1b[?6l" });
    }

    /// Places the cursor; one that waits to wrap got there by printing its cell. `origin` is, in origin
    /// mode, the corner that places are counted from: the region's, or the screen's while none is set.
    fn place_cursor(
        &mut self,
        cursor: &TermCursor,
        page: &Page,
        term: &Term,
        origin: Option<(usize, usize)>,
    ) {
        let (grid, clusters) = (&page.grid, &term.clusters);
        self.set_origin(origin.is_some());
        let corner = origin.unwrap_or_default();
        let (row, col) = (cursor.row.min(grid.rows.len() - 1), cursor.col.min(grid.cols - 1));
        let place = |col: usize| (row.saturating_sub(corner.0), col.saturating_sub(corner.1));
        if cursor.wrap_pending {
            let cells = grid.rows[row].cells();
            let first =
                if cells[col].kind == CellPart::Spacer { col.saturating_sub(1) } else { col };
            let (at_row, at_col) = place(first);
            self.write_text(PLAIN_TEXT);
            self.go_to(at_row, at_col);
            cells[first..=col].iter().for_each(|cell| self.draw_cell(cell, clusters));
        } else {
            let (row, col) = place(col);
            self.go_to(row, col);
        }
        self.set_style(cursor.pen);
        for (name, charset) in [b'(', b')', b'*', b'+'].into_iter().zip(cursor.charsets) {
            let byte = match charset {
                Charset::Ascii => 'B',
                Charset::LineDrawing => '0',
                Charset::British => 'A',
            };
            let _ = write!(self.out, "\x1b{}{byte}", char::from(name));
        }
        self.write_text(["\x0f", "\x0e", "\x1bn", "\x1bo"][cursor.active_charset % 4]);
    }

    fn set_keyboard(&mut self, flags: &[u8]) {
        for flags in flags {
            let _ = write!(self.out, "\x1b[>{flags}u");
        }
    }

    /// What is set before the cursor is placed, because setting it moves the cursor.
    fn write_settings(&mut self, term: &Term) {
        self.set_origin(false);
        if !term.tabs_are_default() {
            self.write_text("\x1b[3g");
            for col in (0..term.cols()).filter(|&col| term.tabs[col]) {
                self.go_to(0, col);
                self.write_text("\x1bH");
            }
        }
        if term.modes.margins {
            let cols = &term.area.cols;
            let _ = write!(self.out, "\x1b[?69h\x1b[{};{}s", cols.start + 1, cols.end);
        }
        if term.area.rows != (0..term.rows()) {
            let rows = &term.area.rows;
            let _ = write!(self.out, "\x1b[{};{}r", rows.start + 1, rows.end);
        }
        for (slot, [r, g, b]) in term.palette.changed_colors() {
            let name = match slot {
                ColorSlot::Foreground => "10".to_owned(),
                ColorSlot::Background => "11".to_owned(),
                ColorSlot::Cursor => "12".to_owned(),
                ColorSlot::Indexed(index) => format!("4;{index}"),
            };
            let _ = write!(self.out, "\x1b]{name};rgb:{r:02x}/{g:02x}/{b:02x}\x1b\\");
        }
        if !term.title.is_empty() {
            let _ = write!(self.out, "\x1b]2;{}\x1b\\", term.title);
        }
        if term.cursor_shape != 0 {
            let _ = write!(self.out, "\x1b[{} q", term.cursor_shape);
        }
    }

    fn write_modes(&mut self, term: &Term) {
        let (mut modes, mut fresh) = (term.modes, Modes::default());
        for number in Modes::SWITCHES {
            // These move the cursor or hold the picture; they are dealt with elsewhere.
            if [6, 69, 2026].contains(&number) {
                continue;
            }
            let wanted = modes.private_switch(number).copied();
            if wanted != fresh.private_switch(number).copied() {
                let end = if wanted == Some(true) { 'h' } else { 'l' };
                let _ = write!(self.out, "\x1b[?{number}{end}");
            }
        }
        let mouse = Modes::mouse_number(modes.mouse);
        for number in mouse.into_iter().chain(Modes::encoding_number(modes.mouse_encoding)) {
            let _ = write!(self.out, "\x1b[?{number}h");
        }
        if modes.modify_other_keys > 0 {
            let _ = write!(self.out, "\x1b[>4;{}m", modes.modify_other_keys);
        }
        self.write_text(if modes.insert { "\x1b[4h" } else { "" });
        self.write_text(if modes.newline { "\x1b[20h" } else { "" });
    }
}
