//! Asking the writer: the orders, the client of the daemon's socket, and where that is.
//!
//! Nothing is carried out here: `flows::work` does that, for the daemon and for a command that
//! is the writer itself.

use model::failure::Failure;
use model::wire::{DaemonResult, SweepResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod client;
mod fuse_orders;
mod group_orders;
mod orders;
mod page_orders;
mod place;

pub use client::{AskLimits, DaemonCallError, ask, ask_badge, call_daemon, previous};
pub use fuse_orders::{FuseOrder, FuseSettlement, LimitedAgain};
pub use group_orders::GroupOrder;
pub use orders::{
    GcConsent, GcInclude, GcRequest, LockRequest, PermitNote, RemovedTerminal, Transport, Work,
    WorkDone, names_item,
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
    Stop,
}

impl DaemonOrder {
    /// What is ordered, for the log: never what it is about.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Sweep { .. } => "sweep",
            Self::Work(work) => work.name(),
            Self::Stop => "stop",
        }
    }

    /// Reads an order of which everything is understood. A field that is not known may be what a newer asker limits
    /// its order by, and without it more would be done than was asked for.
    pub fn read_whole(text: &[u8]) -> Option<Self> {
        let order: Self = serde_json::from_slice(text).ok()?;
        let (said, understood) =
            (serde_json::from_slice(text).ok()?, model::json_text::to_json_value(&order).ok()?);
        holds_every_field(&understood, &said).then_some(order)
    }
}

/// Whether every field of the one is a field of the other; what is empty may be left out.
fn holds_every_field(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, value)| match whole.get(name) {
                Some(known) => holds_every_field(known, value),
                None => value.is_null(),
            })
        }
        (Value::Array(whole), Value::Array(part)) => {
            let pairs = whole.iter().zip(part);
            whole.len() == part.len()
                && pairs.into_iter().all(|(one, other)| holds_every_field(one, other))
        }
        _ => true,
    }
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
    Stopping,
    /// It could not do what was asked.
    Failed {
        reason: String,
    },
}

impl DaemonAnswer {
    /// How it ended, for the log.
    pub(crate) const fn outcome(&self) -> &'static str {
        match self {
            Self::Status(_) | Self::Swept(_) | Self::Done(_) => "done",
            Self::NotDone(_) => "not done",
            Self::Stopping => "stopping",
            Self::Failed { .. } => "failed",
        }
    }
}
