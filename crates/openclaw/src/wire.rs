//! What programs read about OpenClaw's stores.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::policy::{MaintenancePolicy, PolicySetting};
use model::time::Time;
use model::wire::{IncompleteSource, RefusalView};

/// A word of a fixed list. It may have come through the daemon.
pub type FixedWord = Cow<'static, str>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreView {
    /// Whose it is; absent if several agents share it, or it was named by its path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The index, or the database.
    pub path: String,
    /// `file` or `database`.
    pub form: &'static str,
    /// How many entries it has.
    pub entries: usize,
}

/// One session of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreSession {
    pub key: String,
    /// What it is for: `main`, `direct`, `group`, `cron`, …
    pub kind: &'static str,
    /// The agent that its key names, else the one whose store it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    pub store: String,
    /// The session behind the key now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// When the entry was last changed; that is not when the last message came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Time>,
    /// How long ago that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// What the entry says about its last run; whether that is still so is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What it was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<String>,
    /// All tokens so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// The tokens that fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Whether the last run was broken off.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub aborted_last_run: bool,
    /// The key of the session that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<String>,
    /// Why the entry is no session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<&'static str>,
}

impl StoreSession {
    /// With another time of its last change.
    #[must_use]
    pub fn with_update_time(mut self, at: Time, now: Time) -> Self {
        self.updated_at = Some(at);
        self.age_ms = u64::try_from(now.since(at).as_millis()).ok();
        self
    }
}

/// The result of `store ls`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreLsResult {
    pub stores: Vec<StoreView>,
    /// How many sessions are listed.
    pub count: usize,
    /// How many there are.
    pub total_count: usize,
    /// How many may be listed; absent if all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_applied: Option<usize>,
    /// Whether there are more.
    pub has_more: bool,
    /// Only those changed within so many minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_minutes: Option<u64>,
    /// The sessions, the last changed first.
    pub sessions: Vec<StoreSession>,
    /// What could not be read.
    pub incomplete: Vec<IncompleteSource>,
}

/// A file, as part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreFile {
    /// Where it is.
    pub path: String,
    /// What it is.
    pub kind: &'static str,
    pub bytes: u64,
    /// When it was last changed.
    pub modified_at: Time,
}

/// The result of `store show`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreShowResult {
    pub session: StoreSession,
    /// How it stands with its transcript: `sound`, `missing`, `headerOnly` or `elsewhere`.
    pub transcript: &'static str,
    pub files: Vec<StoreFile>,
    /// What a cleanup would do with it: `keep`, `prune-stale`, …
    pub action: &'static str,
    pub reason: &'static str,
    /// The entry, as it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
}

/// A setting, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettingView<T> {
    /// What holds; absent if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<T>,
    /// `default`, `config`, or `derived` from another setting.
    pub origin: FixedWord,
}

/// The policy that holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyView {
    /// `enforce` or `warn`.
    pub mode: SettingView<FixedWord>,
    /// After how long without a change a session goes.
    pub prune_after_ms: SettingView<u64>,
    /// How many entries stay.
    pub max_entries: SettingView<usize>,
    /// How long transcripts of sessions that began anew are kept.
    pub reset_archive_retention_ms: SettingView<u64>,
    /// The most bytes in the directory.
    pub max_disk_bytes: SettingView<u64>,
    /// What is aimed at when there are more.
    pub high_water_bytes: SettingView<u64>,
    /// What was ignored, or taken for something else.
    pub notes: Vec<String>,
}

impl From<&MaintenancePolicy> for PolicyView {
    fn from(policy: &MaintenancePolicy) -> Self {
        fn setting_view<T: Copy, V>(
            setting: PolicySetting<T>,
            value: impl Fn(T) -> Option<V>,
        ) -> SettingView<V> {
            SettingView { value: value(setting.value), origin: setting.origin.as_str().into() }
        }
        let millis = |span: std::time::Duration| u64::try_from(span.as_millis()).ok();
        let has_budget = policy.max_disk.value.is_some();
        Self {
            mode: setting_view(policy.mode, |mode| Some(mode.as_str().into())),
            prune_after_ms: setting_view(policy.prune_after, millis),
            max_entries: setting_view(policy.max_entries, Some),
            reset_archive_retention_ms: setting_view(policy.reset_retention, |span| {
                span.and_then(millis)
            }),
            max_disk_bytes: setting_view(policy.max_disk, |bytes| bytes),
            high_water_bytes: setting_view(policy.high_water, |bytes| has_budget.then_some(bytes)),
            notes: policy.notes.clone(),
        }
    }
}

/// One line of a plan: an entry or a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreItem {
    /// `remove`, `archive`, `repair`, `keep`, or `skip` for what was planned and not done.
    pub action: FixedWord,
    /// By which rule: `prune-stale`, `cap-overflow`, …
    pub rule: FixedWord,
    /// `entry`, or what kind of file.
    pub kind: FixedWord,
    /// The key, or the name of the file.
    pub id: String,
    /// The agent that the key names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The session behind the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What it was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How long ago it was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    pub reason: String,
    /// The policy only warns: this happens only with `--enforce`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_with_enforce: bool,
    /// What came of it: `done` or `refused`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<FixedWord>,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusalView>,
}

/// What the cap came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapView {
    /// How many entries may stay.
    pub max_entries: usize,
    /// How many cannot go.
    pub protected: usize,
    /// Whether more must stay than may.
    pub unsatisfiable: bool,
}

