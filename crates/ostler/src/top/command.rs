//! The commands of the list: what each key of the table and each click does to the state.

use model::rules::attention::AttentionGroup;
use model::status::Status;
use model::time::Time;

use super::drag::TopDrag;
use super::input::{TopKey, TopMouse, TopMouseDoes};
use super::keys::{KEY_TABLE, TopCommand};
use super::layout::preview_inside;
use super::list::{TopSelection, selection_of};
use super::pane::{PaneKind, events_of};
use super::state::{TopAction, TopMode, TopState};

/// How far the wheel goes.
const WHEEL_LINES: usize = 3;

/// How far a screen is panned by a key.
const PAN_COLUMNS: u16 = 8;

/// How many rows of the screen the help has.
pub(super) fn help_height(screen_rows: u16) -> usize {
    usize::from(screen_rows.saturating_sub(2))
}

/// How many lines it takes: in two columns where one is too long.
pub(super) fn help_lines(screen_rows: u16) -> usize {
    match KEY_TABLE.len() <= help_height(screen_rows) {
        true => KEY_TABLE.len(),
        false => KEY_TABLE.len().div_ceil(2),
    }
}

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
            TopCommand::Search => {
                self.mode = TopMode::Search;
                self.show_pane(PaneKind::Found);
                vec![TopAction::Search(self.query.text().to_owned())]
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
        match command {
            TopCommand::Next => return Some(self.select_needing(false, now)),
            TopCommand::Previous => return Some(self.select_needing(true, now)),
            TopCommand::PanLeft | TopCommand::PanRight => {
                self.pan_columns(command == TopCommand::PanRight);
                return Some(Vec::new());
            }
            _ => {}
        }
        let by = self.movement_of(command)?;
        if self.is_preview_whole {
            self.scroll_pane(by);
            return Some(Vec::new());
        }
        Some(self.move_selection(by, now))
    }

    /// Shows another part of a screen that is wider than the preview.
    fn pan_columns(&mut self, to_the_right: bool) {
        let (column, row) = self.pan.unwrap_or((0, 0));
        let column = match to_the_right {
            true => column.saturating_add(PAN_COLUMNS).min(4000),
            false => column.saturating_sub(PAN_COLUMNS),
        };
        self.pan = Some((column, row));
    }

    /// How far a command moves, in lines.
    fn movement_of(&self, command: TopCommand) -> Option<isize> {
        let layout = self.layout();
        let shown = layout.preview.map_or(0, |preview| preview.height).max(layout.list.height);
        let page = isize::try_from(shown.max(2)).unwrap_or(2) - 1;
        let all = (self.rows.len() + self.plan.lines.len() + self.pane_text.lines.len()) as isize;
        Some(match command {
            TopCommand::Down => 1,
            TopCommand::Up => -1,
            TopCommand::PageDown => page,
            TopCommand::PageUp => -page,
            TopCommand::First => -all - 8,
            TopCommand::Last => all + 8,
            _ => return None,
        })
    }

    /// Scrolls what is shown while keys have another meaning; says whether this key does.
    pub(super) fn scroll_by_key(&mut self, pressed: TopKey) -> bool {
        let moves = self.keys.command_of(pressed).and_then(|command| self.movement_of(command));
        if let Some(by) = moves {
            self.scroll_pane(by);
        }
        moves.is_some()
    }

    /// Reads on in a help that does not fit; says whether this key does.
    pub(super) fn scroll_help(&mut self, pressed: TopKey) -> bool {
        let most = help_lines(self.screen_rows).saturating_sub(help_height(self.screen_rows));
        let moves = self.keys.command_of(pressed).and_then(|command| self.movement_of(command));
        let by = moves.filter(|_| most > 0);
        if let Some(by) = by {
            let place = (self.help_scroll as isize).saturating_add(by);
            self.help_scroll = place.clamp(0, most as isize) as usize;
        }
        by.is_some()
    }

    fn scroll_pane(&mut self, by: isize) {
        let is_asked = matches!(self.mode, TopMode::Confirm(_));
        match self.pane {
            PaneKind::Screen if !is_asked => {
                let (column, row) = self.pan.unwrap_or((0, 0));
                let row = isize::try_from(row).unwrap_or(0).saturating_add(by).clamp(0, 4000);
                self.pan = Some((column, row as u16));
            }
            _ => {
                let text = if is_asked { &mut self.plan } else { &mut self.pane_text };
                let most = text.lines.len() as isize;
                let place = (text.scroll as isize).saturating_add(by);
                text.scroll = place.clamp(0, most) as usize;
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

    /// What the mouse did.
    pub(super) fn apply_mouse(&mut self, mouse: TopMouse, now: Time) -> Vec<TopAction> {
        let layout = self.layout();
        let place = ratatui_core::layout::Position { x: mouse.column, y: mouse.row };
        let in_list = layout.list.contains(place) && self.mode == TopMode::List;
        let wheel = WHEEL_LINES as isize;
        match mouse.does {
            TopMouseDoes::WheelUp if in_list => self.move_selection(-wheel, now),
            TopMouseDoes::WheelDown if in_list => self.move_selection(wheel, now),
            TopMouseDoes::WheelUp | TopMouseDoes::WheelDown => {
                let down = mouse.does == TopMouseDoes::WheelDown;
                self.scroll_pane(if down { wheel } else { -wheel });
                Vec::new()
            }
            TopMouseDoes::Press if in_list => {
                self.drag = None;
                let clicked = self.selection_at(usize::from(mouse.row - layout.list.y));
                match clicked {
                    Some(clicked) if self.selection.as_ref() == Some(&clicked) => {
                        self.open_selected()
                    }
                    Some(clicked) => self.select(clicked, now),
                    None => Vec::new(),
                }
            }
            TopMouseDoes::Press => {
                let inside = preview_inside(&layout).filter(|inside| inside.contains(place));
                self.drag = inside.map(|inside| TopDrag::begin(place, inside));
                Vec::new()
            }
            TopMouseDoes::Drag => {
                if let Some(drag) = &mut self.drag {
                    drag.extend(place);
                }
                Vec::new()
            }
            TopMouseDoes::Release => match self.drag.filter(|drag| !drag.is_click()) {
                Some(drag) => vec![TopAction::CopyDrawn(drag)],
                None => {
                    self.drag = None;
                    Vec::new()
                }
            },
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
