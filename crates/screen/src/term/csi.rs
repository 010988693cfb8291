//! Sequences that begin with `CSI`: movement, erasure, scrolling, modes.

use super::{Term, default_tabs};
use crate::cell::{Attrs, Cell};
use crate::grid::Area;
use crate::sequence::Sequence;

impl Term {
    pub(crate) fn dispatch_csi(&mut self, sequence: &Sequence) {
        match (sequence.marker, sequence.intermediate) {
            (0, 0) => self.dispatch_standard_csi(sequence),
            (0 | b'?', b'$') if sequence.last == b'p' => self.report_mode(sequence),
            (b'?', 0) => self.dispatch_private_csi(sequence),
            (b'>', 0) => match sequence.last {
                b'c' => self.secondary_attributes(),
                b'q' => self.report_version(),
                b'm' if sequence.value(0, 0) == 4 => {
                    self.modes.modify_other_keys = sequence.value(1, 0).min(3) as u8;
                }
                b'u' => self.push_keyboard(sequence.value(0, 0) as u8),
                _ => {}
            },
            (b'<', 0) if sequence.last == b'u' => self.pop_keyboard(sequence.count(0)),
            (b'=', 0) if sequence.last == b'u' => self.set_keyboard(sequence),
            (0, b' ') if sequence.last == b'q' => {
                self.forget_printed();
                self.cursor_shape = sequence.value(0, 0).min(6) as u8;
            }
            (0, b'"') if sequence.last == b'q' => {
                let protects = sequence.value(0, 0) == 1;
                self.cursor.pen.attrs.set(Attrs::PROTECTED, protects);
            }
            (0, b'!') if sequence.last == b'p' => self.soft_reset(),
            _ => {}
        }
    }

    fn dispatch_standard_csi(&mut self, sequence: &Sequence) {
        let count = sequence.count(0);
        match sequence.last {
            b'@' => self.edit_row(count, Edit::Insert),
            b'A' => self.move_vertically(-(count as isize)),
            b'B' | b'e' => self.move_vertically(count as isize),
            b'C' | b'a' => self.move_right(count),
            b'D' => self.move_left(count),
            b'E' => {
                self.move_vertically(count as isize);
                self.carriage_return();
            }
            b'F' => {
                self.move_vertically(-(count as isize));
                self.carriage_return();
            }
            b'G' | b'`' => self.go_to(None, Some(count - 1)),
            b'H' | b'f' => self.go_to(Some(count - 1), Some(sequence.count(1) - 1)),
            b'I' => self.tab_forward(count),
            b'J' => self.erase_display(sequence.value(0, 0), Spare::Nothing),
            b'K' => self.erase_line(sequence.value(0, 0), Spare::Nothing),
            b'L' => self.edit_lines(count, Edit::Insert),
            b'M' => self.edit_lines(count, Edit::Delete),
            b'P' => self.edit_row(count, Edit::Delete),
            b'S' => {
                self.forget_printed();
                self.scroll_up(self.area.clone(), count);
            }
            b'T' if sequence.params().len() <= 1 => {
                self.forget_printed();
                let erased = self.erased_cell();
                self.page.grid.scroll_down(&self.area, count, erased);
            }
            b'X' => {
                self.forget_printed();
                self.cursor.wrap_pending = false;
                let (col, erased) = (self.cursor.col, self.erased_cell());
                self.row_mut().fill_range(col..col.saturating_add(count), erased);
            }
            b'Z' => self.tab_back(count),
            b'b' => self.repeat_last(count),
            b'c' if sequence.value(0, 0) == 0 => self.primary_attributes(),
            b'd' => self.go_to(Some(count - 1), None),
            b'g' => match sequence.value(0, 0) {
                0 => self.tabs[self.cursor.col] = false,
                3 => self.tabs.fill(false),
                _ => {}
            },
            b'h' => self.set_modes(sequence, true),
            b'l' => self.set_modes(sequence, false),
            b'm' => self.apply_sgr(sequence),
            b'n' => self.report_status(sequence.value(0, 0)),
            b'r' => self.set_region(sequence),
            b's' if self.modes.margins => self.set_margins(sequence),
            b's' => self.save_cursor(),
            b'u' => self.restore_cursor(),
            b't' => self.dispatch_window_op(sequence),
            _ => {}
        }
    }

