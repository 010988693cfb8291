//! The dashboard's state, and what keys do to it. Pure: time is an argument, and what has to be done
//! elsewhere comes out as [`TopAction`]s.

use std::collections::HashMap;

use model::filter::FilterWords;
use model::rules::attention::AttentionGroup;
use model::session::SessionName;
use model::time::Time;

use super::consent::PlanSight;
use super::draft::TextDraft;
use super::drag::TopDrag;
use super::input::{MAX_PASTE_BYTES, TopInput, TopKey, TopKeyCode};
use super::keys::{TopCommand, TopKeyMap};
use super::layout::{TopLayout, layout_screen};
use super::list::{ListLine, ListShape, TopSelection, is_selected, selection_of};
use super::pane::{PaneKind, PaneText};
use super::replies::ReplyKeys;
use super::row::{LookedTimes, TopRow};

pub(crate) use crate::timeouts::ORDER_REST;

/// How many events are remembered.
const MAX_EVENTS: usize = 500;

/// What is being done beside looking at the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TopMode {
    /// Keys move and ask.
    List,
    /// Keys write the filter.
    Filter,
    /// Keys write what is searched for.
    Search,
    /// Keys write a prompt for this session, wherever the selection is.
    Reply {
        target: SessionName,
        label: String,
    },
    /// Keys go to this terminal.
    Typing {
        terminal: String,
        label: String,
    },
    /// Something is shown that `y` does, and nothing else.
    Confirm(TopConsent),
    Help,
}

/// What a `y` would consent to: exactly what was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TopConsent {
    Stop(SessionName),
    CleanUp { plan: String },
    Finalize { sessions: Vec<String> },
}

/// What has to be done elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TopAction {
    Quit,
    Suspend,
    Redraw,
    Attach {
        terminal: String,
    },
    /// What the preview shows of the selected session is to be loaded.
    LoadPane,
    /// The rows are to be built anew.
    Rebuild,
    SetMouse(bool),
    CopyText(String),
    Type(Vec<TopInput>),
    StartTyping {
        terminal: String,
    },
    EndTyping,
    Deliver {
        target: SessionName,
        text: String,
        /// Under one key it is sent once.
        key: String,
    },
    /// Transcripts are to be searched for this, and for nothing else any more; nothing if it is empty.
    Search(String),
    /// What is drawn there goes to the clipboard.
    CopyDrawn(TopDrag),
    PlanStop(SessionName),
    PlanCleanUp,
    PlanFinalize,
    Consent(TopConsent),
    Undo,
    Pin {
        target: SessionName,
        remove: bool,
    },
}

/// Everything that is drawn.
#[derive(Debug)]
pub(crate) struct TopState {
    pub(crate) columns: u16,
    pub(crate) screen_rows: u16,
    /// What the filter fits: the list.
    pub(crate) rows: Vec<TopRow>,
    /// What it does not fit. A filter hides nobody who needs somebody: counts, `n` and events know these.
    pub(crate) hidden: Vec<TopRow>,
    /// Rows that wait until typing pauses.
    pending: Option<Vec<TopRow>>,
    pub(crate) selection: Option<TopSelection>,
    pub(crate) scroll: usize,
    pub(crate) mode: TopMode,
    pub(crate) pane: PaneKind,
    pub(crate) pane_text: PaneText,
    /// Why the selected session is in its state, in one line.
    pub(crate) why: Option<String>,
    /// What waits for a `y`. It is no pane: nothing that happens meanwhile can take its place.
    pub(crate) plan: PaneText,
    pub(super) plan_sight: PlanSight,
    /// When a terminal that was typed into was lost.
    pub(super) cut_at: Option<Time>,
    /// Whether the preview has the whole screen.
    pub(crate) is_preview_whole: bool,
    pub(crate) by_project: bool,
    pub(crate) folds: [bool; 2],
    pub(crate) shows_ended: bool,
    pub(crate) filter: TextDraft,
    pub(crate) filter_error: Option<(String, std::ops::Range<usize>)>,
    pub(crate) query: TextDraft,
    pub(crate) drafts: HashMap<SessionName, TextDraft>,
    pub(crate) replies: ReplyKeys,
    pub(crate) message: Option<String>,
    /// What could not be read, and why it is asked every second, if it is.
    pub(crate) notices: Vec<String>,
    pub(crate) events: Vec<(Time, String)>,
    pub(crate) looked: LookedTimes,
    pub(crate) keys: TopKeyMap,
    pub(crate) mouse: bool,
    pub(crate) is_loading: bool,
    /// Whether something could not be read: there may be more of everything.
    pub(crate) is_incomplete: bool,
    /// What is shown while nothing runs, once it was looked for.
    pub(crate) quiet: Option<Vec<String>>,
    /// How the preview is panned, in columns and rows of its screen; none follows the cursor.
    pub(crate) pan: Option<(u16, u16)>,
    /// How many lines of the help are above what is seen of it.
    pub(crate) help_scroll: usize,
    /// What the mouse has marked in the preview.
    pub(crate) drag: Option<TopDrag>,
    pub(super) last_key: Option<Time>,
}

