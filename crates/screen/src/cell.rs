//! Cells of the grid: a grapheme, its style, and its half of a wide character.

use serde::{Deserialize, Serialize};

/// A colour as the program asked for it; the palette gives it a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Color {
    #[default]
    Default,
    Indexed(u8),
    Rgb(u8, u8, u8),
}

/// Bold, italic and so on, as a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attrs(pub(crate) u16);

impl Attrs {
    pub const BOLD: Attrs = Attrs(1);
    pub const DIM: Attrs = Attrs(1 << 1);
    pub const ITALIC: Attrs = Attrs(1 << 2);
    pub const BLINK: Attrs = Attrs(1 << 3);
    pub const INVERSE: Attrs = Attrs(1 << 4);
    pub const HIDDEN: Attrs = Attrs(1 << 5);
    pub const STRIKE: Attrs = Attrs(1 << 6);
    pub const OVERLINE: Attrs = Attrs(1 << 7);
    /// Spared by selective erasure; set by `DECSCA`, not by `SGR`, and not seen.
    pub(crate) const PROTECTED: Attrs = Attrs(1 << 11);
    const UNDERLINE_SHIFT: u16 = 8;
    const UNDERLINE_MASK: u16 = 7 << Self::UNDERLINE_SHIFT;

    pub fn has(self, other: Attrs) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn set(&mut self, other: Attrs, on: bool) {
        if on { self.0 |= other.0 } else { self.0 &= !other.0 }
    }

    /// 0 none, 1 straight, 2 double, 3 curly, 4 dotted, 5 dashed: the numbers of `SGR 4:n`.
    pub fn underline_style(self) -> u8 {
        ((self.0 & Self::UNDERLINE_MASK) >> Self::UNDERLINE_SHIFT) as u8
    }

    pub(crate) fn set_underline(&mut self, style: u8) {
        self.0 &= !Self::UNDERLINE_MASK;
        self.0 |= u16::from(style.min(5)) << Self::UNDERLINE_SHIFT;
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Style {
    pub fg: Color,
    pub bg: Color,
    pub attrs: Attrs,
}

/// A character, or the place of a longer grapheme cluster in [`Clusters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Glyph(u32);

impl Glyph {
    const CLUSTER: u32 = 1 << 31;
    pub(crate) const SPACE: Glyph = Glyph(' ' as u32);

    pub(crate) fn from_char(c: char) -> Glyph {
        Glyph(c as u32)
    }

    pub(crate) fn from_ascii(byte: u8) -> Glyph {
        Glyph(u32::from(byte))
    }

    pub(crate) fn as_char(self) -> Option<char> {
        char::from_u32(self.0)
    }

    pub(crate) fn low_byte(self) -> u8 {
        self.0 as u8
    }

    fn cluster_index(self) -> Option<usize> {
        (self.0 & Self::CLUSTER != 0).then_some((self.0 & !Self::CLUSTER) as usize)
    }
}

/// The part a cell plays in a glyph that takes two columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CellPart {
    Narrow,
    /// The left half, which carries the glyph.
    Wide,
    /// The right half, which carries nothing.
    Spacer,
    /// The last column, left empty because a wide glyph did not fit; vanishes when lines are rewrapped.
    Filler,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) glyph: Glyph,
    pub(crate) style: Style,
    pub(crate) kind: CellPart,
}

// The grid is small, but every printed character writes one of these.
const _: () = assert!(size_of::<Cell>() == 16);

impl Cell {
    pub(crate) const BLANK: Cell = Cell {
        glyph: Glyph::SPACE,
        style: Style { fg: Color::Default, bg: Color::Default, attrs: Attrs(0) },
        kind: CellPart::Narrow,
    };

    /// An erased cell keeps the background of the pen that erased it.
    pub(crate) fn erased_with(pen: Style) -> Cell {
        Cell { style: Style { bg: pen.bg, ..Style::default() }, ..Cell::BLANK }
    }
}

/// Grapheme clusters of more than one character, which cells refer to.
///
/// Entries are never changed, so cells may be copied freely; [`Clusters::retain_used`] drops what no cell
/// uses any more, so that the table stays in proportion to the screen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Clusters {
    texts: Vec<Box<str>>,
    sweep_at: usize,
}

impl Default for Clusters {
    fn default() -> Self {
        Clusters { texts: Vec::new(), sweep_at: Self::MIN }
    }
}

impl Clusters {
    const MIN: usize = 1 << 12;

    pub(crate) fn add_cluster(&mut self, text: &str) -> Glyph {
        let mut chars = text.chars();
        if let (Some(only), None) = (chars.next(), chars.next()) {
            return Glyph::from_char(only);
        }
        self.texts.push(text.into());
        Glyph(Glyph::CLUSTER | (self.texts.len() - 1) as u32)
    }

    pub(crate) fn push_to(&self, glyph: Glyph, out: &mut String) {
        match (glyph.as_char(), glyph.cluster_index()) {
            (Some(c), _) => out.push(c),
            (None, Some(index)) => out.push_str(self.texts.get(index).map_or("\u{fffd}", |t| t)),
            (None, None) => out.push(char::REPLACEMENT_CHARACTER),
        }
    }

    pub(crate) fn glyph_text(&self, glyph: Glyph) -> String {
        let mut text = String::new();
        self.push_to(glyph, &mut text);
        text
    }

    pub(crate) fn is_full(&self) -> bool {
        self.texts.len() >= self.sweep_at
    }

    /// Keeps only the clusters of `cells`, and points the cells to their new places.
    pub(crate) fn retain_used<'a>(&mut self, cells: impl Iterator<Item = &'a mut Cell>) {
        let mut kept: Vec<Box<str>> = Vec::new();
        let mut moved = std::collections::HashMap::new();
        for cell in cells {
            let Some(index) = cell.glyph.cluster_index() else { continue };
            let Some(text) = self.texts.get(index) else { continue };
            let place = *moved.entry(index).or_insert_with(|| {
                kept.push(text.clone());
                kept.len() - 1
            });
            cell.glyph = Glyph(Glyph::CLUSTER | place as u32);
        }
        self.texts = kept;
        self.sweep_at = (self.texts.len() * 2).max(Self::MIN);
    }
}
