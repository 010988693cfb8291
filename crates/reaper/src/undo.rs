//! Undo: puts back what a run took away, from its journal.

use std::io;
use std::path::{Path, PathBuf};
use sys::dropped::NoteDropped;

use model::plan::{Fingerprint, Refusal, RemovableKind};
use model::wire::{RefusalView, UndoResult, UndoneItem};
use sys::exchange::ExchangeOutcome;
use sys::fingerprint::{FoundAt, find_at, of_path};
use sys::trash::ExistingName;

use super::CollectError;
use super::journal::{
    self, BegunStep, Journal, JournalAction, JournalLine, JournalPath, JournalStep, StepState,
    is_there,
};
use super::recheck::io_refusal;
use super::slot::{drop_own, hash_of, keep_written, undecided};
use sys::machine::Machine;
use sys::writer_lock::WriterLock;

/// How many names beside its own are tried for something that comes back.
const MOST_BESIDE: u32 = 100;

/// What is done about something whose place is taken, or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenTaken {
    /// It stays in the trash.
    Refuse,
    /// It comes back beside that, by a name that says so.
    Beside,
}

/// Undoes a run, the last step first: the one named, or the last one of which something can be
/// undone. What cannot be put back stays in the trash, and is said.
pub fn undo_receipt(
    writer: &WriterLock,
    receipt: Option<&str>,
    when_taken: WhenTaken,
    machine: &Machine,
) -> Result<UndoResult, CollectError> {
    let (home, at) = (writer.home.as_path(), machine.now());
    super::recover_interrupted(writer, machine)?;
    let name = match receipt {
        Some(text) => journal::find_receipt(home, text)?,
        None => latest_undoable(home)?,
    };
    let receipt = journal::read_receipt(home, &name)?;
    let journal = Journal::open(home, &name)?;
    let mut return_of = Return { home, receipt: &name, journal, when_taken };
    let mut result =
        UndoResult { receipt: name.clone(), command: receipt.command.clone(), items: Vec::new() };
    for step in receipt.steps.iter().rev() {
        let begun = &step.begun;
        let back = match step.state {
            StepState::Emptied => Err(Refusal::Emptied),
            _ if step.can_be_undone() => return_of.put_back(step)?,
            // A dead socket held nothing that could be missed.
            StepState::Done
                if begun.action == JournalAction::Discard
                    && begun.kind != RemovableKind::Socket =>
            {
                Err(Refusal::Discarded)
            }
            _ => continue,
        };
        if let Ok(place) = &back {
            sys::pause::pause_at("undo.put-back");
            return_of.journal.append(&JournalLine::Undone { step: begun.step, at })?;
            return_of.clear_slot(step, place);
        }
        result.items.push(return_of.tell(begun, back));
    }
    Ok(result)
}

fn latest_undoable(home: &Path) -> Result<String, CollectError> {
    for name in journal::receipt_names(home)?.into_iter().rev() {
        match journal::read_receipt(home, &name) {
            Ok(receipt) if receipt.is_undoable() => return Ok(name),
            Ok(_) => {}
            Err(_) if journal::is_missing(home, &name) => {}
            // It may be the last one, and an earlier one is not what was asked for.
            Err(error) => return Err(error),
        }
    }
    Err(CollectError::NothingToUndo)
}

/// Something that came back, and where it is.
type Back = Result<PathBuf, Refusal>;

/// One run that is being undone.
struct Return<'a> {
    home: &'a Path,
    receipt: &'a str,
    journal: Journal,
    when_taken: WhenTaken,
}

