//! A text that is being written: letters at its end, whole graphemes and words taken away.

use unicode_segmentation::UnicodeSegmentation;

use super::input::{TopKey, TopKeyCode};

/// The longest text that can be written.
pub(crate) const MAX_DRAFT_BYTES: usize = 256 << 10;

/// A text that is being written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextDraft {
    text: String,
}

impl TextDraft {
    /// The text so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether nothing is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Adds text; what acts on a terminal is left out. Says whether there was room: half a text is never
    /// taken.
    pub(crate) fn insert(&mut self, text: &str) -> bool {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let is_kept = |letter: &char| *letter == '\n' || !letter.is_control();
        let kept: String = text.chars().filter(is_kept).collect();
        let has_room = self.text.len() + kept.len() <= MAX_DRAFT_BYTES;
        if has_room {
            self.text.push_str(&kept);
        }
        has_room
    }

    /// A key that writes or takes away.
    pub(crate) fn edit(&mut self, pressed: TopKey) {
        match (pressed.code, pressed.ctrl, pressed.alt) {
            (TopKeyCode::Char(letter), false, false) => {
                self.insert(letter.encode_utf8(&mut [0; 4]));
            }
            (TopKeyCode::Backspace, false, false) => {
                let last = self.text.grapheme_indices(true).next_back();
                self.text.truncate(last.map_or(0, |(place, _)| place));
            }
            (TopKeyCode::Char('u'), true, false) => self.text.clear(),
            (TopKeyCode::Char('w'), true, false) | (TopKeyCode::Backspace, ..) => {
                let words = self.text.trim_end();
                let kept = words.rfind(char::is_whitespace).map_or(0, |place| place + 1);
                self.text.truncate(kept);
            }
            _ => {}
        }
    }
}
