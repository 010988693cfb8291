//! What the state keeps of `ostler web`: browsers that stay signed in, and who did what from a page.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// How long a browser stays signed in.
pub const KEPT_TAB_LIFETIME: Duration = Duration::from_secs(30 * 86_400);

/// A browser that stays signed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptTab {
    /// The name by which it is listed and revoked.
    pub name: String,
    /// SHA-256 of its token, in base64url; the token itself is nowhere.
    pub token_hash: String,
    /// What it may do.
    pub right: String,
    pub since: Time,
    pub until: Time,
}

/// What was done from a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PageAct {
    /// A terminal was watched.
    Watched,
    /// Its keyboard was taken.
    TookKeyboard,
    /// Something was typed.
    Typed,
    /// A command was run that changes something.
    Commanded,
}

impl PageAct {
    /// The kind of the event.
    pub const fn event_kind(self) -> &'static str {
        match self {
            Self::Watched => "page.watched",
            Self::TookKeyboard => "page.keyboard",
            Self::Typed => "page.typed",
            Self::Commanded => "page.command",
        }
    }
}

/// Who did what from a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PageNote {
    pub by: String,
    pub act: PageAct,
    /// The agent, or `terminal`; `ostler` where no session is meant.
    pub agent: String,
    /// The session's id; empty where none is meant.
    pub session: String,
    /// The command, where one was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// How it ended, if not well: an error code, or `UNREAD` where nobody waited for its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}
