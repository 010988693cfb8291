//! Whose change it is: the gateway's if it runs, else the writer's.

use std::path::Path;
use std::time::Duration;

use adapters::Env;
use model::openclaw::policy::Policy;
use model::openclaw::wire::{
    CapView, DiskBudgetView, PolicyView, StoreCleanup, StoreCleanupResult, StoreRebuildResult,
};
use model::time::Time;
use model::wire::Incomplete;
use serde_json::{Value, json};

use super::ask::Ask;
use super::find::Selection;
use super::plan::empty;
use super::{AGENT, StoreError, policy};
use crate::daemon::{CallError, OrderError};
use crate::openclaw::config::Config;
use crate::openclaw::gateway::{self, GatewayError, Route};
use crate::pins::Pins;
use crate::variables;
use crate::work::{self, Done, Failure, FailureKind, Work};

/// How long the gateway may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a store was not changed, or is not known to have been.
#[derive(Debug, thiserror::Error)]
pub enum CleanError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The gateway did not do it, or may have.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// The writer did not do it, or may have.
    #[error(transparent)]
    Order(#[from] OrderError),
}

/// Who asks, and where.
#[derive(Clone, Copy, Debug)]
pub struct Desk<'a> {
    /// ostler's home.
    pub home: &'a Path,
    /// ostler's directory for sockets.
    pub runtime: &'a Path,
    /// The environment.
    pub env: &'a Env<'a>,
    /// The time.
    pub now: Time,
}

/// Cleans up. A store that was named by its path is never the gateway's business.
pub fn clean(
    desk: &Desk<'_>,
    ask: &Ask,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<StoreCleanupResult, CleanError> {
    let (config, variables) = variables::noted(desk.env, Config::read);
    let config = config.map_err(StoreError::from)?;
    let policy = policy(&config)?;
    if !matches!(ask.selection, Selection::Path(_)) {
        if Pins::read(desk.home).of_agent(AGENT).is_ok_and(|pinned| pinned.is_empty()) {
            if let Some(answer) = dispatched(&config, ask)? {
                return Ok(told(&answer, &policy, ask));
            }
        } else {
            refuse_gateway(&config)?;
        }
    }
    let work = Work::StoreCleanup(Box::new(Ask { variables, ..ask.clone() }));
    match work::carry_out(desk.home, desk.runtime, &work, desk.now, progress)? {
        (Done::StoreCleanup(result), transport) => {
            Ok(StoreCleanupResult { transport: Some(transport.word().into()), ..*result })
        }
        _ => Err(OrderError::Call(CallError::MayHaveApplied("another answer".to_owned())).into()),
    }
}

/// Has a new index written.
pub fn rebuild(desk: &Desk<'_>, ask: &Ask) -> Result<StoreRebuildResult, CleanError> {
    let (config, variables) = variables::noted(desk.env, Config::read);
    config.map_err(StoreError::from)?;
    let work = Work::StoreRebuild(Box::new(Ask { variables, ..ask.clone() }));
    match work::carry_out(desk.home, desk.runtime, &work, desk.now, &mut |_, _| {})? {
        (Done::StoreRebuild(result), _) => Ok(*result),
        _ => Err(OrderError::Call(CallError::MayHaveApplied("another answer".to_owned())).into()),
    }
}

/// The gateway knows of no pins: while it runs, nobody can clean up and heed them.
fn refuse_gateway(config: &Config) -> Result<(), OrderError> {
    let refused = |owned| Failure {
        kind: FailureKind::Refused,
        message: format!(
            "some of OpenClaw's sessions are pinned, and its gateway would not heed that: {owned}"
        ),
        hint: "stop OpenClaw first (`openclaw gateway stop`), or `ostler pin --remove` them"
            .to_owned(),
    };
    gateway::prove_unowned(config).map_err(refused).map_err(OrderError::NotDone)?;
    Ok(())
}

/// The gateway's answer, or nothing if it is proven not to run.
fn dispatched(config: &Config, ask: &Ask) -> Result<Option<Value>, GatewayError> {
    let mut params = serde_json::Map::new();
    match &ask.selection {
        Selection::Agent(id) => {
            params.insert("agent".to_owned(), json!(id));
        }
        Selection::All => {
            params.insert("allAgents".to_owned(), json!(true));
        }
        Selection::Default | Selection::Path(_) => {}
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
    match gateway::dispatch(config, "sessions.cleanup", &Value::Object(params), PATIENCE)? {
        Route::Gateway(answer) => Ok(Some(answer)),
        Route::Local(_) => Ok(None),
    }
}

/// What the gateway says it did: one store as an object, several in a list.
fn told(answer: &Value, policy: &Policy, ask: &Ask) -> StoreCleanupResult {
    let stores = match answer.get("stores").and_then(Value::as_array) {
        Some(stores) => stores.iter().collect(),
        None => vec![answer],
    };
    let mut result = empty(Vec::new());
    result.applied = true;
    result.transport = Some("gateway".into());
    result.stores = stores.into_iter().map(|store| summary(store, policy)).collect();
    result.count = result
        .stores
        .iter()
        .map(|store| store.before_count.saturating_sub(store.after_count))
        .sum();
    if ask.drop_unusable {
        result.incomplete.push(Incomplete {
            source: "openclaw".to_owned(),
            path: None,
            reason: "its gateway did the cleanup, and knows no --drop-unusable".to_owned(),
        });
    }
    result
}

fn summary(store: &Value, policy: &Policy) -> StoreCleanup {
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
        mode: text("mode").map_or_else(|| policy.mode.value.word().into(), Into::into),
        policy: PolicyView::from(policy),
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
    }
}
