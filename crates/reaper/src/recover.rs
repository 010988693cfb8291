//! Crash recovery: unfinished steps are rolled forward or back, by comparing the disk with the journal.
//! Idempotent: recovery that is killed itself is done again by the next run.
//!
//! Days may lie between a kill and this. What is where it was may have been worked on since, so nothing
//! that anybody may have written is removed here: a step either turns out to have been taken, or what it
//! moved gets its name back. Where that name is taken now, both stay and a person is told (see
//! [`Undecided`]). What may go after all is asked anew by the next run, with all its checks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use sys::dropped::NoteDropped;

use model::plan::Fingerprint;
use model::time::Time;
use model::wire::IncompleteSource;
use sys::exchange::ExchangeOutcome;
use sys::fingerprint::{FoundAt, find_at, is_at};
use sys::machine::Machine;
use sys::writer_lock::WriterLock;

use super::CollectError;
use super::journal::{
    self, BegunStep, Journal, JournalAction, JournalLine, JournalStep, Returning, StepState,
    Undecided, is_there,
};
use super::slot::{drop_own, hash_of, keep_written, partial, undecided};

/// What was settled, and what could not be.
#[derive(Debug, Default)]
pub struct Recovered {
    /// How many steps were settled.
    pub settled: usize,
    /// Receipts that could not be looked at or written to. Their content stays where it is.
    pub left: Vec<IncompleteSource>,
}

/// What a step turned out to be.
enum Found {
    /// It was taken.
    Done,
    /// It was not, or not any more: what it was about is in its place.
    NotDone(String),
    /// The same, and there is something to decide about what it left.
    NotDoneBut(Undecided),
    /// It was taken, and there is something to decide about what it left.
    DoneBut(Undecided),
    /// It is half done, and cannot be put back.
    Halfway(Undecided),
}

/// Whether a run may have been killed, or is at work now.
pub fn is_interrupted(home: &Path) -> bool {
    let names = journal::receipt_names(home).unwrap_or_default();
    names.iter().any(|name| !journal::is_missing(home, name) && !journal::is_settled(home, name))
}

/// The directories in which runs that were killed, or are at work now, changed something.
pub fn interrupted_directories(home: &Path) -> BTreeSet<PathBuf> {
    let names = journal::receipt_names(home).unwrap_or_default();
    let open = names.iter().filter(|name| !journal::is_settled(home, name));
    let receipts = open
        .filter_map(|name| journal::read_receipt(home, name).ok_or_note("a receipt that is open"));
    let steps = receipts.flat_map(|receipt| receipt.steps);
    steps.filter_map(|step| step.begun.path.0.parent().map(Path::to_owned)).collect()
}

/// Settles what a run left unfinished when it was killed: a step is completed if it had happened, and put
/// back if it had not. Only the writer may.
pub fn recover_interrupted(
    writer: &WriterLock,
    machine: &Machine,
) -> Result<Recovered, CollectError> {
    let home = writer.home.as_path();
    let mut recovered = Recovered::default();
    for name in journal::receipt_names(home)? {
        if journal::is_settled(home, &name) {
            continue;
        }
        let receipt = match journal::read_receipt(home, &name) {
            Ok(receipt) => receipt,
            // Killed before its first line was whole: nothing was moved.
            Err(_) if journal::is_missing(home, &name) => continue,
            Err(error) => {
                recovered.left.push(journal::incomplete_receipt(&name, &error));
                continue;
            }
        };
        let mut journal = match Journal::open(home, &name) {
            Ok(journal) => journal,
            Err(error) => {
                recovered.left.push(journal::incomplete_receipt(&name, &error));
                continue;
            }
        };
        for step in receipt.steps.iter().filter(|step| step.is_open()) {
            sys::pause::pause_at("recover.step");
            for line in settle(home, &name, step, machine) {
                journal.append(&line)?;
                sys::pause::pause_at("recover.said");
            }
            recovered.settled += 1;
        }
        journal.append(&JournalLine::End { at: machine.read_clock() })?;
    }
    Ok(recovered)
}

