//! A picture of the screen, the same to the byte on every machine.

mod font;
mod packed;
mod profile;
mod shapes;

use std::collections::HashMap;

pub use profile::Profile;

use crate::cell::{Attrs, Cell, CellPart};
use crate::contract::ScreenSize;
use crate::palette::{ColorSlot, Palette, Rgb};
use crate::screen::{CursorShape, Screen};
use crate::{CELL_HEIGHT, CELL_WIDTH};
use font::{FontFace, Fonts, GlyphMask};

/// Whether the cursor is in the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShowCursor {
    No,
    /// Where it is, if the program shows it.
    Yes,
}

/// The size of the picture that [`draw_png`] makes, in pixels.
pub fn pixel_size(screen: &Screen, profile: &Profile) -> (u32, u32) {
    let (size, scale) = (screen.size(), profile.scale() as u32);
    (u32::from(size.cols) * CELL_WIDTH * scale, u32::from(size.rows) * CELL_HEIGHT * scale)
}

/// The font of the text (TrueType), for pages that show the same glyphs.
pub fn text_font() -> &'static [u8] {
    &packed::MONO
}

/// The screen as a PNG file.
pub fn draw_png(screen: &Screen, profile: &Profile, cursor: ShowCursor) -> Vec<u8> {
    let (width, height) = pixel_size(screen, profile);
    let fonts = Fonts::new(profile.scale());
    let mut picture = Picture::new(screen, profile, fonts, width as usize, height as usize);
    picture.draw_screen(cursor);
    picture.encode_png(width, height)
}

/// A picture as numbers of colours, before it is encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexedPicture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// For each pixel its place in `colors`.
    pub(crate) pixels: Vec<u16>,
    pub(crate) colors: Vec<Rgb>,
}

/// Draws one picture after another, and keeps the glyphs.
pub(crate) struct FrameDrawer {
    profile: Profile,
    fonts: Option<Fonts>,
}

impl std::fmt::Debug for FrameDrawer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameDrawer").field("profile", &self.profile.name).finish_non_exhaustive()
    }
}

impl FrameDrawer {
    pub(crate) fn new(profile: Profile) -> FrameDrawer {
        FrameDrawer { profile, fonts: None }
    }

    /// How many pixels a screen of that size takes.
    pub(crate) fn canvas_pixels(&self, size: ScreenSize) -> (usize, usize) {
        let scale = self.profile.scale();
        let (width, height) = (CELL_WIDTH as usize * scale, CELL_HEIGHT as usize * scale);
        (usize::from(size.cols) * width, usize::from(size.rows) * height)
    }

    /// The screen on a canvas of that size; what is beyond the canvas is not drawn.
    pub(crate) fn draw_frame(&mut self, screen: &Screen, canvas: ScreenSize) -> IndexedPicture {
        let (width, height) = self.canvas_pixels(canvas);
        let fonts = self.fonts.take().unwrap_or_else(|| Fonts::new(self.profile.scale()));
        let mut picture = Picture::new(screen, &self.profile, fonts, width, height);
        let theme = &self.profile.theme;
        let background = picture.palette().get_color_in(ColorSlot::Background, theme);
        // What no cell covers has the first colour.
        picture.color_index(background);
        picture.draw_screen(ShowCursor::Yes);
        let drawn =
            IndexedPicture { width, height, pixels: picture.pixels, colors: picture.colors };
        self.fonts = Some(picture.fonts);
        drawn
    }
}

struct Picture<'a> {
    screen: &'a Screen,
    profile: &'a Profile,
    fonts: Fonts,
    width: usize,
    pixels: Vec<u16>,
    colors: Vec<Rgb>,
    places: HashMap<Rgb, u16>,
    /// For a text colour on a background, the colour of each level of coverage.
    blends: HashMap<(Rgb, Rgb), [u16; 16]>,
}

