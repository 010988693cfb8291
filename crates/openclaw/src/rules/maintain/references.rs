//! Which entries refer to which files.

use std::collections::HashMap;

use super::{EntryFacts, StoreSnapshot};
use crate::rules::document::StoreEntry;
use crate::rules::file::{StoreFileKind, session_of};

/// How many entries refer to each file.
pub(super) struct FileReferences<'a> {
    store: &'a StoreSnapshot<'a>,
    counts: Vec<u32>,
    /// The transcript of each entry, as it will be named.
    transcripts: Vec<Option<usize>>,
    /// Files by the session or the hash in their names.
    by_session: HashMap<&'a str, Vec<usize>>,
    /// Files by their names.
    by_name: HashMap<&'a str, usize>,
}

impl<'a> FileReferences<'a> {
    /// Those of a store whose entries are put right where `repairs` says so.
    pub(super) fn new(store: &'a StoreSnapshot<'a>, repairs: impl Fn(usize) -> bool) -> Self {
        let mut by_session: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut by_name = HashMap::new();
        for (index, file) in store.files.iter().enumerate() {
            by_name.insert(file.name.as_str(), index);
            let session = match &file.kind {
                StoreFileKind::Transcript => session_of(&file.name),
                StoreFileKind::Checkpoint(session) | StoreFileKind::Sidecar(session) => {
                    Some(session.as_str())
                }
                StoreFileKind::Blob(hash) => Some(hash.as_str()),
                _ => None,
            };
            if let Some(session) = session {
                by_session.entry(session).or_default().push(index);
            }
        }
        let counts = vec![0; store.files.len()];
        let named = |(index, facts): (usize, &EntryFacts)| match facts.own {
            Some(own) if repairs(index) => Some(own),
            _ => facts.file,
        };
        let transcripts = store.facts.iter().enumerate().map(named).collect();
        let mut references = Self { store, counts, transcripts, by_session, by_name };
        for index in 0..store.document.entries.len() {
            for file in references.files_of(index) {
                references.counts[file] += 1;
            }
        }
        references
    }

    /// The files that an entry refers to, each once.
    fn files_of(&self, index: usize) -> Vec<usize> {
        let entry: &StoreEntry<'_> = &self.store.document.entries[index];
        let mut files: Vec<usize> = self.transcripts[index].into_iter().collect();
        let named = |name: &str| self.by_session.get(name).into_iter().flatten().copied();
        files.extend(entry.view.session_id.iter().flat_map(|id| named(id)));
        files.extend(entry.view.prompts.iter().flat_map(|hash| named(hash)));
        // Sidecars are named after the transcript, not after its session.
        let own = self.transcripts[index].map(|file| self.store.files[file].name.as_str());
        files.extend(own.and_then(|name| name.strip_suffix(".jsonl")).into_iter().flat_map(named));
        let checkpoints = entry.view.checkpoints.iter().filter_map(|path| {
            let name = path.rsplit(['/', '\\']).next()?;
            self.by_name.get(name).copied()
        });
        files.extend(checkpoints);
        files.sort_unstable();
        files.dedup();
        files
    }

    /// Takes an entry's references back; the files that nothing refers to any more.
    pub(super) fn release_entry(&mut self, index: usize) -> Vec<usize> {
        let files = self.files_of(index);
        for &file in &files {
            self.counts[file] -= 1;
        }
        files.into_iter().filter(|&file| self.counts[file] == 0).collect()
    }

    pub(super) fn is_referenced(&self, file: usize) -> bool {
        self.counts[file] > 0
    }

    /// Whether a transcript stays of the session that a file belongs to.
    pub(super) fn has_transcript(
        &self,
        kind: &StoreFileKind,
        stays: impl Fn(usize) -> bool,
    ) -> bool {
        let (StoreFileKind::Sidecar(session) | StoreFileKind::Checkpoint(session)) = kind else {
            return false;
        };
        let is_transcript = |&index: &usize| {
            self.store.files[index].kind == StoreFileKind::Transcript && stays(index)
        };
        self.by_session.get(session.as_str()).is_some_and(|files| files.iter().any(is_transcript))
    }

    /// A file, and if it is a transcript what lies beside it and nothing refers to.
    pub(super) fn with_sidecars(&self, file: usize) -> Vec<usize> {
        let mut files = vec![file];
        if self.store.files[file].kind == StoreFileKind::Transcript {
            let beside = session_of(&self.store.files[file].name)
                .and_then(|session| self.by_session.get(session))
                .into_iter()
                .flatten()
                .copied()
                .filter(|&other| {
                    other != file
                        && !self.is_referenced(other)
                        && self.store.files[other].kind != StoreFileKind::Transcript
                });
            files.extend(beside);
        }
        files
    }
}
