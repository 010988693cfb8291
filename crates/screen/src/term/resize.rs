//! Resize with reflow: text is wrapped anew, and no text is lost that the scrollback can hold.

use super::{Page, Term, TermCursor, default_tabs};
use crate::cell::{Cell, CellPart, Clusters};
use crate::contract::ScreenSize;
use crate::grid::{Grid, Row, trim_stored};
use crate::history::History;
use crate::line;

impl Term {
    pub(crate) fn resize(&mut self, size: ScreenSize) {
        if size == self.size {
            return;
        }
        self.forget_printed();
        self.synchronize_output(false);
        let old_cols = self.cols();
        self.size = size;
        let (cols, rows) = (self.cols(), self.rows());

        let (main, alt) = if self.alt {
            (&mut self.other, &mut self.page)
        } else {
            (&mut self.page, &mut self.other)
        };
        // The main page's cursor: its own, or the one saved when the alternate screen was entered.
        let main_cursor = if self.alt { &mut main.saved.cursor } else { &mut self.cursor };
        let mut page = Rewrap { history: &mut self.history, clusters: &mut self.clusters };
        if cols == old_cols {
            page.set_height(&mut main.grid, main_cursor, rows);
        } else {
            page.rewrap_grid(&mut main.grid, main_cursor, size);
        }
        let alt_row = if self.alt { Some(&mut self.cursor) } else { None };
        crop_page(alt, alt_row, cols, rows);

        self.area = self.whole_area();
        let mut tabs = default_tabs(cols);
        let kept = cols.min(old_cols);
        tabs[..kept].copy_from_slice(&self.tabs[..kept]);
        self.tabs = tabs;
        self.clamp_cursor();
        if self.modes.resize_reports {
            self.report_size();
        }
    }
}

/// The alternate screen is not rewrapped: its program draws it anew. Rows go from the bottom, unless
/// the cursor is there.
fn crop_page(page: &mut Page, cursor: Option<&mut TermCursor>, cols: usize, rows: usize) {
    let grid = &mut page.grid;
    if let Some(cursor) = cursor {
        while grid.rows.len() > rows && cursor.row >= rows {
            grid.rows.pop_front();
            cursor.row -= 1;
        }
        if cols != grid.cols {
            cursor.wrap_pending = false;
        }
    }
    grid.rows.resize_with(rows, || Row::new(cols));
    grid.rows.iter_mut().for_each(|row| row.set_width(cols));
    grid.cols = cols;
}

struct Rewrap<'a> {
    history: &'a mut History,
    clusters: &'a mut Clusters,
}

