//! Other tools' files, opened so that nothing is followed, blocked on or changed.
//!
//! Everything an adapter learns from disk comes through here: directories are listed through their
//! own descriptor, symbolic links that leave the root are not followed, and only regular files are
//! opened (a FIFO would block, a device could do anything). There is no way to write.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memchr::memchr;
use model::plan::Fingerprint;
use model::sighting::FileStamp;
use rustix::fs::{AtFlags, FileType, Stat};
use sys::beneath::{BeneathError, BeneathTarget};

/// The longest record that is read whole. Longer ones are skipped and counted.
pub const MAX_RECORD_BYTES: usize = 32 << 20;

/// The largest small file (registration, settings) that is read whole.
const MAX_SMALL_FILE_BYTES: u64 = 8 << 20;

/// The largest transcript that is one document.
const MAX_DOCUMENT_BYTES: u64 = 256 << 20;

/// The largest file of lines that is read whole. Of a larger one (a sparse file can claim any size)
/// the beginning and the end are read: who it is, and what happened last.
pub const MAX_LINES_FILE: u64 = 2 << 30;

/// How much is read of the beginning and of the end of such a file.
const LARGE_FILE_HEAD: u64 = 256 << 20;
const LARGE_FILE_TAIL: u64 = 64 << 20;

/// Copies of this size stay in the second-level cache; larger ones measured three times slower.
const CHUNK_BYTES: usize = 128 << 10;

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system said no.
    #[error("{}", error_text(.0))]
    Io(#[from] io::Error),
    /// A FIFO, socket, device or directory stands where a file should be.
    #[error("not a regular file")]
    NotAFile,
    /// A symbolic link leads out of the agent's directory.
    #[error("a symbolic link out of the agent's directory, not followed")]
    Escapes,
    /// Larger than any file of this kind can be.
    #[error("too large: {0} bytes")]
    TooLarge(u64),
    /// Nothing in it.
    #[error("empty file")]
    Empty,
    /// Not what the format promises.
    #[error("{0}")]
    Format(String),
    /// A database said no.
    #[error("{0}")]
    Database(rusqlite::Error),
    /// Reading it took more processor time than one file may.
    #[error("reading it takes too long: given up")]
    TookTooLong,
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        // Nothing but the budget interrupts a statement here.
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::OperationInterrupted) => Self::TookTooLong,
            _ => Self::Database(error),
        }
    }
}

/// The error's own words, without the number that the standard library appends.
fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

impl From<BeneathError> for ReadError {
    fn from(error: BeneathError) -> Self {
        match error {
            BeneathError::Escapes => Self::Escapes,
            BeneathError::Io(error) => Self::Io(error),
        }
    }
}

impl From<rustix::io::Errno> for ReadError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Io(errno.into())
    }
}

impl ReadError {
    /// An error that says what the format lacks.
    pub fn unknown_format(text: impl Into<String>) -> Self {
        Self::Format(text.into())
    }

    /// Whether the thing simply is not there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Io(error) if matches!(
            error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
    }
}

/// What kind of thing a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    Directory,
    /// A symbolic link that leads out of the root, or nowhere.
    Escape,
    /// A FIFO, socket or device.
    Other,
}

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct DirEntry {
    pub name: OsString,
    /// What it is (a link inside the root counts as what it leads to).
    pub kind: EntryKind,
    pub stamp: FileStamp,
    /// What it is itself: a link, if it is one.
    pub print: Fingerprint,
}

impl DirEntry {
    /// The name without `suffix`, if it ends in that and the rest is plain text.
    pub fn strip_suffix(&self, suffix: &str) -> Option<&str> {
        self.name.to_str()?.strip_suffix(suffix).filter(|stem| !stem.is_empty())
    }
}

/// Lists a directory below `root`. Entries that vanish meanwhile are left out.
pub fn list_directory(root: &Path, path: &Path) -> Result<Vec<DirEntry>, ReadError> {
    let fd = sys::beneath::open_beneath(root, path, BeneathTarget::Directory)?;
    let mut entries = Vec::new();
    let mut dir = rustix::fs::Dir::read_from(&fd)?;
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = entry.file_name();
        let ours = name.to_bytes().starts_with(model::plan::PRIVATE_PREFIX.as_bytes());
        if name == c"." || name == c".." || ours {
            continue;
        }
        let Ok(stat) = rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let name = OsString::from_vec(name.to_bytes().to_vec());
        let (kind, stamp) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => (EntryKind::File, stamp_of(&stat)),
            FileType::Directory => (EntryKind::Directory, stamp_of(&stat)),
            FileType::Symlink => resolve_link(root, &path.join(&name), &stat),
            _ => (EntryKind::Other, stamp_of(&stat)),
        };
        let print = sys::fingerprint::of_stat(&stat);
        entries.push(DirEntry { name, kind, stamp, print });
    }
    Ok(entries)
}

