//! Box drawing, blocks, Braille and the like as geometry, so that lines meet from cell to cell.

use super::font::GlyphMask;
use crate::{CELL_HEIGHT, CELL_WIDTH};

/// The weight of the line from the middle of U+2500… to the left, right, upper and lower edge:
/// 0 none, 1 light, 2 heavy, 3 double.
const ARMS: [[u8; 4]; 128] = parse_arms(
    b"1100 2200 0011 0022 1100 2200 0011 0022 1100 2200 0011 0022 0101 0201 0102 0202 \
      1001 2001 1002 2002 0110 0210 0120 0220 1010 2010 1020 2020 0111 0211 0121 0112 \
      0122 0221 0212 0222 1011 2011 1021 1012 1022 2021 2012 2022 1101 2101 1201 2201 \
      1102 2102 1202 2202 1110 2110 1210 2210 1120 2120 1220 2220 1111 2111 1211 2211 \
      1121 1112 1122 2121 1221 2112 1212 2221 2212 2122 1222 2222 1100 2200 0011 0022 \
      3300 0033 0301 0103 0303 3001 1003 3003 0310 0130 0330 3010 1030 3030 0311 0133 \
      0333 3011 1033 3033 3301 1103 3303 3310 1130 3330 3311 1133 3333 0000 0000 0000 \
      0000 0000 0000 0000 1000 0010 0100 0001 2000 0020 0200 0002 1200 0012 2100 0021 ",
);

const fn parse_arms(text: &[u8]) -> [[u8; 4]; 128] {
    let mut table = [[0; 4]; 128];
    let (mut at, mut digit) = (0, 0);
    while at < text.len() {
        if text[at] != b' ' {
            table[digit / 4][digit % 4] = text[at] - b'0';
            digit += 1;
        }
        at += 1;
    }
    assert!(digit == 512);
    table
}

/// Draws `c` if it is one of the shapes; says whether it is.
pub(crate) fn draw_shape(c: char, scale: usize, mask: &mut GlyphMask) -> bool {
    let mut canvas = Canvas { mask, scale };
    match c {
        '\u{2504}'..='\u{250b}' | '\u{254c}'..='\u{254f}' => canvas.draw_dashes(c),
        '\u{256d}'..='\u{2570}' => canvas.draw_arc(c),
        '\u{2571}'..='\u{2573}' => canvas.draw_diagonal(c),
        '\u{2500}'..='\u{257f}' => canvas.draw_lines(ARMS[c as usize - 0x2500]),
        '\u{2580}'..='\u{259f}' => canvas.draw_block(c),
        '\u{23f8}' => canvas.draw_pause(),
        '\u{2800}'..='\u{28ff}' => canvas.draw_braille(c as u32 - 0x2800),
        '\u{1fb00}'..='\u{1fb3b}' => canvas.draw_sextant(c as u32 - 0x1fb00),
        '\u{e0b0}'..='\u{e0b3}' => canvas.draw_arrow(c),
        _ => return false,
    }
    true
}

struct Canvas<'a> {
    mask: &'a mut GlyphMask,
    scale: usize,
}

