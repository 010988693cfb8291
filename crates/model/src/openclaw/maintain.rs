//! What would go from a store, and why: the maintenance of OpenClaw, without its losses.
//!
//! One pure function. A preview and a run are the same call, so they cannot disagree. First what was
//! asked for (entries without a transcript), then age, then the cap, then files that nothing refers to,
//! then the disk budget. Held entries (named as active, live, or not known to be dead) are never
//! removed; durable ones ([`Kind::is_durable`]) only for want of a transcript, and only if asked.

use std::collections::HashMap;
use std::time::Duration;

use crate::openclaw::document::{Document, Entry};
use crate::openclaw::file::{self, File, FileKind, Reason};
use crate::openclaw::key::{Key, Kind};
use crate::openclaw::policy::Policy;
use crate::time::Time;

mod references;
mod verdict;

use references::References;
pub use verdict::{Act, Change, Keep, Removal, Verdict, Why};

/// How long the gateway's probes of models are kept when there are too many entries.
const MODEL_RUN_FOR: Duration = Duration::from_secs(24 * 3600);

/// A store as it was found.
#[derive(Debug)]
pub struct Store<'a> {
    /// Its index.
    pub document: &'a Document<'a>,
    /// What is known about each entry, in the same order.
    pub facts: &'a [Facts],
    /// The files of its directory.
    pub files: &'a [File],
}

/// What is known about one entry besides what it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its transcript.
    pub transcript: Transcript,
    /// Which of the files that is, if it is one of them.
    pub file: Option<usize>,
    /// Whether somebody works on it.
    pub hold: Option<Hold>,
}

/// The transcript of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transcript {
    /// It is there; or there is no telling, which comes to the same.
    #[default]
    Sound,
    /// There is none.
    Missing,
    /// It holds nothing but its header.
    HeaderOnly,
    /// It lies outside of the directory, and is nobody's business.
    Elsewhere,
}

/// Why an entry is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// A live process works on it.
    Live,
    /// A process may be working on it: its end is not proven.
    Unknown,
    /// Its key was named as active.
    Active,
    /// A person said that it is never to be collected.
    Pinned,
}

/// What brings maintenance about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A write: the cap waits for the high-water mark.
    Write,
    /// Somebody asked: the cap holds at once.
    Cleanup,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The policy that holds.
    pub policy: &'a Policy,
    /// Whether it acts: the mode says so, or a person did.
    pub acts: bool,
    /// What brings it about.
    pub trigger: Trigger,
    /// The time.
    pub now: Time,
    /// A key that must stay.
    pub active: Option<&'a str>,
    /// Whether entries without a transcript go.
    pub fix_missing: bool,
    /// Whether entries that are no sessions go.
    pub drop_unusable: bool,
    /// What the main session is called.
    pub main_key: &'a str,
}

/// What the cap came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// How many entries may stay.
    pub max: usize,
    /// How many of those that stay cannot go.
    pub kept: usize,
    /// How many stay.
    pub after: usize,
}

impl Cap {
    /// Whether more must stay than may.
    pub const fn is_unsatisfiable(self) -> bool {
        self.kept >= self.max && self.after > self.max
    }
}

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

/// What would go from a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What becomes of each entry, in the order of the index.
    pub entries: Vec<Verdict>,
    /// What becomes of files; each at most once.
    pub files: Vec<Change>,
    /// What the cap came to.
    pub cap: Cap,
    /// What the disk budget came to, if there is one.
    pub budget: Option<Budget>,
    /// How many bytes the index has afterwards.
    pub index_bytes: usize,
}

impl Plan {
    /// How many entries go for such a reason.
    pub fn count(&self, which: impl Fn(Removal) -> bool) -> usize {
        let goes = |verdict: &&Verdict| matches!(verdict, Verdict::Remove(why) if which(*why));
        self.entries.iter().filter(goes).count()
    }

    /// How many entries go.
    pub fn removed(&self) -> usize {
        self.count(|_| true)
    }

    /// Whether anything would be changed.
    pub fn changes(&self) -> bool {
        self.removed() > 0 || !self.files.is_empty()
    }
}

/// Plans the maintenance of a store.
pub fn maintain(store: &Store<'_>, request: &Request<'_>) -> Plan {
    let mut work = Work::new(store, *request);
    work.asked_for();
    if request.acts {
        work.model_runs();
        work.by_age();
        work.by_count();
    }
    work.files_of_removed();
    if request.acts {
        work.old_files();
    }
    let budget = work.budget();
    let gone = |index: usize| work.verdicts[index].removes();
    let kept = |verdict: &&Verdict| matches!(verdict, Verdict::Keep(keep) if !may_go(*keep));
    Plan {
        cap: Cap {
            max: request.policy.max_entries.value,
            kept: work.verdicts.iter().filter(kept).count(),
            after: work.left(),
        },
        budget,
        index_bytes: store.document.size_without(gone),
        files: work.changes.into_values().collect(),
        entries: work.verdicts,
    }
}

