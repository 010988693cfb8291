//! What a cleanup would do to a store, as programs see it.

use std::fmt::Write as _;

use crate::rules::document::{IndexDocument, StoreEntry};
use crate::rules::key::SessionKey;
use crate::rules::maintain::{
    EntryVerdict, MaintenancePlan, MaintenanceRequest, MaintenanceTrigger, RemovalReason,
    RetiredPeers, StoreFileAction, StoreFileChange, StoreFileReason, StoreSnapshot,
    plan_maintenance, taken_by_gateway,
};
use crate::rules::policy::{MaintenanceMode, MaintenancePolicy};
use crate::wire::{
    CapView, DiskBudgetView, PolicyView, StoreCleanup, StoreCleanupResult, StoreItem,
};
use model::plan::Refusal;
use model::time::{Time, whole_millis};
use model::wire::IncompleteSource;
use sys::machine::Machine;

use super::apply::mark_refused;
use super::facts::gather_facts;
use super::find::StorePlace;
use super::read::LoadedStore;
use super::{AGENT, StoreError, may_run, path_text};
use crate::config::{OpenClawConfig, SHARED_SESSION_KEY};
use crate::gateway::{self, GatewayOwner};
use model::rules::pins::Pins;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct CleanupRequest<'a> {
    pub config: &'a OpenClawConfig,
    /// The policy it sets.
    pub policy: &'a MaintenancePolicy,
    /// What is never to be collected.
    pub pins: &'a Pins,
    /// Where and when.
    pub machine: &'a Machine,
    /// Whether to act although the policy only warns.
    pub enforce: bool,
    /// A key that must stay.
    pub active: Option<&'a str>,
    /// Whether entries without a transcript go, and those that lead astray from theirs are put right.
    pub fix_missing: bool,
    /// Whether rows of single peers go if direct chats share the main session.
    pub fix_dm_scope: bool,
    /// Whether entries that are no sessions go.
    pub drop_unusable: bool,
    /// Whether what stays is listed too.
    pub with_kept: bool,
    /// The gateway that owns the stores, or may: then it deletes entry by entry, and nothing else is
    /// done.
    pub beside: Option<&'a GatewayOwner>,
}

impl CleanupRequest<'_> {
    fn plan_input<'a>(&'a self, place: &'a StorePlace, acts: bool) -> MaintenanceRequest<'a> {
        MaintenanceRequest {
            policy: self.policy,
            acts,
            trigger: MaintenanceTrigger::Cleanup,
            now: self.machine.now(),
            active: self.active,
            fix_missing: self.fix_missing,
            retire: self.retire_rules(place),
            drop_unusable: self.drop_unusable,
            main_key: &self.config.main_key,
        }
    }

    /// Looks at a store, in the light of what is pinned.
    pub(super) fn load_store(&self, place: &StorePlace) -> Result<LoadedStore, StoreError> {
        let pinned = self.pins.of_agent(AGENT).map_err(|why| StoreError::Pins(why.to_owned()))?;
        Ok(LoadedStore::read_store(place, self.machine)?.with_held_sessions(&pinned))
    }

    fn is_enforced(&self) -> bool {
        self.enforce || self.policy.mode.value == MaintenanceMode::Enforce
    }

    fn retire_rules<'a>(&self, place: &'a StorePlace) -> RetiredPeers<'a> {
        match &place.agent {
            _ if !self.fix_dm_scope || self.config.dm_scope != SHARED_SESSION_KEY => {
                RetiredPeers::Nobody
            }
            Some(agent) => RetiredPeers::Agent(agent),
            None => RetiredPeers::Everybody,
        }
    }

    /// The policy, and what came of what was asked for besides it.
    fn policy_view(&self) -> PolicyView {
        let mut view = PolicyView::from(self.policy);
        if self.fix_dm_scope && self.config.dm_scope != SHARED_SESSION_KEY {
            view.notes.push(format!(
                "--fix-dm-scope does nothing: session.dmScope is `{}`, so that direct chats have \
                 sessions of their own",
                self.config.dm_scope
            ));
        }
        view
    }
}

/// A plan for one store, with what is needed to carry it out.
#[derive(Debug)]
pub struct PlannedCleanup {
    /// The store as it was found.
    pub loaded: LoadedStore,
    /// What becomes of it.
    pub plan: MaintenancePlan,
    /// The index as it will be, if it changes.
    pub index: Option<String>,
    /// The plan, for programs.
    pub view: StoreCleanup,
    /// Why it cannot be carried out while the gateway runs.
    pub refused: Option<String>,
}

