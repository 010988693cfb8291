//! What lies in the trash: listing it, checking it, emptying it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::wire::{
    IncompleteSource, ReceiptView, TrashEmptied, TrashVerified, TrashedItem, UndecidedView,
};

use super::CollectError;
use super::in_use::{InUse, find_opened_file};
use super::journal::{self, Journal, JournalAction, JournalLine, JournalStep, Receipt, StepState};
use sys::dropped::NoteDropped;
use sys::machine::Machine;
use sys::writer_lock::WriterLock;

/// Every receipt, the newest first. One whose journal cannot be read is among what is missing.
pub fn list_receipts(home: &Path) -> (Vec<ReceiptView>, Vec<IncompleteSource>) {
    let (mut receipts, mut missing) = (Vec::new(), Vec::new());
    let names = journal::receipt_names(home).unwrap_or_else(|error| {
        missing.push(unreadable_trash(&error));
        Vec::new()
    });
    for name in names.into_iter().rev() {
        match journal::read_receipt(home, &name) {
            Ok(receipt) => receipts.push(receipt_view(home, &receipt)),
            Err(error) => missing.push(journal::incomplete_receipt(&name, &error)),
        }
    }
    (receipts, missing)
}

/// The trash itself cannot be looked into.
fn unreadable_trash(error: &CollectError) -> IncompleteSource {
    IncompleteSource { source: "trash".to_owned(), ..journal::incomplete_receipt("", error) }
}

fn receipt_view(home: &Path, receipt: &Receipt) -> ReceiptView {
    let item = |step: &JournalStep| TrashedItem {
        kind: step.begun.kind,
        path: text(&step.begun.path.0),
        action: match step.begun.action {
            JournalAction::Trash => "trashed",
            JournalAction::Rename { .. } => "renamed",
            JournalAction::Replace { .. } => "replaced",
            JournalAction::Discard => "discarded",
        }
        .to_owned(),
        state: state_name(receipt, step).to_owned(),
        why: step.begun.why.clone(),
        bytes: step.begun.bytes,
        undecided: decision(receipt, step),
        spare_copy: spare(home, receipt, step).map(|slot| text(&slot)),
    };
    let held = receipt.steps.iter().filter(|step| step.state == StepState::Done);
    let spare = receipt.steps.iter().filter_map(|step| spare(home, receipt, step));
    ReceiptView {
        receipt: receipt.id.clone(),
        command: receipt.command.clone(),
        at: receipt.at,
        undoable: receipt.is_undoable(),
        bytes: held.map(|step| step.begun.bytes).sum::<u64>()
            + spare.map(|slot| sys::trash::size_of(&slot)).sum::<u64>(),
        items: receipt.steps.iter().map(item).collect(),
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn state_name(receipt: &Receipt, step: &JournalStep) -> &'static str {
    if !step.kept_places(&receipt.id).is_empty() {
        return "undecided";
    }
    match step.state {
        StepState::Begun | StepState::Aside | StepState::Copied | StepState::Discarding => {
            "interrupted"
        }
        StepState::Done => "done",
        StepState::Failed(_) => "notDone",
        StepState::Undone => "undone",
        StepState::Emptied => "emptied",
    }
}

/// What a person must decide about a step, and how.
fn decision(receipt: &Receipt, step: &JournalStep) -> Option<UndecidedView> {
    let places = step.kept_places(&receipt.id);
    // A person who moved all of it away has decided.
    if places.is_empty() {
        return None;
    }
    let reason = match &step.undecided {
        Some(matter) => matter.reason.clone(),
        None => "it was left under a private name".to_owned(),
    };
    let id = &receipt.id;
    let remedy = match (step.can_be_undone(), &step.begun.action) {
        (true, JournalAction::Replace { before: None, .. }) | (false, _) => {
            "look at it, and keep what is yours".to_owned()
        }
        (true, _) => format!(
            "compare them, then `ostler undo {id} --beside` puts it beside what is in its place"
        ),
    };
    Some(UndecidedView {
        receipt: id.clone(),
        path: text(&step.begun.path.0),
        reason,
        places: places.iter().map(|place| text(place)).collect(),
        remedy,
    })
}

/// Everything that a person must decide.
pub fn undecided(home: &Path) -> Vec<UndecidedView> {
    let names = journal::receipt_names(home).unwrap_or_default();
    let receipts = names.iter().filter_map(|name| {
        journal::read_receipt(home, name).ok_or_note("a receipt with undecided steps")
    });
    receipts
        .flat_map(|receipt| {
            receipt.steps.iter().filter_map(|step| decision(&receipt, step)).collect::<Vec<_>>()
        })
        .collect()
}

/// The slot of a step in which something lies that is no longer needed: a copy of what is in its place,
/// or what was to be emptied when the process was killed.
fn spare(home: &Path, receipt: &Receipt, step: &JournalStep) -> Option<PathBuf> {
    let over = matches!(step.state, StepState::Failed(_) | StepState::Undone | StepState::Emptied);
    let slot = journal::slot_directory(home, &receipt.id, step.begun.step);
    let holds = || std::fs::read_dir(&slot).is_ok_and(|mut entries| entries.next().is_some());
    (over && step.kept_places(&receipt.id).is_empty() && holds()).then_some(slot)
}

/// Why a slot is not to be emptied: a process works in it, or writes to a file that it opened before that went. What it
/// writes now would be nowhere.
fn used_slot<'s>(slot: &'s Path, in_use: &InUse) -> Option<(&'s Path, String)> {
    let resolved = std::fs::canonicalize(slot).ok()?;
    let reason = match (in_use.find_user(&resolved), find_opened_file(&resolved)) {
        (Some(pid), _) => format!("pid {pid} uses it; end it, then try again"),
        (None, Ok(None)) => return None,
        (None, Ok(Some(path))) => {
            let path = path.strip_prefix(&resolved).unwrap_or(&path).display();
            format!("a process has {path} open; end it, then try again")
        }
        (None, Err(error)) => format!("it cannot be told whether it is in use: {error}"),
    };
    Some((slot, reason))
}

