//! Take an access back: make the agent forget its keys, end it, write down that it was stopped.
//!
//! A signal goes only to the very process that was recorded, start time and all, through a handle
//! that was checked after it was opened. Nothing is sent on a doubt, and nothing stronger than a
//! request without being told to.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::rules::log::Event;
use crate::rules::meta::{ProcessRecord, Stop};
use crate::rules::presence::{Presence, Proof};
use crate::rules::skip::{Skip, SkipCode};
use crate::rules::state::State;
use crate::rules::{COMMAND, KEYS_SOCKET, SOCKET, STOP, is_id};
use model::liveness::Liveness;
use sys::proc::{Signal, SignalError};

use super::check::{Checked, check};
use super::root::{Root, RootFault};
use super::{AccessError, World, client, log};
use model::address::AddressError;

/// How long an agent may take to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long before it is killed, when that was asked for.
const KILL_PATIENCE: Duration = Duration::from_secs(1);
/// How long a keeper may take to notice that its agent has ended.
const KEEPER_PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Why a session is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Somebody asked for it.
    Asked,
    /// Its time is over.
    Expired,
    /// The session it was lent to is gone.
    Orphaned,
    /// The command it was opened for has ended.
    CommandEnded,
}

impl Reason {
    /// The word in the log.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Expired => "expired",
            Self::Orphaned => "orphaned",
            Self::CommandEnded => "command-ended",
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is stopped: what was found or done, in words.
    Stopped(String),
    /// It cannot be judged, so nothing was done.
    Refused(Skip),
    /// Its agent cannot be proved to be the recorded one; nothing was sent.
    Unproven(String),
    /// It was asked to end and has not.
    StillRunning(String),
}

/// Which sessions are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Those whose time is over.
    Expired,
    /// Those that were lent to a session that is provably gone.
    Orphaned,
}

/// The ids of the sessions that `choice` means, and that are not stopped yet.
pub fn choose(home: &Path, world: &World<'_>, choice: Choice) -> Result<Vec<String>, RootFault> {
    let Some(root) = Root::find(home)? else { return Ok(Vec::new()) };
    let names = root.names()?;
    let ids = names.iter().filter_map(|name| name.to_str()).filter(|name| is_id(name));
    let wanted = |id: &&str| {
        let Ok(checked) = check(&root, OsStr::new(id), world) else { return false };
        match choice {
            Choice::Expired => checked.judged.state == State::Expired,
            Choice::Orphaned => {
                checked.judged.state != State::Stopped && is_orphaned(&checked, world)
            }
        }
    };
    Ok(ids.filter(wanted).map(str::to_owned).collect())
}

fn is_orphaned(checked: &Checked, world: &World<'_>) -> bool {
    let binding = checked.meta.session.as_ref();
    binding.is_some_and(|binding| world.liveness(&binding.owner.identity()).is_dead())
}

/// Stops one session.
pub fn stop(
    home: &Path,
    world: &World<'_>,
    id: &str,
    reason: Reason,
    kill: bool,
) -> Result<Outcome, AccessError> {
    let not_found = || AddressError::NotFound(id.to_owned());
    let root = Root::find(home)?.ok_or_else(not_found)?;
    let Some(_lock) = lock_soon(&root, id)? else {
        let skip = Skip::new(SkipCode::Locked, "another command works on it");
        return Ok(Outcome::Refused(skip));
    };
    let checked = match check(&root, OsStr::new(id), world) {
        Ok(checked) => checked,
        Err(skip) => return Ok(Outcome::Refused(skip)),
    };
    // A choice that was made before the lock is made again under it.
    if reason == Reason::Orphaned && !is_orphaned(&checked, world) {
        let words = "the session it was lent to is not proven gone";
        return Ok(Outcome::Unproven(words.to_owned()));
    }
    sys::pause::at("access-stop-checked");
    let presence = checked.presence(world, true);
    let found = match presence {
        Presence::Absent(_) => format!("its agent was already gone ({})", presence.reason()),
        Presence::Present(Proof::Process(_)) => match end(&checked, world, kill) {
            Ok(done) => done,
            Err(outcome) => return Ok(outcome),
        },
        Presence::Present(Proof::Socket) if keeper_lives(&checked, world) => {
            match end_keeper(&checked, world, kill) {
                Ok(done) => done,
                Err(outcome) => return Ok(outcome),
            }
        }
        Presence::Present(_) | Presence::Unknown(_) => {
            return Ok(Outcome::Unproven(format!(
                "its agent cannot be proved to be the recorded one ({}); nothing was sent",
                presence.reason()
            )));
        }
    };
    write_down(&root, &checked, world, reason, &found)?;
    Ok(Outcome::Stopped(found))
}