/// What a cleanup would do. Nothing is changed, and the gateway is not asked.
pub fn preview_cleanup(
    cleanup: &CleanupRequest<'_>,
    places: &[StorePlace],
    skipped: Vec<IncompleteSource>,
) -> Result<StoreCleanupResult, StoreError> {
    let mut result = empty_result(skipped);
    result.dry_run = true;
    let owner = gateway::find_owner(cleanup.config, cleanup.machine);
    let is_named = places.iter().any(|place| place.named);
    let beside = Some(&owner).filter(|owner| **owner != GatewayOwner::Nobody && !is_named);
    let cleanup = &CleanupRequest { beside, ..*cleanup };
    result.transport = beside.map(|_| "gateway".into());
    for place in places {
        match plan_cleanup(cleanup, place) {
            Ok(planned) => result.stores.push(planned.view),
            // Of several stores, one that cannot be read does not hide the others.
            Err(error) if places.len() > 1 => result.incomplete.push(error.incomplete()),
            Err(error) => return Err(error),
        }
    }
    count_totals(&mut result);
    Ok(result)
}

/// An answer in which nothing is yet.
pub(super) fn empty_result(incomplete: Vec<IncompleteSource>) -> StoreCleanupResult {
    StoreCleanupResult {
        dry_run: false,
        applied: false,
        stores: Vec::new(),
        count: 0,
        bytes: 0,
        receipt: None,
        transport: None,
        incomplete,
    }
}

/// Adds up what goes, or went.
pub(super) fn count_totals(result: &mut StoreCleanupResult) {
    let goes = |item: &&StoreItem| {
        ["remove", "archive"].contains(&&*item.action) && !item.only_with_enforce
    };
    let items = || result.stores.iter().flat_map(|store| &store.items).filter(goes);
    (result.count, result.bytes) = (
        items().count(),
        items().filter(|item| item.kind != "entry").filter_map(|item| item.bytes).sum(),
    );
}

/// Plans the cleanup of one store.
pub(super) fn plan_cleanup(
    cleanup: &CleanupRequest<'_>,
    place: &StorePlace,
) -> Result<PlannedCleanup, StoreError> {
    if place.database {
        return Err(StoreError::Database(place.path.clone()));
    }
    let loaded = cleanup.load_store(place)?;
    let document = loaded.parse_document()?;
    // Without an index it cannot be said what belongs to what: everything stays.
    let files = if loaded.bytes.is_some() { loaded.files.as_slice() } else { &[] };
    let facts = gather_facts(&loaded, &document, cleanup.fix_missing, || {
        may_run(cleanup.config, cleanup.machine)
    });
    let directory = place.path.parent().map(path_text).unwrap_or_default();
    let store = StoreSnapshot { directory: &directory, document: &document, facts: &facts, files };
    let plan = plan_maintenance(&store, &cleanup.plan_input(place, cleanup.is_enforced()));
    let mut view = cleanup_view(cleanup, &loaded, &document, &plan);
    if !cleanup.is_enforced() {
        let enforced = plan_maintenance(&store, &cleanup.plan_input(place, true));
        only_with_enforce(cleanup, &loaded, &document, (&plan, &enforced), &mut view.items);
    }
    let mut refused = None;
    if let Some(owner) = cleanup.beside {
        let also =
            taken_by_gateway(&store, &plan, &cleanup.plan_input(place, cleanup.is_enforced()));
        let also: Vec<&str> = also.iter().map(|&at| &*document.entries[at].key).collect();
        refused = leave_to_gateway(owner, &plan, &also, &mut view);
    }
    let index = plan.changes_index().then(|| document.with_edits(|entry| plan.entry_edit(entry)));
    Ok(PlannedCleanup { plan, index, view, refused, loaded })
}

/// Whether an item is an entry that goes, and so can be deleted by its key.
pub(super) fn goes_by_key(item: &StoreItem) -> bool {
    item.kind == "entry" && item.action == "remove" && !item.only_with_enforce
}

