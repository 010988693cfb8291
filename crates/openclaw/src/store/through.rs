//! Whose change it is: the gateway's if it runs, else the writer's.
//!
//! Beside a gateway the plan is carried out key by key with its `sessions.delete`, which checks under its
//! own lock that the entry is still the one that was looked at. Its `sessions.cleanup` follows a policy of
//! its own, which takes other entries than were shown, and is used only for databases, whose plan
//! only OpenClaw can make.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::rules::policy::MaintenancePolicy;
use crate::timeouts::GATEWAY_ANSWER_TIMEOUT;
use crate::wire::{
    CapView, DiskBudgetView, PolicyView, StoreCleanup, StoreCleanupResult, StoreItem,
};
use model::plan::Refusal;
use model::time::Time;
use model::wire::IncompleteSource;
use serde_json::{Value, json};
use sys::machine::Machine;

use super::apply::mark_refused;
use super::ask::SessionStoreRequest;
use super::find::{StorePlace, StoreSelection, locate_stores};
use super::plan::{CleanupRequest, PlannedCleanup, empty_result, goes_by_key, plan_cleanup};
use super::{AGENT, StoreError, database, path_text};
use crate::config::OpenClawConfig;
use crate::gateway::{self, GatewayError, GatewayRoute, Owned};
use model::failure::{Failure, FailureKind};

/// Why a store was not changed, or is not known to have been.
#[derive(Debug, thiserror::Error)]
pub enum StoreChangeError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The gateway did not do it, or may have.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// It was refused; nothing was changed.
    #[error(transparent)]
    NotDone(#[from] Failure),
}

/// The store of a gateway elsewhere is not here: what is planned from the files of this machine would say
/// nothing about it.
pub fn refuse_remote(config: &OpenClawConfig) -> Result<(), Failure> {
    let Some(url) = &config.gateway.remote else { return Ok(()) };
    let place = if url.is_empty() { "another machine" } else { "another place" };
    Err(Failure {
        kind: FailureKind::Refused,
        message: format!(
            "OpenClaw's gateway is configured at {place}: its store cannot be read from here, so that \
             nothing could be shown first"
        ),
        hint: "run `ostler store cleanup` where the gateway runs, or name a store with `--store`"
            .to_owned(),
    })
}

/// Cleans up while a gateway owns the stores, or may.
pub fn clean_beside(
    cleanup: &CleanupRequest<'_>,
    ask: &SessionStoreRequest,
    owned: &Owned,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<StoreCleanupResult, StoreChangeError> {
    let (places, skipped) = locate_stores(cleanup.config, &ask.selection)?;
    if places.iter().any(|place| place.database) {
        return clean_databases(cleanup, ask, &places);
    }
    let mut result = empty_result(skipped);
    result.transport = Some("gateway".into());
    let mut deletion = Deletion { config: cleanup.config, owned, deleted: 0, first: None };
    for place in &places {
        match plan_cleanup(cleanup, place) {
            Ok(PlannedCleanup { refused: Some(why), view, .. }) => {
                if places.len() == 1 {
                    return Err(refused_beside(why).into());
                }
                result.incomplete.push(IncompleteSource {
                    source: AGENT.to_owned(),
                    path: Some(path_text(&place.path)),
                    reason: why,
                });
                result.stores.push(view);
            }
            Ok(mut planned) => {
                let consented = ask.consent.as_ref().is_none_or(|plans| {
                    planned.view.plan_hash.as_ref().is_some_and(|hash| plans.contains(hash))
                });
                if consented {
                    deletion.delete_planned(&mut planned, &mut result.incomplete, progress)?;
                    result.applied = true;
                } else {
                    planned.view.replanned = true;
                }
                result.stores.push(planned.view);
            }
            Err(error) if places.len() > 1 => result.incomplete.push(error.incomplete()),
            Err(error) => return Err(error.into()),
        }
    }
    match deletion.first {
        Some(error) if deletion.deleted == 0 => return Err(error.into()),
        _ => {}
    }
    super::plan::count_totals(&mut result);
    Ok(result)
}

fn refused_beside(message: String) -> Failure {
    let hint = "stop it first (`openclaw gateway stop`), then clean up; or set \
                `session.maintenance.mode` to `warn` in its configuration";
    Failure { kind: FailureKind::Refused, message, hint: hint.to_owned() }
}

/// Deleting planned entries through the gateway.
struct Deletion<'a> {
    config: &'a OpenClawConfig,
    owned: &'a Owned,
    deleted: usize,
    /// The first thing that went wrong.
    first: Option<GatewayError>,
}

