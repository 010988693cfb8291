//! Log replay: a session's screen from its log alone.

use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use model::hosted::{LogFact, LogPayload, SessionManifest};
use screen::{Screen, ScreenLimits, ScreenSize};

use crate::files::{self, Keyframe};
use crate::log::{LogProblem, LogReader};

/// How much of a log is worth a thread that reads ahead.
const READ_AHEAD_FROM: u64 = 1 << 20;

/// How much output is handed over at once, and how often before the producer has to wait.
const PIECE_SIZE: usize = 64 << 10;
const PIECES_AHEAD: usize = 4;

/// A screen, and how it was come by.
#[derive(Debug)]
pub struct Replayed {
    pub screen: Screen,
    /// The last event that it shows; -1 when there is none.
    pub seq: i64,
    /// What was wrong with the log.
    pub problems: Vec<LogProblem>,
    /// The length of a last line without an end.
    pub torn: Option<u64>,
    /// How much of the log had to be read.
    pub bytes_read: u64,
}

/// Replays the log of the session in `directory` from its latest keyframe, or from the beginning.
pub fn replay_log(
    directory: &Path,
    manifest: &SessionManifest,
    limits: ScreenLimits,
) -> io::Result<Replayed> {
    let length =
        std::fs::metadata(directory.join(crate::log::LOG_FILE)).map(|log| log.len()).or_else(
            |error| if error.kind() == io::ErrorKind::NotFound { Ok(0) } else { Err(error) },
        )?;
    // One that stands for more than the log has was made for another log.
    let frame = files::read_keyframe(directory).filter(|frame| frame.offset <= length);
    let frame = frame.unwrap_or_else(|| Keyframe {
        seq: -1,
        offset: 0,
        screen: Screen::new(
            ScreenSize {
                cols: manifest.creation_cols.unwrap_or(manifest.cols),
                rows: manifest.creation_rows.unwrap_or(manifest.rows),
            },
            limits,
        ),
    });
    let Keyframe { mut seq, offset, mut screen } = frame;
    if length == 0 {
        return Ok(Replayed { screen, seq, problems: Vec::new(), torn: None, bytes_read: 0 });
    }
    let mut reader = LogReader::open_at(directory, offset, u64::try_from(seq + 1).unwrap_or(0))?;
    let last = if length - offset < READ_AHEAD_FROM {
        show_log(&mut reader, &mut screen)?
    } else {
        show_while_reading(&mut reader, &mut screen)?
    };
    if let Some(last) = last {
        seq = i64::try_from(last).unwrap_or(i64::MAX);
    }
    screen.release_frame();
    Ok(Replayed {
        screen,
        seq,
        bytes_read: reader.offset() - offset,
        torn: reader.torn,
        problems: reader.problems,
    })
}

/// What a screen is shown next.
#[derive(Default)]
struct ReplayPiece {
    output: Vec<u8>,
    then: Option<ScreenSize>,
}

impl ReplayPiece {
    /// Adds an event, and tells whether the piece is to be shown before the next.
    fn add_event(&mut self, payload: LogPayload<'_>) -> bool {
        match payload {
            LogPayload::Output(bytes) => self.output.extend_from_slice(bytes),
            LogPayload::Fact(LogFact::Resize { cols, rows }) => {
                self.then = Some(ScreenSize { cols, rows })
            }
            LogPayload::Fact(_) => {}
        }
        self.then.is_some() || self.output.len() >= PIECE_SIZE
    }

    /// Shows it, and leaves an empty one.
    fn show_on(&mut self, screen: &mut Screen) {
        let _ = screen.advance(&self.output);
        if let Some(size) = self.then.take() {
            let _ = screen.resize(size);
        }
        self.output.clear();
    }
}

/// Shows all that is in a log. Gives the number of its last event.
fn show_log(reader: &mut LogReader, screen: &mut Screen) -> io::Result<Option<u64>> {
    let (mut piece, mut last) = (ReplayPiece::default(), None);
    while let Some(event) = reader.next_event()? {
        last = Some(event.seq);
        if piece.add_event(event.payload) {
            piece.show_on(screen);
        }
    }
    piece.show_on(screen);
    Ok(last)
}

/// The same, where one thread reads while this one shows.
fn show_while_reading(reader: &mut LogReader, screen: &mut Screen) -> io::Result<Option<u64>> {
    let lent = &mut *reader;
    let read_all = thread::scope(|scope| {
        let (pieces, to_show) = mpsc::sync_channel(PIECES_AHEAD);
        let (shown, to_fill) = mpsc::channel();
        let read = move || -> io::Result<Option<u64>> {
            let (mut piece, mut last) = (ReplayPiece::default(), None);
            while let Some(event) = lent.next_event()? {
                last = Some(event.seq);
                if piece.add_event(event.payload) {
                    let next = to_fill.try_recv().unwrap_or_default();
                    let _ = pieces.send(std::mem::replace(&mut piece, next));
                }
            }
            let _ = pieces.send(piece);
            Ok(last)
        };
        let reading = thread::Builder::new().spawn_scoped(scope, read).ok()?;
        for mut piece in to_show {
            piece.show_on(screen);
            let _ = shown.send(piece);
        }
        Some(reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    // Where there can be no more threads, this one does both.
    read_all.unwrap_or_else(|| show_log(reader, screen))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::time::Time;
    use screen::Personality;

    #[test]
    fn a_log_that_is_read_ahead_shows_what_one_does_that_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let at = Time::from_millis(1_794_765_224_662);
        let mut log = crate::log::LogWriter::create(directory.path(), Personality::Ostler).unwrap();
        for round in 0..600u16 {
            for line in 0..50 {
                log.push_output(
                    at,
                    format!("\x1b[3{}m{round} {line} 日本\x1b[m\r\n", line % 8).as_bytes(),
                );
            }
            log.push_output(at, b"\xff\x1b[");
            if round % 97 == 0 {
                log.push(at, &LogFact::Resize { cols: 40 + round % 60, rows: 10 + round % 20 });
            }
            log.push_output(at, b"1m");
            log.flush(at);
        }
        log.close(at);
        let shown = |how: fn(&mut LogReader, &mut Screen) -> io::Result<Option<u64>>| {
            let size = ScreenSize { cols: 80, rows: 24 };
            let mut screen = Screen::new(size, ScreenLimits { scrollback_lines: 1000 });
            let last = how(&mut LogReader::open(directory.path()).unwrap(), &mut screen).unwrap();
            (last, screen.hash(), screen.scrollback(1000), screen.cells())
        };
        let length = std::fs::metadata(directory.path().join(crate::log::LOG_FILE)).unwrap().len();
        assert!(length > READ_AHEAD_FROM / 2, "{length} bytes are many pieces");
        assert_eq!(shown(show_log), shown(show_while_reading));
    }
}
