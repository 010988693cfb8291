//! Reads a log line by line, whichever program wrote it, damaged or not.
//!
//! A line that cannot be understood is skipped and named with its place; the rest is still told. A
//! last line without an end is what a writer was cut off in.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use base64::Engine;
use model::hosted::{LogEvent, LogFact, LogPayload};
use model::time::Time;
use serde::Deserialize;
use serde_json::value::RawValue;
use sys::private::{open_regular, open_regular_to_change};

use super::escape::unescape_json;

/// The longest line that is read; no writer makes one as long.
const MAX_LINE_BYTES: usize = 64 << 20;

/// How much is read at once.
const READ_SIZE: usize = 256 << 10;

/// Something wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogProblem {
    /// Where the line begins.
    pub offset: u64,
    /// What is wrong.
    pub reason: String,
}

impl std::fmt::Display for LogProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.reason)
    }
}

/// A log that is being read.
#[derive(Debug)]
pub struct LogReader {
    input: File,
    offset: u64,
    expected: Option<u64>,
    buffer: Vec<u8>,
    /// What of the buffer was read from the file and has not been looked at.
    unread: Range<usize>,
    /// What was written, at its beginning.
    bytes: Vec<u8>,
    /// What was wrong so far.
    pub problems: Vec<LogProblem>,
    /// The length of a last line without an end.
    pub torn: Option<u64>,
}

/// How many problems are named; a log of nothing but garbage has no end of them.
const MAX_PROBLEMS: usize = 100;

#[derive(Deserialize)]
struct RawLine<'a> {
    seq: u64,
    ts: Time,
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    payload: &'a RawValue,
}

#[derive(Deserialize)]
struct Output<'a> {
    #[serde(borrow)]
    data: std::borrow::Cow<'a, str>,
    raw: Option<std::borrow::Cow<'a, str>>,
}

impl LogReader {
    /// Reads from the beginning.
    pub fn open(directory: &Path) -> io::Result<Self> {
        Self::open_at(directory, 0, 0)
    }

    /// Reads from a line that begins at `offset`, with any number.
    pub fn open_anywhere(directory: &Path, offset: u64) -> io::Result<Self> {
        Ok(Self { expected: None, ..Self::open_at(directory, offset, 0)? })
    }

