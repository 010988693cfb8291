//! Revocation: makes the agent forget its keys, ends it, writes down that it was stopped.
//!
//! A signal goes only to the very process that was recorded, start time and all, through a handle
//! that was checked after it was opened. Nothing is sent on a doubt, and nothing stronger than a
//! request without being told to.

use std::ffi::OsStr;
use std::time::{Duration, Instant};
use sys::dropped::NoteDropped;
use sys::machine::Machine;

use crate::rules::log::AccessEvent;
use crate::rules::meta::{ProcessRecord, StopRecord};
use crate::rules::presence::{AgentPresence, PresenceProof};
use crate::rules::state::AccessState;
use crate::rules::{COMMAND_BINDING, KEYS_SOCKET, LENT_SOCKET, STOP_FILE, is_id};
use crate::timeouts::{
    AGENT_END_TIMEOUT, AGENT_KILL_TIMEOUT, END_POLL_INTERVAL, KEEPER_END_TIMEOUT,
    SESSION_LOCK_TIMEOUT,
};
use model::liveness::Liveness;
use model::refusal::{Refusal, SkipCode};
use sys::proc::{Signal, SignalError};

use super::check::{CheckedAccess, check_entry};
use super::root::{AccessRoot, RootFault};
use super::{AccessError, client, log};
use model::address::AddressError;

/// Why a session is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Somebody asked for it.
    Asked,
    /// Its time is over.
    Expired,
    /// The session it was lent to is gone.
    Orphaned,
    /// The command it was opened for has ended.
    CommandEnded,
}

impl StopReason {
    /// The word in the log.
    pub const fn as_str(self) -> &'static str {
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
pub enum StopOutcome {
    /// It is stopped: what was found or done, in words.
    Stopped(String),
    /// It cannot be judged, so nothing was done.
    Refused(Refusal),
    /// Its agent cannot be proved to be the recorded one; nothing was sent.
    Unproven(String),
    /// It was asked to end and has not.
    StillRunning(String),
}

/// Which sessions are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSelection {
    /// Those whose time is over.
    Expired,
    /// Those that were lent to a session that is provably gone.
    Orphaned,
}

/// The ids of the sessions that `choice` means, and that are not stopped yet.
pub fn choose_sessions(machine: &Machine, choice: StopSelection) -> Result<Vec<String>, RootFault> {
    let Some(root) = AccessRoot::find(machine.home())? else { return Ok(Vec::new()) };
    let names = root.entry_names()?;
    let ids = names.iter().filter_map(|name| name.to_str()).filter(|name| is_id(name));
    let wanted = |id: &&str| {
        let Ok(checked) = check_entry(&root, OsStr::new(id), machine) else { return false };
        match choice {
            StopSelection::Expired => checked.judged.state == AccessState::Expired,
            StopSelection::Orphaned => {
                checked.judged.state != AccessState::Stopped && is_orphaned(&checked, machine)
            }
        }
    };
    Ok(ids.filter(wanted).map(str::to_owned).collect())
}

fn is_orphaned(checked: &CheckedAccess, machine: &Machine) -> bool {
    let binding = checked.meta.session.as_ref();
    binding.is_some_and(|binding| machine.probe_process(&binding.owner.to_identity()).is_dead())
}

