//! A paste that met a question: Enter was not pressed, and the question may have swallowed the text.
//!
//! What was typed and not sent keeps the next prompt away. A question that is answered by a key, by a hook or by its
//! agent's server leaves nobody who would press Enter: so the screen is asked once more. The composer counts as empty
//! only if a question showed when the paste was given up and none shows now, nothing on the screen may be the text, the
//! cursor stands behind what it stood behind before, and all of that holds still. Every doubt keeps the mark.

use std::time::Instant;

use super::composer::ComposedText;
use super::typing::TypingWatch;
use crate::timeouts::SETTLED_SPAN;

/// Whether something stands in the composer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnsentSight {
    Nothing,
    Stands,
    /// It looks empty, and is looked at again then.
    Settles(Instant),
}

/// The paste, and what is known about the composer that it was meant for.
#[derive(Debug)]
pub(super) struct LeftoverPaste {
    text: ComposedText,
    /// What stood before the cursor when the composer was empty, if that was seen.
    composer: Option<String>,
    answered: bool,
    empty: Option<(Vec<String>, Instant)>,
}

impl LeftoverPaste {
    /// A paste that was given up while a question shows; `None` if none does, for then it stands in the composer.
    pub(super) fn of(
        text: ComposedText,
        composer: Option<String>,
        rows: &[String],
    ) -> Option<Self> {
        let asked = text.may_be_asked(rows);
        asked.then_some(Self { text, composer, answered: false, empty: None })
    }

    /// Whether nothing but the paste can stand in the composer after that input: one key answers the question that
    /// shows, and keys that type nothing are none of a text.
    pub(super) fn outlasts_input(&mut self, bytes: &[u8], rows: &[String]) -> bool {
        let mut typed = TypingWatch::default();
        typed.note_input(bytes);
        if typed.enters() > 0 {
            return false;
        }
        if !typed.has_unsent() {
            return true;
        }
        let answers = is_one_key(bytes) && !self.answered && self.text.may_be_asked(rows);
        self.answered = true;
        answers
    }

    /// Looks whether the composer is empty by now.
    pub(super) fn look(&mut self, rows: Vec<String>, composer: &str, now: Instant) -> UnsentSight {
        let is_moved = self.composer.as_ref().is_some_and(|before| before != composer);
        if is_moved || self.text.may_be_asked(&rows) || self.text.may_be_shown(&rows) {
            self.empty = None;
            return UnsentSight::Stands;
        }
        let since = match self.empty.take() {
            Some((shown, since)) if shown == rows => since,
            _ => now,
        };
        self.empty = Some((rows, since));
        match now >= since + SETTLED_SPAN {
            true => UnsentSight::Nothing,
            false => UnsentSight::Settles(since + SETTLED_SPAN),
        }
    }
}

/// A single byte, or one key of a keyboard that reports them by number.
fn is_one_key(bytes: &[u8]) -> bool {
    match bytes {
        [_] => true,
        [0x1b, b'[', middle @ .., b'u'] => middle.iter().all(|byte| (b'0'..=b';').contains(byte)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    const ASKS: &str = "Run `make`?\n❯ 1. Yes\n  2. No (esc)";
    const EMPTY: &str = "done\n> \n  ? for help";

    fn leftover(shown: &str) -> Option<LeftoverPaste> {
        let text = ComposedText::new("mend the parser, please", &["Run `".to_owned()]);
        LeftoverPaste::of(text, Some("> ".to_owned()), &rows(shown))
    }

    fn settled(paste: &mut LeftoverPaste, shown: &str, composer: &str) -> UnsentSight {
        let now = Instant::now();
        match paste.look(rows(shown), composer, now) {
            UnsentSight::Settles(at) => paste.look(rows(shown), composer, at),
            other => other,
        }
    }

    #[test]
    fn row_15_a_paste_that_a_question_swallowed_is_gone_once_the_composer_is_seen_empty() {
        assert!(leftover(EMPTY).is_none(), "without a question it stands there");
        let mut paste = leftover(ASKS).unwrap();
        let now = Instant::now();
        assert!(matches!(paste.look(rows(EMPTY), "> ", now), UnsentSight::Settles(_)));
        assert_eq!(settled(&mut paste, ASKS, "> "), UnsentSight::Stands, "it still asks");
        assert_eq!(settled(&mut paste, EMPTY, "> no"), UnsentSight::Stands, "something is there");
        let shown = "done\n> mend the parser, please\n  ? for help";
        assert_eq!(settled(&mut paste, shown, "> "), UnsentSight::Stands);
        assert_eq!(settled(&mut paste, EMPTY, "> "), UnsentSight::Nothing);
    }

    #[test]
    fn row_15_one_key_answers_a_question_and_whatever_else_is_typed_stands() {
        for (inputs, expected) in [
            (&[b"1".as_slice()] as &[&[u8]], true),
            (&[b"\x1b[49u"], true),
            (&[b"\x1b[B", b"\x1b[I", b"y"], true),
            (&[b"1", b"2"], false),
            (&[b"12"], false),
            (&[b"\r"], false),
            (&[b"\x1b[200~more\x1b[201~"], false),
        ] {
            let mut paste = leftover(ASKS).unwrap();
            let left = inputs.iter().all(|bytes| paste.outlasts_input(bytes, &rows(ASKS)));
            assert_eq!(left, expected, "{inputs:?}");
        }
        assert!(!leftover(ASKS).unwrap().outlasts_input(b"1", &rows(EMPTY)), "nothing asks");
    }
}
