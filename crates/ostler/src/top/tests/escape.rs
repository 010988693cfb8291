//! Escape and the key behind it: two keys, however they arrive.

use model::session::SessionName;

use super::super::input::{TopInput, TopInputParser, TopKey, TopKeyCode};
use super::super::list::TopSelection;
use super::super::pane::PaneText;
use super::super::state::{TopAction, TopConsent, TopMode, TopState};
use super::{NOW, press, some_rows, state_of};

#[test]
fn escape_and_a_key_that_arrive_together_are_both_heard() {
    let mut state = state_of(120, 40, some_rows());
    press(&mut state, b"/docs\r", NOW);
    // A loaded machine reads them at once; `/` lost, `q` would end the dashboard.
    let heard = press(&mut state, b"\x1b/quiet", NOW);
    assert!(!heard.contains(&TopAction::Quit), "{heard:?}");
    assert_eq!(state.filter.text(), "quiet");
}

/// A dashboard in each mode that keys have a meaning in.
fn states_of_every_mode() -> Vec<(&'static str, TopState)> {
    let parser = SessionName::new("claude-code", "parser-rewrite");
    let opened = |keys: &[u8]| {
        let mut state = state_of(120, 40, some_rows());
        state.select(TopSelection::Session(parser.clone()), NOW);
        press(&mut state, keys, NOW);
        state
    };
    let mut asked = opened(b"");
    let consent = TopConsent::CleanUp { plan: "p1".to_owned() };
    asked.show_plan(PaneText::of_page("one\ntwo\nthree"), TopMode::Confirm(consent));
    vec![
        ("list", opened(b"")),
        ("whole preview", opened(b"\t")),
        ("a filtered list", opened(b"/parser\r")),
        ("filter", opened(b"/parser")),
        ("search", opened(b"Sneedle")),
        ("reply", opened(b"rhalf a text")),
        ("help", opened(b"?")),
        ("confirm", asked),
    ]
}

/// Everything that keys change.
fn told_of(state: &TopState, actions: &[TopAction]) -> String {
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {actions:?}",
        state.mode,
        state.selection,
        state.filter,
        state.query,
        state.drafts,
        state.is_preview_whole,
        state.pane
    )
}

#[test]
fn escape_and_the_next_key_are_the_same_two_keys_in_one_read_and_in_two() {
    for key in ["/", "j", "?", "é", "\x03", "\t", "n", " ", "y", "S", "r", "x", "\x1b", "\r"] {
        for ((mode, mut apart), (_, mut together)) in
            states_of_every_mode().into_iter().zip(states_of_every_mode())
        {
            if (mode, key) == ("reply", "\r") {
                // Alt-Enter: a new line.
                continue;
            }
            let mut first = press(&mut apart, b"\x1b", NOW);
            first.extend(press(&mut apart, key.as_bytes(), NOW));
            let both = press(&mut together, format!("\x1b{key}").as_bytes(), NOW);
            let told = told_of(&together, &both);
            assert_eq!(told, told_of(&apart, &first), "{key:?} behind Escape in {mode}");
        }
    }
}

#[test]
fn what_acts_at_once_is_not_guessed_from_a_word_key_while_somebody_writes() {
    for key in [b"\x1bq", b"\x1bu", b"\x1bp"] {
        for (mode, mut state) in states_of_every_mode() {
            if !["filter", "search", "reply"].contains(&mode) {
                continue;
            }
            let done = press(&mut state, key, NOW);
            let acts = |action: &TopAction| {
                matches!(action, TopAction::Quit | TopAction::Undo | TopAction::Pin { .. })
            };
            assert!(!done.iter().any(acts), "{mode}: {done:?}");
            assert_eq!(state.mode, TopMode::List);
            assert!(state.message.as_deref().unwrap().contains("again"), "{mode}");
        }
    }
}

#[test]
fn escape_behind_which_typing_ends_goes_to_the_program_and_the_rest_does_not() {
    let mut state = state_of(120, 40, some_rows());
    press(&mut state, b"i", NOW);
    let done = press(&mut state, b"\x1b\x1d", NOW);
    let escape = TopInput::Key(TopKey::plain(TopKeyCode::Escape));
    assert_eq!(done, [TopAction::Type(vec![escape]), TopAction::EndTyping]);
    assert_eq!(state.mode, TopMode::List);
}

/// Hands over bytes in pieces, as a busy machine reads them; `rests` lets a held Escape time out between two of them.
fn press_pieces(state: &mut TopState, pieces: &[&[u8]], rests: bool) -> Vec<TopAction> {
    let mut parser = TopInputParser::default();
    let mut inputs = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        inputs.extend(parser.feed(piece));
        if rests || index + 1 == pieces.len() {
            inputs.extend(parser.flush_held());
        }
    }
    inputs.into_iter().flat_map(|input| state.apply_input(input, NOW)).collect()
}

/// Rows 9 and 12 select one session after another by `/name` right behind an Escape. With the `/` lost, `q` of `quiet`
/// ended the dashboard.
#[test]
fn a_filter_right_behind_escape_is_a_filter_wherever_the_bytes_are_cut() {
    let parser = SessionName::new("claude-code", "parser-rewrite");
    let sequences: [(&[u8], &str); 5] = [
        (b"/flood\r", "\x1b/quiet"),
        (b"/flood", "\r\x1b/quiet"),
        (b"rgo on\r", "\x1b/agent:claude is:ended"),
        (b"rgo on", "\x1b/agent:claude is:ended"),
        (b"?", "\x1b/quiet"),
    ];
    for (before, typed) in sequences {
        let bytes = typed.as_bytes();
        for first in 0..bytes.len() {
            for (second, rests) in (first..bytes.len()).flat_map(|n| [(n, false), (n, true)]) {
                let mut state = state_of(120, 40, some_rows());
                state.select(TopSelection::Session(parser.clone()), NOW);
                press(&mut state, before, NOW);
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                let done = press_pieces(&mut state, &pieces, rests);
                let told = format!("{typed:?} cut at {first} and {second}, rests: {rests}");
                assert!(!done.contains(&TopAction::Quit), "{told}");
                assert_eq!(state.mode, TopMode::Filter, "{told}");
                assert_eq!(state.filter.text(), typed.split('/').next_back().unwrap(), "{told}");
            }
        }
    }
}
