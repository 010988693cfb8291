//! What the records of a session amount to. State comes from metadata; liveness is another column.

use std::time::Duration;

use crate::rules::meta::{AccessMeta, StopRecord};
use model::refusal::{Refusal, SkipCode};
use model::time::Time;
use serde::{Deserialize, Serialize};

/// The state of an access session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessState {
    /// Something about it breaks a rule.
    Unknown,
    /// It was stopped.
    Stopped,
    /// Its time is over, by both clocks.
    Expired,
    /// Not expired. Says nothing about the agent.
    Active,
}

impl AccessState {
    /// The word in tables and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Stopped => "stopped",
            Self::Expired => "expired",
            Self::Active => "active",
        }
    }
}

/// The clocks of this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessClocks {
    /// The wall clock.
    pub now: Time,
    /// Seconds since boot, suspension counted.
    pub boottime_s: u64,
    pub boot: Option<String>,
}

/// How far into the future a time may lie before the clock is called impossible.
const MAX_FUTURE_SKEW: Duration = Duration::from_secs(5 * 60);
/// The two deadlines are read from two clocks, one after the other.
const DEADLINE_SLACK_SECONDS: i64 = 5;

/// A state, and whether the two clocks contradict each other about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedAccess {
    pub state: AccessState,
    /// One clock says it is over, the other that it is not.
    pub clocks_disagree: bool,
}

impl JudgedAccess {
    /// Why it is no candidate for removal, if it is not.
    pub fn require_candidate(self) -> Result<AccessState, Refusal> {
        if self.clocks_disagree {
            let words = "wall clock and boot clock disagree about its end";
            return Err(Refusal::skip(SkipCode::Clock, words));
        }
        match self.state {
            AccessState::Stopped | AccessState::Expired => Ok(self.state),
            AccessState::Active => Err(Refusal::skip(SkipCode::Active, "it has not expired")),
            AccessState::Unknown => Err(Refusal::skip(SkipCode::Unknown, "its state is not known")),
        }
    }
}

/// Judges a valid record. The first matching rule wins.
pub fn judge_access(
    meta: &AccessMeta,
    stop: Option<&StopRecord>,
    clocks: &AccessClocks,
) -> Result<JudgedAccess, Refusal> {
    let latest = clocks.now.plus(MAX_FUTURE_SKEW);
    if meta.created_at > latest {
        return Err(Refusal::skip(SkipCode::Clock, "it was created in the future"));
    }
    if let Some(stop) = stop {
        if stop.stopped_at > latest {
            return Err(Refusal::skip(SkipCode::Clock, "it was stopped in the future"));
        }
        stop.check_same_session(meta)?;
        return Ok(JudgedAccess { state: AccessState::Stopped, clocks_disagree: false });
    }
    let wall_left = meta.expires_at.as_millis().saturating_sub(clocks.now.as_millis());
    let other_boot = match (&meta.created_boot, &clocks.boot) {
        (Some(theirs), Some(ours)) => theirs != ours,
        _ => false,
    };
    let deadline = i64::try_from(meta.expires_boottime_s).unwrap_or(i64::MAX);
    let boottime = i64::try_from(clocks.boottime_s).unwrap_or(i64::MAX);
    let boot_left = deadline.saturating_sub(boottime);
    let over_by_wall = wall_left <= 0;
    let over_by_boot = other_boot || boot_left <= 0;
    let apart = (wall_left / 1000).saturating_sub(boot_left).abs() > DEADLINE_SLACK_SECONDS;
    let state =
        if over_by_wall && over_by_boot { AccessState::Expired } else { AccessState::Active };
    let clocks_disagree = !other_boot && over_by_wall != over_by_boot && apart;
    Ok(JudgedAccess { state, clocks_disagree })
}
