//! The reaper: the one way in which anything is removed, renamed or replaced for good.
//!
//! Plan, consent, then for each item: lock, recheck, journal, move to the trash, journal. What was
//! moved lies beside the journal that tells of it, in `trash/<receipt>/`, so that a receipt is whole
//! by itself: it can be undone without the store, and read by a person without ostler.
//!
//! Killed at any point, the journal says what was begun; the next run finds out what became of it
//! (see [`recover_interrupted`]), without removing anything. Nothing is ever in neither place, and what others write
//! meanwhile is never lost: where it is in the way, both stay, and a person is told (see [`Undecided`]).

use std::path::{Path, PathBuf};

use model::failure::{Failure, FailureKind};

mod apply;
mod discard;
mod in_use;
mod journal;
mod recheck;
mod recover;
mod slot;
mod trash;
mod undo;

pub use apply::Reaper;
pub use discard::DiscardedDirectory;
pub use in_use::{InUse, check_unopened};
pub use journal::slot_content;
pub use journal::{
    JournalAction, JournalStep, LockNote, Receipt, StepState, Undecided, read_receipt,
};
pub use recheck::io_refusal;
pub use recheck::{CheckedRemoval, PlannedRemoval, recheck_planned};
pub use recover::{Recovered, interrupted_directories, is_interrupted, recover_interrupted};
use sys::hash::sha256 as hash;
pub use trash::{empty_trash, list_receipts, undecided, verify_trash};
pub use undo::{WhenTaken, undo_receipt};

/// Why the reaper cannot work at all. What becomes of a single item is a `Refusal`.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The journal cannot be written or read: nothing is moved without it.
    #[error("the journal {} cannot be used: {reason}", path.display())]
    Journal { path: PathBuf, reason: String },
    /// There is no such receipt.
    #[error("there is no receipt `{0}`")]
    NoReceipt(String),
    /// No run took anything that is still in the trash.
    #[error("there is nothing to undo")]
    NothingToUndo,
    /// Several receipts begin like that.
    #[error("`{text}` could be several receipts")]
    Ambiguous {
        /// What was asked for.
        text: String,
        /// What it could be.
        candidates: Vec<String>,
    },
}

/// Where everything lies that was moved away.
pub fn trash_directory(home: &Path) -> PathBuf {
    home.join("trash")
}

impl From<CollectError> for Failure {
    fn from(error: CollectError) -> Self {
        let (kind, hint) = match &error {
            CollectError::Journal { .. } => {
                (FailureKind::Write, "check that path and its permissions, then try again")
            }
            CollectError::NoReceipt(_) | CollectError::NothingToUndo => {
                (FailureKind::NotFound, "`ostler trash ls` lists the receipts")
            }
            CollectError::Ambiguous { .. } => (FailureKind::Input, "type more of the receipt"),
        };
        Self { kind, message: error.to_string(), hint: hint.to_owned() }
    }
}
