//! Waiting until the program on a terminal takes a text.

use serde::{Deserialize, Serialize};

/// How long to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadyParams {
    /// In milliseconds.
    pub timeout_ms: u64,
}

/// Whether the program takes a text by now, and what it shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadyResult {
    /// Whether it has left canonical mode, asked for brackets around what is pasted, and come to rest.
    pub ready: bool,
    /// Whether it ended instead.
    pub ended: bool,
    /// What the screen shows.
    pub screen: String,
    /// Whether this host counts Enters: one of an earlier release does not.
    #[serde(default)]
    pub counts_enters: bool,
    /// How often; a host that tells it also knows of the conditions of a submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enters: Option<u64>,
    /// Whether something was typed since that was not sent.
    #[serde(default)]
    pub unsent: bool,
    /// How long ago Enter was pressed last; absent if it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_enter_ms: Option<u64>,
}
