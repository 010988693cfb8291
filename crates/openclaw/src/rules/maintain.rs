//! What would go from a store, and why: the maintenance of OpenClaw, without its losses.
//!
//! One pure function. A preview and a run are the same call, so they cannot disagree. First what was
//! asked for (rows of single peers, entries without a transcript), then age, then the cap, then files
//! that nothing refers to, then the disk budget. Held entries (named as active, live, or not known to be
//! dead) are never touched; durable ones ([`SessionKeyKind::is_durable`]) go only for want of a transcript, and
//! only if asked. What stays and leads astray from its own transcript is put right.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::rules::document::{EntryEdit, IndexDocument, StoreEntry};
use crate::rules::file::{self, ArchiveReason, StoreDirFile, StoreFileKind};
use crate::rules::key::{SessionKey, SessionKeyKind};
use crate::rules::policy::{MaintenanceMode, MaintenancePolicy};
use model::time::Time;

mod budget;
mod hold;
mod references;
mod verdict;

pub use budget::BudgetOutcome;
use hold::{hold_reasons, keep_reason};
use references::FileReferences;
pub use verdict::{
    EntryVerdict, KeepReason, RemovalReason, StoreFileAction, StoreFileChange, StoreFileReason,
};

/// How long the gateway's probes of models are kept when there are too many entries.
const MODEL_RUN_RETENTION: Duration = Duration::from_secs(24 * 3600);

/// A store as it was found.
#[derive(Debug)]
pub struct StoreSnapshot<'a> {
    /// Where it lies, as entries name it.
    pub directory: &'a str,
    pub document: &'a IndexDocument<'a>,
    /// What is known about each entry, in the same order.
    pub facts: &'a [EntryFacts],
    /// The files of its directory.
    pub files: &'a [StoreDirFile],
}

/// What is known about one entry besides what it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryFacts {
    pub transcript: TranscriptState,
    /// Which of the files that is, if it is one of them.
    pub file: Option<usize>,
    /// Its own transcript, which holds messages, if its `sessionFile` leads astray from it.
    pub own: Option<usize>,
    /// Whether a process works on it.
    pub hold: Option<HoldReason>,
}

/// The transcript of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TranscriptState {
    /// It is there; or there is no telling, which comes to the same.
    #[default]
    Sound,
    /// There is none.
    Missing,
    /// It holds nothing but its header.
    HeaderOnly,
    /// It lies outside of the directory, and is left alone.
    Elsewhere,
}

/// Why an entry is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldReason {
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
pub enum MaintenanceTrigger {
    /// A write: the cap waits for the high-water mark.
    Write,
    /// On request: the cap holds at once.
    Cleanup,
}

/// Whose rows of single peers go: all direct chats belong into the main session now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetiredPeers<'a> {
    #[default]
    Nobody,
    Agent(&'a str),
    /// Every agent's: the store is not one agent's alone.
    Everybody,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct MaintenanceRequest<'a> {
    /// The policy that holds.
    pub policy: &'a MaintenancePolicy,
    /// Whether it acts: the mode says so, or a person did.
    pub acts: bool,
    /// What brings it about.
    pub trigger: MaintenanceTrigger,
    pub now: Time,
    /// A key that must stay.
    pub active: Option<&'a str>,
    /// Whether entries without a transcript go, and those that lead astray from theirs are put right.
    pub fix_missing: bool,
    /// Whose rows of single peers go.
    pub retire: RetiredPeers<'a>,
    /// Whether entries that are no sessions go.
    pub drop_unusable: bool,
    /// What the main session is called.
    pub main_key: &'a str,
}

/// What the cap came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapOutcome {
    /// How many entries may stay.
    pub max: usize,
    /// How many of those that stay cannot go.
    pub kept: usize,
    /// How many stay.
    pub after: usize,
}

impl CapOutcome {
    /// Whether more must stay than may.
    pub const fn is_unsatisfiable(self) -> bool {
        self.kept >= self.max && self.after > self.max
    }
}

/// What would go from a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenancePlan {
    /// What becomes of each entry, in the order of the index.
    pub entries: Vec<EntryVerdict>,
    /// What becomes of files; each at most once.
    pub files: Vec<StoreFileChange>,
    /// What the cap came to.
    pub cap: CapOutcome,
    /// What the disk budget came to, if there is one.
    pub budget: Option<BudgetOutcome>,
    /// How many bytes the index has afterwards.
    pub index_bytes: usize,
    /// The values of the entries that are put right.
    repairs: BTreeMap<usize, String>,
}

