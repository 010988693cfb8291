//! The state of a host, and what bytes do to it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use sys::dropped::NoteDropped;

use model::hosted::{LogFact, SessionManifest};
use model::time::Time;
use screen::{Personality, Screen, ScreenLimits, ScreenSize};
use sys::orphans::OrphanWatch;
use sys::pty::{PtyMaster, PtyProgram};

use super::connection::Connections;
use super::ending::Ending;
use super::headless::HeadlessProgram;
use super::intake::Intake;
use super::runs::{OutputPiece, Runs};
use super::start::StartRequest;
use super::submit::Submissions;
use crate::files::{self, SessionDir};
use crate::log;
use crate::timeouts::HELD_FRAME_TIMEOUT;

/// How much output is one event at most.
const MAX_OUTPUT_EVENT_BYTES: usize = 64 << 10;

/// A keyframe is written after so many bytes of log.
const KEYFRAME_EVERY: u64 = 32 << 20;

/// How much input may wait for a program that does not read.
pub(super) const MAX_INPUT_BYTES: usize = 32 << 20;

/// The program and its terminal.
#[derive(Debug)]
pub(super) struct HostedPty {
    pub(super) master: Arc<PtyMaster>,
    pub(super) intake: Intake,
    pub(super) program: PtyProgram,
    /// Readable when the program has ended.
    pub(super) watch: OwnedFd,
}

/// Whether the other side of the terminal is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PtyLine {
    Open,
    /// No process has it open now; one may open it again.
    HungUp(Instant),
}

/// A session's host.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) files: SessionDir,
    pub(super) socket: PathBuf,
    pub(super) personality: Personality,
    pub(super) version: String,
    pub(super) manifest: SessionManifest,
    pub(super) log: log::LogWriter,
    pub(super) screen: Screen,
    pub(super) listener: UnixListener,
    pub(super) terminal: Option<HostedPty>,
    /// The program, if it has no terminal.
    pub(super) headless: Option<HeadlessProgram>,
    /// This process adopts what the program leaves behind.
    pub(super) orphans: Option<OrphanWatch>,
    pub(super) line: PtyLine,
    pub(super) runs: Runs,
    pub(super) submissions: Submissions,
    pub(super) connections: Connections,
    pub(super) ending: Option<Ending>,
    /// Everything is written down; the last answers are on the way.
    pub(super) over: bool,
    pub(super) last_activity: Instant,
    /// Whether the program has written anything.
    pub(super) has_spoken: bool,
    /// Input that the terminal has not taken yet.
    pub(super) input: VecDeque<u8>,
    /// The beginning of a character whose end has not come.
    partial: Vec<u8>,
    keyframe_at: u64,
    holding_since: Option<Instant>,
    buffer: Vec<u8>,
    /// The screen as waiters last saw it.
    pub(super) seen: Option<(u64, Option<u64>)>,
}

impl Host {
    pub(super) fn new(
        request: StartRequest,
        files: SessionDir,
        manifest: SessionManifest,
        log: log::LogWriter,
        listener: UnixListener,
        terminal: Option<HostedPty>,
    ) -> Self {
        let limits = ScreenLimits { scrollback_lines: request.scrollback_lines };
        let size = ScreenSize { cols: request.cols, rows: request.rows };
        Self {
            files,
            socket: request.socket,
            personality: request.personality,
            version: request.version,
            manifest,
            log,
            screen: Screen::with_personality(size, limits, request.personality),
            listener,
            terminal,
            headless: None,
            orphans: None,
            line: PtyLine::Open,
            runs: Runs::default(),
            submissions: Submissions::default(),
            connections: Connections::default(),
            ending: None,
            over: false,
            last_activity: Instant::now(),
            has_spoken: false,
            input: VecDeque::new(),
            partial: Vec::new(),
            keyframe_at: KEYFRAME_EVERY,
            holding_since: None,
            buffer: Vec::new(),
            seen: None,
        }
    }

    /// The last event, as programs are told; -1 before the first.
    pub(super) fn last_seq(&self) -> i64 {
        self.log.last_seq().map_or(-1, |seq| i64::try_from(seq).unwrap_or(i64::MAX))
    }

    /// Records that the program could not be run: the session is there, and over.
    pub(super) fn could_not_run(&mut self, error: &io::Error, now: Time) {
        let program = &self.manifest.command[0];
        let message = format!("ostler: cannot run {program}: {error}\r\n");
        self.show_output(message.as_bytes(), now);
        self.record_end(Some(1), None, now);
    }

