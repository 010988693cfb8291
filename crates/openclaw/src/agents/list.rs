//! Listing OpenClaw's agents. Nothing is written, and the gateway is not asked.

use std::path::Path;

use crate::rules::agent::{MAIN, Owners};
use crate::rules::document::Document;
use model::liveness::Liveness;
use model::wire::{AgentView, AgentsLsResult, GatewayView, Incomplete};

use super::places;
use crate::config::{self, Agent, Config};
use crate::gateway::{Owner, owner};
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
pub fn list(
    config: &Config,
    known: &[KnownSession<'_>],
    mut incomplete: Vec<Incomplete>,
) -> AgentsLsResult {
    // Without any of its files there is no OpenClaw, and no agent that it would fall back to.
    let is_there = config.bytes.is_some() || config.state.exists();
    let agents = config.agents.iter().filter(|_| is_there);
    let agents = agents.map(|agent| view(config, agent, known, &mut incomplete)).collect();
    AgentsLsResult {
        config: text(&config.path),
        state: text(&config.state),
        gateway: gateway(config),
        agents,
        incomplete,
    }
}

fn gateway(config: &Config) -> GatewayView {
    let (state, reason, pid) = match owner(config) {
        Owner::Nobody => ("dead", None, None),
        Owner::Live { who, why } => ("alive", Some(why), who.pid),
        Owner::Doubt(why) => ("unknown", Some(why), None),
    };
    GatewayView { state: state.to_owned(), reason, pid }
}

fn view(
    config: &Config,
    agent: &Agent,
    known: &[KnownSession<'_>],
    incomplete: &mut Vec<Incomplete>,
) -> AgentView {
    let others: Vec<Agent> =
        config.agents.iter().filter(|other| other.id != agent.id).cloned().collect();
    let own = [places::real(&agent.agent_dir), places::real(&agent.sessions_dir)];
    let is_own = |path: &Path| own.iter().any(|place| path.starts_with(place));
    let observed: Vec<_> = known.iter().filter(|one| is_own(one.path)).collect();
    let sessions = match rows(config, agent) {
        Ok(Some(rows)) => Some(rows),
        Ok(None) => Some(observed.len() as u64),
        Err(reason) => {
            let (source, path) = ("openclaw".to_owned(), Some(text(&agent.store)));
            incomplete.push(Incomplete { source, path, reason });
            None
        }
    };
    let locked = locks::held_in(&agent.sessions_dir, &sys::proc::observer());
    let liveness = |wanted: &str| observed.iter().any(|one| one.liveness.state() == wanted);
    let live = match locked {
        Ok(locked) if locked.is_empty() && !liveness("alive") && !liveness("unknown") => "dead",
        Ok(locked) if locked.iter().any(locks::Lock::is_held) || liveness("alive") => "alive",
        _ => "unknown",
    };
    AgentView {
        id: agent.id.clone(),
        default: agent.is_default,
        configured: agent.is_configured,
        workspace: text(&agent.workspace),
        workspace_shared_with: places::sharers(&agent.workspace, &others),
        agent_dir: text(&agent.agent_dir),
        sessions_dir: text(&agent.sessions_dir),
        store: text(&agent.store),
        sessions,
        bytes: own.iter().map(|place| sys::trash::size_of(place)).sum(),
        live: live.to_owned(),
    }
}

/// How many rows of its store are the agent's; `None` if it has no such file.
fn rows(config: &Config, agent: &Agent) -> Result<Option<u64>, String> {
    let bytes = match config::read(&agent.store) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let document = Document::parse(&bytes).map_err(|error| error.to_string())?;
    let owners = Owners {
        default: config.default_agent(),
        has_main: config.has(MAIN),
        main_key: &config.main_key,
        store: config.store_owner(agent),
    };
    let own = |key: &str| owners.of(key).as_ref() == Some(&agent.id);
    Ok(Some(document.entries.iter().filter(|entry| own(&entry.key)).count() as u64))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