/// What a symbolic link leads to, if that is inside the root.
fn resolve_link(root: &Path, link: &Path, own: &Stat) -> (EntryKind, FileStamp) {
    let inside = std::fs::canonicalize(link).ok().filter(|target| target.starts_with(root));
    let stat = inside.and_then(|target| rustix::fs::lstat(target).ok());
    match stat.map(|stat| (FileType::from_raw_mode(stat.st_mode), stamp_of(&stat))) {
        Some((FileType::RegularFile, stamp)) => (EntryKind::File, stamp),
        Some((FileType::Directory, stamp)) => (EntryKind::Directory, stamp),
        _ => (EntryKind::Escape, stamp_of(own)),
    }
}

/// Opens a regular file below `root` for reading.
pub fn open_file(root: &Path, path: &Path) -> Result<(File, FileStamp), ReadError> {
    let fd = sys::beneath::open_beneath(root, path, BeneathTarget::File)?;
    let stat = rustix::fs::fstat(&fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(ReadError::NotAFile);
    }
    Ok((fd, stamp_of(&stat)))
}

/// Reads a small file whole.
pub fn read_small(root: &Path, path: &Path) -> Result<(Vec<u8>, FileStamp), ReadError> {
    read_up_to(MAX_SMALL_FILE_BYTES, root, path)
}

/// Reads a transcript that is one document, and not a list of lines, whole.
pub fn read_document(root: &Path, path: &Path) -> Result<(Vec<u8>, FileStamp), ReadError> {
    read_up_to(MAX_DOCUMENT_BYTES, root, path)
}

fn read_up_to(limit: u64, root: &Path, path: &Path) -> Result<(Vec<u8>, FileStamp), ReadError> {
    let (file, stamp) = open_file(root, path)?;
    if stamp.bytes > limit {
        return Err(ReadError::TooLarge(stamp.bytes));
    }
    let mut bytes = Vec::with_capacity(stamp.bytes as usize + 1);
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(ReadError::TooLarge(bytes.len() as u64));
    }
    Ok((bytes, stamp))
}

/// The first bytes of a file: enough for a header line that names the session.
pub fn read_head(root: &Path, path: &Path) -> Result<Vec<u8>, ReadError> {
    const HEAD: usize = 4 << 10;
    let (file, _) = open_file(root, path)?;
    let mut bytes = Vec::with_capacity(HEAD);
    file.take(HEAD as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a small JSON file. An empty or cut-off one is an error, never an empty value.
pub fn read_json<T: serde::de::DeserializeOwned>(
    root: &Path,
    path: &Path,
) -> Result<(T, FileStamp), ReadError> {
    let (bytes, stamp) = read_small(root, path)?;
    if bytes.trim_ascii().is_empty() {
        return Err(ReadError::Empty);
    }
    let value = serde_json::from_slice(&bytes).map_err(|error| {
        ReadError::unknown_format(format!("not the JSON it should be: {error}"))
    })?;
    Ok((value, stamp))
}

/// How a file of lines ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinesEnd {
    /// The offset just after the last complete line that was handed out.
    pub offset: u64,
    /// Lines longer than [`MAX_RECORD_BYTES`], which were skipped; the middle of a file that is too large
    /// to be read whole counts as one.
    pub oversized: u32,
}

/// Hands every line of `file`, which has `bytes` bytes, from `offset` on to `each`, without its
/// newline. The middle of one that is larger than `MAX_LINES_FILE` is left out.
///
/// A last line without a newline is handed out too (it may be whole or torn: `each` finds out),
/// but `LinesEnd::offset` stays before it, so that a follower reads it again when it is whole.
pub fn each_line(
    mut file: File,
    bytes: u64,
    offset: u64,
    mut each: impl FnMut(&[u8]),
) -> Result<LinesEnd, ReadError> {
    use std::io::Seek;

    if offset > 0 {
        file.seek(io::SeekFrom::Start(offset))?;
    }
    if bytes.saturating_sub(offset) <= MAX_LINES_FILE {
        return with_scratch(|buffer| lines_through(buffer, file, Short::End, offset, each));
    }
    with_scratch(|buffer| {
        let head = (&file).take(LARGE_FILE_HEAD);
        let head = lines_through(buffer, head, Short::Cut, offset, &mut each)?;
        let tail = bytes - LARGE_FILE_TAIL;
        file.seek(io::SeekFrom::Start(tail))?;
        let tail = lines_through(buffer, file, Short::EndFromWithin, tail, each)?;
        Ok(LinesEnd { offset: tail.offset, oversized: head.oversized + tail.oversized + 1 })
    })
}

/// The same for anything that can be read, which stands at `offset`. Empty lines are left out.
pub fn lines_from(
    reader: impl Read,
    offset: u64,
    each: impl FnMut(&[u8]),
) -> Result<LinesEnd, ReadError> {
    with_scratch(|buffer| lines_through(buffer, reader, Short::Nothing, offset, each))
}

fn with_scratch<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    SCRATCH.with(|scratch| {
        let mut buffer = scratch.take();
        if buffer.is_empty() {
            buffer.resize(CHUNK_BYTES, 0);
        }
        let done = work(&mut buffer);
        if buffer.len() <= 8 * CHUNK_BYTES {
            scratch.replace(buffer);
        }
        done
    })
}