impl Return<'_> {
    fn put_back(&mut self, step: &JournalStep) -> Result<Back, CollectError> {
        let begun = &step.begun;
        let path = begun.path.0.as_path();
        let content = journal::slot_content(self.home, self.receipt, begun);
        match &begun.action {
            JournalAction::Discard => Ok(self
                .rename_back(step.aside.as_deref().unwrap_or(path), path)
                .map_err(|error| io_refusal(path, &error))),
            JournalAction::Trash => match step.aside.as_deref().filter(|aside| is_there(aside)) {
                Some(aside) if step.state != StepState::Done => {
                    if step.state == StepState::Copied && is_there(&content) {
                        let private = journal::private_name(self.receipt, begun.step);
                        let whole = sys::relocate::complete_tree(&content, aside, private.as_ref());
                        if let Err(error) = whole {
                            return Ok(Err(io_refusal(path, &error)));
                        }
                    }
                    self.bring_to_free_place(aside, begun)
                }
                _ => self.bring_back(&content, begun),
            },
            JournalAction::Rename { to } => {
                if !is_there(&to.0) && may_be_at(begun, path) {
                    return Ok(Ok(path.to_owned()));
                }
                Ok(self.rename_back(&to.0, path).map_err(|error| io_refusal(path, &error)))
            }
            JournalAction::Replace { before, after } => {
                self.restore(&content, begun, before.as_deref(), after)
            }
        }
    }

    /// Gives something its name again, on one device.
    fn rename_back(&self, from: &Path, path: &Path) -> io::Result<PathBuf> {
        let mut last = io::ErrorKind::NotFound.into();
        for to in self.places(path) {
            match sys::trash::rename_noreplace(from, &to) {
                Ok(()) => return Ok(to),
                Err(error) => last = error,
            }
            if last.kind() != io::ErrorKind::AlreadyExists {
                break;
            }
        }
        Err(last)
    }

    /// Brings something back from the trash to where nothing is, across devices if it must.
    fn bring_back(&mut self, content: &Path, begun: &BegunStep) -> Result<Back, CollectError> {
        let path = begun.path.0.as_path();
        let failed = |error: io::Error| io_refusal(path, &error);
        if !is_there(content) && may_be_at(begun, path) {
            // Killed after it was put back and before that was written down.
            return Ok(Ok(path.to_owned()));
        }
        if let Some(parent) = path.parent()
            && let Err(error) = std::fs::create_dir_all(parent)
        {
            return Ok(Err(failed(error)));
        }
        if is_there(path) && sys::relocate::is_same_tree(content, path).unwrap_or(false) {
            return Ok(Ok(path.to_owned()));
        }
        self.bring_to_free_place(content, begun)
    }

    /// Gives what lies at `from` the best name that is free, across devices if it must. Where it goes is written down
    /// first.
    fn bring_to_free_place(
        &mut self,
        from: &Path,
        begun: &BegunStep,
    ) -> Result<Back, CollectError> {
        let path = begun.path.0.as_path();
        let failed = |error: io::Error| io_refusal(path, &error);
        let Some(to) = self.places(path).into_iter().find(|place| !is_there(place)) else {
            return Ok(Err(failed(io::ErrorKind::AlreadyExists.into())));
        };
        let step = begun.step;
        let print = match of_path(from) {
            Ok(print) => Some(print),
            Err(error) => return Ok(Err(failed(error))),
        };
        // So that recovery recognises it in its place after a kill.
        let by = JournalPath(journal::free_back_name(&to, self.receipt, step));
        self.journal.append(&JournalLine::Returning {
            step,
            by,
            to: JournalPath(to.clone()),
            print,
        })?;
        let back = match sys::trash::rename_noreplace(from, &to) {
            // A copy gets the name when it is whole.
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                match self.copy_beside(from, &to, step)? {
                    Ok(by) => sys::trash::rename_noreplace(&by, &to).inspect_err(|_| drop_own(&by)),
                    Err(error) => Err(error),
                }
            }
            renamed => renamed,
        };
        if back.is_err() {
            self.journal.append(&JournalLine::Returned { step })?;
        }
        Ok(back.map(|()| to).map_err(failed))
    }

    /// Copies something to the directory it comes back to, under a name that the journal knows. The copy
    /// is whole and known when this returns.
    fn copy_beside(
        &mut self,
        content: &Path,
        to: &Path,
        step: u32,
    ) -> Result<io::Result<PathBuf>, CollectError> {
        let by = journal::free_back_name(to, self.receipt, step);
        if is_there(&by) {
            return Ok(Err(io::ErrorKind::AlreadyExists.into()));
        }
        let returning = |print: Option<Fingerprint>| JournalLine::Returning {
            step,
            by: JournalPath(by.clone()),
            to: JournalPath(to.to_owned()),
            print,
        };
        self.journal.append(&returning(None))?;
        let copied =
            sys::trash::copy_tree(content, &by, ExistingName::Refuse).and_then(|()| of_path(&by));
        sys::pause::pause_at("undo.copied");
        match copied {
            Ok(print) => {
                self.journal.append(&returning(Some(print)))?;
                sys::pause::pause_at("undo.returning");
                Ok(Ok(by))
            }
            Err(error) => {
                drop_own(&by);
                Ok(Err(error))
            }
        }
    }

    /// Undoes a replacement: of nothing, by moving away what was written; of a file, by exchanging it for
    /// the old one. What comes out is looked at, so that no concurrent change is lost.
    fn restore(
        &mut self,
        content: &Path,
        begun: &BegunStep,
        before: Option<&str>,
        after: &str,
    ) -> Result<Back, CollectError> {
        let path = begun.path.0.as_path();
        let failed = |error: io::Error| io_refusal(path, &error);
        let now = match hash_of(path) {
            Ok(now) => now,
            Err(error) => return Ok(Err(failed(error))),
        };
        if now.as_deref() == before && now.as_deref() != Some(after) {
            // Killed after it was put back and before that was written down.
            return Ok(Ok(path.to_owned()));
        }
        let is_ours = now.as_deref() == Some(after);
        let Some(before) = before else {
            return match is_ours {
                true => self.take_away(content, begun, after),
                false => Ok(Err(Refusal::Changed)),
            };
        };
        if !is_ours {
            return match self.when_taken {
                WhenTaken::Refuse => Ok(Err(Refusal::Changed)),
                WhenTaken::Beside => self.bring_back(content, begun),
            };
        }
        let back = match std::fs::canonicalize(path) {
            Err(error) => Err(error),
            Ok(path) => match self.copy_beside(content, &path, begun.step)? {
                Err(error) => Err(error),
                Ok(by) => {
                    let keep = &mut keep_written(content);
                    let back = exchange_back(&by, &path, (before, after), keep);
                    if back.is_err() {
                        self.tell_left(
                            &by,
                            begun.step,
                            "others wrote to it while it was put back",
                        )?;
                    }
                    back
                }
            },
        };
        if back.is_err() {
            self.journal.append(&JournalLine::Returned { step: begun.step })?;
        }
        Ok(back.map(|()| path.to_owned()).map_err(failed))
    }

    /// Writes down that another process's work has a private name now.
    fn tell_left(&mut self, by: &Path, step: u32, reason: &str) -> Result<(), CollectError> {
        if !is_there(by) {
            return Ok(());
        }
        let matter = undecided(reason.to_owned(), [by]);
        self.journal.append(&JournalLine::Undecided { step, matter })
    }

    /// Moves a file that was written where nothing was into the trash in its turn.
    fn take_away(
        &mut self,
        content: &Path,
        begun: &BegunStep,
        after: &str,
    ) -> Result<Back, CollectError> {
        let path = begun.path.0.as_path();
        let (step, written) = (begun.step, content.with_extension("written"));
        let by = journal::free_back_name(path, self.receipt, step);
        let to = JournalPath(written.clone());
        self.journal.append(&JournalLine::Returning {
            step,
            by: JournalPath(by.clone()),
            to,
            print: None,
        })?;
        // Under a name that no other process knows it is looked at, and not written to after that.
        let taken = sys::trash::rename_noreplace(path, &by).and_then(|()| {
            sys::pause::pause_at("undo.copied");
            let moved = move_written(&by, &written, after);
            if moved.is_err() {
                sys::pause::pause_at("undo.going-back");
                sys::trash::rename_noreplace(&by, path)?;
            }
            moved
        });
        if taken.is_err() {
            self.tell_left(
                &by,
                step,
                "it was to be taken away, and something else is in its place",
            )?;
            self.journal.append(&JournalLine::Returned { step })?;
        }
        Ok(taken.map(|()| path.to_owned()).map_err(|error| io_refusal(path, &error)))
    }

    /// Where something may come back to, the best first.
    fn places(&self, path: &Path) -> Vec<PathBuf> {
        let mut places = vec![path.to_owned()];
        if self.when_taken == WhenTaken::Beside {
            places.extend((1..MOST_BESIDE).map(|count| beside(path, self.receipt, count)));
        }
        places
    }

    /// Removes what is left of a step in the trash, now that it is in its place: a copy of it.
    fn clear_slot(&self, step: &JournalStep, place: &Path) {
        let content = journal::slot_content(self.home, self.receipt, &step.begun);
        let same = || sys::relocate::is_same_tree(&content, place).unwrap_or(false);
        if is_there(&content) && same() {
            drop_own(&content);
        }
        // Not empty means that something is in it: it stays until the trash is emptied.
        std::fs::remove_dir(journal::slot_directory(self.home, self.receipt, step.begun.step))
            .note_dropped("removing an empty slot");
    }

    fn tell(&self, begun: &BegunStep, back: Back) -> UndoneItem {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let path = begun.path.0.as_path();
        let content = journal::slot_content(self.home, self.receipt, begun);
        let beside_of = back.as_ref().ok().filter(|place| *place != path).map(|place| text(place));
        let refused = back.err().map(|refusal| {
            let mut view = RefusalView::from(&refusal);
            let other = matches!(refusal, Refusal::NameTaken { .. } | Refusal::Changed);
            if other && is_there(&content) {
                let receipt = self.receipt;
                view.remedy = format!(
                    "move that away and try again, or `ostler undo {receipt} --beside` puts it \
                     there as {}; it is kept as {}",
                    text(&beside(path, receipt, 1)),
                    text(&content)
                );
            }
            view
        });
        UndoneItem {
            kind: begun.kind,
            path: text(path),
            bytes: begun.bytes,
            beside: beside_of,
            kept_at: refused
                .is_some()
                .then_some(&content)
                .filter(|at| is_there(at))
                .map(|at| text(at)),
            refused,
        }
    }
}