/// Stops one session.
pub fn stop_access(
    machine: &Machine,
    id: &str,
    reason: StopReason,
    kill: bool,
) -> Result<StopOutcome, AccessError> {
    let not_found = || AddressError::NotFound(id.to_owned());
    let root = AccessRoot::find(machine.home())?.ok_or_else(not_found)?;
    let Some(_lock) = lock_soon(&root, id)? else {
        let skip = Refusal::skip(SkipCode::Locked, "another command works on it");
        return Ok(StopOutcome::Refused(skip));
    };
    let checked = match check_entry(&root, OsStr::new(id), machine) {
        Ok(checked) => checked,
        Err(skip) => return Ok(StopOutcome::Refused(skip)),
    };
    // A choice that was made before the lock is made again under it.
    if reason == StopReason::Orphaned && !is_orphaned(&checked, machine) {
        let words = "the session it was lent to is not proven gone";
        return Ok(StopOutcome::Unproven(words.to_owned()));
    }
    sys::pause::pause_at("access-stop-checked");
    let presence = checked.presence(machine, true);
    let found = match presence {
        AgentPresence::Absent(_) => {
            format!("its agent was already gone ({})", presence.reason_code())
        }
        AgentPresence::Present(PresenceProof::Process(_)) => {
            match end_agent(&checked, machine, kill) {
                Ok(done) => done,
                Err(outcome) => return Ok(outcome),
            }
        }
        AgentPresence::Present(PresenceProof::Socket) if keeper_lives(&checked, machine) => {
            match end_keeper(&checked, machine, kill) {
                Ok(done) => done,
                Err(outcome) => return Ok(outcome),
            }
        }
        AgentPresence::Present(_) | AgentPresence::Unknown(_) => {
            return Ok(StopOutcome::Unproven(format!(
                "its agent cannot be proved to be the recorded one ({}); nothing was sent",
                presence.reason_code()
            )));
        }
    };
    write_down(&root, &checked, machine, reason, &found)?;
    Ok(StopOutcome::Stopped(found))
}

/// Another command may be about to let go.
fn lock_soon(root: &AccessRoot, id: &str) -> Result<Option<sys::lock::AdvisoryLock>, AccessError> {
    let deadline = Instant::now() + SESSION_LOCK_TIMEOUT;
    loop {
        let lock = root
            .lock_session(id)
            .map_err(|error| AccessError::Failed { what: error.to_string() })?;
        if lock.is_some() || Instant::now() >= deadline {
            return Ok(lock);
        }
        std::thread::sleep(END_POLL_INTERVAL);
    }
}

/// Ends the recorded agent; the error is what to report instead.
fn end_agent(
    checked: &CheckedAccess,
    machine: &Machine,
    kill: bool,
) -> Result<String, StopOutcome> {
    let agent = &checked.meta.agent;
    if agent.start.is_none() || agent.uid != machine.observer().uid {
        let words = "its agent was recorded without what proves it ours; nothing was sent";
        return Err(StopOutcome::Unproven(words.to_owned()));
    }
    let forgot = forget_keys(checked);
    send_signal(agent, Signal::Terminate, machine)?;
    let mut ended =
        await_absence(checked, machine, if kill { AGENT_KILL_TIMEOUT } else { AGENT_END_TIMEOUT });
    if !ended && kill {
        send_signal(agent, Signal::Kill, machine)?;
        ended = await_absence(checked, machine, AGENT_END_TIMEOUT);
    }
    if !ended {
        return Err(StopOutcome::StillRunning(format!(
            "its agent (pid {}) has not ended after {} s",
            agent.pid,
            AGENT_END_TIMEOUT.as_secs()
        )));
    }
    let keys = if forgot { "its keys were removed and " } else { "" };
    Ok(format!("{keys}its agent (pid {}) ended", agent.pid))
}

/// Best effort: an agent that does not answer is ended all the same.
fn forget_keys(checked: &CheckedAccess) -> bool {
    let through = |name| {
        client::connect_agent(&checked.dir, name).ok_or_note("asking an agent to forget its keys")
    };
    let stream = through(KEYS_SOCKET).or_else(|| through(LENT_SOCKET));
    stream.is_some_and(|mut stream| client::forget_all(&mut stream).is_ok())
}

fn send_signal(
    process: &ProcessRecord,
    signal: Signal,
    machine: &Machine,
) -> Result<(), StopOutcome> {
    match sys::proc::signal_process(&process.to_identity(), signal, machine.observer()) {
        // It ended by itself: that is what was wanted.
        Ok(()) | Err(SignalError::NotAlive(Liveness::Dead(_))) => Ok(()),
        Err(error) => Err(StopOutcome::Unproven(error.to_string())),
    }
}

