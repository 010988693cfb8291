//! Directories that are busy or locked. Busy is read: a live session works there. A lock is a row, and
//! follows its directory by inode.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use model::control::locks::{DirectoryId, DirectoryLock, LockChange, LockStanding, decide_lock};
use model::control::refusal::DriveRefusal;
use model::failure::{Failure, FailureKind};
use model::session::{SessionKind, SessionName};
use model::time::Time;
use model::wire::{LockKind, LockView, LocksResult};
use serde_json::json;
use store::state::{LockWrite, StateError, StateStore};
use store::writer::StoreWriter;
use sys::machine::Machine;

use crate::observe::{Observation, Observed};
use crate::repository::worktree_root;
use crate::writer::LockRequest;

/// What names the directory at a path.
pub fn identify_directory(path: &Path) -> io::Result<DirectoryId> {
    let about = std::fs::metadata(path)?;
    if !about.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let born = about.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let born_at = born.map(|since| Time::from_millis(0).plus(since));
    Ok(DirectoryId { device: about.dev(), inode: about.ino(), born_at })
}

/// The place that is busy while a session works in this directory: its worktree, else itself.
pub fn busy_place(directory: &Path) -> PathBuf {
    let real = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    worktree_root(&real).unwrap_or(real)
}

/// The sessions that are live, or may be, and work in the same worktree or directory. One in a directory above, or
/// in another worktree of the repository, does not.
pub fn sessions_in<'a>(observation: &'a Observation, directory: &Path) -> Vec<&'a Observed> {
    let place = busy_place(directory);
    let is_there = |one: &&Observed| {
        works_somewhere(one).is_some_and(|cwd| busy_place(Path::new(cwd)) == place)
    };
    observation.sessions.iter().filter(is_there).collect()
}

/// Everybody who may work in the same worktree or directory: sessions, and agents that have none yet.
pub fn name_occupants(
    observation: &Observation,
    directory: &Path,
    except: Option<&SessionName>,
) -> Vec<String> {
    let place = busy_place(directory);
    let sessions = sessions_in(observation, directory).into_iter();
    let sessions = sessions
        .map(|one| one.session.session_name())
        .filter(|name| Some(name) != except)
        .map(|name| name.to_string());
    let new = observation.unattached.iter().filter(|one| {
        let cwd = one.cwd.as_deref().map(Path::new);
        cwd.is_some_and(|cwd| busy_place(cwd) == place)
    });
    sessions.chain(new.map(|one| format!("{} (pid {})", one.agent, one.pid))).collect()
}

/// Where a session works that may be live.
fn works_somewhere(one: &Observed) -> Option<&str> {
    let is_wanted = one.session.kind == SessionKind::Native && one.verdict.status.is_active();
    one.session.digest.cwd.as_deref().filter(|_| is_wanted)
}

/// Everything that is busy or locked.
pub fn list_locks(observation: &Observation, machine: &Machine) -> Result<LocksResult, StateError> {
    let mut busy: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for one in &observation.sessions {
        if let Some(cwd) = works_somewhere(one) {
            let sessions = busy.entry(busy_place(Path::new(cwd))).or_default();
            sessions.push(one.session.session_name().to_string());
        }
    }
    let busy_view = |(path, sessions): (PathBuf, Vec<String>)| LockView {
        kind: LockKind::Busy,
        path: path.to_string_lossy().into_owned(),
        sessions,
        ..empty_view()
    };
    let mut locks: Vec<LockView> = busy.into_iter().map(busy_view).collect();
    let state = StateStore::open_read_only(machine.home())?;
    let rows = state.as_ref().map(StateStore::list_locks).transpose()?.unwrap_or_default();
    let standing = |lock: &DirectoryLock| judge_now(lock, machine);
    let views = rows.iter().map(|lock| (lock, standing(lock)));
    locks.extend(
        views
            .filter(|(_, standing)| *standing != LockStanding::Expired)
            .map(|(lock, standing)| lock_view(lock, standing)),
    );
    let incomplete = observation.incomplete.clone();
    Ok(LocksResult { locks, incomplete, ..LocksResult::default() })
}

/// The lock that keeps a launch out of a directory: its own, or that of one above it.
pub fn find_refusing_lock(
    machine: &Machine,
    directory: &Path,
) -> Result<Option<DirectoryLock>, StateError> {
    let Some(state) = StateStore::open_read_only(machine.home())? else { return Ok(None) };
    let locks = state.list_locks()?;
    if locks.is_empty() {
        return Ok(None);
    }
    let real = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let lineage: Vec<DirectoryId> =
        real.ancestors().filter_map(|place| identify_directory(place).ok()).collect();
    let refuses = |lock: &DirectoryLock| {
        lineage.iter().any(|place| place.is_same(&lock.directory))
            && judge_now(lock, machine) == LockStanding::Holds
    };
    Ok(locks.into_iter().find(refuses))
}

/// Refuses to start an agent in a directory that is locked. A store that cannot be read refuses nothing:
/// the caller says that it could not be asked.
pub fn refuse_locked(machine: &Machine, directory: &Path) -> Result<(), LockedError> {
    match find_refusing_lock(machine, directory)? {
        None => Ok(()),
        Some(lock) => Err(LockedError::Locked(DriveRefusal::DirectoryLocked {
            path: lock.path,
            by: lock.by,
            reason: lock.reason,
        })),
    }
}

