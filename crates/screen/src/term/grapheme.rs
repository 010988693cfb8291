//! Grapheme clusters: a character that belongs to the one before it shares its cell.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Term, TermCursor};
use crate::cell::{Cell, CellPart};
use crate::contract::Personality;
use crate::grid::Grid;

impl Term {
    /// Whether `c` can be part of the grapheme before it; most characters are seen not to be at once.
    pub(super) fn may_join(&self, c: char, width: usize) -> bool {
        if width == 0 {
            return true;
        }
        let Some((row, col)) = self.last else { return false };
        match c {
            '\u{1f1e6}'..='\u{1f1ff}' | '\u{1f3fb}'..='\u{1f3ff}' => true,
            '\0'..='\u{a8}' => false,
            _ => {
                let glyph = self.page.grid.rows[row].cells()[col].glyph;
                glyph.as_char().is_none() && self.clusters.glyph_text(glyph).ends_with('\u{200d}')
            }
        }
    }

    /// Adds `c` to the cell before it, if the two are one grapheme.
    pub(super) fn join_grapheme(&mut self, c: char) -> bool {
        const MAX_CLUSTER_BYTES: usize = 96;
        let (row, col) = self.joined_cell(c);
        let cell = self.page.grid.rows[row].cells()[col];
        let mut text = self.clusters.glyph_text(cell.glyph);
        text.push(c);
        if text.len() > MAX_CLUSTER_BYTES || text.graphemes(true).count() != 1 {
            return false;
        }
        if self.clusters.is_full() {
            self.sweep_clusters();
        }
        let right = self.right_edge();
        let widens = cell.kind == CellPart::Narrow && text.width() >= 2;
        let fits = col + 1 < right;
        if widens && !fits && self.moves_widened_glyphs() {
            let is_last = self.last == Some((row, col)) && self.cursor.wrap_pending;
            if is_last && self.modes.autowrap {
                self.wrap_widened_glyph(cell, &text);
            }
            // Without a place for both halves the glyph stays as narrow as it was.
            return true;
        }
        let glyph = self.clusters.add_cluster(&text);
        if widens && fits {
            self.write_cell(row, col, Cell { glyph, ..cell }, 2);
            if self.last.is_some() && self.cursor.row == row {
                self.place_after(col + 2, right);
            }
        } else {
            self.page.grid.rows[row].set_cell(col, Cell { glyph, ..cell });
        }
        true
    }

    /// A cell of one column never shows two, or a redraw would put its right half over the next cell.
    /// agent-tty's screen keeps the glyph; on a screen of one column there is no other place.
    fn moves_widened_glyphs(&self) -> bool {
        self.personality != Personality::AgentTty && self.right_edge() - self.left_edge() > 1
    }

    /// Takes the glyph in the last column, which has become wide, to the next line, as if it had been
    /// wide from the start.
    fn wrap_widened_glyph(&mut self, cell: Cell, text: &str) {
        let col = self.cursor.col;
        self.row_mut().set_cell(col, Cell { kind: CellPart::Filler, ..Cell::BLANK });
        self.wrap_line();
        let glyph = self.clusters.add_cluster(text);
        let (row, col) = (self.cursor.row, self.cursor.col);
        self.write_cell(row, col, Cell { glyph, ..cell }, 2);
        self.last = Some((row, col));
        self.place_after(col + 2, self.right_edge());
    }

    /// The cell that `c` becomes part of: the one printed last, else the one before the cursor.
    fn joined_cell(&self, c: char) -> (usize, usize) {
        let TermCursor { row, col, wrap_pending, .. } = self.cursor;
        let before_margin = wrap_pending && col > 0 && c.width() == Some(0);
        match self.last {
            // What agent-tty's screen shows when the line is full. A mark belongs to what was printed last.
            Some(_) if before_margin && self.personality == Personality::AgentTty => {
                let is_right_half =
                    self.page.grid.rows[row].cells()[col - 1].kind == CellPart::Spacer;
                (row, if is_right_half { col.saturating_sub(2) } else { col - 1 })
            }
            Some(last) => last,
            None => self.cell_before(),
        }
    }

    /// The cell that a mark joins when it comes after a movement: the one left of the cursor.
    fn cell_before(&self) -> (usize, usize) {
        let TermCursor { row, col, wrap_pending, .. } = self.cursor;
        let cells = self.page.grid.rows[row].cells();
        let col = if wrap_pending { col } else { col.saturating_sub(1) };
        let is_right_half = cells[col].kind == CellPart::Spacer;
        (row, if is_right_half { col.saturating_sub(1) } else { col })
    }

    fn sweep_clusters(&mut self) {
        let held = self.held.as_mut().map(|held| &mut held.grid);
        let grids = [Some(&mut self.page.grid), Some(&mut self.other.grid), held];
        self.clusters.retain_used(grids.into_iter().flatten().flat_map(Grid::cells_mut));
    }
}