impl MaintenancePlan {
    /// How many entries go for such a reason.
    pub fn count_removals(&self, which: impl Fn(RemovalReason) -> bool) -> usize {
        let goes =
            |verdict: &&EntryVerdict| matches!(verdict, EntryVerdict::Remove(why) if which(*why));
        self.entries.iter().filter(goes).count()
    }

    /// How many entries go.
    pub fn removed_count(&self) -> usize {
        self.count_removals(|_| true)
    }

    /// How many entries are put right.
    pub fn repaired_count(&self) -> usize {
        self.repairs.len()
    }

    /// What becomes of an entry in the index.
    pub fn entry_edit(&self, index: usize) -> EntryEdit<'_> {
        match self.entries[index] {
            EntryVerdict::Remove(_) => EntryEdit::Remove,
            EntryVerdict::Keep(_) => EntryEdit::Keep,
            EntryVerdict::Repair => {
                self.repairs.get(&index).map_or(EntryEdit::Keep, |it| EntryEdit::Value(it))
            }
        }
    }

    /// Whether the index would be changed.
    pub fn changes_index(&self) -> bool {
        self.removed_count() > 0 || self.repaired_count() > 0
    }

    /// Whether anything would be changed.
    pub fn changes_anything(&self) -> bool {
        self.changes_index() || !self.files.is_empty()
    }
}

/// Plans the maintenance of a store.
pub fn plan_maintenance(
    store: &StoreSnapshot<'_>,
    request: &MaintenanceRequest<'_>,
) -> MaintenancePlan {
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
    let budget = work.apply_budget();
    let index_bytes = work.index_bytes();
    let kept =
        |verdict: &&EntryVerdict| matches!(verdict, EntryVerdict::Keep(keep) if !may_go(*keep));
    let cap = CapOutcome {
        max: request.policy.max_entries.value,
        kept: work.verdicts.iter().filter(kept).count(),
        after: work.entries_left(),
    };
    let repairs = work.put_right();
    MaintenancePlan {
        cap,
        budget,
        index_bytes,
        repairs,
        files: work.changes.into_values().collect(),
        entries: work.verdicts,
    }
}

/// What a gateway takes besides the plan when it writes the store for any reason. Up to 2026.7 every
/// write applies the policy, and that keeps groups, channels, threads and topics, but neither main sessions
/// nor what is held or pinned here. Where it is not certain, an entry counts as taken.
pub fn taken_by_gateway(
    store: &StoreSnapshot<'_>,
    plan: &MaintenancePlan,
    request: &MaintenanceRequest<'_>,
) -> Vec<usize> {
    let policy = request.policy;
    if policy.mode.value != MaintenanceMode::Enforce {
        return Vec::new();
    }
    let entries = &store.document.entries;
    let is_place = |index: usize| {
        let kind = SessionKey::new(&entries[index].key).key_kind(request.main_key);
        match keep_reason(&entries[index], kind, None) {
            KeepReason::Place(SessionKeyKind::Main | SessionKeyKind::Global) => false,
            kept => matches!(kept, KeepReason::Place(_) | KeepReason::Chat),
        }
    };
    // From the high-water mark on, and over the budget, it takes the oldest by an order of its own.
    let is_pressed = entries.len() >= policy.high_water_entries()
        || plan.budget.is_some_and(BudgetOutcome::is_over);
    let is_taken = |index: &usize| {
        let updated = entries[*index].view.updated_at;
        let is_stale = updated.is_some_and(|at| at < request.now.minus(policy.prune_after.value));
        !plan.entries[*index].removes() && !is_place(*index) && (is_stale || is_pressed)
    };
    (0..entries.len()).filter(is_taken).collect()
}

/// Whether age, cap and budget may take what is kept so far.
const fn may_go(keep: KeepReason) -> bool {
    matches!(keep, KeepReason::Recent | KeepReason::Undated)
}

/// A plan in the making.
struct Work<'a> {
    store: &'a StoreSnapshot<'a>,
    request: MaintenanceRequest<'a>,
    verdicts: Vec<EntryVerdict>,
    kinds: Vec<SessionKeyKind>,
    references: FileReferences<'a>,
    changes: BTreeMap<usize, StoreFileChange>,
    /// Values of the entries that are put right if they stay.
    repairs: BTreeMap<usize, String>,
}

