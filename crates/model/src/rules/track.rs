//! Session state from hooks: an idempotent fold over reports, in any order (late lines and duplicates are
//! safe).
//!
//! A report changes the state only if it is not older than what the state was last changed by;
//! an older one (a late line, a duplicate) still counts as a sign of life. So no order of lines can
//! end a session that has later evidence, and no line is ever an error.

use serde::{Deserialize, Serialize};

use crate::event::{HookEvent, HookHappening, HookReport};
use crate::identity::Identity;
use crate::status::Activity;
use crate::time::Time;

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// The agent said so; its own word for why.
    Said(Option<String>),
    /// Its owner is gone. A clean quit as much as a kill.
    Exited,
}

impl EndReason {
    pub fn reason_text(&self) -> String {
        match self {
            Self::Exited => "exited".to_owned(),
            Self::Said(None) => "ended".to_owned(),
            Self::Said(Some(why)) => format!("ended ({why})"),
        }
    }
}

/// The end of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrackEnd {
    /// The last evidence of it, not the time when it was noticed.
    pub at: Time,
    pub reason: EndReason,
}

/// What hooks have told about one session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HookTrack {
    /// The process that the current or last turn belongs to.
    pub owner: Option<Identity>,
    /// The last turn began without finding its owner: the one above is from before. While it lives the
    /// session does; its end proves nothing, for another process may have gone on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub owner_unconfirmed: bool,
    /// What it is doing, while it is not over.
    pub activity: Option<Activity>,
    /// What it waits for.
    pub waiting_for: Option<String>,
    /// Its end, if it is over.
    pub end: Option<TrackEnd>,
    /// When the first report came.
    pub began_at: Option<Time>,
    /// The last evidence that it was there.
    pub last_sign_at: Option<Time>,
    /// When the activity, the owner or the end was last changed by a report.
    pub changed_at: Option<Time>,
    /// When the current turn started.
    pub turn_started_at: Option<Time>,
    /// How many turns were started.
    pub turns: u64,
    /// Whether the agent reported that it opened the session.
    pub begun: bool,
    /// A session began anew while a turn was open: the end of that turn was never reported.
    pub interrupted: bool,
    /// The agent's directory.
    pub cwd: Option<String>,
    pub transcript: Option<String>,
    /// Where the agent keeps its sessions.
    pub root: Option<String>,
    /// The first prompt.
    pub first_prompt: Option<String>,
    /// The last model named.
    pub model: Option<String>,
}

/// A change that others are told about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackChange {
    /// The first report of this session.
    Appeared,
    /// It was over, and is not.
    Revived,
    /// It is over now.
    Ended,
    /// It does something else now.
    Activity,
    /// Nothing that matters to others.
    None,
}

impl HookTrack {
    /// Whether it is not known to be over.
    pub fn is_open(&self) -> bool {
        self.end.is_none()
    }

    /// Whether a session really began: some agents report the end of turns without a session.
    pub fn was_begun(&self) -> bool {
        self.turns > 0 || self.begun
    }

    /// Takes one report in.
    pub fn apply_report(&mut self, report: &HookReport) -> TrackChange {
        let first = self.last_sign_at.is_none();
        let at = report.at;
        self.began_at = Some(self.began_at.map_or(at, |known| known.min(at)));
        let later_evidence = self.last_sign_at.is_some_and(|known| known > at);
        let outdated = self.changed_at.is_some_and(|known| known > at);
        self.last_sign_at = self.last_sign_at.max(Some(at));
        self.note_facts(report, outdated);
        if report.hook.subagent.is_some() {
            // A sub-agent never changes what its parent is doing.
            return if first { TrackChange::Appeared } else { TrackChange::None };
        }
        match report.hook.happening {
            HookHappening::TurnStart => self.turns += 1,
            HookHappening::SessionStart => self.begun = true,
            _ => {}
        }
        if outdated {
            return if first { TrackChange::Appeared } else { TrackChange::None };
        }
        let change = self.change_state(report, later_evidence);
        if first { TrackChange::Appeared } else { change }
    }

