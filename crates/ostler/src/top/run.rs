//! The dashboard's loop: it waits for everything at once, and draws when something is another.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flows::live::{LiveFeed, LiveUpdate};
use flows::observe::{Observation, ObserveScope};
use model::filter::FilterWords;
use model::hosted::HostFault;
use model::session::SessionName;
use model::time::Time;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use sys::dropped::NoteDropped;
use sys::proc::Signal;
use sys::signals::SignalWatch;

use super::draw::{TopDrawing, next_age_change};
use super::input::{TopInput, TopInputParser};
use super::keys::TopKeyMap;
use super::palette::TopPalette;
use super::pane::{PaneKind, PaneText, events_of, evidence_of, facts_of, read_talk};
use super::preview::{PreviewState, ScreenPreview};
use super::row::{build_rows, harmless};
use super::state::{TopAction, TopConsent, TopMode, TopState};
use super::tty::{TtyOutput, restore_before_panics};
use super::work::{KeptPlan, TopPlace, TopWorkers, WorkOutcome};
use crate::error::Error;

/// How long the selection has to rest before its terminal is joined.
const PREVIEW_REST: Duration = Duration::from_millis(120);

/// How long an Escape waits for what may follow it.
const ESCAPE_REST: Duration = Duration::from_millis(30);

/// Between two frames that no key asked for.
const FRAME_INTERVAL: Duration = Duration::from_millis(33);

/// How often a terminal that does not read is tried again.
const STALL_INTERVAL: Duration = Duration::from_millis(50);

/// How the dashboard is opened.
pub(crate) struct TopOptions<'a> {
    pub(crate) palette: TopPalette,
    pub(crate) has_truecolor: bool,
    pub(crate) mouse: bool,
    pub(crate) pane: PaneKind,
    pub(crate) by_project: bool,
    pub(crate) shows_ended: bool,
    pub(crate) filter: String,
    pub(crate) keys: TopKeyMap,
    /// The session to begin with.
    pub(crate) selected: Option<SessionName>,
    /// Joins a terminal on this one, until the person leaves it.
    pub(crate) attach: &'a dyn Fn(&str) -> Result<(), Error>,
    /// Readable once the guard is gone; a byte asks it to give the terminal back.
    pub(crate) guard: Option<&'a UnixStream>,
}

/// How the loop goes on.
enum TopTurn {
    Goes,
    Ends(ExitCode),
}

struct TopRun<'a> {
    options: TopOptions<'a>,
    place: TopPlace,
    state: TopState,
    feed: LiveFeed,
    observation: Option<Arc<Observation>>,
    tty: TtyOutput,
    parser: TopInputParser,
    preview: Option<ScreenPreview>,
    preview_due: Option<Instant>,
    /// Which terminal could not be joined: it is not tried again until the selection moves.
    unjoined: Option<String>,
    workers: TopWorkers,
    kept: Option<KeptPlan>,
    /// The processes that this one runs below: a terminal among them shows this very screen.
    ancestors: HashSet<u32>,
    signals: SignalWatch,
    is_dirty: bool,
    has_key: bool,
    last_frame: Instant,
}

