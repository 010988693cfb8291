//! Finding out what became of steps that nobody finished, and finishing them.

use std::path::Path;

use model::wire::Incomplete;
use sys::fingerprint::is_at;

use super::CollectError;
use super::apply::{partial, remove_original};
use super::journal::{self, Action, Begun, Journal, Line, State};

/// What was settled, and what could not be.
#[derive(Debug, Default)]
pub struct Recovered {
    /// How many steps were settled.
    pub settled: usize,
    /// Receipts that could not be looked at or written to. Whatever they hold stays where it is.
    pub left: Vec<Incomplete>,
}

/// Whether a run may have been killed, or is at work now.
pub fn is_interrupted(home: &Path) -> bool {
    let names = journal::names(home).unwrap_or_default();
    names.iter().any(|name| !journal::is_missing(home, name) && !journal::is_settled(home, name))
}

/// Finishes what a run left unfinished when it was killed: a step is completed if it had happened,
/// and put back if it had not. Only the writer may.
pub fn recover(home: &Path) -> Result<Recovered, CollectError> {
    let mut recovered = Recovered::default();
    for name in journal::names(home)? {
        if journal::is_settled(home, &name) {
            continue;
        }
        let receipt = match journal::read(home, &name) {
            Ok(receipt) => receipt,
            // Killed before its first line was whole: nothing was moved.
            Err(_) if journal::is_missing(home, &name) => continue,
            Err(error) => {
                recovered.left.push(journal::incomplete(&name, &error));
                continue;
            }
        };
        let_go_beside(&receipt.steps);
        let end = Line::End { at: sys::clock::now() };
        if !receipt.is_unfinished() {
            // Every step was settled, but for saying so.
            let _ = Journal::open(home, &name).and_then(|mut journal| journal.add(&end));
            continue;
        }
        let mut journal = match Journal::open(home, &name) {
            Ok(journal) => journal,
            Err(error) => {
                recovered.left.push(journal::incomplete(&name, &error));
                continue;
            }
        };
        for step in receipt.steps {
            if !matches!(step.state, State::Begun | State::Copied) {
                continue;
            }
            sys::pause::at("recover.step");
            let number = step.begun.step;
            let line = match outcome(home, &name, &step.begun, &step.state) {
                Ok(()) => Line::Done { step: number },
                Err(reason) => Line::Failed { step: number, reason },
            };
            journal.add(&line)?;
            recovered.settled += 1;
        }
        journal.add(&end)?;
    }
    Ok(recovered)
}

/// Lets go of OpenClaw's locks that the killed run held beside what it was at.
fn let_go_beside(steps: &[journal::Step]) {
    let parents = steps.iter().filter_map(|step| step.begun.path.0.parent());
    let directories: std::collections::BTreeSet<&Path> = parents.collect();
    let observer = sys::proc::observer();
    for directory in directories {
        crate::openclaw::locks::let_go_in(directory, &observer);
    }
}

/// Whether a step is taken now, or why it is not.
fn outcome(home: &Path, receipt: &str, begun: &Begun, state: &State) -> Result<(), String> {
    let not_taken = || "it was interrupted before anything happened".to_owned();
    let path = &begun.path.0;
    let content = journal::content(home, receipt, begun);
    match &begun.action {
        Action::Trash => {
            // A copy that did not become whole is worth nothing: the original is where it was.
            let _ = sys::trash::remove(&partial(&content));
            let lies_there = std::fs::symlink_metadata(&content).is_ok();
            let is_original = begun.print.is_some_and(|print| is_at(&print, path));
            match (lies_there, is_original, state) {
                (true, true, State::Copied) => {
                    remove_original(path, &content).map_err(|refusal| refusal.reason())
                }
                // Whole by its name, but it was not written down: the original counts.
                (true, true, _) => {
                    let _ = sys::trash::remove(&content);
                    forget_slot(&content);
                    Err(not_taken())
                }
                (true, false, _) => Ok(()),
                (false, ..) => {
                    forget_slot(&content);
                    Err(not_taken())
                }
            }
        }
        Action::Rename { to } => {
            let renamed = begun.print.is_some_and(|print| is_at(&print, &to.0));
            if renamed { Ok(()) } else { Err(not_taken()) }
        }
        Action::Replace { after, .. } => {
            let now = std::fs::read(path).ok().map(|bytes| super::hash(&bytes));
            if now.as_ref() == Some(after) {
                return Ok(());
            }
            let _ = sys::trash::remove(&content);
            forget_slot(&content);
            Err(not_taken())
        }
        Action::Discard => match std::fs::symlink_metadata(path) {
            Err(_) => Ok(()),
            Ok(_) => Err(not_taken()),
        },
    }
}

fn forget_slot(content: &Path) {
    if let Some(slot) = content.parent() {
        // Not empty means that something is in it: it stays.
        let _ = std::fs::remove_dir(slot);
    }
}
