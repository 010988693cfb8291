//! Glyphs as coverage masks, from fonts that are part of the program.
//!
//! The same bytes on every machine: no font of the system is looked at, and coverage is rounded to
//! sixteen levels before anything is blended.

use std::cell::OnceCell;
use std::collections::HashMap;

use swash::scale::{Render, ScaleContext, Source};
use swash::zeno::Format;
use swash::{FontRef, GlyphId};
use unicode_width::UnicodeWidthChar;

use super::packed::{self, BitmapGlyph, PackedFont};
use super::shapes;
use crate::{CELL_HEIGHT, CELL_WIDTH};

/// Coverage from 0 to [`GlyphMask::FULL`], row by row, as large as the cell or the pair of cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GlyphMask {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) levels: Vec<u8>,
}

impl GlyphMask {
    pub(crate) const FULL: u8 = 15;

    pub(crate) fn new(width: usize, height: usize) -> GlyphMask {
        GlyphMask { width, height, levels: vec![0; width * height] }
    }

    /// Darkens one pixel; places outside are cut off.
    pub(crate) fn add_coverage(&mut self, x: isize, y: isize, level: u8) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        if x < self.width && y < self.height {
            let pixel = &mut self.levels[y * self.width + x];
            *pixel = (*pixel).max(level);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FontFace {
    pub(crate) bold: bool,
    pub(crate) italic: bool,
}

/// The size at which the text font is exactly one cell wide.
const TEXT_SIZE: f32 = 8.0 / 0.602_05;
/// From the top of a cell to the line that letters stand on.
const BASELINE: usize = 12;
/// Emoji are drawn a little smaller than their two cells.
const EMOJI_SIZE: f32 = 12.0;

pub(crate) struct Fonts {
    context: ScaleContext,
    scale: usize,
    masks: HashMap<(String, FontFace, usize), GlyphMask>,
    /// Regular, bold, italic, both.
    text: [LazyFont; 4],
    symbols: LazyFont,
    emoji: LazyFont,
}

type Font = FontRef<'static>;

/// A font that is opened once, when it is first needed: what the scaler has learnt of it is found again by
/// the key it got then.
struct LazyFont {
    packed: &'static PackedFont,
    opened: OnceCell<Option<Font>>,
}

impl LazyFont {
    const fn new(packed: &'static PackedFont) -> Self {
        Self { packed, opened: OnceCell::new() }
    }

    /// The font and its glyph of a character, if it has one.
    fn find_glyph(&self, c: char) -> Option<(Font, GlyphId)> {
        let font = *self.opened.get_or_init(|| FontRef::from_index(self.packed, 0));
        let font = font?;
        let glyph = font.charmap().map(c);
        (glyph != 0).then_some((font, glyph))
    }
}

impl Fonts {
    pub(crate) fn new(scale: usize) -> Fonts {
        Fonts {
            context: ScaleContext::new(),
            scale,
            masks: HashMap::new(),
            text: [
                LazyFont::new(&packed::MONO),
                LazyFont::new(&packed::MONO_BOLD),
                LazyFont::new(&packed::MONO_OBLIQUE),
                LazyFont::new(&packed::MONO_BOLD_OBLIQUE),
            ],
            symbols: LazyFont::new(&packed::SYMBOLS),
            emoji: LazyFont::new(&packed::EMOJI),
        }
    }

    /// The glyph of a character in the text font of a face, else in the regular one.
    fn text_glyph(&self, face: FontFace, c: char) -> Option<(Font, GlyphId)> {
        let own = &self.text[usize::from(face.bold) + 2 * usize::from(face.italic)];
        own.find_glyph(c).or_else(|| self.text[0].find_glyph(c))
    }

    /// The mask of one grapheme over `cells` columns.
    pub(crate) fn glyph_mask(&mut self, text: &str, face: FontFace, cells: usize) -> &GlyphMask {
        let key = (text.to_owned(), face, cells);
        if !self.masks.contains_key(&key) {
            let mask = self.draw_grapheme(text, face, cells);
            self.masks.insert(key.clone(), mask);
        }
        &self.masks[&key]
    }

    fn draw_grapheme(&mut self, text: &str, face: FontFace, cells: usize) -> GlyphMask {
        let (width, height) = (CELL_WIDTH as usize, CELL_HEIGHT as usize);
        let mut mask = GlyphMask::new(width * cells * self.scale, height * self.scale);
        let mut chars = text.chars();
        let Some(base) = chars.next() else { return mask };
        if !shapes::draw_shape(base, self.scale, &mut mask) {
            self.draw_character(base, face, cells, &mut mask);
        }
        // Marks are drawn over their base; what an emoji is joined with is not drawn.
        for mark in chars.filter(|c| c.width() == Some(0)) {
            if let Some((font, glyph)) = self.text_glyph(face, mark) {
                self.draw_outline(font, glyph, TEXT_SIZE, cells, &mut mask);
            }
        }
        mask
    }

    fn draw_character(&mut self, c: char, face: FontFace, cells: usize, mask: &mut GlyphMask) {
        if let Some((font, glyph)) = self.text_glyph(face, c).filter(|_| cells == 1) {
            return self.draw_outline(font, glyph, TEXT_SIZE, cells, mask);
        }
        if let Some((font, glyph)) = self.emoji.find_glyph(c) {
            return self.draw_outline(font, glyph, EMOJI_SIZE, cells, mask);
        }
        if let Some((font, glyph)) = self.symbols.find_glyph(c).filter(|_| cells == 1) {
            return self.draw_outline(font, glyph, TEXT_SIZE, cells, mask);
        }
        self.draw_bitmap(c, mask);
    }

    /// Draws an outline in the middle of its cells, smaller if it would not fit.
    fn draw_outline(
        &mut self,
        font: Font,
        glyph: GlyphId,
        size: f32,
        cells: usize,
        mask: &mut GlyphMask,
    ) {
        let room = (CELL_WIDTH as usize * cells * self.scale) as f32;
        let wanted = size * self.scale as f32;
        let advance = font.glyph_metrics(&[]).scale(wanted).advance_width(glyph);
        let size = if advance > room * 1.02 { wanted * room / advance } else { wanted };
        let advance = advance * size / wanted;
        let mut scaler = self.context.builder(font).size(size).hint(true).build();
        let sources = [Source::Outline];
        let Some(image) = Render::new(&sources).format(Format::Alpha).render(&mut scaler, glyph)
        else {
            return;
        };
        let left = ((room - advance) / 2.0).round() as isize + image.placement.left as isize;
        let top = (BASELINE * self.scale) as isize - image.placement.top as isize;
        for (index, &alpha) in image.data.iter().enumerate() {
            let x = (index % image.placement.width as usize) as isize;
            let y = (index / image.placement.width as usize) as isize;
            let level = (u16::from(alpha) * u16::from(GlyphMask::FULL) + 127) / 255;
            mask.add_coverage(left + x, top + y, level as u8);
        }
    }

    /// The last resort: a bitmap font that knows every character, CJK among them.
    fn draw_bitmap(&self, c: char, mask: &mut GlyphMask) {
        let glyph = BitmapGlyph::find(c).or_else(|| BitmapGlyph::find(char::REPLACEMENT_CHARACTER));
        let Some(glyph) = glyph else { return };
        // One glyph may be wider than the cells it has; then it is drawn at half its width.
        let (from, to) = (glyph.width, mask.width / self.scale);
        let squeeze = from.div_ceil(to.max(1));
        let offset = (to.saturating_sub(from) / 2) as isize;
        for y in 0..BitmapGlyph::HEIGHT {
            for x in (0..from).filter(|&x| glyph.is_lit(x, y)) {
                for dot in 0..self.scale * self.scale {
                    let (dx, dy) = (dot % self.scale, dot / self.scale);
                    let x = (x / squeeze) as isize + offset;
                    let x = x * self.scale as isize + dx as isize;
                    mask.add_coverage(x, (y * self.scale + dy) as isize, GlyphMask::FULL);
                }
            }
        }
    }
}
