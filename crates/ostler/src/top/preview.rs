//! The preview of a hosted terminal: one read-only viewer of its host, and its screen cell by cell.
//!
//! Looking changes nothing: it has no size of its own and does not type. Glyphs are never scaled; what
//! does not fit is left out, and the title says so.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use flows::terminal::screen::keys::{encode_key, encode_paste};
use flows::terminal::screen::{Attrs, Personality, Screen, ScreenLimits, ScreenSize, StyledCell};
use flows::terminal::stream::{self, FrameKind, Keyboard};
use flows::terminal::{HostedSession, ask};
use model::hosted::HostFault;
use model::hosted::wire::{AttachParams, Dimensions};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

use super::input::TopInput;

/// How much is read at once: a flood must not keep keys waiting.
const READ_CHUNK_BYTES: usize = 64 << 10;

/// What became of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreviewState {
    Open,
    Over,
}

/// A terminal that is watched.
#[derive(Debug)]
pub(crate) struct ScreenPreview {
    /// The terminal's id.
    pub(crate) terminal: String,
    screen: Screen,
    stream: UnixStream,
    input: Vec<u8>,
    /// What was typed and is not on its way yet: the program may read slower than somebody pastes.
    unwritten: Vec<u8>,
    keyboard: Keyboard,
}

impl ScreenPreview {
    /// Joins a terminal; `types` asks for the keyboard, if it is free.
    pub(crate) fn join(session: &HostedSession, types: bool) -> Result<Self, HostFault> {
        let params = AttachParams { size: None, read_only: !types, take: false, by: None };
        let (welcome, early, stream) = ask::attach_terminal(session, params)?;
        stream
            .set_nonblocking(true)
            .map_err(|error| HostFault::invalid_input(error.to_string()))?;
        let size = ScreenSize { cols: welcome.cols, rows: welcome.rows };
        let mut preview = Self {
            terminal: session.id.clone(),
            screen: Screen::new(size, ScreenLimits { scrollback_lines: 0 }),
            stream,
            input: early,
            unwritten: Vec::new(),
            keyboard: if welcome.writer { Keyboard::Yours } else { Keyboard::Anothers },
        };
        preview.take_frames();
        Ok(preview)
    }

    /// What to poll for reading.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether what is typed reaches the program.
    pub(crate) fn has_keyboard(&self) -> bool {
        self.keyboard != Keyboard::Anothers
    }

