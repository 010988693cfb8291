//! The delivery state machine: what became of a prompt, folded from what was seen.
//!
//! Typed is not delivered. A prompt counts when the agent's own record holds that text; a new record
//! with another text is a failure, not a success. Late proof settles a delivery that was unproven.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::prompt::PromptMatch;
use crate::time::Time;

/// Where a delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryState {
    /// The agent can take a prompt; nothing was written yet.
    Ready,
    /// The text is in the composer; no Enter was sent.
    Composed,
    /// Enter was sent.
    Submitted,
    /// The agent put it in its own queue.
    Queued,
    /// The agent recorded this text.
    Accepted,
    /// It left the composer, and no record holds it yet.
    Unproven,
    /// It is still in the composer after every Enter.
    Stuck,
    /// The agent recorded another text.
    Altered,
    /// The text was never seen in the composer; no Enter was sent.
    NotComposed,
    /// Nothing was written.
    Refused,
}

/// How a turn that a delivery began has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TurnEnd {
    /// It goes on.
    Open,
    /// The agent answered.
    Answered,
    /// It ended in an error.
    Failed,
    /// It was interrupted.
    Interrupted,
    /// A usage limit ended it.
    Limited,
    /// It is over, and the agent's record does not say how.
    Over,
}

/// One thing that was seen of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliverySign {
    /// The host saw the text in the composer.
    Shown,
    /// The host sent Enter.
    Entered,
    /// The time for composing is over, and the text was not seen.
    ComposeTimeout,
    /// The time for proof is over; whether the text is still in the composer.
    ProofTimeout { still_shown: bool },
    /// The agent's own queue took it.
    Enqueued,
    /// A record of a prompt after the noted end of the transcript.
    Recorded(Option<PromptMatch>),
}

impl DeliveryState {
    /// Every state, in the order in which a delivery comes to them.
    pub const ALL: &[Self] = &[
        Self::Ready,
        Self::Composed,
        Self::Submitted,
        Self::Queued,
        Self::Accepted,
        Self::Unproven,
        Self::Stuck,
        Self::Altered,
        Self::NotComposed,
        Self::Refused,
    ];

    /// The state after a sign. What the agent's own record says outweighs what a screen showed, and
    /// nothing undoes an accepted delivery.
    #[must_use]
    pub const fn after(self, sign: DeliverySign) -> Self {
        match (self, sign) {
            (Self::Accepted | Self::Refused, _) => self,
            (_, DeliverySign::Recorded(Some(_))) => Self::Accepted,
            (
                Self::Submitted | Self::Queued | Self::Unproven | Self::Stuck,
                DeliverySign::Recorded(None),
            ) => Self::Altered,
            // Before Enter, another prompt's record says nothing about this one.
            (_, DeliverySign::Recorded(None)) => self,
            (Self::Ready, DeliverySign::Shown) => Self::Composed,
            (Self::Ready | Self::Composed, DeliverySign::Entered) => Self::Submitted,
            (Self::Ready, DeliverySign::ComposeTimeout) => Self::NotComposed,
            (Self::Ready | Self::Submitted, DeliverySign::Enqueued) => Self::Queued,
            (Self::Composed, DeliverySign::ProofTimeout { .. }) => Self::NotComposed,
            (Self::Submitted, DeliverySign::ProofTimeout { still_shown: true }) => Self::Stuck,
            (Self::Submitted | Self::Queued, DeliverySign::ProofTimeout { .. }) => Self::Unproven,
            _ => self,
        }
    }

    /// Whether a later look at the transcript can change it.
    pub const fn may_be_proven_later(self) -> bool {
        matches!(self, Self::Submitted | Self::Queued | Self::Unproven | Self::Stuck)
    }

    /// The word of the JSON contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Composed => "composed",
            Self::Submitted => "submitted",
            Self::Queued => "queued",
            Self::Accepted => "accepted",
            Self::Unproven => "unproven",
            Self::Stuck => "stuck",
            Self::Altered => "altered",
            Self::NotComposed => "not-composed",
            Self::Refused => "refused",
        }
    }
}

/// What a command that delivered a prompt ends with, as an error code; `None` is success.
pub const fn delivery_failure(state: DeliveryState, turn: Option<TurnEnd>) -> Option<&'static str> {
    match state {
        DeliveryState::Accepted | DeliveryState::Queued => match turn {
            Some(TurnEnd::Failed | TurnEnd::Limited | TurnEnd::Interrupted) => Some("TURN_FAILED"),
            _ => None,
        },
        DeliveryState::Submitted | DeliveryState::Unproven => Some("MAY_HAVE_APPLIED"),
        DeliveryState::Refused => Some("REFUSED"),
        DeliveryState::Ready
        | DeliveryState::Composed
        | DeliveryState::Stuck
        | DeliveryState::Altered
        | DeliveryState::NotComposed => Some("NOT_DELIVERED"),
    }
}