impl Deletion<'_> {
    fn delete_planned(
        &mut self,
        planned: &mut PlannedCleanup,
        incomplete: &mut Vec<IncompleteSource>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), StoreChangeError> {
        let place = planned.loaded.place.clone();
        let before = updates(planned)?;
        let total = planned.view.items.iter().filter(|item| goes_by_key(item)).count();
        let mut failures: HashMap<String, String> = HashMap::new();
        let mut over = None;
        let going = planned.view.items.iter().filter(|item| goes_by_key(item));
        for (at, item) in going.enumerate() {
            if let Some(why) = &over {
                failures.insert(item.id.clone(), format!("not tried after this: {why}"));
                continue;
            }
            progress(at, total);
            sys::pause::pause_at("store.delete-key");
            let updated_at = before.get(&item.id).copied().flatten();
            if let Err(error) = self.delete_key(&place, item, updated_at) {
                failures.insert(item.id.clone(), error.to_string());
                // A refusal is about this key. Anything else would meet the next one, too.
                if !matches!(error, GatewayError::Call(gateway::GatewayCallError::Refused { .. })) {
                    over = Some(error.to_string());
                }
                self.first.get_or_insert(error);
            }
        }
        self.note_what_went(planned, &before, &failures, incomplete)
    }

    /// Has one entry deleted, if it is still the one that was looked at.
    fn delete_key(
        &self,
        place: &StorePlace,
        item: &StoreItem,
        updated_at: Option<Time>,
    ) -> Result<(), GatewayError> {
        let mut params = json!({ "key": item.id, "deleteTranscript": true });
        if let Some(session) = &item.session {
            params["expectedSessionId"] = json!(session);
        }
        if let Some(at) = updated_at {
            params["expectedSessionUpdatedAt"] = json!(at.as_millis());
        }
        if let Some(agent) = place.agent.as_ref().filter(|_| item.agent.is_none()) {
            params["agentId"] = json!(agent);
        }
        let gateway = &self.config.gateway;
        match gateway::call_gateway(gateway, "sessions.delete", &params, GATEWAY_ANSWER_TIMEOUT) {
            Ok(_) => Ok(()),
            // Something of OpenClaw's is there, and it is no gateway.
            Err(gateway::GatewayCallError::NotRunning { .. }) => Err(self.owned.clone().into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Compares the store with what it was: what went is what is not there any more, independent of the answer.
    fn note_what_went(
        &mut self,
        planned: &mut PlannedCleanup,
        before: &BTreeMap<String, Option<Time>>,
        failures: &HashMap<String, String>,
        incomplete: &mut Vec<IncompleteSource>,
    ) -> Result<(), StoreChangeError> {
        let path = path_text(&planned.loaded.place.path);
        let after = super::read::LoadedStore::read_index_alone(&planned.loaded.place)?;
        let after: BTreeSet<String> =
            after.parse_document()?.entries.iter().map(|entry| entry.key.to_string()).collect();
        for item in planned.view.items.iter_mut().filter(|item| goes_by_key(item)) {
            if !after.contains(&item.id) {
                item.outcome = Some("done".into());
                self.deleted += 1;
                continue;
            }
            let why = failures.get(&item.id).cloned();
            let why = why.unwrap_or_else(|| "it is there although the gateway said so".to_owned());
            incomplete.push(IncompleteSource {
                source: AGENT.to_owned(),
                path: Some(path.clone()),
                reason: format!("`{}` was not deleted: {why}", item.id),
            });
            mark_refused(item, &Refusal::Unreadable { why });
        }
        let listed = |key: &&String| {
            planned.view.items.iter().any(|item| item.kind == "entry" && item.id == **key)
        };
        let more: Vec<StoreItem> = before
            .keys()
            .filter(|key| !after.contains(*key) && !listed(key))
            .map(|key| taken(key, "somebody else took it meanwhile"))
            .collect();
        planned.view.items.extend(more);
        planned.view.before_count = before.len();
        planned.view.after_count = after.len();
        let count = |rule: &str| {
            let done = |item: &&StoreItem| item.rule == rule && item.outcome.is_some();
            let done = planned.view.items.iter().filter(|item| goes_by_key(item)).filter(done);
            done.count()
        };
        let counts = [
            "prune-stale",
            "cap-overflow",
            "evict-budget",
            "prune-missing",
            "retire-dm-scope",
            "prune-model-run",
        ]
        .map(count);
        let view = &mut planned.view;
        [
            view.pruned,
            view.capped,
            view.evicted,
            view.missing,
            view.dm_scope_retired,
            view.model_runs,
        ] = counts;
        Ok(())
    }
}

/// When the entry of each key was last changed.
fn updates(planned: &PlannedCleanup) -> Result<BTreeMap<String, Option<Time>>, StoreError> {
    let document = planned.loaded.parse_document()?;
    let entries = document.entries.iter();
    Ok(entries.map(|entry| (entry.key.to_string(), entry.view.updated_at)).collect())
}

/// An entry that was there before and is not any more.
fn taken(key: &str, reason: &str) -> StoreItem {
    StoreItem {
        action: "remove".into(),
        rule: "gateway".into(),
        kind: "entry".into(),
        id: key.to_owned(),
        agent: crate::rules::key::SessionKey::new(key).agent_id().map(str::to_owned),
        session: None,
        label: None,
        model: None,
        path: None,
        bytes: None,
        age_ms: None,
        reason: reason.to_owned(),
        only_with_enforce: false,
        outcome: Some("done".into()),
        refused: None,
    }
}

/// Has the gateway clean its databases up by its own policy, and lists what is gone then.
fn clean_databases(
    cleanup: &CleanupRequest<'_>,
    ask: &SessionStoreRequest,
    places: &[StorePlace],
) -> Result<StoreCleanupResult, StoreChangeError> {
    let pinned = cleanup.pins.of_agent(AGENT);
    if !pinned.is_ok_and(|pinned| pinned.is_empty()) {
        return Err(Failure {
            kind: FailureKind::Refused,
            message: "some of OpenClaw's sessions are pinned, and its gateway would not heed that"
                .to_owned(),
            hint: "`ostler pin --remove` them, or leave the cleanup to `openclaw sessions cleanup`"
                .to_owned(),
        }
        .into());
    }
    let before = database_keys(places)?;
    let Some(answer) = ask_gateway(cleanup.config, ask, cleanup.machine)? else {
        let database = places.iter().find(|place| place.database);
        let path = database.map(|place| place.path.clone()).unwrap_or_default();
        return Err(StoreError::Database(path).into());
    };
    let mut result = gateway_result(&answer, cleanup.policy, ask);
    let after = database_keys(places)?;
    let gone = before.difference(&after);
    let items = gone.map(|key| taken(key, "OpenClaw's own policy took it"));
    if let Some(store) = result.stores.first_mut() {
        store.items.extend(items);
    }
    result.count = before.difference(&after).count();
    Ok(result)
}

fn database_keys(places: &[StorePlace]) -> Result<BTreeSet<String>, StoreError> {
    let mut keys = BTreeSet::new();
    for place in places.iter().filter(|place| place.database) {
        keys.extend(database::keys(place)?);
    }
    Ok(keys)
}

/// The gateway's answer, or nothing if it is proven not to run.
fn ask_gateway(
    config: &OpenClawConfig,
    ask: &SessionStoreRequest,
    machine: &Machine,
) -> Result<Option<Value>, GatewayError> {
    let mut params = serde_json::Map::new();
    match &ask.selection {
        StoreSelection::Agent(id) => {
            params.insert("agent".to_owned(), json!(id));
        }
        StoreSelection::All => {
            params.insert("allAgents".to_owned(), json!(true));
        }
        StoreSelection::Default | StoreSelection::Path(_) => {}
    }
    let flags = [
        ("enforce", ask.enforce),
        ("fixMissing", ask.fix_missing),
        ("fixDmScope", ask.fix_dm_scope),
    ];
    for (name, is_asked) in flags {
        if is_asked {
            params.insert(name.to_owned(), json!(true));
        }
    }
    if let Some(active) = &ask.active {
        params.insert("activeKey".to_owned(), json!(active));
    }
    match gateway::dispatch_change(
        config,
        "sessions.cleanup",
        &Value::Object(params),
        GATEWAY_ANSWER_TIMEOUT,
        machine,
    )? {
        GatewayRoute::Gateway(answer) => Ok(Some(answer)),
        GatewayRoute::Local(_) => Ok(None),
    }
}

/// What the gateway says it did: one store as an object, several in a list.
fn gateway_result(
    answer: &Value,
    policy: &MaintenancePolicy,
    ask: &SessionStoreRequest,
) -> StoreCleanupResult {
    let stores = match answer.get("stores").and_then(Value::as_array) {
        Some(stores) => stores.iter().collect(),
        None => vec![answer],
    };
    let mut result = empty_result(Vec::new());
    result.applied = true;
    result.transport = Some("gateway".into());
    // Which limits it applied it does not say: they are those of its databases.
    let policy = policy.clone().for_database();
    result.stores = stores.into_iter().map(|store| store_summary(store, &policy)).collect();
    result.count = result
        .stores
        .iter()
        .map(|store| store.before_count.saturating_sub(store.after_count))
        .sum();
    if let Some(error) = answer.get("partialError") {
        let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
        result.incomplete.push(IncompleteSource {
            source: AGENT.to_owned(),
            path: text("failingStorePath"),
            reason: text("message").unwrap_or_else(|| "its gateway stopped half-way".to_owned()),
        });
    }
    if ask.drop_unusable {
        result.incomplete.push(IncompleteSource {
            source: "openclaw".to_owned(),
            path: None,
            reason: "its gateway did the cleanup, and knows no --drop-unusable".to_owned(),
        });
    }
    result
}

fn store_summary(store: &Value, policy: &MaintenancePolicy) -> StoreCleanup {
    let number = |name: &str| {
        let number = store.get(name).and_then(Value::as_u64);
        usize::try_from(number.unwrap_or(0)).unwrap_or(usize::MAX)
    };
    let text = |name: &str| store.get(name).and_then(Value::as_str).map(str::to_owned);
    let budget = store.get("diskBudget").filter(|budget| budget.is_object()).map(|budget| {
        let number = |name: &str| budget.get(name).and_then(Value::as_u64).unwrap_or(0);
        let count = |name: &str| usize::try_from(number(name)).unwrap_or(usize::MAX);
        DiskBudgetView {
            total_bytes_before: number("totalBytesBefore"),
            total_bytes_after: number("totalBytesAfter"),
            removed_files: count("removedFiles"),
            removed_entries: count("removedEntries"),
            freed_bytes: number("freedBytes"),
            max_bytes: number("maxBytes"),
            high_water_bytes: number("highWaterBytes"),
            over_budget: budget.get("overBudget") == Some(&Value::Bool(true)),
            unsatisfiable: number("totalBytesAfter") > number("maxBytes"),
        }
    });
    let after = number("afterCount");
    StoreCleanup {
        agent_id: text("agentId"),
        path: text("storePath").unwrap_or_default(),
        mode: text("mode").map_or_else(|| policy.mode.value.as_str().into(), Into::into),
        policy: PolicyView::from(policy),
        archived: number("archived"),
        cap_archived: number("capArchived"),
        before_count: number("beforeCount"),
        after_count: after,
        repaired: number("repaired"),
        missing: number("missing"),
        dm_scope_retired: number("dmScopeRetired"),
        pruned: number("pruned"),
        capped: number("capped"),
        evicted: budget.as_ref().map_or(0, |budget| budget.removed_entries),
        model_runs: number("modelRunPruned"),
        unusable: 0,
        cap: CapView {
            max_entries: policy.max_entries.value,
            protected: 0,
            unsatisfiable: after > policy.max_entries.value,
        },
        disk_budget: budget,
        would_mutate: store.get("wouldMutate") == Some(&Value::Bool(true)),
        plan_hash: None,
        replanned: false,
        items: Vec::new(),
        openclaw: Default::default(),
    }
}
