//! The terms of a start: whether its directory may be worked in, by whom else, and for how long.

use std::path::Path;
use std::time::Duration;

use model::control::fuses::{FuseAction, FuseRecord, FuseState, FuseTarget};
use model::control::refusal::DriveRefusal;
use model::session::SessionName;
use model::wire::IncompleteSource;
use sys::lock::{AdvisoryLock, LockAttempt};
use sys::machine::Machine;

use super::launch::{LaunchError, LaunchRequest, LaunchScene};
use crate::fuses::{due_after, read_fuse_clock};
use crate::locks::{LockedError, busy_place, name_occupants, refuse_locked};
use crate::observe::Observation;
use crate::terminal::sight::TERMINAL_AGENT;
use crate::work::carry_out_work;
use crate::writer::{FuseOrder, Transport, Work, WorkDone};

/// Refuses a locked directory. A store that cannot be read refuses nothing (fails open), and is told.
pub(super) fn check_locks(
    request: &LaunchRequest,
    machine: &Machine,
    cwd: &str,
) -> Result<Option<IncompleteSource>, DriveRefusal> {
    match refuse_locked(machine, Path::new(cwd)) {
        Ok(()) => Ok(None),
        Err(LockedError::Locked(_)) if request.over_lock => Ok(None),
        Err(LockedError::Locked(refusal)) => Err(refusal),
        Err(LockedError::State(error)) => Ok(Some(IncompleteSource {
            source: "locks".to_owned(),
            path: None,
            reason: format!("whether the directory is locked is not known: {error}"),
        })),
    }
}

/// Refuses a directory that another agent works in, if exclusive use is asked for.
pub(super) fn check_alone(
    request: &LaunchRequest,
    cwd: &str,
    observation: &Observation,
    own: Option<&SessionName>,
) -> Result<(), DriveRefusal> {
    if !request.exclusive {
        return Ok(());
    }
    let by = name_occupants(observation, Path::new(cwd), own);
    match by.is_empty() {
        true => Ok(()),
        false => Err(busy(cwd, by)),
    }
}

/// The turn of one who wants a directory alone, until its agent is there for all to see.
pub(super) fn hold_place(
    request: &LaunchRequest,
    cwd: &str,
    own: Option<&SessionName>,
    scene: &mut LaunchScene<'_>,
) -> Result<Option<AdvisoryLock>, LaunchError> {
    if !request.exclusive {
        return Ok(None);
    }
    let failed = |reason: String| LaunchError::Observe(reason);
    let directory = scene.terminals.machine.home().join("locks");
    sys::private::create_private_dir(&directory).map_err(|error| failed(error.to_string()))?;
    let place = busy_place(Path::new(cwd));
    let hash = sys::hash::sha256(place.as_os_str().as_encoded_bytes());
    let path = directory.join(format!("exclusive-{}.lock", &hash[..24]));
    let taken = sys::lock::try_take(&path).map_err(|error| failed(error.to_string()))?;
    let LockAttempt::Taken(lock) = taken else { return Err(busy(cwd, Vec::new()).into()) };
    sys::pause::pause_at("launch.alone");
    // Only under the lock: its holder before us may have started an agent (TOCTOU).
    let observation = (scene.observe)().map_err(LaunchError::Observe)?;
    check_alone(request, cwd, &observation, own)?;
    Ok(Some(lock))
}

fn busy(cwd: &str, by: Vec<String>) -> DriveRefusal {
    let path = busy_place(Path::new(cwd)).to_string_lossy().into_owned();
    DriveRefusal::DirectoryBusy { path, by }
}

/// What limits the time of a started agent.
pub(super) struct ArmedTtl {
    /// The fuse, if it could be set.
    pub(super) fuse: Option<String>,
    /// Why it will not fire, or is not there.
    pub(super) incomplete: Option<IncompleteSource>,
}

/// Sets a fuse that stops what runs in a terminal, with all it started.
pub(super) fn arm_ttl(
    machine: &Machine,
    terminal: &str,
    cwd: &str,
    ttl: Duration,
    started_by: &str,
) -> ArmedTtl {
    let untold =
        |reason: String| Some(IncompleteSource { source: "fuse".to_owned(), path: None, reason });
    let clock = read_fuse_clock(machine);
    let id = match sys::random::new_ulid() {
        Ok(id) => id,
        Err(error) => return ArmedTtl { fuse: None, incomplete: untold(error.to_string()) },
    };
    let fuse = FuseRecord {
        id: id.clone(),
        // Its terminal: that has one program from its beginning to its end.
        target: FuseTarget::Session {
            agent: TERMINAL_AGENT.to_owned(),
            id: terminal.to_owned(),
            process: None,
            cwd: Some(cwd.to_owned()),
        },
        due: due_after(ttl, &clock),
        action: FuseAction::Stop,
        late: FuseAction::Stop.usual_late_policy(),
        created_at: clock.wall,
        created_by: started_by.to_owned(),
        state: FuseState::Armed,
        fired_at: None,
        carrier: None,
        outcome: None,
    };
    let work = Work::Fuse(Box::new(FuseOrder::Set(Box::new(fuse))));
    match carry_out_work(&work, &machine.next_turn(), &mut |_, _| {}) {
        Ok((WorkDone::Fuses(_), Transport::Daemon)) => {
            ArmedTtl { fuse: Some(id), incomplete: None }
        }
        Ok((WorkDone::Fuses(_), _)) => {
            let why = "it is set, and nothing will fire: no daemon runs (`ostler daemon start`)";
            ArmedTtl { fuse: Some(id), incomplete: untold(why.to_owned()) }
        }
        Ok(_) => ArmedTtl { fuse: None, incomplete: untold("an unknown answer".to_owned()) },
        Err(error) => {
            let why = format!("its time is not limited: {error}");
            ArmedTtl { fuse: None, incomplete: untold(why) }
        }
    }
}
