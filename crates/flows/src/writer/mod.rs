//! Asking the writer: the orders, the client of the daemon's socket, and where that is.
//!
//! Nothing is carried out here: `flows::work` does that, for the daemon and for a command that
//! is the writer itself.

use model::failure::Failure;
use model::wire::{DaemonResult, SweepResult};
use serde::{Deserialize, Serialize};

mod client;
mod fuse_orders;
mod group_orders;
mod orders;
mod page_orders;
mod place;

pub use client::{AskLimits, DaemonCallError, ask, ask_badge, call_daemon, previous};
pub use fuse_orders::{FuseOrder, FuseSettlement};
pub use group_orders::GroupOrder;
pub use orders::{
    GcConsent, GcInclude, GcRequest, LockRequest, PermitNote, RemovedTerminal, Transport, Work,
    WorkDone,
};
pub use page_orders::PageOrder;
pub use place::{
    DaemonHolder, HomeId, fallback_directory, hold_daemon_lock, listen, socket_name, wait_for_end,
};

/// The version of what is said through the socket. Another one is refused.
pub const DAEMON_PROTOCOL: u32 = 4;

/// What the daemon can be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "order")]
pub enum DaemonOrder {
    /// How it is.
    Status,
    /// To sweep now.
    #[serde(rename_all = "camelCase")]
    Sweep {
        /// Only these sessions; empty means all.
        only: Vec<String>,
    },
    /// To do something as the writer.
    Work(Box<Work>),
    /// To stop.
    Stop,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "answer")]
pub enum DaemonAnswer {
    /// How it is.
    Status(DaemonResult),
    /// What the sweep did.
    Swept(SweepResult),
    /// It is done.
    Done(Box<WorkDone>),
    /// It is not done, and this is why.
    NotDone(Failure),
    /// It stops.
    Stopping,
    /// It could not do what was asked.
    Failed {
        /// Why.
        reason: String,
    },
}
