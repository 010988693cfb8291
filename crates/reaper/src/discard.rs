//! Discarding: removing for good what must not come back, as a credential that was lent. The journal and
//! the receipt say so; there is no copy, and nothing to undo.
//!
//! A private directory goes by descriptors, so that a link that is put in its way is never followed: it
//! gets a name out of the way, is looked at once more, and then goes file by file, as far as each is
//! what was checked. Killed before the first file, it gets its name back; killed after it, what is left
//! stays out of the way for the next run.

use std::ffi::OsStr;
use std::io;

use model::plan::Refusal;
use sys::private::{InodeFacts, PrivateDir};

use super::CheckedRemoval;
use super::apply::{Outcome, Reaper, StepResult};
use super::journal::{JournalAction, JournalLine, JournalPath};
use super::recheck::io_refusal;

/// A private directory that is to be discarded, as it was checked.
#[derive(Debug)]
pub struct DiscardedDirectory<'a> {
    /// The directory that it is in.
    pub parent: &'a PrivateDir,
    /// The name that it has there while it goes.
    pub aside: &'a OsStr,
    /// The directory itself.
    pub directory: &'a PrivateDir,
    /// What the directory is.
    pub facts: &'a InodeFacts,
    /// Everything in it, in the order in which it goes.
    pub files: Vec<(&'static str, InodeFacts)>,
}

impl Reaper<'_> {
    /// Removes a private directory for good. `look` is the last look, when nothing finds the directory by
    /// its path any more.
    pub fn discard_directory(
        &mut self,
        checked: &CheckedRemoval<'_>,
        going: &DiscardedDirectory<'_>,
        look: &mut dyn FnMut() -> Result<(), Refusal>,
    ) -> StepResult {
        let path = &checked.planned.path;
        let name = path.file_name().unwrap_or_default();
        let begun = self.begin_step(checked, JournalAction::Discard)?;
        let step = begun.step;
        // What an earlier run left out of the way is there already.
        let moves = name != going.aside;
        if moves {
            let aside = JournalPath(path.with_file_name(going.aside));
            self.open_journal()?.append(&JournalLine::Aside { step, name: aside })?;
            if let Err(error) = going.parent.rename_noreplace(name, going.aside) {
                return self.settle_step(begun, Outcome::Stays(io_refusal(path, &error)));
            }
        }
        let looked = if going.is_still() { look() } else { Err(Refusal::Changed) };
        if let Err(refusal) = looked {
            if moves && let Err(error) = going.parent.rename_noreplace(going.aside, name) {
                tracing::debug!(%error, "a directory could not get its name back");
            }
            return self.settle_step(begun, Outcome::Stays(refusal));
        }
        self.open_journal()?.append(&JournalLine::Discarding { step })?;
        self.settle_step(begun, going.remove().into())
    }
}

impl DiscardedDirectory<'_> {
    /// Whether the name out of the way still stands for this very directory.
    fn is_still(&self) -> bool {
        let now = self.parent.facts_of(self.aside);
        now.is_ok_and(|now| now.is_some_and(|now| now.is_same(self.facts)))
    }

    fn remove(&self) -> Result<(), Refusal> {
        let failed = |what: &OsStr| {
            let what = what.to_string_lossy().into_owned();
            move |error: io::Error| Refusal::Undeletable { why: format!("{what}: {error}") }
        };
        for (name, before) in &self.files {
            let name = OsStr::new(name);
            if self.directory.facts_of(name).map_err(failed(name))?.as_ref() != Some(before) {
                return Err(Refusal::Changed);
            }
            self.directory.unlink_name(name).map_err(failed(name))?;
            sys::pause::pause_at("reap.discarded-file");
        }
        if !self.is_still() {
            return Err(Refusal::Changed);
        }
        self.parent.remove_child(self.aside).map_err(failed(self.aside))?;
        // The names are gone either way; only a crash right now could bring them back, whole.
        if let Err(error) = self.parent.sync() {
            tracing::debug!(%error, "a removal is not on the disk yet");
        }
        Ok(())
    }
}
