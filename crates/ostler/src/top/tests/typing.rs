//! Typing into a terminal, and losing it.

use std::time::Duration;

use model::time::Time;

use super::super::state::{TopAction, TopMode};
use super::{NOW, press, selected, some_rows, state_of};

#[test]
fn row_11_what_goes_on_after_the_keyboard_was_lost_does_nothing_here() {
    let at = |ms| -> Time { NOW.plus(Duration::from_millis(ms)) };
    let mut state = state_of(120, 40, some_rows());
    press(&mut state, b"i", NOW);
    press(&mut state, b"git stas", at(100));
    state.cut_typing("Somebody else types there.".to_owned(), at(110));
    assert_eq!(state.mode, TopMode::List);
    let before = selected(&state);
    // The rest of the word and of the line; each key puts the end off. `q` alone would have ended it all.
    assert_eq!(press(&mut state, b"hjq", at(509)), []);
    assert_eq!(press(&mut state, b"\x03y\r", at(900)), []);
    assert_eq!(selected(&state), before);
    assert!(state.message.is_some(), "what is said stays");
    assert_eq!(press(&mut state, b"q", at(1300)), [TopAction::Quit]);
}

#[test]
fn shift_reaches_what_is_typed_into_and_moves_the_list_as_without_it() {
    let mut state = state_of(120, 40, some_rows());
    let before = selected(&state);
    press(&mut state, b"\x1b[1;2B", NOW);
    assert_ne!(selected(&state), before);
    press(&mut state, b"i", NOW);
    let typed = press(&mut state, b"\x1b[1;2B\x1b[1;2Q\x1b[Z", NOW);
    let names: Vec<String> = typed
        .iter()
        .map(|action| match action {
            TopAction::Type(inputs) => match &inputs[..] {
                [super::TopInput::Key(pressed)] => pressed.send_name(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["Shift+Down", "Shift+F2", "Shift+Tab"]);
}