/// Removes for good what was trashed longer ago than `older_than`. Journals stay: they say what was.
pub fn empty_trash(
    writer: &WriterLock,
    older_than: Duration,
    machine: &Machine,
) -> Result<TrashEmptied, CollectError> {
    let (home, at) = (writer.home.as_path(), machine.now());
    super::recover_interrupted(writer, machine)?;
    let mut emptied = TrashEmptied { applied: true, ..TrashEmptied::default() };
    let mut in_use = None;
    for name in journal::receipt_names(home)? {
        let receipt = match journal::read_receipt(home, &name) {
            Ok(receipt) => receipt,
            Err(_) if journal::is_missing(home, &name) => continue,
            Err(error) => {
                emptied.failed.push(journal::incomplete_receipt(&name, &error));
                continue;
            }
        };
        let old = at.since(receipt.at) >= older_than;
        let holds = old && receipt.steps.iter().any(|step| step.state == StepState::Done);
        // What was said to be emptied is, however old: the process that said so was killed.
        let slots: Vec<PathBuf> = receipt
            .steps
            .iter()
            .filter_map(|step| match step.state {
                StepState::Done => {
                    old.then(|| journal::slot_directory(home, &name, step.begun.step))
                }
                StepState::Emptied => spare(home, &receipt, step),
                _ => spare(home, &receipt, step).filter(|_| old),
            })
            .collect();
        if slots.is_empty() {
            continue;
        }
        let in_use = in_use.get_or_insert_with(|| InUse::scan_processes(|_| false));
        if let Some((slot, reason)) = slots.iter().find_map(|slot| used_slot(slot, in_use)) {
            let source = format!("receipt {name}");
            emptied.failed.push(IncompleteSource { source, path: Some(text(slot)), reason });
            continue;
        }
        if holds {
            // Said first: from here on nothing of it can be undone, even if parts are still there.
            Journal::open(home, &name)?.append(&JournalLine::Emptied { at })?;
        }
        sys::pause::pause_at("trash.emptying");
        let mut gone = true;
        for slot in slots {
            let bytes = sys::trash::size_of(&slot);
            match sys::trash::remove_tree(&slot) {
                Ok(()) => emptied.bytes += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    gone = false;
                    emptied.failed.push(IncompleteSource {
                        source: format!("receipt {name}"),
                        path: Some(text(&slot)),
                        reason: error.to_string(),
                    });
                }
            }
        }
        if gone {
            emptied.receipts.push(name);
        }
    }
    Ok(emptied)
}

/// Checks that everything that was moved is where its journal says, and that nothing lies in the
/// trash that no journal tells of.
pub fn verify_trash(home: &Path) -> TrashVerified {
    let mut verified = TrashVerified {
        receipts: 0,
        items: 0,
        interrupted: 0,
        spare: 0,
        undecided: Vec::new(),
        problems: Vec::new(),
    };
    let names = journal::receipt_names(home).unwrap_or_else(|error| {
        verified.problems.push(unreadable_trash(&error));
        Vec::new()
    });
    for name in names {
        let mut problem = |path: Option<&Path>, reason: String| {
            verified.problems.push(IncompleteSource {
                source: format!("receipt {name}"),
                path: path.map(|path| path.to_string_lossy().into_owned()),
                reason,
            });
        };
        let receipt = match journal::read_receipt(home, &name) {
            Ok(receipt) => receipt,
            Err(error) => {
                if !journal::is_missing(home, &name) || !slot_numbers(home, &name).is_empty() {
                    verified.problems.push(journal::incomplete_receipt(&name, &error));
                }
                continue;
            }
        };
        verified.receipts += 1;
        for step in &receipt.steps {
            let content = journal::slot_content(home, &name, &step.begun);
            let lies_there = std::fs::symlink_metadata(&content).is_ok();
            let path = step.begun.path.0.as_path();
            verified.undecided.extend(decision(&receipt, step));
            verified.spare += u64::from(spare(home, &receipt, step).is_some());
            verified.interrupted += u64::from(step.is_open());
            let is_aside =
                step.aside.as_ref().is_some_and(|aside| std::fs::symlink_metadata(aside).is_ok());
            match (&step.state, &step.begun.action) {
                (StepState::Begun | StepState::Aside | StepState::Copied, action)
                    if !lies_there
                        && !is_aside
                        && std::fs::symlink_metadata(path).is_err()
                        && !matches!(
                            action,
                            JournalAction::Rename { .. } | JournalAction::Discard
                        ) =>
                {
                    problem(Some(path), "it is neither in its place nor in the trash".into());
                }
                (
                    StepState::Done,
                    JournalAction::Trash | JournalAction::Replace { before: Some(_), .. },
                ) => {
                    verified.items += 1;
                    if !lies_there && step.returning.is_none() {
                        problem(Some(path), "it is not in the trash any more".to_owned());
                    }
                }
                _ => {}
            }
        }
        for slot in slot_numbers(home, &name) {
            if !receipt.steps.iter().any(|step| step.begun.step == slot) {
                let slot = journal::slot_directory(home, &name, slot);
                problem(Some(&slot), "no journal tells of it".to_owned());
            }
        }
    }
    verified
}

fn slot_numbers(home: &Path, receipt: &str) -> Vec<u32> {
    let listed = std::fs::read_dir(journal::receipt_directory(home, receipt))
        .into_iter()
        .flatten()
        .flatten();
    listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
