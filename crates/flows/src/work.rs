//! Order execution as the single writer: the same code whether the daemon runs it or the command itself.

use std::time::{Duration, Instant};

use access::prune::prune_access;
use model::failure::Failure;
use model::wire::SweepResult;
use sys::machine::Machine;

use crate::control_notes::perform_note;
use crate::finalize::{self, SweepError};
use crate::fuses;
use crate::gc;
use crate::groups;
use crate::locks;
use crate::pages;
use crate::permits;
use crate::pins;
use crate::terminal::{self, TerminalHome};
use crate::timeouts::{ASK_AGAIN_INTERVAL, WRITER_TIMEOUT};
use crate::webhooks;
use crate::writer::{
    AskLimits, DaemonAnswer, DaemonCallError, DaemonOrder, Transport, Work, WorkDone, ask,
};
use openclaw::agents;
use openclaw::store as openclaw_store;
use reaper::WhenTaken;
use store::writer::StoreWriter;

/// Does it. The caller holds the writer lock.
pub(crate) fn perform_work(
    writer: &mut StoreWriter,
    work: &Work,
    machine: &Machine,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<WorkDone, Failure> {
    let_go_of_locks(machine);
    Ok(match work {
        Work::Gc { ask, consent } => {
            WorkDone::Gc(gc::carry_out_gc(writer, ask, consent, machine, progress)?)
        }
        Work::Undo { receipt, beside } => {
            let when_taken = if *beside { WhenTaken::Beside } else { WhenTaken::Refuse };
            WorkDone::Undo(reaper::undo_receipt(writer, receipt.as_deref(), when_taken, machine)?)
        }
        Work::EmptyTrash { older_than_ms } => WorkDone::EmptyTrash(reaper::empty_trash(
            writer,
            Duration::from_millis(*older_than_ms),
            machine,
        )?),
        Work::StoreCleanup(ask) => WorkDone::StoreCleanup(Box::new(
            openclaw_store::perform_cleanup(writer, ask, machine, progress)?,
        )),
        Work::StoreRebuild(ask) => {
            WorkDone::StoreRebuild(Box::new(openclaw_store::perform_rebuild(writer, ask, machine)?))
        }
        Work::RemoveTerminals { root, ids, command } => {
            let home = TerminalHome::at_root(root, machine);
            WorkDone::RemoveTerminals(terminal::remove::remove_terminals(
                writer, &home, ids, command,
            )?)
        }
        Work::DeleteAgent { ask } => {
            WorkDone::DeleteAgent(Box::new(agents::delete_agent(writer, ask, machine)?))
        }
        Work::PruneAccess { logs_before } => {
            WorkDone::PruneAccess(Box::new(prune_access(writer, machine, *logs_before)?))
        }
        Work::TrashSettings { path, content_hash } => WorkDone::TrashSettings(
            crate::hooks::trash_settings(writer, path, content_hash, machine)?.err(),
        ),
        Work::Pin { sessions, note, remove } => WorkDone::Pin(pins::perform_pin(
            writer,
            sessions,
            note.as_deref(),
            *remove,
            machine.now(),
        )?),
        Work::Lock(request) => WorkDone::Locks(locks::perform_lock(writer, request, machine)?),
        Work::Unlock(request) => WorkDone::Locks(locks::perform_unlock(writer, request, machine)?),
        Work::NotePermit(note) => {
            permits::note_answer(writer, note, machine.now())?;
            WorkDone::Noted
        }
        Work::Fuse(order) => {
            WorkDone::Fuses(fuses::perform_fuse_order(writer, order, machine.now())?)
        }
        Work::Group(order) => {
            WorkDone::Members(groups::perform_group_order(writer, order, machine)?)
        }
        Work::NoteControl(note) => {
            let earlier = perform_note(writer, note, machine.now())?;
            WorkDone::NoteControl(earlier.map(Box::new))
        }
        Work::Webhook { what } => {
            WorkDone::Webhook(webhooks::perform_webhook_change(writer, what, machine.now())?)
        }
        Work::Page(order) => {
            pages::perform_page_order(writer, order, machine.now())?;
            WorkDone::Noted
        }
    })
}

/// Lets go of OpenClaw's locks that a killed run held beside what it was at: no other process would.
fn let_go_of_locks(machine: &Machine) {
    let directories = reaper::interrupted_directories(machine.home());
    directories.iter().for_each(|place| openclaw::locks::let_go_in(place, machine));
}

/// Has it done: by the daemon if there is one, else here, as the writer.
///
/// Only a daemon that never took the order is replaced by doing it here, and the lock says whether that
/// may be. One that took it and then did not answer may have done it, and its answer is not known.
pub fn carry_out_work(
    work: &Work,
    machine: &Machine,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(WorkDone, Transport), OrderError> {
    let patience = WorkPatience { limits: AskLimits::LONG, writer: WRITER_TIMEOUT };
    carry_out_within(work, machine, patience, progress)
}

/// How long something may take before it is left undone.
#[derive(Clone, Copy, Debug)]
pub struct WorkPatience {
    /// For the daemon.
    pub limits: AskLimits,
    /// For another writer.
    pub writer: Duration,
}

/// As [`carry_out_work`], for what must not keep anybody waiting.
pub fn carry_out_within(
    work: &Work,
    machine: &Machine,
    patience: WorkPatience,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(WorkDone, Transport), OrderError> {
    sys::pause::pause_at("work.asked");
    let order = DaemonOrder::Work(Box::new(work.clone()));
    match ask_or_become_writer(&order, machine, patience)? {
        Asked::Daemon(DaemonAnswer::Done(done)) => Ok((*done, Transport::Daemon)),
        Asked::Daemon(answer) => Err(undone(answer)),
        Asked::Writer(mut writer) => {
            tracing::debug!(work = work.name(), "no daemon: done here");
            let done = perform_work(&mut writer, work, machine, progress);
            Ok((done.map_err(OrderError::NotDone)?, Transport::Local))
        }
    }
}

/// Who does what is ordered.
enum Asked {
    /// The daemon has answered.
    Daemon(DaemonAnswer),
    /// There is none, and this process has the right to write.
    Writer(Box<StoreWriter>),
}

/// Asks the daemon, else becomes the writer. A daemon that begins meanwhile takes the lock for good before it
/// listens, so a waiter for the lock asks again: nothing was sent so far.
fn ask_or_become_writer(
    order: &DaemonOrder,
    machine: &Machine,
    patience: WorkPatience,
) -> Result<Asked, OrderError> {
    let until = Instant::now() + patience.writer;
    loop {
        match ask(machine, order, patience.limits) {
            Ok(answer) => return Ok(Asked::Daemon(answer)),
            Err(DaemonCallError::NotRunning) => {}
            Err(error) => return Err(error.into()),
        }
        sys::pause::pause_at("work.no-daemon");
        let left = until.saturating_duration_since(Instant::now());
        match store::writer::become_writer(machine.home(), left.min(ASK_AGAIN_INTERVAL)) {
            Ok(writer) => return Ok(Asked::Writer(Box::new(writer))),
            Err(error) if error.holder().is_some() && Instant::now() < until => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// An answer of the daemon's that is not what was asked for.
fn undone(answer: DaemonAnswer) -> OrderError {
    match answer {
        DaemonAnswer::NotDone(failure) => OrderError::NotDone(failure),
        DaemonAnswer::Failed { reason } => OrderError::Failed(reason),
        _ => OrderError::Call(DaemonCallError::MayHaveApplied("an unknown answer".to_owned())),
    }
}

/// Sweeps: through the daemon if there is one, else as the writer.
///
/// Only a daemon that never took the order is replaced by doing it here, and the lock says whether that
/// may be. One that took it and then did not answer may have done it, and its answer is not known.
pub fn sweep_as_writer(
    request: &finalize::SweepRequest<'_>,
    limits: AskLimits,
) -> Result<SweepResult, OrderError> {
    let machine = request.machine;
    let order = DaemonOrder::Sweep { only: request.only.to_vec() };
    let patience = WorkPatience { limits, writer: WRITER_TIMEOUT };
    match ask_or_become_writer(&order, machine, patience)? {
        Asked::Daemon(DaemonAnswer::Swept(swept)) => Ok(swept),
        Asked::Daemon(answer) => Err(undone(answer)),
        Asked::Writer(mut writer) => Ok(finalize::sweep_sessions(&mut writer, request)?),
    }
}

/// Why an order was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The daemon could not be asked, or did not answer.
    #[error(transparent)]
    Call(#[from] DaemonCallError),
    /// The daemon tried and could not.
    #[error("the daemon could not do it: {0}")]
    Failed(String),
    /// It could not be done, by the process that tried.
    #[error(transparent)]
    NotDone(Failure),
    /// No daemon could be asked, and this process may not write.
    #[error(transparent)]
    Writer(#[from] store::writer::WriterError),
    /// It was tried here and failed.
    #[error(transparent)]
    Sweep(#[from] SweepError),
}
