//! Ends a session on request: by its host, or without one that is gone or, with `force`, hangs.

use std::time::Instant;
use sys::dropped::NoteDropped;

use host::client::ask_host;
use host::files::Durability;
use model::hosted::wire::{DestroyParams, DestroyResult};
use model::hosted::{FaultCode, HostFault};
use model::status::Status;
use sys::machine::Machine;
use sys::proc::Signal;

use super::{HostedSession, cannot_write};
use crate::timeouts::{
    FOREIGN_END_INTERVAL, HOST_DESTROY_TIMEOUT, HOST_END_INTERVAL, TREE_KILL_TIMEOUT,
};

/// Ends the session: its program is hung up, terminated, killed, each a moment after the other; with
/// `force` killed at once.
pub fn destroy_terminal(session: HostedSession, force: bool) -> Result<DestroyResult, HostFault> {
    let done = |id: &str| Ok(DestroyResult { session_id: id.to_owned(), destroyed: true });
    let session = session.reconcile()?;
    let status = session.status();
    if status.is_destroyed() {
        let message = format!("session `{}` is already destroyed", session.id);
        let fault = HostFault::new(FaultCode::SessionAlreadyDestroyed, message);
        return Err(fault.with("sessionId", &*session.id).with("status", status.as_str()));
    }
    if status.is_terminal() {
        mark_destroyed(&session)?;
        return done(&session.id);
    }
    let params = DestroyParams { force, wait: true };
    let answer = ask_host(session.host(), &params, Some(HOST_DESTROY_TIMEOUT));
    let fault = match answer {
        Ok(_) if session.holder.is_none() => return await_foreign_end(&session),
        Ok(answer) => return Ok(answer),
        Err(fault) => fault,
    };
    // The host exited during the request, or does not answer at all.
    let session = session.reread_manifest().unwrap_or(session);
    if session.status().is_destroyed() {
        return done(&session.id);
    }
    if !force && fault.code == FaultCode::HostTimeout {
        return Err(fault);
    }
    kill_host(&session)?;
    let session = session.reread_manifest().unwrap_or(session).reconcile()?;
    if session.status().is_active() {
        return Err(fault);
    }
    mark_destroyed(&session)?;
    done(&session.id)
}

/// A host of agent-tty's answers before its program has ended, and does not insist.
fn await_foreign_end(session: &HostedSession) -> Result<DestroyResult, HostFault> {
    let until = Instant::now() + HOST_DESTROY_TIMEOUT;
    while Instant::now() < until {
        if session.reread_manifest().is_some_and(|now| now.status().is_terminal()) {
            return Ok(DestroyResult { session_id: session.id.clone(), destroyed: true });
        }
        std::thread::sleep(FOREIGN_END_INTERVAL);
    }
    let message = format!(
        "the program of session `{}` does not end; its host, which agent-tty made, only hangs up: \
         `signal {0} SIGKILL` ends it",
        session.id
    );
    Err(HostFault::new(FaultCode::HostTimeout, message))
}

fn mark_destroyed(session: &HostedSession) -> Result<(), HostFault> {
    let mut manifest = session.manifest.clone();
    manifest.status = Status::Destroyed;
    manifest.updated_at = session.machine.read_clock();
    session
        .files
        .write_manifest(&manifest, Durability::Disk)
        .map_err(|error| cannot_write(&session.directory, &error))
}

/// What descends from a process that is proven to be the recorded one: anything else has none.
pub(super) fn descendants(
    of: &model::identity::Identity,
    machine: &Machine,
) -> sys::tree::ProcessTree {
    if !machine.probe_process(of).is_alive() {
        return sys::tree::ProcessTree::default();
    }
    let (table, observer) = (sys::proc::read_process_table(), machine.observer());
    sys::tree::ProcessTree::gather(&table, of, observer, |row| host::server::is_apart(&table, row))
}

/// Kills a host that does not answer and its program, both by identity, and waits for them to go.
fn kill_host(session: &HostedSession) -> Result<(), HostFault> {
    let observer = session.machine.observer();
    let Some(holder) = &session.holder else {
        let message = format!("session `{}` was made by another program", session.id);
        return Err(HostFault::new(FaultCode::HostUnreachable, message));
    };
    let processes: Vec<_> = holder.child.iter().chain([&holder.host]).collect();
    let tree = descendants(&holder.host, &session.machine);
    for process in &processes {
        sys::proc::signal_process(process, Signal::Kill, observer)
            .note_dropped("killing a process");
    }
    let missed = tree.signal(Signal::Kill, observer, |_| true);
    let until = Instant::now() + TREE_KILL_TIMEOUT;
    while processes.iter().any(|process| session.machine.probe_process(process).is_alive()) {
        if Instant::now() > until {
            let message = format!("the processes of session `{}` do not end", session.id);
            return Err(HostFault::new(FaultCode::HostTimeout, message));
        }
        std::thread::sleep(HOST_END_INTERVAL);
    }
    if missed.is_empty() {
        return Ok(());
    }
    let missed: Vec<String> = missed.iter().map(ToString::to_string).collect();
    let message =
        format!("session `{}` left what could not be ended: {}", session.id, missed.join("; "));
    Err(HostFault::new(FaultCode::HostTimeout, message))
}