impl<'a> Work<'a> {
    fn new(store: &'a StoreSnapshot<'a>, request: MaintenanceRequest<'a>) -> Self {
        let kinds: Vec<SessionKeyKind> = store
            .document
            .entries
            .iter()
            .map(|entry| SessionKey::new(&entry.key).key_kind(request.main_key))
            .collect();
        let holds = hold_reasons(store, request.active);
        let verdicts = std::iter::zip(&store.document.entries, &kinds)
            .zip(holds)
            .map(|((entry, kind), hold)| EntryVerdict::Keep(keep_reason(entry, *kind, hold)))
            .collect::<Vec<_>>();
        let repairs =
            if request.fix_missing { plan_repairs(store, &verdicts) } else { BTreeMap::new() };
        Self {
            store,
            request,
            verdicts,
            kinds,
            references: FileReferences::new(store, |entry| repairs.contains_key(&entry)),
            changes: BTreeMap::new(),
            repairs,
        }
    }

    /// How many bytes the index has as things stand.
    fn index_bytes(&self) -> usize {
        let gone = |index: usize| self.verdicts[index].removes();
        let put_right = self.repairs.iter().filter(|(index, _)| !gone(**index));
        let mut bytes = self.store.document.size_without(gone);
        for (&index, value) in put_right {
            bytes = bytes + value.len() - self.entry_at(index).raw.len();
        }
        bytes
    }

    /// How many bytes of the index an entry takes.
    fn entry_bytes(&self, index: usize) -> usize {
        let entry = self.entry_at(index);
        let value = self.repairs.get(&index).map_or(entry.raw, String::as_str);
        entry.byte_len() - entry.raw.len() + value.len()
    }

    /// Puts right what stays. Being removed comes first.
    fn put_right(&mut self) -> BTreeMap<usize, String> {
        let mut repairs = std::mem::take(&mut self.repairs);
        repairs.retain(|index, _| !self.verdicts[*index].removes());
        for index in repairs.keys() {
            self.verdicts[*index] = EntryVerdict::Repair;
        }
        repairs
    }

    fn entry_at(&self, index: usize) -> &'a StoreEntry<'a> {
        &self.store.document.entries[index]
    }

    fn entries_left(&self) -> usize {
        self.verdicts.iter().filter(|verdict| !verdict.removes()).count()
    }

    /// The entries that age, cap and budget may take.
    fn removable_entries(&self) -> Vec<usize> {
        let may =
            |verdict: &EntryVerdict| matches!(verdict, EntryVerdict::Keep(keep) if may_go(*keep));
        (0..self.verdicts.len()).filter(|&index| may(&self.verdicts[index])).collect()
    }

    fn is_older(&self, index: usize, than: Duration) -> bool {
        let updated = self.entry_at(index).view.updated_at;
        updated.is_some_and(|at| at < self.request.now.minus(than))
    }

    /// Removes what a person asked for. Protection by place does not count here.
    fn asked_for(&mut self) {
        for index in 0..self.verdicts.len() {
            let EntryVerdict::Keep(keep) = self.verdicts[index] else { continue };
            let removal = match keep {
                KeepReason::Held(_) => None,
                KeepReason::Unusable(fault) => {
                    self.request.drop_unusable.then_some(RemovalReason::Unusable(fault))
                }
                _ if may_go(keep) && self.is_retired(index) => Some(RemovalReason::DmScope),
                _ if self.request.fix_missing => self.missing_transcript(index),
                _ => None,
            };
            if let Some(removal) = removal {
                self.verdicts[index] = EntryVerdict::Remove(removal);
            }
        }
    }

    /// Whether an entry is a direct chat that belongs into the main session now.
    fn is_retired(&self, index: usize) -> bool {
        if self.request.retire == RetiredPeers::Nobody
            || self.kinds[index] != SessionKeyKind::Direct
        {
            return false;
        }
        let key = SessionKey::new(&self.entry_at(index).key);
        let is_meant = match self.request.retire {
            RetiredPeers::Nobody => false,
            RetiredPeers::Agent(agent) => key.agent_id() == Some(agent),
            RetiredPeers::Everybody => true,
        };
        is_meant && key.is_of_one_peer()
    }

    fn missing_transcript(&self, index: usize) -> Option<RemovalReason> {
        let entry = self.entry_at(index);
        if entry.view.session_id.is_none() {
            // An agent's key stands for a session that has not begun yet; a bare one is a remnant.
            let bare = SessionKey::new(&entry.key).agent_id().is_none();
            return bare.then_some(RemovalReason::NoSession);
        }
        if self.repairs.contains_key(&index) {
            return None;
        }
        match self.store.facts[index].transcript {
            TranscriptState::Missing => Some(RemovalReason::Missing),
            TranscriptState::HeaderOnly => Some(RemovalReason::HeaderOnly),
            TranscriptState::Sound | TranscriptState::Elsewhere => None,
        }
    }

    fn over_cap(&self) -> bool {
        match self.request.trigger {
            MaintenanceTrigger::Write => {
                self.entries_left() >= self.request.policy.high_water_entries()
            }
            MaintenanceTrigger::Cleanup => {
                self.entries_left() > self.request.policy.max_entries.value
            }
        }
    }

