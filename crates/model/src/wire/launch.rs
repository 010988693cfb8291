//! What was noted of an agent when it was started.

use schemars::JsonSchema;
use serde::Serialize;

use crate::launch::AgentLaunch;
use crate::time::Time;

/// An agent that was started in a terminal. It tells what was, and nothing about what is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LaunchView {
    /// The adapter id.
    pub agent: String,
    /// The number that its process had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    pub launched_at: Time,
}

impl From<&AgentLaunch> for LaunchView {
    fn from(launch: &AgentLaunch) -> Self {
        let agent = launch.agent.clone();
        Self { agent, pid: launch.process.pid, launched_at: launch.at }
    }
}
