//! Putting back what a run took away.

use std::io;
use std::path::Path;

use model::plan::Refusal;
use model::time::Time;
use model::wire::{UndoResult, UndoneItem};
use sys::fingerprint::is_at;
use sys::trash::Existing;

use super::CollectError;
use super::journal::{self, Action, Begun, Journal, Line, State};
use super::recheck::refusal;
use crate::writer::Writer;

/// Undoes a run, the last step first: the one named, or the last one of which something can be
/// undone. What cannot be put back stays in the trash, and is said.
pub fn undo(writer: &Writer, receipt: Option<&str>, at: Time) -> Result<UndoResult, CollectError> {
    let home = writer.home.as_path();
    super::recover(home)?;
    let name = match receipt {
        Some(text) => journal::find(home, text)?,
        None => latest(home)?,
    };
    let receipt = journal::read(home, &name)?;
    let mut journal = Journal::open(home, &name)?;
    let mut result =
        UndoResult { receipt: name.clone(), command: receipt.command.clone(), items: Vec::new() };
    for step in receipt.steps.iter().rev() {
        let begun = &step.begun;
        let refused = match step.state {
            State::Done => put_back(home, &name, begun).err(),
            State::Emptied => Some(Refusal::Emptied),
            _ => continue,
        };
        if refused.is_none() {
            sys::pause::at("undo.put-back");
            journal.add(&Line::Undone { step: begun.step, at })?;
            // It is back in its place; what is left of its slot is empty, or a copy of it.
            let _ = sys::trash::remove(&journal::slot(home, &name, begun.step));
        }
        result.items.push(UndoneItem {
            kind: begun.kind,
            path: begun.path.0.to_string_lossy().into_owned(),
            bytes: begun.bytes,
            refused: refused.map(|refusal| (&refusal).into()),
        });
    }
    Ok(result)
}

fn latest(home: &Path) -> Result<String, CollectError> {
    for name in journal::names(home)?.into_iter().rev() {
        match journal::read(home, &name) {
            Ok(receipt) if receipt.is_undoable() => return Ok(name),
            Ok(_) => {}
            Err(_) if journal::is_missing(home, &name) => {}
            // It may be the last one, and an earlier one is not what was asked for.
            Err(error) => return Err(error),
        }
    }
    Err(CollectError::NothingToUndo)
}

fn put_back(home: &Path, receipt: &str, begun: &Begun) -> Result<(), Refusal> {
    let path = &begun.path.0;
    let content = journal::content(home, receipt, begun);
    let failed = |error: io::Error| refusal(path, &error);
    match &begun.action {
        Action::Trash => {
            let missing = std::fs::symlink_metadata(&content).is_err();
            if missing && begun.print.is_some_and(|print| is_at(&print, path)) {
                // Killed after it was put back and before that was written down.
                return Ok(());
            }
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(failed)?;
            }
            move_back(&content, path).map_err(failed)
        }
        Action::Rename { to } => {
            if begun.print.is_some_and(|print| is_at(&print, path)) {
                return Ok(());
            }
            sys::trash::rename(&to.0, path).map_err(failed)
        }
        Action::Replace { before, after } => {
            let now = match std::fs::read(path) {
                Ok(bytes) => Some(super::hash(&bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(failed(error)),
            };
            if now == *before && now.as_ref() != Some(after) {
                // Killed after it was put back and before that was written down.
                return Ok(());
            }
            if now.as_ref() != Some(after) {
                return Err(Refusal::Changed);
            }
            match before {
                // It was written where nothing was: it is kept in the trash in its turn.
                None => move_back(path, &content.with_extension("written")).map_err(failed),
                Some(_) => restore_content(&content, path).map_err(failed),
            }
        }
        Action::Discard => Ok(()),
    }
}

/// Moves something to a place where nothing is, across devices if it must.
fn move_back(from: &Path, to: &Path) -> io::Result<()> {
    match sys::trash::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        moved => return moved,
    }
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let partial = to.with_file_name(format!(".{name}.undo-{}", std::process::id()));
    let copied = sys::trash::copy(from, &partial, Existing::Refuse)
        .and_then(|()| sys::trash::rename(&partial, to));
    if copied.is_err() {
        let _ = sys::trash::remove(&partial);
    }
    copied
}

/// Puts the old file in the place of the new one, with its mode and times.
fn restore_content(content: &Path, path: &Path) -> io::Result<()> {
    let path = std::fs::canonicalize(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.undo-{}", std::process::id()));
    let restored = sys::trash::copy(content, &beside, Existing::Refuse)
        .and_then(|()| std::fs::rename(&beside, &path));
    if restored.is_err() {
        let _ = sys::trash::remove(&beside);
    }
    restored?;
    sys::trash::sync_directory_of(&path)
}
