//! JSON answer of `ps`: the processes of agents, as trees.

use schemars::JsonSchema;
use serde::Serialize;

use crate::time::Time;
use crate::wire::IncompleteSource;

/// What a process is to its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProcessRole {
    /// A program that runs the agent.
    Wrapper,
    /// The agent itself.
    Agent,
    /// Something that the agent started.
    Tool,
}

/// The session that a process works for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessOwner {
    /// The adapter's id, or `terminal`.
    pub agent: String,
    /// The session's id.
    pub id: String,
    /// The session's state.
    pub status: String,
}

/// One process of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentProcessRow {
    pub pid: u32,
    /// Its parent's pid.
    pub ppid: u32,
    /// How far below the first process of its tree it is.
    pub depth: u32,
    /// What it is to the agent.
    pub role: ProcessRole,
    /// The agent's adapter id, or `terminal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The kernel's short name.
    pub comm: String,
    /// Memory that it has to itself or shares; left out where the system does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Whose it is, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<ProcessOwner>,
    /// Whether its agent is proven dead.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub orphan: bool,
}

/// The result of `ps`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessListResult {
    /// Each tree from its root down, then the orphans.
    pub processes: Vec<AgentProcessRow>,
    /// What could not be read.
    pub incomplete: Vec<IncompleteSource>,
}