    /// The facts that hold in every state.
    fn note_facts(&mut self, report: &HookReport, outdated: bool) {
        let hook = &report.hook;
        let newer = |known: &mut Option<String>, said: &Option<String>| {
            if said.is_some() && (known.is_none() || !outdated) {
                known.clone_from(said);
            }
        };
        newer(&mut self.cwd, &hook.cwd);
        newer(&mut self.model, &hook.model);
        newer(&mut self.root, &report.root);
        if hook.subagent.is_none() {
            newer(&mut self.transcript, &hook.transcript);
            if self.first_prompt.is_none() && hook.happening == HookHappening::TurnStart {
                self.first_prompt.clone_from(&hook.prompt);
            }
        }
    }

    fn change_state(&mut self, report: &HookReport, later_evidence: bool) -> TrackChange {
        let (at, hook) = (report.at, &report.hook);
        let was_open = self.is_open();
        let before = self.activity;
        match hook.happening {
            HookHappening::TurnStart => {
                // Captured anew. A walk that failed leaves the known one, and a doubt about it.
                self.capture_owner(report);
                self.begin_activity(Activity::Working);
                self.turn_started_at = Some(at);
                self.interrupted = false;
            }
            HookHappening::SessionStart => {
                if report.owner.is_some() || !was_open {
                    self.capture_owner(report);
                }
                let working = was_open && self.activity == Some(Activity::Working);
                self.interrupted = working;
                self.begin_activity(if working { Activity::Working } else { Activity::Idle });
            }
            HookHappening::Progress | HookHappening::Waiting | HookHappening::TurnEnd
                if !was_open =>
            {
                return TrackChange::None;
            }
            HookHappening::Progress => {
                self.adopt_owner(report);
                self.begin_activity(Activity::Working);
            }
            HookHappening::Waiting => {
                self.adopt_owner(report);
                // A question names its tool; a mere notification after it says less of the same one.
                let known = self.waiting_for.take().filter(|_| hook.detail.is_none());
                self.begin_activity(Activity::Waiting);
                self.waiting_for = known.or_else(|| describe_question(hook));
            }
            HookHappening::TurnEnd => {
                self.adopt_owner(report);
                self.begin_activity(Activity::Idle);
                self.turn_started_at = None;
            }
            HookHappening::SessionEnd => {
                if !was_open || later_evidence {
                    return TrackChange::None;
                }
                self.end = Some(TrackEnd { at, reason: EndReason::Said(hook.detail.clone()) });
                self.activity = None;
                self.waiting_for = None;
                self.turn_started_at = None;
            }
            HookHappening::Compaction | HookHappening::Sign => return TrackChange::None,
        }
        self.changed_at = self.changed_at.max(Some(at));
        match (was_open, self.is_open()) {
            (true, false) => TrackChange::Ended,
            (false, true) => TrackChange::Revived,
            _ if before != self.activity => TrackChange::Activity,
            _ => TrackChange::None,
        }
    }

    /// It is there, and does this.
    fn begin_activity(&mut self, activity: Activity) {
        self.end = None;
        self.activity = Some(activity);
        self.waiting_for = None;
    }

    /// Takes the owner of a report where none is known for certain.
    fn adopt_owner(&mut self, report: &HookReport) {
        if self.owner.is_none() || (self.owner_unconfirmed && report.owner.is_some()) {
            self.capture_owner(report);
        }
    }

    /// Takes the owner of a report; without one, what is known stays and is in doubt.
    fn capture_owner(&mut self, report: &HookReport) {
        if report.owner.is_some() {
            self.owner.clone_from(&report.owner);
        }
        self.owner_unconfirmed = report.owner.is_none() && self.owner.is_some();
    }

    /// Its owner is proven to be gone: it ended with the last evidence of it.
    pub fn mark_exited(&mut self) -> TrackChange {
        if !self.is_open() {
            return TrackChange::None;
        }
        let at = self.last_sign_at.unwrap_or(Time::from_millis(0));
        self.end = Some(TrackEnd { at, reason: EndReason::Exited });
        self.activity = None;
        self.waiting_for = None;
        self.turn_started_at = None;
        TrackChange::Ended
    }
}

