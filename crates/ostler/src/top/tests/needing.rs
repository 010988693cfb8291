//! A filter narrows the list, and hides from nobody who needs them.

use std::time::Duration;

use model::rules::attention::AttentionGroup;
use model::status::Activity;

use super::super::row::TopRow;
use super::super::state::{TopAction, TopState};
use super::{NOW, PLAIN, draw, press, row, selected, some_rows, state_of, text_of};

/// Rows of which a filter fits those with this in their name.
fn filtered(rows: Vec<TopRow>, word: &str) -> Vec<TopRow> {
    let fits = |row: &TopRow| row.label.contains(word);
    rows.into_iter().map(|row| TopRow { fits: fits(&row), ..row }).collect()
}

fn filtered_state(word: &str) -> TopState {
    let mut state = state_of(120, 40, some_rows());
    press(&mut state, format!("/{word}\r").as_bytes(), NOW);
    state.replace_rows(filtered(some_rows(), word));
    state
}

#[test]
fn a_filter_hides_rows_and_not_how_many_need_somebody() {
    let state = filtered_state("parser");
    assert_eq!(state.rows.len(), 1);
    assert_eq!(state.count_group(AttentionGroup::NeedsYou), 2);
    let page = text_of(&draw(&state, PLAIN));
    assert!(page.lines().next().unwrap().contains("2 need you"), "{page}");
    assert!(!page.contains("gateway-auth"), "{page}");
}

#[test]
fn n_goes_to_one_that_the_filter_hides_and_clears_it_and_says_so() {
    let mut state = filtered_state("parser");
    let done = press(&mut state, b"n", NOW);
    assert_eq!(selected(&state), "docs-site");
    assert!(state.filter.is_empty() && state.hidden.is_empty());
    assert_eq!(state.message.as_deref(), Some("The filter hid it and is cleared."));
    assert!(done.contains(&TopAction::Rebuild) && done.contains(&TopAction::LoadPane), "{done:?}");
    assert!(text_of(&draw(&state, PLAIN)).contains("▌"), "it is in the list");
    // One that the filter fits is gone to with the filter as it is.
    let mut state = filtered_state("t");
    press(&mut state, b"n", NOW);
    assert_eq!(selected(&state), "gateway-auth");
    assert_eq!(state.filter.text(), "t");
}

#[test]
fn what_happens_behind_a_filter_is_an_event() {
    let mut state = filtered_state("parser");
    let mut rows = some_rows();
    rows[4] = row("load-test", Activity::Waiting, 1, "Allow Bash");
    let later = NOW.plus(Duration::from_secs(1));
    assert!(state.apply_rows(filtered(rows, "parser"), later));
    assert_eq!(state.events, [(later, "load-test needs you: Allow Bash".to_owned())]);
    assert_eq!(state.count_group(AttentionGroup::NeedsYou), 3);
}

#[test]
fn the_first_session_of_a_quiet_machine_is_an_event_and_old_ones_that_are_shown_are_none() {
    let mut state = state_of(120, 40, Vec::new());
    state.apply_rows(vec![row("new", Activity::Working, 0, "x")], NOW);
    assert_eq!(state.events, [(NOW, "new works".to_owned())]);
    let mut old = row("old", Activity::Idle, 9000, "x");
    old.place.group = AttentionGroup::Ended;
    state.apply_rows(vec![row("new", Activity::Working, 0, "x"), old], NOW);
    assert_eq!(state.events.len(), 1, "{:?}", state.events);
}
