//! What the records of a session amount to. State comes from metadata; liveness is another column.

use std::time::Duration;

use crate::rules::meta::{Meta, Stop};
use crate::rules::skip::{Skip, SkipCode};
use model::time::Time;

/// The state of an access session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Something about it breaks a rule.
    Unknown,
    /// It was stopped.
    Stopped,
    /// Its time is over, by both clocks.
    Expired,
    /// Not expired. Says nothing about the agent.
    Active,
}

impl State {
    /// The word in tables and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Stopped => "stopped",
            Self::Expired => "expired",
            Self::Active => "active",
        }
    }

    /// Whether a session in this state may be removed at all.
    pub const fn is_candidate(self) -> bool {
        matches!(self, Self::Stopped | Self::Expired)
    }
}

/// The clocks of this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The wall clock.
    pub now: Time,
    /// Seconds since boot, suspension counted.
    pub boottime_s: u64,
    /// Which boot.
    pub boot: Option<String>,
}

/// How far into the future a time may lie before the clock is called impossible.
const FUTURE: Duration = Duration::from_secs(5 * 60);
/// The two deadlines are read from two clocks, one after the other.
const CLOCK_SLACK_S: i64 = 5;

/// A state, and whether the two clocks contradict each other about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The state.
    pub state: State,
    /// One clock says it is over, the other that it is not.
    pub clocks_disagree: bool,
}

impl Judged {
    /// Why it is no candidate for removal, if it is not.
    pub fn candidate(self) -> Result<State, Skip> {
        if self.clocks_disagree {
            let words = "wall clock and boot clock disagree about its end";
            return Err(Skip::new(SkipCode::Clock, words));
        }
        match self.state {
            State::Stopped | State::Expired => Ok(self.state),
            State::Active => Err(Skip::new(SkipCode::Active, "it has not expired")),
            State::Unknown => Err(Skip::new(SkipCode::Unknown, "its state is not known")),
        }
    }
}

/// Judges a valid record. The first matching rule wins.
pub fn judge(meta: &Meta, stop: Option<&Stop>, clocks: &Clocks) -> Result<Judged, Skip> {
    let latest = clocks.now.plus(FUTURE);
    if meta.created_at > latest {
        return Err(Skip::new(SkipCode::Clock, "it was created in the future"));
    }
    if let Some(stop) = stop {
        if stop.stopped_at > latest {
            return Err(Skip::new(SkipCode::Clock, "it was stopped in the future"));
        }
        stop.fits(meta)?;
        return Ok(Judged { state: State::Stopped, clocks_disagree: false });
    }
    let wall_left = meta.expires_at.millis().saturating_sub(clocks.now.millis());
    let other_boot = match (&meta.created_boot, &clocks.boot) {
        (Some(theirs), Some(ours)) => theirs != ours,
        _ => false,
    };
    let deadline = i64::try_from(meta.expires_boottime_s).unwrap_or(i64::MAX);
    let boottime = i64::try_from(clocks.boottime_s).unwrap_or(i64::MAX);
    let boot_left = deadline.saturating_sub(boottime);
    let over_by_wall = wall_left <= 0;
    let over_by_boot = other_boot || boot_left <= 0;
    let apart = (wall_left / 1000).saturating_sub(boot_left).abs() > CLOCK_SLACK_S;
    let state = if over_by_wall && over_by_boot { State::Expired } else { State::Active };
    let clocks_disagree = !other_boot && over_by_wall != over_by_boot && apart;
    Ok(Judged { state, clocks_disagree })
}
