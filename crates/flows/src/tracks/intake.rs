//! Spool intake, an idempotent consumer: hooks' reports are taken in exactly once, in order, whenever it is
//! killed.
//!
//! Hooks only ever append to one file. How far it was taken in is written in the same transaction
//! as what was taken in, and every report counts once even if it is read twice. A file that has grown
//! is set aside under another name; it is removed when it is certain that no process can append to it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use sys::dropped::NoteDropped;

use model::event::HookReport;
use store::state::{SpoolMark, StateError, StateStore};
use sys::machine::Machine;

use crate::hook;

/// A file of this size is set aside once it has been taken in.
const ROTATE_SIZE: u64 = 256 << 10;

/// How much is read at once.
const READ_SIZE: u64 = 1 << 20;

/// How many bytes before a mark are remembered with it.
const MARK_TAIL: usize = 64;

/// How large the file of rejected lines may grow.
const MAX_REJECTED_BYTES: u64 = 4 << 20;

/// Why the spool could not be taken in.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// The store said no.
    #[error(transparent)]
    State(#[from] StateError),
    /// A file of the spool could not be read.
    #[error("the spool {} cannot be read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// What was taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainedSpool {
    /// Reports that were new.
    pub reports: u64,
    /// Lines that could not be understood.
    pub rejected: u64,
}

/// The lines that could not be understood.
pub fn rejected_path(home: &Path) -> PathBuf {
    home.join("spool/rejected.log")
}

/// Takes in everything that is in the spool.
pub fn drain_spool(machine: &Machine, state: &mut StateStore) -> Result<DrainedSpool, IntakeError> {
    let home = machine.home();
    let mut drained = DrainedSpool::default();
    let current = hook::spool_path(home);
    for path in rotated_files(home).into_iter().chain([current.clone()]) {
        let failed = |source| IntakeError::Io { path: path.clone(), source };
        let Some(mut file) = open_if_present(&path).map_err(failed)? else { continue };
        let ino = file.metadata().map_err(failed)?.ino();
        let is_aside = path != current;
        // Asked before the last look: a process that could append has done so by then.
        let is_final = is_aside && sys::append::is_sole_opener(&file);
        let end = drain_file(home, &path, &mut file, state, &mut drained)?;
        if is_final {
            remove_drained(&path, ino, state)?;
        } else if !is_aside && end >= ROTATE_SIZE {
            sys::pause::pause_at("intake.set-aside");
            let name = format!("events.{}.jsonl", sys::clock::unique_suffix(machine.read_clock()));
            #[expect(
                clippy::disallowed_methods,
                reason = "the spool is set aside whole, under a name that is new"
            )]
            sys::atomic::rename_over(&path, &path.with_file_name(name)).map_err(failed)?;
        }
    }
    if drained != DrainedSpool::default() {
        tracing::info!(
            reports = drained.reports,
            rejected = drained.rejected,
            "the spool was taken in"
        );
    }
    Ok(drained)
}

/// Files that were set aside, the oldest first.
fn rotated_files(home: &Path) -> Vec<PathBuf> {
    let spool = hook::spool_path(home);
    let listed = spool.parent().and_then(|directory| {
        std::fs::read_dir(directory).ok_or_note("the directory of the spool")
    });
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

fn open_if_present(path: &Path) -> io::Result<Option<File>> {
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
    state: &mut StateStore,
    drained: &mut DrainedSpool,
) -> Result<u64, IntakeError> {
    let failed = |source| IntakeError::Io { path: path.to_owned(), source };
    let ino = file.metadata().map_err(failed)?.ino();
    let known = state.spool_mark(ino)?;
    let mut mark = trusted_mark(known, ino, file).map_err(failed)?;
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
            sys::append::append_up_to(MAX_REJECTED_BYTES, &rejected_path(home), &line)
                .note_dropped("keeping a line that cannot be understood");
        }
        mark = SpoolMark { ino, offset: batch.end, tail: batch.tail };
        sys::pause::pause_at("intake.read");
        drained.reports += state.take_in(&batch.reports, &mark)? as u64;
        sys::pause::pause_at("intake.taken-in");
    }
}

/// The mark, if it was really made in this file; else the beginning.
fn trusted_mark(known: Option<SpoolMark>, ino: u64, file: &mut File) -> io::Result<SpoolMark> {
    let start = SpoolMark { ino, ..SpoolMark::default() };
    let Some(mark) = known.filter(|mark| mark.offset >= mark.tail.len() as u64) else {
        return Ok(start);
    };
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(mark.offset - mark.tail.len() as u64))?;
    file.take(mark.tail.len() as u64).read_to_end(&mut tail)?;
    Ok(if tail == mark.tail { mark } else { start })
}

/// Some lines of the spool.
struct SpoolBatch {
    reports: Vec<HookReport>,
    rejected: Vec<Vec<u8>>,
    end: u64,
    tail: Vec<u8>,
}

/// Reads complete lines after the mark. A last line without its end is left for later: it may be
/// half written, and the next writer begins with a line break.
fn read_batch(file: &mut File, mark: &SpoolMark) -> io::Result<SpoolBatch> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(mark.offset))?;
    file.take(READ_SIZE).read_to_end(&mut bytes)?;
    // No line is as long as a chunk: what has no line break in so many bytes is no line at all.
    let endless = if bytes.len() as u64 == READ_SIZE { bytes.len() } else { 0 };
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(endless, |last| last + 1);
    bytes.truncate(end);
    let mut batch = SpoolBatch {
        reports: Vec::new(),
        rejected: Vec::new(),
        end: mark.offset + end as u64,
        tail: bytes[end.saturating_sub(MARK_TAIL)..].to_vec(),
    };
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match HookReport::parse(line) {
            Some(report) => batch.reports.push(report),
            None => batch.rejected.push(line.to_vec()),
        }
    }
    Ok(batch)
}

/// Removes a file that was taken in whole and that no process can append to.
fn remove_drained(path: &Path, ino: u64, state: &mut StateStore) -> Result<(), IntakeError> {
    // What was taken in must be on the disk before its source goes.
    state.checkpoint()?;
    sys::pause::pause_at("intake.remove");
    #[expect(clippy::disallowed_methods, reason = "everything in it is in the store, on the disk")]
    std::fs::remove_file(path)
        .map_err(|source| IntakeError::Io { path: path.to_owned(), source })?;
    state.forget_mark(ino)?;
    Ok(())
}

/// Reports that are in the spool and not in the store yet, in order. Nothing is changed.
pub fn read_waiting(
    home: &Path,
    state: Option<&StateStore>,
) -> Result<Vec<HookReport>, IntakeError> {
    let mut reports = Vec::new();
    for path in rotated_files(home).into_iter().chain([hook::spool_path(home)]) {
        let failed = |source| IntakeError::Io { path: path.clone(), source };
        let Some(mut file) = open_if_present(&path).map_err(failed)? else { continue };
        let ino = file.metadata().map_err(failed)?.ino();
        let known = state.map(|state| state.spool_mark(ino)).transpose()?.flatten();
        let mut mark = trusted_mark(known, ino, &mut file).map_err(failed)?;
        loop {
            let batch = read_batch(&mut file, &mark).map_err(failed)?;
            if batch.end == mark.offset {
                break;
            }
            mark = SpoolMark { ino, offset: batch.end, tail: batch.tail };
            reports.extend(batch.reports);
        }
    }
    Ok(reports)
}
