//! Carrying a plan out, one checked thing after the other.

use std::io;
use std::path::{Path, PathBuf};

use model::plan::{Fingerprint, Form, Kind, Refusal};
use model::time::Time;
use sys::trash::Existing;

use super::journal::{self, Action, Begun, Journal, Line, Name};
use super::recheck::refusal;
use super::{Checked, CollectError, Planned};
use crate::writer::Writer;

/// One run of the reaper. Its receipt comes into being with the first thing that goes.
#[derive(Debug)]
pub struct Reaper<'a> {
    /// Whoever has this is the writer.
    home: &'a Path,
    command: String,
    at: Time,
    id: String,
    journal: Option<Journal>,
    next: u32,
    bytes: u64,
}

/// What came of trying to take one step: refused, or the journal itself failed.
type Taken = Result<Result<(), Refusal>, CollectError>;

impl<'a> Reaper<'a> {
    /// Begins a run; what an earlier one left unfinished is finished first.
    pub fn begin(writer: &'a Writer, command: &str, at: Time) -> Result<Self, CollectError> {
        super::recover(&writer.home)?;
        Ok(Self {
            home: &writer.home,
            command: command.to_owned(),
            at,
            id: sys::clock::unique(at),
            journal: None,
            next: 0,
            bytes: 0,
        })
    }

    /// Moves something to the trash.
    pub fn trash(&mut self, checked: &Checked<'_>) -> Taken {
        let planned = checked.planned;
        let begun = self.begin_step(planned, Action::Trash)?;
        let content = journal::content(self.home, &self.id, &begun);
        let moved = self.move_away(planned, &content, begun.step)?;
        self.settle(begun, moved)
    }

    /// Gives something another name, which nobody else may have.
    pub fn rename(&mut self, checked: &Checked<'_>, to: &Path) -> Taken {
        let planned = checked.planned;
        let action = Action::Rename { to: Name(to.to_owned()) };
        let begun = self.begin_step(planned, action)?;
        let renamed = sys::trash::rename(&planned.path, to).map_err(|error| refusal(to, &error));
        let renamed = renamed.and_then(|()| is_still(planned, to));
        self.settle(begun, renamed)
    }

    /// Replaces the content of a file that was read as `before`; the old file goes to the trash as it
    /// is, with its mode and times.
    pub fn replace(&mut self, checked: &Checked<'_>, before: &[u8], after: &[u8]) -> Taken {
        let planned = checked.planned;
        let action =
            Action::Replace { before: Some(super::hash(before)), after: super::hash(after) };
        let begun = self.begin_step(planned, action)?;
        let content = journal::content(self.home, &self.id, &begun);
        let replaced = copy_as(&planned.path, &content, before).and_then(|()| {
            sys::pause::at("reap.backed-up");
            sys::atomic::update(&planned.path, Some(before), after)
        });
        if replaced.is_err() {
            // Nothing was replaced: the copy is of no use.
            let _ = sys::trash::remove(&content);
        }
        self.settle(begun, replaced.map_err(|error| refusal(&planned.path, &error)))
    }

    /// Writes a file where there is none. Undoing it moves the file away.
    pub fn create(&mut self, kind: Kind, path: &Path, why: &str, after: &[u8]) -> Taken {
        let action = Action::Replace { before: None, after: super::hash(after) };
        let begun = self.write_down(action, path, kind, why, after.len() as u64, None)?;
        let made = sys::atomic::update(path, None, after);
        self.settle(begun, made.map_err(|error| refusal(path, &error)))
    }

    /// Removes something in which there is nothing that could be given back: a dead socket.
    pub fn discard(&mut self, checked: &Checked<'_>) -> Taken {
        let planned = checked.planned;
        if planned.print.form != Form::Special {
            return Ok(Err(Refusal::Changed));
        }
        let begun = self.begin_step(planned, Action::Discard)?;
        let removed = sys::trash::remove(&planned.path);
        self.settle(begun, removed.map_err(|error| refusal(&planned.path, &error)))
    }

    /// Ends the run. Gives the name of its receipt and the bytes that went, if anything did.
    pub fn finish(mut self) -> Result<Option<(String, u64)>, CollectError> {
        let Some(journal) = &mut self.journal else { return Ok(None) };
        journal.add(&Line::End { at: sys::clock::now() })?;
        sys::pause::at("reap.ended");
        Ok(Some((self.id, self.bytes)))
    }

    fn begin_step(&mut self, planned: &Planned, action: Action) -> Result<Begun, CollectError> {
        let Planned { item, path, print } = planned;
        self.write_down(action, path, item.kind, &item.why, item.bytes, Some(*print))
    }