/// One delivery as it is kept: everything but the text itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryRecord {
    pub id: String,
    /// The session it was for.
    pub session: String,
    /// The adapter's id.
    pub agent: String,
    /// How it travelled.
    pub channel: DeliveryChannel,
    /// SHA-256 of the text, in hexadecimal.
    pub sha256: String,
    /// The same of the text as agents may change it: line ends, tabs, outer blanks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub normalised_sha256: String,
    /// How long the text is.
    pub bytes: u64,
    /// Where it stands.
    pub state: DeliveryState,
    /// When it was begun.
    pub begun_at: Time,
    /// The caller's idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The session of the agent that sent it, or the agent and its pid; absent if a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The terminal it was typed into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<String>,
    /// How many times Enter was sent.
    #[serde(default)]
    pub enters: u32,
    /// How long it took until the text was seen in the composer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composed_ms: Option<u64>,
    /// How long it took until the record held it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_ms: Option<u64>,
    /// How the record equals the text.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matched: Option<PromptMatch>,
    /// The record that proves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<DeliveryProof>,
    /// What became of the turn it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<DeliveryTurn>,
    /// Why it did not arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the terminal showed when it did not arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// Where the transcript ended when the delivery began, in the adapter's own positions.
    #[serde(default)]
    pub noted_end: u64,
}

/// How a prompt travels to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryChannel {
    /// Pasted into a hosted terminal.
    Terminal,
    /// Standard input of a headless program.
    Stdin,
    /// The agent's own queue command.
    Queue,
    /// The agent's loopback server.
    Http,
    /// A file that the agent reads.
    File,
    /// An argument of a headless program.
    Argument,
}

/// The record that holds a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryProof {
    /// `transcript` or `hook`.
    pub source: String,
    /// The file it is in.
    pub path: String,
    /// Its position there.
    pub record: u64,
    /// When it was written, by its own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}

/// The turn that a prompt began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryTurn {
    /// How it ended.
    pub end: TurnEnd,
    /// When the usage limit is over, if the agent wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sign() -> impl Strategy<Value = DeliverySign> {
        prop_oneof![
            Just(DeliverySign::Shown),
            Just(DeliverySign::Entered),
            Just(DeliverySign::ComposeTimeout),
            any::<bool>().prop_map(|still_shown| DeliverySign::ProofTimeout { still_shown }),
            Just(DeliverySign::Enqueued),
            Just(DeliverySign::Recorded(None)),
            Just(DeliverySign::Recorded(Some(PromptMatch::Exact))),
        ]
    }

    proptest! {
        #[test]
        fn only_a_record_of_the_text_accepts(signs in proptest::collection::vec(sign(), 0..12)) {
            let end = signs.iter().fold(DeliveryState::Ready, |state, sign| state.after(*sign));
            let proven = signs.iter().any(|sign| matches!(sign, DeliverySign::Recorded(Some(_))));
            prop_assert_eq!(end == DeliveryState::Accepted, proven);
            let entered = signs.iter().any(|sign| matches!(sign, DeliverySign::Entered | DeliverySign::Enqueued));
            if matches!(end, DeliveryState::Unproven | DeliveryState::Stuck | DeliveryState::Altered) {
                prop_assert!(entered, "nothing was sent, so nothing can have arrived");
            }
        }
    }

    #[test]
    fn row_7_a_late_proof_turns_unproven_into_accepted() {
        let signs = [
            DeliverySign::Shown,
            DeliverySign::Entered,
            DeliverySign::ProofTimeout { still_shown: false },
        ];
        let state = signs.into_iter().fold(DeliveryState::Ready, DeliveryState::after);
        assert_eq!(state, DeliveryState::Unproven);
        assert_eq!(delivery_failure(state, None), Some("MAY_HAVE_APPLIED"));
        let later = state.after(DeliverySign::Recorded(Some(PromptMatch::Normalised)));
        assert_eq!((later, delivery_failure(later, None)), (DeliveryState::Accepted, None));
    }

    #[test]
    fn a_failed_turn_is_no_success_although_the_prompt_arrived() {
        for end in [TurnEnd::Failed, TurnEnd::Limited, TurnEnd::Interrupted] {
            assert_eq!(delivery_failure(DeliveryState::Accepted, Some(end)), Some("TURN_FAILED"));
        }
        for end in [TurnEnd::Answered, TurnEnd::Over] {
            assert_eq!(delivery_failure(DeliveryState::Accepted, Some(end)), None);
        }
    }
}
