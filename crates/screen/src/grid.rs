//! The rows of one screen, and the operations that move and erase their cells.
//!
//! Nothing here knows about cursors or escape sequences. Every operation keeps wide pairs whole: a
//! cut through one blanks both halves.

use std::collections::VecDeque;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::cell::{Attrs, Cell, CellPart, Clusters, Glyph, Style};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    cells: Vec<Cell>,
    /// Cells from here on are blank, so clearing and storing a row need not look at them.
    used: usize,
    /// Every cell is an ASCII character in the default style: most rows, and storing them is a copy.
    plain: bool,
    /// The text goes on in the next row: it was wrapped, not ended.
    pub(crate) wrapped: bool,
}

impl Row {
    pub(crate) fn new(cols: usize) -> Row {
        Row { cells: vec![Cell::BLANK; cols], used: 0, plain: true, wrapped: false }
    }

    /// A row of `cols` columns that starts with `cells`.
    pub(crate) fn from_cells(cells: &[Cell], cols: usize, wrapped: bool) -> Row {
        let mut row = Row::new(cols);
        let count = cells.len().min(cols);
        row.cells[..count].copy_from_slice(&cells[..count]);
        row.used = count;
        row.plain = false;
        row.wrapped = wrapped;
        row
    }

    pub(crate) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The cells up to the last one that shows or means something.
    pub(crate) fn occupied_cells(&self) -> &[Cell] {
        trim_stored(&self.cells[..self.used], false)
    }

    /// The cells worth keeping.
    pub(crate) fn stored_cells(&self) -> &[Cell] {
        if self.wrapped { &self.cells } else { self.occupied_cells() }
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.occupied_cells().is_empty()
    }

    pub(crate) fn row_text(&self, clusters: &Clusters) -> String {
        let mut text = String::new();
        for cell in self.occupied_cells() {
            if cell.kind != CellPart::Spacer {
                clusters.push_to(cell.glyph, &mut text);
            }
        }
        text.truncate(text.trim_end_matches(' ').len());
        text
    }

    /// The bytes of a row that is nothing but ASCII in the default style.
    pub(crate) fn plain_text(&self) -> Option<impl Iterator<Item = u8>> {
        self.plain.then(|| self.stored_cells().iter().map(|cell| cell.glyph.low_byte()))
    }

    pub(crate) fn set_cell(&mut self, col: usize, cell: Cell) {
        self.plain = false;
        self.cells[col] = cell;
        self.used = self.used.max(col + 1);
    }

    pub(crate) fn write_ascii(&mut self, col: usize, bytes: &[u8], style: Style) {
        let end = col + bytes.len();
        self.split_wide_at(col);
        self.split_wide_at(end);
        for (cell, &byte) in self.cells[col..end].iter_mut().zip(bytes) {
            *cell = Cell { glyph: Glyph::from_ascii(byte), style, kind: CellPart::Narrow };
        }
        self.used = self.used.max(end);
        self.plain &= style == Style::default();
    }

    /// Parts a wide glyph that lies across the border before `col`.
    pub(crate) fn split_wide_at(&mut self, col: usize) {
        if col == 0 || col >= self.cells.len() || self.cells[col].kind != CellPart::Spacer {
            return;
        }
        for half in &mut self.cells[col - 1..=col] {
            half.glyph = Glyph::SPACE;
            half.kind = CellPart::Narrow;
        }
    }

    pub(crate) fn fill_range(&mut self, range: Range<usize>, with: Cell) {
        let range = range.start.min(self.cells.len())..range.end.min(self.cells.len());
        if range.is_empty() {
            return;
        }
        self.split_wide_at(range.start);
        self.split_wide_at(range.end);
        if with != Cell::BLANK {
            self.plain = false;
            self.used = self.used.max(range.end);
        } else if range.end >= self.used {
            let end = self.used.max(range.start);
            self.cells[range.start..end].fill(with);
            self.used = self.used.min(range.start);
            self.plain |= self.used == 0;
            return;
        }
        self.cells[range].fill(with);
    }

    /// As [`Self::fill_range`], but protected cells stay.
    pub(crate) fn fill_unprotected(&mut self, range: Range<usize>, with: Cell) {
        let end = range.end.min(self.cells.len());
        for col in range.start.min(end)..end {
            if !self.cells[col].style.attrs.has(Attrs::PROTECTED) {
                self.fill_range(col..col + 1, with);
            }
        }
    }

    pub(crate) fn clear(&mut self, with: Cell) {
        self.wrapped = false;
        self.fill_range(0..self.cells.len(), with);
    }

    /// Shifts the cells from `range.start` right by `count`; those pushed over the end are lost.
    pub(crate) fn insert_cells(&mut self, range: Range<usize>, count: usize, with: Cell) {
        let count = count.min(range.len());
        self.split_wide_at(range.start);
        self.split_wide_at(range.end - count);
        self.split_wide_at(range.end);
        self.cells.copy_within(range.start..range.end - count, range.start + count);
        self.used = self.cells.len();
        self.fill_range(range.start..range.start + count, with);
    }