/// Why an agent is not started in a directory.
#[derive(Debug, thiserror::Error)]
pub enum LockedError {
    /// It is locked.
    #[error(transparent)]
    Locked(DriveRefusal),
    /// Whether it is locked cannot be told.
    #[error(transparent)]
    State(#[from] StateError),
}

fn judge_now(lock: &DirectoryLock, machine: &Machine) -> LockStanding {
    let holder = lock.holder.as_ref().map(|holder| machine.probe_process(holder));
    lock.judge_lock(machine.now(), holder)
}

/// Locks a directory. The caller holds the writer lock.
pub(crate) fn perform_lock(
    writer: &mut StoreWriter,
    request: &LockRequest,
    machine: &Machine,
) -> Result<LocksResult, Failure> {
    let directory =
        identify_directory(&request.path).map_err(|error| no_directory(request, &error))?;
    let known = writer.state().and_then(|state| state.lock_of(&directory)).map_err(not_written)?;
    let judged = known.as_ref().map(|lock| (lock, judge_now(lock, machine)));
    let change = decide_lock(judged, &request.by, request.steal);
    let path = request.path.to_string_lossy().into_owned();
    if let (LockChange::Refuse, Some(lock)) = (change, &known) {
        return Err(refuse_other(lock, "lock"));
    }
    let lock = DirectoryLock {
        path: path.clone(),
        directory,
        by: request.by.clone(),
        reason: request.reason.clone(),
        taken_at: machine.now(),
        expires_at: request.ttl_ms.map(|ttl| machine.now().plus(Duration::from_millis(ttl))),
        holder: request.holder.clone(),
    };
    let stolen_from = known.filter(|_| change == LockChange::Steal).map(|lock| lock.by);
    let event = if stolen_from.is_some() { "lock.stolen" } else { "lock.taken" };
    let detail = json!({"cwd": path, "by": lock.by, "reason": lock.reason, "from": stolen_from});
    let write = LockWrite { lock: Some(&lock), directory, event: Some(event), detail };
    sys::pause::pause_at("lock.begun");
    writer
        .state_mut()
        .and_then(|state| state.write_lock(&write, machine.now()))
        .map_err(not_written)?;
    let locks = vec![lock_view(&lock, LockStanding::Holds)];
    Ok(LocksResult { locks, stolen_from, ..LocksResult::default() })
}

/// Takes a lock away. The caller holds the writer lock.
pub(crate) fn perform_unlock(
    writer: &mut StoreWriter,
    request: &LockRequest,
    machine: &Machine,
) -> Result<LocksResult, Failure> {
    let known = match identify_directory(&request.path) {
        Ok(directory) => writer.state().and_then(|state| state.lock_of(&directory)),
        // A directory that is gone is found by the name it had.
        Err(_) => writer
            .state()
            .and_then(StateStore::list_locks)
            .map(|locks| locks.into_iter().find(|lock| Path::new(&lock.path) == request.path)),
    };
    let Some(lock) = known.map_err(not_written)? else { return Ok(LocksResult::default()) };
    let standing = judge_now(&lock, machine);
    let change = decide_lock(Some((&lock, standing)), &request.by, request.steal);
    if change == LockChange::Refuse {
        return Err(refuse_other(&lock, "unlock"));
    }
    let stolen_from = (change == LockChange::Steal).then(|| lock.by.clone());
    let detail = json!({"cwd": lock.path, "by": request.by, "from": stolen_from});
    let write = LockWrite {
        lock: None,
        directory: lock.directory,
        event: stolen_from.as_ref().map(|_| "lock.stolen"),
        detail,
    };
    writer
        .state_mut()
        .and_then(|state| state.write_lock(&write, machine.now()))
        .map_err(not_written)?;
    let locks = vec![lock_view(&lock, standing)];
    Ok(LocksResult { locks, stolen_from, ..LocksResult::default() })
}

fn refuse_other(lock: &DirectoryLock, what: &str) -> Failure {
    let reason = lock.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    Failure {
        kind: FailureKind::Refused,
        message: format!("`{}` is locked by {}{reason}", lock.path, lock.by),
        hint: format!("ask them, or `ostler {what} --steal`, which leaves an event"),
    }
}

fn no_directory(request: &LockRequest, error: &io::Error) -> Failure {
    Failure {
        kind: FailureKind::Input,
        message: format!("`{}` cannot be locked: {error}", request.path.display()),
        hint: "name a directory that is there".to_owned(),
    }
}

fn not_written(error: StateError) -> Failure {
    Failure {
        kind: FailureKind::Write,
        message: format!("the lock was not changed: {error}"),
        hint: "`ostler doctor` tells what is wrong".to_owned(),
    }
}

fn empty_view() -> LockView {
    LockView {
        kind: LockKind::Manual,
        path: String::new(),
        moved: false,
        sessions: Vec::new(),
        by: None,
        reason: None,
        since: None,
        expires_at: None,
        holder_pid: None,
        stale: false,
    }
}

fn lock_view(lock: &DirectoryLock, standing: LockStanding) -> LockView {
    let there = identify_directory(Path::new(&lock.path));
    LockView {
        path: lock.path.clone(),
        moved: !there.is_ok_and(|there| there.is_same(&lock.directory)),
        by: Some(lock.by.clone()),
        reason: lock.reason.clone(),
        since: Some(lock.taken_at),
        expires_at: lock.expires_at,
        holder_pid: lock.holder.as_ref().and_then(|holder| holder.pid),
        stale: standing == LockStanding::Stale,
        ..empty_view()
    }
}
