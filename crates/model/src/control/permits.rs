//! Permission requests that an agent gives to ostler, and the one answer that each may get.
//!
//! A request is a file of the process that asks, and dies with it. No rule answers one: an answer is
//! a person's, and names the request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::identity::Identity;
use crate::time::Time;

/// One request, as it is written down by the hook that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermitRequest {
    pub id: String,
    /// The adapter's id.
    pub agent: String,
    /// The agent's own session id.
    pub session: String,
    /// The sub-agent that asks, if it is not the session itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What the tool is to be given, whole.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Whether the agent gave more than a hook reads: the input is then not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The agent's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// When it was asked.
    pub asked_at: Time,
    /// Until when an answer is waited for.
    pub until: Time,
    /// The process that waits for the answer.
    pub asker: Identity,
    /// The agent's process, if it could be found for certain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Identity>,
    /// How the answer gets there, of a request that no hook of ostler's waits with. Never read from a file.
    #[serde(skip)]
    pub route: Option<PermitRoute>,
}

/// How an answer reaches an agent that holds its requests itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitRoute {
    /// By its own loopback server.
    Server { port: u16 },
    /// By a line in a file that it reads; what becomes of it stands in the other.
    Lines { input: String, events: String },
}

impl PermitRequest {
    /// The end of a request that stands until somebody answers it, here or on the agent's screen.
    pub const NO_END: Time = Time::from_millis(253_402_300_799_000);
}

/// What is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PermitVerdict {
    /// The tool may run.
    Allow,
    /// It may not.
    Deny,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermitAnswer {
    /// Yes or no.
    pub verdict: PermitVerdict,
    /// Why, for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    pub by: String,
}

/// How long a hook waits, from the variable that marks a process whose requests ostler answers: `60s`, or
/// `only:1h` for a hook that is there for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitMarker {
    /// How long an answer is waited for.
    pub wait: std::time::Duration,
    /// Whether another hook of the same agent reports what happens.
    pub only: bool,
}

impl PermitMarker {
    pub const VARIABLE: &'static str = "OSTLER_PERMITS";

    /// Reads the variable's value; what makes no sense is no marker.
    pub fn parse(text: &str) -> Option<Self> {
        let (only, span) = match text.strip_prefix("only:") {
            Some(span) => (true, span),
            None => (false, text),
        };
        Some(Self { wait: crate::time::parse_duration(span)?, only })
    }
}

/// A request as programs see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermitView {
    /// The request's id.
    pub request: String,
    /// The adapter id.
    pub agent: String,
    /// The agent's own session id.
    pub session: String,
    /// The sub-agent that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What the tool is to be given.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Whether the agent gave more than was read: the input is not known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The agent's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// When it was asked.
    pub asked_at: Time,
    /// Until when an answer is waited for; then the agent's own question is there. The end of the year 9999 if it stands
    /// until it is answered.
    pub until: Time,
}

impl From<&PermitRequest> for PermitView {
    fn from(request: &PermitRequest) -> Self {
        Self {
            request: request.id.clone(),
            agent: request.agent.clone(),
            session: request.session.clone(),
            subagent: request.subagent.clone(),
            tool: request.tool.clone(),
            input: request.input.clone(),
            cut: request.cut,
            cwd: request.cwd.clone(),
            asked_at: request.asked_at,
            until: request.until,
        }
    }
}

/// The result of `permits`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermitsResult {
    /// Requests that wait for an answer, the oldest first.
    pub requests: Vec<PermitView>,
}

/// The result of `permit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermitResult {
    pub request: PermitView,
    /// What was answered.
    pub answered: PermitVerdict,
    pub by: String,
    /// How long it had waited.
    pub wait_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_a_span_and_nothing_else() {
        let seconds = |text| PermitMarker::parse(text).map(|one| (one.wait.as_secs(), one.only));
        assert_eq!(seconds("60s"), Some((60, false)));
        assert_eq!(seconds("only:1h"), Some((3600, true)));
        for wrong in ["", "1", "yes", "only:", "only", "-5s"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
