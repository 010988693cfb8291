//! The agent that is meant.

use sys::machine::Machine;

use crate::rules::agent::{MAIN_AGENT, RowOwners, normalise_agent_id};

use super::resume::{EarlierDeletion, find_earlier_deletion};
use super::{AgentsError, places};
use crate::config::{ConfiguredAgent, OpenClawConfig};

/// An agent that is to be deleted.
#[derive(Debug)]
pub struct DeleteTarget {
    /// The configuration that names it: the present one, or the one of the first attempt.
    pub config: OpenClawConfig,
    pub agent: ConfiguredAgent,
    /// Its id as it was typed.
    pub typed: String,
    /// Other agents that work in its workspace.
    pub shared_with: Vec<String>,
    /// What an earlier attempt has done.
    pub earlier: Option<EarlierDeletion>,
    /// Every other agent.
    pub(super) others: Vec<ConfiguredAgent>,
}

impl DeleteTarget {
    /// Finds it. Only an agent that the configuration names can be deleted, or one that a deletion
    /// has already taken out of it.
    pub fn find_agent(id: &str, machine: &Machine) -> Result<Self, AgentsError> {
        let config = OpenClawConfig::load(&machine.env())?;
        // Without OpenClaw its one built-in agent is in no place that could be looked at.
        let known = || match config.state.exists() {
            true => config.agents.iter().map(|agent| agent.id.clone()).collect(),
            false => Vec::new(),
        };
        let not_found = || AgentsError::NotFound { id: id.to_owned(), known: known() };
        let normal = normalise_agent_id(id).ok_or_else(not_found)?;
        if normal == MAIN_AGENT {
            return Err(AgentsError::Main);
        }
        let (config, earlier, mut others) = if config.has_agent(&normal) {
            (config, None, Vec::new())
        } else {
            let (before, earlier) =
                find_earlier_deletion(&config, &normal, machine).ok_or_else(not_found)?;
            // A process that works there now counts as much as one at planning time.
            (before, Some(earlier), config.agents)
        };
        let agent = config.find_agent(&normal).cloned();
        let agent =
            agent.ok_or_else(|| AgentsError::NotFound { id: id.to_owned(), known: vec![] })?;
        others.extend(config.agents.iter().filter(|other| other.id != normal).cloned());
        let shared_with = places::workspace_sharers(&agent.workspace, &others);
        Ok(Self { config, agent, typed: id.to_owned(), shared_with, earlier, others })
    }

    /// Whose the rows of its store are.
    pub(super) fn row_owners(&self) -> RowOwners<'_> {
        RowOwners {
            default: self.config.default_agent(),
            has_main: self.config.has_agent(MAIN_AGENT),
            main_key: &self.config.main_key,
            store: self.config.store_owner(&self.agent),
        }
    }
}