std::thread_local! {
    /// What says that nobody wants what this thread reads any more.
    static UNWANTED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Lines that are read meanwhile end where they are as soon as `cancelled` is set. All adapters read them here, and
/// none has to know of it.
pub fn read_while_wanted<T>(cancelled: &Arc<AtomicBool>, read: impl FnOnce() -> T) -> T {
    let before = UNWANTED.replace(Some(Arc::clone(cancelled)));
    let done = read();
    UNWANTED.set(before);
    done
}

fn is_unwanted() -> bool {
    UNWANTED.with_borrow(|cancelled| {
        cancelled.as_ref().is_some_and(|cancelled| cancelled.load(Ordering::Relaxed))
    })
}

/// What it means that less was read than there was room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Short {
    /// The end, as it was then: of a regular file there is no need to ask again.
    End,
    Nothing,
    /// Nothing; and where it ends, it was cut off by us: what begins there is not handed out.
    Cut,
    /// As `End`, for a reading that begins inside a line, which is not handed out.
    EndFromWithin,
}

std::thread_local! {
    /// The line buffer, kept from file to file: clearing a fresh one costs as much as the reading.
    static SCRATCH: std::cell::Cell<Vec<u8>> = const { std::cell::Cell::new(Vec::new()) };
}

fn lines_through(
    buffer: &mut Vec<u8>,
    mut reader: impl Read,
    short: Short,
    offset: u64,
    mut each: impl FnMut(&[u8]),
) -> Result<LinesEnd, ReadError> {
    let mut end = LinesEnd { offset, oversized: 0 };
    // buffer[..kept] is the beginning of a line whose end has not been read yet.
    let mut kept = 0;
    // Inside a line that is longer than MAX_RECORD.
    let mut skipping = short == Short::EndFromWithin;
    let mut ended = false;
    loop {
        if is_unwanted() {
            return Ok(end);
        }
        if kept == buffer.len() {
            if buffer.len() < MAX_RECORD_BYTES {
                buffer.resize((buffer.len() * 2).min(MAX_RECORD_BYTES), 0);
            } else {
                end.offset += kept as u64;
                kept = 0;
                end.oversized += u32::from(!skipping);
                skipping = true;
            }
        }
        let room = (kept + CHUNK_BYTES).min(buffer.len());
        let count = match ended {
            true => 0,
            false => match reader.read(&mut buffer[kept..room]) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            },
        };
        if count == 0 {
            if kept > 0 && !skipping && short != Short::Cut {
                each(&buffer[..kept]);
            }
            return Ok(end);
        }
        let filled = kept + count;
        let is_file = matches!(short, Short::End | Short::EndFromWithin);
        ended = is_file && filled < room;
        let mut start = 0;
        let mut search = kept;
        while let Some(length) = memchr(b'\n', &buffer[search..filled]) {
            // A run of empty lines is left out at once: a small file can unpack to millions.
            if length == 0 && start == search && !skipping && short == Short::Nothing {
                let run = &buffer[search..filled];
                let run = run.iter().position(|byte| *byte != b'\n').unwrap_or(run.len());
                end.offset += run as u64;
                start += run;
                search = start;
                continue;
            }
            let newline = search + length;
            if !skipping {
                each(&buffer[start..newline]);
            }
            skipping = false;
            end.offset += (newline + 1 - start) as u64;
            start = newline + 1;
            search = start;
        }
        buffer.copy_within(start..filled, 0);
        kept = filled - start;
    }
}

/// The stamp of an open file or a path that was just looked at.
#[allow(clippy::unnecessary_cast, reason = "the widths differ between platforms")]
fn stamp_of(stat: &Stat) -> FileStamp {
    FileStamp {
        dev: stat.st_dev as u64,
        ino: stat.st_ino as u64,
        bytes: u64::try_from(stat.st_size).unwrap_or(0),
        mtime_ns: (stat.st_mtime as i64)
            .saturating_mul(1_000_000_000)
            .saturating_add(stat.st_mtime_nsec as i64),
    }
}

/// The stamp of a path, symbolic links not followed.
pub fn stamp_path(path: &Path) -> Option<FileStamp> {
    rustix::fs::lstat(path).ok().map(|stat| stamp_of(&stat))
}

/// `path` as text for JSON and messages.
pub fn display_path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_80_lines_that_nobody_wants_any_more_end_where_they_are() {
        let text = "an ordinary line of a large file\n".repeat(1 << 20);
        let cancelled = Arc::new(AtomicBool::new(false));
        let mut seen = 0u64;
        let read = || {
            lines_from(text.as_bytes(), 0, |line| {
                seen += line.len() as u64 + 1;
                cancelled.store(true, Ordering::Relaxed);
            })
        };
        let end = read_while_wanted(&cancelled, read).unwrap();
        assert!(seen <= 2 * CHUNK_BYTES as u64, "{seen} of {} bytes", text.len());
        assert_eq!(end.offset, seen, "what was handed out is what was read");
        // What this thread reads for somebody else is read whole.
        let mut lines = 0;
        lines_from(text.as_bytes(), 0, |_| lines += 1).unwrap();
        assert_eq!(lines, 1 << 20);
    }
}
