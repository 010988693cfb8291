//! Fuses: timers on a session or a directory, and what is done when one comes due.
//!
//! A fuse fires at most once. When it is due its target is judged anew: one that is gone makes it moot, one of
//! which nothing is known holds it back. Elapsed time is measured since boot, suspension included, and does
//! not move with the clock on the wall; `--at` means exactly that clock.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::session::SessionName;
use crate::time::{Time, whole_millis};

/// How late a fuse may be before it counts as overdue: the time to wake up and to look.
const PROMPT_MS: u64 = 5_000;

/// One fuse, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FuseRecord {
    pub id: String,
    /// What it is about.
    pub target: FuseTarget,
    /// When it comes due.
    pub due: FuseDue,
    /// What is done then.
    pub action: FuseAction,
    /// What is done if that was missed.
    pub late: LatePolicy,
    /// When it was set.
    pub created_at: Time,
    pub created_by: String,
    /// How far it has come.
    pub state: FuseState,
    /// When it came due and was taken up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fired_at: Option<Time>,
    /// The process that carries it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carrier: Option<Identity>,
    /// What became of it, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// What a fuse is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum FuseTarget {
    Session {
        agent: String,
        /// The agent's own session id.
        id: String,
        /// The process that held it when the fuse was set: another one is another matter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<Box<Identity>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
    },
    /// Anything that works in a directory.
    Directory { path: String },
}

impl FuseTarget {
    /// The session, if it is one.
    pub fn session_name(&self) -> Option<SessionName> {
        match self {
            Self::Session { agent, id, .. } => Some(SessionName::new(agent, id)),
            Self::Directory { .. } => None,
        }
    }

    /// Where a program is run that it starts.
    pub fn directory(&self) -> Option<&str> {
        match self {
            Self::Session { cwd, .. } => cwd.as_deref(),
            Self::Directory { path } => Some(path),
        }
    }
}

/// When a fuse comes due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum FuseDue {
    /// After so much time has passed.
    #[serde(rename_all = "camelCase")]
    After {
        span_ms: u64,
        /// The boot in which it was set.
        boot: Option<String>,
        /// When, since that boot.
        since_boot_ms: u64,
    },
    /// At a time of day.
    At { at: Time },
    /// After so long without a sign of life.
    #[serde(rename_all = "camelCase")]
    Idle {
        span_ms: u64,
        /// The last sign that is known.
        last_sign_at: Time,
    },
}

/// What is done when it comes due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum FuseAction {
    /// The session is stopped, with its tree.
    Stop,
    /// Nothing but an event.
    Event,
    /// A program is run, without a shell.
    Exec {
        /// The program and its arguments.
        argv: Vec<String>,
    },
    /// The conversation goes on, once its usage limit is over.
    Resume(ResumeAtReset),
}

/// How a conversation that ran into a usage limit goes on. The text is its user's own: none is made up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumeAtReset {
    /// The file that holds the prompt.
    pub file: String,
    /// SHA-256 of the prompt when the fuse was set: another one was not meant.
    pub sha256: String,
    /// Where the transcript ended then. A prompt behind that is somebody else's, and takes the fuse back.
    pub noted_end: u64,
    /// How often it is tried at most.
    pub max: u32,
    /// How often it was.
    #[serde(default)]
    pub tries: u32,
    /// After which time it is not tried any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// How long after a limit's reset a conversation goes on, beside some seconds by chance: the clocks of both sides differ.
const AFTER_RESET: Duration = Duration::from_secs(60);

impl ResumeAtReset {
    /// When it goes on whose limit is over at that time: not before now.
    pub fn due_at(resets_at: Time, chance: Duration, now: Time) -> Time {
        resets_at.plus(AFTER_RESET).plus(chance).max(now)
    }

    /// Notes that it was tried, and ran into a limit again. Says why it is not tried any more, if it is not.
    pub fn note_limited(&mut self, due_at: Time, noted_end: u64) -> Option<String> {
        self.tries += 1;
        self.noted_end = noted_end;
        if self.tries >= self.max {
            return Some(format!("limited again, after {} of {} tries", self.tries, self.max));
        }
        let over = self.until.filter(|until| *until < due_at);
        over.map(|_| "limited again, for longer than it was to be tried".to_owned())
    }
}

