//! Everything that changes ostler's state and can be asked of its writer: one list, carried out by the
//! same code whether the daemon does it or the command itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use access::AccessWorld;
use access::prune::{PruneReport, prune_access};
use model::failure::Failure;
use model::plan::Refusal;
use model::session::SessionName;
use model::time::Time;
use model::wire::{AgentDeleteResult, GcResult, PinResult, TrashEmptied, UndoResult};
use openclaw::wire::{StoreCleanupResult, StoreRebuildResult};
use serde::{Deserialize, Serialize};

use crate::daemon::{AskLimits, DaemonAnswer, DaemonCallError, DaemonOrder, OrderError, ask};
use crate::gc::{self, GcConsent, GcRequest};
use crate::pins;
use crate::terminal::{self, TerminalHome};
use openclaw::agents;
use openclaw::store as openclaw_store;
use reaper::WhenTaken;
use store::writer::StoreWriter;

/// How long another writer is waited for.
const WRITER_TIMEOUT: Duration = Duration::from_secs(5);

/// Something to be done by the writer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "work")]
pub enum Work {
    /// Collect what may go.
    Gc {
        /// What is asked for.
        ask: Box<GcRequest>,
        /// What was shown, and consented to.
        consent: GcConsent,
    },
    /// Undo a run of the reaper.
    Undo {
        /// Which; none means the last one that can be undone.
        receipt: Option<String>,
        /// Whether what has another thing in its place is put beside that.
        #[serde(default)]
        beside: bool,
    },
    /// Empty the trash.
    #[serde(rename_all = "camelCase")]
    EmptyTrash {
        /// Of what was trashed longer ago.
        older_than_ms: u64,
    },
    /// Clean up a store of OpenClaw's.
    StoreCleanup(Box<openclaw_store::SessionStoreRequest>),
    /// Write a new index for one.
    StoreRebuild(Box<openclaw_store::SessionStoreRequest>),
    /// Remove hosted sessions that are over.
    RemoveTerminals {
        /// The directory that holds `sessions/`.
        root: PathBuf,
        /// Which.
        ids: Vec<String>,
        /// The command they are removed by.
        command: String,
    },
    /// Delete one of OpenClaw's agents.
    DeleteAgent {
        /// Which.
        ask: agents::AgentDeleteRequest,
    },
    /// Remove access sessions that are provably finished.
    #[serde(rename_all = "camelCase")]
    PruneAccess {
        /// Also the logs whose last line is from before.
        logs_before: Option<Time>,
    },
    /// Move a settings file to the trash that ostler alone has written.
    #[serde(rename_all = "camelCase")]
    TrashSettings {
        /// Which.
        path: PathBuf,
        /// What its content must be.
        content_hash: String,
    },
    /// Pin sessions, or take their pins away.
    Pin {
        /// Which.
        sessions: Vec<SessionName>,
        /// Why, in the words of whoever pins them.
        note: Option<String>,
        /// Whether the pins are taken away.
        remove: bool,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "done", content = "result")]
pub enum WorkDone {
    /// What was collected.
    Gc(GcResult),
    /// What was undone.
    Undo(UndoResult),
    /// What was emptied.
    EmptyTrash(TrashEmptied),
    /// What went from stores.
    StoreCleanup(Box<StoreCleanupResult>),
    /// What a new index holds.
    StoreRebuild(Box<StoreRebuildResult>),
    /// What became of each session.
    RemoveTerminals(Vec<terminal::remove::RemovedTerminal>),
    /// What became of the agent.
    DeleteAgent(Box<AgentDeleteResult>),
    /// What became of each access session.
    PruneAccess(Box<PruneReport>),
    /// Why the file stays, if it does.
    TrashSettings(Option<Refusal>),
    /// Which sessions are pinned now.
    Pin(PinResult),
}

/// Who did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The daemon.
    Daemon,
    /// This process, as the writer.
    Local,
}

impl Transport {
    /// In a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Local => "local",
        }
    }
}