    /// Takes in what the program wrote; with `all`, everything the terminal still has. Says whether there
    /// was anything.
    pub(super) fn read_terminal(&mut self, all: bool) -> bool {
        let Some(terminal) = &mut self.terminal else { return false };
        let mut buffer = std::mem::take(&mut self.buffer);
        let closed = terminal.intake.take_output(&mut buffer, all);
        self.line = if closed { PtyLine::HungUp(Instant::now()) } else { PtyLine::Open };
        // In pieces, so that a line of the log stays one that can be held in memory.
        for piece in buffer.chunks(MAX_OUTPUT_EVENT_BYTES) {
            self.take_in(piece);
        }
        let some = !buffer.is_empty();
        self.buffer = buffer;
        some
    }

    /// Gives the read buffer back while nothing happens.
    pub(super) fn release_buffer(&mut self) {
        self.buffer = Vec::new();
    }

    fn take_in(&mut self, bytes: &[u8]) {
        self.last_activity = Instant::now();
        let now = sys::clock::now();
        if !self.runs.is_active() {
            self.runs.note_passed(bytes);
            self.show_whole_characters(bytes, now);
            return;
        }
        let mut pieces = Vec::new();
        self.runs.filter_output(bytes, self.last_activity, &mut |piece| pieces.push(piece));
        self.take_pieces(pieces, now);
    }

    /// Lets go what was held back too long.
    pub(super) fn release_held(&mut self, everything: bool) {
        let (instant, now) = (Instant::now(), sys::clock::now());
        let mut pieces = Vec::new();
        self.runs.release_held(instant, everything, &mut |piece| pieces.push(piece));
        self.take_pieces(pieces, now);
        if self
            .holding_since
            .is_some_and(|since| everything || instant >= since + HELD_FRAME_TIMEOUT)
        {
            self.holding_since = None;
            self.screen.release_frame();
            self.check_screen(instant);
        }
        if everything && !self.partial.is_empty() {
            let partial = std::mem::take(&mut self.partial);
            self.show_output(&partial, now);
        }
    }

    /// When held output must be let go.
    pub(super) fn held_until(&self) -> Option<Instant> {
        let frame = self.holding_since.map(|since| since + HELD_FRAME_TIMEOUT);
        [self.runs.release_deadline(), frame].into_iter().flatten().min()
    }

    fn take_pieces(&mut self, pieces: Vec<OutputPiece>, now: Time) {
        for piece in pieces {
            match piece {
                OutputPiece::Bytes(bytes) => self.show_whole_characters(&bytes, now),
                OutputPiece::Done(done) => self.run_ended(done, now),
            }
        }
    }

    /// A character that is cut in two by a read is not two wrong ones.
    fn show_whole_characters(&mut self, bytes: &[u8], now: Time) {
        let joined;
        let bytes = if self.partial.is_empty() {
            bytes
        } else {
            joined = [&std::mem::take(&mut self.partial), bytes].concat();
            &joined
        };
        let (whole, partial) = bytes.split_at(bytes.len() - unfinished_tail(bytes));
        self.partial.extend_from_slice(partial);
        if !whole.is_empty() {
            self.show_output(whole, now);
        }
    }

    /// Log, then screen, then viewers, then waiters.
    fn show_output(&mut self, bytes: &[u8], now: Time) {
        self.has_spoken = true;
        self.log.push_output(now, bytes);
        self.log.flush(now);
        self.draw_output(bytes);
        self.connections.show_output(bytes, &self.screen);
        if self.log.byte_len() >= self.keyframe_at {
            self.keyframe_at = self.log.byte_len() + KEYFRAME_EVERY;
            self.write_keyframe();
        }
    }

    fn draw_output(&mut self, bytes: &[u8]) {
        let instant = Instant::now();
        self.connections.saw_output(instant);
        if self.connections.watches_screen() {
            // What is about to be cleared was shown.
            for frame in split_frames(bytes) {
                let output = self.screen.advance(frame);
                self.answer_program(&output.reply);
                self.check_screen(instant);
            }
        } else {
            let output = self.screen.advance(bytes);
            self.answer_program(&output.reply);
        }
        self.holding_since = match (self.screen.is_holding(), self.holding_since) {
            (false, _) => None,
            (true, since) => since.or(Some(instant)),
        };
    }

    fn answer_program(&mut self, reply: &[u8]) {
        if !reply.is_empty() && self.input.len() < MAX_INPUT_BYTES {
            self.input.extend(reply);
            self.write_terminal();
        }
    }

