//! Rows as runs of text in one style: what recordings and live pages put on the screen.
//!
//! The emulator runs here, not in the page: a page gets rows as text and the numbers of styles, which
//! are CSS and are told once.

use std::collections::HashMap;

use serde::Serialize;

use crate::cell::{Attrs, Cell, CellPart, Style};
use crate::palette::{ColorSlot, Rgb, Theme};
use crate::screen::Screen;

/// A stretch of text, the number of its style, and whether it is one wide grapheme.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TextRun(pub String, pub usize, #[serde(skip_serializing_if = "is_zero")] u8);

fn is_zero(value: &u8) -> bool {
    *value == 0
}

/// Turns rows into runs, and numbers the styles that it meets.
#[derive(Debug)]
pub struct RunPainter {
    theme: Theme,
    styles: HashMap<Style, usize>,
}

impl RunPainter {
    pub fn new(theme: Theme) -> RunPainter {
        RunPainter { theme, styles: HashMap::new() }
    }

    /// How many styles it has met.
    pub fn style_count(&self) -> usize {
        self.styles.len()
    }

    /// Every row of the screen. Styles that are met for the first time are added to `new`, as CSS.
    pub fn paint_rows(&mut self, screen: &Screen, new: &mut Vec<String>) -> Vec<Vec<TextRun>> {
        (0..screen.grid().rows.len()).map(|row| self.row_runs(screen, row, new)).collect()
    }

    fn row_runs(&mut self, screen: &Screen, row: usize, new: &mut Vec<String>) -> Vec<TextRun> {
        let mut runs: Vec<TextRun> = Vec::new();
        let cells: &[Cell] = screen.grid().rows[row].occupied_cells();
        for cell in cells.iter().filter(|cell| cell.kind != CellPart::Spacer) {
            let style = self.style_index(screen, cell.style, new);
            let wide = u8::from(cell.kind == CellPart::Wide);
            match runs.last_mut() {
                Some(TextRun(text, same, 0)) if *same == style && wide == 0 => {
                    screen.term.clusters.push_to(cell.glyph, text);
                }
                _ => runs.push(TextRun(screen.term.clusters.glyph_text(cell.glyph), style, wide)),
            }
        }
        runs
    }

    fn style_index(&mut self, screen: &Screen, style: Style, new: &mut Vec<String>) -> usize {
        let next = self.styles.len();
        let place = *self.styles.entry(style).or_insert(next);
        if place == next {
            new.push(style_css(screen, &self.theme, style));
        }
        place
    }
}

/// The colours are those of this moment: a program that changes its palette later does not change
/// what is on the page already.
fn style_css(screen: &Screen, theme: &Theme, style: Style) -> String {
    let palette = &screen.term.palette;
    let hex = |[r, g, b]: Rgb| format!("#{r:02x}{g:02x}{b:02x}");
    let (mut fg, mut bg) =
        (palette.resolve_color_in(style.fg, theme), palette.resolve_color_in(style.bg, theme));
    let attrs = style.attrs;
    if attrs.has(Attrs::INVERSE) {
        let default = |slot| palette.get_color_in(slot, theme);
        let swapped = (
            bg.unwrap_or(default(ColorSlot::Background)),
            fg.unwrap_or(default(ColorSlot::Foreground)),
        );
        (fg, bg) = (Some(swapped.0), Some(swapped.1));
    }
    let mut css = String::new();
    let mut add = |name: &str, value: &str| {
        css.push_str(name);
        css.push(':');
        css.push_str(value);
        css.push(';');
    };
    if let Some(fg) = fg {
        add("color", &hex(fg));
    }
    if let Some(bg) = bg {
        add("background", &hex(bg));
    }
    if attrs.has(Attrs::BOLD) {
        add("font-weight", "bold");
    }
    if attrs.has(Attrs::ITALIC) {
        add("font-style", "italic");
    }
    if attrs.has(Attrs::DIM) {
        add("opacity", ".6");
    }
    if attrs.has(Attrs::HIDDEN) {
        add("visibility", "hidden");
    }
    let lines = [
        (attrs.underline_style() > 0, "underline"),
        (attrs.has(Attrs::STRIKE), "line-through"),
        (attrs.has(Attrs::OVERLINE), "overline"),
    ];
    let lines: Vec<&str> = lines.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
    if !lines.is_empty() {
        add("text-decoration", &lines.join(" "));
    }
    css
}