/// Does it. Whoever calls this is the writer.
pub fn perform_work(writer: &mut StoreWriter, work: &Work, now: Time) -> Result<WorkDone, Failure> {
    perform_watched_work(writer, work, now, &mut |_, _| {})
}

fn perform_watched_work(
    writer: &mut StoreWriter,
    work: &Work,
    now: Time,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<WorkDone, Failure> {
    let_go_of_locks(&writer.home);
    Ok(match work {
        Work::Gc { ask, consent } => {
            WorkDone::Gc(gc::carry_out_gc(writer, ask, consent, now, progress)?)
        }
        Work::Undo { receipt, beside } => {
            let when_taken = if *beside { WhenTaken::Beside } else { WhenTaken::Refuse };
            WorkDone::Undo(reaper::undo_receipt(writer, receipt.as_deref(), when_taken, now)?)
        }
        Work::EmptyTrash { older_than_ms } => WorkDone::EmptyTrash(reaper::empty_trash(
            writer,
            Duration::from_millis(*older_than_ms),
            now,
        )?),
        Work::StoreCleanup(ask) => WorkDone::StoreCleanup(Box::new(
            openclaw_store::perform_cleanup(writer, ask, now, progress)?,
        )),
        Work::StoreRebuild(ask) => {
            WorkDone::StoreRebuild(Box::new(openclaw_store::perform_rebuild(writer, ask, now)?))
        }
        Work::RemoveTerminals { root, ids, command } => {
            let home = TerminalHome::at_root(root);
            WorkDone::RemoveTerminals(terminal::remove::remove_terminals(
                writer, &home, ids, command, now,
            )?)
        }
        Work::DeleteAgent { ask } => {
            WorkDone::DeleteAgent(Box::new(agents::delete_agent(writer, ask, now)?))
        }
        Work::PruneAccess { logs_before } => WorkDone::PruneAccess(Box::new(prune_access(
            writer,
            &AccessWorld::here(),
            *logs_before,
            now,
        )?)),
        Work::TrashSettings { path, content_hash } => WorkDone::TrashSettings(
            crate::hooks::trash_settings(writer, path, content_hash, now)?.err(),
        ),
        Work::Pin { sessions, note, remove } => {
            WorkDone::Pin(pins::perform_pin(writer, sessions, note.as_deref(), *remove, now)?)
        }
    })
}

/// Lets go of OpenClaw's locks that a killed run held beside what it was at: nobody else would.
fn let_go_of_locks(home: &Path) {
    let directories = reaper::interrupted_directories(home);
    if !directories.is_empty() {
        let observer = sys::proc::current_observer();
        directories.iter().for_each(|place| openclaw::locks::let_go_in(place, &observer));
    }
}

/// Has it done: by the daemon if there is one, else here, as the writer.
///
/// Only a daemon that never took the order is replaced by doing it here, and the lock says whether that
/// may be. One that took it and then did not answer may have done it, and its answer is not known.
pub fn carry_out_work(
    home: &Path,
    runtime: &Path,
    work: &Work,
    now: Time,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(WorkDone, Transport), OrderError> {
    sys::pause::pause_at("work.asked");
    match ask(home, runtime, &DaemonOrder::Work(Box::new(work.clone())), AskLimits::LONG) {
        Ok(DaemonAnswer::Done(done)) => Ok((*done, Transport::Daemon)),
        Ok(DaemonAnswer::NotDone(failure)) => Err(OrderError::NotDone(failure)),
        Ok(DaemonAnswer::Failed { reason }) => Err(OrderError::Failed(reason)),
        Ok(_) => {
            Err(OrderError::Call(DaemonCallError::MayHaveApplied("an unknown answer".to_owned())))
        }
        Err(DaemonCallError::NotRunning) => {
            let mut writer = store::writer::become_writer(home, WRITER_TIMEOUT)?;
            let done = perform_watched_work(&mut writer, work, now, progress);
            Ok((done.map_err(OrderError::NotDone)?, Transport::Local))
        }
        Err(error) => Err(error.into()),
    }
}
