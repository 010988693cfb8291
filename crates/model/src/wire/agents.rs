//! Answers about OpenClaw's agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{IncompleteSource, RefusalView};
use crate::plan::RemovableKind;

/// One of OpenClaw's agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenClawAgentView {
    pub id: String,
    /// Whether it is used when none is named.
    pub default: bool,
    /// Whether the configuration names it; `main` is there without.
    pub configured: bool,
    /// Where it works.
    pub workspace: String,
    /// Other agents whose workspace is the same, in this one, or around it.
    pub workspace_shared_with: Vec<String>,
    /// Where it keeps its own things.
    pub agent_dir: String,
    /// Where its transcripts are.
    pub sessions_dir: String,
    /// The store of its sessions.
    pub store: String,
    /// How many sessions it has. Left out if that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u64>,
    /// How many bytes its own directory and its transcripts take.
    pub bytes: u64,
    /// Whether a process works on one of its sessions: `alive`, `dead` or `unknown`.
    pub live: String,
}

/// Whether OpenClaw's gateway runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayView {
    /// `alive`, `dead` or `unknown`.
    pub state: String,
    /// How that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// The result of `agents ls`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentsLsResult {
    pub config: String,
    /// OpenClaw's state directory.
    pub state: String,
    pub gateway: GatewayView,
    /// The agents, as the configuration lists them.
    pub agents: Vec<OpenClawAgentView>,
    /// What could not be looked at.
    pub incomplete: Vec<IncompleteSource>,
}

/// What is done with one thing of an agent that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AgentChange {
    /// It is moved to the trash.
    Trash,
    /// Something is taken out of it; the file as it was goes to the trash.
    Rewrite,
    Keep,
}

/// How far that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AgentOutcome {
    /// It would be done.
    Planned,
    /// It is done.
    Done,
    /// It was not done.
    Failed,
}

/// One thing of an agent that is deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentItem {
    /// What is done with it.
    pub action: AgentChange,
    /// What it is.
    pub kind: RemovableKind,
    /// Where it is.
    pub path: String,
    /// How many bytes it takes.
    pub bytes: u64,
    pub reason: String,
    /// How far that is.
    pub outcome: AgentOutcome,
    /// Why it stays, or was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusalView>,
}

/// The result of `agents delete`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentDeleteResult {
    /// Whether something was done; a preview otherwise.
    pub applied: bool,
    pub agent_id: String,
    /// Its id as it was typed, if that was another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalized_from: Option<String>,
    /// The receipt of the deletion that this one goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes: Option<String>,
    /// Where it worked.
    pub workspace: String,
    /// Whether that is kept. Left out if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_retained: Option<bool>,
    /// Why it is kept: `shared`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_retained_reason: Option<String>,
    /// Which other agents work there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_shared_with: Option<Vec<String>>,
    /// Where it kept its own things.
    pub agent_dir: String,
    /// Where its transcripts were.
    pub sessions_dir: String,
    /// How many bindings went with it.
    pub removed_bindings: u64,
    /// How many entries of the list of agents that others may call.
    pub removed_allow: u64,
    /// How many rows of a store that it shares. Left out if OpenClaw's gateway did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_sessions: Option<u64>,
    /// Everything that goes, changes or stays.
    pub items: Vec<AgentItem>,
    /// How many of them were not done. The same command goes on with them.
    pub failed: u64,
    /// What brings it all back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// Who did it: OpenClaw's `gateway`, ostler's `daemon`, or this command, `local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
}
