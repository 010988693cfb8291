//! A conversation in one format, whichever agent held it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConversationRole {
    /// The person.
    User,
    /// The agent.
    Assistant,
    /// The agent calls a tool.
    Tool,
    /// What the tool gave back.
    Result,
    /// The agent's program itself (errors, compaction, notices).
    System,
}

/// One thing that was said or done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationEntry {
    /// When, where the transcript says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Who.
    pub role: ConversationRole,
    /// The name of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The text, or the tool's input as one line.
    pub text: String,
    /// The sub-agent that spoke.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
}

impl ConversationEntry {
    /// An entry with nothing but a speaker and a text.
    pub fn new(at: Option<Time>, role: ConversationRole, text: impl Into<String>) -> Self {
        Self { at, role, tool: None, text: text.into(), subagent: None }
    }

    /// A tool call.
    pub fn tool_call(at: Option<Time>, tool: impl Into<String>, input: impl Into<String>) -> Self {
        Self { tool: Some(tool.into()), ..Self::new(at, ConversationRole::Tool, input) }
    }
}