/// Whether what a step took may be at a path again. Asked only where it is nowhere else.
fn may_be_at(begun: &BegunStep, path: &Path) -> bool {
    let found = begun.print.map(|print| find_at(&print, path));
    matches!(found, Some(FoundAt::Same | FoundAt::PerhapsSame))
}

/// A name for something whose own is taken: it says where it comes from.
fn beside(path: &Path, receipt: &str, count: u32) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    let short = receipt.split('-').next().unwrap_or(receipt);
    name.push(format!(".ostler-{short}"));
    if count > 1 {
        name.push(format!("-{count}"));
    }
    path.with_file_name(name)
}

/// Moves a file that was written where nothing was into the trash, if it is still just that.
fn move_written(by: &Path, written: &Path, after: &str) -> io::Result<()> {
    if hash_of(by)?.as_deref() != Some(after) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    sys::private::create_private_dir(slot_of(written)).map_err(io::Error::other)?;
    match sys::trash::rename_noreplace(by, written) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            sys::trash::copy_tree(by, written, ExistingName::Refuse)?;
            sys::pause::pause_at("undo.taken-copy");
            match sys::exchange::remove_known(by, &|found| super::hash(found) == after)? {
                true => Ok(()),
                // Another process had it open, and went on writing.
                false => {
                    drop_own(written);
                    Err(io::ErrorKind::WouldBlock.into())
                }
            }
        }
        moved => moved,
    }
}

