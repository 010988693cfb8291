//! Deleting an agent: by the gateway if it runs, else by the reaper.

use std::time::Duration;

use crate::rules::agent::MAIN;
use model::plan::{Kind, Refusal};
use model::time::Time;
use model::wire::{AgentChange, AgentDeleteResult, AgentItem, AgentOutcome, RefusalView};
use serde_json::{Value, json};
use sys::lockfile::LockFile;

use super::plan::{DeletePlan, Doing, Step, command, described, plan};
use super::{AgentsError, Ask, Target, places};
use crate::gateway::{Owner, Route, dispatch, prove_unowned};
use crate::locks;
use reaper::{InUse, Planned, Reaper, recheck};
use store::writer::Writer;

/// Has the gateway delete it. `None` if that is ours to do.
pub fn through_gateway(
    target: &Target,
    patience: Duration,
) -> Result<Option<AgentDeleteResult>, AgentsError> {
    if target.earlier.is_some() {
        // The gateway does not know the agent any more.
        prove_unowned(&target.config)?;
        return Ok(None);
    }
    let params = json!({ "agentId": target.agent.id, "deleteFiles": true });
    let pruned = target.config.without(&target.agent.id)?;
    match dispatch(&target.config, "agents.delete", &params, patience)? {
        Route::Local(_) => Ok(None),
        Route::Gateway(answer) => {
            let mut result = described(target);
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
pub fn is_gateways(target: &Target) -> bool {
    prove_unowned(&target.config).is_err()
}

/// What the gateway would do, as far as that is known from here: it is not asked.
pub fn preview_by_gateway(target: &Target) -> Result<AgentDeleteResult, AgentsError> {
    let mut result = described(target);
    let pruned = target.config.without(&target.agent.id)?;
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
fn kind_of(path: &str, result: &AgentDeleteResult) -> Kind {
    match path {
        path if path == result.workspace => Kind::Workspace,
        path if path == result.sessions_dir => Kind::Transcript,
        _ => Kind::AgentDirectory,
    }
}

/// Deletes it here. Whoever calls this is ostler's writer; that OpenClaw's gateway does not run is
/// proven again before each step.
pub fn delete(writer: &mut Writer, ask: &Ask, now: Time) -> Result<AgentDeleteResult, AgentsError> {
    reaper::recover(&writer.home)?;
    let target = ask.with_env(|env| Target::find(&writer.home, &ask.id, env))?;
    prove_unowned(&target.config)?;
    let plan = plan(&target, &writer.home)?;
    if target.earlier.is_some() && plan.is_empty() {
        let known = vec![MAIN.to_owned()];
        return Err(AgentsError::NotFound { id: ask.id.clone(), known });
    }
    sys::pause::at("agents.planned");
    carry_out(writer, &target, &plan, now)
}

fn carry_out(
    writer: &Writer,
    target: &Target,
    plan: &DeletePlan,
    now: Time,
) -> Result<AgentDeleteResult, AgentsError> {
    let mut result = plan.preview(target);
    result.applied = true;
    let mut reaper = Reaper::begin(writer, &command(&target.agent.id), now)?;
    for (step, item) in plan.steps.iter().zip(&mut result.items) {
        let taken = match recheck(&step.planned, |planned| check(writer, target, planned)) {
            Err(refusal) => Err(refusal),
            Ok(checked) => match &step.doing {
                Doing::Trash => reaper.trash(&checked)?,
                Doing::Rewrite { before, after } => reaper.replace(&checked, before, after)?,
            },
        };
        match taken {
            Ok(()) => item.outcome = AgentOutcome::Done,
            Err(refusal) if is_configuration(step) => {
                // An agent that is still configured must not lose its files.
                return Err(AgentsError::Unchanged {
                    path: target.config.path.clone(),
                    why: refusal.reason(),
                    remedy: refusal.remedy(),
                });
            }
            Err(refusal) => {
                item.outcome = AgentOutcome::Failed;
                item.refused = Some(RefusalView::from(&refusal));
                result.failed += 1;
            }
        }
        sys::pause::at("agents.step");
    }
    result.receipt = reaper.finish()?.map(|(receipt, _)| receipt);
    Ok(result)
}

fn is_configuration(step: &Step) -> bool {
    step.planned.item.kind == model::plan::Kind::Configuration
}

/// The last look at one thing: nobody owns it, nobody works in it, and it still may go.
fn check(writer: &Writer, target: &Target, planned: &Planned) -> Result<Option<LockFile>, Refusal> {
    prove_unowned(&target.config).map_err(|owned| match owned.owner {
        Owner::Live { why, .. } => Refusal::Busy { who: format!("OpenClaw ({why})") },
        _ => Refusal::Unproven { why: owned.to_string() },
    })?;
    if planned.print.form != model::plan::Form::Directory {
        return Ok(None);
    }
    places::within_bounds(&target.config, &writer.home, &planned.path)?;
    InUse::look().check_below(&planned.path)?;
    let held = locks::held_in(&planned.path, &sys::proc::observer())
        .map_err(|error| Refusal::Unreadable { why: error.to_string() })?;
    match held.iter().find_map(locks::Lock::refusal) {
        Some(who) => Err(Refusal::Busy { who }),
        None => Ok(None),
    }
}
