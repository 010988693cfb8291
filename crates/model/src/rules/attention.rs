//! Which sessions need a person, and in what order they are shown: the groups that every surface has.
//!
//! *Looked at* belongs to the surface: each keeps it for itself and passes it in. Nothing here reads a clock.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::judge::Verdict;
use crate::liveness::Liveness;
use crate::session::{Session, SessionKind, SessionName};
use crate::status::{Activity, Status};
use crate::time::Time;

/// How long a session that failed needs a person.
pub const FAILURE_ATTENTION: Duration = Duration::from_secs(3600);

/// The groups, the most urgent first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum AttentionGroup {
    /// It waits for a person, or failed a short while ago.
    NeedsYou,
    /// Its turn ended since it was last looked at.
    Done,
    /// It works; of a terminal: it runs.
    Working,
    /// It is there and has nothing to do.
    Idle,
    /// What it does, or whether it is there, is not known.
    Unknown,
    /// It is over.
    Ended,
}

impl AttentionGroup {
    /// Every group, in the order in which they are shown.
    pub const ALL: [Self; 6] =
        [Self::NeedsYou, Self::Done, Self::Working, Self::Idle, Self::Unknown, Self::Ended];

    /// The words that people see.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NeedsYou => "needs you",
            Self::Done => "done",
            Self::Working => "working",
            Self::Idle => "idle",
            Self::Unknown => "unknown",
            Self::Ended => "ended",
        }
    }
}

/// What the grouping of one session rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionFacts {
    /// What kind of session.
    pub kind: SessionKind,
    /// Its lifecycle state.
    pub status: Status,
    /// What it is doing, if it may be live.
    pub activity: Option<Activity>,
    /// The last sign of life: of one that waits, when it began to.
    pub last_sign: Option<Time>,
}

impl AttentionFacts {
    /// Those of a session that was judged.
    pub fn of_session(session: &Session, verdict: &Verdict) -> Self {
        Self {
            kind: session.kind,
            status: verdict.status,
            activity: verdict.activity,
            last_sign: session.last_activity_at(),
        }
    }

    /// Its group. `looked_at` is when it was last looked at; without that nothing counts as done.
    pub fn attention_group(&self, looked_at: Option<Time>, now: Time) -> AttentionGroup {
        if self.status == Status::Unknown {
            return AttentionGroup::Unknown;
        }
        if self.status.is_terminal() {
            let recent = self.last_sign.is_some_and(|last| now.since(last) < FAILURE_ATTENTION);
            return match self.status == Status::Failed && recent {
                true => AttentionGroup::NeedsYou,
                false => AttentionGroup::Ended,
            };
        }
        match (self.activity, self.kind) {
            (Some(Activity::Waiting), _) => AttentionGroup::NeedsYou,
            (Some(Activity::Working), _) => AttentionGroup::Working,
            (Some(Activity::Idle), _) => match looked_at {
                Some(looked) if self.last_sign.is_some_and(|last| last > looked) => {
                    AttentionGroup::Done
                }
                _ => AttentionGroup::Idle,
            },
            // A program on a terminal runs: what it does is on its screen.
            (Some(Activity::Unknown) | None, SessionKind::Hosted) => AttentionGroup::Working,
            (Some(Activity::Unknown) | None, SessionKind::Access) => AttentionGroup::Idle,
            (Some(Activity::Unknown) | None, SessionKind::Native) => AttentionGroup::Unknown,
        }
    }

    /// Its place within its group: who waits longest first, elsewhere the newest sign.
    pub fn order_in_group(&self, group: AttentionGroup) -> AttentionOrder {
        let last = self.last_sign.map(Time::as_millis);
        match group {
            // One without a time comes after those that have one.
            AttentionGroup::NeedsYou => AttentionOrder(last.unwrap_or(i64::MAX)),
            _ => AttentionOrder(last.map_or(i64::MAX, |last| last.saturating_neg())),
        }
    }
}

/// A place within a group; smaller comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttentionOrder(i64);

/// Where a session stands among all others; smaller comes first. Two sessions never have the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttentionPlace {
    pub group: AttentionGroup,
    order: AttentionOrder,
    name: SessionName,
}

impl AttentionPlace {
    /// The place of a session. `looked_at` is when it was last looked at.
    pub fn of_session(
        session: &Session,
        verdict: &Verdict,
        looked_at: Option<Time>,
        now: Time,
    ) -> Self {
        let facts = AttentionFacts::of_session(session, verdict);
        Self::of_facts(&facts, session.session_name(), looked_at, now)
    }

    /// The place of a session with these facts.
    pub fn of_facts(
        facts: &AttentionFacts,
        name: SessionName,
        looked_at: Option<Time>,
        now: Time,
    ) -> Self {
        let group = facts.attention_group(looked_at, now);
        Self { group, order: facts.order_in_group(group), name }
    }
}

/// Why a session is in the group of the unknown, in few words.
pub fn describe_doubt(verdict: &Verdict) -> &'static str {
    match verdict.liveness {
        Liveness::Unknown(_) => verdict.liveness.reason_code(),
        _ => "no sign of what it does",
    }
}
