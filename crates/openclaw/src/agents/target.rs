//! The agent that is meant.

use std::path::Path;

use crate::rules::agent::{MAIN, Owners, normalise};
use adapters::Env;

use super::resume::{Earlier, earlier};
use super::{AgentsError, places};
use crate::config::{Agent, Config};

/// An agent that is to be deleted.
#[derive(Debug)]
pub struct Target {
    /// The configuration that names it: the present one, or the one of the first attempt.
    pub config: Config,
    /// The agent.
    pub agent: Agent,
    /// Its id as it was typed.
    pub typed: String,
    /// Other agents that work in its workspace.
    pub shared_with: Vec<String>,
    /// What an earlier attempt has done.
    pub earlier: Option<Earlier>,
    /// Every other agent.
    pub(super) others: Vec<Agent>,
}

impl Target {
    /// Finds it. Only an agent that the configuration names can be deleted, or one that a deletion
    /// has already taken out of it.
    pub fn find(home: &Path, id: &str, env: &Env<'_>) -> Result<Self, AgentsError> {
        let config = Config::read(env)?;
        let known = || config.agents.iter().map(|agent| agent.id.clone()).collect();
        let not_found = || AgentsError::NotFound { id: id.to_owned(), known: known() };
        let normal = normalise(id).ok_or_else(not_found)?;
        if normal == MAIN {
            return Err(AgentsError::Main);
        }
        let (config, earlier, mut others) = if config.has(&normal) {
            (config, None, Vec::new())
        } else {
            let (before, earlier) = earlier(home, &config, &normal, env).ok_or_else(not_found)?;
            // Whoever works there now counts as much as whoever did then.
            (before, Some(earlier), config.agents)
        };
        let agent = config.agent(&normal).cloned();
        let agent =
            agent.ok_or_else(|| AgentsError::NotFound { id: id.to_owned(), known: vec![] })?;
        others.extend(config.agents.iter().filter(|other| other.id != normal).cloned());
        let shared_with = places::sharers(&agent.workspace, &others);
        Ok(Self { config, agent, typed: id.to_owned(), shared_with, earlier, others })
    }

    /// Whose the rows of its store are.
    pub(super) fn owners(&self) -> Owners<'_> {
        Owners {
            default: self.config.default_agent(),
            has_main: self.config.has(MAIN),
            main_key: &self.config.main_key,
            store: self.config.store_owner(&self.agent),
        }
    }
}
