//! The dashboard's loop: it waits for everything at once, and draws when something is another.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use flows::live::{LiveFeed, LiveUpdate};
use flows::observe::{Observation, ObserveScope};
use model::filter::FilterWords;
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
use super::pane::{PaneKind, PaneText};
use super::preview::ScreenPreview;
use super::reader::PaneReader;
use super::replies::ReplyOutcome;
use super::row::{build_rows, harmless};
use super::search::TopSearch;
use super::state::{TopAction, TopConsent, TopMode, TopState};
use super::tty::{TtyOutput, restore_before_panics};
use super::work::{KeptPlan, TopPlace, TopWorkers, WorkOutcome};
use crate::error::Error;
use crate::timeouts::{AGE_INTERVAL, ESCAPE_REST, FRAME_INTERVAL, PREVIEW_REST};

mod panes;

/// How much is read of the keyboard at once. From 8 KiB on the standard library keeps no part of it back, where
/// nothing would tell of it.
pub(super) const KEYS_CHUNK_BYTES: usize = 16 << 10;

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
    /// Terminals that were typed into, each until it has all of it.
    leaving: Vec<ScreenPreview>,
    /// Which terminal could not be joined: it is not tried again until the selection moves.
    unjoined: Option<String>,
    workers: TopWorkers,
    kept: Option<KeptPlan>,
    /// The receipt of the last clean-up from here, until it is undone.
    cleaned: Option<String>,
    reader: PaneReader,
    search: TopSearch,
    /// The processes that this one runs below: a terminal among them shows this very screen.
    ancestors: HashSet<u32>,
    signals: SignalWatch,
    /// Whether the last frame has the plan that waits for a `y`.
    drew_plan: bool,
    is_dirty: bool,
    has_key: bool,
    last_frame: Instant,
}

