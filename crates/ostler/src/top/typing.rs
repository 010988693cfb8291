//! Typing into a terminal: what goes to its program, and what becomes of keys when the terminal is lost.

use model::time::Time;

use super::input::{MAX_PASTE_BYTES, TopInput, TopKey, TopKeyCode};
use super::state::{ORDER_REST, TopAction, TopMode, TopState};

impl TopState {
    pub(super) fn type_input(&mut self, input: TopInput) -> Vec<TopAction> {
        let end = TopKey::ctrl(']');
        if input == TopInput::Key(end) {
            self.mode = TopMode::List;
            return vec![TopAction::EndTyping];
        }
        if input == TopInput::Key(TopKey { alt: true, ..end }) {
            // Escape for the program, and the key behind it for us.
            self.mode = TopMode::List;
            let escape = TopInput::Key(TopKey::plain(TopKeyCode::Escape));
            return vec![TopAction::Type(vec![escape]), TopAction::EndTyping];
        }
        match input {
            TopInput::Mouse(_) => Vec::new(),
            TopInput::PasteTooLong => self.refuse_paste(MAX_PASTE_BYTES),
            other => vec![TopAction::Type(vec![other])],
        }
    }

    /// The terminal was lost while it was typed into. Whoever types has not seen that yet.
    pub(crate) fn cut_typing(&mut self, reason: String, now: Time) {
        self.mode = TopMode::List;
        self.message = Some(reason);
        self.cut_at = Some(now);
    }

    /// Whether a key goes on with what was typed into a terminal that was lost: it must end nothing here.
    pub(super) fn is_meant_for_a_terminal(&mut self, now: Time) -> bool {
        let Some(cut) = self.cut_at else { return false };
        let last = self.last_key.map_or(cut, |last| last.max(cut));
        // A clock that was set back must not keep keys away for ever.
        let goes_on = now >= last && now.since(last) < ORDER_REST;
        if !goes_on {
            self.cut_at = None;
        }
        goes_on
    }
}
