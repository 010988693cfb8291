//! Colours by value: the 256 of xterm, what the program changed, and the defaults.

use serde::{Deserialize, Serialize};

use crate::cell::Color;

pub(crate) type Rgb = [u8; 3];

/// A colour that has a number of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ColorSlot {
    Foreground,
    Background,
    Cursor,
    Indexed(u8),
}

/// The first sixteen colours and the defaults: what a profile chooses. Written as `#rrggbb`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Theme {
    #[serde(with = "hex")]
    pub foreground: [u8; 3],
    #[serde(with = "hex")]
    pub background: [u8; 3],
    #[serde(with = "hex")]
    pub cursor: [u8; 3],
    #[serde(with = "hex_list")]
    pub ansi: [[u8; 3]; 16],
}

impl Default for Theme {
    fn default() -> Self {
        Theme::DARK
    }
}

mod hex {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Rgb;

    pub(super) fn hex_text([r, g, b]: Rgb) -> String {
        format!("#{r:02x}{g:02x}{b:02x}")
    }

    pub(super) fn parse_hex<E: Error>(text: &str) -> Result<Rgb, E> {
        let color = (text.len() == 7).then(|| super::parse_color_spec(text)).flatten();
        color.ok_or_else(|| E::custom(format!("`{text}` is not a colour; write #rrggbb")))
    }

    pub(super) fn serialize<S: Serializer>(color: &Rgb, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&hex_text(*color))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Rgb, D::Error> {
        parse_hex(&String::deserialize(input)?)
    }
}

mod hex_list {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Rgb, hex};

    pub(super) fn serialize<S: Serializer>(list: &[Rgb; 16], out: S) -> Result<S::Ok, S::Error> {
        list.map(hex::hex_text).serialize(out)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<[Rgb; 16], D::Error> {
        let texts = Vec::<String>::deserialize(input)?;
        let list =
            texts.iter().map(|text| hex::parse_hex(text)).collect::<Result<Vec<Rgb>, _>>()?;
        list.try_into().map_err(|_| D::Error::custom("`ansi` needs sixteen colours"))
    }
}

impl Theme {
    /// Of `reference-dark`; also what programs that ask are told.
    pub const DARK: Theme = Theme {
        foreground: [0xcd, 0xd6, 0xf4],
        background: [0x1e, 0x1e, 0x2e],
        cursor: [0xf5, 0xe0, 0xdc],
        ansi: [
            [0x45, 0x47, 0x5a],
            [0xf3, 0x8b, 0xa8],
            [0xa6, 0xe3, 0xa1],
            [0xf9, 0xe2, 0xaf],
            [0x89, 0xb4, 0xfa],
            [0xf5, 0xc2, 0xe7],
            [0x94, 0xe2, 0xd5],
            [0xba, 0xc2, 0xde],
            [0x58, 0x5b, 0x70],
            [0xf3, 0x8b, 0xa8],
            [0xa6, 0xe3, 0xa1],
            [0xf9, 0xe2, 0xaf],
            [0x89, 0xb4, 0xfa],
            [0xf5, 0xc2, 0xe7],
            [0x94, 0xe2, 0xd5],
            [0xa6, 0xad, 0xc8],
        ],
    };

    /// Of `reference-light`.
    pub const LIGHT: Theme = Theme {
        foreground: [0x4c, 0x4f, 0x69],
        background: [0xef, 0xf1, 0xf5],
        cursor: [0xdc, 0x8a, 0x78],
        ansi: [
            [0x5c, 0x5f, 0x77],
            [0xd2, 0x0f, 0x39],
            [0x40, 0xa0, 0x2b],
            [0xdf, 0x8e, 0x1d],
            [0x1e, 0x66, 0xf5],
            [0xea, 0x76, 0xcb],
            [0x17, 0x92, 0x99],
            [0xac, 0xb0, 0xbe],
            [0x6c, 0x6f, 0x85],
            [0xd2, 0x0f, 0x39],
            [0x40, 0xa0, 0x2b],
            [0xdf, 0x8e, 0x1d],
            [0x1e, 0x66, 0xf5],
            [0xea, 0x76, 0xcb],
            [0x17, 0x92, 0x99],
            [0xbc, 0xc0, 0xcc],
        ],
    };

    /// The value of one of xterm's 256 colours.
    pub(crate) fn indexed_color(&self, index: u8) -> Rgb {
        const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
        match index {
            0..=15 => self.ansi[usize::from(index)],
            16..=231 => {
                let cube = index - 16;
                [cube / 36, cube / 6 % 6, cube % 6].map(|step| STEPS[usize::from(step)])
            }
            232..=255 => [8 + (index - 232) * 10; 3],
        }
    }
}

