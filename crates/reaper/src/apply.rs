//! Executes a removal plan, one re-checked and journalled step after the other.

use std::io;
use std::path::{Path, PathBuf};
use sys::dropped::NoteDropped;

use model::plan::{FileForm, Fingerprint, Refusal, RemovableKind};
use sys::fingerprint::is_at;
use sys::relocate::{CopiedTree, Immovable};
use sys::trash::ExistingName;

use super::journal::{
    self, BegunStep, Journal, JournalAction, JournalLine, JournalPath, Undecided, is_there,
};
use super::recheck::io_refusal;
use super::slot::{drop_own, keep_written, partial, undecided};
use super::{CheckedRemoval, CollectError, PlannedRemoval};
use sys::machine::Machine;
use sys::writer_lock::WriterLock;

/// One run of the reaper. Its receipt comes into being with the first thing that goes.
#[derive(Debug)]
pub struct Reaper<'a> {
    /// Its holder is the writer.
    home: &'a Path,
    machine: &'a Machine,
    command: String,
    id: String,
    journal: Option<Journal>,
    next: u32,
    bytes: u64,
}

/// What came of trying to take one step: refused, or the journal itself failed.
pub(super) type StepResult = Result<Result<(), Refusal>, CollectError>;

/// What became of a thing.
#[derive(Debug)]
pub(super) enum Outcome {
    Gone,
    /// It is where it was.
    Stays(Refusal),
    /// It did not go as it should, and could not go back: another process's work is in its place.
    Parted {
        refusal: Refusal,
        matter: Undecided,
        /// Whether all of it is where the step should have brought it.
        done: bool,
    },
}

impl From<Result<(), Refusal>> for Outcome {
    fn from(taken: Result<(), Refusal>) -> Self {
        taken.map_or_else(Self::Stays, |()| Self::Gone)
    }
}

impl<'a> Reaper<'a> {
    /// Begins a run; what an earlier one left unfinished is settled first.
    pub fn begin(
        writer: &'a WriterLock,
        command: &str,
        machine: &'a Machine,
    ) -> Result<Self, CollectError> {
        super::recover_interrupted(writer, machine)?;
        Ok(Self {
            home: &writer.home,
            machine,
            command: command.to_owned(),
            id: sys::clock::unique_suffix(journal::later_than_all(&writer.home, machine.now())?),
            journal: None,
            next: 0,
            bytes: 0,
        })
    }

    /// Moves something to the trash.
    pub fn trash_item(&mut self, checked: &CheckedRemoval<'_>) -> StepResult {
        let planned = checked.planned;
        let begun = self.begin_step(checked, JournalAction::Trash)?;
        let content = journal::slot_content(self.home, &self.id, &begun);
        let moved = self.move_away(planned, &content, begun.step)?;
        self.settle_step(begun, moved)
    }

    /// Gives something another name, which must be free.
    pub fn rename_item(&mut self, checked: &CheckedRemoval<'_>, to: &Path) -> StepResult {
        let planned = checked.planned;
        let action = JournalAction::Rename { to: JournalPath(to.to_owned()) };
        let begun = self.begin_step(checked, action)?;
        sys::pause::pause_at("reap.renaming");
        let renamed = match rename(&planned.print, &planned.path, to) {
            Err(error) => Outcome::Stays(io_refusal(to, &error)),
            Ok(()) => stay_or_go_back(planned, to),
        };
        self.settle_step(begun, renamed)
    }

