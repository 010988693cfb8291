//! Deleting an agent: by the gateway if it runs, else by the reaper.

use std::time::Duration;

use model::openclaw::agent::MAIN;
use model::plan::Refusal;
use model::time::Time;
use model::wire::{AgentDeleteResult, AgentOutcome, RefusalView};
use serde_json::{Value, json};
use sys::lockfile::LockFile;

use super::plan::{DeletePlan, Doing, Step, command, described, plan};
use super::{AgentsError, Ask, Target, places};
use crate::collect::{InUse, Planned, Reaper, recheck};
use crate::openclaw::gateway::{Owner, Route, dispatch, prove_unowned};
use crate::openclaw::locks;
use crate::writer::Writer;

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
            Ok(Some(result))
        }
    }
}

/// Deletes it here. Whoever calls this is ostler's writer; that OpenClaw's gateway does not run is
/// proven again before each step.
pub fn delete(writer: &mut Writer, ask: &Ask, now: Time) -> Result<AgentDeleteResult, AgentsError> {
    crate::collect::recover(&writer.home)?;
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
