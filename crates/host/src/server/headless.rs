//! Headless programs (pipe mode): no terminal, input from a file, output and errors into bounded logs.
//!
//! Of each stream the beginning is kept for good and the end as far as there is room: a program's first
//! line names its session, its last ones say how it ended.

use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use sys::dropped::NoteDropped;
use sys::pty::PtyProgram;

use super::ending::end_unhosted;
use super::host::Host;

/// How much is read of a stream before others get their turn.
const READ_PER_TURN: usize = 256 << 10;

/// The files of standard output and standard error, in the session's directory; what is beyond the limit
/// goes to a second file, which is begun anew when it is full.
const LOG_FILES: [[&str; 2]; 2] =
    [["stdout.log", "stdout.tail.log"], ["stderr.log", "stderr.tail.log"]];

/// How a program is run without a terminal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeadlessSpec {
    /// What it reads.
    pub input: HeadlessInput,
    /// How large each of the files with its output becomes at most; there are two of each stream.
    pub log_limit_bytes: u64,
}

/// The standard input of a headless program.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HeadlessInput {
    /// A file, which must exist.
    File(PathBuf),
    Text(String),
}

impl HeadlessInput {
    /// Something that can be read from its beginning. A text is on the disk without a name.
    fn open_in(&self, directory: &Path) -> io::Result<File> {
        use std::io::Seek;
        use std::os::unix::fs::OpenOptionsExt;

        let text = match self {
            Self::File(path) => return File::open(path),
            Self::Text(text) => text,
        };
        let path = directory.join("stdin");
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        #[expect(
            clippy::disallowed_methods,
            reason = "it was made a moment ago, to be without a name"
        )]
        sys::atomic::remove_own(&path);
        file.write_all(text.as_bytes())?;
        file.rewind()?;
        Ok(file)
    }
}

/// One stream of a headless program.
#[derive(Debug)]
pub(super) struct LoggedStream {
    /// Until it is closed.
    pub(super) pipe: Option<PipeReader>,
    paths: [PathBuf; 2],
    file: Option<File>,
    /// Whether the second file is written.
    in_tail: bool,
    written: u64,
    limit: u64,
}

/// A program without a terminal.
#[derive(Debug)]
pub(super) struct HeadlessProgram {
    pub(super) program: PtyProgram,
    /// Readable when the program has ended.
    pub(super) watch: OwnedFd,
    pub(super) streams: [LoggedStream; 2],
}

impl HeadlessProgram {
    pub(super) fn start(
        spec: &HeadlessSpec,
        command: Command,
        directory: &Path,
    ) -> io::Result<Self> {
        let input = spec.input.open_in(directory)?;
        let (program, pipes) = sys::pty::spawn_on_pipes(command, input)?;
        let watch = match program.end_watch() {
            Ok(watch) => watch,
            Err(error) => {
                end_unhosted(program, None);
                return Err(error);
            }
        };
        let mut logs = LOG_FILES.iter();
        let streams = pipes.map(|pipe| LoggedStream {
            pipe: Some(pipe),
            paths: logs.next().copied().unwrap_or_default().map(|name| directory.join(name)),
            file: None,
            in_tail: false,
            written: 0,
            limit: spec.log_limit_bytes.max(1),
        });
        Ok(Self { program, watch, streams })
    }
}

impl LoggedStream {
    /// Takes in what is there, up to a bound; says whether there was anything.
    fn take_output(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        let mut taken = 0;
        while taken < READ_PER_TURN {
            let Some(pipe) = &mut self.pipe else { break };
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    taken += count;
                    self.write_log(&buffer[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.pipe = None,
            }
        }
        taken > 0
    }

    fn write_log(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = usize::try_from(self.limit - self.written).unwrap_or(usize::MAX);
            if room == 0 {
                (self.in_tail, self.written, self.file) = (true, 0, None);
                continue;
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            // On a full disk it is missing; the program goes on.
            if let Some(file) = self.open_log() {
                file.write_all(now).note_dropped("output of a program without a terminal");
            }
            self.written += now.len() as u64;
            bytes = later;
        }
    }

    fn open_log(&mut self) -> Option<&mut File> {
        use std::os::unix::fs::OpenOptionsExt;

        if self.file.is_none() {
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            self.file = options
                .open(&self.paths[usize::from(self.in_tail)])
                .ok_or_note("the log of a program without a terminal");
        }
        self.file.as_mut()
    }
}

impl Host {
    /// Takes in what a headless program said; says whether there was anything.
    pub(super) fn read_streams(&mut self) -> bool {
        let Some(headless) = &mut self.headless else { return false };
        let [stdout, stderr] = &mut headless.streams;
        let some = stdout.take_output() | stderr.take_output();
        if some {
            self.last_activity = std::time::Instant::now();
        }
        some
    }
}
