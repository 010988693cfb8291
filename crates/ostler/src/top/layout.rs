//! The layout: what part of the screen shows what, by its size alone.

use ratatui_core::layout::Rect;

/// Up to this size there is only the list.
const SMALL_COLUMNS: u16 = 60;
const SMALL_ROWS: u16 = 15;

/// From here on list and preview stand side by side.
const WIDE_COLUMNS: u16 = 100;
const WIDE_ROWS: u16 = 20;

/// Where everything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TopLayout {
    pub(crate) header: Rect,
    pub(crate) list: Rect,
    /// The preview with its title line.
    pub(crate) preview: Option<Rect>,
    pub(crate) footer: Rect,
    /// Whether the two stand side by side.
    pub(crate) is_wide: bool,
}

/// What the preview shows inside its title line (and, side by side, its left edge and the reason below).
pub(crate) fn preview_inside(layout: &TopLayout) -> Option<Rect> {
    let area = layout.preview?;
    let left = u16::from(layout.is_wide);
    (area.height > 1 + left && area.width > left).then(|| Rect {
        x: area.x + left,
        y: area.y + 1,
        width: area.width - left,
        height: area.height - 1 - left,
    })
}

/// Where the reason of the selected session's state stands: side by side there is room for it.
pub(crate) fn reason_line(layout: &TopLayout) -> Option<Rect> {
    let inside = preview_inside(layout).filter(|_| layout.is_wide)?;
    Some(Rect { y: inside.y + inside.height, height: 1, ..inside })
}

/// The layout of a screen; `is_whole` gives the preview all of it.
pub(crate) fn layout_screen(columns: u16, rows: u16, is_whole: bool) -> TopLayout {
    let header = Rect::new(0, 0, columns, rows.min(1));
    let footer = Rect::new(0, rows.saturating_sub(1), columns, u16::from(rows > 1));
    let body = Rect::new(0, 1.min(rows), columns, rows.saturating_sub(2));
    let nothing = Rect::new(0, body.y, columns, 0);
    if is_whole {
        let preview = Some(body);
        return TopLayout { header, list: nothing, preview, footer, is_wide: false };
    }
    if columns <= SMALL_COLUMNS || rows <= SMALL_ROWS {
        return TopLayout { header, list: body, preview: None, footer, is_wide: false };
    }
    if columns >= WIDE_COLUMNS && rows >= WIDE_ROWS {
        let width = (columns * 45 / 100).clamp(48, 76);
        let list = Rect { width, ..body };
        let preview = Rect { x: width, width: columns - width, ..body };
        return TopLayout { header, list, preview: Some(preview), footer, is_wide: true };
    }
    let below = (rows / 2).min(body.height);
    let list = Rect { height: body.height - below, ..body };
    let preview = Rect { y: body.y + list.height, height: below, ..body };
    TopLayout { header, list, preview: Some(preview), footer, is_wide: false }
}
