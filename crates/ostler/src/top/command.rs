//! The commands of the list: what each key of the table and each click does to the state.

use model::rules::attention::AttentionGroup;
use model::status::Status;
use model::time::Time;

use super::input::{TopMouse, TopMouseDoes};
use super::keys::TopCommand;
use super::list::{TopSelection, selection_of};
use super::pane::{PaneKind, PaneText, events_of};
use super::state::{TopAction, TopMode, TopState};

/// How far the wheel goes.
const WHEEL_LINES: usize = 3;

impl TopState {
    /// Does what a key asks for.
    pub(super) fn run_command(&mut self, command: TopCommand, now: Time) -> Vec<TopAction> {
        if let Some(actions) = self.run_movement(command, now) {
            return actions;
        }
        match command {
            TopCommand::Open => self.open_selected(),
            TopCommand::Peek => self.show_pane(PaneKind::Talk),
            TopCommand::Pane => self.show_pane(self.pane.next()),
            TopCommand::Why => self.show_pane(PaneKind::Why),
            TopCommand::Events => {
                self.pane_text = events_of(&self.events);
                self.show_pane(PaneKind::Events)
            }
            TopCommand::TypeHere => self.type_here(),
            TopCommand::Reply => self.begin_reply(),
            TopCommand::Stop | TopCommand::Pin => self.ask_about_selected(command),
            TopCommand::Finalize => vec![TopAction::PlanFinalize],
            TopCommand::CleanUp => vec![TopAction::PlanCleanUp],
            TopCommand::Undo => vec![TopAction::Undo],
            TopCommand::Filter => {
                self.mode = TopMode::Filter;
                Vec::new()
            }
            TopCommand::Group => {
                self.by_project = !self.by_project;
                self.fit_scroll();
                Vec::new()
            }
            TopCommand::Fold => self.toggle_folds(now),
            TopCommand::Ended => {
                self.shows_ended = !self.shows_ended;
                vec![TopAction::Rebuild]
            }
            TopCommand::CopyId => self.copy_id(),
            TopCommand::Mouse => {
                self.mouse = !self.mouse;
                let word = if self.mouse { "on" } else { "off" };
                self.message = Some(format!("The mouse is {word}."));
                vec![TopAction::SetMouse(self.mouse)]
            }
            TopCommand::Help => {
                self.mode = TopMode::Help;
                Vec::new()
            }
            TopCommand::Focus => {
                self.is_preview_whole = !self.is_preview_whole;
                self.fit_scroll();
                vec![TopAction::LoadPane]
            }
            TopCommand::Back => self.go_back(),
            TopCommand::Quit => vec![TopAction::Quit],
            TopCommand::Suspend => vec![TopAction::Suspend],
            TopCommand::Redraw => vec![TopAction::Redraw],
            _ => Vec::new(),
        }
    }

    /// What moves; inside a whole preview it moves that.
    fn run_movement(&mut self, command: TopCommand, now: Time) -> Option<Vec<TopAction>> {
        let page = usize::from(self.layout().list.height.max(2)) - 1;
        let by = match command {
            TopCommand::Down => 1,
            TopCommand::Up => -1,
            TopCommand::PageDown => page as isize,
            TopCommand::PageUp => -(page as isize),
            TopCommand::First => -(self.rows.len() as isize) - 8,
            TopCommand::Last => self.rows.len() as isize + 8,
            TopCommand::Next => return Some(self.select_needing(false, now)),
            TopCommand::Previous => return Some(self.select_needing(true, now)),
            _ => return None,
        };
        if self.is_preview_whole {
            self.scroll_pane(by);
            return Some(Vec::new());
        }
        Some(self.move_selection(by, now))
    }

    fn scroll_pane(&mut self, by: isize) {
        match self.pane {
            PaneKind::Screen => {
                let (column, row) = self.pan.unwrap_or((0, 0));
                let row = isize::try_from(row).unwrap_or(0).saturating_add(by).clamp(0, 4000);
                self.pan = Some((column, row as u16));
            }
            _ => {
                let most = self.pane_text.lines.len() as isize;
                let place = (self.pane_text.scroll as isize).saturating_add(by);
                self.pane_text.scroll = place.clamp(0, most) as usize;
            }
        }
    }

    fn show_pane(&mut self, pane: PaneKind) -> Vec<TopAction> {
        self.pane = pane;
        self.pane_text.scroll = 0;
        self.pan = None;
        if self.layout().preview.is_none() {
            self.is_preview_whole = true;
        }
        vec![TopAction::LoadPane]
    }

    fn open_selected(&mut self) -> Vec<TopAction> {
        match self.selection.clone() {
            Some(TopSelection::Fold(group)) => {
                let fold = usize::from(group == AttentionGroup::Unknown);
                self.folds[fold] = false;
                let first = self.rows.iter().find(|row| row.group() == group);
                self.selection = first.map(|row| TopSelection::Session(row.name.clone()));
                self.fit_scroll();
                vec![TopAction::LoadPane]
            }
            Some(TopSelection::Session(_)) => {
                let Some(row) = self.selected_row() else { return Vec::new() };
                match row.terminal.clone().filter(|_| row.status.accepts_commands()) {
                    Some(terminal) => vec![TopAction::Attach { terminal }],
                    None => self.show_pane(PaneKind::Talk),
                }
            }
            None => Vec::new(),
        }
    }