impl Canvas<'_> {
    fn width(&self) -> usize {
        CELL_WIDTH as usize * self.scale
    }

    fn height(&self) -> usize {
        CELL_HEIGHT as usize * self.scale
    }

    fn fill_rect(&mut self, left: usize, top: usize, right: usize, bottom: usize, level: u8) {
        for y in top..bottom {
            for x in left..right {
                self.mask.add_coverage(x as isize, y as isize, level);
            }
        }
    }

    /// Covers each pixel by the share of its points for which `inside` holds.
    fn fill_region(&mut self, inside: impl Fn(f32, f32) -> bool) {
        const STEPS: u8 = 4;
        let share = |x: usize, y: usize| {
            let points = (0..STEPS * STEPS).filter(|point| {
                let at = |step: u8| (f32::from(step) + 0.5) / f32::from(STEPS);
                inside(x as f32 + at(point % STEPS), y as f32 + at(point / STEPS))
            });
            points.count() as u8
        };
        for y in 0..self.height() {
            for x in 0..self.width() {
                let level = share(x, y).min(GlyphMask::FULL);
                if level > 0 {
                    self.mask.add_coverage(x as isize, y as isize, level);
                }
            }
        }
    }

    /// Two bars, which agents show as the sign of a mode in which nothing goes on by itself.
    fn draw_pause(&mut self) {
        let (width, height) = (self.width(), self.height());
        let (top, bottom) = (height * 5 / 16, height * 11 / 16);
        for left in [width / 8, width * 5 / 8] {
            self.fill_rect(left, top, left + width / 4, bottom, GlyphMask::FULL);
        }
    }

    /// Where a stroke of `thickness` through the middle begins.
    fn stroke_start(&self, extent: usize, thickness: usize) -> usize {
        (extent - thickness) / 2
    }

    fn draw_lines(&mut self, [left, right, up, down]: [u8; 4]) {
        let arms = [
            (left, Side { horizontal: true, far: false }, (up, down)),
            (right, Side { horizontal: true, far: true }, (up, down)),
            (up, Side { horizontal: false, far: false }, (left, right)),
            (down, Side { horizontal: false, far: true }, (left, right)),
        ];
        for (weight, side, across) in arms {
            match weight {
                1 | 2 => self.draw_stroke(side, usize::from(weight) * self.scale, across),
                3 => self.draw_double(side, across),
                _ => {}
            }
        }
    }

    /// One solid arm, reaching over what crosses it in the middle.
    fn draw_stroke(&mut self, side: Side, thickness: usize, across: (u8, u8)) {
        let (along, over) = self.extents(side);
        let start = self.stroke_start(over, thickness);
        let reach = match across.0.max(across.1) {
            3 => 3 * self.scale,
            2 => 2 * self.scale,
            _ => thickness.min(self.scale).max(1),
        };
        // Between the two lines of a double one there is nothing to reach over.
        let end = if across.0 == 3 && across.1 == 3 {
            self.stroke_start(along, 3 * self.scale) + self.scale
        } else {
            self.stroke_start(along, reach) + reach
        };
        self.draw_arm(side, start, thickness, end);
    }

    /// Two thin lines; each turns into the line of the crossing arm on its own side, if there is one.
    fn draw_double(&mut self, side: Side, (before, after): (u8, u8)) {
        let (along, over) = self.extents(side);
        let scale = self.scale;
        let first = self.stroke_start(over, 3 * scale);
        let near = self.stroke_start(along, 3 * scale) + scale;
        let far = near + 2 * scale;
        let end = |own: u8, other: u8| match (own, other) {
            (3, _) => near,
            (1 | 2, _) => self.stroke_start(along, scale) + scale,
            (0, 3) => far,
            _ => self.stroke_start(along, scale) + scale,
        };
        let ends = [end(before, after), end(after, before)];
        for (line, end) in ends.into_iter().enumerate() {
            self.draw_arm(side, first + 2 * line * scale, scale, end);
        }
    }

    fn extents(&self, side: Side) -> (usize, usize) {
        if side.horizontal { (self.width(), self.height()) } else { (self.height(), self.width()) }
    }

    /// A bar from the side's edge to `end`, measured along the arm.
    fn draw_arm(&mut self, side: Side, start: usize, thickness: usize, end: usize) {
        let (along, _) = self.extents(side);
        // Mirrored, so that both arms of a line meet in the same middle.
        let (from, to) = if side.far {
            let mirrored = self.mirrored(along, end);
            (mirrored, along)
        } else {
            (0, end)
        };
        if side.horizontal {
            self.fill_rect(from, start, to, start + thickness, GlyphMask::FULL);
        } else {
            self.fill_rect(start, from, start + thickness, to, GlyphMask::FULL);
        }
    }

    /// The middle of an even extent is not symmetric: strokes of odd width lean to the near side.
    fn mirrored(&self, along: usize, end: usize) -> usize {
        let lean = (along - self.scale) - 2 * self.stroke_start(along, self.scale);
        along - end.min(along) - lean.min(along - end.min(along))
    }

    fn draw_dashes(&mut self, c: char) {
        let code = c as usize;
        let (count, style) = match code {
            0x2504..=0x2507 => (3, code - 0x2504),
            0x2508..=0x250b => (4, code - 0x2508),
            _ => (2, code - 0x254c),
        };
        let thickness = self.scale * (1 + style % 2);
        let side = Side { horizontal: style < 2, far: false };
        let (along, over) = self.extents(side);
        let start = self.stroke_start(over, thickness);
        for dash in 0..count {
            let (from, to) = (along * dash / count, along * (dash + 1) / count - self.scale);
            let to = to.max(from + 1);
            if side.horizontal {
                self.fill_rect(from, start, to, start + thickness, GlyphMask::FULL);
            } else {
                self.fill_rect(start, from, start + thickness, to, GlyphMask::FULL);
            }
        }
    }

    fn draw_arc(&mut self, c: char) {
        let half = self.scale as f32 / 2.0;
        let x = self.stroke_start(self.width(), self.scale) as f32 + half;
        let y = self.stroke_start(self.height(), self.scale) as f32 + half;
        let (right, down) = match c {
            '\u{256d}' => (true, true),
            '\u{256e}' => (false, true),
            '\u{256f}' => (false, false),
            _ => (true, false),
        };
        let radius = x.min(y);
        let sign = |positive: bool| if positive { 1.0 } else { -1.0 };
        let (sx, sy) = (sign(right), sign(down));
        self.fill_region(|px, py| {
            // Seen from the corner's own side, the arm goes to the right and down.
            let (dx, dy) = ((px - x) * sx, (py - y) * sy);
            if dx > radius {
                dy.abs() <= half
            } else if dy > radius {
                dx.abs() <= half
            } else {
                let (cx, cy) = (dx - radius, dy - radius);
                dx >= -half && dy >= -half && ((cx * cx + cy * cy).sqrt() - radius).abs() <= half
            }
        });
    }

    fn draw_diagonal(&mut self, c: char) {
        let (width, height) = (self.width() as f32, self.height() as f32);
        let half = self.scale as f32 * 0.6;
        let length = (width * width + height * height).sqrt();
        let falling = move |x: f32, y: f32| ((x * height - y * width) / length).abs() <= half;
        self.fill_region(|x, y| {
            c != '\u{2571}' && falling(x, y) || c != '\u{2572}' && falling(width - x, y)
        });
    }

    fn draw_block(&mut self, c: char) {
        let (width, height) = (self.width(), self.height());
        let code = c as usize - 0x2580;
        match code {
            0x00 => self.fill_rect(0, 0, width, height / 2, GlyphMask::FULL),
            0x01..=0x08 => {
                self.fill_rect(0, height - height * code / 8, width, height, GlyphMask::FULL)
            }
            0x09..=0x0f => self.fill_rect(0, 0, width * (16 - code) / 8, height, GlyphMask::FULL),
            0x10 => self.fill_rect(width / 2, 0, width, height, GlyphMask::FULL),
            0x11..=0x13 => self.fill_rect(0, 0, width, height, 4 * (code as u8 - 0x10)),
            0x14 => self.fill_rect(0, 0, width, height / 8, GlyphMask::FULL),
            0x15 => self.fill_rect(width - width / 8, 0, width, height, GlyphMask::FULL),
            _ => {
                // Upper left, upper right, lower left, lower right.
                const QUADRANTS: [u32; 10] = [4, 8, 1, 13, 9, 7, 11, 2, 6, 14];
                self.draw_mosaic(QUADRANTS[code - 0x16], 2);
            }
        }
    }

    fn draw_sextant(&mut self, index: u32) {
        // The patterns that are half blocks have code points of their own.
        let pattern = index + 1;
        let pattern = if pattern >= 21 { pattern + 1 } else { pattern };
        let pattern = if pattern >= 42 { pattern + 1 } else { pattern };
        self.draw_mosaic(pattern, 3);
    }

    /// Two columns of `rows` blocks, one for each bit, row by row.
    fn draw_mosaic(&mut self, bits: u32, rows: usize) {
        let (width, height) = (self.width(), self.height());
        for block in (0..2 * rows).filter(|block| bits & (1 << block) != 0) {
            let (col, row) = (block % 2, block / 2);
            let (top, bottom) = (height * row / rows, height * (row + 1) / rows);
            self.fill_rect(width * col / 2, top, width * (col + 1) / 2, bottom, GlyphMask::FULL);
        }
    }

    fn draw_braille(&mut self, bits: u32) {
        const PLACES: [(usize, usize); 8] =
            [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)];
        let dot = 2 * self.scale;
        for (bit, (col, row)) in PLACES.into_iter().enumerate() {
            if bits & (1 << bit) != 0 {
                let left = (1 + 4 * col) * self.scale;
                let top = (1 + 4 * row) * self.scale;
                self.fill_rect(left, top, left + dot, top + dot, GlyphMask::FULL);
            }
        }
    }

    fn draw_arrow(&mut self, c: char) {
        let (width, height) = (self.width() as f32, self.height() as f32);
        let points_left = c as u32 >= 0xe0b2;
        let solid = (c as u32).is_multiple_of(2);
        let thickness = self.scale as f32 * 1.2;
        self.fill_region(|x, y| {
            let x = if points_left { width - x } else { x };
            let edge = width * (1.0 - (2.0 * y / height - 1.0).abs());
            if solid { x <= edge } else { x <= edge && x >= edge - thickness }
        });
    }
}

/// Which edge an arm goes to.
#[derive(Clone, Copy)]
struct Side {
    horizontal: bool,
    /// Right or down.
    far: bool,
}