impl FuseAction {
    /// The word on the command line.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Event => "event",
            Self::Exec { .. } => "exec",
            Self::Resume(_) => "resume",
        }
    }

    /// What is done if its time was missed and no choice was given: what ends or tells is done late, what starts
    /// something is not.
    pub const fn usual_late_policy(&self) -> LatePolicy {
        match self {
            Self::Stop | Self::Event => LatePolicy::Fire,
            Self::Exec { .. } | Self::Resume(_) => LatePolicy::Skip,
        }
    }
}

/// What is done if the time of a fuse was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatePolicy {
    /// It fires late.
    Fire,
    /// It does not fire.
    Skip,
}

/// How far a fuse has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FuseState {
    /// It waits for its time.
    Armed,
    /// It came due, and is being carried out.
    Firing,
    /// It was carried out.
    Fired,
    /// Its target was gone.
    Moot,
    /// Nothing certain was known of its target, so nothing was done.
    HeldBack,
    /// Its time was missed.
    Skipped,
    /// It was cancelled.
    Cancelled,
    /// It was carried out, and that failed.
    Failed,
    /// It was taken up, and its carrier ended before saying what became of it.
    Unsettled,
}

impl FuseState {
    /// The word in JSON and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Armed => "armed",
            Self::Firing => "firing",
            Self::Fired => "fired",
            Self::Moot => "moot",
            Self::HeldBack => "held-back",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Unsettled => "unsettled",
        }
    }

    /// Whether something may still come of it.
    pub const fn is_pending(self) -> bool {
        matches!(self, Self::Armed | Self::Firing)
    }
}

/// What time it is, by both clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FuseClock {
    /// The clock on the wall.
    pub wall: Time,
    /// This boot, if it has a name.
    pub boot: Option<String>,
    /// The time since then, suspension included.
    pub since_boot: Duration,
}

/// How a fuse stands against the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FuseTiming {
    /// It comes due when the time since boot is this.
    AtBoottime(Duration),
    /// It comes due at this time of day.
    AtWall(Time),
    /// It is due now.
    Due,
    /// Its time was missed, and it is not to fire late.
    Missed {
        /// By how much.
        late_ms: u64,
    },
}

impl FuseRecord {
    /// How it stands.
    pub fn judge_timing(&self, clock: &FuseClock) -> FuseTiming {
        let late = |late_ms: u64| match self.late {
            LatePolicy::Skip if late_ms > PROMPT_MS => FuseTiming::Missed { late_ms },
            _ => FuseTiming::Due,
        };
        let by_wall = |at: Time| match at <= clock.wall {
            true => late(whole_millis(clock.wall.since(at))),
            false => FuseTiming::AtWall(at),
        };
        match &self.due {
            FuseDue::After { span_ms, boot, since_boot_ms } => {
                // Of another boot only the clock on the wall tells.
                if boot.is_none() || *boot != clock.boot {
                    return by_wall(self.created_at.plus(Duration::from_millis(*span_ms)));
                }
                let due_ms = since_boot_ms.saturating_add(*span_ms);
                match whole_millis(clock.since_boot).checked_sub(due_ms) {
                    Some(late_ms) => late(late_ms),
                    None => FuseTiming::AtBoottime(Duration::from_millis(due_ms)),
                }
            }
            FuseDue::At { at } => by_wall(*at),
            FuseDue::Idle { span_ms, last_sign_at } => {
                let at = last_sign_at.plus(Duration::from_millis(*span_ms));
                // Silence goes on: it cannot be missed.
                if at <= clock.wall { FuseTiming::Due } else { FuseTiming::AtWall(at) }
            }
        }
    }

    /// When it comes due, as far as that can be told as a time of day.
    pub fn due_at(&self, clock: &FuseClock) -> Time {
        match self.judge_timing(clock) {
            FuseTiming::AtWall(at) => at,
            FuseTiming::AtBoottime(due) => clock.wall.plus(due.saturating_sub(clock.since_boot)),
            FuseTiming::Due | FuseTiming::Missed { .. } => clock.wall,
        }
    }

