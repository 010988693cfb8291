//! What is known about each entry besides what it says: its transcript, and who works on it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::rules::document::{IndexDocument, StoreEntry};
use crate::rules::file::{StoreDirFile, StoreFileKind, is_anothers_transcript, session_of};
use crate::rules::lock::LockVerdict;
use crate::rules::maintain::{EntryFacts, HoldReason, TranscriptState};
use model::session::is_safe_id;

use super::read::LoadedStore;

/// A transcript that may hold nothing but its header is no larger.
const MAX_HEADER_BYTES: u64 = 4 << 10;

/// Looks at every entry. `opens` says whether transcripts are looked into, and `runs` whether OpenClaw
/// may be running: only then is an entry's own `running` worth anything.
pub(super) fn gather_facts(
    loaded: &LoadedStore,
    document: &IndexDocument<'_>,
    opens: bool,
    runs: impl FnOnce() -> bool,
) -> Vec<EntryFacts> {
    let mut look = FactsReader {
        loaded,
        names: loaded.files.iter().enumerate().map(|(at, file)| (file.name.as_str(), at)).collect(),
        topics: topic_transcripts(loaded),
        parents: HashMap::new(),
        opens,
    };
    let mut facts: Vec<EntryFacts> =
        document.entries.iter().map(|entry| look.entry_facts(entry)).collect();
    let is_running = |entry: &StoreEntry<'_>| entry.view.status.as_deref() == Some("running");
    let doubtful: Vec<usize> = (0..facts.len())
        .filter(|&at| facts[at].hold.is_none() && is_running(&document.entries[at]))
        .collect();
    if !doubtful.is_empty() && runs() {
        for at in doubtful {
            facts[at].hold = Some(HoldReason::Unknown);
        }
    }
    facts
}

/// The transcripts of topics, by session.
fn topic_transcripts(loaded: &LoadedStore) -> HashMap<&str, usize> {
    let transcripts = loaded.files.iter().enumerate();
    // What an agent did in a topic lies beside its transcript, under a name that ends like it.
    let transcripts = transcripts.filter(|(_, file)| file.kind == StoreFileKind::Transcript);
    let topic = |(at, file): (usize, &'_ StoreDirFile)| {
        let (session, _) = file.name.strip_suffix(".jsonl")?.split_once("-topic-")?;
        Some((session.len(), at))
    };
    let found = transcripts.filter_map(topic);
    found.map(|(end, at)| (&loaded.files[at].name[..end], at)).collect()
}

struct FactsReader<'a> {
    loaded: &'a LoadedStore,
    names: HashMap<&'a str, usize>,
    topics: HashMap<&'a str, usize>,
    /// Directories that entries name, and whether each is the store's own.
    parents: HashMap<PathBuf, bool>,
    opens: bool,
}