/// Whether age, cap and budget may take what is kept so far.
const fn may_go(keep: Keep) -> bool {
    matches!(keep, Keep::Recent | Keep::Undated)
}

/// A plan in the making.
struct Work<'a> {
    store: &'a Store<'a>,
    request: Request<'a>,
    verdicts: Vec<Verdict>,
    kinds: Vec<Kind>,
    references: References<'a>,
    changes: std::collections::BTreeMap<usize, Change>,
}

impl<'a> Work<'a> {
    fn new(store: &'a Store<'a>, request: Request<'a>) -> Self {
        let kinds: Vec<Kind> = store
            .document
            .entries
            .iter()
            .map(|entry| Key::new(&entry.key).kind(request.main_key))
            .collect();
        let holds = holds(store, request.active);
        let verdicts = std::iter::zip(&store.document.entries, &kinds)
            .zip(holds)
            .map(|((entry, kind), hold)| Verdict::Keep(keep(entry, *kind, hold)))
            .collect();
        Self {
            store,
            request,
            verdicts,
            kinds,
            references: References::new(store),
            changes: std::collections::BTreeMap::new(),
        }
    }

    fn entry(&self, index: usize) -> &'a Entry<'a> {
        &self.store.document.entries[index]
    }

    fn left(&self) -> usize {
        self.verdicts.iter().filter(|verdict| !verdict.removes()).count()
    }

    /// The entries that age, cap and budget may take.
    fn removable(&self) -> Vec<usize> {
        let may = |verdict: &Verdict| matches!(verdict, Verdict::Keep(keep) if may_go(*keep));
        (0..self.verdicts.len()).filter(|&index| may(&self.verdicts[index])).collect()
    }

    fn is_older(&self, index: usize, than: Duration) -> bool {
        let updated = self.entry(index).view.updated_at;
        updated.is_some_and(|at| at < self.request.now.minus(than))
    }

    /// Removes what a person asked for. Protection by place does not count here.
    fn asked_for(&mut self) {
        for index in 0..self.verdicts.len() {
            let Verdict::Keep(keep) = self.verdicts[index] else { continue };
            let removal = match keep {
                Keep::Held(_) => None,
                Keep::Unusable(fault) => {
                    self.request.drop_unusable.then_some(Removal::Unusable(fault))
                }
                _ if self.request.fix_missing => self.missing(index),
                _ => None,
            };
            if let Some(removal) = removal {
                self.verdicts[index] = Verdict::Remove(removal);
            }
        }
    }

    fn missing(&self, index: usize) -> Option<Removal> {
        let entry = self.entry(index);
        if entry.view.session_id.is_none() {
            // An agent's key stands for a session that has not begun yet; a bare one is a remnant.
            let bare = Key::new(&entry.key).agent().is_none();
            return bare.then_some(Removal::NoSession);
        }
        match self.store.facts[index].transcript {
            Transcript::Missing => Some(Removal::Missing),
            Transcript::HeaderOnly => Some(Removal::HeaderOnly),
            Transcript::Sound | Transcript::Elsewhere => None,
        }
    }

    fn over_cap(&self) -> bool {
        match self.request.trigger {
            Trigger::Write => self.left() >= self.request.policy.high_water_entries(),
            Trigger::Cleanup => self.left() > self.request.policy.max_entries.value,
        }
    }

    fn model_runs(&mut self) {
        if !self.over_cap() {
            return;
        }
        for index in self.removable() {
            if self.kinds[index] == Kind::ModelRun && self.is_older(index, MODEL_RUN_FOR) {
                self.verdicts[index] = Verdict::Remove(Removal::ModelRun);
            }
        }
    }

    fn by_age(&mut self) {
        for index in self.removable() {
            if self.is_older(index, self.request.policy.prune_after.value) {
                self.verdicts[index] = Verdict::Remove(Removal::Stale);
            }
        }
    }

    /// Those that cannot go use up the cap first. If they are more than it, as many others stay as it
    /// allows, so that new sessions do not go the moment they are made.
    fn by_count(&mut self) {
        if !self.over_cap() {
            return;
        }
        let max = self.request.policy.max_entries.value;
        let removable = self.newest_first();
        let kept = self.left() - removable.len();
        let room = if kept >= max { max } else { max - kept };
        for &index in removable.iter().skip(room) {
            self.verdicts[index] = Verdict::Remove(Removal::OverCap);
        }
    }

    /// The removable entries, newest first; without a date last; the earlier of two equals first.
    fn newest_first(&self) -> Vec<usize> {
        let mut removable = self.removable();
        removable.sort_by_key(|&index| std::cmp::Reverse(self.entry(index).view.updated_at));
        removable
    }

