//! `SGR`: how the next characters look.

use std::fmt::Write;

use super::Term;
use crate::cell::{Attrs, Color, Style};
use crate::sequence::{Param, Sequence};

impl Term {
    pub(crate) fn apply_sgr(&mut self, sequence: &Sequence) {
        let mut params = sequence.params();
        if params.is_empty() {
            self.cursor.pen = plain_style(self.cursor.pen);
        }
        while let Some((&first, rest)) = params.split_first() {
            let subs = rest.iter().take_while(|param| param.sub).count();
            let (subs, after) = rest.split_at(subs);
            let used = self.apply_attribute(first.value.unwrap_or(0), subs, after);
            params = &after[used..];
        }
    }

    /// Applies one attribute; returns how many of the parameters after it were its own.
    fn apply_attribute(&mut self, number: u16, subs: &[Param], after: &[Param]) -> usize {
        let pen = &mut self.cursor.pen;
        let attrs = &mut pen.attrs;
        match number {
            0 => *pen = plain_style(*pen),
            1 => attrs.set(Attrs::BOLD, true),
            2 => attrs.set(Attrs::DIM, true),
            3 => attrs.set(Attrs::ITALIC, true),
            4 => attrs.set_underline(subs.first().map_or(1, |sub| sub.value.unwrap_or(1) as u8)),
            5 | 6 => attrs.set(Attrs::BLINK, true),
            7 => attrs.set(Attrs::INVERSE, true),
            8 => attrs.set(Attrs::HIDDEN, true),
            9 => attrs.set(Attrs::STRIKE, true),
            21 => attrs.set_underline(2),
            22 => {
                attrs.set(Attrs::BOLD, false);
                attrs.set(Attrs::DIM, false);
            }
            23 => attrs.set(Attrs::ITALIC, false),
            24 => attrs.set_underline(0),
            25 => attrs.set(Attrs::BLINK, false),
            27 => attrs.set(Attrs::INVERSE, false),
            28 => attrs.set(Attrs::HIDDEN, false),
            29 => attrs.set(Attrs::STRIKE, false),
            53 => attrs.set(Attrs::OVERLINE, true),
            55 => attrs.set(Attrs::OVERLINE, false),
            30..=37 => pen.fg = Color::Indexed((number - 30) as u8),
            40..=47 => pen.bg = Color::Indexed((number - 40) as u8),
            90..=97 => pen.fg = Color::Indexed((number - 90 + 8) as u8),
            100..=107 => pen.bg = Color::Indexed((number - 100 + 8) as u8),
            39 => pen.fg = Color::Default,
            49 => pen.bg = Color::Default,
            38 | 48 | 58 => {
                let (color, used) = extended_color(subs, after);
                match (number, color) {
                    (38, Some(color)) => pen.fg = color,
                    (48, Some(color)) => pen.bg = color,
                    // The colour of an underline is not kept.
                    _ => {}
                }
                return used;
            }
            _ => {}
        }
        0
    }
}

/// `38:2::r:g:b`, `38:5:n`, or the same with semicolons.
fn extended_color(subs: &[Param], after: &[Param]) -> (Option<Color>, usize) {
    let byte = |param: Option<&Param>| param.map_or(0, |p| p.value.unwrap_or(0).min(255) as u8);
    if !subs.is_empty() {
        let color = match (subs[0].value, subs.len()) {
            (Some(5), 2..) => Some(Color::Indexed(byte(subs.get(1)))),
            (Some(2), 4) => Some(parse_rgb(&subs[1..], byte)),
            (Some(2), 5..) => Some(parse_rgb(&subs[2..], byte)),
            _ => None,
        };
        return (color, 0);
    }
    match after.first().and_then(|kind| kind.value) {
        Some(5) => {
            (after.get(1).map(|index| Color::Indexed(byte(Some(index)))), after.len().min(2))
        }
        Some(2) => {
            let used = after.len().min(4);
            ((used == 4).then(|| parse_rgb(&after[1..], byte)), used)
        }
        _ => (None, 0),
    }
}

fn parse_rgb(params: &[Param], byte: impl Fn(Option<&Param>) -> u8) -> Color {
    Color::Rgb(byte(params.first()), byte(params.get(1)), byte(params.get(2)))
}

/// The parameters that select `style` from nothing.
pub(crate) fn sgr_parameters(style: Style) -> String {
    let mut text = "0".to_owned();
    let attrs = [
        (Attrs::BOLD, 1),
        (Attrs::DIM, 2),
        (Attrs::ITALIC, 3),
        (Attrs::BLINK, 5),
        (Attrs::INVERSE, 7),
        (Attrs::HIDDEN, 8),
        (Attrs::STRIKE, 9),
        (Attrs::OVERLINE, 53),
    ];
    for (_, number) in attrs.iter().filter(|(attr, _)| style.attrs.has(*attr)) {
        let _ = write!(text, ";{number}");
    }
    match style.attrs.underline_style() {
        0 => {}
        1 => text.push_str(";4"),
        kind => {
            let _ = write!(text, ";4:{kind}");
        }
    }
    write_color(style.fg, 30, &mut text);
    write_color(style.bg, 40, &mut text);
    text
}

fn write_color(color: Color, base: u16, text: &mut String) {
    let _ = match color {
        Color::Default => Ok(()),
        Color::Indexed(index @ 0..=7) => write!(text, ";{}", base + u16::from(index)),
        Color::Indexed(index @ 8..=15) => write!(text, ";{}", base + 52 + u16::from(index)),
        Color::Indexed(index) => write!(text, ";{};5;{index}", base + 8),
        Color::Rgb(r, g, b) => write!(text, ";{};2;{r};{g};{b}", base + 8),
    };
}

/// As new, but for what `SGR` does not set.
fn plain_style(pen: Style) -> Style {
    let mut plain = Style::default();
    plain.attrs.set(Attrs::PROTECTED, pen.attrs.has(Attrs::PROTECTED));
    plain
}