impl TopState {
    /// An empty dashboard that was opened now.
    pub(crate) fn new(columns: u16, screen_rows: u16, now: Time) -> Self {
        Self {
            columns,
            screen_rows,
            rows: Vec::new(),
            hidden: Vec::new(),
            pending: None,
            selection: None,
            scroll: 0,
            mode: TopMode::List,
            pane: PaneKind::Screen,
            pane_text: PaneText::default(),
            why: None,
            plan: PaneText::default(),
            plan_sight: PlanSight::Unseen,
            cut_at: None,
            is_preview_whole: false,
            by_project: false,
            folds: [true, true],
            shows_ended: false,
            filter: TextDraft::default(),
            filter_error: None,
            query: TextDraft::default(),
            drafts: HashMap::new(),
            replies: ReplyKeys::begin(now),
            message: None,
            notices: Vec::new(),
            events: Vec::new(),
            looked: LookedTimes::since(Some(now)),
            keys: TopKeyMap::default(),
            mouse: true,
            is_loading: true,
            is_incomplete: false,
            quiet: None,
            pan: None,
            help_scroll: 0,
            drag: None,
            last_key: None,
        }
    }

    /// Where everything is.
    pub(crate) fn layout(&self) -> TopLayout {
        let usual = layout_screen(self.columns, self.screen_rows, self.is_preview_whole);
        // What is written or consented to is seen on the smallest screen, too.
        match usual.preview.is_none() && self.is_preview_needed() {
            true => layout_screen(self.columns, self.screen_rows, true),
            false => usual,
        }
    }

    fn is_preview_needed(&self) -> bool {
        use TopMode::{Confirm, Reply, Search, Typing};
        matches!(self.mode, Reply { .. } | Typing { .. } | Confirm(_) | Search)
    }

    /// How the list is put together.
    pub(crate) fn list_shape(&self) -> ListShape {
        let is_wide = self.layout().is_wide;
        ListShape {
            by_project: self.by_project,
            folds_idle: self.folds[0] && self.filter.is_empty(),
            folds_unknown: self.folds[1] && self.filter.is_empty(),
            shows_ended: self.shows_ended || self.wants_ended(),
            has_headings: is_wide || self.by_project,
            is_roomy: is_wide,
        }
    }

    /// Whether ended sessions have to be looked at.
    pub(crate) fn wants_ended(&self) -> bool {
        let words = FilterWords::parse(self.filter.text(), Time::from_millis(0));
        self.shows_ended || words.is_ok_and(|words| words.wants_ended())
    }

    /// The lines of the list.
    pub(crate) fn list_lines(&self) -> Vec<ListLine> {
        self.list_shape().list_lines(&self.rows)
    }

    /// The selected session.
    pub(crate) fn selected_row(&self) -> Option<&TopRow> {
        match &self.selection {
            Some(TopSelection::Session(name)) => self.rows.iter().find(|row| row.name == *name),
            _ => None,
        }
    }

    /// How many there are in a group, whatever is filtered.
    pub(crate) fn count_group(&self, group: AttentionGroup) -> usize {
        self.everyone().filter(|row| row.group() == group).count()
    }

    /// Every session, also those that the filter hides.
    pub(super) fn everyone(&self) -> impl Iterator<Item = &TopRow> {
        self.rows.iter().chain(&self.hidden)
    }

    /// Takes new rows: at once, or when typing has paused. Says whether they are shown.
    pub(crate) fn apply_rows(&mut self, mut rows: Vec<TopRow>, now: Time) -> bool {
        rows.sort_by(|one, other| one.place.cmp(&other.place));
        self.note_events(&rows, now);
        self.is_loading = false;
        if self.is_order_resting(now) && !self.rows.is_empty() {
            self.pending = Some(rows);
            return false;
        }
        self.show_rows(rows);
        true
    }

    /// Takes rows asked for by a key: these do not wait.
    pub(crate) fn replace_rows(&mut self, mut rows: Vec<TopRow>) {
        rows.sort_by(|one, other| one.place.cmp(&other.place));
        self.is_loading = false;
        self.show_rows(rows);
    }

    /// When rows that wait may be shown.
    pub(crate) fn order_due(&self) -> Option<Time> {
        self.pending.as_ref()?;
        Some(self.last_key?.plus(ORDER_REST))
    }

    /// Shows rows that waited, if typing has paused. Says whether there were any.
    pub(crate) fn settle_order(&mut self, now: Time) -> bool {
        if self.is_order_resting(now) {
            return false;
        }
        match self.pending.take() {
            Some(rows) => {
                self.show_rows(rows);
                true
            }
            None => false,
        }
    }

