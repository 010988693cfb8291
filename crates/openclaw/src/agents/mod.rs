//! OpenClaw's agents: listing them, and deleting one with everything that is its own.
//!
//! A running gateway deletes an agent itself. Otherwise it is the reaper's work: the agent leaves the
//! configuration first, then its rows leave a store that it shares, then its directories go to the
//! trash. What is not only its own stays. What could not be done is said, and the same command goes on
//! with it: the journal of the first attempt tells what there was.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sys::machine::Machine;

use super::config::ConfigError;
use super::gateway::{GatewayCallError, GatewayError, Owned};
use model::failure::{Failure, FailureKind};
use reaper::CollectError;

mod delete;
mod list;
mod places;
mod plan;
mod resume;
mod target;

pub use delete::{delete_agent, delete_through_gateway, is_gateways, preview_by_gateway};
pub use list::{KnownSession, list_agents};
pub use plan::{DeletePlan, plan_delete, refuse_pinned};
pub use target::DeleteTarget;

/// Which agent is to be deleted, and the environment that says where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentDeleteRequest {
    /// Its id, as it was typed.
    pub id: String,
    /// The variables that say where OpenClaw keeps things.
    pub variables: BTreeMap<String, String>,
}

impl AgentDeleteRequest {
    /// For this machine's own environment; `look` is what the variables are looked up for.
    pub fn from_machine<T>(
        id: &str,
        machine: &Machine,
        look: impl FnOnce(&Machine) -> T,
    ) -> (Self, T) {
        let (found, mut variables) = machine.note_variables(look);
        // The process that carries it out does not speak with the gateway, and needs no secrets.
        for secret in ["OPENCLAW_GATEWAY_TOKEN", "OPENCLAW_GATEWAY_PASSWORD"] {
            variables.remove(secret);
        }
        (Self { id: id.to_owned(), variables }, found)
    }
}

/// Why an agent was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum AgentsError {
    /// OpenClaw's configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// `main` is what OpenClaw falls back to.
    #[error("the agent `main` cannot be deleted: OpenClaw falls back to it")]
    Main,
    /// There is no such agent.
    #[error("OpenClaw has no agent `{id}`")]
    NotFound {
        /// What was asked for.
        id: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// One of its transcripts is being written.
    #[error("the agent `{id}` may be at work: {why}")]
    AtWork {
        id: String,
        /// How that is known.
        why: String,
    },
    /// A person said that some of it is never to be removed.
    #[error("the agent `{id}` has sessions that are pinned, or may be: {why}")]
    Pinned {
        id: String,
        /// The sessions, or why they cannot be told.
        why: String,
    },
    /// Its sessions are in a database.
    #[error("the sessions of `{id}` are in the database {}, which only OpenClaw may change", .path.display())]
    Database { id: String, path: PathBuf },
    /// The store that it shares cannot be read.
    #[error("the store {} cannot be read: {why}", .path.display())]
    Store { path: PathBuf, why: String },
    /// The configuration could not be changed.
    #[error("nothing was changed: the configuration {} was left alone, because {why}", .path.display())]
    Unchanged { path: PathBuf, why: String, remedy: &'static str },
    /// The gateway could not be asked, or did not do it.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// Its files have an owner.
    #[error(transparent)]
    Owned(#[from] Owned),
    /// The reaper cannot work.
    #[error(transparent)]
    Collect(#[from] CollectError),
}

impl From<AgentsError> for Failure {
    fn from(error: AgentsError) -> Self {
        use FailureKind as Kind;

        let start_it = "start OpenClaw's gateway, which then does it, or stop it altogether";
        let (kind, hint) = match &error {
            AgentsError::Config(ConfigError::NoHome) => (Kind::Input, "set `HOME`".to_owned()),
            AgentsError::Config(ConfigError::Read { .. }) => {
                (Kind::Read, "check the path and its permissions".to_owned())
            }
            AgentsError::Config(ConfigError::Wrong { .. }) => {
                (Kind::Input, "put the file right at that place, then try again".to_owned())
            }
            AgentsError::Main => (Kind::Refused, "`ostler agents ls` lists the others".to_owned()),
            AgentsError::NotFound { known, .. } if known.is_empty() => (
                Kind::NotFound,
                "there is no OpenClaw here: `ostler agents ls` says where it is looked for"
                    .to_owned(),
            ),
            AgentsError::NotFound { known, .. } => {
                (Kind::NotFound, format!("there are: {}", known.join(", ")))
            }
            AgentsError::Pinned { .. } => {
                (Kind::Refused, "`ostler pin --remove` lets go of them".to_owned())
            }
            AgentsError::AtWork { .. } => {
                (Kind::Refused, "wait until it is finished, then try again".to_owned())
            }
            AgentsError::Database { .. } => {
                (Kind::Refused, "start OpenClaw's gateway, which then does it".to_owned())
            }
            AgentsError::Store { .. } => {
                (Kind::Read, "`ostler store verify` says what is wrong with it".to_owned())
            }
            AgentsError::Unchanged { remedy, .. } => (Kind::Refused, (*remedy).to_owned()),
            AgentsError::Owned(_) | AgentsError::Gateway(GatewayError::Owned(_)) => {
                (Kind::Refused, start_it.to_owned())
            }
            AgentsError::Gateway(GatewayError::Call(call)) => gateway_failure(call),
            AgentsError::Collect(_) => {
                (Kind::Write, "`ostler doctor` tells what is wrong".to_owned())
            }
        };
        Self { kind, message: error.to_string(), hint }
    }
}

/// How a call that failed ends the command, and what can be done.
fn gateway_failure(call: &GatewayCallError) -> (FailureKind, String) {
    use FailureKind as Kind;

    let (kind, hint) = match call {
        GatewayCallError::NotRunning { .. } => (Kind::Refused, "start it, or the way to it"),
        GatewayCallError::Elsewhere { .. } => {
            (Kind::Refused, "run `openclaw agents delete` there, or make a tunnel to it")
        }
        GatewayCallError::NotAsked { .. } => {
            (Kind::Refused, "see what listens there; nothing was changed")
        }
        GatewayCallError::Rejected { .. } => (
            Kind::Refused,
            "put `gateway.auth` in its configuration right, which wins over OPENCLAW_GATEWAY_TOKEN",
        ),
        GatewayCallError::Refused { .. } => {
            (Kind::Refused, "see what it says; nothing was done here")
        }
        GatewayCallError::MayHaveApplied(_) => {
            (Kind::MayHaveApplied, "look at `ostler agents ls` before trying again")
        }
    };
    (kind, hint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_looked_up_is_passed_on_but_no_secrets() {
        let names = ["HOME", "OPENCLAW_GATEWAY_PORT", "OPENCLAW_GATEWAY_TOKEN"];
        let fake = testkit::machine::FakeMachine::new();
        names.iter().for_each(|name| fake.set_variable(name, format!("value of {name}")));
        let machine = fake.machine();
        let (ask, ()) = AgentDeleteRequest::from_machine("ops", &machine, |machine| {
            names.iter().for_each(|name| drop(machine.env().get(name)));
        });
        let noted: Vec<&str> = ask.variables.keys().map(String::as_str).collect();
        assert_eq!(noted, ["HOME", "OPENCLAW_GATEWAY_PORT"]);
        let asker = machine.with_variables(&ask.variables);
        assert_eq!(asker.env().get("OPENCLAW_GATEWAY_TOKEN"), None);
        let seen = asker.env().get("OPENCLAW_GATEWAY_PORT");
        assert_eq!(seen, Some("value of OPENCLAW_GATEWAY_PORT".into()));
    }
}