/// What is to be written down about a step.
fn settle(home: &Path, receipt: &str, step: &JournalStep, machine: &Machine) -> Vec<JournalLine> {
    let number = step.begun.step;
    if let Some(lock) = &step.begun.lock {
        // Held by the killed process: no other releases it.
        sys::lockfile::let_go_of(&lock.path.0, &lock.print);
    }
    if let Some(returning) = &step.returning {
        return settle_return(home, receipt, step, returning, machine.read_clock());
    }
    match settle_outcome(home, receipt, step) {
        Found::Done => vec![JournalLine::Done { step: number }],
        Found::NotDone(reason) => vec![JournalLine::Failed { step: number, reason }],
        Found::NotDoneBut(matter) => {
            let reason = matter.reason.clone();
            vec![
                JournalLine::Undecided { step: number, matter },
                JournalLine::Failed { step: number, reason },
            ]
        }
        Found::DoneBut(matter) => {
            vec![
                JournalLine::Undecided { step: number, matter },
                JournalLine::Done { step: number },
            ]
        }
        Found::Halfway(matter) => vec![JournalLine::Undecided { step: number, matter }],
    }
}

fn settle_outcome(home: &Path, receipt: &str, step: &JournalStep) -> Found {
    let begun = &step.begun;
    let content = journal::slot_content(home, receipt, begun);
    let found = match &begun.action {
        JournalAction::Trash => trash_outcome(step, receipt, &content),
        JournalAction::Rename { to } => match begun.print.map(|print| find_at(&print, &to.0)) {
            Some(FoundAt::Same | FoundAt::PerhapsSame) => Found::Done,
            _ => not_taken(),
        },
        JournalAction::Replace { before, after } => {
            replace_outcome(begun, receipt, &content, before.as_ref(), after)
        }
        JournalAction::Discard if step.state == StepState::Discarding => {
            let left = step.aside.as_deref().unwrap_or(&begun.path.0);
            match is_there(left) {
                // Nothing is removed here: the sweep of such things finds it by this name.
                true => Found::NotDone(format!(
                    "it was interrupted half-way; the rest is at {}, for the next run",
                    left.display()
                )),
                false => Found::Done,
            }
        }
        JournalAction::Discard => match &step.aside {
            Some(aside) if is_there(aside) => put_back(step, receipt, aside, &content),
            _ if is_there(&begun.path.0) => not_taken(),
            _ => Found::Done,
        },
    };
    if let Some(slot) = content.parent() {
        // Not empty means that something is in it: it stays.
        std::fs::remove_dir(slot).note_dropped("removing an empty slot");
    }
    found
}

fn not_taken() -> Found {
    Found::NotDone("it was interrupted before anything happened".to_owned())
}

fn trash_outcome(step: &JournalStep, receipt: &str, content: &Path) -> Found {
    let begun = &step.begun;
    if let Some(aside) = &step.aside
        && is_there(aside)
    {
        return put_back(step, receipt, aside, content);
    }
    let path = &begun.path.0;
    let found = match &begun.print {
        Some(print) => find_at(print, path),
        None if is_there(path) => FoundAt::PerhapsSame,
        None => FoundAt::Nothing,
    };
    if !is_there(content) {
        return untaken_outcome(found, &partial(content));
    }
    match found {
        // The original counts: it may have been worked on. The copy goes when the trash is emptied.
        FoundAt::Same => in_its_place(),
        FoundAt::PerhapsSame | FoundAt::Another if !is_moved(step, content) => {
            match sys::relocate::is_same_tree(content, path) {
                Ok(true) => in_its_place(),
                _ => {
                    let reason = "it was interrupted, and something else may be in its place now";
                    Found::Halfway(undecided(reason.to_owned(), [content]))
                }
            }
        }
        FoundAt::PerhapsSame | FoundAt::Another | FoundAt::Nothing => {
            let written = is_moved(step, content)
                && !sys::fingerprint::of_path(content)
                    .is_ok_and(|now| begun.print.is_some_and(|print| print.is_same(&now)));
            // Written to in the moment in which it was moved: it goes back, as it would have.
            if written && sys::trash::rename_noreplace(content, path).is_ok() {
                return Found::NotDone("it was written to while it was moved".to_owned());
            }
            Found::Done
        }
    }
}