/// Shows the dashboard until somebody ends it.
pub(crate) fn run_dashboard(place: TopPlace, options: TopOptions<'_>) -> Result<ExitCode, Error> {
    restore_before_panics();
    let feed = LiveFeed::start(place.source.clone())?;
    let now = sys::clock::now();
    let size = sys::terminal::stdout_size();
    let (columns, rows) = size.map_or((80, 24), |size| (size.cols, size.rows));
    let mut state = TopState::new(columns, rows, now);
    state.pane = options.pane;
    state.by_project = options.by_project;
    state.shows_ended = options.shows_ended;
    state.mouse = options.mouse;
    state.keys = options.keys.clone();
    state.filter.insert(&options.filter);
    state.selection = options.selected.clone().map(super::list::TopSelection::Session);
    let signals = watch_own_signals()?;
    let workers = TopWorkers::new()?;
    let tty = TtyOutput::enter(options.mouse, options.has_truecolor)?;
    let mut run = TopRun {
        options,
        place,
        state,
        feed,
        observation: None,
        tty,
        parser: TopInputParser::default(),
        preview: None,
        preview_due: None,
        unjoined: None,
        workers,
        kept: None,
        ancestors: own_ancestors(),
        signals,
        is_dirty: true,
        has_key: false,
        last_frame: Instant::now(),
    };
    let ended = run.go_on();
    if !run.tty.give_screen_back()
        && let Some(mut guard) = run.options.guard
    {
        // It can wait for a terminal that does not read.
        guard.write_all(&[1]).note_dropped("telling the guard");
    }
    ended
}

fn own_ancestors() -> HashSet<u32> {
    let table = sys::proc::read_process_table();
    table.self_and_ancestors(std::process::id()).map(|row| row.pid).collect()
}

fn watch_own_signals() -> Result<SignalWatch, Error> {
    Ok(sys::signals::watch_signals(&[
        Signal::WindowChange,
        Signal::Terminate,
        Signal::Hangup,
        Signal::Interrupt,
        Signal::Quit,
    ])?)
}

