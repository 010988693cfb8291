//! Deleting an agent: by the gateway if it runs, else by the reaper.

use std::time::Duration;

use crate::rules::agent::MAIN_AGENT;
use model::plan::{Refusal, RemovableKind};
use model::wire::{AgentChange, AgentDeleteResult, AgentItem, AgentOutcome, RefusalView};
use serde_json::{Value, json};
use sys::lockfile::LockFile;
use sys::machine::Machine;

use super::plan::{
    DeleteAction, DeletePlan, DeleteStep, describe_target, journal_command, plan_delete,
};
use super::{AgentDeleteRequest, AgentsError, DeleteTarget, places};
use crate::gateway::{GatewayOwner, GatewayRoute, dispatch_change, prove_unowned};
use crate::locks;
use reaper::{InUse, PlannedRemoval, Reaper, recheck_planned};
use store::writer::StoreWriter;

/// Has the gateway delete it. `None` if that is ours to do.
pub fn delete_through_gateway(
    target: &DeleteTarget,
    patience: Duration,
    machine: &Machine,
) -> Result<Option<AgentDeleteResult>, AgentsError> {
    if target.earlier.is_some() {
        // The gateway does not know the agent any more.
        prove_unowned(&target.config, machine)?;
        return Ok(None);
    }
    let params = json!({ "agentId": target.agent.id, "deleteFiles": true });
    let pruned = target.config.without_agent(&target.agent.id)?;
    match dispatch_change(&target.config, "agents.delete", &params, patience, machine)? {
        GatewayRoute::Local(_) => Ok(None),
        GatewayRoute::Gateway(answer) => {
            let mut result = describe_target(target);
            result.applied = true;
            let bindings = answer.get("removedBindings").and_then(Value::as_u64);
            result.removed_bindings = bindings.unwrap_or(pruned.bindings as u64);
            result.removed_allow = pruned.allowed as u64;
            result.transport = Some("gateway".to_owned());
            note_answer(&answer, &mut result);
            Ok(Some(result))
        }
    }
}

/// Whether a gateway owns OpenClaw's files, or may.
pub fn is_gateways(target: &DeleteTarget, machine: &Machine) -> bool {
    prove_unowned(&target.config, machine).is_err()
}

/// What the gateway would do, as far as that is known from here: it is not asked.
pub fn preview_by_gateway(target: &DeleteTarget) -> Result<AgentDeleteResult, AgentsError> {
    let mut result = describe_target(target);
    let pruned = target.config.without_agent(&target.agent.id)?;
    (result.removed_bindings, result.removed_allow) =
        (pruned.bindings as u64, pruned.allowed as u64);
    result.transport = Some("gateway".to_owned());
    let places = [&result.workspace, &result.agent_dir, &result.sessions_dir];
    let shared = result.workspace_retained == Some(true);
    let items = places.into_iter().filter(|place| !shared || **place != result.workspace);
    result.items = items
        .map(|path| {
            let reason = "OpenClaw's gateway would move it away";
            gateway_item(&result, path, reason, AgentOutcome::Planned)
        })
        .collect();
    Ok(result)
}

/// Something that the gateway does.
fn gateway_item(
    result: &AgentDeleteResult,
    path: &str,
    reason: &str,
    outcome: AgentOutcome,
) -> AgentItem {
    AgentItem {
        action: AgentChange::Trash,
        kind: kind_of(path, result),
        path: path.to_owned(),
        bytes: 0,
        reason: reason.to_owned(),
        outcome,
        refused: None,
    }
}

/// Adds what the gateway says it moved away (`removed`), and what it could not (`failed`, `purgeFailed`):
/// it answers so since 2026.9.
fn note_answer(answer: &Value, result: &mut AgentDeleteResult) {
    let list = |name: &str| answer.get(name).and_then(Value::as_array).into_iter().flatten();
    let item = |path: &str, reason: &str, outcome| gateway_item(result, path, reason, outcome);
    let mut items = Vec::new();
    for path in list("removed").filter_map(Value::as_str) {
        items.push(item(path, "OpenClaw's gateway moved it away", AgentOutcome::Done));
    }
    for failed in list("failed") {
        let text = |name: &str| failed.get(name).and_then(Value::as_str).unwrap_or_default();
        items.push(item(text("path"), text("reason"), AgentOutcome::Failed));
    }
    if answer.get("purgeFailed") == Some(&Value::Bool(true)) {
        let reason =
            "its sessions could not be taken out of the store, so that its files were kept";
        items.push(item(&result.sessions_dir, reason, AgentOutcome::Failed));
    }
    result.failed = items.iter().filter(|item| item.outcome == AgentOutcome::Failed).count() as u64;
    result.items = items;
}