fn in_its_place() -> Found {
    Found::NotDone("it is in its place; a copy is in the trash".to_owned())
}

/// Whether the thing itself lies in its slot, by one rename.
fn is_moved(step: &JournalStep, content: &Path) -> bool {
    step.state == StepState::Begun && step.begun.print.is_some_and(|print| is_at(&print, content))
}

/// Nothing whole lies in the trash. A copy that was being made goes only while what it was made of is in its place.
fn untaken_outcome(found: FoundAt, partial: &Path) -> Found {
    if found == FoundAt::Same {
        drop_own(partial);
    }
    if !is_there(partial) {
        return not_taken();
    }
    let reason = "it was interrupted while it was copied, and is not known to be in its place";
    Found::NotDoneBut(undecided(reason.to_owned(), [partial]))
}

/// Gives what was set aside its name again, with everything that was taken out of it.
fn put_back(step: &JournalStep, receipt: &str, aside: &Path, content: &Path) -> Found {
    let path = &step.begun.path.0;
    if !step.begun.print.is_some_and(|print| is_at(&print, aside)) {
        let reason = "something else has the name that it was set aside by".to_owned();
        return Found::Halfway(undecided(reason, places(aside, content)));
    }
    if step.state == StepState::Copied && is_there(content) {
        let private = journal::private_name(receipt, step.begun.step);
        if let Err(error) = sys::relocate::complete_tree(content, aside, private.as_ref()) {
            let reason = format!("it is half moved, and cannot be put together again: {error}");
            return Found::Halfway(undecided(reason, places(aside, content)));
        }
    }
    // It is whole here, under whichever name: a copy that was being made of it is of no use.
    drop_own(&partial(content));
    sys::pause::pause_at("recover.completed");
    match sys::trash::rename_noreplace(aside, path) {
        Ok(()) => Found::NotDone("it was interrupted, and is in its place again".to_owned()),
        Err(error) => {
            let why = super::io_refusal(path, &error).reason_text();
            let reason = format!("it was interrupted, and could not be put back: {why}");
            Found::Halfway(undecided(reason, places(aside, content)))
        }
    }
}

fn places<'p>(aside: &'p Path, content: &'p Path) -> Vec<&'p Path> {
    [aside, content].into_iter().filter(|place| is_there(place)).collect()
}

/// Three cases: it is as it was; it is as it was to become; or it was replaced and has changed since.
fn replace_outcome(
    begun: &BegunStep,
    receipt: &str,
    content: &Path,
    before: Option<&String>,
    after: &str,
) -> Found {
    let path = &begun.path.0;
    let exchanged = journal::private_beside_target(path, receipt, begun.step);
    // What has this name never was in any place.
    drop_own(&sys::exchange::unfinished_name(&exchanged));
    if let Some(theirs) = give_back_exchanged(path, &exchanged, content, before, after) {
        return theirs;
    }
    drop_own(&partial(content));
    let now = match hash_of(path) {
        Ok(now) => now,
        Err(error) => {
            let reason = format!("it cannot be told whether it was replaced: {error}");
            return Found::DoneBut(undecided(reason, [content]));
        }
    };
    if now.as_deref() == Some(after) {
        return Found::Done;
    }
    if now.as_ref() == before {
        return not_taken();
    }
    match (before, hash_of(content)) {
        // Replacing comes after keeping a copy of just that.
        (Some(before), Ok(Some(kept))) if kept == *before => {
            let reason = "it was replaced, and has been changed since".to_owned();
            Found::DoneBut(undecided(reason, [content]))
        }
        (None, _) => Found::DoneBut(undecided(
            "it was written where nothing was, and has been changed since".to_owned(),
            [path.as_path()],
        )),
        _ => not_taken(),
    }
}