impl Rewrap<'_> {
    /// Only the height changes: rows go to the history at the top, or come back from it.
    fn set_height(&mut self, grid: &mut Grid, cursor: &mut TermCursor, rows: usize) {
        while grid.rows.len() > rows {
            let below = grid.rows.len() - 1 > cursor.row;
            if below && grid.rows.back().is_some_and(Row::is_blank) {
                grid.rows.pop_back();
            } else if let Some(row) = grid.rows.pop_front() {
                self.history.push(&row, self.clusters);
                cursor.row = cursor.row.saturating_sub(1);
            }
        }
        self.fill_up(grid, cursor, rows);
    }

    /// Brings rows back from the history, then adds blank ones.
    fn fill_up(&mut self, grid: &mut Grid, cursor: &mut TermCursor, rows: usize) {
        while grid.rows.len() < rows {
            let Some(line) = self.history.pop() else { break };
            let cells = line::decode_line(&line, self.clusters);
            grid.rows.push_front(Row::from_cells(&cells, grid.cols, line::is_wrapped(&line)));
            cursor.row += 1;
        }
        let cols = grid.cols;
        grid.rows.resize_with(rows, || Row::new(cols));
    }

    /// Joins what was wrapped and wraps it at the new width, one row at a time: the memory needed does
    /// not depend on how much there is.
    fn rewrap_grid(&mut self, grid: &mut Grid, cursor: &mut TermCursor, size: ScreenSize) {
        let (cols, rows) = (usize::from(size.cols), usize::from(size.rows));
        let last = grid.rows.iter().rposition(|row| !row.is_blank()).unwrap_or(0);
        let last = last.max(cursor.row);
        let old = std::mem::replace(self.history, History::new(self.history.limit()));
        // Rows of the screen go through the history as well, so it needs room for both for a while.
        let mut all = History::new(self.history.limit().saturating_add(usize::from(u16::MAX)));
        let mut writer =
            RowWriter { out: &mut all, clusters: self.clusters, cols, row: Vec::new(), count: 0 };
        for line in old.newest_lines(usize::MAX) {
            let cells = line::decode_line(line, writer.clusters);
            writer.write_row(&cells, line::is_wrapped(line), None);
            if writer.clusters.is_full() {
                writer.clusters.retain_used(grid.cells_mut().chain(writer.row.iter_mut()));
            }
        }
        drop(old);
        let mut place = (0, 0);
        for (index, row) in grid.rows.iter().enumerate().take(last + 1) {
            let at = (index == cursor.row).then_some(cursor.col + usize::from(cursor.wrap_pending));
            let wrapped = row.wrapped && index < last;
            if let Some(found) = writer.write_row(row.stored_cells(), wrapped, at) {
                place = found;
            }
        }
        let total = writer.finish_rows();

        grid.cols = cols;
        grid.rows.clear();
        let shown = total.min(rows);
        let before = total - shown;
        for _ in 0..shown {
            let Some(line) = all.pop() else { break };
            let cells = line::decode_line(&line, self.clusters);
            grid.rows.push_front(Row::from_cells(&cells, cols, line::is_wrapped(&line)));
        }
        cursor.row = place.0.saturating_sub(before);
        cursor.col = place.1.min(cols - 1);
        cursor.wrap_pending = place.1 >= cols;
        grid.rows.resize_with(rows, || Row::new(cols));
        all.set_limit(self.history.limit());
        *self.history = all;
    }
}

/// Takes cells and ends of lines, gives rows of the new width.
struct RowWriter<'a> {
    out: &'a mut History,
    clusters: &'a mut Clusters,
    cols: usize,
    row: Vec<Cell>,
    count: usize,
}

impl RowWriter<'_> {
    /// Adds one old row. Returns where the cell at `mark` went, as row and column.
    fn write_row(
        &mut self,
        cells: &[Cell],
        wrapped: bool,
        mark: Option<usize>,
    ) -> Option<(usize, usize)> {
        let mut found = None;
        for (col, cell) in cells.iter().enumerate() {
            let vanishes =
                cell.kind == CellPart::Filler || cell.kind == CellPart::Spacer && self.cols == 1;
            if !vanishes {
                self.make_room(cell.kind);
            }
            if mark == Some(col) {
                found = Some(self.next_place());
            }
            if !vanishes {
                let kind = if self.cols == 1 { CellPart::Narrow } else { cell.kind };
                self.row.push(Cell { kind, ..*cell });
            }
        }
        // A cursor beyond the text stays on its row.
        if let (None, Some(mark)) = (found, mark) {
            let (row, col) = self.next_place();
            let beyond = mark.saturating_sub(cells.len());
            let limit = if beyond == 0 { self.cols } else { self.cols - 1 };
            found = Some((row, (col + beyond).min(limit)));
        }
        if !wrapped {
            self.end_row(false);
        }
        found
    }

    fn make_room(&mut self, kind: CellPart) {
        let needed = if kind == CellPart::Wide && self.cols > 1 { 2 } else { 1 };
        if self.row.len() + needed <= self.cols {
            return;
        }
        if self.row.len() < self.cols {
            self.row.push(Cell { kind: CellPart::Filler, ..Cell::BLANK });
        }
        self.end_row(true);
    }

    fn next_place(&self) -> (usize, usize) {
        (self.count, self.row.len())
    }

    fn end_row(&mut self, wrapped: bool) {
        let (row, clusters) = (trim_stored(&self.row, wrapped), &*self.clusters);
        self.out.push_with(|out| line::encode_line(row, wrapped, clusters, out));
        self.row.clear();
        self.count += 1;
    }

    /// Ends the last row; returns how many there are.
    fn finish_rows(mut self) -> usize {
        if !self.row.is_empty() {
            self.end_row(false);
        }
        self.count
    }
}