/// Which of the agent's places a path is.
fn kind_of(path: &str, result: &AgentDeleteResult) -> RemovableKind {
    match path {
        path if path == result.workspace => RemovableKind::Workspace,
        path if path == result.sessions_dir => RemovableKind::Transcript,
        _ => RemovableKind::AgentDirectory,
    }
}

/// Deletes it here. The caller holds ostler's writer lock; that OpenClaw's gateway does not run is
/// proven again before each step.
pub fn delete_agent(
    writer: &mut StoreWriter,
    ask: &AgentDeleteRequest,
    machine: &Machine,
) -> Result<AgentDeleteResult, AgentsError> {
    reaper::recover_interrupted(writer, machine)?;
    let asker = machine.with_variables(&ask.variables);
    let target = DeleteTarget::find_agent(&ask.id, &asker)?;
    prove_unowned(&target.config, machine)?;
    let plan = plan_delete(&target, machine)?;
    if target.earlier.is_some() && plan.is_empty() {
        let known = vec![MAIN_AGENT.to_owned()];
        return Err(AgentsError::NotFound { id: ask.id.clone(), known });
    }
    sys::pause::pause_at("agents.planned");
    carry_out(writer, &target, &plan, machine)
}

fn carry_out(
    writer: &StoreWriter,
    target: &DeleteTarget,
    plan: &DeletePlan,
    machine: &Machine,
) -> Result<AgentDeleteResult, AgentsError> {
    let mut result = plan.preview(target);
    result.applied = true;
    let mut reaper = Reaper::begin(writer, &journal_command(&target.agent.id), machine)?;
    for (step, item) in plan.steps.iter().zip(&mut result.items) {
        let taken =
            match recheck_planned(&step.planned, |planned| check_item(target, planned, machine)) {
                Err(refusal) => Err(refusal),
                Ok(checked) => match &step.doing {
                    DeleteAction::Trash => reaper.trash_item(&checked)?,
                    DeleteAction::Rewrite { before, after } => {
                        reaper.replace_content(&checked, before, after)?
                    }
                },
            };
        match taken {
            Ok(()) => item.outcome = AgentOutcome::Done,
            Err(refusal) if is_configuration(step) => {
                // An agent that is still configured must not lose its files.
                return Err(AgentsError::Unchanged {
                    path: target.config.path.clone(),
                    why: refusal.reason_text(),
                    remedy: refusal.remedy(),
                });
            }
            Err(refusal) => {
                item.outcome = AgentOutcome::Failed;
                item.refused = Some(RefusalView::from(&refusal));
                result.failed += 1;
            }
        }
        sys::pause::pause_at("agents.step");
    }
    result.receipt = reaper.finish()?.map(|(receipt, _)| receipt);
    Ok(result)
}

fn is_configuration(step: &DeleteStep) -> bool {
    step.planned.item.kind == model::plan::RemovableKind::Configuration
}

/// The last look at one thing: it has no owner, no process works in it, and it still may go.
fn check_item(
    target: &DeleteTarget,
    planned: &PlannedRemoval,
    machine: &Machine,
) -> Result<Option<LockFile>, Refusal> {
    prove_unowned(&target.config, machine).map_err(|owned| match owned.owner {
        GatewayOwner::Live { why, .. } => Refusal::Busy { who: format!("OpenClaw ({why})") },
        _ => Refusal::Unproven { why: owned.to_string() },
    })?;
    if planned.print.form != model::plan::FileForm::Directory {
        return Ok(None);
    }
    places::within_bounds(&target.config, machine.home(), &planned.path)?;
    InUse::scan_processes(adapters::may_be_agent).check_below(&planned.path)?;
    let held = locks::held_in(&planned.path, machine)
        .map_err(|error| Refusal::Unreadable { why: error.to_string() })?;
    match held.iter().find_map(locks::TranscriptLock::refusal) {
        Some(who) => Err(Refusal::Busy { who }),
        None => Ok(None),
    }
}
