//! Everything that changes ostler's state and can be asked of its writer: one list, carried out by the
//! same code whether the daemon does it or the command itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::failure::Failure;
use model::session::Name;
use model::time::Time;
use model::wire::{AgentDeleteResult, GcResult, PinResult, TrashEmptied, UndoResult};
use openclaw::wire::{StoreCleanupResult, StoreRebuildResult};
use serde::{Deserialize, Serialize};

use crate::daemon::{Answer, AskLimits, CallError, Order, OrderError, ask};
use crate::gc::{self, Ask, Consent};
use crate::pins;
use crate::terminal::{self, Home};
use openclaw::agents;
use openclaw::store as openclaw_store;
use reaper::WhenTaken;
use store::writer::Writer;

/// How long another writer is waited for.
const WRITER_TIMEOUT: Duration = Duration::from_secs(5);

/// Something to be done by the writer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "work")]
pub enum Work {
    /// Collect what may go.
    Gc {
        /// What is asked for.
        ask: Box<Ask>,
        /// What was shown, and consented to.
        consent: Consent,
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
    StoreCleanup(Box<openclaw_store::Ask>),
    /// Write a new index for one.
    StoreRebuild(Box<openclaw_store::Ask>),
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
        ask: agents::Ask,
    },
    /// Pin sessions, or take their pins away.
    Pin {
        /// Which.
        sessions: Vec<Name>,
        /// Why, in the words of whoever pins them.
        note: Option<String>,
        /// Whether the pins are taken away.
        remove: bool,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "done", content = "result")]
pub enum Done {
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
    RemoveTerminals(Vec<terminal::remove::Removed>),
    /// What became of the agent.
    DeleteAgent(Box<AgentDeleteResult>),
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
    pub const fn word(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Local => "local",
        }
    }
}

/// Does it. Whoever calls this is the writer.
pub fn perform(writer: &mut Writer, work: &Work, now: Time) -> Result<Done, Failure> {
    perform_watched(writer, work, now, &mut |_, _| {})
}

fn perform_watched(
    writer: &mut Writer,
    work: &Work,
    now: Time,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Done, Failure> {
    let_go_of_locks(&writer.home);
    Ok(match work {
        Work::Gc { ask, consent } => Done::Gc(gc::collect(writer, ask, consent, now, progress)?),
        Work::Undo { receipt, beside } => {
            let when_taken = if *beside { WhenTaken::Beside } else { WhenTaken::Refuse };
            Done::Undo(reaper::undo(writer, receipt.as_deref(), when_taken, now)?)
        }
        Work::EmptyTrash { older_than_ms } => {
            Done::EmptyTrash(reaper::empty(writer, Duration::from_millis(*older_than_ms), now)?)
        }
        Work::StoreCleanup(ask) => Done::StoreCleanup(Box::new(openclaw_store::perform_cleanup(
            writer, ask, now, progress,
        )?)),
        Work::StoreRebuild(ask) => {
            Done::StoreRebuild(Box::new(openclaw_store::perform_rebuild(writer, ask, now)?))
        }
        Work::RemoveTerminals { root, ids, command } => {
            let home = Home::at(root);
            Done::RemoveTerminals(terminal::remove::remove(writer, &home, ids, command, now)?)
        }
        Work::DeleteAgent { ask } => Done::DeleteAgent(Box::new(agents::delete(writer, ask, now)?)),
        Work::Pin { sessions, note, remove } => {
            Done::Pin(pins::perform(writer, sessions, note.as_deref(), *remove, now)?)
        }
    })
}

/// Lets go of OpenClaw's locks that a killed run held beside what it was at: nobody else would.
fn let_go_of_locks(home: &Path) {
    let directories = reaper::interrupted_directories(home);
    if !directories.is_empty() {
        let observer = sys::proc::observer();
        directories.iter().for_each(|place| openclaw::locks::let_go_in(place, &observer));
    }
}

/// Has it done: by the daemon if there is one, else here, as the writer.
///
/// Only a daemon that never took the order is replaced by doing it here, and the lock says whether that
/// may be. One that took it and then did not answer may have done it, and its answer is not known.
pub fn carry_out(
    home: &Path,
    runtime: &Path,
    work: &Work,
    now: Time,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(Done, Transport), OrderError> {
    sys::pause::at("work.asked");
    match ask(home, runtime, &Order::Work(Box::new(work.clone())), AskLimits::LONG) {
        Ok(Answer::Done(done)) => Ok((*done, Transport::Daemon)),
        Ok(Answer::NotDone(failure)) => Err(OrderError::NotDone(failure)),
        Ok(Answer::Failed { reason }) => Err(OrderError::Failed(reason)),
        Ok(_) => Err(OrderError::Call(CallError::MayHaveApplied("an unknown answer".to_owned()))),
        Err(CallError::NotRunning) => {
            let mut writer = store::writer::take(home, WRITER_TIMEOUT)?;
            let done = perform_watched(&mut writer, work, now, progress);
            Ok((done.map_err(OrderError::NotDone)?, Transport::Local))
        }
        Err(error) => Err(error.into()),
    }
}