/// Looks at what has the private name by which new content comes to its place. Before the exchange that
/// is the new content, after it the old. Anything else was written by another process in the moment of the
/// exchange: it gets its name back, or stays and is told of.
fn give_back_exchanged(
    path: &Path,
    exchanged: &Path,
    content: &Path,
    before: Option<&String>,
    after: &str,
) -> Option<Found> {
    let is_kept = before.is_some() && hash_of(content).is_ok_and(|kept| kept.as_ref() == before);
    let is_after = |found: &[u8]| super::hash(found) == after;
    let is_known = |found: &[u8]| {
        is_after(found) || (is_kept && before.is_some_and(|before| super::hash(found) == *before))
    };
    if sys::exchange::remove_known(exchanged, &is_known).unwrap_or(false) {
        return None;
    }
    sys::pause::pause_at("recover.theirs");
    let in_place = hash_of(path).is_ok_and(|now| now.as_deref() == Some(after));
    if in_place {
        let keep = &mut keep_written(content);
        let given = sys::exchange::give_back(path, exchanged, &is_after, keep);
        if given.is_ok_and(|given| given == ExchangeOutcome::GivenBack) {
            sys::trash::sync_directory_of(path).note_dropped("syncing a directory");
            return Some(Found::NotDone("it was written to while it was replaced".to_owned()));
        }
    }
    let reason = "it was written to in the moment in which it was replaced".to_owned();
    Some(Found::DoneBut(undecided(reason, places(exchanged, content))))
}

/// Whether something that was on its way back has come back. Until then all of it is where it lay.
fn settle_return(
    home: &Path,
    receipt: &str,
    step: &JournalStep,
    returning: &Returning,
    at: Time,
) -> Vec<JournalLine> {
    let number = step.begun.step;
    let Returning { by, to, print } = returning;
    let (came_back, lies_there) = (
        || vec![JournalLine::Undone { step: number, at }],
        || vec![JournalLine::Returned { step: number }],
    );
    let kept = |reason: &str, then: Vec<JournalLine>| {
        let matter = undecided(reason.to_owned(), [by.as_path()]);
        std::iter::once(JournalLine::Undecided { step: number, matter }).chain(then).collect()
    };
    let content = journal::slot_content(home, receipt, &step.begun);
    let has_arrived = || print.is_some_and(|print| has_arrived(&print, to, &content));
    let arrived = has_arrived();
    match &step.begun.action {
        // On its way from its place: it goes back there, and undoing begins anew.
        JournalAction::Replace { before: None, .. } => match is_there(by) {
            true if sys::trash::rename_noreplace(by, &step.begun.path.0).is_err() => {
                kept("it was to be taken away, and something else is in its place", lies_there())
            }
            _ => lies_there(),
        },
        JournalAction::Replace { before: Some(before), after } => {
            let is_before = |found: &[u8]| super::hash(found) == *before;
            let is_known = |found: &[u8]| is_before(found) || super::hash(found) == *after;
            if print.is_none() {
                // It was still being copied.
                drop_own(by);
            }
            if sys::exchange::remove_known(by, &is_known).unwrap_or(false) {
                return if arrived { came_back() } else { lies_there() };
            }
            sys::pause::pause_at("recover.theirs");
            // What came out of its place was another process's work: it goes back, if what is there is the old file.
            let old = hash_of(to).is_ok_and(|now| now.as_ref() == Some(before));
            if arrived && old {
                let keep = &mut keep_written(&content);
                let given = sys::exchange::give_back(to, by, &is_before, keep);
                if given.is_ok_and(|given| given == ExchangeOutcome::GivenBack) {
                    sys::trash::sync_directory_of(to).note_dropped("syncing a directory");
                    return lies_there();
                }
            }
            let arrived = has_arrived();
            let reason = "it was changed in the moment in which its old content came back";
            kept(reason, if arrived { came_back() } else { lies_there() })
        }
        _ if arrived => came_back(),
        _ => {
            if is_there(&content) {
                drop_own(by);
            }
            lies_there()
        }
    }
}

/// Whether what was on its way back is at `to`. Where nobody can tell, it is if it is the same as what lies in the
/// trash, or if nothing lies there any more.
fn has_arrived(print: &Fingerprint, to: &Path, content: &Path) -> bool {
    match find_at(print, to) {
        FoundAt::Same => true,
        FoundAt::PerhapsSame => {
            !is_there(content) || sys::relocate::is_same_tree(content, to).unwrap_or(false)
        }
        FoundAt::Another | FoundAt::Nothing => false,
    }
}
