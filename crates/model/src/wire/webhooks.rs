//! Answers about webhooks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::EventView;
use crate::webhook::WebhookRecord;

/// The result of `webhook add`, `ls`, `rm` and `retry`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhooksResult {
    /// The one that was named, or all, the oldest first.
    pub webhooks: Vec<WebhookRecord>,
    /// The newest event's cursor: what is between a webhook's and this one waits.
    pub newest: i64,
    /// Who did it: `daemon` or `local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
}

/// The result of `webhook test`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookTestResult {
    pub id: String,
    /// Where the test event was sent.
    pub url: String,
    /// Whether the receiver took it.
    pub delivered: bool,
    /// The status it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why it was not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long it took.
    pub took_ms: u64,
}

/// What a webhook's sender has to do next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookBatch {
    /// The store's id, which is part of every message's.
    pub store: String,
    /// The webhook; none if it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookRecord>,
    /// Events that were set aside and are to be sent once more.
    #[serde(default)]
    pub again: Vec<EventView>,
    /// Events after the cursor that are wanted, in order, without what may not leave the machine.
    #[serde(default)]
    pub events: Vec<EventView>,
    /// Everything up to here was looked at: the cursor when all of `events` are done.
    pub through: i64,
}