/// Exchanges a file for its old content, which is at `by`, if it is still what was written then. After an
/// error, what is at `by` was written by another process.
fn exchange_back(
    by: &Path,
    path: &Path,
    (before, after): (&str, &str),
    keep: sys::exchange::KeepWritten<'_>,
) -> io::Result<()> {
    let is_after = |found: &[u8]| super::hash(found) == after;
    match sys::exchange::exchange_expected(path, by, &is_after, keep) {
        Ok(ExchangeOutcome::Replaced) => sys::trash::sync_directory_of(path),
        Ok(ExchangeOutcome::GivenBack | ExchangeOutcome::Parted) => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        // A file system that cannot: looked at first, with a moment in between.
        Err(error) if sys::exchange::is_unsupported(&error) => {
            if hash_of(path)?.as_deref() == Some(after) {
                return std::fs::rename(by, path);
            }
            drop_own(by);
            Err(io::ErrorKind::WouldBlock.into())
        }
        Err(error) => {
            // Only our own copy goes; anything else there by now belongs to another program.
            sys::exchange::remove_known(by, &|found| super::hash(found) == before)
                .note_dropped("removing a copy of its own");
            Err(error)
        }
    }
}

fn slot_of(content: &Path) -> &Path {
    content.parent().unwrap_or(content)
}
