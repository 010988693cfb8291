//! Audit events: who watched, took a keyboard, typed or changed something from a page.
//!
//! They are written by a thread of their own, as any command writes: through the daemon, else as the
//! writer. Viewers and typists do not wait for that.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};

use flows::work::{WorkPatience, carry_out_within, carry_out_work};
use flows::writer::{AskLimits, PageOrder, Work};
use model::page::{KeptTab, PageAct, PageNote};
use sys::machine::Machine;

use crate::api::ApiFailure;
use crate::error::Error;
use crate::timeouts::NOTE_WRITER_TIMEOUT;

/// How many events may wait to be written; a writer that is held for long loses further ones.
const MOST_WAITING: usize = 1024;

/// Writes what pages do.
#[derive(Debug)]
pub(super) struct PageNotes {
    machine: Machine,
    queue: SyncSender<PageNote>,
    /// Who has been noted as watching what: once is enough.
    watched: Mutex<HashSet<(String, String)>>,
}

/// The session that a command is about, as events name it.
pub(super) fn split_session(key: Option<&str>) -> (String, String) {
    match key.map(|key| key.split_once(':').unwrap_or(("", key))) {
        Some((agent, id)) => (agent.to_owned(), id.to_owned()),
        None => ("ostler".to_owned(), String::new()),
    }
}

impl PageNotes {
    pub(super) fn start(machine: Machine) -> std::io::Result<Self> {
        let (queue, notes) = sync_channel(MOST_WAITING);
        let writer = machine.clone();
        let thread = std::thread::Builder::new().name("notes".to_owned());
        thread.spawn(move || write_notes(&writer, &notes))?;
        Ok(Self { machine, queue, watched: Mutex::default() })
    }

    /// Notes that a terminal is watched, the first time that this tab does.
    pub(super) fn note_watched(&self, by: &str, terminal: &str) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if watched.insert((by.to_owned(), terminal.to_owned())) {
            drop(watched);
            self.note_terminal(by, PageAct::Watched, terminal);
        }
    }

    /// Notes what was done with a terminal.
    pub(super) fn note_terminal(&self, by: &str, act: PageAct, terminal: &str) {
        self.put_note(PageNote {
            by: by.to_owned(),
            act,
            agent: "terminal".to_owned(),
            session: terminal.to_owned(),
            command: None,
            outcome: None,
        });
    }

    /// Notes that a command was run that changes something, and how it ended if not well.
    pub(super) fn note_command(
        &self,
        by: &str,
        command: String,
        session: Option<&str>,
        outcome: Option<&str>,
    ) {
        let (agent, session) = split_session(session);
        let (by, act, command) = (by.to_owned(), PageAct::Commanded, Some(command));
        let outcome = outcome.map(str::to_owned);
        self.put_note(PageNote { by, act, agent, session, command, outcome });
    }

    fn put_note(&self, note: PageNote) {
        if let Err(TrySendError::Full(note) | TrySendError::Disconnected(note)) =
            self.queue.try_send(note)
        {
            tracing::warn!(by = note.by, act = ?note.act, "an event of a page is lost");
        }
    }

    /// Keeps a browser signed in. Blocks until it is written.
    pub(super) fn keep_tab(&self, tab: KeptTab) -> Result<(), ApiFailure> {
        self.carry_out(PageOrder::Keep(tab))
    }

    /// Forgets a browser. Blocks until it is written.
    pub(super) fn forget_tab(&self, name: &str) -> Result<(), ApiFailure> {
        self.carry_out(PageOrder::Forget { name: name.to_owned() })
    }

    fn carry_out(&self, order: PageOrder) -> Result<(), ApiFailure> {
        let work = Work::Page(Box::new(order));
        let done = carry_out_work(&work, &self.machine.next_turn(), &mut |_, _| {});
        done.map(drop).map_err(|error| {
            let error = Error::Order(error);
            ApiFailure::new(error.stable_code(), error.to_string(), "try again in a moment")
        })
    }
}

fn write_notes(machine: &Machine, notes: &Receiver<PageNote>) {
    let patience = WorkPatience { limits: AskLimits::LONG, writer: NOTE_WRITER_TIMEOUT };
    for note in notes {
        let work = Work::Page(Box::new(PageOrder::Note(note)));
        if let Err(error) = carry_out_within(&work, &machine.next_turn(), patience, &mut |_, _| {})
        {
            tracing::warn!(%error, "an event of a page is not written");
        }
    }
}