    /// Reads a part of what has come in.
    pub(crate) fn read_stream(&mut self) -> PreviewState {
        let mut buffer = [0; READ_CHUNK_BYTES];
        match self.stream.read(&mut buffer) {
            Ok(0) => return PreviewState::Over,
            Ok(count) => self.input.extend_from_slice(&buffer[..count]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return PreviewState::Over,
        }
        self.take_frames()
    }

    fn take_frames(&mut self) -> PreviewState {
        loop {
            match stream::take_frame(&mut self.input) {
                Ok(Some((FrameKind::Bytes, bytes))) => {
                    // What the program asks its terminal is answered by its host.
                    let _ = self.screen.advance(&bytes);
                }
                Ok(Some((FrameKind::Size, payload))) => {
                    if let Ok(size) = serde_json::from_slice::<Dimensions>(&payload) {
                        let size = ScreenSize { cols: size.cols, rows: size.rows };
                        let _ = self.screen.resize(size.clamped());
                    }
                }
                Ok(Some((FrameKind::Writer, payload))) => self.keyboard = Keyboard::parse(&payload),
                Ok(Some((FrameKind::Over, _))) | Err(_) => return PreviewState::Over,
                Ok(Some(_)) => {}
                Ok(None) => return PreviewState::Open,
            }
        }
    }

    /// Types into the terminal, in the way that its program expects.
    pub(crate) fn type_input(&mut self, input: &TopInput) {
        let modes = self.screen.modes();
        let bytes = match input {
            TopInput::Key(pressed) => {
                encode_key(&pressed.send_name(), &modes, Personality::Ostler).unwrap_or_default()
            }
            TopInput::Paste(text) => encode_paste(text, modes.bracketed_paste),
            TopInput::Mouse(_) | TopInput::PasteTooLong => return,
        };
        stream::put_frame(&mut self.unwritten, FrameKind::Bytes, &bytes);
        self.flush_unwritten();
    }

    /// Whether something that was typed waits until the host reads.
    pub(crate) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Sends as much of what was typed as the host takes now.
    pub(crate) fn flush_unwritten(&mut self) {
        let mut sent = 0;
        while sent < self.unwritten.len() {
            match self.stream.write(&self.unwritten[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // A host that is gone is noticed when it is read from.
                Err(_) => sent = self.unwritten.len(),
            }
        }
        self.unwritten.drain(..sent);
    }

    /// Its size, and whether it fits.
    pub(crate) fn describe_size(&self, (columns, rows): (u16, u16)) -> String {
        let size = self.screen.size();
        let part = if size.cols > columns || size.rows > rows { ", part" } else { "" };
        format!("· {}×{}{part} ", size.cols, size.rows)
    }

    /// Draws the part round the cursor, or the one it was panned to; says where the cursor is.
    pub(crate) fn draw(
        &self,
        buffer: &mut Buffer,
        area: Rect,
        pan: Option<(u16, u16)>,
        has_colour: bool,
    ) -> Option<(u16, u16)> {
        draw_screen(&self.screen, buffer, area, pan, has_colour)
    }
}

/// Draws the part of a screen that fits.
pub(crate) fn draw_screen(
    screen: &Screen,
    buffer: &mut Buffer,
    area: Rect,
    pan: Option<(u16, u16)>,
    has_colour: bool,
) -> Option<(u16, u16)> {
    let (size, cursor) = (screen.size(), screen.cursor());
    let most = (size.cols.saturating_sub(area.width), size.rows.saturating_sub(area.height));
    let follow = || {
        // The cursor stays in sight, with what stands before and above it.
        let column = cursor.col.saturating_sub(area.width.saturating_sub(1));
        let row = cursor.row.saturating_sub(area.height.saturating_sub(1).max(1) * 3 / 4);
        (column, row)
    };
    let (left, top) = pan.unwrap_or_else(follow);
    let (left, top) = (left.min(most.0), top.min(most.1));
    for (y, cells) in screen.cells().iter().skip(usize::from(top)).enumerate() {
        if y >= usize::from(area.height) {
            break;
        }
        let row = Rect { y: area.y + y as u16, height: 1, ..area };
        draw_cells(cells, buffer, row, left, has_colour);
    }
    let (x, y) = (cursor.col.checked_sub(left)?, cursor.row.checked_sub(top)?);
    (cursor.visible && x < area.width && y < area.height).then_some((area.x + x, area.y + y))
}

fn draw_cells(cells: &[StyledCell], buffer: &mut Buffer, row: Rect, left: u16, has_colour: bool) {
    for (x, cell) in cells.iter().skip(usize::from(left)).take(usize::from(row.width)).enumerate() {
        let place = (row.x + x as u16, row.y);
        let Some(drawn) = buffer.cell_mut(place) else { return };
        let style = cell_style(cell, has_colour);
        let is_wide =
            !cell.text.is_empty() && unicode_width::UnicodeWidthStr::width(cell.text.as_str()) == 2;
        let cut = is_wide && x + 1 >= usize::from(row.width);
        // The right half of a wide glyph, or a glyph whose right half is beyond the edge.
        let symbol = if cell.text.is_empty() || cut { " " } else { &cell.text };
        drawn.set_symbol(symbol).set_style(style);
    }
}

fn cell_style(cell: &StyledCell, has_colour: bool) -> Style {
    let mut style = Style::new();
    if has_colour {
        let rgb = |[r, g, b]: [u8; 3]| Color::Rgb(r, g, b);
        style.fg = cell.fg.map(rgb);
        style.bg = cell.bg.map(rgb);
    }
    for (attribute, modifier) in [
        (Attrs::BOLD, Modifier::BOLD),
        (Attrs::DIM, Modifier::DIM),
        (Attrs::ITALIC, Modifier::ITALIC),
        (Attrs::INVERSE, Modifier::REVERSED),
        (Attrs::HIDDEN, Modifier::HIDDEN),
        (Attrs::STRIKE, Modifier::CROSSED_OUT),
    ] {
        if cell.attrs.has(attribute) {
            style = style.add_modifier(modifier);
        }
    }
    match cell.attrs.underline_style() {
        0 => style,
        _ => style.add_modifier(Modifier::UNDERLINED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every stream that real programs wrote, played to its end.
    fn recorded_screens() -> Vec<(String, Screen)> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../screen/fixtures");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let play = |path: std::path::PathBuf| {
            let file = path.file_name()?.to_str()?.to_owned();
            let (cols, rows) = file.rsplit_once('.')?.1.split_once('x')?;
            let size = ScreenSize { cols: cols.parse().ok()?, rows: rows.parse().ok()? };
            let mut screen = Screen::new(size, ScreenLimits { scrollback_lines: 0 });
            let _ = screen.advance(&std::fs::read(&path).unwrap());
            Some((file, screen))
        };
        files.filter_map(play).collect()
    }

    /// Draws a part of a screen; every glyph must be in the row that it was drawn in.
    fn draw_part(screen: &Screen, size: (u16, u16), pan: (u16, u16)) -> Buffer {
        let area = Rect::new(3, 2, size.0, size.1);
        let mut buffer = Buffer::empty(Rect::new(0, 0, area.right() + 2, area.bottom() + 1));
        draw_screen(screen, &mut buffer, area, Some(pan), true);
        for (place, cell) in buffer.content().iter().enumerate() {
            let (x, y) = buffer.pos_of(place);
            if !area.contains((x, y).into()) {
                assert_eq!(cell.symbol(), " ", "outside of the preview at {x},{y}");
            }
            let width = crate::render::text::display_width(cell.symbol()) as u16;
            assert!(x + width <= area.right() || cell.symbol() == " ", "over the edge at {x},{y}");
        }
        buffer
    }

    #[test]
    fn row_08_the_preview_is_the_snapshot_cell_by_cell() {
        let screens = recorded_screens();
        assert!(screens.len() >= 72, "{}", screens.len());
        let (mut cells, mut coloured, mut wide) = (0, 0, 0);
        for (name, screen) in &screens {
            let size = screen.size();
            let buffer = draw_part(screen, (size.cols, size.rows), (0, 0));
            for (y, row) in screen.cells().iter().enumerate() {
                for (x, cell) in row.iter().enumerate() {
                    let drawn = &buffer[(x as u16 + 3, y as u16 + 2)];
                    let text = if cell.text.is_empty() { " " } else { &cell.text };
                    assert_eq!(drawn.symbol(), text, "{name} at {x},{y}");
                    let rgb = |colour: Option<[u8; 3]>| {
                        colour.map_or(Color::Reset, |[r, g, b]| Color::Rgb(r, g, b))
                    };
                    assert_eq!((drawn.fg, drawn.bg), (rgb(cell.fg), rgb(cell.bg)), "{name}");
                    let bold = cell.attrs.has(Attrs::BOLD);
                    assert_eq!(drawn.modifier.contains(Modifier::BOLD), bold, "{name} at {x},{y}");
                    let turned = cell.attrs.has(Attrs::INVERSE);
                    assert_eq!(drawn.modifier.contains(Modifier::REVERSED), turned, "{name}");
                    cells += 1;
                    coloured += usize::from(cell.fg.is_some() || cell.bg.is_some());
                    wide += usize::from(crate::render::text::display_width(&cell.text) == 2);
                }
            }
        }
        assert!(cells > 100_000 && coloured > 10_000 && wide > 100, "{cells} {coloured} {wide}");
    }

    #[test]
    fn row_08_a_wide_glyph_at_the_cut_is_left_out() {
        for (name, screen) in &recorded_screens() {
            let size = screen.size();
            for cut in 1..size.cols.min(4) {
                // Cut at the right edge, then at the left one.
                for (columns, left) in [(size.cols - cut, 0), (size.cols - cut, cut)] {
                    let buffer = draw_part(screen, (columns, size.rows), (left, 0));
                    for (y, row) in screen.cells().iter().enumerate() {
                        let drawn = &buffer[(3, y as u16 + 2)];
                        let text = row.get(usize::from(left)).map_or("", |cell| &*cell.text);
                        let is_cut = columns == 1 && drawn.symbol() == " ";
                        let text = if text.is_empty() { " " } else { text };
                        assert!(drawn.symbol() == text || is_cut, "{name} row {y}");
                    }
                }
            }
        }
    }
}