/// Waits until neither the agent nor anybody on its sockets is there. A keeper ends by itself when
/// its agent does; one that does not is asked to.
fn await_absence(checked: &CheckedAccess, machine: &Machine, patience: Duration) -> bool {
    let begun = Instant::now();
    let mut keeper_asked = false;
    loop {
        match checked.presence(machine, true) {
            AgentPresence::Absent(_) => return true,
            AgentPresence::Present(PresenceProof::Socket)
                if !keeper_asked && begun.elapsed() > KEEPER_END_TIMEOUT =>
            {
                keeper_asked = true;
                if let Some(keeper) = &checked.meta.keeper {
                    // What it says does not matter: the sockets are asked again.
                    if let Err(outcome) = send_signal(keeper, Signal::Terminate, machine) {
                        tracing::debug!(?outcome, "dropped: ending a keeper");
                    }
                }
            }
            _ => {}
        }
        if begun.elapsed() >= patience {
            return false;
        }
        std::thread::sleep(END_POLL_INTERVAL);
    }
}

fn keeper_lives(checked: &CheckedAccess, machine: &Machine) -> bool {
    let keeper = checked.meta.keeper.as_ref();
    keeper.is_some_and(|keeper| {
        keeper.start.is_some() && machine.probe_process(&keeper.to_identity()).is_alive()
    })
}

/// The agent is gone and its keeper is not: a keeper that hangs.
fn end_keeper(
    checked: &CheckedAccess,
    machine: &Machine,
    kill: bool,
) -> Result<String, StopOutcome> {
    let hangs = || StopOutcome::StillRunning("its keeper has not ended".to_owned());
    let keeper = checked.meta.keeper.as_ref().ok_or_else(hangs)?;
    send_signal(keeper, Signal::Terminate, machine)?;
    let mut ended =
        await_absence(checked, machine, if kill { AGENT_KILL_TIMEOUT } else { AGENT_END_TIMEOUT });
    if !ended && kill {
        send_signal(keeper, Signal::Kill, machine)?;
        ended = await_absence(checked, machine, AGENT_END_TIMEOUT);
    }
    if ended { Ok("its agent was gone; its keeper ended".to_owned()) } else { Err(hangs()) }
}

fn write_down(
    root: &AccessRoot,
    checked: &CheckedAccess,
    machine: &Machine,
    reason: StopReason,
    found: &str,
) -> Result<(), AccessError> {
    for name in [LENT_SOCKET, KEYS_SOCKET] {
        let name = OsStr::new(name);
        let facts = checked.dir.facts_of(name).ok().flatten();
        if facts.is_some_and(|facts| facts.kind == sys::private::InodeKind::Socket) {
            // A leftover of ours without a listener; if it stays, prune removes it.
            #[expect(
                clippy::disallowed_methods,
                reason = "a dead socket of a session that is over"
            )]
            let unlinked = checked.dir.unlink_name(name);
            unlinked.note_dropped("removing a dead socket");
        }
    }
    if checked.stop.is_some() {
        return Ok(());
    }
    let agent = &checked.meta.agent;
    // Seconds may have passed since the command began, and the record must not lie before them.
    let stopped_at = machine.now().max(checked.meta.created_at);
    let stop = StopRecord { stopped_at, pid: agent.pid, start: agent.start };
    let bytes = serde_json::to_vec_pretty(&stop)
        .map_err(|error| AccessError::Failed { what: error.to_string() })?;
    checked
        .dir
        .write_atomic(STOP_FILE, &bytes)
        .map_err(AccessError::io_error("write stop.json"))?;
    let for_command =
        checked.meta.session.as_ref().is_some_and(|bound| bound.agent == COMMAND_BINDING);
    let reason = match reason {
        StopReason::Orphaned if for_command => StopReason::CommandEnded,
        other => other,
    };
    let event =
        AccessEvent::Stopped { reason: reason.as_str().to_owned(), agent: found.to_owned() };
    // The session is stopped whether or not the log could be written.
    log::append_event(root, &checked.meta.id, event, machine.read_clock())
        .note_dropped("adding to the session's log");
    Ok(())
}