    fn type_here(&mut self) -> Vec<TopAction> {
        let Some(row) = self.selected_row() else { return Vec::new() };
        let label = row.label.clone();
        match row.terminal.clone().filter(|_| row.status.accepts_commands()) {
            Some(terminal) => {
                self.pane = PaneKind::Screen;
                if self.layout().preview.is_none() {
                    self.is_preview_whole = true;
                }
                self.mode = TopMode::Typing { terminal: terminal.clone(), label };
                vec![TopAction::StartTyping { terminal }]
            }
            None => {
                self.message = Some(format!("{label} is in no terminal of ostler's."));
                Vec::new()
            }
        }
    }

    fn begin_reply(&mut self) -> Vec<TopAction> {
        let Some(row) = self.selected_row() else { return Vec::new() };
        if row.group() == AttentionGroup::NeedsYou && !row.status.is_terminal() {
            // Enter would answer the question that is open.
            self.message = Some(match row.terminal {
                Some(_) => {
                    "It asks a question: i answers it here, Enter in its terminal.".to_owned()
                }
                None => "It asks a question: answer it where it runs.".to_owned(),
            });
            return Vec::new();
        }
        self.mode = TopMode::Reply { target: row.name.clone(), label: row.label.clone() };
        Vec::new()
    }

    fn ask_about_selected(&mut self, command: TopCommand) -> Vec<TopAction> {
        let Some(row) = self.selected_row() else { return Vec::new() };
        let target = row.name.clone();
        match command {
            TopCommand::Pin => vec![TopAction::Pin { target, remove: row.pinned }],
            _ if row.status.is_terminal() && row.status != Status::Unknown => {
                self.message = Some(format!("{} is over already.", row.label));
                Vec::new()
            }
            _ => vec![TopAction::PlanStop(target)],
        }
    }

    fn toggle_folds(&mut self, now: Time) -> Vec<TopAction> {
        let group = match &self.selection {
            Some(TopSelection::Fold(group)) => Some(*group),
            Some(TopSelection::Session(_)) => self.selected_row().map(super::row::TopRow::group),
            None => None,
        };
        match group {
            Some(AttentionGroup::Idle) => self.folds[0] = !self.folds[0],
            Some(AttentionGroup::Unknown) => self.folds[1] = !self.folds[1],
            _ => {
                let fold = !(self.folds[0] || self.folds[1]);
                self.folds = [fold, fold];
            }
        }
        if let Some(group @ (AttentionGroup::Idle | AttentionGroup::Unknown)) = group {
            let folded = self.folds[usize::from(group == AttentionGroup::Unknown)];
            let first = self.rows.iter().find(|row| row.group() == group);
            let selection = match first.filter(|_| !folded) {
                Some(row) => TopSelection::Session(row.name.clone()),
                None => TopSelection::Fold(group),
            };
            return self.select(selection, now);
        }
        self.fit_scroll();
        Vec::new()
    }

    fn copy_id(&mut self) -> Vec<TopAction> {
        let Some(row) = self.selected_row() else { return Vec::new() };
        let id = row.name.id.clone();
        self.message = Some(format!("Copied {}", super::row::harmless(&id)));
        vec![TopAction::CopyText(id)]
    }

    fn go_back(&mut self) -> Vec<TopAction> {
        if self.is_preview_whole {
            self.is_preview_whole = false;
            self.fit_scroll();
        } else if self.pane != PaneKind::Screen {
            return self.show_pane(PaneKind::Screen);
        } else if !self.filter.is_empty() {
            self.filter = super::draft::TextDraft::default();
            self.filter_error = None;
            return vec![TopAction::Rebuild];
        }
        Vec::new()
    }

    /// Shows a plan and waits for a `y`.
    pub(crate) fn show_plan(&mut self, text: PaneText, mode: TopMode) {
        self.pane = PaneKind::Plan;
        self.pane_text = text;
        if self.layout().preview.is_none() {
            self.is_preview_whole = true;
        }
        self.mode = mode;
    }

    /// What the mouse did.
    pub(super) fn apply_mouse(&mut self, mouse: TopMouse, now: Time) -> Vec<TopAction> {
        let layout = self.layout();
        let place = ratatui_core::layout::Position { x: mouse.column, y: mouse.row };
        let in_list = layout.list.contains(place);
        match mouse.does {
            TopMouseDoes::WheelUp if in_list => self.move_selection(-(WHEEL_LINES as isize), now),
            TopMouseDoes::WheelDown if in_list => self.move_selection(WHEEL_LINES as isize, now),
            TopMouseDoes::WheelUp | TopMouseDoes::WheelDown => {
                let down = mouse.does == TopMouseDoes::WheelDown;
                self.scroll_pane(if down { WHEEL_LINES as isize } else { -(WHEEL_LINES as isize) });
                Vec::new()
            }
            TopMouseDoes::Press if in_list && self.mode == TopMode::List => {
                let clicked = self.selection_at(usize::from(mouse.row - layout.list.y));
                match clicked {
                    Some(clicked) if self.selection.as_ref() == Some(&clicked) => {
                        self.open_selected()
                    }
                    Some(clicked) => self.select(clicked, now),
                    None => Vec::new(),
                }
            }
            _ => Vec::new(),
        }
    }

    /// What is at a row of the list on the screen.
    fn selection_at(&self, row: usize) -> Option<TopSelection> {
        let (shape, wanted) = (self.list_shape(), self.scroll + row);
        let mut above = 0;
        for line in self.list_lines() {
            above += shape.height_of(&line, &self.rows);
            if wanted < above {
                return selection_of(&line, &self.rows);
            }
        }
        None
    }
}
