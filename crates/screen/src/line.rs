//! Compact rows: the text, and run-length encoded styles.
//!
//! Scrollback holds thousands of rows that are seldom looked at. As cells a row of 120 columns takes
//! 1.9 KiB; as its text it takes what was printed. The encoding is private to the process and to
//! keyframes, which carry a version.

use crate::cell::{Attrs, Cell, CellPart, Clusters, Color, Glyph, Style};

const WRAPPED: u8 = 1;
const STYLED: u8 = 2;

/// Marks in the text, where a control character can never be: no cell holds one.
const JOIN: char = '\u{1}';
const SPACER: char = '\u{2}';
const FILLER: char = '\u{3}';

pub(crate) fn encode_line(cells: &[Cell], wrapped: bool, clusters: &Clusters, out: &mut Vec<u8>) {
    let styled = cells.iter().any(|cell| cell.style != Style::default());
    out.push(if wrapped { WRAPPED } else { 0 } | if styled { STYLED } else { 0 });
    if styled {
        encode_styles(cells, out);
    }
    for cell in cells {
        match (cell.kind, cell.glyph.as_char()) {
            (CellPart::Spacer, _) => out.push(SPACER as u8),
            (CellPart::Filler, _) => out.push(FILLER as u8),
            (_, Some(c)) if c.is_ascii() => out.push(c as u8),
            _ => {
                let text = clusters.glyph_text(cell.glyph);
                for (index, c) in text.chars().enumerate() {
                    if index > 0 {
                        out.push(JOIN as u8);
                    }
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
    }
}

/// What [`encode_line`] would write for ASCII in the default style.
pub(crate) fn encode_plain_line(text: impl Iterator<Item = u8>, wrapped: bool, out: &mut Vec<u8>) {
    out.push(if wrapped { WRAPPED } else { 0 });
    out.extend(text);
}

fn encode_styles(cells: &[Cell], out: &mut Vec<u8>) {
    let mut runs: Vec<(usize, Style)> = Vec::new();
    for cell in cells {
        match runs.last_mut() {
            Some((count, style)) if *style == cell.style => *count += 1,
            _ => runs.push((1, cell.style)),
        }
    }
    write_varint(runs.len(), out);
    let mut last = Style::default();
    for (count, style) in runs {
        write_varint(count, out);
        encode_style_change(last, style, out);
        last = style;
    }
}

fn write_varint(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// What a colour is, in two bits.
const SAME: u8 = 0;
const DEFAULT: u8 = 1;
const INDEXED: u8 = 2;
const RGB: u8 = 3;
/// The attributes follow; else they are those of the run before.
const ATTRS: u8 = 1 << 4;

/// Only what differs from the run before: rainbows change one colour in every cell.
fn encode_style_change(last: Style, style: Style, out: &mut Vec<u8>) {
    let kind = |color: Color, last: Color| match color {
        _ if color == last => SAME,
        Color::Default => DEFAULT,
        Color::Indexed(_) => INDEXED,
        Color::Rgb(..) => RGB,
    };
    let (fg, bg) = (kind(style.fg, last.fg), kind(style.bg, last.bg));
    let attrs = if style.attrs == last.attrs { 0 } else { ATTRS };
    out.push(fg | bg << 2 | attrs);
    for (kind, color) in [(fg, style.fg), (bg, style.bg)] {
        match color {
            _ if kind == SAME => {}
            Color::Default => {}
            Color::Indexed(index) => out.push(index),
            Color::Rgb(r, g, b) => out.extend_from_slice(&[r, g, b]),
        }
    }
    if attrs != 0 {
        out.extend_from_slice(&style.attrs.0.to_le_bytes());
    }
}

/// Reads what [`encode_line`] wrote. Damaged bytes give a shorter line, never a panic.
#[derive(Clone, Copy)]
struct LineReader<'a>(&'a [u8]);

impl<'a> LineReader<'a> {
    fn next_byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn read_varint(&mut self) -> usize {
        let mut value = 0usize;
        for shift in (0..28).step_by(7) {
            let byte = self.next_byte();
            value |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }

    fn read_color(&mut self, kind: u8, last: Color) -> Color {
        match kind & 3 {
            DEFAULT => Color::Default,
            INDEXED => Color::Indexed(self.next_byte()),
            RGB => Color::Rgb(self.next_byte(), self.next_byte(), self.next_byte()),
            _ => last,
        }
    }

    /// The styles of a line, each with the number of its cells.
    fn read_style_runs(&mut self) -> Vec<(usize, Style)> {
        let mut runs = Vec::new();
        let mut style = Style::default();
        for _ in 0..self.read_varint().min(self.0.len()) {
            let count = self.read_varint();
            let change = self.next_byte();
            style.fg = self.read_color(change, style.fg);
            style.bg = self.read_color(change >> 2, style.bg);
            if change & ATTRS != 0 {
                style.attrs = Attrs(u16::from_le_bytes([self.next_byte(), self.next_byte()]));
            }
            runs.push((count, style));
        }
        runs
    }

    fn rest_as_text(self) -> &'a str {
        match std::str::from_utf8(self.0) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&self.0[..error.valid_up_to()]).unwrap_or_default(),
        }
    }
}

pub(crate) fn is_wrapped(line: &[u8]) -> bool {
    line.first().is_some_and(|flags| flags & WRAPPED != 0)
}

/// The line's text in the canonical form: whole clusters, no trailing spaces.
pub(crate) fn line_text(line: &[u8]) -> String {
    let mut reader = LineReader(line);
    if reader.next_byte() & STYLED != 0 {
        reader.read_style_runs();
    }
    let mut text: String = reader.rest_as_text().chars().filter(|c| *c > FILLER).collect();
    text.truncate(text.trim_end_matches(' ').len());
    text
}

pub(crate) fn decode_line(line: &[u8], clusters: &mut Clusters) -> Vec<Cell> {
    let mut reader = LineReader(line);
    let runs = if reader.next_byte() & STYLED != 0 { reader.read_style_runs() } else { Vec::new() };
    let mut cells: Vec<Cell> = Vec::new();
    let mut cluster = String::new();
    let mut chars = reader.rest_as_text().chars().peekable();
    while let Some(c) = chars.next() {
        let (glyph, kind) = match c {
            SPACER => (Glyph::SPACE, CellPart::Spacer),
            FILLER => (Glyph::SPACE, CellPart::Filler),
            _ if chars.peek() == Some(&JOIN) => {
                cluster.clear();
                cluster.push(c);
                while chars.next_if_eq(&JOIN).is_some() {
                    cluster.extend(chars.next());
                }
                (clusters.add_cluster(&cluster), CellPart::Narrow)
            }
            _ => (Glyph::from_char(c), CellPart::Narrow),
        };
        if kind == CellPart::Spacer {
            match cells.last_mut() {
                Some(left) => left.kind = CellPart::Wide,
                None => continue,
            }
        }
        cells.push(Cell { glyph, kind, ..Cell::BLANK });
    }
    let mut at = 0;
    for (count, style) in runs {
        let end = (at + count).min(cells.len());
        cells[at..end].iter_mut().for_each(|cell| cell.style = style);
        at = end;
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{ScreenLimits, ScreenSize};
    use crate::screen::Screen;

    /// Everything a row can hold comes back.
    #[test]
    fn what_is_written_is_read() {
        let text = "plain \x1b[1;31mred \x1b[4:3;38;2;1;2;3;48;5;200mboth\x1b[39m default \x1b[0m漢字 👨‍👩‍👧 e\u{301}x";
        let mut screen = Screen::new(ScreenSize { cols: 60, rows: 2 }, ScreenLimits::default());
        let _ = screen.advance(text.as_bytes());
        let row = &screen.term.page.grid.rows[0];
        let mut line = Vec::new();
        encode_line(row.stored_cells(), true, &screen.term.clusters, &mut line);
        assert!(is_wrapped(&line));
        assert_eq!(super::line_text(&line), row.row_text(&screen.term.clusters));
        let mut clusters = Clusters::default();
        let cells = decode_line(&line, &mut clusters);
        assert_eq!(cells.len(), row.stored_cells().len());
        for (read, written) in cells.iter().zip(row.stored_cells()) {
            assert_eq!((read.style, read.kind), (written.style, written.kind));
            assert_eq!(
                clusters.glyph_text(read.glyph),
                screen.term.clusters.glyph_text(written.glyph)
            );
        }
    }

    #[test]
    fn a_rainbow_takes_few_bytes() {
        let cells: Vec<Cell> = (0..120)
            .map(|n| Cell {
                style: Style { fg: Color::Rgb(n, 255 - n, 7), ..Style::default() },
                ..Cell::BLANK
            })
            .collect();
        let mut line = Vec::new();
        encode_line(&cells, false, &Clusters::default(), &mut line);
        assert!(line.len() <= 120 * 6 + 4, "{}", line.len());
    }

    #[test]
    fn damaged_lines_are_read_as_far_as_they_go() {
        let mut random = 1_u32;
        for length in 0..200 {
            let line: Vec<u8> = (0..length)
                .map(|_| {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (random >> 24) as u8
                })
                .collect();
            let _ = (decode_line(&line, &mut Clusters::default()), super::line_text(&line));
        }
    }
}
