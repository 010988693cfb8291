//! Idle agents: that one was seen idle counts only as long as nobody presses Enter.
//!
//! Between the look at an agent and the paste another prompt may have come, or a person's. So the host is told how
//! many Enters were out when the agent was seen idle, and pastes nothing if there are more by then. And an agent whose
//! last Enter has left no trace yet is not idle: its record comes a moment later.

use std::time::{Duration, Instant};

use model::time::Time;
use sys::dropped::NoteDropped;

use crate::terminal::HostedSession;
use crate::terminal::submit::ask_readiness;
use crate::timeouts::ENTER_RECORD_SPAN;

/// What the Enters of a terminal say about an agent that was seen idle in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EnterSight {
    /// It stays so until there are more than that; not known of a host of an earlier release.
    Stands(Option<u64>),
    /// Enter was pressed, and what came of it need not be recorded yet.
    TooSoon,
}

/// Looks at the Enters of a terminal whose agent was seen idle by a look that began at `looked_at`. `turn_ended` is
/// when the last turn ended, by the agent's record.
pub(super) fn look_at_enters(
    session: &HostedSession,
    looked_at: Instant,
    turn_ended: Option<Time>,
    now: Time,
) -> EnterSight {
    let ready = ask_readiness(session).ok_or_note("the Enters of a terminal");
    let Some((ready, enters)) = ready.and_then(|ready| Some((ready.since_enter_ms, ready.enters?)))
    else {
        return EnterSight::Stands(None);
    };
    let ago = ready.map(Duration::from_millis);
    match ago.is_none_or(|ago| is_recorded(ago, looked_at.elapsed(), turn_ended, now)) {
        true => EnterSight::Stands(Some(enters)),
        false => EnterSight::TooSoon,
    }
}

/// Whether what came of an Enter would have been seen by a look that began so long ago.
fn is_recorded(
    enter_ago: Duration,
    look_ago: Duration,
    turn_ended: Option<Time>,
    now: Time,
) -> bool {
    let ended_since = turn_ended.is_some_and(|ended| ended > now.minus(enter_ago));
    enter_ago > look_ago && (ended_since || enter_ago > look_ago + ENTER_RECORD_SPAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_17_an_enter_without_a_record_is_no_sign_of_an_idle_agent() {
        let now = Time::from_millis(1_000_000);
        let ms = Duration::from_millis;
        let recorded = |enter: u64, ended_ago: Option<u64>| {
            is_recorded(ms(enter), ms(50), ended_ago.map(|ago| now.minus(ms(ago))), now)
        };
        assert!(!recorded(20, Some(10)), "pressed while it was looked at");
        assert!(!recorded(500, None) && !recorded(500, Some(600)), "no turn ended since");
        assert!(recorded(500, Some(300)));
        assert!(recorded(60_000, None) && recorded(60_000, Some(90_000)), "it began none");
    }
}
