//! What control writes down: deliveries, and events about sessions that were started, resumed or stopped.

use serde::{Deserialize, Serialize};

use super::delivery::{DeliveryRecord, DeliveryState};
use crate::identity::Identity;
use crate::session::SessionName;

/// Something for the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "note")]
pub enum ControlNote {
    /// A delivery as it stands. One with a key that another delivery of its session has is not noted.
    Delivery(Box<KeptDelivery>),
    /// Something that happened.
    Event {
        kind: ControlEvent,
        /// What it happened to.
        session: SessionName,
        /// What is known of it; no texts.
        detail: serde_json::Value,
    },
}

/// A delivery as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptDelivery {
    /// Everything but the text.
    pub record: DeliveryRecord,
    /// The process that sends it: whether one that is not settled is still under way.
    pub sender: Identity,
}

/// Kinds of events that control adds to the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlEvent {
    /// An agent was started.
    #[serde(rename = "session.launched")]
    Launched,
    /// A conversation goes on in a new process.
    #[serde(rename = "session.resumed")]
    Resumed,
    /// A session's processes were ended.
    #[serde(rename = "session.stopped")]
    Stopped,
    /// A usage limit ended a turn.
    #[serde(rename = "session.limited")]
    Limited,
    /// A prompt is in the agent's record.
    #[serde(rename = "delivery.accepted")]
    DeliveryAccepted,
    /// A prompt did not arrive, or nothing proves that it did.
    #[serde(rename = "delivery.failed")]
    DeliveryFailed,
    /// Several processes hold one conversation.
    #[serde(rename = "holders.conflict")]
    HoldersConflict,
}

impl ControlEvent {
    /// The word of the stream.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Launched => "session.launched",
            Self::Resumed => "session.resumed",
            Self::Stopped => "session.stopped",
            Self::Limited => "session.limited",
            Self::DeliveryAccepted => "delivery.accepted",
            Self::DeliveryFailed => "delivery.failed",
            Self::HoldersConflict => "holders.conflict",
        }
    }
}

/// The event that a delivery's new state is, if it is one: it is told once that it was accepted, and once
/// that it was not.
pub const fn event_of_delivery(
    before: Option<DeliveryState>,
    now: DeliveryState,
) -> Option<ControlEvent> {
    use DeliveryState::{Accepted, Altered, NotComposed, Stuck, Unproven};
    let had_failed = matches!(before, Some(Altered | NotComposed | Stuck | Unproven));
    match (before, now) {
        (Some(Accepted), _) => None,
        (_, Accepted) => Some(ControlEvent::DeliveryAccepted),
        (_, Altered | NotComposed | Stuck | Unproven) if !had_failed => {
            Some(ControlEvent::DeliveryFailed)
        }
        _ => None,
    }
}