    /// Replaces the content of a file that was read as `before`; the old file goes to the trash as it
    /// is, with its mode and times.
    pub fn replace_content(
        &mut self,
        checked: &CheckedRemoval<'_>,
        before: &[u8],
        after: &[u8],
    ) -> StepResult {
        let path = &checked.planned.path;
        let action =
            JournalAction::Replace { before: Some(super::hash(before)), after: super::hash(after) };
        let begun = self.begin_step(checked, action)?;
        let content = journal::slot_content(self.home, &self.id, &begun);
        let private = journal::private_beside_target(path, &self.id, begun.step);
        let (mut was_exchanged, mut is_kept) = (false, true);
        let mut keep = keep_written(&content);
        let replaced = copy_as(path, &content, before).and_then(|()| {
            sys::pause::pause_at("reap.backed-up");
            let name = private.file_name().unwrap_or_default();
            sys::atomic::update_by(path, Some(before), after, name, &mut |theirs| {
                was_exchanged = true;
                keep(theirs).inspect_err(|_| is_kept = false)
            })
        });
        let Err(error) = replaced else { return self.settle_step(begun, Outcome::Gone) };
        let refusal = io_refusal(path, &error);
        if is_there(&private) {
            let reason = match is_kept {
                true => "others wrote to it more than once while it was replaced",
                false => {
                    "others wrote to it while it was replaced, and it could not be kept beside"
                }
            };
            let matter = undecided(reason.to_owned(), [private.as_path(), &content]);
            return self.settle_step(begun, Outcome::Parted { refusal, matter, done: true });
        }
        let now = std::fs::read(path);
        if now.as_ref().is_ok_and(|now| now == after) {
            // It was replaced; only that this will outlast a crash of the machine is not certain.
            return self.settle_step(begun, Outcome::Gone);
        }
        let not_reached = error.kind() == io::ErrorKind::WouldBlock && !was_exchanged;
        if not_reached || now.is_ok_and(|now| now == before) {
            // Nothing was replaced: the copy is of no use.
            drop_own(&content);
        }
        self.settle_step(begun, Outcome::Stays(refusal))
    }

    /// Writes a file where there is none. Undoing it moves the file away.
    pub fn create_file(
        &mut self,
        kind: RemovableKind,
        path: &Path,
        why: &str,
        after: &[u8],
    ) -> StepResult {
        let action = JournalAction::Replace { before: None, after: super::hash(after) };
        let step = self.next;
        let begun = BegunStep {
            step,
            action,
            path: JournalPath(path.to_owned()),
            kind,
            why: why.to_owned(),
            bytes: after.len() as u64,
            print: None,
            lock: None,
        };
        self.write_down(&begun)?;
        let private = journal::private_name(&self.id, step);
        let made = sys::atomic::update_by(path, None, after, private.as_ref(), &mut |_| Ok(()));
        self.settle_step(begun, made.map_err(|error| io_refusal(path, &error)).into())
    }

    /// Removes something in which there is nothing that could be given back: a dead socket.
    pub fn discard_item(&mut self, checked: &CheckedRemoval<'_>) -> StepResult {
        let planned = checked.planned;
        if planned.print.form != FileForm::Special {
            return Ok(Err(Refusal::Changed));
        }
        let begun = self.begin_step(checked, JournalAction::Discard)?;
        // Under a name of ours no other process can put another thing in its place.
        let outcome = match self.set_aside(planned, begun.step)? {
            Err(outcome) => outcome,
            Ok(aside) => match std::fs::remove_file(&aside) {
                Ok(()) => Outcome::Gone,
                Err(error) => go_back(&aside, &planned.path, io_refusal(&aside, &error), None),
            },
        };
        self.settle_step(begun, outcome)
    }

    /// Ends the run. Gives the name of its receipt and the bytes that went, if anything did.
    pub fn finish(mut self) -> Result<Option<(String, u64)>, CollectError> {
        let Some(journal) = &mut self.journal else { return Ok(None) };
        journal.append(&JournalLine::End { at: self.machine.read_clock() })?;
        sys::pause::pause_at("reap.ended");
        Ok(Some((self.id, self.bytes)))
    }

    pub(super) fn begin_step(
        &mut self,
        checked: &CheckedRemoval<'_>,
        action: JournalAction,
    ) -> Result<BegunStep, CollectError> {
        let PlannedRemoval { item, path, .. } = checked.planned;
        let begun = BegunStep {
            step: self.next,
            action,
            path: JournalPath(path.clone()),
            kind: item.kind,
            why: item.why.clone(),
            bytes: item.bytes,
            print: Some(checked.print),
            lock: checked.lock_note(),
        };
        self.write_down(&begun)?;
        Ok(begun)
    }

    /// Writes down what is about to be done.
    fn write_down(&mut self, begun: &BegunStep) -> Result<(), CollectError> {
        self.next += 1;
        let slot = journal::slot_directory(self.home, &self.id, begun.step);
        self.open_journal()?.append(&JournalLine::Begin(begun.clone()))?;
        sys::private::create_private_dir(&slot)
            .map_err(|error| CollectError::Journal { path: slot, reason: error.to_string() })?;
        sys::pause::pause_at("reap.begun");
        Ok(())
    }