/// What the program changed of the theme.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Palette {
    changed: Vec<(ColorSlot, Rgb)>,
}

impl Palette {
    pub(crate) fn set_color(&mut self, slot: ColorSlot, color: Option<Rgb>) {
        self.changed.retain(|(changed, _)| *changed != slot);
        self.changed.extend(color.map(|color| (slot, color)));
    }

    pub(crate) fn reset_indexed(&mut self) {
        self.changed.retain(|(slot, _)| !matches!(slot, ColorSlot::Indexed(_)));
    }

    pub(crate) fn changed_colors(&self) -> &[(ColorSlot, Rgb)] {
        &self.changed
    }

    /// What a program that asks is told: its own change, or the dark reference.
    pub(crate) fn get_color(&self, slot: ColorSlot) -> Rgb {
        self.get_color_in(slot, &Theme::DARK)
    }

    pub(crate) fn get_color_in(&self, slot: ColorSlot, theme: &Theme) -> Rgb {
        let changed = self.changed.iter().find(|(changed, _)| *changed == slot);
        changed.map_or_else(
            || match slot {
                ColorSlot::Foreground => theme.foreground,
                ColorSlot::Background => theme.background,
                ColorSlot::Cursor => theme.cursor,
                ColorSlot::Indexed(index) => theme.indexed_color(index),
            },
            |(_, color)| *color,
        )
    }

    /// The value of a cell's colour; none for the default one.
    pub(crate) fn resolve_color_in(&self, color: Color, theme: &Theme) -> Option<Rgb> {
        match color {
            Color::Default => None,
            Color::Indexed(index) => Some(self.get_color_in(ColorSlot::Indexed(index), theme)),
            Color::Rgb(r, g, b) => Some([r, g, b]),
        }
    }
}

/// `#rrggbb` and `rgb:r/g/b` with one to four digits each, as X11 writes colours.
pub(crate) fn parse_color_spec(spec: &str) -> Option<Rgb> {
    if let Some(hex) = spec.strip_prefix('#') {
        let digits = hex.len() / 3;
        if hex.len() % 3 != 0 || !(1..=4).contains(&digits) || !hex.is_ascii() {
            return None;
        }
        let part = |index: usize| high_byte(&hex[index * digits..(index + 1) * digits]);
        return Some([part(0)?, part(1)?, part(2)?]);
    }
    let mut parts = spec.strip_prefix("rgb:")?.split('/');
    let color =
        [scaled_byte(parts.next()?)?, scaled_byte(parts.next()?)?, scaled_byte(parts.next()?)?];
    parts.next().is_none().then_some(color)
}

/// `#` colours give the high digits of each part.
fn high_byte(digits: &str) -> Option<u8> {
    let value = u16::from_str_radix(digits, 16).ok()?;
    Some((value << (16 - 4 * digits.len()) >> 8) as u8)
}

/// `rgb:` colours give each part as a share of the whole.
fn scaled_byte(digits: &str) -> Option<u8> {
    if !(1..=4).contains(&digits.len()) {
        return None;
    }
    let value = u32::from(u16::from_str_radix(digits, 16).ok()?);
    Some((value * 255 / ((1 << (4 * digits.len())) - 1)) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read_as_x11_writes_them() {
        assert_eq!(parse_color_spec("#1e1e2e"), Some([0x1e, 0x1e, 0x2e]));
        assert_eq!(parse_color_spec("#fff"), Some([0xf0, 0xf0, 0xf0]));
        assert_eq!(parse_color_spec("rgb:ffff/8080/0000"), Some([255, 128, 0]));
        assert_eq!(parse_color_spec("rgb:f/8/0"), Some([255, 136, 0]));
        for bad in ["", "#", "#12345", "rgb:1/2", "rgb:1/2/3/4", "rgb:+1/2/3x", "red", "#äää"] {
            assert_eq!(parse_color_spec(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_cube_and_the_greys_have_xterms_values() {
        assert_eq!(Theme::DARK.indexed_color(16), [0, 0, 0]);
        assert_eq!(Theme::DARK.indexed_color(231), [255, 255, 255]);
        assert_eq!(Theme::DARK.indexed_color(202), [255, 95, 0]);
        assert_eq!(Theme::DARK.indexed_color(232), [8, 8, 8]);
        assert_eq!(Theme::DARK.indexed_color(255), [238, 238, 238]);
    }
}
