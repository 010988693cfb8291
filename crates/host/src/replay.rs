//! A session's screen from its log alone.

use std::io;
use std::path::Path;

use model::hosted::{Fact, Manifest, Payload};
use screen::{Limits, Screen, Size};

use crate::files::{self, Keyframe};
use crate::log::{Problem, Reader};

/// A screen, and how it was come by.
#[derive(Debug)]
pub struct Replayed {
    /// The screen.
    pub screen: Screen,
    /// The last event that it shows; -1 when there is none.
    pub seq: i64,
    /// What was wrong with the log.
    pub problems: Vec<Problem>,
    /// The length of a last line without an end.
    pub torn: Option<u64>,
    /// How much of the log had to be read.
    pub bytes_read: u64,
}

/// Replays the log of the session in `directory` from its latest keyframe, or from the beginning.
pub fn replay(directory: &Path, manifest: &Manifest, limits: Limits) -> io::Result<Replayed> {
    let length = std::fs::metadata(directory.join(crate::log::FILE)).map(|log| log.len()).or_else(
        |error| if error.kind() == io::ErrorKind::NotFound { Ok(0) } else { Err(error) },
    )?;
    // One that stands for more than the log has was made for another log.
    let frame = files::read_keyframe(directory).filter(|frame| frame.offset <= length);
    let frame = frame.unwrap_or_else(|| Keyframe {
        seq: -1,
        offset: 0,
        screen: Screen::new(
            Size {
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
    let mut reader = Reader::open_at(directory, offset, u64::try_from(seq + 1).unwrap_or(0))?;
    while let Some(event) = reader.next_event()? {
        match event.payload {
            Payload::Output(bytes) => {
                let _ = screen.advance(bytes);
            }
            Payload::Fact(Fact::Resize { cols, rows }) => {
                let _ = screen.resize(Size { cols, rows });
            }
            Payload::Fact(_) => {}
        }
        seq = i64::try_from(event.seq).unwrap_or(i64::MAX);
    }
    screen.release();
    Ok(Replayed {
        screen,
        seq,
        bytes_read: reader.offset() - offset,
        torn: reader.torn,
        problems: reader.problems,
    })
}