/// Shows the dashboard until it is ended.
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
        leaving: Vec::new(),
        unjoined: None,
        workers,
        kept: None,
        cleaned: None,
        reader: PaneReader::default(),
        search: TopSearch::default(),
        ancestors: own_ancestors(),
        signals,
        drew_plan: false,
        is_dirty: true,
        has_key: false,
        last_frame: Instant::now(),
    };
    let ended = run.go_on();
    run.finish_typing();
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
            self.note_drawn_plan();
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
        self.drew_plan = matches!(self.state.mode, TopMode::Confirm(_));
        (self.is_dirty, self.has_key) = (false, false);
        self.last_frame = Instant::now();
    }

    /// Only what is through to the terminal can have been read.
    fn note_drawn_plan(&mut self) {
        if self.drew_plan && self.tty.is_ready() {
            self.drew_plan = false;
            self.state.note_plan_drawn(sys::clock::now());
        }
    }

    /// When something happens of its own accord.
    fn next_deadline(&mut self) -> Option<Instant> {
        let now = sys::clock::now();
        let at = |time: Time| Instant::now() + time.since(now);
        let mut due: Vec<Instant> = Vec::new();
        due.extend(self.state.order_due().map(at));
        due.extend(self.state.consent_due().map(at));
        due.extend(self.preview_due);
        due.extend(self.search.due());
        due.extend(self.parser.is_holding().then(|| Instant::now() + ESCAPE_REST));
        let ages = next_age_change(&self.state.rows, now).map(at);
        due.extend(ages.map(|due| due.max(self.last_frame + AGE_INTERVAL)));
        // A terminal that does not read says when it does again.
        if self.is_dirty && self.tty.is_ready() {
            due.push(self.last_frame + FRAME_INTERVAL);
        }
        due.into_iter().min()
    }

    /// Waits until something happens, and takes it in.
    fn wait_once(&mut self) -> Result<TopTurn, Error> {
        sys::pause::break_at("top.turn")?;
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
            waiting.extend(self.leaving.iter().map(ScreenPreview::descriptor));
            let typed_into = self.preview.iter().chain(&self.leaving);
            let unwritten = typed_into.filter(|preview| preview.has_unwritten());
            let mut stalled: Vec<BorrowedFd<'_>> =
                unwritten.map(ScreenPreview::descriptor).collect();
            stalled.extend(self.tty.stalled_descriptor());
            let ready = sys::terminal::wait_for_any(&waiting, &stalled, deadline)?;
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
        if let Some(preview) = &mut self.preview {
            preview.flush_unwritten();
        }
        self.leave_typed();
        if ready.4 {
            self.read_preview();
        }
        if ready.0 { self.read_keys() } else { Ok(TopTurn::Goes) }
    }

    fn settle_what_is_due(&mut self) {
        let now = sys::clock::now();
        let before = self.state.selection.clone();
        if self.state.settle_consent(now) {
            self.is_dirty = true;
        }
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
        if let Some(query) = self.search.take_due() {
            let (place, ticket) = (self.place.clone(), self.search.ticket());
            self.workers.begin_telling(move |tell| place.search(&query, &ticket, tell));
        }
        // Ages may be others.
        if self.last_frame.elapsed() >= AGE_INTERVAL {
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
        if let Some(reason) = update.untold {
            self.state.notices.push(format!("Looks every minute: {reason}"));
        }
        if unread > 0 {
            let things = crate::render::text::format_plural(unread as u64, "source");
            self.state.notices.push(format!("{things} could not be read; `ostler ls` names them"));
        }
        self.state.is_incomplete = unread > 0;
        let talked =
            self.state.selected_row().is_some_and(|row| update.changed.contains(&row.name));
        self.rebuild_rows(false);
        let is_cheap =
            matches!(self.state.pane, PaneKind::Facts | PaneKind::Why | PaneKind::Events);
        if update.is_first || talked || is_cheap {
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
        self.look_for_ended();
        self.renew_reason();
        if self.state.selection != before {
            self.load_pane();
        }
    }

    /// Looks for what ended last, once whenever nothing runs any more.
    fn look_for_ended(&mut self) {
        let is_quiet = self.state.filter.is_empty() && self.state.list_lines().is_empty();
        if !is_quiet {
            self.state.quiet = None;
        } else if self.state.quiet.is_none() {
            self.state.quiet = Some(Vec::new());
            let place = self.place.clone();
            self.workers.begin(move || place.describe_quiet());
        }
    }

    fn read_keys(&mut self) -> Result<TopTurn, Error> {
        let mut buffer = [0; KEYS_CHUNK_BYTES];
        let count = match std::io::stdin().lock().read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                return Ok(TopTurn::Goes);
            }
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
                self.leaving.extend(self.preview.take().filter(ScreenPreview::has_unwritten));
                // The list may have moved on meanwhile.
                self.load_pane();
                self.join_selected();
            }
            TopAction::Deliver { target, text, key } => {
                self.begin_delivery(target, text, key);
            }
            TopAction::Search(query) => {
                self.search.ask(query);
                self.state.pane_text = PaneText::default();
            }
            TopAction::CopyDrawn(drag) => {
                let text = drag.text_in(self.tty.shown());
                self.tty.copy_text(&text);
                let lines = crate::render::text::format_plural(text.lines().count() as u64, "line");
                self.state.message = Some(format!("Copied {lines}."));
            }
            TopAction::PlanStop(target) => self.workers.begin(move || place.plan_stop(&target)),
            TopAction::PlanCleanUp => self.workers.begin(move || place.plan_clean_up()),
            TopAction::PlanFinalize => self.workers.begin(move || place.plan_finalize()),
            TopAction::Consent(consent) => self.carry_out(consent),
            TopAction::Undo => self.undo_own(),
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

    /// Sends a reply; one whose thread broke off may have arrived.
    fn begin_delivery(&mut self, target: SessionName, text: String, key: String) {
        let (place, broken) = (self.place.clone(), (target.clone(), text.clone()));
        let work = move || place.deliver(target, text, key);
        self.workers.begin_or(work, move |receipt| {
            let (target, text) = broken;
            WorkOutcome::Delivered { target, text, receipt, outcome: ReplyOutcome::InDoubt }
        });
    }

    /// Undoes what was cleaned up from here, and nothing of anybody else's.
    fn undo_own(&mut self) {
        let place = self.place.clone();
        match self.cleaned.clone() {
            Some(receipt) => {
                self.state.message = Some(format!("Undoing {receipt}…"));
                self.workers.begin(move || place.undo(receipt));
            }
            None => {
                let sentence = "Nothing was cleaned up from here; `ostler trash ls` tells what else can be undone.";
                self.state.message = Some(sentence.to_owned());
            }
        }
    }

    fn take_outcome(&mut self, outcome: WorkOutcome) {
        self.is_dirty = true;
        match outcome {
            WorkOutcome::Text { pane, name, text } => {
                let is_here = self.state.selected_row().is_some_and(|row| row.name == name);
                // Without a terminal to show, the preview is what was said.
                let shown = match self.state.pane {
                    PaneKind::Screen => PaneKind::Talk,
                    other => other,
                };
                if is_here && shown == pane {
                    let scroll = self.state.pane_text.scroll;
                    self.state.pane_text = PaneText { scroll, ..text };
                }
            }
            WorkOutcome::Found { number, text } => {
                if self.search.is_current(number) && self.state.pane == PaneKind::Found {
                    let scroll = self.state.pane_text.scroll;
                    self.state.pane_text = PaneText { scroll, ..text };
                }
            }
            WorkOutcome::Plan { text, mode, plan } => {
                // A text that is being typed meanwhile is kept.
                if self.state.mode == TopMode::List {
                    self.kept = Some(plan);
                    self.state.show_plan(text, mode);
                    self.drew_plan = false;
                    sys::pause::pause_at("top.planned");
                } else {
                    self.state.message = Some("A plan is ready: ask for it again.".to_owned());
                }
            }
            WorkOutcome::Said(sentence) => self.tell(&sentence),
            WorkOutcome::Quiet(lines) => {
                self.state.quiet = self.state.quiet.is_some().then_some(lines);
            }
            WorkOutcome::CleanedUp { receipt, sentence } => {
                self.cleaned = receipt;
                self.tell(&sentence);
            }
            WorkOutcome::Delivered { target, text, receipt, outcome } => {
                self.tell(&receipt);
                self.state.replies.settle(&target, &text, outcome);
                let is_same =
                    self.state.drafts.get(&target).is_some_and(|draft| draft.text() == text);
                if is_same && outcome == ReplyOutcome::Arrived {
                    self.state.drafts.remove(&target);
                }
            }
        }
    }

    /// Says what came of something: now, and among the events for whoever pressed the next key already.
    fn tell(&mut self, sentence: &str) {
        let sentence = harmless(sentence);
        self.state.events.push((sys::clock::now(), sentence.clone()));
        self.state.message = Some(sentence);
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
        // What a terminal answered to another program is not meant for us.
        sys::terminal::drop_typed()?;
        self.parser = TopInputParser::default();
        self.take_size();
        self.load_pane();
        (self.is_dirty, self.has_key) = (true, true);
        Ok(())
    }
}