impl FactsReader<'_> {
    fn entry_facts(&mut self, entry: &StoreEntry<'_>) -> EntryFacts {
        let mut facts = self.transcript_facts(entry);
        let id = entry.view.session_id.as_deref();
        if facts.hold.is_none() && id.is_some_and(|id| self.loaded.pinned.contains(id)) {
            facts.hold = Some(HoldReason::Pinned);
        }
        facts
    }

    fn transcript_facts(&mut self, entry: &StoreEntry<'_>) -> EntryFacts {
        let Some(id) = entry.view.session_id.as_deref().filter(|_| entry.fault.is_none()) else {
            return EntryFacts::default();
        };
        let usual = format!("{id}.jsonl");
        let named = entry.view.session_file.as_deref();
        let name = match named {
            None => Some(usual.clone()),
            Some(path) => self.name_here(path),
        };
        let own = named
            .filter(|_| self.opens && name.as_ref() != Some(&usual))
            .and_then(|named| self.own_transcript(named, id, &usual));
        let elsewhere =
            |hold| EntryFacts { transcript: TranscriptState::Elsewhere, file: None, own, hold };
        let Some(name) = name else { return elsewhere(self.lock_hold(&usual)) };
        let hold = self.lock_hold(&name).or_else(|| self.lock_hold(&usual));
        if self.loaded.links.contains(&name) {
            return elsewhere(hold);
        }
        // A transcript that the entry does not name any more is still its own.
        let file = [name.as_str(), usual.as_str()]
            .iter()
            .find_map(|name| self.names.get(name))
            .or_else(|| self.topics.get(id))
            .copied();
        let transcript = match file {
            None if self.loaded.links.contains(&usual) => TranscriptState::Elsewhere,
            None => TranscriptState::Missing,
            // Words that the session has under its own name are its words, even if the entry names another file.
            Some(file) if self.opens && self.is_empty(file) && !self.may_hold_messages(&usual) => {
                TranscriptState::HeaderOnly
            }
            Some(_) => TranscriptState::Sound,
        };
        EntryFacts { transcript, file, own, hold }
    }

    /// The session's own transcript, if the entry leads astray from it.
    fn own_transcript(&self, named: &str, id: &str, usual: &str) -> Option<usize> {
        let own = *self.names.get(usual)?;
        leads_astray(&self.loaded.directory, named, id).then_some(own)
    }

    fn lock_hold(&self, transcript: &str) -> Option<HoldReason> {
        match &self.loaded.locks.get(transcript)?.verdict {
            LockVerdict::Held => Some(HoldReason::Live),
            LockVerdict::Doubt(_) => Some(HoldReason::Unknown),
            LockVerdict::Free(_) => None,
        }
    }

    /// The name of a file that lies directly in the store's directory.
    fn name_here(&mut self, path: &str) -> Option<String> {
        let path = self.loaded.directory.join(path);
        let name = path.file_name()?.to_str()?.to_owned();
        let parent = path.parent()?;
        let is_here = match self.parents.get(parent) {
            Some(is_here) => *is_here,
            None => {
                let is_here = self.is_here(parent);
                self.parents.insert(parent.to_owned(), is_here);
                is_here
            }
        };
        is_here.then_some(name)
    }

    fn is_here(&self, parent: &Path) -> bool {
        parent == self.loaded.directory
            || Some(parent) == self.loaded.place.path.parent()
            || std::fs::canonicalize(parent).is_ok_and(|real| real == self.loaded.directory)
    }

    fn may_hold_messages(&self, name: &str) -> bool {
        self.names.get(name).is_some_and(|file| !self.is_empty(*file))
    }

    fn is_empty(&self, file: usize) -> bool {
        self.loaded.files[file].bytes <= MAX_HEADER_BYTES
            && is_header_only(&self.loaded.path_of(file))
    }
}

/// Whether what an entry names is another session's transcript, or is not there, or holds nothing, while
/// the session's own is there and holds messages. One of a topic is the session's own, too.
pub(super) fn leads_astray(directory: &Path, named: &str, id: &str) -> bool {
    if !is_safe_id(id) {
        return false;
    }
    let own = directory.join(format!("{id}.jsonl"));
    let is_file = std::fs::symlink_metadata(&own).is_ok_and(|about| about.is_file());
    let named = directory.join(named);
    let name = named.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_topic = session_of(name) == Some(id) && named.try_exists().unwrap_or(true);
    let leads_nowhere =
        is_anothers_transcript(name, id) || (!is_topic && !may_hold_messages(&named));
    leads_nowhere && is_file && may_hold_messages(&own)
}

/// Whether a transcript is there and may hold messages.
pub(super) fn may_hold_messages(path: &Path) -> bool {
    path.try_exists().unwrap_or(true) && !is_header_only(path)
}

/// Whether a transcript holds nothing but its header. What cannot be read may hold anything.
pub(super) fn is_header_only(path: &Path) -> bool {
    use std::io::Read;

    let Ok(file) = sys::private::open_regular(path) else { return false };
    let mut text = String::new();
    if file.take(MAX_HEADER_BYTES + 1).read_to_string(&mut text).is_err()
        || text.len() as u64 > MAX_HEADER_BYTES
    {
        return false;
    }
    text.lines().filter(|line| !line.trim().is_empty()).all(|line| {
        let line: Result<serde_json::Value, _> = serde_json::from_str(line);
        line.is_ok_and(|line| line["type"] == "session")
    })
}
