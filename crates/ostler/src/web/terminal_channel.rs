//! One terminal on a tab's socket: what the page has seen, and what it has not.
//!
//! At most one frame is unseen. Meanwhile changes merge, and the newest state is sent next: a flood of
//! output cannot outrun a phone, and nothing piles up for a page that does not read.

use std::sync::Arc;

use flows::terminal::screen::runs::{RunPainter, TextRun};
use flows::terminal::screen::{MouseTracking, Personality, ScreenSize, Theme, keys};
use flows::terminal::stream::Keyboard;
use model::hosted::HostFault;
use model::hosted::wire::Dimensions;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::socket::Typed;
use super::terminals::{TerminalFeed, TerminalHub, TerminalWriter};
use crate::api::ApiFailure;

/// The longest input of one message.
const MAX_INPUT_BYTES: usize = 64 << 10;
/// With more styles than this, the page is given a new table.
const MOST_STYLES: usize = 4096;

/// Who has the keyboard, as a page is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum WriterWord {
    You,
    Other,
    None,
}

/// A screen state, or what changed in it.
#[derive(Serialize)]
struct ScreenFrame<'a> {
    ch: u32,
    #[serde(rename = "gen")]
    generation: u64,
    /// Whether everything before is void: rows, styles, size.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    whole: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<(u16, u16)>,
    /// Styles that are used for the first time, as CSS; their numbers go on.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    styles: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rows: Vec<(usize, &'a [TextRun])>,
    /// Row and column; an empty list while it is hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<Vec<u16>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    writer: Option<WriterWord>,
    /// Its name, with each word about it: only tabs of this server have one.
    #[serde(rename = "writerName", skip_serializing_if = "Option::is_none")]
    writer_name: Option<&'a str>,
    /// Which mouse events the program asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    mouse: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<&'a str>,
}

/// What a page was told last.
#[derive(Default)]
struct ToldScreen {
    size: Option<ScreenSize>,
    rows: Vec<Vec<TextRun>>,
    cursor: Option<Vec<u16>>,
    title: Option<String>,
    writer: Option<(WriterWord, Option<String>)>,
    mouse: Option<&'static str>,
    over: bool,
}

/// A subscription of a tab to a terminal.
pub(super) struct TerminalChannel {
    ch: u32,
    id: String,
    feed: Arc<TerminalFeed>,
    painter: RunPainter,
    told: ToldScreen,
    generation: u64,
    seen: u64,
    /// The number of the last input: one that comes again is dropped.
    last_input: Option<u64>,
    writer: Option<TerminalWriter>,
    /// Whether something was typed since the keyboard was taken.
    has_typed: bool,
    forward: JoinHandle<()>,
}

impl TerminalChannel {
    pub(super) async fn open(
        hub: Arc<TerminalHub>,
        id: String,
        ch: u32,
        wake: mpsc::Sender<u32>,
    ) -> Result<Self, ApiFailure> {
        let wanted = id.clone();
        let feed = tokio::task::spawn_blocking(move || hub.watch_terminal(&wanted)).await;
        let feed = feed.map_err(|_| no_host())?.map_err(|fault| host_failure(&fault))?;
        Ok(Self::of_feed(feed, id, ch, wake))
    }