    fn dispatch_private_csi(&mut self, sequence: &Sequence) {
        match sequence.last {
            b'h' => sequence.values().for_each(|number| self.set_private(number, true)),
            b'l' => sequence.values().for_each(|number| self.set_private(number, false)),
            b'J' => self.erase_display(sequence.value(0, 0), Spare::Protected),
            b'K' => self.erase_line(sequence.value(0, 0), Spare::Protected),
            b'n' => self.report_private_status(sequence.value(0, 0)),
            b'u' => self.report_keyboard(),
            _ => {}
        }
    }

    fn set_modes(&mut self, sequence: &Sequence, on: bool) {
        for number in sequence.values() {
            match number {
                4 => self.modes.insert = on,
                20 => self.modes.newline = on,
                _ => {}
            }
        }
    }

    fn set_private(&mut self, number: u16, on: bool) {
        match number {
            47 | 1047 => {
                if !on && self.alt && number == 1047 {
                    self.page.grid.clear(Cell::BLANK);
                }
                self.show_alt(on);
            }
            1048 if on => self.save_cursor(),
            1048 => self.restore_cursor(),
            1049 if on && !self.alt => {
                self.save_cursor();
                self.show_alt(true);
                let erased = self.erased_cell();
                self.page.grid.clear(erased);
            }
            1049 if !on && self.alt => {
                self.show_alt(false);
                self.restore_cursor();
            }
            2026 => self.synchronize_output(on),
            _ if self.modes.set_mouse(number, on) => {}
            _ => {
                let Some(switch) = self.modes.private_switch(number) else { return };
                *switch = on;
                self.effects.dirty = true;
                match number {
                    6 => self.go_to(Some(0), Some(0)),
                    69 if !on => self.area.cols = 0..self.cols(),
                    2048 if on => self.report_size(),
                    _ => {}
                }
            }
        }
    }

    pub(crate) fn push_keyboard(&mut self, flags: u8) {
        const MAX_KEYBOARD_STACK: usize = 16;
        if self.page.keyboard.len() == MAX_KEYBOARD_STACK {
            self.page.keyboard.remove(0);
        }
        self.page.keyboard.push(flags & 31);
        self.modes.kitty_keyboard = flags & 31;
    }

    fn pop_keyboard(&mut self, count: usize) {
        let left = self.page.keyboard.len().saturating_sub(count);
        self.page.keyboard.truncate(left);
        self.modes.kitty_keyboard = self.page.keyboard.last().copied().unwrap_or(0);
    }

    fn set_keyboard(&mut self, sequence: &Sequence) {
        let flags = sequence.value(0, 0) as u8 & 31;
        let now = self.modes.kitty_keyboard;
        let flags = match sequence.value(1, 1) {
            2 => now | flags,
            3 => now & !flags,
            _ => flags,
        };
        self.page.keyboard.pop();
        self.push_keyboard(flags);
    }

    fn soft_reset(&mut self) {
        self.forget_printed();
        let fresh = Term::new(self.size, 0, self.personality);
        self.modes.insert = false;
        self.modes.origin = false;
        self.modes.autowrap = true;
        self.modes.cursor_visible = true;
        self.modes.application_cursor = false;
        self.modes.application_keypad = false;
        self.modes.margins = false;
        self.area = fresh.area;
        self.cursor.pen = fresh.cursor.pen;
        self.cursor.charsets = fresh.cursor.charsets;
        self.cursor.active_charset = 0;
        self.page.saved = fresh.page.saved;
    }

    /// Moves to a place; in origin mode it is counted from the region's corner and stays inside.
    pub(crate) fn go_to(&mut self, row: Option<usize>, col: Option<usize>) {
        self.forget_printed();
        let within = if self.modes.origin { self.area.clone() } else { self.whole_area() };
        if let Some(row) = row {
            self.cursor.row = within.rows.start.saturating_add(row).min(within.rows.end - 1);
        }
        if let Some(col) = col {
            self.cursor.col = within.cols.start.saturating_add(col).min(within.cols.end - 1);
        }
        self.cursor.wrap_pending = false;
    }

    /// Up and down stop at the region's border if they begin inside it.
    fn move_vertically(&mut self, by: isize) {
        self.forget_printed();
        let Area { rows, .. } = &self.area;
        let row = self.cursor.row;
        let target = row.saturating_add_signed(by);
        self.cursor.row = if by < 0 && row >= rows.start {
            target.max(rows.start)
        } else if by > 0 && row < rows.end {
            target.min(rows.end - 1)
        } else {
            target.min(self.rows() - 1)
        };
        self.cursor.wrap_pending = false;
    }

    fn move_right(&mut self, by: usize) {
        self.forget_printed();
        let right = self.right_edge();
        self.cursor.col = self.cursor.col.saturating_add(by).min(right - 1);
        self.cursor.wrap_pending = false;
    }

