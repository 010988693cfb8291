//! When a person is needed: a fold over one session's events that says when to notify.
//!
//! A request is told once. An agent that reports one question twice (its hook, and a notification some
//! seconds later) asks once; one that was answered meanwhile is not told at all. A sub-agent notifies no person.

use crate::event::{HookHappening, HookReport};

/// Why a person is needed.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeKind {
    /// The agent asks for permission or input.
    Waiting,
    /// Its turn ended in an error.
    Failed,
    /// Its process ended in the middle of a turn.
    Died,
}

impl NoticeKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Waiting, Self::Failed, Self::Died];

    /// The word used in JSON and in settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Failed => "failed",
            Self::Died => "died",
        }
    }
}

/// What an event changes about whether a person is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeChange {
    /// A person is needed, and was not notified yet.
    Needed(NoticeKind),
    /// No person is needed any more.
    Settled,
    None,
}

/// What is known of one session between two events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoticeTrack {
    is_waiting: bool,
    is_in_turn: bool,
}

impl NoticeTrack {
    /// As the last event that changed what the session does has left it.
    pub fn after_event(last: Option<HookHappening>) -> Self {
        use HookHappening::{Progress, TurnStart, Waiting};
        Self {
            is_waiting: last == Some(Waiting),
            is_in_turn: matches!(last, Some(Waiting | TurnStart | Progress)),
        }
    }

    /// Takes a report in; `failed` says that it tells of a turn that ended in an error.
    pub fn apply_report(&mut self, report: &HookReport, failed: bool) -> NoticeChange {
        if report.hook.subagent.is_some() {
            return NoticeChange::None;
        }
        match report.hook.happening {
            HookHappening::Waiting => {
                // A question names its tool; a mere notification may be of the question before it.
                let is_new = !self.is_waiting || report.hook.detail.is_some();
                *self = Self { is_waiting: true, is_in_turn: true };
                if is_new { NoticeChange::Needed(NoticeKind::Waiting) } else { NoticeChange::None }
            }
            HookHappening::TurnStart | HookHappening::Progress => {
                *self = Self { is_waiting: false, is_in_turn: true };
                NoticeChange::Settled
            }
            HookHappening::TurnEnd => {
                *self = Self::default();
                match failed {
                    true => NoticeChange::Needed(NoticeKind::Failed),
                    false => NoticeChange::Settled,
                }
            }
            HookHappening::SessionStart | HookHappening::SessionEnd => {
                *self = Self::default();
                NoticeChange::Settled
            }
            HookHappening::Compaction | HookHappening::Sign => NoticeChange::None,
        }
    }

    /// Its process is proven to be gone.
    pub fn apply_exit(&mut self) -> NoticeChange {
        let died = self.is_in_turn;
        *self = Self::default();
        if died { NoticeChange::Needed(NoticeKind::Died) } else { NoticeChange::Settled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::HookEvent;
    use crate::time::Time;

    fn report(happening: HookHappening, tool: Option<&str>) -> HookReport {
        let mut hook = HookEvent::new("s", happening);
        hook.detail = tool.map(str::to_owned);
        HookReport {
            id: "1".into(),
            at: Time::from_millis(1),
            agent: "a".into(),
            event: "e".into(),
            hook,
            root: None,
            owner: None,
            spill: None,
            cut: false,
            permit: None,
        }
    }

    #[test]
    fn one_question_that_is_reported_twice_is_told_once() {
        let mut track = NoticeTrack::default();
        let asked = track.apply_report(&report(HookHappening::Waiting, Some("Bash")), false);
        assert_eq!(asked, NoticeChange::Needed(NoticeKind::Waiting));
        let again = track.apply_report(&report(HookHappening::Waiting, None), false);
        assert_eq!(again, NoticeChange::None, "a notification of the same question");
        let other = track.apply_report(&report(HookHappening::Waiting, Some("Edit")), false);
        assert_eq!(other, NoticeChange::Needed(NoticeKind::Waiting), "another question");
    }

    #[test]
    fn a_subagent_needs_nobody_and_an_end_in_mid_turn_does() {
        let mut track = NoticeTrack::default();
        let mut sub = report(HookHappening::Waiting, Some("Bash"));
        sub.hook.subagent = Some("sub".into());
        assert_eq!(track.apply_report(&sub, false), NoticeChange::None);
        assert_eq!(track.apply_exit(), NoticeChange::Settled, "it did nothing");
        track.apply_report(&report(HookHappening::TurnStart, None), false);
        assert_eq!(track.apply_exit(), NoticeChange::Needed(NoticeKind::Died));
        assert_eq!(track.apply_exit(), NoticeChange::Settled, "once");
        let ended = track.apply_report(&report(HookHappening::TurnEnd, None), true);
        assert_eq!(ended, NoticeChange::Needed(NoticeKind::Failed));
    }
}
