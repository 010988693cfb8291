//! From one session that needs somebody to the next, whatever is filtered.

use model::rules::attention::AttentionGroup;
use model::session::SessionName;
use model::time::Time;

use super::draft::TextDraft;
use super::list::TopSelection;
use super::row::TopRow;
use super::state::{TopAction, TopState};

impl TopState {
    /// The next session that needs a person; `backwards` the one before.
    pub(super) fn select_needing(&mut self, backwards: bool, now: Time) -> Vec<TopAction> {
        let needs = |row: &&TopRow| row.group() == AttentionGroup::NeedsYou;
        let mut needing: Vec<&TopRow> = self.everyone().filter(needs).collect();
        if needing.is_empty() {
            self.message = Some("Nobody needs you.".to_owned());
            return Vec::new();
        }
        needing.sort_by(|one, other| one.place.cmp(&other.place));
        let here = match &self.selection {
            Some(TopSelection::Session(name)) => needing.iter().position(|one| one.name == *name),
            _ => None,
        };
        let count = needing.len();
        let next = match (here, backwards) {
            (None, false) => 0,
            (None, true) => count - 1,
            (Some(here), false) => (here + 1) % count,
            (Some(here), true) => (here + count - 1) % count,
        };
        let (name, is_listed) = (needing[next].name.clone(), needing[next].fits);
        if here == Some(next) {
            self.message = Some("It is the only one that needs you.".to_owned());
        }
        if is_listed {
            return self.select(TopSelection::Session(name), now);
        }
        self.reveal_hidden(name, now)
    }

    /// Selects one that the filter hides: that clears the filter, and says so.
    fn reveal_hidden(&mut self, name: SessionName, now: Time) -> Vec<TopAction> {
        self.filter = TextDraft::default();
        self.filter_error = None;
        let hidden = std::mem::take(&mut self.hidden);
        self.rows.extend(hidden.into_iter().map(|row| TopRow { fits: true, ..row }));
        self.rows.sort_by(|one, other| one.place.cmp(&other.place));
        self.message = Some("The filter hid it and is cleared.".to_owned());
        let mut actions = self.select(TopSelection::Session(name), now);
        // Which sessions are looked at may be others without the filter.
        actions.push(TopAction::Rebuild);
        actions
    }
}
