//! The disk budget: how many bytes a store's directory may have.

use super::{Act, Change, Removal, Verdict, Why, Work};
use crate::rules::file::{self, File, FileKind};

/// What the disk budget came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
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

impl Budget {
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
    pub(super) fn budget(&mut self) -> Option<Budget> {
        let max = self.request.policy.max_disk.value?;
        let high_water = self.request.policy.high_water.value;
        let mut index_bytes = self.index_bytes() as u64;
        let stays = |(index, file): &(usize, &File)| {
            let removed = |change: &Change| change.act == Act::Remove;
            file.kind != FileKind::Store && !self.changes.get(index).is_some_and(removed)
        };
        let files = self.store.files.iter().enumerate().filter(stays);
        let mut file_bytes: u64 = files.map(|(_, file)| file.bytes).sum();
        let before = index_bytes + file_bytes;
        let mut budget = Budget { before, after: before, max, high_water, files: 0, entries: 0 };
        if !self.request.acts || before <= max {
            return Some(budget);
        }
        for file in self.loose_files() {
            if index_bytes + file_bytes <= high_water {
                break;
            }
            file_bytes -= self.evict(self.references.with_sidecars(file), &mut budget);
        }
        let mut oldest = self.newest_first();
        oldest.reverse();
        for index in oldest {
            if index_bytes + file_bytes <= high_water {
                break;
            }
            self.verdicts[index] = Verdict::Remove(Removal::OverBudget);
            budget.entries += 1;
            index_bytes -= self.entry_bytes(index) as u64;
            let freed = self.references.release(index);
            file_bytes -= self.evict(freed, &mut budget);
        }
        budget.after = self.index_bytes() as u64 + file_bytes;
        Some(budget)
    }

    /// Removes files for the budget; how many bytes that frees.
    fn evict(&mut self, files: Vec<usize>, budget: &mut Budget) -> u64 {
        let mut freed = 0;
        for file in files {
            let removed = |change: &Change| change.act == Act::Remove;
            let already = self.changes.get(&file).is_some_and(removed);
            if already || self.store.files[file].held {
                continue;
            }
            self.change(file, Act::Remove, Why::OverBudget);
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
                FileKind::Archive(..) => true,
                FileKind::Temporary => one.modified < self.request.now.minus(file::TEMPORARY_FOR),
                FileKind::Transcript
                | FileKind::Checkpoint(_)
                | FileKind::Sidecar(_)
                | FileKind::Blob(_) => !self.references.is_referenced(index),
                FileKind::Store | FileKind::Lock | FileKind::Other => false,
            }
        };
        let mut files: Vec<usize> = (0..self.store.files.len()).filter(loose).collect();
        files.sort_by_key(|&index| {
            (self.store.files[index].modified, &self.store.files[index].name)
        });
        files
    }
}
