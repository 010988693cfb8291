//! A `y` counts once the plan was there to be read, and not before.

use std::time::Duration;

use model::time::Time;

use super::super::pane::PaneText;
use super::super::state::{TopAction, TopConsent, TopMode, TopState};
use super::{NOW, PLAIN, draw, press, some_rows, state_of, text_of};

fn at(ms: u64) -> Time {
    NOW.plus(Duration::from_millis(ms))
}

fn asked() -> (TopState, TopConsent) {
    let mut state = state_of(120, 40, some_rows());
    let consent = TopConsent::CleanUp { plan: "p1".to_owned() };
    state.show_plan(PaneText::of_page("one\ntwo"), TopMode::Confirm(consent.clone()));
    (state, consent)
}

#[test]
fn row_14_a_y_that_was_typed_before_the_plan_was_seen_is_no_consent() {
    let (mut state, consent) = asked();
    // Not drawn: however late it is read, it was no answer.
    assert_eq!(press(&mut state, b"y", at(10_000)), []);
    state.note_plan_drawn(at(20_000));
    assert!(text_of(&draw(&state, PLAIN)).contains("read it first"));
    assert_eq!(press(&mut state, b"y", at(20_399)), [], "nobody reads so fast");
    assert_eq!(state.mode, TopMode::Confirm(consent.clone()), "the question stays");
    assert!(state.message.as_deref().unwrap().contains("before you could read it"));
    // Another frame of the same plan does not begin anew.
    state.note_plan_drawn(at(20_399));
    assert_eq!(state.consent_due(), Some(at(20_400)));
    assert!(state.settle_consent(at(20_400)) && !state.settle_consent(at(20_401)));
    assert!(text_of(&draw(&state, PLAIN)).contains("y does it"));
    assert_eq!(press(&mut state, b"y", at(20_402)), [TopAction::Consent(consent.clone())]);
    // The next plan is as unseen as the first one was.
    state.show_plan(PaneText::of_page("three"), TopMode::Confirm(consent));
    assert_eq!(press(&mut state, b"y", at(30_000)), []);
}

#[test]
fn row_14_a_clock_that_is_set_back_asks_for_no_more_than_the_same_rest() {
    let (mut state, consent) = asked();
    state.note_plan_drawn(at(3_600_000));
    assert_eq!(press(&mut state, b"y", NOW), []);
    assert_eq!(press(&mut state, b"y", at(400)), [TopAction::Consent(consent)]);
}

#[test]
fn row_14_no_is_heard_at_once() {
    let (mut state, _) = asked();
    press(&mut state, b"n", NOW);
    assert_eq!((state.mode, state.message.as_deref()), (TopMode::List, Some("Nothing was done.")));
}
