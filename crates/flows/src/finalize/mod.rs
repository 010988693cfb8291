//! Finalize: ends a session whose owner is gone, and archives it.
//!
//! A sweep takes the spool in, asks of every open session whether its owner is there, ends those
//! whose owner is proven to be gone, and condenses what is over. Unknown is left alone: after
//! `stale_after` it is reported by doctor, never ended.

use std::path::Path;
use std::time::{Duration, Instant};

use model::plan::Refusal;
use model::rules::guard;
use model::rules::track::{EndReason, HookTrack};
use model::time::Time;
use model::wire::{SweepResult, SweptSession};
use store::state::{StateError, StateStore, TrackedSession};
use sys::dropped::NoteDropped;
use sys::machine::Machine;

use crate::launches;
use crate::timeouts::SESSION_LOCK_TIMEOUT;
use crate::tracks::intake::{self, IntakeError};
use crate::tracks::{open_now, session_name};
use crate::vault::VaultError;
use store::writer::StoreWriter;

mod condense;

pub use condense::{list_kept, summarize_session};

/// Why a sweep could not be finished. What it did until then stays done.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The spool could not be taken in.
    #[error(transparent)]
    Intake(#[from] IntakeError),
    /// The store said no.
    #[error(transparent)]
    State(#[from] StateError),
    /// A copy could not be kept.
    #[error(transparent)]
    Vault(#[from] VaultError),
}

/// What to sweep.
#[derive(Clone, Copy, Debug)]
pub struct SweepRequest<'a> {
    /// Where and when.
    pub machine: &'a Machine,
    /// Only these sessions (`agent:id`); empty means all.
    pub only: &'a [String],
    /// How long condensing may take. What is left over is resumed by the next sweep.
    pub budget: Duration,
}

/// What would be done with an open session.
enum TrackFinding {
    /// Its owner is proven to be gone.
    Gone,
    /// Its owner is there.
    Alive,
    /// Nothing can be said: why.
    Doubt(String),
}

fn examine_track(track: &HookTrack, machine: &Machine) -> TrackFinding {
    let Some(owner) = &track.owner else {
        return TrackFinding::Doubt("its owner is not known".to_owned());
    };
    let liveness = machine.probe_process(owner);
    match guard::may_finalize(liveness) {
        Ok(()) if track.owner_unconfirmed => TrackFinding::Doubt(
            "its owner is gone, and who began its last turn is not known".to_owned(),
        ),
        Ok(()) => TrackFinding::Gone,
        Err(Refusal::Alive { .. }) => TrackFinding::Alive,
        Err(_) => {
            TrackFinding::Doubt(format!("its owner cannot be seen: {}", liveness.reason_code()))
        }
    }
}

/// Looks only: what a sweep would do.
pub fn preview_sweep(request: &SweepRequest<'_>) -> Result<SweepResult, SweepError> {
    let machine = request.machine;
    let home = machine.home();
    let state = StateStore::open_read_only(home)?;
    let mut open = open_now(home, state.as_ref())?;
    open.retain(|tracked| is_wanted(request, tracked));
    let mut swept = SweepResult { dry_run: true, ..SweepResult::default() };
    for tracked in open {
        match examine_track(&tracked.track, machine) {
            TrackFinding::Gone => {
                let reason = EndReason::Exited.reason_text();
                let identity = identity_text(&tracked.track);
                swept.ended.push(SweptSession { identity, ..swept_session(&tracked, reason) });
            }
            TrackFinding::Alive => {}
            TrackFinding::Doubt(reason) => swept.kept.push(swept_session(&tracked, reason)),
        }
    }
    if let Some(state) = state {
        swept.pending = state.count_uncondensed()?;
    }
    swept.launches = launches::count_due(machine);
    Ok(swept)
}

/// The process that had a session, as a request names it.
fn identity_text(track: &HookTrack) -> Option<String> {
    let owner = track.owner.as_ref()?;
    Some(format!("{}:{}", owner.pid?, owner.start?))
}

/// Whether hooks have told anything, or agents were started: without that there is nothing to sweep, and no reason to
/// make a home.
pub fn is_anything_known(home: &Path) -> bool {
    let places = [
        store::state::database_path(home),
        crate::hook::spool_path(home),
        launches::launches_directory(home),
    ];
    places.iter().any(|place| place.exists())
}

/// Sessions that ended since, in a directory or below it if one is named, the newest first, at most so
/// many.
pub fn ended_since(
    home: &Path,
    since: Time,
    within: Option<&Path>,
    most: usize,
) -> Result<Vec<SweptSession>, SweepError> {
    let Some(state) = StateStore::open_read_only(home)? else { return Ok(Vec::new()) };
    let within = within.map(Path::to_string_lossy);
    let ended = state.ended_sessions(since, within.as_deref(), most)?;
    let told = |one: &TrackedSession| {
        let end = one.track.end.as_ref()?;
        let mut session = swept_session(one, end.reason.reason_text());
        session.at = Some(end.at);
        Some(session)
    };
    Ok(ended.iter().filter_map(told).collect())
}

/// Takes the spool in, ends what is over, condenses what has ended.
pub fn sweep_sessions(
    writer: &mut StoreWriter,
    request: &SweepRequest<'_>,
) -> Result<SweepResult, SweepError> {
    let (begun, machine) = (Instant::now(), request.machine);
    let mut swept = SweepResult::default();
    take_in(writer, machine, &mut swept)?;
    crate::permits::forget_dead_requests(machine);
    crate::groups::close_ended(writer.state_mut()?, machine)?;
    for tracked in writer.state()?.open_sessions()? {
        if !is_wanted(request, &tracked) {
            continue;
        }
        match examine_track(&tracked.track, machine) {
            TrackFinding::Alive => {}
            TrackFinding::Doubt(reason) => swept.kept.push(swept_session(&tracked, reason)),
            TrackFinding::Gone => {
                sys::pause::pause_at("sweep.listed");
                end_session(writer, machine, &tracked, &mut swept)?;
            }
        }
    }
    sys::pause::pause_at("sweep.ended");
    condense::condense_all(writer, request, begun, &mut swept)?;
    swept.pending = writer.state()?.count_uncondensed()?;
    // A trash that cannot be used is no reason to fail: what was ended is ended.
    swept.launches = launches::sweep_due(writer, machine).unwrap_or(0);
    Ok(swept)
}

fn take_in(
    writer: &mut StoreWriter,
    machine: &Machine,
    swept: &mut SweepResult,
) -> Result<(), IntakeError> {
    let drained = intake::drain_spool(machine, writer.state_mut()?)?;
    swept.reports += drained.reports;
    swept.rejected += drained.rejected;
    Ok(())
}

/// Ends one session, if it still is to be ended once its lock is held: a turn may have started
/// meanwhile, and its report be in the spool.
fn end_session(
    writer: &mut StoreWriter,
    machine: &Machine,
    tracked: &TrackedSession,
    swept: &mut SweepResult,
) -> Result<(), SweepError> {
    let Some(_lock) = lock_session(&writer.home, tracked) else {
        let reason = "its lock is held by somebody else".to_owned();
        swept.kept.push(swept_session(tracked, reason));
        return Ok(());
    };
    take_in(writer, machine, swept)?;
    let still = |track: &HookTrack| {
        track.is_open() && matches!(examine_track(track, machine), TrackFinding::Gone)
    };
    let evidence = tracked.track.transcript.as_deref().and_then(last_written);
    let ended = writer.state_mut()?.mark_exited(
        &tracked.agent,
        &tracked.id,
        evidence,
        machine.now(),
        still,
    )?;
    if let Some(end) = ended {
        let mut session = swept_session(tracked, end.reason.reason_text());
        session.at = Some(end.at);
        let name = session_name(&tracked.agent, &tracked.id);
        tracing::info!(session = name, reason = session.reason, "a session was ended");
        swept.ended.push(session);
    }
    Ok(())
}

/// When a transcript was last written to: the agent was there then, even if hooks told otherwise.
fn last_written(transcript: &str) -> Option<Time> {
    let modified = std::fs::symlink_metadata(transcript).ok()?.modified().ok()?;
    let since_epoch = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Time::from_millis(i64::try_from(since_epoch.as_millis()).ok()?))
}

/// The lock of a session. Sessions share a fixed number of files, so that none has to be removed.
fn lock_session(home: &Path, tracked: &TrackedSession) -> Option<sys::lock::AdvisoryLock> {
    let name = session_name(&tracked.agent, &tracked.id);
    let place = name.bytes().fold(0u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
    let directory = home.join("locks");
    sys::private::create_private_dir(&directory).ok_or_note("the directory of session locks")?;
    let path = directory.join(format!("session-{place:02x}.lock"));
    sys::lock::take_within(&path, SESSION_LOCK_TIMEOUT)
        .ok_or_note("the lock of a session")?
        .into_lock()
}

fn is_wanted(request: &SweepRequest<'_>, tracked: &TrackedSession) -> bool {
    let name = session_name(&tracked.agent, &tracked.id);
    request.only.is_empty() || request.only.contains(&name)
}

/// A session for the report of a sweep.
pub fn swept_session(tracked: &TrackedSession, reason: String) -> SweptSession {
    SweptSession {
        agent: tracked.agent.clone(),
        session: tracked.id.clone(),
        cwd: tracked.track.cwd.clone(),
        at: tracked.track.last_sign_at,
        reason,
        identity: None,
    }
}
