//! Floods: plain lines that scroll away while the rest of the same bytes is printed.
//!
//! They are never visible on the screen, so they go to the history without having been drawn. A long
//! listing or a `cat` is nearly all of this kind, and drawing it would be most of a host's work.

use crate::cell::{Cell, Style};
use crate::line;

use super::{Charset, Term};

/// What became of the beginning of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flood {
    /// So many bytes are dealt with.
    pub(crate) taken: usize,
    /// Looking again within so many bytes would find nothing.
    pub(crate) seen: usize,
}

impl Term {
    /// Whether plain lines would do nothing but scroll the screen: on its last line, which is empty.
    pub(crate) fn can_flood(&self) -> bool {
        let cursor = &self.cursor;
        cursor.row + 1 == self.rows()
            && cursor.col == 0
            && !cursor.wrap_pending
            && cursor.pen == Style::default()
            && cursor.charsets[cursor.active_charset] == Charset::Ascii
            && self.single_shift.is_none()
            && self.modes.autowrap
            && !self.modes.insert
            && self.area == self.whole_area()
            && !self.page.grid.rows[cursor.row].wrapped
            && self.page.grid.rows[cursor.row].is_blank()
    }

    /// Moves the plain lines that will have left the screen to the history, all but a screenful. Those
    /// that are not taken have to be printed next: they fill the screen, which is empty until then.
    pub(crate) fn take_flood(&mut self, bytes: &[u8]) -> Flood {
        let (plain, seen) = plain_lines(bytes);
        let taken = without_last_lines(&bytes[..plain], self.rows() - 1);
        if taken == 0 {
            return Flood { taken, seen };
        }
        let keep = !self.alt;
        let last = self.cursor.row;
        for row in self.page.grid.rows.range_mut(..last) {
            if keep {
                self.history.push(row, &self.clusters);
            }
            row.clear(Cell::BLANK);
        }
        if keep {
            self.keep_lines(&bytes[..taken]);
        }
        self.cursor.row = 0;
        self.forget_printed();
        let printed = bytes[..taken].iter().rfind(|byte| **byte >= b' ');
        self.repeat = printed.map(|byte| char::from(*byte)).or(self.repeat);
        Flood { taken, seen }
    }

    fn keep_lines(&mut self, bytes: &[u8]) {
        let cols = self.cols();
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', bytes) {
            // Without the carriage return.
            let mut rest = &bytes[start..newline - 1];
            start = newline + 1;
            while rest.len() > cols {
                let (row, later) = rest.split_at(cols);
                self.history
                    .push_with(|out| line::encode_plain_line(row.iter().copied(), true, out));
                rest = later;
            }
            let row = &rest[..rest.len() - rest.iter().rev().take_while(|b| **b == b' ').count()];
            self.history.push_with(|out| line::encode_plain_line(row.iter().copied(), false, out));
        }
    }
}

/// The length of the lines at the beginning that are nothing but printable ASCII, and how far it had to
/// be looked to know.
fn plain_lines(bytes: &[u8]) -> (usize, usize) {
    let mut end = 0;
    for newline in memchr::memchr_iter(b'\n', bytes) {
        match bytes[end..newline].strip_suffix(b"\r") {
            Some(line) if is_printable(line) => end = newline + 1,
            _ => return (end, newline + 1),
        }
    }
    (end, bytes.len())
}

/// Without an early exit, so that many bytes are looked at with one instruction.
fn is_printable(bytes: &[u8]) -> bool {
    bytes.iter().fold(true, |all, byte| all & (byte.wrapping_sub(b' ') < 0x5f))
}

/// The length of whole lines but for the last `count` of them.
fn without_last_lines(lines: &[u8], count: usize) -> usize {
    let mut end = lines.len();
    for _ in 0..count {
        let Some(before) = end.checked_sub(1) else { return 0 };
        end = memchr::memrchr(b'\n', &lines[..before]).map_or(0, |newline| newline + 1);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_plain_up_to_the_first_that_is_not() {
        assert_eq!(plain_lines(b"a\r\n~ \r\n\r\n\x1b[mx\r\ny\r\n"), (9, 15));
        assert_eq!(plain_lines(b"a\nb\r\n"), (0, 2));
        assert_eq!(plain_lines(b"a\r\nb"), (3, 4));
        assert_eq!(plain_lines("a\r\né\r\n".as_bytes()), (3, 7));
        assert_eq!(plain_lines(b"a\x7f\r\n"), (0, 4));
    }

    #[test]
    fn the_last_lines_stay() {
        let lines = b"a\r\nbb\r\n\r\nc\r\n";
        for (count, expected) in [(0, 12), (1, 9), (2, 7), (3, 3), (4, 0), (5, 0)] {
            assert_eq!(without_last_lines(lines, count), expected, "{count}");
        }
    }
}
