//! Taking in what hooks left in the spool: exactly once, in order, whenever we are killed.
//!
//! Hooks only ever append to one file. How far it was taken in is written in the same transaction
//! as what was taken in, and every report counts once whatever is read twice. A file that has grown
//! is set aside under another name; it is removed when it is certain that nobody can add to it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::event::Report;
use store::state::{Mark, State, StateError};

use crate::hook;

/// A file of this size is set aside once it has been taken in.
const SET_ASIDE: u64 = 256 << 10;

/// How much is read at once.
const CHUNK: u64 = 1 << 20;

/// How many bytes before a mark are remembered with it.
const TAIL: usize = 64;

/// How large the file of rejected lines may grow.
const MOST_REJECTED: u64 = 4 << 20;

/// Why the spool could not be taken in.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// The store said no.
    #[error(transparent)]
    State(#[from] StateError),
    /// A file of the spool could not be read.
    #[error("the spool {} cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What was taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Reports that were new.
    pub reports: u64,
    /// Lines that could not be understood.
    pub rejected: u64,
}

/// The lines that could not be understood.
pub fn rejected(home: &Path) -> PathBuf {
    home.join("spool/rejected.log")
}

/// Takes in everything that is in the spool.
pub fn drain(home: &Path, state: &mut State) -> Result<Drained, IntakeError> {
    let mut drained = Drained::default();
    let current = hook::spool(home);
    for path in files(home).into_iter().chain([current.clone()]) {
        let failed = |source| IntakeError::Io { path: path.clone(), source };
        let Some(mut file) = open(&path).map_err(failed)? else { continue };
        let ino = file.metadata().map_err(failed)?.ino();
        let is_aside = path != current;
        // Asked before the last look: whoever could add something has done so by then.
        let is_final = is_aside && sys::append::is_sole_opener(&file);
        let end = drain_file(home, &path, &mut file, state, &mut drained)?;
        if is_final {
            remove(&path, ino, state)?;
        } else if !is_aside && end >= SET_ASIDE {
            sys::pause::at("intake.set-aside");
            let name = format!("events.{}.jsonl", sys::clock::unique(sys::clock::now()));
            sys::atomic::put(&path, &path.with_file_name(name)).map_err(failed)?;
        }
    }
    Ok(drained)
}

/// Files that were set aside, the oldest first.
fn files(home: &Path) -> Vec<PathBuf> {
    let spool = hook::spool(home);
    let listed = spool.parent().and_then(|directory| std::fs::read_dir(directory).ok());
    let mut files: Vec<PathBuf> = listed
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
            name.starts_with("events.") && name.ends_with(".jsonl") && *path != spool
        })
        .collect();
    files.sort();
    files
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match sys::private::open_private(path) {
        Ok(file) => Ok(Some(file)),
        Err(sys::private::PrivateError::Io { source, .. })
            if source.kind() == io::ErrorKind::NotFound =>
        {
            Ok(None)
        }
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Takes one file in; returns where its last complete line ends.
fn drain_file(
    home: &Path,
    path: &Path,
    file: &mut File,
    state: &mut State,
    drained: &mut Drained,
) -> Result<u64, IntakeError> {
    let failed = |source| IntakeError::Io { path: path.to_owned(), source };
    let ino = file.metadata().map_err(failed)?.ino();
    let known = state.mark(ino)?;
    let mut mark = trusted(known, ino, file).map_err(failed)?;
    loop {
        let batch = read_batch(file, &mark).map_err(failed)?;
        if batch.end == mark.offset {
            return Ok(mark.offset);
        }
        for line in &batch.rejected {
            drained.rejected += 1;
            let mut line = line.clone();
            line.push(b'\n');
            // Nothing is lost, but nothing may fill the disk either.
            let _ = sys::append::append_up_to(MOST_REJECTED, &rejected(home), &line);
        }
        mark = Mark { ino, offset: batch.end, tail: batch.tail };
        sys::pause::at("intake.read");
        drained.reports += state.take_in(&batch.reports, &mark)? as u64;
        sys::pause::at("intake.taken-in");
    }
}

/// The mark, if it was really made in this file; else the beginning.
fn trusted(known: Option<Mark>, ino: u64, file: &mut File) -> io::Result<Mark> {
    let start = Mark { ino, ..Mark::default() };
    let Some(mark) = known.filter(|mark| mark.offset >= mark.tail.len() as u64) else {
        return Ok(start);
    };
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(mark.offset - mark.tail.len() as u64))?;
    file.take(mark.tail.len() as u64).read_to_end(&mut tail)?;
    Ok(if tail == mark.tail { mark } else { start })
}

/// Some lines of the spool.
struct Batch {
    reports: Vec<Report>,
    rejected: Vec<Vec<u8>>,
    end: u64,
    tail: Vec<u8>,
}

/// Reads complete lines after the mark. A last line without its end is left for later: it may be
/// half written, and whoever comes next begins with a line break.
fn read_batch(file: &mut File, mark: &Mark) -> io::Result<Batch> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(mark.offset))?;
    file.take(CHUNK).read_to_end(&mut bytes)?;
    // No line is as long as a chunk: what has no line break in so many bytes is no line at all.
    let endless = if bytes.len() as u64 == CHUNK { bytes.len() } else { 0 };
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(endless, |last| last + 1);
    bytes.truncate(end);
    let mut batch = Batch {
        reports: Vec::new(),
        rejected: Vec::new(),
        end: mark.offset + end as u64,
        tail: bytes[end.saturating_sub(TAIL)..].to_vec(),
    };
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match Report::parse(line) {
            Some(report) => batch.reports.push(report),
            None => batch.rejected.push(line.to_vec()),
        }
    }
    Ok(batch)
}

/// Removes a file that was taken in whole and that nobody can add to.
fn remove(path: &Path, ino: u64, state: &mut State) -> Result<(), IntakeError> {
    // What was taken in must be on the disk before its source goes.
    state.checkpoint()?;
    sys::pause::at("intake.remove");
    #[expect(clippy::disallowed_methods, reason = "everything in it is in the store, on the disk")]
    std::fs::remove_file(path)
        .map_err(|source| IntakeError::Io { path: path.to_owned(), source })?;
    state.forget_mark(ino)?;
    Ok(())
}

/// Reports that are in the spool and not in the store yet, in order. Nothing is changed.
pub fn waiting(home: &Path, state: Option<&State>) -> Result<Vec<Report>, IntakeError> {
    let mut reports = Vec::new();
    for path in files(home).into_iter().chain([hook::spool(home)]) {
        let failed = |source| IntakeError::Io { path: path.clone(), source };
        let Some(mut file) = open(&path).map_err(failed)? else { continue };
        let ino = file.metadata().map_err(failed)?.ino();
        let known = state.map(|state| state.mark(ino)).transpose()?.flatten();
        let mut mark = trusted(known, ino, &mut file).map_err(failed)?;
        loop {
            let batch = read_batch(&mut file, &mark).map_err(failed)?;
            if batch.end == mark.offset {
                break;
            }
            mark = Mark { ino, offset: batch.end, tail: batch.tail };
            reports.extend(batch.reports);
        }
    }
    Ok(reports)
}
