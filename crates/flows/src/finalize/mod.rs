//! Finalize: end a session whose owner is gone, and boil it down.
//!
//! A sweep takes the spool in, asks of every open session whether its owner is there, ends those
//! whose owner is proven to be gone, and condenses what is over. Unknown is left alone: after
//! `stale_after` it is reported by doctor, never ended.

use std::path::Path;
use std::time::{Duration, Instant};

use adapters::Env;
use model::liveness::Observer;
use model::rules::guard;
use model::rules::track::{EndReason, Track};
use model::time::Time;
use model::wire::{Swept, SweptSession};
use store::state::{State, StateError, Tracked};

use crate::intake::{self, IntakeError};
use crate::launches;
use crate::vault::VaultError;
use store::writer::Writer;

mod condense;

pub use condense::{kept, summarize};

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
pub struct Request<'a> {
    /// The environment that says where agents keep things.
    pub env: Env<'a>,
    /// The time.
    pub now: Time,
    /// Only these sessions (`agent:id`); empty means all.
    pub only: &'a [String],
    /// How long condensing may take. What is left over is resumed by the next sweep.
    pub budget: Duration,
}

/// How long a session's lock is waited for.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);

/// The name of a session in messages and on the command line.
pub fn name(agent: &str, id: &str) -> String {
    format!("{agent}:{id}")
}

/// What would be done with an open session.
enum Finding {
    /// Its owner is proven to be gone.
    Gone,
    /// Its owner is there.
    Alive,
    /// Nothing can be said: why.
    Doubt(String),
}

fn examine(track: &Track, observer: &Observer) -> Finding {
    let Some(owner) = &track.owner else {
        return Finding::Doubt("its owner is not known".to_owned());
    };
    let liveness = sys::proc::probe(owner, observer);
    match guard::may_finalize(liveness) {
        Ok(()) if track.owner_unconfirmed => {
            Finding::Doubt("its owner is gone, and who began its last turn is not known".to_owned())
        }
        Ok(()) => Finding::Gone,
        Err(guard::Refusal::Alive) => Finding::Alive,
        Err(_) => Finding::Doubt(format!("its owner cannot be seen: {}", liveness.reason())),
    }
}

/// Looks only: what a sweep would do.
pub fn preview(home: &Path, request: &Request<'_>) -> Result<Swept, SweepError> {
    let state = State::read(home)?;
    let mut open = open_now(home, state.as_ref())?;
    open.retain(|tracked| is_wanted(request, tracked));
    let observer = sys::proc::observer();
    let mut swept = Swept { dry_run: true, ..Swept::default() };
    for tracked in open {
        match examine(&tracked.track, &observer) {
            Finding::Gone => {
                let reason = EndReason::Exited.words();
                swept.ended.push(swept_session(&tracked, reason));
            }
            Finding::Alive => {}
            Finding::Doubt(reason) => swept.kept.push(swept_session(&tracked, reason)),
        }
    }
    if let Some(state) = state {
        swept.pending = state.uncondensed()?;
    }
    swept.launches = launches::count_due(home, request.now);
    Ok(swept)
}

/// Open sessions as they are now: what the store holds and what waits in the spool.
pub fn open_now(home: &Path, state: Option<&State>) -> Result<Vec<Tracked>, SweepError> {
    let mut tracked = told_now(home, state)?;
    tracked.retain(|one| one.track.is_open());
    Ok(tracked)
}

/// Open sessions, and those that the spool tells the end of.
pub(crate) fn told_now(home: &Path, state: Option<&State>) -> Result<Vec<Tracked>, SweepError> {
    let mut tracked = state.map(State::open_sessions).transpose()?.unwrap_or_default();
    for report in intake::waiting(home, state)? {
        let told = (report.agent.as_str(), report.hook.session.as_str());
        let known = tracked.iter_mut().find(|one| (one.agent.as_str(), one.id.as_str()) == told);
        match known {
            Some(known) => {
                known.track.apply(&report);
            }
            None => {
                let stored = state.map(|state| state.track(told.0, told.1)).transpose()?.flatten();
                let mut track = stored.unwrap_or_default();
                track.apply(&report);
                tracked.push(Tracked { agent: told.0.into(), id: told.1.into(), track });
            }
        }
    }
    Ok(tracked)
}

