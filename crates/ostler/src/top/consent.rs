//! Consent: a plan comes when it is ready, so a `y` counts only once somebody can have read it.

use model::time::Time;

use super::input::{TopKey, TopKeyCode};
use super::pane::PaneText;
use super::state::{TopAction, TopConsent, TopMode, TopState};
use crate::timeouts::CONSENT_REST;

/// What somebody can have seen of the plan that waits for a `y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlanSight {
    /// It is not on the screen yet.
    Unseen,
    /// It is there since then.
    Since(Time),
    /// It was there long enough.
    Read,
}

impl TopState {
    /// Shows a plan and waits for a `y`.
    pub(crate) fn show_plan(&mut self, text: PaneText, mode: TopMode) {
        self.plan = text;
        self.mode = mode;
        self.plan_sight = PlanSight::Unseen;
    }

    /// The terminal has all of a frame with the plan.
    pub(crate) fn note_plan_drawn(&mut self, now: Time) {
        if self.plan_sight == PlanSight::Unseen {
            self.plan_sight = PlanSight::Since(now);
        }
    }

    /// Whether a `y` is an answer to the plan, and not to what was there before it.
    pub(crate) fn is_plan_read(&self) -> bool {
        self.plan_sight == PlanSight::Read
    }

    /// When it will be.
    pub(crate) fn consent_due(&self) -> Option<Time> {
        match self.plan_sight {
            PlanSight::Since(drawn) => Some(drawn.plus(CONSENT_REST)),
            _ => None,
        }
    }

    /// Lets a `y` count, if it is time. Says whether it counts from now on.
    pub(crate) fn settle_consent(&mut self, now: Time) -> bool {
        let PlanSight::Since(drawn) = self.plan_sight else { return false };
        // A clock that was set back begins anew.
        let drawn = drawn.min(now);
        let is_read = now.since(drawn) >= CONSENT_REST;
        self.plan_sight = if is_read { PlanSight::Read } else { PlanSight::Since(drawn) };
        is_read
    }

    /// A key while something waits for consent: only `y` gives it, what moves reads on.
    pub(super) fn answer_consent(
        &mut self,
        consent: TopConsent,
        pressed: TopKey,
        now: Time,
    ) -> Vec<TopAction> {
        self.settle_consent(now);
        let is_yes = pressed == TopKey::plain(TopKeyCode::Char('y'));
        if is_yes && !self.is_plan_read() {
            self.message = Some("That was before you could read it.".to_owned());
            return Vec::new();
        }
        if !is_yes && self.scroll_by_key(pressed) {
            return Vec::new();
        }
        self.mode = TopMode::List;
        self.plan = PaneText::default();
        if is_yes {
            return vec![TopAction::Consent(consent)];
        }
        self.message = Some("Nothing was done.".to_owned());
        vec![TopAction::LoadPane]
    }
}
