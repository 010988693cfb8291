//! The log of each session: append-only lines in `log/<id>.jsonl`. It outlives the session, so that
//! its end can be read there too, and goes only on request.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::rules::is_id;
use crate::rules::log::{AccessEvent, AccessLogEntry};
use model::plan::RemovableKind;
use model::time::Time;
use reaper::{CollectError, PlannedRemoval, Reaper, recheck_planned};
use serde::{Deserialize, Serialize};
use sys::dropped::NoteDropped;
use sys::private::{PrivateDir, PrivateFileFault};

use super::AccessError;
use super::check::id_in;
use super::root::{AccessRoot, RootFault};
use model::address::AddressError;

/// What is not a signature takes no more than this: a borrower that is refused a million times leaves
/// room for what matters.
const MOST_OTHER_BYTES: u64 = 4 * 1024 * 1024;
/// A log takes no more than this; a borrower that signs a million times fills no disk.
const MAX_LOG_BYTES: u64 = 32 * 1024 * 1024;

fn file_name(id: &str) -> String {
    format!("{id}.jsonl")
}

/// Adds one line. Lines are short and written at once, so those of two writers do not mix. A line that
/// finds no room is an error, except for a refusal, of which there are enough by then.
pub(crate) fn append_event(
    root: &AccessRoot,
    id: &str,
    event: AccessEvent,
    at: Time,
) -> io::Result<()> {
    let dir = root.make_beside("log").map_err(io::Error::other)?;
    let mut file = dir.append_to(&file_name(id))?;
    let length = file.metadata()?.len();
    let is_refusal = matches!(event, AccessEvent::Refused { .. });
    if is_refusal && length >= MOST_OTHER_BYTES {
        return Ok(());
    }
    let mut line = serde_json::to_vec(&AccessLogEntry { at, event })?;
    line.push(b'\n');
    if length + line.len() as u64 <= MAX_LOG_BYTES {
        return file.write_all(&line);
    }
    if length < MAX_LOG_BYTES {
        let mut full = serde_json::to_vec(&AccessLogEntry { at, event: AccessEvent::Full })?;
        let room = usize::try_from(MAX_LOG_BYTES - length).unwrap_or(full.len());
        full.resize(room.max(full.len()), b' ');
        full.push(b'\n');
        file.write_all(&full)?;
    }
    Err(io::Error::new(io::ErrorKind::StorageFull, "the log is full"))
}

/// A session's log.
#[derive(Debug, Default)]
pub struct AccessLog {
    pub id: String,
    /// Oldest first.
    pub entries: Vec<AccessLogEntry>,
    /// How many lines could not be understood.
    pub damaged: usize,
}

/// Reads the log of the session that `text` means, whether or not the session is still there.
pub fn read_log(home: &Path, text: &str) -> Result<AccessLog, AccessError> {
    let not_found = || AccessError::from(AddressError::NotFound(text.to_owned()));
    let root = AccessRoot::find(home)?.ok_or_else(not_found)?;
    let dir = root.existing_beside("log")?.ok_or_else(not_found)?;
    let names = dir.list_names().map_err(AccessError::io_error("list the logs"))?;
    let ids: Vec<&str> = names
        .iter()
        .filter_map(|name| name.to_str()?.strip_suffix(".jsonl"))
        .filter(|id| is_id(id) && !text.is_empty() && id.starts_with(text))
        .collect();
    let labelled;
    let id = match ids[..] {
        [] => {
            labelled = root.resolve_id(text)?;
            labelled.as_str()
        }
        [one] => one,
        _ if ids.contains(&text) => text,
        _ => {
            let candidates = ids.into_iter().map(str::to_owned).collect();
            return Err(AddressError::Ambiguous { text: text.to_owned(), candidates }.into());
        }
    };
    let bytes = read_whole(&dir, id)?;
    let mut log = AccessLog { id: id.to_owned(), ..AccessLog::default() };
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(entry) => log.entries.push(entry),
            Err(_) => log.damaged += 1,
        }
    }
    Ok(log)
}

/// A log that is of no use any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiredLog {
    /// The session that it was about.
    pub id: String,
    /// When its last line was written.
    pub last: Time,
    /// Whether it is gone, or would be; else why not.
    pub removed: Result<(), String>,
}

/// A log that may go, as it was found.
#[derive(Debug)]
pub(crate) struct FoundLog {
    id: String,
    last: Time,
    path: PathBuf,
}

impl FoundLog {
    pub(crate) fn into_view(self, removed: Result<(), String>) -> ExpiredLog {
        ExpiredLog { id: self.id, last: self.last, removed }
    }

    /// Moves it to the trash.
    pub(crate) fn trash_with(
        &self,
        reaper: &mut Reaper<'_>,
    ) -> Result<Result<(), String>, CollectError> {
        let why = format!("the session is gone; last line {}", self.last);
        let planned = PlannedRemoval::new(RemovableKind::AccessLog, &self.path, "ostler", why);
        let planned = match planned {
            Ok(planned) => planned,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let taken = match recheck_planned(&planned, |_| Ok(None)) {
            Ok(checked) => reaper.trash_item(&checked)?,
            Err(refusal) => Err(refusal),
        };
        Ok(taken.map_err(|refusal| refusal.reason_text()))
    }
}

/// The logs of sessions that are gone and without an entry after `before`. A log that cannot be read,
/// or that has no last line, is kept.
pub(crate) fn find_expired(root: &AccessRoot, before: Time) -> Result<Vec<FoundLog>, RootFault> {
    let Some(dir) = root.existing_beside("log")? else { return Ok(Vec::new()) };
    let sessions = root.entry_names()?;
    let mut expired = Vec::new();
    for name in dir.list_names().unwrap_or_default() {
        let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl")).filter(|id| is_id(id));
        let Some(id) = id else { continue };
        if sessions.iter().any(|session| id_in(session) == Some(id)) {
            continue;
        }
        let Some(last) = last_line(&dir, id).filter(|last| *last < before) else { continue };
        let path = root.log_path().join(file_name(id));
        expired.push(FoundLog { id: id.to_owned(), last, path });
    }
    expired.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(expired)
}

/// When the last line of a log was written, if all is as it should be with it.
fn last_line(dir: &PrivateDir, id: &str) -> Option<Time> {
    let (bytes, _) = dir
        .read_private(&file_name(id), 2 * MAX_LOG_BYTES)
        .ok_or_note("the log of an access session")?;
    let line = bytes.trim_ascii_end().rsplit(|byte| *byte == b'\n').next()?;
    serde_json::from_slice::<AccessLogEntry>(line).ok().map(|entry| entry.at)
}

/// A keeper may write between the two looks of a careful read; then it is read again.
fn read_whole(dir: &PrivateDir, id: &str) -> Result<Vec<u8>, AccessError> {
    let mut tries = 0;
    loop {
        match dir.read_private(&file_name(id), 2 * MAX_LOG_BYTES) {
            Ok((bytes, _)) => return Ok(bytes),
            Err(PrivateFileFault::Changed) if tries < 100 => tries += 1,
            Err(fault) => {
                let what = format!("the log of `{id}` {fault}");
                return Err(AccessError::Failed { what });
            }
        }
    }
}
