//! What the preview shows: which terminal is joined, which text is read, and when.

use std::time::Instant;

use model::hosted::HostFault;

use super::super::pane::{PaneKind, PaneText, events_of, evidence_of, facts_of, read_talk, why_of};
use super::super::preview::{PreviewState, ScreenPreview};
use super::super::row::TopRow;
use super::super::state::TopMode;
use super::super::usage::read_usage;
use super::super::work::WorkOutcome;
use super::{PREVIEW_REST, TopRun};
use crate::timeouts::TYPING_TIMEOUT;

/// The host drops what others type while somebody has the keyboard, and says only that.
fn describe_loss(label: &str) -> String {
    format!("Somebody else types into {label} now: what you typed last may not have arrived.")
}

impl TopRun<'_> {
    /// Why the selected session is in its state.
    pub(super) fn renew_reason(&mut self) {
        let row = self.state.selected_row();
        let seen = self.observation.as_ref().zip(row);
        self.state.why = seen.and_then(|(observation, row)| why_of(observation, &row.name));
    }

    /// What the preview shows of the selected session.
    pub(super) fn load_pane(&mut self) {
        self.is_dirty = true;
        self.renew_reason();
        if self.state.pane == PaneKind::Found {
            // What was found is of no session that is selected.
            return;
        }
        if let TopMode::Typing { .. } = self.state.mode {
            // Whoever types goes on there, whatever becomes of the row in the list.
            return;
        }
        let Some(observation) = self.observation.clone() else { return };
        let scroll = self.state.pane_text.scroll;
        let row = self.state.selected_row().cloned();
        let wanted = row.as_ref().and_then(|row| row.terminal.clone());
        if self.preview.as_ref().is_some_and(|preview| Some(&preview.terminal) != wanted.as_ref()) {
            self.preview = None;
        }
        if self.unjoined.as_ref() != wanted.as_ref() {
            self.unjoined = None;
        }
        let Some(row) = row else {
            self.state.pane_text = PaneText::default();
            return;
        };
        let is_live = row.status.is_active() && self.unjoined.is_none();
        match self.state.pane {
            PaneKind::Screen if wanted.is_some() && is_live => {
                if self.preview.is_none() {
                    self.state.pane_text = PaneText::default();
                    self.preview_due = Some(Instant::now() + PREVIEW_REST);
                }
                return;
            }
            PaneKind::Screen | PaneKind::Talk => {
                let name = row.name.clone();
                self.reader.ask(&self.workers, move || {
                    let text = read_talk(&observation, &name);
                    WorkOutcome::Text { pane: PaneKind::Talk, name, text }
                });
                return;
            }
            PaneKind::Facts => {
                self.state.pane_text = facts_of(&observation, &row.name, sys::clock::now());
            }
            PaneKind::Usage => {
                let name = row.name.clone();
                self.reader.ask(&self.workers, move || {
                    let text = read_usage(&observation, &name);
                    WorkOutcome::Text { pane: PaneKind::Usage, name, text }
                });
                return;
            }
            PaneKind::Why => self.state.pane_text = evidence_of(&observation, &row.name),
            PaneKind::Events => self.state.pane_text = events_of(&self.state.events),
            PaneKind::Found => {}
        }
        self.state.pane_text.scroll = scroll;
    }

    /// Joins the terminal of the selected session, if it is a screen that is to be seen.
    pub(super) fn join_selected(&mut self) {
        let is_typing = matches!(self.state.mode, TopMode::Typing { .. });
        if self.state.pane != PaneKind::Screen || is_typing {
            return;
        }
        let row = self.state.selected_row();
        let Some(terminal) = row.and_then(|row| row.terminal.clone()) else { return };
        if self.preview.as_ref().is_some_and(|preview| preview.terminal == terminal) {
            return;
        }
        sys::pause::pause_at("top.preview");
        self.join_terminal(&terminal, false);
    }

    pub(super) fn join_terminal(&mut self, terminal: &str, types: bool) {
        let joined = self.place.terminals.open_session(terminal).and_then(|session| {
            let program = session.holder.as_ref().and_then(|holder| holder.child.as_ref());
            let pid = program.and_then(|program| program.pid);
            // A picture of itself would change with every look at it.
            match pid.is_some_and(|pid| self.ancestors.contains(&pid)) {
                true => Err(HostFault::invalid_input("This is the terminal that you look at.")),
                false => ScreenPreview::join(&session, types),
            }
        });
        match joined {
            Ok(preview) => self.preview = Some(preview),
            Err(fault) => {
                self.preview = None;
                self.unjoined = Some(terminal.to_owned());
                self.state.pane_text = PaneText::of_sentence(&fault.message);
            }
        }
        self.is_dirty = true;
    }

    pub(super) fn read_preview(&mut self) {
        let Some(preview) = &mut self.preview else { return };
        if preview.read_stream() == PreviewState::Over {
            self.unjoined = Some(preview.terminal.clone());
            self.preview = None;
            if let TopMode::Typing { label, .. } = &self.state.mode {
                self.state.cut_typing(format!("{label} is over."), sys::clock::now());
            }
            self.load_pane();
        } else if !preview.has_keyboard()
            && let TopMode::Typing { terminal, label } = self.state.mode.clone()
        {
            // What is not sent yet goes with this viewer: later it would be half of a text.
            self.state.cut_typing(describe_loss(&label), sys::clock::now());
            self.join_terminal(&terminal, false);
            // The list may have moved on while it was typed into.
            self.load_pane();
        }
        self.is_dirty = true;
    }

    pub(super) fn start_typing(&mut self, terminal: &str) {
        let is_it = |left: &ScreenPreview| left.terminal == terminal && left.has_keyboard();
        match self.leaving.iter().position(is_it) {
            // What was typed there before goes first.
            Some(place) => self.preview = Some(self.leaving.swap_remove(place)),
            None => self.join_terminal(terminal, true),
        }
        if !self.preview.as_ref().is_some_and(ScreenPreview::has_keyboard) {
            let reason = "Somebody else types there; Enter attaches.".to_owned();
            self.state.cut_typing(reason, sys::clock::now());
            self.join_terminal(terminal, false);
        }
    }

    /// Sends on what was typed into terminals before they were left, and lets go of each then.
    pub(super) fn leave_typed(&mut self) {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.retain_mut(|one| !self.has_left(one));
        self.leaving = leaving;
    }

    /// Whether a terminal has all that was typed into it, or will never have it.
    fn has_left(&mut self, leaving: &mut ScreenPreview) -> bool {
        leaving.flush_unwritten();
        let is_over = leaving.has_unwritten() && leaving.read_stream() == PreviewState::Over;
        let is_lost = leaving.has_unwritten() && !is_over && !leaving.has_keyboard();
        if is_lost {
            let is_it = |row: &&TopRow| row.terminal.as_ref() == Some(&leaving.terminal);
            let label = self.state.everyone().find(is_it).map(|row| row.label.clone());
            self.state.message = Some(describe_loss(&label.unwrap_or_default()));
            self.is_dirty = true;
        }
        is_over || is_lost || !leaving.has_unwritten()
    }

    /// The same when the dashboard ends, for as long as somebody would wait.
    pub(super) fn finish_typing(&mut self) {
        let until = Instant::now() + TYPING_TIMEOUT;
        self.leaving.extend(self.preview.take());
        self.leave_typed();
        while !self.leaving.is_empty() && Instant::now() < until {
            let typed: Vec<_> = self.leaving.iter().map(ScreenPreview::descriptor).collect();
            if sys::terminal::wait_for_any(&typed, &typed, Some(until)).is_err() {
                return;
            }
            self.leave_typed();
        }
    }
}