    /// Reads from a line that begins at `offset` and has the number `seq`.
    pub fn open_at(directory: &Path, offset: u64, seq: u64) -> io::Result<Self> {
        let mut file = open_regular(&directory.join(super::LOG_FILE))?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Self {
            input: file,
            offset,
            expected: Some(seq),
            buffer: vec![0; READ_SIZE],
            unread: 0..0,
            bytes: Vec::new(),
            problems: Vec::new(),
            torn: None,
        })
    }

    /// Where the next line begins.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next event that can be understood. `None` at the end; asked again, it looks for more.
    pub fn next_event(&mut self) -> io::Result<Option<LogEvent<'_>>> {
        let (seq, at, payload) = loop {
            let Some((begins, line)) = self.read_line()? else { return Ok(None) };
            let parsed = match &self.buffer[line] {
                [] => Err(format!("a line of {} bytes, which is too long", self.offset - begins)),
                line => parse_line(line, &mut self.bytes),
            };
            match parsed {
                Ok((seq, at, payload)) => {
                    if self.expected.is_some_and(|expected| expected != seq) {
                        let expected = self.expected.unwrap_or_default();
                        self.note_problem(
                            begins,
                            format!("event {seq} where {expected} was expected"),
                        );
                    }
                    // After the greatest number nothing can be expected.
                    self.expected = seq.checked_add(1);
                    break (seq, at, payload);
                }
                Err(reason) => {
                    self.note_problem(begins, reason);
                    // The skipped line had a number of its own.
                    self.expected = self.expected.and_then(|expected| expected.checked_add(1));
                }
            }
        };
        let payload = match payload {
            Parsed::Output(length) => LogPayload::Output(&self.bytes[..length]),
            Parsed::Other(fact) => LogPayload::Fact(fact),
        };
        Ok(Some(LogEvent { seq, at, payload }))
    }

    fn note_problem(&mut self, offset: u64, reason: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(LogProblem { offset, reason });
        }
    }

    /// Where the next whole line begins in the log, and where in the buffer it is. Of one that is too
    /// long nothing is kept.
    fn read_line(&mut self) -> io::Result<Option<(u64, Range<usize>)>> {
        let mut searched = self.unread.start;
        let mut left_out = 0;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[searched..self.unread.end]) {
                let line = self.unread.start..searched + at + 1;
                self.unread.start = line.end;
                self.torn = None;
                let begins = self.offset;
                self.offset += left_out + line.len() as u64;
                let is_too_long = left_out > 0 || line.len() > MAX_LINE_BYTES;
                return Ok(Some((begins, if is_too_long { 0..0 } else { line })));
            }
            if self.unread.len() > MAX_LINE_BYTES {
                left_out += self.unread.len() as u64;
                self.unread = 0..0;
            }
            searched = self.unread.len();
            if self.read_more()? == 0 {
                break;
            }
        }
        let length = left_out + self.unread.len() as u64;
        self.torn = (length > 0).then_some(length);
        // Read again when asked again: a live writer may end the line, or take it back.
        self.unread = 0..0;
        self.input.seek(SeekFrom::Start(self.offset))?;
        Ok(None)
    }

    /// Reads on behind what is unread, which is moved to the beginning of the buffer.
    fn read_more(&mut self) -> io::Result<usize> {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if self.buffer.len() - self.unread.end < READ_SIZE / 2 {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.unread.end..]) {
                Ok(count) => {
                    self.unread.end += count;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

enum Parsed {
    /// That many bytes, at the beginning of the buffer.
    Output(usize),
    Other(LogFact),
}

fn parse_line(line: &[u8], bytes: &mut Vec<u8>) -> Result<(u64, Time, Parsed), String> {
    if let Some((seq, at, length)) = parse_plain_output(line, bytes) {
        return Ok((seq, at, Parsed::Output(length)));
    }
    let wrong = |error: serde_json::Error| format!("not an event ({error})");
    let line: RawLine<'_> = serde_json::from_slice(line).map_err(wrong)?;
    if line.kind == "output" {
        let output: Output<'_> = serde_json::from_str(line.payload.get()).map_err(wrong)?;
        bytes.clear();
        match output.raw {
            None => bytes.extend_from_slice(output.data.as_bytes()),
            Some(raw) => base64::engine::general_purpose::STANDARD
                .decode_vec(raw.as_bytes(), bytes)
                .map_err(|error| format!("its raw bytes are not base64 ({error})"))?,
        }
        return Ok((line.seq, line.ts, Parsed::Output(bytes.len())));
    }
    let text = format!("{{\"type\":\"{}\",\"payload\":{}}}", line.kind, line.payload.get());
    let fact = serde_json::from_str(&text).map_err(wrong)?;
    Ok((line.seq, line.ts, Parsed::Other(fact)))
}

/// A short cut for nearly every line of a log: output that is text, as our writer lays it out.
fn parse_plain_output(line: &[u8], bytes: &mut Vec<u8>) -> Option<(u64, Time, usize)> {
    let rest = line.strip_prefix(b"{\"seq\":")?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let seq = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    let rest = rest[digits..].strip_prefix(b",\"ts\":\"")?;
    let quote = memchr::memchr(b'"', rest)?;
    let at = Time::parse(std::str::from_utf8(&rest[..quote]).ok()?)?;
    let rest = rest[quote..].strip_prefix(b"\",\"type\":\"output\",\"payload\":{\"data\":\"")?;
    let (inside, length) = unescape_json(rest, bytes)?;
    (rest[inside..] == *b"\"}}\n").then_some((seq, at, length))
}

/// Cuts off a last line without an end, so that every line is whole. Only for a log that no process
/// writes any more. Gives the number of bytes that were cut off.
pub fn repair_log(directory: &Path) -> io::Result<Option<u64>> {
    let path = directory.join(super::LOG_FILE);
    let file = match open_regular_to_change(&path).map_err(io::Error::from) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    let whole = end_of_last_line(&file, length)?;
    if whole == length {
        return Ok(None);
    }
    file.set_len(whole)?;
    file.sync_all()?;
    Ok(Some(length - whole))
}

fn end_of_last_line(file: &File, length: u64) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;

    let mut buffer = vec![0; 64 << 10];
    let mut end = length;
    while end > 0 {
        let from = end.saturating_sub(buffer.len() as u64);
        let chunk = &mut buffer[..usize::try_from(end - from).unwrap_or(0)];
        file.read_exact_at(chunk, from)?;
        if let Some(at) = memchr::memrchr(b'\n', chunk) {
            return Ok(from + at as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

/// The number and time of the last whole event, found from the end.
pub fn last_event(directory: &Path) -> io::Result<Option<(u64, Time)>> {
    use std::os::unix::fs::FileExt;

    let file = match open_regular(&directory.join(super::LOG_FILE)).map_err(io::Error::from) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut end = end_of_last_line(&file, file.metadata()?.len())?;
    // A few steps back, should the last lines be damaged.
    for _ in 0..16 {
        if end == 0 {
            break;
        }
        let from = end_of_last_line(&file, end - 1)?;
        let mut line =
            vec![0; usize::try_from((end - from).min(MAX_LINE_BYTES as u64)).unwrap_or(0)];
        file.read_exact_at(&mut line, from)?;
        if let Ok((seq, at, _)) = parse_line(&line, &mut Vec::new()) {
            return Ok(Some((seq, at)));
        }
        end = from;
    }
    Ok(None)
}