    fn is_order_resting(&self, now: Time) -> bool {
        // A clock that was set back must not hold them for ever.
        self.last_key.is_some_and(|last| now >= last && now.since(last) < ORDER_REST)
    }

    /// The selection is a session, and stays where it is on the screen.
    fn show_rows(&mut self, rows: Vec<TopRow>) {
        self.pending = None;
        let before = self.selected_offset();
        (self.rows, self.hidden) = rows.into_iter().partition(|row| row.fits);
        if !self.is_selection_listed() {
            let lines = self.list_lines();
            let kept = before.map(|(index, _)| index.min(lines.len().saturating_sub(1)));
            self.selection = nearest_selection(&lines, &self.rows, kept.unwrap_or(0));
        }
        if let (Some((_, was)), Some((_, is))) = (before, self.selected_offset()) {
            self.scroll = (self.scroll + is).saturating_sub(was);
        }
        self.fit_scroll();
    }

    fn is_selection_listed(&self) -> bool {
        let Some(selection) = &self.selection else { return false };
        self.list_lines().iter().any(|line| is_selected(line, &self.rows, selection))
    }

    /// The selected line: its index, and how many rows of the screen are above it.
    fn selected_offset(&self) -> Option<(usize, usize)> {
        let selection = self.selection.as_ref()?;
        let (shape, mut above) = (self.list_shape(), 0);
        for (index, line) in self.list_lines().iter().enumerate() {
            if is_selected(line, &self.rows, selection) {
                return Some((index, above));
            }
            above += shape.height_of(line, &self.rows);
        }
        None
    }

    /// Moves the list so that the selected line can be seen.
    pub(crate) fn fit_scroll(&mut self) {
        let height = usize::from(self.layout().list.height);
        if height == 0 {
            // A list that is not on the screen stays where it is.
            return;
        }
        let (shape, lines) = (self.list_shape(), self.list_lines());
        let total: usize = lines.iter().map(|line| shape.height_of(line, &self.rows)).sum();
        self.scroll = self.scroll.min(total.saturating_sub(height));
        let Some((index, above)) = self.selected_offset() else { return };
        let own = shape.height_of(&lines[index], &self.rows);
        // The heading of the first session is worth seeing.
        let first = if index == 1 { 0 } else { above };
        if first < self.scroll {
            self.scroll = first;
        }
        if above + own > self.scroll + height {
            self.scroll = above + own - height;
        }
    }

    fn note_events(&mut self, rows: &[TopRow], now: Time) {
        if self.is_loading {
            return;
        }
        let group_of = |row: &TopRow| (row.name.clone(), row.group());
        let before: HashMap<SessionName, AttentionGroup> = match &self.pending {
            Some(pending) => pending.iter().map(group_of).collect(),
            None => self.everyone().map(group_of).collect(),
        };
        let is_news = |row: &&TopRow| match before.get(&row.name) {
            Some(was) => *was != row.group(),
            // Ended ones come all at once when they are asked for: nothing has happened to them.
            None => row.group() != AttentionGroup::Ended,
        };
        let told = rows.iter().filter(is_news);
        let told: Vec<(Time, String)> =
            told.map(|row| (now, format!("{} {}", row.label, describe_state(row)))).collect();
        self.events.extend(told);
        let extra = self.events.len().saturating_sub(MAX_EVENTS);
        self.events.drain(..extra);
    }

    /// What came in.
    pub(crate) fn apply_input(&mut self, input: TopInput, now: Time) -> Vec<TopAction> {
        let is_for_another = self.is_meant_for_a_terminal(now);
        self.last_key = Some(now);
        if is_for_another {
            return Vec::new();
        }
        if let TopMode::Typing { .. } = self.mode {
            return self.type_input(input);
        }
        match input {
            TopInput::Key(pressed) => self.apply_key(pressed, now),
            TopInput::Paste(text) => self.paste_text(&text),
            TopInput::PasteTooLong => self.refuse_paste(MAX_PASTE_BYTES),
            TopInput::Mouse(mouse) => self.apply_mouse(mouse, now),
        }
    }

