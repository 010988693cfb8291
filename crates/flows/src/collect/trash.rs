//! What lies in the trash: listing it, checking it, emptying it.

use std::path::Path;
use std::time::Duration;

use model::time::Time;
use model::wire::{Incomplete, ReceiptView, TrashEmptied, TrashVerified, TrashedItem};

use super::CollectError;
use super::journal::{self, Action, Journal, Line, Receipt, State, Step};
use crate::writer::Writer;

/// Every receipt, the newest first. One whose journal cannot be read is among what is missing.
pub fn list(home: &Path) -> (Vec<ReceiptView>, Vec<Incomplete>) {
    let (mut receipts, mut missing) = (Vec::new(), Vec::new());
    let names = journal::names(home).unwrap_or_else(|error| {
        missing.push(closed(&error));
        Vec::new()
    });
    for name in names.into_iter().rev() {
        match journal::read(home, &name) {
            Ok(receipt) => receipts.push(view(&receipt)),
            Err(error) => missing.push(journal::incomplete(&name, &error)),
        }
    }
    (receipts, missing)
}

/// The trash itself cannot be looked into.
fn closed(error: &CollectError) -> Incomplete {
    Incomplete { source: "trash".to_owned(), ..journal::incomplete("", error) }
}

fn view(receipt: &Receipt) -> ReceiptView {
    let item = |step: &Step| TrashedItem {
        kind: step.begun.kind,
        path: step.begun.path.0.to_string_lossy().into_owned(),
        action: match step.begun.action {
            Action::Trash => "trashed",
            Action::Rename { .. } => "renamed",
            Action::Replace { .. } => "replaced",
            Action::Discard => "discarded",
        }
        .to_owned(),
        state: word(&step.state).to_owned(),
        why: step.begun.why.clone(),
        bytes: step.begun.bytes,
    };
    let held = receipt.steps.iter().filter(|step| step.state == State::Done);
    ReceiptView {
        receipt: receipt.id.clone(),
        command: receipt.command.clone(),
        at: receipt.at,
        undoable: receipt.is_undoable(),
        bytes: held.map(|step| step.begun.bytes).sum(),
        items: receipt.steps.iter().map(item).collect(),
    }
}

const fn word(state: &State) -> &'static str {
    match state {
        State::Begun | State::Copied => "interrupted",
        State::Done => "done",
        State::Failed(_) => "notDone",
        State::Undone => "undone",
        State::Emptied => "emptied",
    }
}

/// Removes for good what was trashed longer ago than `older_than`. Journals stay: they say what was.
pub fn empty(
    writer: &Writer,
    older_than: Duration,
    at: Time,
) -> Result<TrashEmptied, CollectError> {
    let home = writer.home.as_path();
    super::recover(home)?;
    let mut emptied = TrashEmptied { applied: true, ..TrashEmptied::default() };
    for name in journal::names(home)? {
        let receipt = match journal::read(home, &name) {
            Ok(receipt) => receipt,
            Err(_) if journal::is_missing(home, &name) => continue,
            Err(error) => {
                emptied.failed.push(journal::incomplete(&name, &error));
                continue;
            }
        };
        let holds = receipt.steps.iter().any(|step| step.state == State::Done);
        if !holds || at.since(receipt.at) < older_than {
            continue;
        }
        // Said first: from here on nothing of it can be undone, whatever is still there.
        Journal::open(home, &name)?.add(&Line::Emptied { at })?;
        sys::pause::at("trash.emptying");
        let mut gone = true;
        for step in receipt.steps.iter().filter(|step| step.state == State::Done) {
            let slot = journal::slot(home, &name, step.begun.step);
            let bytes = sys::trash::size_of(&slot);
            match sys::trash::remove(&slot) {
                Ok(()) => emptied.bytes += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    gone = false;
                    emptied.failed.push(Incomplete {
                        source: format!("receipt {name}"),
                        path: Some(slot.to_string_lossy().into_owned()),
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
pub fn verify(home: &Path) -> TrashVerified {
    let mut verified =
        TrashVerified { receipts: 0, items: 0, interrupted: 0, problems: Vec::new() };
    let names = journal::names(home).unwrap_or_else(|error| {
        verified.problems.push(closed(&error));
        Vec::new()
    });
    for name in names {
        let mut problem = |path: Option<&Path>, reason: String| {
            verified.problems.push(Incomplete {
                source: format!("receipt {name}"),
                path: path.map(|path| path.to_string_lossy().into_owned()),
                reason,
            });
        };
        let receipt = match journal::read(home, &name) {
            Ok(receipt) => receipt,
            Err(error) => {
                if !journal::is_missing(home, &name) || !slots(home, &name).is_empty() {
                    verified.problems.push(journal::incomplete(&name, &error));
                }
                continue;
            }
        };
        verified.receipts += 1;
        for step in &receipt.steps {
            let content = journal::content(home, &name, &step.begun);
            let lies_there = std::fs::symlink_metadata(&content).is_ok();
            let path = step.begun.path.0.as_path();
            match (&step.state, &step.begun.action) {
                (State::Begun | State::Copied, _) => {
                    verified.interrupted += 1;
                    if !lies_there
                        && std::fs::symlink_metadata(path).is_err()
                        && !matches!(step.begun.action, Action::Rename { .. } | Action::Discard)
                    {
                        problem(Some(path), "it is neither in its place nor in the trash".into());
                    }
                }
                (State::Done, Action::Trash | Action::Replace { before: Some(_), .. }) => {
                    verified.items += 1;
                    if !lies_there {
                        problem(Some(path), "it is not in the trash any more".to_owned());
                    }
                }
                (State::Failed(_), Action::Trash) if lies_there => {
                    problem(
                        Some(&content),
                        "it was not removed, yet a copy is in the trash".into(),
                    );
                }
                _ => {}
            }
        }
        for slot in slots(home, &name) {
            if !receipt.steps.iter().any(|step| step.begun.step == slot) {
                let slot = journal::slot(home, &name, slot);
                problem(Some(&slot), "no journal tells of it".to_owned());
            }
        }
    }
    verified
}

fn slots(home: &Path, receipt: &str) -> Vec<u32> {
    let listed = std::fs::read_dir(journal::place(home, receipt)).into_iter().flatten().flatten();
    listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