/// Another command may be about to let go.
fn lock_soon(root: &Root, id: &str) -> Result<Option<sys::lock::Lock>, AccessError> {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let lock =
            root.lock(id).map_err(|error| AccessError::Failed { what: error.to_string() })?;
        if lock.is_some() || Instant::now() >= deadline {
            return Ok(lock);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Ends the recorded agent; the error is what to report instead.
fn end(checked: &Checked, world: &World<'_>, kill: bool) -> Result<String, Outcome> {
    let agent = &checked.meta.agent;
    if agent.start.is_none() || agent.uid != world.observer.uid {
        let words = "its agent was recorded without what proves it ours; nothing was sent";
        return Err(Outcome::Unproven(words.to_owned()));
    }
    let forgot = forget_keys(checked);
    send(agent, Signal::Terminate, world)?;
    let mut ended = await_absence(checked, world, if kill { KILL_PATIENCE } else { PATIENCE });
    if !ended && kill {
        send(agent, Signal::Kill, world)?;
        ended = await_absence(checked, world, PATIENCE);
    }
    if !ended {
        return Err(Outcome::StillRunning(format!(
            "its agent (pid {}) has not ended after {} s",
            agent.pid,
            PATIENCE.as_secs()
        )));
    }
    let keys = if forgot { "its keys were removed and " } else { "" };
    Ok(format!("{keys}its agent (pid {}) ended", agent.pid))
}

/// Best effort: an agent that does not answer is ended all the same.
fn forget_keys(checked: &Checked) -> bool {
    let through = |name| client::connect(&checked.dir, name).ok();
    let stream = through(KEYS_SOCKET).or_else(|| through(SOCKET));
    stream.is_some_and(|mut stream| client::forget_all(&mut stream).is_ok())
}

fn send(process: &ProcessRecord, signal: Signal, world: &World<'_>) -> Result<(), Outcome> {
    match sys::proc::signal(&process.identity(), signal, &world.observer) {
        // It ended by itself: that is what was wanted.
        Ok(()) | Err(SignalError::NotAlive(Liveness::Dead(_))) => Ok(()),
        Err(error) => Err(Outcome::Unproven(error.to_string())),
    }
}

/// Waits until neither the agent nor anybody on its sockets is there. A keeper ends by itself when
/// its agent does; one that does not is asked to.
fn await_absence(checked: &Checked, world: &World<'_>, patience: Duration) -> bool {
    let begun = Instant::now();
    let mut keeper_asked = false;
    loop {
        match checked.presence(world, true) {
            Presence::Absent(_) => return true,
            Presence::Present(Proof::Socket)
                if !keeper_asked && begun.elapsed() > KEEPER_PATIENCE =>
            {
                keeper_asked = true;
                if let Some(keeper) = &checked.meta.keeper {
                    // What it says does not matter: the sockets are asked again.
                    let _ = send(keeper, Signal::Terminate, world);
                }
            }
            _ => {}
        }
        if begun.elapsed() >= patience {
            return false;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn keeper_lives(checked: &Checked, world: &World<'_>) -> bool {
    let keeper = checked.meta.keeper.as_ref();
    keeper.is_some_and(|keeper| {
        keeper.start.is_some() && world.liveness(&keeper.identity()).is_alive()
    })
}

/// The agent is gone and its keeper is not: a keeper that hangs.
fn end_keeper(checked: &Checked, world: &World<'_>, kill: bool) -> Result<String, Outcome> {
    let hangs = || Outcome::StillRunning("its keeper has not ended".to_owned());
    let keeper = checked.meta.keeper.as_ref().ok_or_else(hangs)?;
    send(keeper, Signal::Terminate, world)?;
    let mut ended = await_absence(checked, world, if kill { KILL_PATIENCE } else { PATIENCE });
    if !ended && kill {
        send(keeper, Signal::Kill, world)?;
        ended = await_absence(checked, world, PATIENCE);
    }
    if ended { Ok("its agent was gone; its keeper ended".to_owned()) } else { Err(hangs()) }
}

fn write_down(
    root: &Root,
    checked: &Checked,
    world: &World<'_>,
    reason: Reason,
    found: &str,
) -> Result<(), AccessError> {
    for name in [SOCKET, KEYS_SOCKET] {
        let name = OsStr::new(name);
        let facts = checked.dir.facts_of(name).ok().flatten();
        if facts.is_some_and(|facts| facts.kind == sys::private::Kind::Socket) {
            // A leftover of ours that nobody listens on; if it stays, prune removes it.
            let _ = checked.dir.unlink(name);
        }
    }
    if checked.stop.is_some() {
        return Ok(());
    }
    let agent = &checked.meta.agent;
    // Seconds may have passed since the command began, and the record must not lie before them.
    let stopped_at = world.clocks.now.max(checked.meta.created_at);
    let stop = Stop { stopped_at, pid: agent.pid, start: agent.start };
    let bytes = serde_json::to_vec_pretty(&stop)
        .map_err(|error| AccessError::Failed { what: error.to_string() })?;
    checked.dir.write(STOP, &bytes).map_err(AccessError::io("write stop.json"))?;
    let for_command = checked.meta.session.as_ref().is_some_and(|bound| bound.agent == COMMAND);
    let reason = match reason {
        Reason::Orphaned if for_command => Reason::CommandEnded,
        other => other,
    };
    let event = Event::Stopped { reason: reason.word().to_owned(), agent: found.to_owned() };
    // The session is stopped whether or not the log could be written.
    let _ = log::append(root, &checked.meta.id, event);
    Ok(())
}