    fn model_runs(&mut self) {
        if !self.over_cap() {
            return;
        }
        for index in self.removable_entries() {
            if self.kinds[index] == SessionKeyKind::ModelRun
                && self.is_older(index, MODEL_RUN_RETENTION)
            {
                self.verdicts[index] = EntryVerdict::Remove(RemovalReason::ModelRun);
            }
        }
    }

    fn by_age(&mut self) {
        for index in self.removable_entries() {
            if self.is_older(index, self.request.policy.prune_after.value) {
                self.verdicts[index] = EntryVerdict::Remove(RemovalReason::Stale);
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
        let kept = self.entries_left() - removable.len();
        let room = if kept >= max { max } else { max - kept };
        for &index in removable.iter().skip(room) {
            self.verdicts[index] = EntryVerdict::Remove(RemovalReason::OverCap);
        }
    }

    /// The removable entries, newest first; without a date last; the earlier of two equals first.
    fn newest_first(&self) -> Vec<usize> {
        let mut removable = self.removable_entries();
        removable.sort_by_key(|&index| std::cmp::Reverse(self.entry_at(index).view.updated_at));
        removable
    }

    fn change_file(&mut self, file: usize, act: StoreFileAction, why: StoreFileReason) {
        if !self.store.files[file].held {
            self.changes.insert(file, StoreFileChange { file, act, why });
        }
    }

    /// Puts away the transcripts that only removed entries refer to, and what lies beside them. Entries
    /// that go for want of a transcript leave everything where it is.
    fn files_of_removed(&mut self) {
        let mut gone = Vec::new();
        for (index, verdict) in self.verdicts.iter().enumerate() {
            if let EntryVerdict::Remove(removal) = verdict {
                let freed = self.references.release_entry(index);
                if removal.takes_files() {
                    gone.extend(freed);
                }
            }
        }
        for file in gone {
            match self.store.files[file].kind {
                StoreFileKind::Transcript => {
                    self.change_file(file, StoreFileAction::Archive, StoreFileReason::Entry)
                }
                StoreFileKind::Sidecar(_) => {
                    self.change_file(file, StoreFileAction::Remove, StoreFileReason::Entry)
                }
                _ => {}
            }
        }
    }

    /// Removes what was put away long ago, and what nothing refers to. Transcripts without an entry are
    /// a person's words: only the disk budget takes those.
    fn old_files(&mut self) {
        let MaintenanceRequest { policy, now, .. } = self.request;
        let before = |at: Time, span: Duration| at < now.minus(span);
        for (index, one) in self.store.files.iter().enumerate() {
            let stays = |file: usize| !self.changes.contains_key(&file);
            if !stays(index) {
                continue;
            }
            let prune_after = policy.prune_after.value;
            let why = match &one.kind {
                StoreFileKind::Archive(ArchiveReason::Deleted, Some(at))
                    if before(*at, prune_after) =>
                {
                    StoreFileReason::OldArchive
                }
                StoreFileKind::Archive(ArchiveReason::Reset, Some(at))
                    if policy.reset_retention.value.is_some_and(|span| before(*at, span)) =>
                {
                    StoreFileReason::OldArchive
                }
                StoreFileKind::Temporary if before(one.modified, file::TEMPORARY_FILE_GRACE) => {
                    StoreFileReason::OldTemporary
                }
                StoreFileKind::Checkpoint(_)
                | StoreFileKind::Blob(_)
                | StoreFileKind::Sidecar(_)
                    if !self.references.is_referenced(index)
                        && !self.references.has_transcript(&one.kind, stays)
                        && before(one.modified, prune_after) =>
                {
                    StoreFileReason::Unreferenced
                }
                _ => continue,
            };
            self.change_file(index, StoreFileAction::Remove, why);
        }
    }
}

/// What becomes of the entries that lead astray from their own transcripts. What is held, or is no
/// session, is left alone.
fn plan_repairs(store: &StoreSnapshot<'_>, verdicts: &[EntryVerdict]) -> BTreeMap<usize, String> {
    let repair = |index: usize| {
        let own = &store.files[store.facts[index].own?];
        let entry = &store.document.entries[index];
        let leave = matches!(
            verdicts[index],
            EntryVerdict::Keep(KeepReason::Held(_) | KeepReason::Unusable(_))
        );
        let path = format!("{}/{}", store.directory, own.name);
        (!leave).then(|| (index, entry.with_session_file(&path)))
    };
    (0..verdicts.len()).filter_map(repair).collect()
}