/// Makes a plan one that the gateway can carry out: it deletes entries with their transcripts. What
/// else was planned waits until it is stopped. If its own policy would take more with the same write,
/// everything waits; the answer is why.
fn leave_to_gateway(
    owner: &GatewayOwner,
    plan: &MaintenancePlan,
    also: &[&str],
    view: &mut StoreCleanup,
) -> Option<String> {
    let waits = Refusal::Busy { who: "OpenClaw's gateway".to_owned() };
    let files =
        view.items.iter_mut().filter(|item| item.kind != "entry" && !item.only_with_enforce);
    let mut follows = Vec::new();
    for (item, change) in std::iter::zip(files, &plan.files) {
        if change.why == StoreFileReason::Entry {
            follows.push(item.id.clone());
        } else {
            mark_refused(item, &waits);
        }
    }
    // The transcript of an entry that goes is the gateway's to put away.
    view.items.retain(|item| item.kind == "entry" || !follows.contains(&item.id));
    view.items
        .iter_mut()
        .filter(|item| item.action == "repair")
        .for_each(|item| mark_refused(item, &waits));
    // What has no session cannot be named so that nothing else could be meant.
    let unnamed = |item: &&mut StoreItem| goes_by_key(item) && item.session.is_none();
    view.items.iter_mut().filter(unnamed).for_each(|item| mark_refused(item, &waits));
    (view.repaired, view.unusable) = (0, 0);
    let is_exact = also.is_empty() || !view.items.iter().any(goes_by_key);
    if !is_exact {
        let going = view.items.iter_mut().filter(|item| goes_by_key(item));
        going.for_each(|item| mark_refused(item, &waits));
    }
    let gone = view.items.iter().filter(|item| goes_by_key(item)).count();
    view.after_count = view.before_count.saturating_sub(gone);
    if let Some(budget) = &mut view.disk_budget {
        budget.removed_files = 0;
        budget.total_bytes_after = budget.total_bytes_before;
        budget.freed_bytes = 0;
        budget.unsatisfiable = budget.over_budget;
    }
    view.would_mutate = view.items.iter().any(goes_by_key);
    view.plan_hash =
        view.plan_hash.take().map(|hash| sys::hash::sha256(format!("gateway {hash}").as_bytes()));
    let owned = format!("OpenClaw's files {}", gateway::owner_words(owner));
    if is_exact {
        view.policy.notes.push(format!(
            "{owned}. The gateway deletes the entries below, key by key, and puts their transcripts away \
             as `.deleted.`; what lies beside them goes for good, and `ostler undo` does not bring it back"
        ));
        return None;
    }
    let named = also.iter().take(MOST_NAMED).map(|key| format!("`{key}`")).collect::<Vec<_>>();
    let more = also.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let refused = format!(
        "{owned}, and with any write its gateway applies a policy of its own, which would also take {}{more}",
        named.join(", ")
    );
    view.policy.notes.push(format!("{refused}: nothing is done while it runs"));
    Some(refused)
}

/// So many keys are named in a sentence.
const MOST_NAMED: usize = 5;

fn cleanup_view(
    cleanup: &CleanupRequest<'_>,
    loaded: &LoadedStore,
    document: &IndexDocument<'_>,
    plan: &MaintenancePlan,
) -> StoreCleanup {
    let count = |word: &str| plan.count_removals(|why| why.as_str() == word);
    let mut items: Vec<StoreItem> = std::iter::zip(&document.entries, &plan.entries)
        .filter(|(_, verdict)| cleanup.with_kept || verdict.changes())
        .map(|(entry, verdict)| entry_item(cleanup.machine.now(), entry, *verdict))
        .collect();
    // Newest first, as OpenClaw lists them; entries without a date come last.
    items.sort_by_key(|item| item.age_ms.unwrap_or(u64::MAX));
    items.extend(plan.files.iter().map(|change| file_item(cleanup.machine.now(), loaded, change)));
    StoreCleanup {
        agent_id: loaded.place.agent.clone(),
        path: path_text(&loaded.place.path),
        mode: cleanup.policy.mode.value.as_str().into(),
        policy: cleanup.policy_view(),
        archived: 0,
        cap_archived: 0,
        before_count: document.entries.len(),
        after_count: document.entries.len() - plan.removed_count(),
        repaired: plan.repaired_count(),
        missing: count(RemovalReason::Missing.as_str()),
        dm_scope_retired: count(RemovalReason::DmScope.as_str()),
        pruned: count(RemovalReason::Stale.as_str()),
        capped: count(RemovalReason::OverCap.as_str()),
        evicted: count(RemovalReason::OverBudget.as_str()),
        model_runs: count(RemovalReason::ModelRun.as_str()),
        unusable: plan.count_removals(|why| matches!(why, RemovalReason::Unusable(_))),
        cap: CapView {
            max_entries: plan.cap.max,
            protected: plan.cap.kept,
            unsatisfiable: cleanup.is_enforced() && plan.cap.is_unsatisfiable(),
        },
        disk_budget: plan.budget.map(|budget| DiskBudgetView {
            total_bytes_before: budget.before,
            total_bytes_after: budget.after,
            removed_files: budget.files,
            removed_entries: budget.entries,
            freed_bytes: budget.before - budget.after,
            max_bytes: budget.max,
            high_water_bytes: budget.high_water,
            over_budget: budget.is_over(),
            unsatisfiable: budget.is_unsatisfiable(),
        }),
        would_mutate: plan.changes_anything(),
        plan_hash: Some(plan_hash(loaded, document, plan)),
        replanned: false,
        items,
        openclaw: Default::default(),
    }
}

