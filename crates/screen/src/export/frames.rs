//! A recording as frames: for each moment the rows that changed, as text and styles, so that a player of
//! it needs no emulator. The page that plays itself has them in it; `ostler web` is sent them line by line.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::{RecordingEvent, RecordingHeader, RecordingWriter};
use crate::contract::{ScreenLimits, ScreenSize};
use crate::palette::Theme;
use crate::runs::{RunPainter, TextRun};
use crate::screen::Screen;

/// Changes within this time are one frame.
const FRAME_INTERVAL: Duration = Duration::from_millis(33);

#[derive(Debug, Serialize)]
pub(super) struct PlayerFrame<'a> {
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

/// Takes a frame.
type TakeFrame<'a> = &'a mut dyn FnMut(&PlayerFrame<'_>) -> io::Result<()>;

/// Makes frames of events.
#[derive(Debug)]
pub(super) struct FrameMaker {
    screen: Screen,
    painter: RunPainter,
    shown: Vec<Vec<TextRun>>,
    /// When the frame that is being gathered began.
    pending: Option<Duration>,
    size: Option<ScreenSize>,
    /// What was before is not shown, but for what is left of it on the screen.
    from: Duration,
}

impl FrameMaker {
    pub(super) fn new(size: ScreenSize, theme: Theme, from: Duration) -> Self {
        Self {
            screen: Screen::new(size, ScreenLimits { scrollback_lines: 0 }),
            painter: RunPainter::new(theme),
            shown: Vec::new(),
            pending: Some(from),
            size: Some(size),
            from,
        }
    }

    pub(super) fn record(
        &mut self,
        time: Duration,
        item: RecordingEvent<'_>,
        take: TakeFrame<'_>,
    ) -> io::Result<()> {
        match item {
            RecordingEvent::Output(bytes) => {
                self.begin_frame(time, take)?;
                let _ = self.screen.advance(bytes);
            }
            RecordingEvent::Resize(size) => {
                self.begin_frame(time, take)?;
                let _ = self.screen.resize(size);
                self.size = Some(self.screen.size());
            }
            RecordingEvent::Marker(label) if time >= self.from => {
                if let Some(began) = self.pending.take() {
                    self.write_frame(began, None, take)?;
                }
                self.write_frame(time, Some(label), take)?;
            }
            RecordingEvent::Marker(_) | RecordingEvent::Input(_) | RecordingEvent::Exit(_) => {}
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, take: TakeFrame<'_>) -> io::Result<()> {
        self.screen.release_frame();
        match self.pending.take() {
            Some(time) => self.write_frame(time, None, take),
            None => Ok(()),
        }
    }

    /// Begins a frame at `time`, after writing the one before if its time is over.
    fn begin_frame(&mut self, time: Duration, take: TakeFrame<'_>) -> io::Result<()> {
        match self.pending {
            Some(began) if time < began + FRAME_INTERVAL => {}
            Some(began) => {
                self.write_frame(began, None, take)?;
                self.pending = Some(time);
            }
            None => self.pending = Some(time),
        }
        Ok(())
    }

    fn write_frame(
        &mut self,
        time: Duration,
        mark: Option<&str>,
        take: TakeFrame<'_>,
    ) -> io::Result<()> {
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
        take(&frame)?;
        self.shown = rows;
        Ok(())
    }
}

/// Frames as JSON, one on a line.
#[derive(Debug)]
pub struct FrameLines<W> {
    out: W,
    maker: FrameMaker,
}

impl<W: Write> FrameLines<W> {
    /// Begins with what was on the screen at `from`.
    pub fn new(out: W, header: &RecordingHeader<'_>, theme: Theme, from: Duration) -> Self {
        Self { out, maker: FrameMaker::new(header.size, theme, from) }
    }
}

impl<W: Write> RecordingWriter for FrameLines<W> {
    fn record(&mut self, time: Duration, item: RecordingEvent<'_>) -> io::Result<()> {
        let Self { out, maker } = self;
        maker.record(time, item, &mut |frame| write_line(out, frame))
    }

    fn finish(&mut self) -> io::Result<()> {
        let Self { out, maker } = self;
        maker.finish(&mut |frame| write_line(out, frame))?;
        out.flush()
    }
}

fn write_line(out: &mut impl Write, frame: &PlayerFrame<'_>) -> io::Result<()> {
    let mut line = serde_json::to_vec(frame)?;
    line.push(b'\n');
    out.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(from: Duration) -> Vec<serde_json::Value> {
        let size = ScreenSize { cols: 20, rows: 3 };
        let header = RecordingHeader {
            size,
            timestamp: 0,
            title: "t",
            session_id: "t",
            term: "xterm",
            tool_version: "0",
        };
        let mut out = Vec::new();
        let mut lines = FrameLines::new(&mut out, &header, Theme::DARK, from);
        let at = Duration::from_millis;
        lines.record(at(0), RecordingEvent::Output(b"one\r\n")).unwrap();
        lines.record(at(1000), RecordingEvent::Output(b"\x1b[31mtwo\x1b[0m")).unwrap();
        lines.record(at(2000), RecordingEvent::Marker("here")).unwrap();
        lines.record(at(3000), RecordingEvent::Resize(ScreenSize { cols: 10, rows: 2 })).unwrap();
        lines.finish().unwrap();
        let text = String::from_utf8(out).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn row_68_frames_hold_what_changed_and_marks() {
        let frames = lines(Duration::ZERO);
        assert_eq!(frames[0]["size"], serde_json::json!([20, 3]));
        assert_eq!(frames[0]["rows"][0][1][0][0], "one");
        assert_eq!(frames[1]["t"], 1000);
        assert_eq!(frames[1]["rows"][0][0], 1, "only the row that changed: {frames:?}");
        assert!(frames.iter().any(|frame| frame["mark"] == "here"));
        assert_eq!(frames.last().unwrap()["size"], serde_json::json!([10, 2]));
    }

    #[test]
    fn row_68_a_later_beginning_shows_what_was_there() {
        let frames = lines(Duration::from_millis(1500));
        assert_eq!(frames[0]["t"], 1500, "{frames:?}");
        let rows = frames[0]["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2, "both rows are there at once: {frames:?}");
        assert!(frames.iter().all(|frame| frame["t"].as_u64().unwrap() >= 1500));
    }
}
