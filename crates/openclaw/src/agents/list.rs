//! Listing OpenClaw's agents. Nothing is written, and the gateway is not asked.

use std::path::Path;

use crate::rules::agent::{MAIN_AGENT, RowOwners};
use crate::rules::document::IndexDocument;
use model::liveness::Liveness;
use model::wire::{AgentsLsResult, GatewayView, IncompleteSource, OpenClawAgentView};

use sys::machine::Machine;

use super::places;
use crate::config::{self, ConfiguredAgent, OpenClawConfig};
use crate::gateway::{GatewayOwner, find_owner};
use crate::locks;

/// A session of OpenClaw's that was observed.
#[derive(Clone, Copy, Debug)]
pub struct KnownSession<'a> {
    /// Its transcript or store.
    pub path: &'a Path,
    /// Whether its process is there.
    pub liveness: Liveness,
}

/// The agents that the configuration names; `known` are OpenClaw's sessions, `incomplete` is what could
/// not be read of them.
pub fn list_agents(
    config: &OpenClawConfig,
    known: &[KnownSession<'_>],
    mut incomplete: Vec<IncompleteSource>,
    machine: &Machine,
) -> AgentsLsResult {
    // Without any of its files there is no OpenClaw, and no agent that it would fall back to.
    let is_there = config.bytes.is_some() || config.state.exists();
    let agents = config.agents.iter().filter(|_| is_there);
    let agents =
        agents.map(|agent| agent_view(config, agent, known, &mut incomplete, machine)).collect();
    AgentsLsResult {
        config: path_text(&config.path),
        state: path_text(&config.state),
        gateway: gateway_view(config, machine),
        agents,
        incomplete,
    }
}

fn gateway_view(config: &OpenClawConfig, machine: &Machine) -> GatewayView {
    let (state, reason, pid) = match find_owner(config, machine) {
        GatewayOwner::Nobody => ("dead", None, None),
        GatewayOwner::Live { who, why } => ("alive", Some(why), who.pid),
        GatewayOwner::Doubt(why) => ("unknown", Some(why), None),
    };
    GatewayView { state: state.to_owned(), reason, pid }
}

fn agent_view(
    config: &OpenClawConfig,
    agent: &ConfiguredAgent,
    known: &[KnownSession<'_>],
    incomplete: &mut Vec<IncompleteSource>,
    machine: &Machine,
) -> OpenClawAgentView {
    let others: Vec<ConfiguredAgent> =
        config.agents.iter().filter(|other| other.id != agent.id).cloned().collect();
    let own = [places::real_path(&agent.agent_dir), places::real_path(&agent.sessions_dir)];
    let is_own = |path: &Path| own.iter().any(|place| path.starts_with(place));
    let observed: Vec<_> = known.iter().filter(|one| is_own(one.path)).collect();
    let sessions = match count_rows(config, agent) {
        Ok(Some(rows)) => Some(rows),
        Ok(None) => Some(observed.len() as u64),
        Err(reason) => {
            let (source, path) = ("openclaw".to_owned(), Some(path_text(&agent.store)));
            incomplete.push(IncompleteSource { source, path, reason });
            None
        }
    };
    let locked = locks::held_in(&agent.sessions_dir, machine);
    let liveness = |wanted: &str| observed.iter().any(|one| one.liveness.as_str() == wanted);
    let live = match locked {
        Ok(locked) if locked.is_empty() && !liveness("alive") && !liveness("unknown") => "dead",
        Ok(locked) if locked.iter().any(locks::TranscriptLock::is_held) || liveness("alive") => {
            "alive"
        }
        _ => "unknown",
    };
    OpenClawAgentView {
        id: agent.id.clone(),
        default: agent.is_default,
        configured: agent.is_configured,
        workspace: path_text(&agent.workspace),
        workspace_shared_with: places::workspace_sharers(&agent.workspace, &others),
        agent_dir: path_text(&agent.agent_dir),
        sessions_dir: path_text(&agent.sessions_dir),
        store: path_text(&agent.store),
        sessions,
        bytes: own.iter().map(|place| sys::trash::size_of(place)).sum(),
        live: live.to_owned(),
    }
}

/// How many rows of its store are the agent's; `None` if it has no such file.
fn count_rows(config: &OpenClawConfig, agent: &ConfiguredAgent) -> Result<Option<u64>, String> {
    let bytes = match config::read_bytes(&agent.store) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let document = IndexDocument::parse(&bytes).map_err(|error| error.to_string())?;
    let owners = RowOwners {
        default: config.default_agent(),
        has_main: config.has_agent(MAIN_AGENT),
        main_key: &config.main_key,
        store: config.store_owner(agent),
    };
    let own = |key: &str| owners.owner_of(key).as_ref() == Some(&agent.id);
    Ok(Some(document.entries.iter().filter(|entry| own(&entry.key)).count() as u64))
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