/// Adds what would go if the policy did not only warn.
fn only_with_enforce(
    cleanup: &CleanupRequest<'_>,
    loaded: &LoadedStore,
    document: &IndexDocument<'_>,
    (plan, enforced): (&MaintenancePlan, &MaintenancePlan),
    items: &mut Vec<StoreItem>,
) {
    let entries = std::iter::zip(&plan.entries, &enforced.entries).zip(&document.entries);
    let more = entries.filter(|((now, then), _)| !now.removes() && then.removes());
    let mut extra: Vec<StoreItem> =
        more.map(|((_, then), entry)| entry_item(cleanup.machine.now(), entry, *then)).collect();
    let planned = |change: &&StoreFileChange| !plan.files.contains(change);
    extra.extend(
        enforced
            .files
            .iter()
            .filter(planned)
            .map(|change| file_item(cleanup.machine.now(), loaded, change)),
    );
    for item in &mut extra {
        item.only_with_enforce = true;
    }
    let ids: std::collections::HashSet<&str> = extra.iter().map(|item| item.id.as_str()).collect();
    items.retain(|item| item.action != "keep" || !ids.contains(item.id.as_str()));
    items.extend(extra);
}

fn entry_item(now: Time, entry: &StoreEntry<'_>, verdict: EntryVerdict) -> StoreItem {
    let view = &entry.view;
    let text = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().map(str::to_owned);
    StoreItem {
        action: verdict.action_word().into(),
        rule: verdict.as_str().into(),
        kind: "entry".into(),
        id: entry.key.to_string(),
        agent: SessionKey::new(&entry.key).agent_id().map(str::to_owned),
        session: text(&view.session_id),
        label: text(&view.label).or_else(|| text(&view.display_name)),
        model: text(&view.model),
        path: None,
        bytes: Some(entry.raw.len() as u64),
        age_ms: view.updated_at.map(|at| millis_since(now, at)),
        reason: verdict.reason_text().to_owned(),
        only_with_enforce: false,
        outcome: None,
        refused: None,
    }
}

fn file_item(now: Time, loaded: &LoadedStore, change: &StoreFileChange) -> StoreItem {
    let file = &loaded.files[change.file];
    let (action, rule) = match change.act {
        StoreFileAction::Archive => ("archive", "archive-transcript"),
        StoreFileAction::Remove => ("remove", "remove-file"),
    };
    StoreItem {
        action: action.into(),
        rule: rule.into(),
        kind: file.kind.as_str().into(),
        id: file.name.clone(),
        agent: None,
        session: None,
        label: None,
        model: None,
        path: Some(path_text(&loaded.path_of(change.file))),
        bytes: Some(file.bytes),
        age_ms: Some(millis_since(now, file.modified)),
        reason: change.why.reason_text().to_owned(),
        only_with_enforce: false,
        outcome: None,
        refused: None,
    }
}

pub(super) fn millis_since(now: Time, at: Time) -> u64 {
    whole_millis(now.since(at))
}

/// Stands for a plan: what goes, and what that was when it was looked at.
fn plan_hash(loaded: &LoadedStore, document: &IndexDocument<'_>, plan: &MaintenancePlan) -> String {
    let mut text = sys::hash::sha256(document.source_text().as_bytes());
    for (entry, verdict) in std::iter::zip(&document.entries, &plan.entries) {
        if verdict.changes() {
            let _ = write!(text, "\n{} {}", verdict.as_str(), entry.key);
        }
    }
    for change in &plan.files {
        let print = loaded.prints[change.file];
        let _ = write!(text, "\n{:?} {} {print:?}", change.act, loaded.files[change.file].name);
    }
    sys::hash::sha256(text.as_bytes())
}