    fn apply_key(&mut self, pressed: TopKey, now: Time) -> Vec<TopAction> {
        // What ends the dashboard does so everywhere but in a terminal that is typed into.
        if pressed == TopKey::ctrl('c') {
            return vec![TopAction::Quit];
        }
        if let Some(second) = pressed.behind_escape().filter(|_| !self.is_one_key(pressed)) {
            return self.apply_escape_and(second, now);
        }
        self.message = None;
        self.drag = None;
        match self.mode.clone() {
            TopMode::Filter => self.edit_filter(pressed),
            TopMode::Reply { target, .. } => self.edit_reply(pressed, target),
            TopMode::Search => self.edit_query(pressed),
            TopMode::Confirm(consent) => self.answer_consent(consent, pressed, now),
            TopMode::Help => {
                if !self.scroll_help(pressed) {
                    self.mode = TopMode::List;
                    self.help_scroll = 0;
                }
                Vec::new()
            }
            TopMode::List | TopMode::Typing { .. } => match self.keys.command_of(pressed) {
                Some(command) => self.run_command(command, now),
                None => {
                    let name = pressed.name();
                    self.message = Some(format!("{name} does nothing here; ? lists the keys."));
                    Vec::new()
                }
            },
        }
    }

    /// Whether a key with Alt is meant as one here: it writes, or somebody bound it.
    fn is_one_key(&self, pressed: TopKey) -> bool {
        match (&self.mode, pressed.code) {
            (TopMode::Reply { .. }, TopKeyCode::Enter | TopKeyCode::Backspace)
            | (TopMode::Filter | TopMode::Search, TopKeyCode::Backspace) => true,
            (TopMode::Reply { .. } | TopMode::Filter | TopMode::Search, _) => false,
            _ => self.keys.command_of(pressed).is_some(),
        }
    }

    /// On the wire Alt-x is Escape and x: two quick keys, or two that a loaded machine reads late, cannot be
    /// told from one. Where Alt-x means nothing they are the two, in every mode, so that none is lost.
    fn apply_escape_and(&mut self, second: TopKey, now: Time) -> Vec<TopAction> {
        use TopMode::{Filter, Reply, Search};
        let was_writing = matches!(self.mode, Filter | Search | Reply { .. });
        let mut actions = self.apply_key(TopKey::plain(TopKeyCode::Escape), now);
        let command = self.keys.command_of(second);
        if was_writing && !second.ctrl && command.is_some_and(TopCommand::acts_at_once) {
            // Whoever wrote may have meant a word's Alt key, and not to end or to undo anything.
            self.message = Some(format!("Press {} again if you mean it.", second.name()));
            return actions;
        }
        actions.extend(self.apply_key(second, now));
        actions
    }

    /// Selects, and remembers what was looked at before.
    pub(crate) fn select(&mut self, selection: TopSelection, now: Time) -> Vec<TopAction> {
        if self.selection.as_ref() == Some(&selection) {
            return Vec::new();
        }
        let mut actions = vec![TopAction::LoadPane];
        if let Some(TopSelection::Session(name)) = &self.selection {
            let is_done = self
                .rows
                .iter()
                .any(|row| row.name == *name && row.group() == AttentionGroup::Done);
            self.looked.note_look(name, now);
            if is_done {
                actions.push(TopAction::Rebuild);
            }
        }
        self.selection = Some(selection);
        self.pan = None;
        self.pane_text.scroll = 0;
        self.fit_scroll();
        actions
    }

    /// Moves the selection by lines that can be selected.
    pub(super) fn move_selection(&mut self, by: isize, now: Time) -> Vec<TopAction> {
        let lines = self.list_lines();
        let places: Vec<TopSelection> =
            lines.iter().filter_map(|line| selection_of(line, &self.rows)).collect();
        if places.is_empty() {
            return Vec::new();
        }
        let here = self.selection.as_ref().and_then(|one| places.iter().position(|p| p == one));
        let last = places.len() as isize - 1;
        let next = here.map_or(0, |here| (here as isize).saturating_add(by).clamp(0, last));
        self.select(places[next as usize].clone(), now)
    }
}

/// The line that can be selected nearest to a place.
fn nearest_selection(lines: &[ListLine], rows: &[TopRow], place: usize) -> Option<TopSelection> {
    let after = lines.iter().skip(place).find_map(|line| selection_of(line, rows));
    after.or_else(|| lines.iter().take(place).rev().find_map(|line| selection_of(line, rows)))
}

/// What a session does, in the words of a sentence.
pub(crate) fn describe_state(row: &TopRow) -> String {
    let more = |text: &str| if text.is_empty() { String::new() } else { format!(": {text}") };
    match row.group() {
        AttentionGroup::NeedsYou if row.status.is_terminal() => {
            format!("failed{}", more(&row.doing))
        }
        AttentionGroup::NeedsYou => format!("needs you{}", more(&row.doing)),
        AttentionGroup::Unknown => format!("is unknown{}", more(&row.doubt)),
        AttentionGroup::Working if row.kind == model::session::SessionKind::Hosted => {
            "runs".to_owned()
        }
        AttentionGroup::Working => "works".to_owned(),
        AttentionGroup::Done => "is done".to_owned(),
        AttentionGroup::Idle => "is idle".to_owned(),
        AttentionGroup::Ended => "ended".to_owned(),
    }
}