    /// Writes down what is about to be done.
    fn write_down(
        &mut self,
        action: Action,
        path: &Path,
        kind: Kind,
        why: &str,
        bytes: u64,
        print: Option<Fingerprint>,
    ) -> Result<Begun, CollectError> {
        let (step, path, why) = (self.next, Name(path.to_owned()), why.to_owned());
        let begun = Begun { step, action, path, kind, why, bytes, print };
        self.next += 1;
        let slot = journal::slot(self.home, &self.id, step);
        self.journal()?.add(&Line::Begin(begun.clone()))?;
        sys::private::create_private_dir(&slot)
            .map_err(|error| CollectError::Journal { path: slot, reason: error.to_string() })?;
        sys::pause::at("reap.begun");
        Ok(begun)
    }

    fn journal(&mut self) -> Result<&mut Journal, CollectError> {
        if self.journal.is_none() {
            let mut journal = Journal::open(self.home, &self.id)?;
            journal.add(&Line::Run {
                receipt: self.id.clone(),
                command: self.command.clone(),
                at: self.at,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            })?;
            sys::pause::at("reap.opened");
            self.journal = Some(journal);
        }
        self.journal.as_mut().ok_or_else(|| CollectError::NoReceipt(self.id.clone()))
    }

    /// Writes down what became of a step.
    fn settle(&mut self, begun: Begun, taken: Result<(), Refusal>) -> Taken {
        sys::pause::at("reap.moved");
        let line = match &taken {
            Ok(()) => Line::Done { step: begun.step },
            Err(refusal) => Line::Failed { step: begun.step, reason: refusal.reason() },
        };
        if taken.is_ok() {
            self.bytes += begun.bytes;
        } else {
            let _ = std::fs::remove_dir(journal::slot(self.home, &self.id, begun.step));
        }
        self.journal()?.add(&line)?;
        sys::pause::at("reap.done");
        Ok(taken)
    }

    /// Moves something into its slot, across devices if it must.
    fn move_away(
        &mut self,
        planned: &Planned,
        content: &Path,
        step: u32,
    ) -> Result<Result<(), Refusal>, CollectError> {
        let path = &planned.path;
        match sys::trash::rename(path, content) {
            Ok(()) => {
                let same = is_still(planned, content);
                if same.is_err() {
                    // Somebody put something else there in the last moment: it goes back.
                    let _ = sys::trash::rename(content, path);
                }
                return Ok(same);
            }
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
            Err(error) => return Ok(Err(refusal(path, &error))),
        }
        if let Err(refused) = copy_over(planned, content) {
            return Ok(Err(refused));
        }
        self.journal()?.add(&Line::Copied { step })?;
        sys::pause::at("reap.copied");
        Ok(remove_original(path, content))
    }
}

/// Whether what lies at a place is what was planned.
fn is_still(planned: &Planned, place: &Path) -> Result<(), Refusal> {
    match sys::fingerprint::of_path(place) {
        Ok(now) if planned.print.is_same(&now) => Ok(()),
        _ => Err(Refusal::Changed),
    }
}

/// The name of a copy that is not whole yet.
pub(super) fn partial(content: &Path) -> PathBuf {
    content.with_file_name(".partial")
}

/// Copies something into its slot, where it has its name only when it is whole.
fn copy_over(planned: &Planned, content: &Path) -> Result<(), Refusal> {
    let partial = partial(content);
    let copied = sys::trash::copy(&planned.path, &partial, Existing::Refuse)
        .map_err(|error| refusal(&planned.path, &error))
        .and_then(|()| {
            sys::pause::at("reap.copying");
            is_still(planned, &planned.path)
        })
        .and_then(|()| {
            sys::trash::rename(&partial, content).map_err(|error| refusal(content, &error))
        });
    if copied.is_err() {
        let _ = sys::trash::remove(&partial);
    }
    copied
}

/// Removes the original of a whole copy. If the system does not let go of all of it, what is missing
/// is put back, and the copy goes.
pub(super) fn remove_original(path: &Path, content: &Path) -> Result<(), Refusal> {
    let Err(error) = sys::trash::remove(path) else { return Ok(()) };
    if error.kind() == io::ErrorKind::NotFound {
        return Ok(());
    }
    if sys::trash::copy(content, path, Existing::Keep).is_ok() {
        let _ = sys::trash::remove(content);
    }
    Err(refusal(path, &error))
}

/// Keeps a copy of a file that was read as `bytes`.
fn copy_as(path: &Path, content: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = std::fs::canonicalize(path)?;
    sys::trash::copy(&path, content, Existing::Refuse)?;
    if std::fs::read(content)? == bytes {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "somebody else has just changed it"))
}
