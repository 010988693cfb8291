//! What can be asked of the writer about fuses.

use model::control::fuses::{FuseRecord, FuseState};
use model::identity::Identity;
use model::time::Time;
use serde::{Deserialize, Serialize};

/// An order about fuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "fuse")]
pub enum FuseOrder {
    /// Set one.
    Set(Box<FuseRecord>),
    /// Put one off.
    #[serde(rename_all = "camelCase")]
    Extend {
        /// Which.
        id: String,
        /// By how long.
        by_ms: u64,
    },
    /// Take some back.
    Cancel {
        /// Which.
        ids: Vec<String>,
        /// Who does.
        by: String,
    },
    /// Begin to carry one out that came due.
    Carry {
        /// Which.
        id: String,
        /// The process that does.
        carrier: Box<Identity>,
    },
    /// Say what became of it.
    Settle {
        /// Which.
        id: String,
        /// That.
        settlement: FuseSettlement,
    },
}

/// What became of a fuse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FuseSettlement {
    /// Its state.
    pub state: FuseState,
    /// In words.
    pub outcome: Option<String>,
    /// Of one that waits for silence and is armed again: the last sign of life.
    pub last_sign_at: Option<Time>,
}