/// What the disk budget came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskBudgetView {
    /// All bytes before.
    pub total_bytes_before: u64,
    /// All bytes after.
    pub total_bytes_after: u64,
    /// How many files go for it.
    pub removed_files: usize,
    /// How many entries go for it.
    pub removed_entries: usize,
    /// How many bytes that frees.
    pub freed_bytes: u64,
    /// How many bytes there may be.
    pub max_bytes: u64,
    /// What is aimed at.
    pub high_water_bytes: u64,
    /// Whether there were too many.
    pub over_budget: bool,
    /// Whether what must stay is more than what is aimed at.
    pub unsatisfiable: bool,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// What a cleanup does, or did, to one store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreCleanup {
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    pub path: String,
    /// `enforce` or `warn`.
    pub mode: FixedWord,
    /// The policy that holds.
    pub policy: PolicyView,
    /// How many entries stay and are archived, which only a database knows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub archived: usize,
    /// How many of a database's entries are archived because there are too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cap_archived: usize,
    /// How many entries there were.
    pub before_count: usize,
    /// How many there are then.
    pub after_count: usize,
    /// How many stay and lead to their own transcripts again.
    pub repaired: usize,
    /// How many go for want of a transcript.
    pub missing: usize,
    /// How many direct chats with single peers go, because all share the main session.
    pub dm_scope_retired: usize,
    /// How many go because of their age.
    pub pruned: usize,
    /// How many go because there are too many.
    pub capped: usize,
    /// How many go for the disk budget.
    pub evicted: usize,
    /// How many probes of models go.
    pub model_runs: usize,
    /// How many go because they are no sessions.
    pub unusable: usize,
    /// What the cap came to.
    pub cap: CapView,
    /// What the disk budget came to, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_budget: Option<DiskBudgetView>,
    /// Whether anything would be changed.
    pub would_mutate: bool,
    /// Stands for this plan: the same store in the same state gives the same. Absent for a database,
    /// whose plan only OpenClaw makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_hash: Option<String>,
    /// Whether the store changed meanwhile, and this is another plan than the first.
    pub replanned: bool,
    /// What goes, and what else was asked for.
    pub items: Vec<StoreItem>,
    /// `path`, `modelRuns` and, once applied, `afterCount`, as OpenClaw calls them.
    #[serde(flatten)]
    pub openclaw: OpenClawNames,
}

/// What OpenClaw's own `sessions cleanup --json` calls otherwise than ostler does, so that a program that
/// reads the one can read the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenClawNames {
    /// The same as `path`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub store_path: String,
    /// The same as `modelRuns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_run_pruned: Option<usize>,
    /// The same as `afterCount`, if the cleanup was carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_count: Option<usize>,
}

impl StoreCleanupResult {
    /// With every number also under OpenClaw's name for it.
    #[must_use]
    pub fn with_openclaw_names(mut self) -> Self {
        for store in &mut self.stores {
            store.openclaw = OpenClawNames {
                store_path: store.path.clone(),
                model_run_pruned: Some(store.model_runs),
                applied_count: self.applied.then_some(store.after_count),
            };
        }
        self
    }
}

/// The result of `store cleanup`, always of this shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreCleanupResult {
    /// Whether it was only a preview.
    pub dry_run: bool,
    /// Whether the plan was carried out, even if there was nothing to do.
    pub applied: bool,
    pub stores: Vec<StoreCleanup>,
    /// How many entries and files go, or went.
    pub count: usize,
    /// How many bytes of files that is.
    pub bytes: u64,
    /// What gives them back: `ostler undo RECEIPT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// Who did it, or would: `local`, `daemon` or `gateway`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<FixedWord>,
    /// What could not be read or done.
    pub incomplete: Vec<IncompleteSource>,
}

/// Something that `store verify` noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreFinding {
    /// `missing-transcript`, `orphan-transcript`, `temporary`, `unusable-entry`, …
    pub code: &'static str,
    /// Whether something is wrong, and not only left over.
    pub problem: bool,
    /// The key, or the name of the file.
    pub id: String,
    pub reason: String,
    /// What can be done.
    pub remedy: String,
    /// How many bytes it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// What `store verify` found in one store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreVerified {
    #[serde(flatten)]
    pub store: StoreView,
    /// How many files lie in its directory.
    pub files: usize,
    /// How many bytes they take.
    pub bytes: u64,
    /// Whether nothing is wrong.
    pub sound: bool,
    /// What was noticed.
    pub findings: Vec<StoreFinding>,
}

/// The result of `store verify`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreVerifyResult {
    pub stores: Vec<StoreVerified>,
    /// What could not be read.
    pub incomplete: Vec<IncompleteSource>,
}

/// One entry of a rebuilt index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebuiltEntry {
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Where it comes from: the name of a file of the store.
    pub from: String,
    /// `kept`, `recovered` from another copy of the index, or `made` from a transcript.
    pub how: FixedWord,
}

/// The result of `store rebuild`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreRebuildResult {
    /// Whether it was only a preview.
    pub dry_run: bool,
    /// Whether a new index was written.
    pub applied: bool,
    pub path: String,
    /// What is wrong with it as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// How many entries could be kept as they are.
    pub kept: usize,
    /// What the new index has besides.
    pub added: Vec<RebuiltEntry>,
    /// What gives the old index back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
}
