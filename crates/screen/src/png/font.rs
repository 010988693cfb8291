//! Glyphs as coverage masks, from fonts that are part of the program.
//!
//! The same bytes on every machine: no font of the system is looked at, and coverage is rounded to
//! sixteen levels before anything is blended.

use std::collections::HashMap;

use swash::scale::{Render, ScaleContext, Source};
use swash::zeno::Format;
use swash::{FontRef, GlyphId};
use unicode_width::UnicodeWidthChar;

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
    /// Regular, bold, italic, both. A font is opened once: what the scaler has learnt of it is found
    /// again by the key it got then.
    text: [Option<Font>; 4],
    symbols: Option<Font>,
    emoji: Option<Font>,
}

type Font = FontRef<'static>;

impl Fonts {
    pub(crate) fn new(scale: usize) -> Fonts {
        let open = |data| FontRef::from_index(data, 0);
        Fonts {
            context: ScaleContext::new(),
            scale,
            masks: HashMap::new(),
            text: [
                open(dejavu::sans_mono::regular()),
                open(dejavu::sans_mono::bold()),
                open(dejavu::sans_mono::oblique()),
                open(dejavu::sans_mono::bold_oblique()),
            ],
            symbols: open(dejavu::sans::regular()),
            emoji: open(epaint_default_fonts::NOTO_EMOJI_REGULAR),
        }
    }

    /// The text fonts for a face, best first.
    fn text_fonts(&self, face: FontFace) -> [Option<Font>; 2] {
        [self.text[usize::from(face.bold) + 2 * usize::from(face.italic)], self.text[0]]
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
            if let Some((font, glyph)) = find_glyph(self.text_fonts(face), mark) {
                self.draw_outline(font, glyph, TEXT_SIZE, cells, &mut mask);
            }
        }
        mask
    }

    fn draw_character(&mut self, c: char, face: FontFace, cells: usize, mask: &mut GlyphMask) {
        if let Some((font, glyph)) = find_glyph(self.text_fonts(face), c).filter(|_| cells == 1) {
            return self.draw_outline(font, glyph, TEXT_SIZE, cells, mask);
        }
        if let Some((font, glyph)) = find_glyph([self.emoji], c) {
            return self.draw_outline(font, glyph, EMOJI_SIZE, cells, mask);
        }
        if let Some((font, glyph)) = find_glyph([self.symbols], c).filter(|_| cells == 1) {
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
        let glyph =
            unifont::get_glyph(c).or_else(|| unifont::get_glyph(char::REPLACEMENT_CHARACTER));
        let Some(glyph) = glyph else { return };
        // One glyph may be wider than the cells it has; then it is drawn at half its width.
        let (from, to) = (glyph.get_width(), mask.width / self.scale);
        let squeeze = from.div_ceil(to.max(1));
        let offset = (to.saturating_sub(from) / 2) as isize;
        for y in 0..16 {
            for x in (0..from).filter(|&x| glyph.get_pixel(x, y)) {
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

/// The first of the fonts that has the character.
fn find_glyph<const N: usize>(fonts: [Option<Font>; N], c: char) -> Option<(Font, GlyphId)> {
    fonts.into_iter().flatten().find_map(|font| {
        let glyph = font.charmap().map(c);
        (glyph != 0).then_some((font, glyph))
    })
}