    /// Shifts the cells after the first `count` of `range` left.
    pub(crate) fn delete_cells(&mut self, range: Range<usize>, count: usize, with: Cell) {
        let count = count.min(range.len());
        self.split_wide_at(range.start);
        self.split_wide_at(range.start + count);
        self.split_wide_at(range.end);
        self.cells.copy_within(range.start + count..range.end, range.start);
        // What was left behind may be the second half of a glyph that has moved as a whole.
        self.cells[range.end - count..range.end].fill(Cell::BLANK);
        self.used = self.cells.len();
        self.fill_range(range.end - count..range.end, with);
    }

    pub(crate) fn set_width(&mut self, cols: usize) {
        self.split_wide_at(cols);
        self.cells.resize(cols, Cell::BLANK);
        self.used = self.used.min(cols);
    }

    /// Asked of a row that a keyframe gave.
    pub(crate) fn is_sound(&self, cols: usize) -> bool {
        self.cells.len() == cols && self.used <= cols
    }

    fn copy_range(&mut self, from: &Row, range: Range<usize>) {
        self.split_wide_at(range.start);
        self.split_wide_at(range.end);
        self.cells[range.clone()].copy_from_slice(&from.cells[range]);
        self.used = self.cells.len();
        self.plain &= from.plain;
    }
}

/// The cells of a row that are worth keeping: blanks at its end mean nothing, unless the text goes on
/// after them.
pub(crate) fn trim_stored(cells: &[Cell], wrapped: bool) -> &[Cell] {
    if wrapped {
        return cells;
    }
    let end = cells.iter().rposition(|cell| *cell != Cell::BLANK).map_or(0, |last| last + 1);
    &cells[..end]
}

/// A rectangle of the screen; the ends are not part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Area {
    pub(crate) rows: Range<usize>,
    pub(crate) cols: Range<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grid {
    pub(crate) rows: VecDeque<Row>,
    pub(crate) cols: usize,
}

impl Grid {
    pub(crate) fn new(cols: usize, rows: usize) -> Grid {
        Grid { rows: (0..rows).map(|_| Row::new(cols)).collect(), cols }
    }

    pub(crate) fn cells_mut(&mut self) -> impl Iterator<Item = &mut Cell> {
        self.rows.iter_mut().flat_map(|row| row.cells.iter_mut())
    }

    pub(crate) fn clear(&mut self, with: Cell) {
        for row in &mut self.rows {
            row.clear(with);
        }
    }

    /// Moves the text of `area` up by `count`; `leaving` sees each whole row that goes.
    pub(crate) fn scroll_up(
        &mut self,
        area: &Area,
        count: usize,
        with: Cell,
        mut leaving: impl FnMut(&Row),
    ) {
        let count = count.min(area.rows.len());
        if area.cols.len() < self.cols {
            return self.scroll_part(area, count, with, Direction::Up);
        }
        for _ in 0..count {
            let Some(mut row) = self.take_row(area.rows.start) else { return };
            leaving(&row);
            row.clear(with);
            self.put_row(area.rows.end - 1, row);
        }
    }

    pub(crate) fn scroll_down(&mut self, area: &Area, count: usize, with: Cell) {
        let count = count.min(area.rows.len());
        if area.cols.len() < self.cols {
            return self.scroll_part(area, count, with, Direction::Down);
        }
        for _ in 0..count {
            let Some(mut row) = self.take_row(area.rows.end - 1) else { return };
            row.clear(with);
            self.put_row(area.rows.start, row);
        }
    }

    fn take_row(&mut self, at: usize) -> Option<Row> {
        if at == 0 { self.rows.pop_front() } else { self.rows.remove(at) }
    }

    fn put_row(&mut self, at: usize, row: Row) {
        if at >= self.rows.len() { self.rows.push_back(row) } else { self.rows.insert(at, row) }
    }

    /// Between left and right margins the cells move, the rows stay.
    fn scroll_part(&mut self, area: &Area, count: usize, with: Cell, direction: Direction) {
        let height = area.rows.len();
        for step in 0..height {
            let to = match direction {
                Direction::Up => step,
                Direction::Down => height - 1 - step,
            };
            let from = match direction {
                Direction::Up => Some(to + count).filter(|&from| from < height),
                Direction::Down => to.checked_sub(count),
            };
            let to = area.rows.start + to;
            match from {
                Some(from) => {
                    let source = self.rows[area.rows.start + from].clone();
                    self.rows[to].copy_range(&source, area.cols.clone());
                }
                None => self.rows[to].fill_range(area.cols.clone(), with),
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Up,
    Down,
}