    fn change(&mut self, file: usize, act: Act, why: Why) {
        if !self.store.files[file].held {
            self.changes.insert(file, Change { file, act, why });
        }
    }

    /// Puts away the transcripts that only removed entries refer to, and what lies beside them. Entries
    /// that go for want of a transcript leave everything where it is.
    fn files_of_removed(&mut self) {
        let mut gone = Vec::new();
        for (index, verdict) in self.verdicts.iter().enumerate() {
            if let Verdict::Remove(removal) = verdict {
                let freed = self.references.release(index);
                if removal.is_policy() {
                    gone.extend(freed);
                }
            }
        }
        for file in gone {
            match self.store.files[file].kind {
                FileKind::Transcript => self.change(file, Act::Archive, Why::Entry),
                FileKind::Sidecar(_) => self.change(file, Act::Remove, Why::Entry),
                _ => {}
            }
        }
    }

    /// Removes what was put away long ago, and what nothing refers to. Transcripts without an entry are
    /// somebody's words: only the disk budget takes those.
    fn old_files(&mut self) {
        let Request { policy, now, .. } = self.request;
        let before = |at: Time, span: Duration| at < now.minus(span);
        for (index, one) in self.store.files.iter().enumerate() {
            let stays = |file: usize| !self.changes.contains_key(&file);
            if !stays(index) {
                continue;
            }
            let prune_after = policy.prune_after.value;
            let why = match &one.kind {
                FileKind::Archive(Reason::Deleted, Some(at)) if before(*at, prune_after) => {
                    Why::OldArchive
                }
                FileKind::Archive(Reason::Reset, Some(at))
                    if policy.reset_retention.value.is_some_and(|span| before(*at, span)) =>
                {
                    Why::OldArchive
                }
                FileKind::Temporary if before(one.modified, file::TEMPORARY_FOR) => {
                    Why::OldTemporary
                }
                FileKind::Checkpoint(_) | FileKind::Blob(_) | FileKind::Sidecar(_)
                    if !self.references.is_referenced(index)
                        && !self.references.has_transcript(&one.kind, stays)
                        && before(one.modified, prune_after) =>
                {
                    Why::Unreferenced
                }
                _ => continue,
            };
            self.change(index, Act::Remove, why);
        }
    }

    /// Brings the directory below its budget, if there is one: first what nothing refers to, oldest
    /// first, then entries with their transcripts.
    fn budget(&mut self) -> Option<Budget> {
        let max = self.request.policy.max_disk.value?;
        let high_water = self.request.policy.high_water.value;
        let gone = |index: usize| self.verdicts[index].removes();
        let mut index_bytes = self.store.document.size_without(gone) as u64;
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
            index_bytes -= self.entry(index).bytes() as u64;
            let freed = self.references.release(index);
            file_bytes -= self.evict(freed, &mut budget);
        }
        let gone = |index: usize| self.verdicts[index].removes();
        budget.after = self.store.document.size_without(gone) as u64 + file_bytes;
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

/// Why an entry stays as far as age, cap and budget are concerned.
fn keep(entry: &Entry<'_>, kind: Kind, hold: Option<Hold>) -> Keep {
    if let Some(hold) = hold {
        return Keep::Held(hold);
    }
    if let Some(fault) = entry.fault {
        return Keep::Unusable(fault);
    }
    if kind.is_durable() {
        return Keep::Place(kind);
    }
    let chat = [&entry.view.chat_type, &entry.view.origin_chat_type];
    let is_place = |chat: &str| {
        ["group", "channel", "thread"].iter().any(|place| chat.eq_ignore_ascii_case(place))
    };
    if !kind.is_disposable() && chat.into_iter().flatten().any(|chat| is_place(chat)) {
        return Keep::Chat;
    }
    match entry.view.updated_at {
        Some(_) => Keep::Recent,
        None => Keep::Undated,
    }
}

/// What holds each entry: a session is held under every key that leads to it.
fn holds(store: &Store<'_>, active: Option<&str>) -> Vec<Option<Hold>> {
    let active = active.map(Key::new);
    let own: Vec<Option<Hold>> = std::iter::zip(&store.document.entries, store.facts)
        .map(|(entry, facts)| {
            let named =
                active.as_ref().is_some_and(|key| key.text() == Key::new(&entry.key).text());
            facts.hold.or(named.then_some(Hold::Active))
        })
        .collect();
    let mut by_session: HashMap<&str, Hold> = HashMap::new();
    for (entry, hold) in std::iter::zip(&store.document.entries, &own) {
        if let (Some(id), Some(hold)) = (entry.view.session_id.as_deref(), hold) {
            by_session.entry(id).or_insert(*hold);
        }
    }
    std::iter::zip(&store.document.entries, own)
        .map(|(entry, own)| {
            let shared = || by_session.get(entry.view.session_id.as_deref()?).copied();
            own.or_else(shared)
        })
        .collect()
}