    fn move_left(&mut self, by: usize) {
        self.forget_printed();
        let left = self.left_edge();
        self.cursor.col = self.cursor.col.saturating_sub(by).max(left);
        self.cursor.wrap_pending = false;
    }

    fn erase_display(&mut self, what: usize, spare: Spare) {
        self.forget_printed();
        self.cursor.wrap_pending = false;
        let row = self.cursor.row;
        let rows = match what {
            0 => {
                self.erase_line(0, spare);
                row + 1..self.rows()
            }
            1 => {
                self.erase_line(1, spare);
                0..row
            }
            2 => 0..self.rows(),
            3 if spare == Spare::Nothing => {
                self.history.clear();
                return;
            }
            _ => return,
        };
        let erased = self.erased_cell();
        for row in rows {
            let row = &mut self.page.grid.rows[row];
            match spare {
                Spare::Nothing => row.clear(erased),
                Spare::Protected => row.fill_unprotected(0..usize::MAX, erased),
            }
        }
    }

    fn erase_line(&mut self, what: usize, spare: Spare) {
        self.forget_printed();
        self.cursor.wrap_pending = false;
        let (col, cols, erased) = (self.cursor.col, self.cols(), self.erased_cell());
        let row = self.row_mut();
        if spare == Spare::Protected {
            let range = match what {
                0 => col..cols,
                1 => 0..col + 1,
                2 => 0..cols,
                _ => return,
            };
            return row.fill_unprotected(range, erased);
        }
        match what {
            0 => {
                row.fill_range(col..cols, erased);
                row.wrapped = false;
            }
            1 => row.fill_range(0..col + 1, erased),
            2 => row.clear(erased),
            _ => {}
        }
    }

    fn edit_row(&mut self, count: usize, edit: Edit) {
        self.forget_printed();
        self.cursor.wrap_pending = false;
        if !self.area.cols.contains(&self.cursor.col) {
            return;
        }
        let range = self.cursor.col..self.area.cols.end;
        let erased = self.erased_cell();
        match edit {
            Edit::Insert => self.row_mut().insert_cells(range, count, erased),
            Edit::Delete => self.row_mut().delete_cells(range, count, erased),
        }
    }

    fn edit_lines(&mut self, count: usize, edit: Edit) {
        self.forget_printed();
        self.cursor.wrap_pending = false;
        let inside =
            self.area.rows.contains(&self.cursor.row) && self.area.cols.contains(&self.cursor.col);
        if !inside {
            return;
        }
        let below =
            Area { rows: self.cursor.row..self.area.rows.end, cols: self.area.cols.clone() };
        let erased = self.erased_cell();
        match edit {
            Edit::Insert => self.page.grid.scroll_down(&below, count, erased),
            // Deleted lines are gone: they never scrolled out of sight.
            Edit::Delete => self.page.grid.scroll_up(&below, count, erased, |_| {}),
        }
        self.cursor.col = self.left_edge();
    }

    fn repeat_last(&mut self, count: usize) {
        let Some(c) = self.repeat else { return };
        for _ in 0..count.min(self.cols() * self.rows()) {
            self.print_char(c);
        }
    }

    fn set_region(&mut self, sequence: &Sequence) {
        let top = sequence.count(0) - 1;
        let bottom = match sequence.value(1, 0) {
            0 => self.rows(),
            bottom => bottom.min(self.rows()),
        };
        if top + 1 < bottom {
            self.area.rows = top..bottom;
            self.go_to(Some(0), Some(0));
        }
    }

    fn set_margins(&mut self, sequence: &Sequence) {
        let left = sequence.count(0) - 1;
        let right = match sequence.value(1, 0) {
            0 => self.cols(),
            right => right.min(self.cols()),
        };
        if left + 1 < right {
            self.area.cols = left..right;
            self.go_to(Some(0), Some(0));
        }
    }

    fn dispatch_window_op(&mut self, sequence: &Sequence) {
        const MAX_SAVED_TITLES: usize = 16;
        match sequence.value(0, 0) {
            what @ (14 | 16 | 18) => self.report_window(what),
            22 if self.titles.len() < MAX_SAVED_TITLES => self.titles.push(self.title.clone()),
            23 => {
                if let Some(title) = self.titles.pop() {
                    self.set_title(title);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn tabs_are_default(&self) -> bool {
        self.tabs == default_tabs(self.cols())
    }
}

/// What an erasure leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spare {
    Nothing,
    /// What was printed while `DECSCA` was on.
    Protected,
}

#[derive(Clone, Copy)]
enum Edit {
    Insert,
    Delete,
}
