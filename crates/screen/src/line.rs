//! A row in few bytes: its text and the runs of its styles.
//!
//! Scrollback holds thousands of rows that are seldom looked at. As cells a row of 120 columns takes
//! 1.9 KiB; as its text it takes what was printed. The encoding is private to the process and to
//! keyframes, which carry a version.

use crate::cell::{Attrs, Cell, Clusters, Color, Glyph, Kind, Style};

const WRAPPED: u8 = 1;
const STYLED: u8 = 2;

/// Marks in the text, where a control character can never be: no cell holds one.
const JOIN: char = '\u{1}';
const SPACER: char = '\u{2}';
const FILLER: char = '\u{3}';

pub(crate) fn encode(cells: &[Cell], wrapped: bool, clusters: &Clusters, out: &mut Vec<u8>) {
    let styled = cells.iter().any(|cell| cell.style != Style::default());
    out.push(if wrapped { WRAPPED } else { 0 } | if styled { STYLED } else { 0 });
    if styled {
        encode_styles(cells, out);
    }
    for cell in cells {
        match (cell.kind, cell.glyph.as_char()) {
            (Kind::Spacer, _) => out.push(SPACER as u8),
            (Kind::Filler, _) => out.push(FILLER as u8),
            (_, Some(c)) if c.is_ascii() => out.push(c as u8),
            _ => {
                let text = clusters.text(cell.glyph);
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

/// What [`encode`] would write for ASCII in the default style.
pub(crate) fn encode_plain(text: impl Iterator<Item = u8>, wrapped: bool, out: &mut Vec<u8>) {
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
    number(runs.len(), out);
    for (count, style) in runs {
        number(count, out);
        color(style.fg, out);
        color(style.bg, out);
        out.extend_from_slice(&style.attrs.0.to_le_bytes());
    }
}

fn number(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn color(color: Color, out: &mut Vec<u8>) {
    match color {
        Color::Default => out.push(0),
        Color::Indexed(index) => out.extend_from_slice(&[1, index]),
        Color::Rgb(r, g, b) => out.extend_from_slice(&[2, r, g, b]),
    }
}

/// Reads what [`encode`] wrote. Damaged bytes give a shorter line, never a panic.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn number(&mut self) -> usize {
        let mut value = 0usize;
        for shift in (0..28).step_by(7) {
            let byte = self.byte();
            value |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }

    fn color(&mut self) -> Color {
        match self.byte() {
            1 => Color::Indexed(self.byte()),
            2 => Color::Rgb(self.byte(), self.byte(), self.byte()),
            _ => Color::Default,
        }
    }

    fn run(&mut self) -> (usize, Style) {
        let count = self.number();
        let (fg, bg) = (self.color(), self.color());
        let attrs = Attrs(u16::from_le_bytes([self.byte(), self.byte()]));
        (count, Style { fg, bg, attrs })
    }

    fn text(self) -> &'a str {
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
pub(crate) fn text(line: &[u8]) -> String {
    let mut reader = Reader(line);
    if reader.byte() & STYLED != 0 {
        for _ in 0..reader.number().min(reader.0.len()) {
            reader.run();
        }
    }
    let mut text: String = reader.text().chars().filter(|c| *c > FILLER).collect();
    text.truncate(text.trim_end_matches(' ').len());
    text
}

pub(crate) fn decode(line: &[u8], clusters: &mut Clusters) -> Vec<Cell> {
    let mut reader = Reader(line);
    let mut runs = Vec::new();
    if reader.byte() & STYLED != 0 {
        for _ in 0..reader.number().min(reader.0.len()) {
            runs.push(reader.run());
        }
    }
    let mut cells: Vec<Cell> = Vec::new();
    let mut cluster = String::new();
    let mut chars = reader.text().chars().peekable();
    while let Some(c) = chars.next() {
        let (glyph, kind) = match c {
            SPACER => (Glyph::SPACE, Kind::Spacer),
            FILLER => (Glyph::SPACE, Kind::Filler),
            _ if chars.peek() == Some(&JOIN) => {
                cluster.clear();
                cluster.push(c);
                while chars.next_if_eq(&JOIN).is_some() {
                    cluster.extend(chars.next());
                }
                (clusters.add(&cluster), Kind::Narrow)
            }
            _ => (Glyph::char(c), Kind::Narrow),
        };
        if kind == Kind::Spacer {
            match cells.last_mut() {
                Some(left) => left.kind = Kind::Wide,
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