/// What a session waits for: the tool and what it is to do, as far as each is known.
fn describe_question(hook: &HookEvent) -> Option<String> {
    match (&hook.detail, &hook.message) {
        (Some(tool), Some(about)) => Some(format!("{tool}: {about}")),
        (one, other) => other.clone().or_else(|| one.clone()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::HookEvent;

    fn at(seconds: i64, happening: HookHappening) -> HookReport {
        HookReport {
            id: format!("{seconds}.{}", happening.as_str()),
            at: Time::from_millis(seconds * 1000),
            agent: "a".into(),
            event: happening.as_str().into(),
            hook: HookEvent::new("s", happening),
            root: None,
            owner: Some(Identity { pid: Some(seconds as u32), ..Identity::default() }),
            spill: None,
            cut: false,
            permit: None,
        }
    }

    fn fold(reports: &[HookReport]) -> HookTrack {
        let mut track = HookTrack::default();
        for report in reports {
            track.apply_report(report);
        }
        track
    }

    use HookHappening::{
        Compaction, Progress, SessionEnd, SessionStart, Sign, TurnEnd, TurnStart, Waiting,
    };

    /// The table of transitions: from a state, by an event, to a state. `None` is ended.
    #[test]
    fn the_transition_table() {
        let idle = [at(1, SessionStart)];
        let working = [at(1, SessionStart), at(2, TurnStart)];
        let waiting = [at(1, SessionStart), at(2, TurnStart), at(3, Waiting)];
        let ended = [at(1, SessionStart), at(2, TurnStart), at(3, SessionEnd)];
        use Activity as A;
        let rows: [(&[HookReport], HookHappening, Option<A>); 32] = [
            (&idle, TurnStart, Some(A::Working)),
            (&idle, TurnEnd, Some(A::Idle)),
            (&idle, SessionStart, Some(A::Idle)),
            (&idle, SessionEnd, None),
            (&idle, Compaction, Some(A::Idle)),
            (&idle, Progress, Some(A::Working)),
            (&idle, Waiting, Some(A::Waiting)),
            (&idle, Sign, Some(A::Idle)),
            (&working, TurnStart, Some(A::Working)),
            (&working, TurnEnd, Some(A::Idle)),
            (&working, SessionStart, Some(A::Working)),
            (&working, SessionEnd, None),
            (&working, Compaction, Some(A::Working)),
            (&working, Progress, Some(A::Working)),
            (&working, Waiting, Some(A::Waiting)),
            (&working, Sign, Some(A::Working)),
            (&waiting, TurnStart, Some(A::Working)),
            (&waiting, TurnEnd, Some(A::Idle)),
            (&waiting, SessionStart, Some(A::Idle)),
            (&waiting, SessionEnd, None),
            (&waiting, Compaction, Some(A::Waiting)),
            (&waiting, Progress, Some(A::Working)),
            (&waiting, Waiting, Some(A::Waiting)),
            (&waiting, Sign, Some(A::Waiting)),
            (&ended, TurnStart, Some(A::Working)),
            (&ended, TurnEnd, None),
            (&ended, SessionStart, Some(A::Idle)),
            (&ended, SessionEnd, None),
            (&ended, Compaction, None),
            (&ended, Progress, None),
            (&ended, Waiting, None),
            (&ended, Sign, None),
        ];
        for (from, event, expected) in rows {
            let mut track = fold(from);
            track.apply_report(&at(9, event));
            assert_eq!(track.activity, expected, "{:?} by {event:?}", fold(from).activity);
            assert_eq!(track.end.is_some(), expected.is_none());
        }
        let mut noted = fold(&working);
        noted.apply_report(&at(9, SessionStart));
        assert!(noted.interrupted, "working, note stale");
        for from in [&idle[..], &working, &waiting] {
            let mut track = fold(from);
            assert_eq!(track.mark_exited(), TrackChange::Ended);
            let last = from.last().unwrap().at;
            assert_eq!(track.end, Some(TrackEnd { at: last, reason: EndReason::Exited }));
        }
        let mut over = fold(&ended);
        assert_eq!(over.mark_exited(), TrackChange::None, "an end that was said stays said");
    }

    #[test]
    fn l10_the_owner_is_captured_at_every_turn_start_and_never_erased() {
        let mut track = fold(&[at(1, SessionStart), at(2, TurnStart)]);
        assert_eq!(track.owner.as_ref().unwrap().pid, Some(2));
        track.apply_report(&at(3, Progress));
        assert_eq!(track.owner.as_ref().unwrap().pid, Some(2), "kept within the turn");
        let failed = HookReport { owner: None, ..at(4, TurnStart) };
        track.apply_report(&failed);
        assert_eq!(track.owner.as_ref().unwrap().pid, Some(2), "a failed walk erases nothing");
        assert!(track.owner_unconfirmed, "and proves nothing");
        track.apply_report(&at(5, Progress));
        assert_eq!(track.owner.as_ref().unwrap().pid, Some(5), "and a later one may succeed");
        assert!(!track.owner_unconfirmed);
    }

    #[test]
    fn a_subagent_never_flips_its_parent() {
        let mut track = fold(&[at(1, SessionStart), at(2, TurnStart), at(3, Waiting)]);
        for happening in HookHappening::ALL {
            let mut report = at(9, happening);
            report.hook.subagent = Some("sub".into());
            track.apply_report(&report);
            assert_eq!(track.activity, Some(Activity::Waiting), "{happening:?}");
            assert_eq!(track.turns, 1);
        }
        assert_eq!(track.last_sign_at, Some(Time::from_millis(9000)), "but it is a sign of life");
    }

    #[test]
    fn a_question_says_its_tool_and_what_it_is_to_do_until_it_is_answered() {
        let mut asks = at(3, Waiting);
        asks.hook.detail = Some("Bash".into());
        asks.hook.message = Some("cargo test".into());
        let mut notified = at(4, Waiting);
        notified.hook.message = Some("Claude needs your permission to use Bash".into());
        let mut track = fold(&[at(1, SessionStart), at(2, TurnStart), asks.clone()]);
        assert_eq!(track.waiting_for.as_deref(), Some("Bash: cargo test"));
        track.apply_report(&notified);
        assert_eq!(track.waiting_for.as_deref(), Some("Bash: cargo test"), "it says less");
        track.apply_report(&at(5, Progress));
        assert_eq!(track.waiting_for, None);
        notified.at = Time::from_millis(6000);
        track.apply_report(&notified);
        assert_eq!(track.waiting_for, notified.hook.message, "it is another question");
    }

    fn any_report() -> impl Strategy<Value = HookReport> {
        (0..20i64, 0..HookHappening::ALL.len(), any::<bool>(), any::<bool>()).prop_map(
            |(seconds, happening, owned, sub)| {
                let mut report = at(seconds, HookHappening::ALL[happening]);
                if !owned {
                    report.owner = None;
                }
                report.hook.subagent = sub.then(|| "sub".to_owned());
                report
            },
        )
    }

    proptest! {
        #[test]
        fn nothing_ends_a_session_that_has_later_evidence(
            reports in proptest::collection::vec(any_report(), 1..40),
        ) {
            let track = fold(&reports);
            if let Some(end) = &track.end {
                let later = reports.iter().any(|report| {
                    report.at > end.at
                        && report.hook.subagent.is_none()
                        && matches!(report.hook.happening, TurnStart | SessionStart)
                });
                prop_assert!(!later, "{reports:?}");
            }
        }

        #[test]
        fn the_last_sign_is_the_newest_report_and_ends_are_not_after_it(
            reports in proptest::collection::vec(any_report(), 1..40),
        ) {
            let mut track = fold(&reports);
            let newest = reports.iter().map(|report| report.at).max();
            prop_assert_eq!(track.last_sign_at, newest);
            track.mark_exited();
            prop_assert!(track.end.unwrap().at <= newest.unwrap());
        }

        #[test]
        fn reports_in_order_and_their_duplicates_change_nothing_more(
            mut reports in proptest::collection::vec(any_report(), 1..40),
        ) {
            // Distinct times: what happens at the very same moment has no order.
            for (index, report) in reports.iter_mut().enumerate() {
                report.at = Time::from_millis(index as i64 * 1000);
            }
            let track = fold(&reports);
            let mut again = track.clone();
            for report in &reports[..reports.len() - 1] {
                again.apply_report(report);
            }
            again.turns = track.turns;
            if track.changed_at == track.last_sign_at {
                prop_assert_eq!(again, track);
            }
        }

        #[test]
        fn a_turn_that_starts_last_is_always_open_and_working(
            reports in proptest::collection::vec(any_report(), 0..40),
        ) {
            let mut track = fold(&reports);
            track.mark_exited();
            track.apply_report(&at(99, TurnStart));
            prop_assert!(track.is_open());
            prop_assert_eq!(track.activity, Some(Activity::Working));
        }
    }
}