    /// Watches a feed; `wake` is told of each change.
    pub(super) fn of_feed(
        feed: Arc<TerminalFeed>,
        id: String,
        ch: u32,
        wake: mpsc::Sender<u32>,
    ) -> Self {
        let mut changes = feed.changes();
        let forward = tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                if wake.send(ch).await.is_err() {
                    return;
                }
            }
        });
        Self {
            ch,
            id,
            feed,
            painter: RunPainter::new(Theme::DARK),
            told: ToldScreen::default(),
            generation: 0,
            seen: 0,
            last_input: None,
            writer: None,
            has_typed: false,
            forward,
        }
    }

    /// The page has shown a frame.
    pub(super) fn note_seen(&mut self, generation: u64) {
        self.seen = self.seen.max(generation.min(self.generation));
    }

    /// What the page must be told, as JSON; nothing while it has not seen the last frame, or nothing
    /// has changed.
    pub(super) fn next_frame(&mut self) -> Option<String> {
        if self.seen < self.generation {
            return None;
        }
        let feed = Arc::clone(&self.feed);
        let shown = feed.lock();
        let screen = &shown.screen;
        let size = screen.size();
        let mut whole = self.told.size != Some(size);
        if self.painter.style_count() > MOST_STYLES {
            self.painter = RunPainter::new(Theme::DARK);
            whole = true;
        }
        let mut styles = Vec::new();
        if whole {
            self.painter = RunPainter::new(Theme::DARK);
            self.told.rows.clear();
        }
        let rows = self.painter.paint_rows(screen, &mut styles);
        let changed: Vec<(usize, &[TextRun])> = rows
            .iter()
            .enumerate()
            .filter(|(row, runs)| match self.told.rows.get(*row) {
                Some(told) => told != *runs,
                None => whole && !runs.is_empty(),
            })
            .map(|(row, runs)| (row, runs.as_slice()))
            .collect();
        let place = screen.cursor();
        let cursor = if place.visible { vec![place.row, place.col] } else { Vec::new() };
        let writer = match &self.writer {
            Some(writer) if writer.has_keyboard() => WriterWord::You,
            _ if shown.keyboard == Keyboard::Free => WriterWord::None,
            _ => WriterWord::Other,
        };
        let name = self.feed.page_writer().filter(|_| writer == WriterWord::Other);
        let writer = (writer, name);
        let is_new_writer = self.told.writer.as_ref() != Some(&writer);
        let title = screen.title();
        let mouse = mouse_word(screen.modes().mouse);
        let over = shown.over.as_deref().filter(|_| !self.told.over);
        let frame = ScreenFrame {
            ch: self.ch,
            generation: self.generation + 1,
            whole,
            size: whole.then_some((size.cols, size.rows)),
            styles: &styles,
            rows: changed,
            cursor: Some(cursor.clone()).filter(|cursor| self.told.cursor.as_ref() != Some(cursor)),
            title: Some(title).filter(|title| self.told.title.as_deref() != Some(title)),
            writer: is_new_writer.then_some(writer.0),
            writer_name: writer.1.as_deref().filter(|_| is_new_writer),
            mouse: Some(mouse).filter(|mouse| self.told.mouse != Some(*mouse)),
            over,
        };
        let says_something = whole
            || !frame.rows.is_empty()
            || frame.cursor.is_some()
            || frame.title.is_some()
            || frame.writer.is_some()
            || frame.mouse.is_some()
            || over.is_some();
        if !says_something {
            return None;
        }
        let text = serde_json::to_string(&frame).ok()?;
        self.told = ToldScreen {
            size: Some(size),
            cursor: Some(cursor),
            title: Some(title.to_owned()),
            writer: Some(writer),
            mouse: Some(mouse),
            over: shown.over.is_some(),
            rows,
        };
        self.generation += 1;
        Some(text)
    }

    /// Which terminal it is.
    pub(super) fn terminal_id(&self) -> &str {
        &self.id
    }

    /// Types, if this tab has the keyboard; whether it is the first time since it was taken. The same
    /// number twice is the same input.
    pub(super) async fn type_in(&mut self, n: u64, typed: Typed) -> Result<bool, ApiFailure> {
        if self.last_input.is_some_and(|last| n <= last) {
            return Ok(false);
        }
        let bytes = self.encode_input(&typed)?;
        let Some(writer) = self.writer.as_mut().filter(|writer| writer.has_keyboard()) else {
            return Err(ApiFailure::new(
                "REFUSED",
                "this tab does not have the keyboard",
                "take the keyboard first",
            ));
        };
        // From here on it may have been typed, and is not typed again.
        self.last_input = Some(n);
        writer.type_bytes(&bytes).await.map_err(|error| {
            ApiFailure::new("MAY_HAVE_APPLIED", error.to_string(), "look at the screen")
        })?;
        Ok(!std::mem::replace(&mut self.has_typed, true))
    }

    fn encode_input(&self, typed: &Typed) -> Result<Vec<u8>, ApiFailure> {
        let modes = self.feed.lock().screen.modes();
        let bytes = match typed {
            Typed::Text(text) => text.as_bytes().to_vec(),
            Typed::Paste(text) => keys::encode_paste(text, modes.bracketed_paste),
            Typed::Keys(names) => {
                let mut bytes = Vec::new();
                for name in names {
                    let key = keys::encode_key(name, &modes, Personality::Ostler);
                    bytes.extend(key.map_err(|error| {
                        ApiFailure::new(
                            "INVALID_KEYS",
                            error.to_string(),
                            "`ostler send-keys --help`",
                        )
                    })?);
                }
                bytes
            }
        };
        let most = if matches!(typed, Typed::Keys(_)) { MAX_INPUT_BYTES } else { 1 << 20 };
        if bytes.len() > most {
            return Err(ApiFailure::new("TOO_LARGE", "too much at once", "send it in parts"));
        }
        Ok(bytes)
    }

    /// Takes the keyboard, from its holder.
    pub(super) async fn take_keyboard(
        &mut self,
        hub: Arc<TerminalHub>,
        tab: String,
        by: String,
    ) -> Result<(), ApiFailure> {
        self.release_keyboard().await;
        let id = self.id.clone();
        let taken = tokio::task::spawn_blocking(move || hub.take_keyboard(&id, by)).await;
        let (stream, early) =
            taken.map_err(|_| no_host())?.map_err(|fault| host_failure(&fault))?;
        let writer = TerminalWriter::join(stream, early, tab, &self.feed);
        self.writer = Some(writer.map_err(|_| no_host())?);
        self.has_typed = false;
        Ok(())
    }

    /// Gives the terminal the size of the page's window, until the keyboard is released.
    pub(super) async fn fit(&mut self, cols: u16, rows: u16) -> Result<(), ApiFailure> {
        let now = self.feed.lock().screen.size();
        let now = Dimensions { cols: now.cols, rows: now.rows };
        let Some(writer) = self.writer.as_mut().filter(|writer| writer.has_keyboard()) else {
            let hint = "take the keyboard first";
            return Err(ApiFailure::new("REFUSED", "a watcher never resizes", hint));
        };
        let fitted = writer.fit(now, Dimensions { cols, rows }).await;
        fitted.map_err(|_| no_host())
    }

    pub(super) async fn release_keyboard(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.release().await;
        }
    }

    /// Ends the subscription.
    pub(super) async fn leave(mut self) {
        self.forward.abort();
        self.release_keyboard().await;
    }
}

/// What the page is told of the mouse: nothing, presses, releases too, dragging too, every move.
const fn mouse_word(tracking: MouseTracking) -> &'static str {
    match tracking {
        MouseTracking::Off => "off",
        MouseTracking::Press => "press",
        MouseTracking::Click => "click",
        MouseTracking::Drag => "drag",
        MouseTracking::Motion => "motion",
    }
}

fn no_host() -> ApiFailure {
    ApiFailure::new("HOST_UNREACHABLE", "the terminal's host cannot be reached", "look at it again")
}

fn host_failure(fault: &HostFault) -> ApiFailure {
    ApiFailure::new(fault.code.as_str(), fault.message.clone(), "`ostler ls` shows what there is")
}
