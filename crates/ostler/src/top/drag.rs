//! Marking with the mouse: a part of the preview, as it is drawn, for the clipboard.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Position, Rect};

/// What is marked: from one cell to another, line by line, inside a rectangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TopDrag {
    pub(crate) from: Position,
    pub(crate) to: Position,
    /// Nothing outside of it is marked, however far the mouse goes.
    pub(crate) inside: Rect,
}

impl TopDrag {
    /// Begins at a cell.
    pub(crate) fn begin(at: Position, inside: Rect) -> Self {
        Self { from: at, to: at, inside }
    }

    /// Goes on to where the mouse is, or the nearest cell to it.
    pub(crate) fn extend(&mut self, to: Position) {
        let (right, bottom) = (self.inside.right(), self.inside.bottom());
        self.to = Position {
            x: to.x.clamp(self.inside.x, right.saturating_sub(1).max(self.inside.x)),
            y: to.y.clamp(self.inside.y, bottom.saturating_sub(1).max(self.inside.y)),
        };
    }

    /// Whether nothing but the first cell is marked: a click, not a mark.
    pub(crate) fn is_click(self) -> bool {
        self.from == self.to
    }

    /// The marked part of each line, as rectangles of one row.
    pub(crate) fn marked_rows(self) -> impl Iterator<Item = Rect> {
        let key = |place: Position| (place.y, place.x);
        let (first, last) = match key(self.from) <= key(self.to) {
            true => (self.from, self.to),
            false => (self.to, self.from),
        };
        (first.y..=last.y).map(move |y| {
            let left = if y == first.y { first.x } else { self.inside.x };
            let right = if y == last.y { last.x + 1 } else { self.inside.right() };
            Rect { x: left, y, width: right.saturating_sub(left), height: 1 }
        })
    }

    /// The text of what is marked, as it is drawn; blanks at the ends of lines are nobody's.
    pub(crate) fn text_in(self, drawn: &Buffer) -> String {
        let lines = self.marked_rows().map(|row| {
            let row = row.intersection(drawn.area);
            let (mut line, mut x) = (String::new(), row.x);
            while x < row.right() {
                let symbol = drawn[(x, row.y)].symbol();
                line.push_str(symbol);
                // The right half of a wide glyph holds nothing of its own.
                x += (crate::render::text::display_width(symbol).max(1)) as u16;
            }
            line.trim_end().to_owned()
        });
        lines.collect::<Vec<String>>().join("\n").trim_end().to_owned()
    }
}
