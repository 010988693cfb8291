//! Orders about fuses.

use model::control::fuses::{FuseRecord, FuseState};
use model::identity::Identity;
use model::time::Time;
use serde::{Deserialize, Serialize};

/// An order about fuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "fuse")]
pub enum FuseOrder {
    Set(Box<FuseRecord>),
    /// Put one off.
    #[serde(rename_all = "camelCase")]
    Extend {
        id: String,
        /// By how long.
        by_ms: u64,
    },
    /// Take some back.
    Cancel {
        ids: Vec<String>,
        by: String,
    },
    /// Begin to carry one out that came due.
    Carry {
        id: String,
        /// The process that does.
        carrier: Box<Identity>,
    },
    /// Say what became of it.
    Settle {
        id: String,
        settlement: FuseSettlement,
    },
}

/// What became of a fuse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FuseSettlement {
    pub state: FuseState,
    pub outcome: Option<String>,
    /// Of one that waits for silence and is armed again: the last sign of life.
    pub last_sign_at: Option<Time>,
    /// Of a resumption that ran into a limit again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<LimitedAgain>,
}

/// A usage limit that a resumed conversation ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitedAgain {
    /// When it is to be tried again.
    pub due_at: Time,
    /// Where its transcript ends by now.
    pub noted_end: u64,
}
