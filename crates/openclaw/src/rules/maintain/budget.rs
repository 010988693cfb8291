//! The disk budget: how many bytes a store's directory may have.

use super::{EntryVerdict, RemovalReason, StoreFileAction, StoreFileChange, StoreFileReason, Work};
use crate::rules::file::{self, StoreDirFile, StoreFileKind};

/// What the disk budget came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetOutcome {
    /// All bytes, with the index as it would be after the steps before.
    pub before: u64,
    /// All bytes afterwards.
    pub after: u64,
    /// How many bytes there may be.
    pub max: u64,
    /// What is aimed at when there are more.
    pub high_water: u64,
    /// How many files go for it.
    pub files: usize,
    /// How many entries go for it.
    pub entries: usize,
}

impl BudgetOutcome {
    /// Whether there are too many bytes to begin with.
    pub const fn is_over(self) -> bool {
        self.before > self.max
    }

    /// Whether what must stay is more than what is aimed at.
    pub const fn is_unsatisfiable(self) -> bool {
        self.is_over() && self.after > self.high_water
    }
}

impl Work<'_> {
    /// Brings the directory below its budget, if there is one: first what nothing refers to, oldest
    /// first, then entries with their transcripts.
    pub(super) fn apply_budget(&mut self) -> Option<BudgetOutcome> {
        let max = self.request.policy.max_disk.value?;
        let high_water = self.request.policy.high_water.value;
        let mut index_bytes = self.index_bytes() as u64;
        let stays = |(index, file): &(usize, &StoreDirFile)| {
            let removed = |change: &StoreFileChange| change.act == StoreFileAction::Remove;
            file.kind != StoreFileKind::Store && !self.changes.get(index).is_some_and(removed)
        };
        let files = self.store.files.iter().enumerate().filter(stays);
        let mut file_bytes: u64 = files.map(|(_, file)| file.bytes).sum();
        let before = index_bytes + file_bytes;
        let mut budget =
            BudgetOutcome { before, after: before, max, high_water, files: 0, entries: 0 };
        if !self.request.acts || before <= max {
            return Some(budget);
        }
        for file in self.loose_files() {
            if index_bytes + file_bytes <= high_water {
                break;
            }
            file_bytes -= self.evict_files(self.references.with_sidecars(file), &mut budget);
        }
        let mut oldest = self.newest_first();
        oldest.reverse();
        for index in oldest {
            if index_bytes + file_bytes <= high_water {
                break;
            }
            self.verdicts[index] = EntryVerdict::Remove(RemovalReason::OverBudget);
            budget.entries += 1;
            index_bytes -= self.entry_bytes(index) as u64;
            let freed = self.references.release_entry(index);
            file_bytes -= self.evict_files(freed, &mut budget);
        }
        budget.after = self.index_bytes() as u64 + file_bytes;
        Some(budget)
    }

    /// Removes files for the budget; how many bytes that frees.
    fn evict_files(&mut self, files: Vec<usize>, budget: &mut BudgetOutcome) -> u64 {
        let mut freed = 0;
        for file in files {
            let removed = |change: &StoreFileChange| change.act == StoreFileAction::Remove;
            let already = self.changes.get(&file).is_some_and(removed);
            if already || self.store.files[file].held {
                continue;
            }
            self.change_file(file, StoreFileAction::Remove, StoreFileReason::OverBudget);
            freed += self.store.files[file].bytes;
            budget.files += 1;
        }
        freed
    }

    /// Archives, and what nothing refers to, oldest first.
    fn loose_files(&self) -> Vec<usize> {
        let loose = |&index: &usize| {
            let one = &self.store.files[index];
            match one.kind {
                StoreFileKind::Archive(..) => true,
                StoreFileKind::Temporary => {
                    one.modified < self.request.now.minus(file::TEMPORARY_FILE_GRACE)
                }
                StoreFileKind::Transcript
                | StoreFileKind::Checkpoint(_)
                | StoreFileKind::Sidecar(_)
                | StoreFileKind::Blob(_) => !self.references.is_referenced(index),
                StoreFileKind::Store | StoreFileKind::Lock | StoreFileKind::Other => false,
            }
        };
        let mut files: Vec<usize> = (0..self.store.files.len()).filter(loose).collect();
        files.sort_by_key(|&index| {
            (self.store.files[index].modified, &self.store.files[index].name)
        });
        files
    }
}
