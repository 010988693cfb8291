//! What `ostler web` says of itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// The result of `web`: it serves from now on.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebStarted {
    /// Where it listens.
    pub url: String,
    /// The link that signs one tab in, once, within ten minutes.
    pub link: String,
    pub port: u16,
    pub pid: u32,
    /// The rights of a new sign-in: `watch`, `type` or `manage`, each with those before it.
    pub right: String,
}

/// A tab that is signed in.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebTab {
    pub name: String,
    /// What it may do.
    pub right: String,
    pub signed_in_at: Time,
    /// When it last asked for something.
    pub last_used_at: Time,
    /// Until when its browser stays signed in, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<Time>,
    /// The version of the page that this server has.
    pub version: String,
}

/// The answer to a sign-in.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WebToken {
    /// The token, told once.
    pub token: String,
    /// Whose it is.
    pub tab: WebTab,
}

/// A right that was asked for.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WebRightAsked {
    pub right: String,
    /// What a person confirms.
    pub code: String,
    /// The command that does it.
    pub command: String,
}

/// A ticket for one WebSocket.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WebTicket {
    pub ticket: String,
}

/// The result of `web ls`, `web allow` and `web revoke`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WebTabs {
    /// The process that serves, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Where it listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Tabs that are signed in, or the one that was changed.
    pub tabs: Vec<WebTab>,
}

/// The result of `web link`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WebLink {
    /// The link that signs one tab in, once, within ten minutes.
    pub link: String,
    /// The process that serves.
    pub pid: u32,
}