impl<'a> Picture<'a> {
    fn new(
        screen: &'a Screen,
        profile: &'a Profile,
        fonts: Fonts,
        width: usize,
        height: usize,
    ) -> Picture<'a> {
        Picture {
            screen,
            profile,
            fonts,
            width,
            pixels: vec![0; width * height],
            colors: Vec::new(),
            places: HashMap::new(),
            blends: HashMap::new(),
        }
    }

    /// Every cell that has room, then the cursor.
    fn draw_screen(&mut self, cursor: ShowCursor) {
        let screen = self.screen;
        for (row, cells) in screen.grid().rows.iter().enumerate() {
            for (col, cell) in cells.cells().iter().enumerate() {
                if cell.kind != CellPart::Spacer && self.has_room(row, col, cell) {
                    self.draw_cell(row, col, cell, None);
                }
            }
        }
        let place = screen.cursor();
        if cursor == ShowCursor::Yes && place.visible {
            let (row, mut col) = (usize::from(place.row), usize::from(place.col));
            let cells = screen.grid().rows[row].cells();
            if cells[col].kind == CellPart::Spacer {
                col = col.saturating_sub(1);
            }
            if self.has_room(row, col, &cells[col]) {
                self.draw_cell(row, col, &cells[col], Some(place.shape));
            }
        }
    }

    /// Whether a cell is inside of the picture.
    fn has_room(&self, row: usize, col: usize, cell: &Cell) -> bool {
        let scale = self.profile.scale();
        let cells = if cell.kind == CellPart::Wide { 2 } else { 1 };
        let right = (col + cells) * CELL_WIDTH as usize * scale;
        let bottom = (row + 1) * CELL_HEIGHT as usize * scale;
        right <= self.width && bottom * self.width <= self.pixels.len()
    }

    fn palette(&self) -> &Palette {
        &self.screen.term.palette
    }

    /// The colours of text and background, after all that turns them around.
    fn cell_colors(&self, cell: &Cell) -> (Rgb, Rgb) {
        let theme = &self.profile.theme;
        let mut defaults = (
            self.palette().get_color_in(ColorSlot::Foreground, theme),
            self.palette().get_color_in(ColorSlot::Background, theme),
        );
        if self.screen.modes().reverse_screen {
            defaults = (defaults.1, defaults.0);
        }
        let style = cell.style;
        let mut fg = self.palette().resolve_color_in(style.fg, theme).unwrap_or(defaults.0);
        let mut bg = self.palette().resolve_color_in(style.bg, theme).unwrap_or(defaults.1);
        if style.attrs.has(Attrs::INVERSE) {
            (fg, bg) = (bg, fg);
        }
        if style.attrs.has(Attrs::DIM) {
            fg = blend_colors(fg, bg, 9);
        }
        if style.attrs.has(Attrs::HIDDEN) {
            fg = bg;
        }
        (fg, bg)
    }

    fn draw_cell(&mut self, row: usize, col: usize, cell: &Cell, cursor: Option<CursorShape>) {
        let scale = self.profile.scale();
        let cells = if cell.kind == CellPart::Wide { 2 } else { 1 };
        let (mut fg, mut bg) = self.cell_colors(cell);
        let cursor_color = self.palette().get_color_in(ColorSlot::Cursor, &self.profile.theme);
        if cursor == Some(CursorShape::Block) {
            (fg, bg) = (bg, cursor_color);
        }
        let attrs = cell.style.attrs;
        let text = self.screen.term.clusters.glyph_text(cell.glyph);
        let face = FontFace { bold: attrs.has(Attrs::BOLD), italic: attrs.has(Attrs::ITALIC) };
        let mut mask = if text == " " {
            GlyphMask::new(CELL_WIDTH as usize * scale * cells, CELL_HEIGHT as usize * scale)
        } else {
            self.fonts.glyph_mask(&text, face, cells).clone()
        };
        draw_decorations(attrs, scale, &mut mask);

        let blended = self.blended_colors(fg, bg);
        let (left, top) = (col * CELL_WIDTH as usize * scale, row * CELL_HEIGHT as usize * scale);
        for (y, levels) in mask.levels.chunks_exact(mask.width).enumerate() {
            let start = (top + y) * self.width + left;
            for (pixel, &level) in self.pixels[start..start + mask.width].iter_mut().zip(levels) {
                *pixel = blended[usize::from(level)];
            }
        }
        let bar = match cursor {
            Some(CursorShape::Underline) => Some((0, mask.height - 2 * scale, mask.width)),
            Some(CursorShape::Bar) => Some((0, 0, scale)),
            _ => None,
        };
        if let Some((x, y, width)) = bar {
            let color = self.color_index(cursor_color);
            for y in top + y..top + mask.height {
                let start = y * self.width + left + x;
                self.pixels[start..start + width].fill(color);
            }
        }
    }

    fn color_index(&mut self, color: Rgb) -> u16 {
        *self.places.entry(color).or_insert_with(|| {
            self.colors.push(color);
            (self.colors.len() - 1) as u16
        })
    }

    fn blended_colors(&mut self, fg: Rgb, bg: Rgb) -> [u16; 16] {
        if let Some(blended) = self.blends.get(&(fg, bg)) {
            return *blended;
        }
        let mut blended = [0; 16];
        // A screen of true colours would have more colours than a place can number; then text is
        // drawn without smooth edges.
        let crowded = self.colors.len() > usize::from(u16::MAX) - 64;
        for (level, place) in blended.iter_mut().enumerate() {
            let level = if crowded { level / 8 * 15 } else { level };
            let color = blend_colors(fg, bg, level as u16);
            *place = if self.colors.len() >= usize::from(u16::MAX) {
                0
            } else {
                self.color_index(color)
            };
        }
        self.blends.insert((fg, bg), blended);
        blended
    }

    /// With at most 256 colours one byte for each pixel is enough, and few screens have more.
    fn encode_png(self, width: u32, height: u32) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_deflate_compression(png::DeflateCompression::Level(3));
        encoder.set_filter(png::Filter::NoFilter);
        let data: Vec<u8> = if self.colors.len() <= 256 {
            encoder.set_color(png::ColorType::Indexed);
            encoder.set_palette(self.colors.concat());
            self.pixels.iter().map(|&place| place as u8).collect()
        } else {
            encoder.set_color(png::ColorType::Rgb);
            self.pixels.iter().flat_map(|&place| self.colors[usize::from(place)]).collect()
        };
        // Writing to memory cannot fail, and the dimensions are the data's own.
        let written = encoder.write_header().and_then(|mut writer| {
            writer.write_image_data(&data)?;
            writer.finish()
        });
        debug_assert!(written.is_ok());
        file
    }
}