impl TopRun<'_> {
    fn go_on(&mut self) -> Result<ExitCode, Error> {
        loop {
            self.draw_if_needed();
            if let TopTurn::Ends(code) = self.wait_once()? {
                return Ok(code);
            }
        }
    }

    /// Draws, unless nothing changed, the terminal does not read, or it was drawn a moment ago.
    fn draw_if_needed(&mut self) {
        let is_soon = self.last_frame.elapsed() < FRAME_INTERVAL && !self.has_key;
        if !self.is_dirty || is_soon || !self.tty.is_ready() {
            return;
        }
        let area = Rect::new(0, 0, self.state.columns, self.state.screen_rows);
        let mut buffer = Buffer::empty(area);
        let drawing = TopDrawing {
            state: &self.state,
            screen: self.preview.as_ref().filter(|_| self.state.pane == PaneKind::Screen),
            palette: self.options.palette,
            now: sys::clock::now(),
        };
        let cursor = drawing.draw(&mut buffer);
        self.tty.show_frame(buffer, cursor);
        (self.is_dirty, self.has_key) = (false, false);
        self.last_frame = Instant::now();
    }

    /// When something happens of its own accord.
    fn next_deadline(&mut self) -> Option<Instant> {
        let now = sys::clock::now();
        let at = |time: Time| Instant::now() + time.since(now);
        let mut due: Vec<Instant> = Vec::new();
        due.extend(self.state.order_due().map(at));
        due.extend(self.preview_due);
        due.extend(self.parser.is_holding().then(|| Instant::now() + ESCAPE_REST));
        due.extend(next_age_change(&self.state.rows, now).map(at));
        if !self.tty.is_ready() {
            due.push(Instant::now() + STALL_INTERVAL);
        } else if self.is_dirty {
            due.push(self.last_frame + FRAME_INTERVAL);
        }
        due.into_iter().min()
    }

    /// Waits until something happens, and takes it in.
    fn wait_once(&mut self) -> Result<TopTurn, Error> {
        let deadline = self.next_deadline();
        let ready = {
            let stdin = sys::input::unbuffered_stdin();
            let mut waiting: Vec<BorrowedFd<'_>> = vec![
                stdin.as_fd(),
                self.feed.descriptor(),
                self.signals.as_fd(),
                self.workers.descriptor(),
            ];
            let guard_at = self.options.guard.map(|guard| {
                waiting.push(guard.as_fd());
                waiting.len() - 1
            });
            let preview_at = self.preview.as_ref().map(|preview| {
                waiting.push(preview.descriptor());
                waiting.len() - 1
            });
            let ready = sys::terminal::wait_readable(&waiting, deadline)?;
            let is_ready = |place: Option<usize>| place.is_some_and(|place| ready[place]);
            (ready[0], ready[1], ready[3], is_ready(guard_at), is_ready(preview_at))
        };
        if let Some(signal) = sys::signals::received_interruption() {
            return Ok(TopTurn::Ends(ExitCode::from(128 + signal)));
        }
        if ready.3 {
            return Ok(TopTurn::Ends(ExitCode::FAILURE));
        }
        self.signals.clear();
        self.take_size();
        self.settle_what_is_due();
        if ready.1
            && let Some(update) = self.feed.take_update()?
        {
            self.take_update(update);
        }
        if ready.2 {
            for outcome in self.workers.take_outcomes() {
                self.take_outcome(outcome);
            }
        }
        if ready.4 {
            self.read_preview();
        }
        if ready.0 { self.read_keys() } else { Ok(TopTurn::Goes) }
    }

    fn settle_what_is_due(&mut self) {
        let now = sys::clock::now();
        let before = self.state.selection.clone();
        if self.state.settle_order(now) {
            self.is_dirty = true;
        }
        if self.state.selection != before {
            self.load_pane();
        }
        if self.preview_due.is_some_and(|due| due <= Instant::now()) {
            self.preview_due = None;
            self.join_selected();
        }
        // Ages may be others.
        if self.last_frame.elapsed() >= Duration::from_secs(30) {
            self.is_dirty = true;
        }
    }

    fn take_size(&mut self) {
        let Some(size) = sys::terminal::stdout_size() else { return };
        if (size.cols, size.rows) != (self.state.columns, self.state.screen_rows) {
            (self.state.columns, self.state.screen_rows) = (size.cols, size.rows);
            self.state.fit_scroll();
            self.is_dirty = true;
            self.has_key = true;
        }
    }

    fn take_update(&mut self, update: LiveUpdate) {
        self.observation = Some(update.observation);
        let observation = self.observation.as_ref();
        let unread = observation.map_or(0, |one| one.incomplete.len());
        self.state.notices.clear();
        if let Some(reason) = update.asks_because {
            self.state.notices.push(format!("Asks every second: {reason}"));
        }
        if unread > 0 {
            let things = crate::render::text::format_plural(unread as u64, "source");
            self.state.notices.push(format!("{things} could not be read; `ostler ls` names them"));
        }
        let talked =
            self.state.selected_row().is_some_and(|row| update.changed.contains(&row.name));
        self.rebuild_rows(false);
        if update.is_first || talked || self.state.pane != PaneKind::Talk {
            self.load_pane();
        }
    }

    /// Makes the rows anew from what was seen last; those that a key asked for are shown at once.
    fn rebuild_rows(&mut self, by_key: bool) {
        let scope = match self.state.wants_ended() {
            true => ObserveScope::All,
            false => ObserveScope::Active,
        };
        if self.place.source.scope != scope {
            self.place.source.scope = scope;
            self.feed.set_scope(scope);
        }
        let Some(observation) = &self.observation else { return };
        let now = sys::clock::now();
        // A filter that cannot be understood filters nothing.
        let words = FilterWords::parse(self.state.filter.text(), now).unwrap_or_default();
        let rows = build_rows(observation, &self.state.looked, &words, now);
        let before = self.state.selection.clone();
        match by_key {
            true => self.state.replace_rows(rows),
            false => {
                self.state.apply_rows(rows, now);
            }
        }
        self.is_dirty = true;
        if self.state.selection != before {
            self.load_pane();
        }
    }

    /// What the preview shows of the selected session.
    fn load_pane(&mut self) {
        if matches!(self.state.mode, TopMode::Confirm(_)) {
            return;
        }
        self.is_dirty = true;
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
                self.workers.begin(move || {
                    let text = read_talk(&observation, &name);
                    WorkOutcome::Talk { name, text }
                });
                return;
            }
            PaneKind::Facts => {
                self.state.pane_text = facts_of(&observation, &row.name, sys::clock::now());
            }
            PaneKind::Why => self.state.pane_text = evidence_of(&observation, &row.name),
            PaneKind::Events => self.state.pane_text = events_of(&self.state.events),
            PaneKind::Plan => {}
        }
        self.state.pane_text.scroll = scroll;
    }

    fn join_selected(&mut self) {
        let row = self.state.selected_row();
        let Some(terminal) = row.and_then(|row| row.terminal.clone()) else { return };
        if self.preview.as_ref().is_some_and(|preview| preview.terminal == terminal) {
            return;
        }
        self.join_terminal(&terminal, false);
    }

    fn join_terminal(&mut self, terminal: &str, types: bool) {
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

    fn read_preview(&mut self) {
        let Some(preview) = &mut self.preview else { return };
        if preview.read_stream() == PreviewState::Over {
            self.unjoined = Some(preview.terminal.clone());
            self.preview = None;
            if let TopMode::Typing { label, .. } = &self.state.mode {
                self.state.message = Some(format!("{label} is over."));
                self.state.mode = TopMode::List;
            }
            self.load_pane();
        }
        self.is_dirty = true;
    }

    fn read_keys(&mut self) -> Result<TopTurn, Error> {
        let mut buffer = [0; 4096];
        let count = match std::io::stdin().lock().read(&mut buffer) {
            // A terminal that is gone has nothing more to say.
            Ok(0) | Err(_) => return Ok(TopTurn::Ends(ExitCode::SUCCESS)),
            Ok(count) => count,
        };
        let mut told = self.parser.feed(&buffer[..count]);
        if self.parser.is_holding() {
            let rest = Instant::now() + ESCAPE_REST;
            let stdin = sys::input::unbuffered_stdin();
            if !sys::terminal::wait_readable(&[stdin.as_fd()], Some(rest))?[0] {
                told.extend(self.parser.flush_held());
            }
        }
        for input in told {
            if let TopTurn::Ends(code) = self.take_input(input)? {
                return Ok(TopTurn::Ends(code));
            }
        }
        Ok(TopTurn::Goes)
    }

    fn take_input(&mut self, input: TopInput) -> Result<TopTurn, Error> {
        let actions = self.state.apply_input(input, sys::clock::now());
        (self.is_dirty, self.has_key) = (true, true);
        for action in actions {
            if let TopTurn::Ends(code) = self.take_action(action)? {
                return Ok(TopTurn::Ends(code));
            }
        }
        Ok(TopTurn::Goes)
    }

    fn take_action(&mut self, action: TopAction) -> Result<TopTurn, Error> {
        let place = self.place.clone();
        match action {
            TopAction::Quit => return Ok(TopTurn::Ends(ExitCode::SUCCESS)),
            TopAction::Suspend => self.suspend()?,
            TopAction::Redraw => self.tty.forget_shown(),
            TopAction::Attach { terminal } => self.attach(&terminal)?,
            TopAction::LoadPane => self.load_pane(),
            TopAction::Rebuild => self.rebuild_rows(true),
            TopAction::SetMouse(on) => self.tty.set_mouse(on),
            TopAction::CopyText(text) => self.tty.copy_text(&text),
            TopAction::Type(inputs) => {
                if let Some(preview) = &mut self.preview {
                    inputs.iter().for_each(|input| preview.type_input(input));
                }
            }
            TopAction::StartTyping { terminal } => self.start_typing(&terminal),
            TopAction::EndTyping => {
                self.preview = None;
                self.join_selected();
            }
            TopAction::Deliver { target, text } => {
                self.workers.begin(move || place.deliver(target, text));
            }
            TopAction::PlanStop(target) => self.workers.begin(move || place.plan_stop(&target)),
            TopAction::PlanCleanUp => self.workers.begin(move || place.plan_clean_up()),
            TopAction::PlanFinalize => self.workers.begin(move || place.plan_finalize()),
            TopAction::Consent(consent) => self.carry_out(consent),
            TopAction::Undo => self.workers.begin(move || place.undo_last()),
            TopAction::Pin { target, remove } => {
                self.workers.begin(move || place.pin(target, remove));
            }
        }
        Ok(TopTurn::Goes)
    }

    /// Does what was shown, if it is what was consented to.
    fn carry_out(&mut self, consent: TopConsent) {
        let place = self.place.clone();
        self.state.message = Some("At work…".to_owned());
        self.state.pane = PaneKind::Screen;
        match (consent, self.kept.take()) {
            (TopConsent::Stop(target), Some(KeptPlan::Stop(plan))) => {
                self.workers.begin(move || place.carry_out_stop(*plan, &target));
            }
            (TopConsent::CleanUp { plan }, Some(KeptPlan::CleanUp { ask, consent }))
                if plan == consent.plan =>
            {
                self.workers.begin(move || place.carry_out_clean_up(*ask, consent));
            }
            (TopConsent::Finalize { .. }, Some(KeptPlan::Finalize { sessions })) => {
                self.workers.begin(move || place.carry_out_finalize(&sessions));
            }
            _ => self.state.message = Some("Nothing was done.".to_owned()),
        }
        self.load_pane();
    }

    fn take_outcome(&mut self, outcome: WorkOutcome) {
        self.is_dirty = true;
        match outcome {
            WorkOutcome::Talk { name, text } => {
                let is_here = self.state.selected_row().is_some_and(|row| row.name == name);
                let is_wanted = matches!(self.state.pane, PaneKind::Talk | PaneKind::Screen);
                if is_here && is_wanted {
                    let scroll = self.state.pane_text.scroll;
                    self.state.pane_text = PaneText { scroll, ..text };
                }
            }
            WorkOutcome::Plan { text, mode, plan } => {
                // Whoever writes something meanwhile goes on writing.
                if self.state.mode == TopMode::List {
                    self.kept = Some(plan);
                    self.state.show_plan(text, mode);
                } else {
                    self.state.message = Some("A plan is ready: ask for it again.".to_owned());
                }
            }
            WorkOutcome::Said(sentence) => self.state.message = Some(harmless(&sentence)),
            WorkOutcome::Delivered { target, text, receipt } => {
                self.state.message = Some(harmless(&receipt));
                if self.state.drafts.get(&target).is_some_and(|draft| draft.text() == text) {
                    self.state.drafts.remove(&target);
                }
            }
        }
    }

    fn start_typing(&mut self, terminal: &str) {
        self.join_terminal(terminal, true);
        if !self.preview.as_ref().is_some_and(ScreenPreview::has_keyboard) {
            self.state.mode = TopMode::List;
            self.state.message = Some("Somebody else types there; Enter attaches.".to_owned());
            self.join_terminal(terminal, false);
        }
    }

    /// Gives the terminal to another, and takes it back in the size that it has then.
    fn attach(&mut self, terminal: &str) -> Result<(), Error> {
        self.preview = None;
        self.tty.give_screen_back();
        let left = (self.options.attach)(terminal);
        self.state.message = left.err().map(|error| harmless(&error.to_string()));
        self.take_back()
    }

    fn suspend(&mut self) -> Result<(), Error> {
        self.tty.give_screen_back();
        sys::terminal::suspend_group()?;
        self.take_back()
    }

    fn take_back(&mut self) -> Result<(), Error> {
        self.signals = watch_own_signals()?;
        self.tty.take_screen(self.state.mouse)?;
        // What a terminal answered to somebody else is not meant for us.
        sys::terminal::drop_typed()?;
        self.parser = TopInputParser::default();
        self.take_size();
        self.load_pane();
        (self.is_dirty, self.has_key) = (true, true);
        Ok(())
    }
}
