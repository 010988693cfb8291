//! What `usage` answers.

use schemars::JsonSchema;
use serde::Serialize;

use super::IncompleteSource;
use crate::sighting::TokenUsage;
use crate::time::Time;

/// What usage is summed up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsageGrouping {
    /// Days of the local time zone.
    Day,
    Agent,
    Project,
    Model,
}

/// The result of `usage`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageResult {
    /// What the sums are by.
    pub by: UsageGrouping,
    /// Days in their order; anything else with the most tokens first.
    pub groups: Vec<UsageSum>,
    pub total: UsageSum,
    /// Sessions whose agent tells only totals: they are counted on the day of their last activity.
    pub sessions_counted_whole: u64,
    /// What could not be read.
    pub incomplete: Vec<IncompleteSource>,
}

/// Usage summed up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageSum {
    /// The day, agent, directory or model; `unknown` where nothing says.
    pub key: String,
    /// Tokens by kind, each API message counted once, sub-agents included.
    pub tokens: TokenUsage,
    /// How many messages, or whole sessions where there are only totals.
    pub messages: u64,
    /// Cost that agents stated, in millionths of a dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stated_micro_usd: Option<u64>,
    /// Cost by the prices in the settings, in millionths of a dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priced_micro_usd: Option<u64>,
    /// Tokens for which there is neither.
    pub unpriced_tokens: u64,
    /// The models, by name.
    pub models: Vec<String>,
}

/// The result of `usage --series`: what one session used, answer by answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UsageSeries {
    pub agent: String,
    /// The agent's own session id.
    pub id: String,
    /// Answers of models, in order; one for all of them where the agent tells only totals.
    pub steps: Vec<UsageStep>,
}

/// What one answer of a model used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageStep {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens by kind.
    pub tokens: TokenUsage,
    /// Tokens that the model was given: how full its context was.
    pub context: u64,
    /// What it cost, where the agent states that, in millionths of a dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
}