/// Whether hooks have told anything, or agents were started: without that there is nothing to sweep, and no reason to
/// make a home.
pub fn is_anything_known(home: &Path) -> bool {
    let places = [store::state::path(home), crate::hook::spool(home), launches::directory(home)];
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
    let Some(state) = State::read(home)? else { return Ok(Vec::new()) };
    let within = within.map(Path::to_string_lossy);
    let ended = state.ended_sessions(since, within.as_deref(), most)?;
    let told = |one: &Tracked| {
        let end = one.track.end.as_ref()?;
        let mut session = swept_session(one, end.reason.words());
        session.at = Some(end.at);
        Some(session)
    };
    Ok(ended.iter().filter_map(told).collect())
}

/// The names of the open sessions of a home.
pub fn open_in(home: &Path) -> Result<Vec<String>, SweepError> {
    let state = State::read(home)?;
    let open = open_now(home, state.as_ref())?;
    Ok(open.iter().map(|one| name(&one.agent, &one.id)).collect())
}

/// Takes the spool in, ends what is over, condenses what has ended.
pub fn sweep(writer: &mut Writer, request: &Request<'_>) -> Result<Swept, SweepError> {
    let begun = Instant::now();
    let mut swept = Swept::default();
    take_in(writer, &mut swept)?;
    let observer = sys::proc::observer();
    for tracked in writer.state()?.open_sessions()? {
        if !is_wanted(request, &tracked) {
            continue;
        }
        match examine(&tracked.track, &observer) {
            Finding::Alive => {}
            Finding::Doubt(reason) => swept.kept.push(swept_session(&tracked, reason)),
            Finding::Gone => {
                sys::pause::at("sweep.listed");
                end(writer, request, &tracked, &observer, &mut swept)?;
            }
        }
    }
    sys::pause::at("sweep.ended");
    condense::all(writer, request, begun, &mut swept)?;
    swept.pending = writer.state()?.uncondensed()?;
    // A trash that cannot be used is no reason to fail: what was ended is ended.
    swept.launches = launches::sweep(writer, request.now).unwrap_or(0);
    Ok(swept)
}

fn take_in(writer: &mut Writer, swept: &mut Swept) -> Result<(), IntakeError> {
    let drained = intake::drain(&writer.home.clone(), writer.state_mut()?)?;
    swept.reports += drained.reports;
    swept.rejected += drained.rejected;
    Ok(())
}

/// Ends one session, if it still is to be ended once its lock is held: a turn may have started
/// meanwhile, and its report be in the spool.
fn end(
    writer: &mut Writer,
    request: &Request<'_>,
    tracked: &Tracked,
    observer: &Observer,
    swept: &mut Swept,
) -> Result<(), SweepError> {
    let Some(_lock) = lock(&writer.home, tracked) else {
        let reason = "its lock is held by somebody else".to_owned();
        swept.kept.push(swept_session(tracked, reason));
        return Ok(());
    };
    take_in(writer, swept)?;
    let still =
        |track: &Track| track.is_open() && matches!(examine(track, observer), Finding::Gone);
    let evidence = tracked.track.transcript.as_deref().and_then(last_written);
    let ended =
        writer.state_mut()?.exit(&tracked.agent, &tracked.id, evidence, request.now, still)?;
    if let Some(end) = ended {
        let mut session = swept_session(tracked, end.reason.words());
        session.at = Some(end.at);
        swept.ended.push(session);
    }
    Ok(())
}

/// When a transcript was last written to: the agent was there then, whatever hooks told.
fn last_written(transcript: &str) -> Option<Time> {
    let modified = std::fs::symlink_metadata(transcript).ok()?.modified().ok()?;
    let since_epoch = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Time::from_millis(i64::try_from(since_epoch.as_millis()).ok()?))
}

/// The lock of a session. Sessions share a fixed number of files, so that none has to be removed.
fn lock(home: &Path, tracked: &Tracked) -> Option<sys::lock::Lock> {
    let name = name(&tracked.agent, &tracked.id);
    let place = name.bytes().fold(0u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
    let directory = home.join("locks");
    sys::private::create_private_dir(&directory).ok()?;
    let path = directory.join(format!("session-{place:02x}.lock"));
    sys::lock::take_within(&path, LOCK_PATIENCE).ok()?.taken()
}

fn is_wanted(request: &Request<'_>, tracked: &Tracked) -> bool {
    let name = name(&tracked.agent, &tracked.id);
    request.only.is_empty() || request.only.contains(&name)
}

/// A session for the report of a sweep.
pub fn swept_session(tracked: &Tracked, reason: String) -> SweptSession {
    SweptSession {
        agent: tracked.agent.clone(),
        session: tracked.id.clone(),
        cwd: tracked.track.cwd.clone(),
        at: tracked.track.last_sign_at,
        reason,
    }
}