    pub(super) fn open_journal(&mut self) -> Result<&mut Journal, CollectError> {
        if self.journal.is_none() {
            let mut journal = Journal::open(self.home, &self.id)?;
            journal.append(&JournalLine::Run {
                receipt: self.id.clone(),
                command: self.command.clone(),
                at: self.machine.now(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            })?;
            sys::pause::pause_at("reap.opened");
            self.journal = Some(journal);
        }
        self.journal.as_mut().ok_or_else(|| CollectError::NoReceipt(self.id.clone()))
    }

    /// Writes down what became of a step.
    pub(super) fn settle_step(&mut self, begun: BegunStep, outcome: Outcome) -> StepResult {
        sys::pause::pause_at("reap.moved");
        let step = begun.step;
        let taken = match outcome {
            Outcome::Gone => {
                self.bytes += begun.bytes;
                self.open_journal()?.append(&JournalLine::Done { step })?;
                Ok(())
            }
            Outcome::Stays(refusal) => {
                // Not empty means that something is in it: it stays.
                std::fs::remove_dir(journal::slot_directory(self.home, &self.id, step))
                    .note_dropped("removing an empty slot");
                self.open_journal()?
                    .append(&JournalLine::Failed { step, reason: refusal.reason_text() })?;
                Err(refusal)
            }
            Outcome::Parted { refusal, matter, done } => {
                self.open_journal()?.append(&JournalLine::Undecided { step, matter })?;
                if done {
                    self.open_journal()?.append(&JournalLine::Done { step })?;
                }
                Err(refusal)
            }
        };
        sys::pause::pause_at("reap.done");
        Ok(taken)
    }

    /// Moves something into its slot, across devices if it must.
    fn move_away(
        &mut self,
        planned: &PlannedRemoval,
        content: &Path,
        step: u32,
    ) -> Result<Outcome, CollectError> {
        match rename(&planned.print, &planned.path, content) {
            Ok(()) => Ok(stay_or_go_back(planned, content)),
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                self.move_across(planned, content, step)
            }
            Err(error) => Ok(Outcome::Stays(io_refusal(&planned.path, &error))),
        }
    }

    /// Moves something to another device: aside, under a private name, then a copy, and then the original
    /// goes file by file, as far as it is what was copied.
    fn move_across(
        &mut self,
        planned: &PlannedRemoval,
        content: &Path,
        step: u32,
    ) -> Result<Outcome, CollectError> {
        let path = &planned.path;
        if let Err(immovable) = sys::relocate::check_movable(path) {
            return Ok(Outcome::Stays(immovable_refusal(path, immovable)));
        }
        let aside = match self.set_aside(planned, step)? {
            Ok(aside) => aside,
            Err(outcome) => return Ok(outcome),
        };
        let copied = match copy_over(&aside, content) {
            Ok(copied) => copied,
            Err(refusal) => return Ok(go_back(&aside, path, refusal, None)),
        };
        if let Err(error) = self.open_journal()?.append(&JournalLine::Copied { step }) {
            // What became of it is found out by the next run.
            go_back(&aside, path, Refusal::NoSpace, Some(content));
            return Err(error);
        }
        sys::pause::pause_at("reap.copied");
        let private = journal::private_name(&self.id, step);
        let unlinked = copied.unlink_from(&aside, private.as_ref());
        if unlinked.as_ref().is_ok_and(|all| *all) {
            return Ok(Outcome::Gone);
        }
        let refused = match unlinked {
            Err(error) => io_refusal(path, &error),
            Ok(_) => Refusal::Changed,
        };
        if let Err(error) = sys::relocate::complete_tree(content, &aside, private.as_ref()) {
            let reason = format!(
                "it was written to while it was moved, and cannot be put together again: {error}"
            );
            let matter = undecided(reason, [aside.as_path(), content]);
            return Ok(Outcome::Parted { refusal: refused, matter, done: false });
        }
        Ok(go_back(&aside, path, refused, Some(content)))
    }

