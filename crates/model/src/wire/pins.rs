//! Answers about what a person asked to be kept for good.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// One session, and whether it is pinned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinView {
    /// The adapter id, or `terminal`.
    pub agent: String,
    /// The agent's own session id.
    pub session: String,
    /// Whether it is pinned now.
    pub pinned: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_at: Option<Time>,
    /// Why, in the words of the person who pinned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Whether this command changed anything about it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
}

/// The result of `pin`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinResult {
    /// The sessions that were named, in that order; all pins, the newest first, if none was.
    pub pins: Vec<PinView>,
    /// Who did it: `daemon` or `local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
}
