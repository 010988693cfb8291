//! Answers and messages about notifications.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::notice::NoticeKind;
use crate::time::Time;

/// One notification: what a command of the user's gets on its standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoticeView {
    /// Why a person is needed.
    pub kind: NoticeKind,
    /// When it happened.
    pub at: Time,
    /// The adapter id.
    pub agent: String,
    /// The agent's own session id.
    pub session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// One line that says it.
    pub title: String,
    /// What it asks for or what went wrong, where it is known.
    pub text: String,
    /// Whether nothing happened, and `notify test` sends it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub test: bool,
}

/// One way that a notification takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotifyOutcome {
    /// `desktop`, `bell` or `command`.
    pub channel: &'static str,
    /// Whether it was sent.
    pub sent: bool,
    /// Why it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The result of `notify test`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotifyTestResult {
    /// What became of it on each way that is set.
    pub channels: Vec<NotifyOutcome>,
    /// What was sent.
    pub notice: NoticeView,
    /// Whether a daemon runs, which sends the real ones.
    pub daemon: bool,
}