fn blend_colors(fg: Rgb, bg: Rgb, level: u16) -> Rgb {
    let full = u16::from(GlyphMask::FULL);
    std::array::from_fn(|part| {
        let sum = u16::from(fg[part]) * level + u16::from(bg[part]) * (full - level);
        ((sum + full / 2) / full) as u8
    })
}

/// Lines under, through and over the text.
fn draw_decorations(attrs: Attrs, scale: usize, mask: &mut GlyphMask) {
    let mut line = |y: usize, draws: &dyn Fn(usize) -> bool| {
        for x in (0..mask.width).filter(|&x| draws(x / scale)) {
            for dy in 0..scale {
                mask.add_coverage(x as isize, (y * scale + dy) as isize, GlyphMask::FULL);
            }
        }
    };
    match attrs.underline_style() {
        0 => {}
        2 => {
            line(13, &|_| true);
            line(15, &|_| true);
        }
        3 => {
            line(14, &|x| x % 4 < 2);
            line(15, &|x| x % 4 >= 2);
        }
        4 => line(14, &|x| x % 2 == 0),
        5 => line(14, &|x| x % 8 < 5),
        _ => line(14, &|_| true),
    }
    if attrs.has(Attrs::STRIKE) {
        line(8, &|_| true);
    }
    if attrs.has(Attrs::OVERLINE) {
        line(0, &|_| true);
    }
}

#[cfg(test)]
mod tests;