    /// Gives something a private name in its own directory, where its old path no longer finds it.
    fn set_aside(
        &mut self,
        planned: &PlannedRemoval,
        step: u32,
    ) -> Result<Result<PathBuf, Outcome>, CollectError> {
        let path = &planned.path;
        let aside = journal::private_beside(path, &self.id, step);
        self.open_journal()?
            .append(&JournalLine::Aside { step, name: JournalPath(aside.clone()) })?;
        sys::pause::pause_at("reap.setting-aside");
        if let Err(error) = rename(&planned.print, path, &aside) {
            return Ok(Err(Outcome::Stays(io_refusal(path, &error))));
        }
        sys::pause::pause_at("reap.aside");
        Ok(match is_still(planned, &aside) {
            Ok(()) => Ok(aside),
            Err(refusal) => Err(go_back(&aside, path, refusal, None)),
        })
    }
}

/// Gives something a name that is free. It is where it is, even if a later step fails.
fn rename(print: &Fingerprint, from: &Path, to: &Path) -> io::Result<()> {
    match sys::trash::rename_noreplace(from, to) {
        Err(_) if is_at(print, to) && !is_at(print, from) => Ok(()),
        renamed => renamed,
    }
}

/// Looks whether what was given another name is what was planned. If another process put something else there in
/// the last moment, or wrote to it, it goes back.
fn stay_or_go_back(planned: &PlannedRemoval, place: &Path) -> Outcome {
    let Err(refused) = is_still(planned, place) else { return Outcome::Gone };
    match go_back(place, &planned.path, refused, None) {
        Outcome::Parted { refusal, matter, .. } => Outcome::Parted { refusal, matter, done: true },
        back => back,
    }
}

/// Gives something its own name again, unless it is taken now: then both stay, and it is told.
fn go_back(from: &Path, path: &Path, refused: Refusal, copy: Option<&Path>) -> Outcome {
    sys::pause::pause_at("reap.going-back");
    match sys::trash::rename_noreplace(from, path) {
        Ok(()) => Outcome::Stays(refused),
        Err(_) if std::fs::symlink_metadata(from).is_err() => Outcome::Stays(refused),
        Err(error) => {
            let reason = format!(
                "it was to go and was changed meanwhile, and could not go back: {}",
                io_refusal(path, &error).reason_text()
            );
            let matter = undecided(reason, std::iter::once(from).chain(copy));
            Outcome::Parted { refusal: refused, matter, done: false }
        }
    }
}

fn immovable_refusal(path: &Path, immovable: Immovable) -> Refusal {
    match immovable {
        Immovable::Special(_) => Refusal::Special,
        Immovable::Linked(path) => {
            Refusal::HardLinked { path: path.to_string_lossy().into_owned() }
        }
        Immovable::Foreign(_, uid) => Refusal::NotOurs { uid },
        Immovable::Mounted(_) => Refusal::Mounted,
        Immovable::Attributed(path) => {
            Refusal::Attributed { path: path.to_string_lossy().into_owned() }
        }
        Immovable::Io(error) => io_refusal(path, &error),
    }
}

/// Whether what lies at a place is what was planned.
fn is_still(planned: &PlannedRemoval, place: &Path) -> Result<(), Refusal> {
    match sys::fingerprint::of_path(place) {
        Ok(now) if planned.print.is_same(&now) => Ok(()),
        _ => Err(Refusal::Changed),
    }
}

/// Copies something into its slot, where it has its name only when it is whole, and when nothing was
/// written to the original meanwhile.
fn copy_over(aside: &Path, content: &Path) -> Result<CopiedTree, Refusal> {
    let partial = partial(content);
    let copied = sys::relocate::copy_tree(aside, &partial).and_then(|copied| {
        sys::pause::pause_at("reap.copying");
        if !copied.is_still_at(aside)? {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "it was written to"));
        }
        sys::trash::rename_noreplace(&partial, content)?;
        Ok(copied)
    });
    copied.map_err(|error| {
        drop_own(&partial);
        io_refusal(content, &error)
    })
}

/// Keeps a copy of a file that was read as `bytes`.
fn copy_as(path: &Path, content: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = std::fs::canonicalize(path)?;
    let partial = partial(content);
    sys::trash::copy_tree(&path, &partial, ExistingName::Refuse)?;
    sys::trash::rename_noreplace(&partial, content)?;
    if std::fs::read(content)? == bytes {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "somebody else has just changed it"))
}
