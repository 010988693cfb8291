//! A page that plays the recording, alone in one file: no server, no library, nothing loaded.
//!
//! The emulator runs here, not in the page. The page gets, for each moment, the rows that changed, as
//! text and styles; its script only puts them on the screen.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::{RecordingEvent, RecordingHeader, RecordingWriter};
use crate::palette::{Rgb, Theme};
use crate::runs::{RunPainter, TextRun};
use crate::screen::{Screen, ScreenLimits, ScreenSize};

const PLAYER: &str = include_str!("player.js");
const STYLESHEET: &str = include_str!("player.css");

/// Changes within this time are one frame.
const FRAME_INTERVAL: Duration = Duration::from_millis(33);

#[derive(Debug, Serialize)]
struct PlayerFrame<'a> {
    t: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<(u16, u16)>,
    /// Styles that are used for the first time, as CSS.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    css: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    rows: Vec<(usize, &'a [TextRun])>,
    /// Row and column, unless hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<(u16, u16)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<&'a str>,
}

#[derive(Debug)]
pub struct Html<W> {
    out: W,
    screen: Screen,
    painter: RunPainter,
    shown: Vec<Vec<TextRun>>,
    /// When the frame that is being gathered began.
    pending: Option<Duration>,
    first: bool,
    size: Option<ScreenSize>,
}

impl<W: Write> Html<W> {
    pub fn new(mut out: W, header: &RecordingHeader<'_>, theme: Theme) -> io::Result<Html<W>> {
        let title = escape_html(header.title);
        let css = |[r, g, b]: Rgb| format!("#{r:02x}{g:02x}{b:02x}");
        let (fg, bg) = (css(theme.foreground), css(theme.background));
        write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>\n:root {{ --fg: {fg}; --bg: {bg}; --cursor: {} }}\n{STYLESHEET}</style>\n\
             <main><div id=\"screen\" role=\"img\" aria-label=\"{title}\"></div>\n\
             <nav><button id=\"play\" type=\"button\">play</button>\
             <input id=\"seek\" type=\"range\" min=\"0\" value=\"0\" aria-label=\"time\">\
             <output id=\"time\"></output></nav></main>\n\
             <script type=\"application/json\" id=\"frames\">[",
            css(theme.cursor),
        )?;
        Ok(Html {
            out,
            screen: Screen::new(header.size, ScreenLimits { scrollback_lines: 0 }),
            painter: RunPainter::new(theme),
            shown: Vec::new(),
            pending: Some(Duration::ZERO),
            first: true,
            size: Some(header.size),
        })
    }

    /// Begins a frame at `time`, after writing the one before if its time is over.
    fn begin_frame(&mut self, time: Duration) -> io::Result<()> {
        match self.pending {
            Some(began) if time < began + FRAME_INTERVAL => {}
            Some(began) => {
                self.write_frame(began, None)?;
                self.pending = Some(time);
            }
            None => self.pending = Some(time),
        }
        Ok(())
    }

    fn write_frame(&mut self, time: Duration, mark: Option<&str>) -> io::Result<()> {
        let size = self.size.take();
        if size.is_some() {
            self.shown.clear();
        }
        let mut new = Vec::new();
        let rows = self.painter.paint_rows(&self.screen, &mut new);
        let changed = rows.iter().enumerate().filter(|(row, runs)| {
            self.shown.get(*row).map_or(!runs.is_empty(), |shown| shown != *runs)
        });
        let cursor = self.screen.cursor();
        let frame = PlayerFrame {
            t: time.as_millis() as u64,
            size: size.map(|size| (size.cols, size.rows)),
            css: &new,
            rows: changed.map(|(row, runs)| (row, runs.as_slice())).collect(),
            cursor: cursor.visible.then_some((cursor.row, cursor.col)),
            mark,
        };
        // In a script element nothing may look like a tag.
        let json = serde_json::to_string(&frame)?.replace('<', "\\u003c");
        let before = if std::mem::take(&mut self.first) { "\n" } else { ",\n" };
        self.out.write_all(before.as_bytes())?;
        self.out.write_all(json.as_bytes())?;
        self.shown = rows;
        Ok(())
    }
}

impl<W: Write> RecordingWriter for Html<W> {
    fn record(&mut self, time: Duration, item: RecordingEvent<'_>) -> io::Result<()> {
        match item {
            RecordingEvent::Output(bytes) => {
                self.begin_frame(time)?;
                let _ = self.screen.advance(bytes);
            }
            RecordingEvent::Resize(size) => {
                self.begin_frame(time)?;
                let _ = self.screen.resize(size);
                self.size = Some(self.screen.size());
            }
            RecordingEvent::Marker(label) => {
                if let Some(began) = self.pending.take() {
                    self.write_frame(began, None)?;
                }
                self.write_frame(time, Some(label))?;
            }
            RecordingEvent::Input(_) | RecordingEvent::Exit(_) => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.screen.release_frame();
        if let Some(time) = self.pending.take() {
            self.write_frame(time, None)?;
        }
        write!(self.out, "\n]</script>\n<script>\n{PLAYER}</script>\n</html>\n")?;
        self.out.flush()
    }
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