    /// Writes what waits for the terminal, as far as it takes it.
    pub(super) fn write_terminal(&mut self) {
        let Some(terminal) = &self.terminal else {
            self.input.clear();
            return;
        };
        while !self.input.is_empty() {
            let (front, _) = self.input.as_slices();
            match terminal.master.write(front) {
                Ok(0) => return,
                Ok(count) => {
                    self.input.drain(..count);
                }
                Err(_) => {
                    self.input.clear();
                    return;
                }
            }
        }
        self.input.shrink_to(64 << 10);
    }

    /// Records something that is not output.
    pub(super) fn record_fact(&mut self, fact: &LogFact) -> u64 {
        let now = sys::clock::now();
        let seq = self.log.push(now, fact);
        self.log.flush(now);
        seq
    }

    /// Gives the terminal the nearest size that a screen can have.
    pub(super) fn resize(&mut self, size: ScreenSize) -> io::Result<ScreenSize> {
        let size = size.clamped();
        tracing::info!(cols = size.cols, rows = size.rows, "resized");
        if let Some(terminal) = &self.terminal {
            terminal.master.resize(sys::pty::PtySize { cols: size.cols, rows: size.rows })?;
        }
        self.record_fact(&LogFact::Resize { cols: size.cols, rows: size.rows });
        let output = self.screen.resize(size);
        self.answer_program(&output.reply);
        (self.manifest.cols, self.manifest.rows) = (size.cols, size.rows);
        self.write_manifest(files::Durability::System);
        self.check_screen(Instant::now());
        Ok(size)
    }

    pub(super) fn write_keyframe(&self) {
        tracing::debug!(
            seq = self.last_seq(),
            log_bytes = self.log.byte_len(),
            "a keyframe is written"
        );
        // A cache: without it the log is replayed.
        files::write_keyframe(
            self.files.path(),
            self.last_seq(),
            self.log.byte_len(),
            &self.screen,
        )
        .note_dropped("writing a keyframe");
    }

    pub(super) fn write_manifest(&mut self, durability: files::Durability) {
        self.manifest.updated_at = sys::clock::now();
        // On a full disk the old one stays; what it says is corrected by the process that finds this host dead.
        self.files.write_manifest(&self.manifest, durability).note_dropped("writing the manifest");
    }
}

/// How many bytes at the end begin a character without ending it.
fn unfinished_tail(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let needs = match byte {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            0x80..=0xbf => continue,
            _ => return 0,
        };
        return if back < needs { back } else { 0 };
    }
    0
}

/// How many frames of one chunk are looked at.
const MAX_FRAMES: usize = 64;

/// Cuts output before a sequence that clears the screen or goes to its beginning.
fn split_frames(bytes: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(next) = memchr::memchr(0x1b, &bytes[at..]) {
        let escape = at + next;
        let rest = &bytes[escape + 1..];
        let clears = rest.starts_with(b"c")
            || rest.starts_with(b"[2J")
            || rest.starts_with(b"[J")
            || rest.starts_with(b"[H")
            || rest.starts_with(b"[?1049");
        if clears && escape > from {
            frames.push(&bytes[from..escape]);
            from = escape;
            if frames.len() == MAX_FRAMES {
                break;
            }
        }
        at = escape + 1;
    }
    frames.push(&bytes[from..]);
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_character_waits_for_its_end() {
        for (text, expected) in [("a", 0), ("é", 0), ("日本", 0), ("😀", 0)] {
            assert_eq!(unfinished_tail(text.as_bytes()), expected);
        }
        for cut in 1..4 {
            assert_eq!(unfinished_tail(&"x😀".as_bytes()[..1 + cut]), cut);
        }
        assert_eq!(unfinished_tail(b"\xff"), 0);
        assert_eq!(unfinished_tail(b"\x80\x80\x80\x80"), 0);
        assert_eq!(unfinished_tail(b""), 0);
    }

    #[test]
    fn what_is_shown_before_a_clear_is_a_frame() {
        let cut = split_frames(b"READY\x1b[2J\x1b[Hgone\x1b[mx");
        assert_eq!(cut, [&b"READY"[..], b"\x1b[2J", b"\x1b[Hgone\x1b[mx"]);
        assert_eq!(split_frames(b"plain"), [b"plain"]);
        assert_eq!(split_frames(&b"x\x1bc".repeat(1000)).len(), MAX_FRAMES + 1);
    }
}