    /// Puts its time off.
    pub fn put_off(&mut self, by: Duration) {
        let more = whole_millis(by);
        match &mut self.due {
            FuseDue::After { span_ms, .. } | FuseDue::Idle { span_ms, .. } => {
                *span_ms = span_ms.saturating_add(more);
            }
            FuseDue::At { at } => *at = at.plus(by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fuse(due: FuseDue, late: LatePolicy) -> FuseRecord {
        FuseRecord {
            id: "f".into(),
            target: FuseTarget::Directory { path: "/p".into() },
            due,
            action: FuseAction::Event,
            late,
            created_at: Time::from_millis(1_000_000),
            created_by: "ada".into(),
            state: FuseState::Armed,
            fired_at: None,
            carrier: None,
            outcome: None,
        }
    }

    fn clock(wall_ms: i64, since_boot_ms: u64) -> FuseClock {
        FuseClock {
            wall: Time::from_millis(wall_ms),
            boot: Some("one".into()),
            since_boot: Duration::from_millis(since_boot_ms),
        }
    }

    fn after(span_ms: u64) -> FuseDue {
        FuseDue::After { span_ms, boot: Some("one".into()), since_boot_ms: 50_000 }
    }

    #[test]
    fn row_76_elapsed_time_does_not_move_with_the_clock_and_counts_suspension() {
        let fuse = fuse(after(60_000), LatePolicy::Skip);
        let waits = FuseTiming::AtBoottime(Duration::from_millis(110_000));
        assert_eq!(fuse.judge_timing(&clock(1_030_000, 80_000)), waits);
        assert_eq!(fuse.judge_timing(&clock(9_000_000_000, 80_000)), waits, "set forward");
        assert_eq!(fuse.judge_timing(&clock(0, 80_000)), waits, "set back");
        assert_eq!(fuse.judge_timing(&clock(0, 110_000)), FuseTiming::Due);
        // Asleep for an hour: its time was missed.
        let slept = fuse.judge_timing(&clock(0, 3_710_000));
        assert_eq!(slept, FuseTiming::Missed { late_ms: 3_600_000 });
    }

    #[test]
    fn row_76_after_a_reboot_the_wall_tells_and_a_time_of_day_is_one() {
        let rebooted = FuseClock { boot: Some("two".into()), ..clock(1_030_000, 5) };
        let elapsed = fuse(after(60_000), LatePolicy::Fire);
        let due = Time::from_millis(1_060_000);
        assert_eq!(elapsed.judge_timing(&rebooted), FuseTiming::AtWall(due));
        let at = fuse(FuseDue::At { at: due }, LatePolicy::Skip);
        assert_eq!(at.judge_timing(&clock(1_059_999, 0)), FuseTiming::AtWall(due));
        assert_eq!(
            at.judge_timing(&clock(1_062_000, 0)),
            FuseTiming::Due,
            "in the time to wake up"
        );
        let late = at.judge_timing(&clock(1_070_000, 0));
        assert_eq!(late, FuseTiming::Missed { late_ms: 10_000 });
        let three_days = 3 * 86_400_000;
        let fires = fuse(FuseDue::At { at: due }, LatePolicy::Fire);
        assert_eq!(fires.judge_timing(&clock(1_060_000 + three_days, 0)), FuseTiming::Due);
    }

    #[test]
    fn row_81_a_reset_in_the_past_is_now_and_a_limit_again_ends_with_its_tries_or_its_time() {
        let (now, chance) = (Time::from_millis(1_000_000), Duration::from_secs(7));
        let past = ResumeAtReset::due_at(Time::from_millis(5), chance, now);
        assert_eq!(past, now);
        let later = ResumeAtReset::due_at(now, chance, now);
        assert_eq!(later, now.plus(Duration::from_secs(67)));
        let mut plan = ResumeAtReset {
            file: "/p/go-on".into(),
            sha256: String::new(),
            noted_end: 10,
            max: 2,
            tries: 0,
            until: Some(later),
        };
        assert_eq!(plan.note_limited(later, 20), None);
        assert_eq!((plan.tries, plan.noted_end), (1, 20));
        assert!(plan.note_limited(later, 30).unwrap().contains("2 of 2"));
        plan.max = 9;
        assert!(plan.note_limited(later.plus(chance), 40).unwrap().contains("longer"));
    }

    #[test]
    fn a_fuse_is_put_off_in_its_own_clock() {
        let mut fuse = fuse(after(60_000), LatePolicy::Fire);
        fuse.put_off(Duration::from_secs(60));
        let due = FuseTiming::AtBoottime(Duration::from_millis(170_000));
        assert_eq!(fuse.judge_timing(&clock(0, 110_000)), due);
        assert_eq!(fuse.due_at(&clock(1_000_000, 110_000)), Time::from_millis(1_060_000));
    }
}
