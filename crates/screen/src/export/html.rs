//! A page that plays the recording, alone in one file: no server, no library, nothing loaded.
//!
//! The emulator runs here, not in the page. The page gets, for each moment, the rows that changed, as
//! text and styles; its script only puts them on the screen.

use std::io::{self, Write};
use std::time::Duration;

use super::frames::{FrameMaker, PlayerFrame};
use super::{RecordingEvent, RecordingHeader, RecordingWriter};
use crate::palette::{Rgb, Theme};

const PLAYER: &str = include_str!("player.js");
const STYLESHEET: &str = include_str!("player.css");

#[derive(Debug)]
pub struct Html<W> {
    out: W,
    maker: FrameMaker,
    first: bool,
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
        let maker = FrameMaker::new(header.size, theme, Duration::ZERO);
        Ok(Html { out, maker, first: true })
    }
}

/// In a script element nothing may look like a tag.
fn write_element(
    out: &mut impl Write,
    first: &mut bool,
    frame: &PlayerFrame<'_>,
) -> io::Result<()> {
    let json = serde_json::to_string(frame)?.replace('<', "\\u003c");
    let before = if std::mem::take(first) { "\n" } else { ",\n" };
    out.write_all(before.as_bytes())?;
    out.write_all(json.as_bytes())
}

impl<W: Write> RecordingWriter for Html<W> {
    fn record(&mut self, time: Duration, item: RecordingEvent<'_>) -> io::Result<()> {
        let Self { out, maker, first } = self;
        maker.record(time, item, &mut |frame| write_element(out, first, frame))
    }

    fn finish(&mut self) -> io::Result<()> {
        let Self { out, maker, first } = self;
        maker.finish(&mut |frame| write_element(out, first, frame))?;
        write!(self.out, "\n]</script>\n<script>\n{PLAYER}</script>\n</html>\n")?;
        self.out.flush()
    }
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
