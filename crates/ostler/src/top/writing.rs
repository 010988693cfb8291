//! Writing in the dashboard: a filter, a search, a reply. What is pasted is taken whole or not at all.

use model::filter::FilterWords;
use model::session::SessionName;
use model::time::Time;

use super::draft::{MAX_DRAFT_BYTES, TextDraft};
use super::input::{TopKey, TopKeyCode};
use super::pane::PaneKind;
use super::state::{TopAction, TopMode, TopState};

impl TopState {
    pub(super) fn edit_filter(&mut self, pressed: TopKey) -> Vec<TopAction> {
        match pressed.code {
            TopKeyCode::Enter => self.mode = TopMode::List,
            TopKeyCode::Escape => {
                self.mode = TopMode::List;
                self.filter = TextDraft::default();
            }
            _ => self.filter.edit(pressed),
        }
        self.apply_filter()
    }

    fn apply_filter(&mut self) -> Vec<TopAction> {
        self.filter_error = FilterWords::parse(self.filter.text(), Time::from_millis(0))
            .err()
            .map(|error| (error.reason().to_owned(), error.place()));
        vec![TopAction::Rebuild]
    }

    pub(super) fn edit_query(&mut self, pressed: TopKey) -> Vec<TopAction> {
        match pressed.code {
            TopKeyCode::Enter => {
                self.mode = TopMode::List;
                self.is_preview_whole = !self.query.is_empty();
                return Vec::new();
            }
            TopKeyCode::Escape => {
                self.mode = TopMode::List;
                self.query = TextDraft::default();
                self.pane = PaneKind::Screen;
                return vec![TopAction::Search(String::new()), TopAction::LoadPane];
            }
            TopKeyCode::Up | TopKeyCode::Down | TopKeyCode::PageUp | TopKeyCode::PageDown => {
                self.scroll_by_key(pressed);
                return Vec::new();
            }
            _ => self.query.edit(pressed),
        }
        vec![TopAction::Search(self.query.text().to_owned())]
    }

    pub(super) fn edit_reply(&mut self, pressed: TopKey, target: SessionName) -> Vec<TopAction> {
        let draft = self.drafts.entry(target.clone()).or_default();
        match (pressed.code, pressed.alt) {
            (TopKeyCode::Enter, true) => {
                draft.insert("\n");
            }
            (TopKeyCode::Enter, false) if draft.text().trim().is_empty() => {}
            (TopKeyCode::Enter, false) => {
                let text = draft.text().to_owned();
                self.mode = TopMode::List;
                return self.send_reply(target, text);
            }
            (TopKeyCode::Escape, _) => {
                if draft.is_empty() {
                    self.drafts.remove(&target);
                }
                self.mode = TopMode::List;
            }
            _ => draft.edit(pressed),
        }
        Vec::new()
    }

    fn send_reply(&mut self, target: SessionName, text: String) -> Vec<TopAction> {
        match self.replies.key_for(&target, &text) {
            Some(key) => {
                self.message = Some("Sending…".to_owned());
                vec![TopAction::Deliver { target, text, key }]
            }
            None => {
                self.message = Some("It is on its way already.".to_owned());
                Vec::new()
            }
        }
    }

    pub(super) fn paste_text(&mut self, text: &str) -> Vec<TopAction> {
        let one_line = text.replace(['\n', '\r'], " ");
        let (has_room, actions) = match &self.mode {
            TopMode::Filter => (self.filter.insert(&one_line), self.apply_filter()),
            TopMode::Search => {
                let has_room = self.query.insert(&one_line);
                (has_room, vec![TopAction::Search(self.query.text().to_owned())])
            }
            TopMode::Reply { target, .. } => {
                (self.drafts.entry(target.clone()).or_default().insert(text), Vec::new())
            }
            _ => {
                self.message = Some("A paste does nothing here; r writes a reply.".to_owned());
                return Vec::new();
            }
        };
        if has_room { actions } else { self.refuse_paste(MAX_DRAFT_BYTES) }
    }

    pub(super) fn refuse_paste(&mut self, most: usize) -> Vec<TopAction> {
        let most = crate::render::text::format_bytes(most as u64);
        self.message = Some(format!("Longer than {most}: nothing of it was pasted."));
        Vec::new()
    }
}
