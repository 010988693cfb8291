//! Terminals that pages watch: one read-only viewer and one screen for all who watch the same one.
//!
//! A viewer of a host is cheap for the host and never resizes, types or takes the keyboard. A page that
//! types has a connection of its own (`TerminalWriter`), so that the host knows one writer from another.

use std::collections::HashMap;
use std::io::Read;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use flows::terminal::screen::{Screen, ScreenLimits, ScreenSize};
use flows::terminal::stream::{self, FrameKind, Keyboard};
use flows::terminal::{HostedSession, TerminalHome, ask};
use model::hosted::HostFault;
use model::hosted::wire::{AttachParams, Dimensions};
use sys::dropped::NoteDropped;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::timeouts::{FIRST_SCREEN_TIMEOUT, HOST_TYPE_TIMEOUT};

/// What is read of a host at once.
const READ_BYTES: usize = 64 << 10;

/// The feed of one terminal, whose lock is held while its host is joined.
type FeedPlace = Arc<Mutex<Weak<TerminalFeed>>>;

/// Every terminal that is watched.
#[derive(Debug)]
pub(super) struct TerminalHub {
    home: TerminalHome,
    feeds: Mutex<HashMap<String, FeedPlace>>,
}

impl TerminalHub {
    pub(super) fn new(home: TerminalHome) -> Self {
        Self { home, feeds: Mutex::new(HashMap::new()) }
    }

    /// Watches a terminal, shared with its other watchers. Blocks until its host answers, and with it who else wants this
    /// very terminal.
    pub(super) fn watch_terminal(&self, id: &str) -> Result<Arc<TerminalFeed>, HostFault> {
        let place = self.feed_place(id);
        let mut feed = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = feed.upgrade().filter(|feed| !feed.is_over()) {
            return Ok(feed);
        }
        let session = self.home.open_session(id)?.as_settled();
        let started = TerminalFeed::start(&session)?;
        *feed = Arc::downgrade(&started);
        Ok(started)
    }

    fn feed_place(&self, id: &str) -> FeedPlace {
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever joins a terminal holds its place; the others go with their last watcher.
        feeds.retain(|_, place| {
            Arc::strong_count(place) > 1
                || place.try_lock().is_ok_and(|feed| feed.strong_count() > 0)
        });
        Arc::clone(feeds.entry(id.to_owned()).or_default())
    }

    /// Takes the keyboard of a terminal. Blocks until its host answers.
    pub(super) fn take_keyboard(
        &self,
        id: &str,
        by: String,
    ) -> Result<(UnixStream, Vec<u8>), HostFault> {
        let session = self.home.open_session(id)?.as_settled();
        let params = AttachParams { size: None, read_only: false, take: true, by: Some(by) };
        let (_, early, stream) = ask::attach_terminal(&session, params)?;
        Ok((stream, early))
    }
}

/// One terminal, as it is now.
#[derive(Debug)]
pub(super) struct TerminalFeed {
    shown: Mutex<ShownTerminal>,
    /// The page that took the keyboard last: its tab's name, and whether it still has it.
    page_writer: Mutex<Option<(String, Weak<AtomicBool>)>>,
    changed: watch::Sender<u64>,
    stream: UnixStream,
}

/// What is on a terminal.
#[derive(Debug)]
pub(super) struct ShownTerminal {
    pub(super) screen: Screen,
    pub(super) keyboard: Keyboard,
    /// How it ended.
    pub(super) over: Option<String>,
    /// Whether the host has sent its screen yet.
    has_come: bool,
}

impl TerminalFeed {
    fn start(session: &HostedSession) -> Result<Arc<Self>, HostFault> {
        let params = AttachParams { size: None, read_only: true, take: false, by: None };
        let (welcome, early, stream) = ask::attach_terminal(session, params)?;
        let broken = |error: std::io::Error| {
            HostFault::new(model::hosted::FaultCode::HostUnreachable, error.to_string())
        };
        let reader = stream.try_clone().map_err(broken)?;
        let size = ScreenSize { cols: welcome.cols, rows: welcome.rows };
        let shown = ShownTerminal {
            screen: Screen::new(size, ScreenLimits { scrollback_lines: 0 }),
            keyboard: Keyboard::Anothers,
            over: None,
            has_come: false,
        };
        let (shown, changed) = (Mutex::new(shown), watch::Sender::new(0));
        let page_writer = Mutex::default();
        let feed = Arc::new(Self { shown, page_writer, changed, stream });
        let early = feed.await_screen(&reader, early).map_err(broken)?;
        let weak = Arc::downgrade(&feed);
        std::thread::Builder::new()
            .name("terminal".to_owned())
            .spawn(move || read_terminal(reader, early, &weak))
            .map_err(broken)?;
        Ok(feed)
    }

    /// Reads until the whole screen has come, and with it who has the keyboard: nobody is shown an empty
    /// screen that was never there. Gives what was read beyond that.
    fn await_screen(
        &self,
        mut reader: &UnixStream,
        mut input: Vec<u8>,
    ) -> std::io::Result<Vec<u8>> {
        let mut buffer = vec![0; READ_BYTES];
        reader.set_read_timeout(Some(FIRST_SCREEN_TIMEOUT))?;
        while !(show_frames(&mut input, self) || self.lock().has_come && input.is_empty()) {
            match reader.read(&mut buffer) {
                Ok(count) if count > 0 => input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // Too late, or gone: whoever reads on finds out which.
                _ => break,
            }
        }
        reader.set_read_timeout(None)?;
        Ok(input)
    }

    /// A feed that a test writes into.
    #[cfg(test)]
    pub(super) fn without_host(size: ScreenSize) -> std::io::Result<Arc<Self>> {
        let (stream, _) = UnixStream::pair()?;
        let shown = ShownTerminal {
            screen: Screen::new(size, ScreenLimits { scrollback_lines: 0 }),
            keyboard: Keyboard::Free,
            over: None,
            has_come: true,
        };
        let (shown, changed) = (Mutex::new(shown), watch::Sender::new(0));
        Ok(Arc::new(Self { shown, page_writer: Mutex::default(), changed, stream }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ShownTerminal> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of the tab that types, if it is one of this server's.
    pub(super) fn page_writer(&self) -> Option<String> {
        let writer = self.page_writer.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, has_keyboard) = writer.as_ref()?;
        has_keyboard.upgrade()?.load(Ordering::Relaxed).then(|| name.clone())
    }

    /// A tab of that name types from now on.
    fn note_page_writer(&self, name: String, has_keyboard: &Arc<AtomicBool>) {
        let writer = (name, Arc::downgrade(has_keyboard));
        *self.page_writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
        self.note_change();
    }

    fn is_over(&self) -> bool {
        self.lock().over.is_some()
    }

    /// Rises whenever something is not what it was.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn note_change(&self) {
        self.changed.send_modify(|change| *change += 1);
    }
}

impl Drop for TerminalFeed {
    fn drop(&mut self) {
        // Ends the thread that reads.
        self.stream.shutdown(Shutdown::Both).note_dropped("leaving a terminal");
    }
}

/// Reads what the host sends until its last watcher leaves, or the host is gone.
fn read_terminal(mut reader: UnixStream, mut input: Vec<u8>, feed: &Weak<TerminalFeed>) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        {
            let Some(feed) = feed.upgrade() else { return };
            if show_frames(&mut input, &feed) {
                return;
            }
        }
        let over = match reader.read(&mut buffer) {
            Ok(0) => true,
            Ok(count) => {
                input.extend_from_slice(&buffer[..count]);
                false
            }
            Err(error) => error.kind() != std::io::ErrorKind::Interrupted,
        };
        if over {
            let Some(feed) = feed.upgrade() else { return };
            feed.lock().over.get_or_insert_with(|| "its host is gone".to_owned());
            feed.note_change();
            return;
        }
    }
}

/// Shows what has come in; whether the terminal is over.
fn show_frames(input: &mut Vec<u8>, feed: &TerminalFeed) -> bool {
    let mut shown = feed.lock();
    let mut changed = false;
    loop {
        match stream::take_frame(input) {
            Ok(Some((FrameKind::Bytes, bytes))) => {
                drop(shown.screen.advance(&bytes));
                shown.has_come = true;
            }
            Ok(Some((FrameKind::Size, payload))) => {
                if let Ok(Dimensions { cols, rows }) = serde_json::from_slice(&payload) {
                    drop(shown.screen.resize(ScreenSize { cols, rows }));
                }
            }
            Ok(Some((FrameKind::Writer, payload))) => shown.keyboard = Keyboard::parse(&payload),
            Ok(Some((FrameKind::Over, how))) => {
                shown.over = Some(String::from_utf8_lossy(&how).into_owned());
            }
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(_) => shown.over = Some("its host broke the protocol".to_owned()),
        }
        changed = true;
        if shown.over.is_some() {
            break;
        }
    }
    let is_over = shown.over.is_some();
    drop(shown);
    if changed {
        feed.note_change();
    }
    is_over
}

/// The one who types into a terminal, from a page.
#[derive(Debug)]
pub(super) struct TerminalWriter {
    write: OwnedWriteHalf,
    has_keyboard: Arc<AtomicBool>,
    /// The size to give back, once the terminal was fitted to a window.
    original: Option<Dimensions>,
}

impl TerminalWriter {
    /// Joins with a connection that has the keyboard, for the tab of that name. Whoever watches the feed is told,
    /// also when the keyboard is lost.
    pub(super) fn join(
        stream: UnixStream,
        early: Vec<u8>,
        tab: String,
        feed: &Arc<TerminalFeed>,
    ) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (read, write) = tokio::net::UnixStream::from_std(stream)?.into_split();
        let has_keyboard = Arc::new(AtomicBool::new(true));
        feed.note_page_writer(tab, &has_keyboard);
        let (told, weak) = (Arc::clone(&has_keyboard), Arc::downgrade(feed));
        tokio::spawn(drain_writer(read, early, told, weak));
        Ok(Self { write, has_keyboard, original: None })
    }

    pub(super) fn has_keyboard(&self) -> bool {
        self.has_keyboard.load(Ordering::Relaxed)
    }

    /// Sends what was typed to the host.
    pub(super) async fn type_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.send_frame(FrameKind::Bytes, bytes).await
    }

    /// Gives the terminal the size of a window; `now` returns when the writer leaves.
    pub(super) async fn fit(&mut self, now: Dimensions, wanted: Dimensions) -> std::io::Result<()> {
        self.original.get_or_insert(now);
        self.send_frame(FrameKind::Size, &serde_json::to_vec(&wanted)?).await
    }

    /// Leaves the keyboard, and gives back the size.
    pub(super) async fn release(mut self) {
        if let Some(size) = self.original.take().filter(|_| self.has_keyboard()) {
            let size = serde_json::to_vec(&size).unwrap_or_default();
            self.send_frame(FrameKind::Size, &size).await.note_dropped("giving back a size");
        }
    }

    async fn send_frame(&mut self, kind: FrameKind, payload: &[u8]) -> std::io::Result<()> {
        let mut frame = Vec::new();
        stream::put_frame(&mut frame, kind, payload);
        match timeout(HOST_TYPE_TIMEOUT, self.write.write_all(&frame)).await {
            Ok(written) => written,
            Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Reads what the host tells the writer; the screen comes through the shared viewer.
async fn drain_writer(
    mut read: OwnedReadHalf,
    mut input: Vec<u8>,
    has_keyboard: Arc<AtomicBool>,
    feed: Weak<TerminalFeed>,
) {
    let note = |has: bool| {
        has_keyboard.store(has, Ordering::Relaxed);
        if let Some(feed) = feed.upgrade() {
            feed.note_change();
        }
    };
    let mut buffer = vec![0; 16 << 10];
    loop {
        while let Ok(Some((kind, payload))) = stream::take_frame(&mut input) {
            if kind == FrameKind::Writer {
                note(Keyboard::parse(&payload) == Keyboard::Yours);
            }
        }
        match read.read(&mut buffer).await {
            Ok(count) if count > 0 => input.extend_from_slice(&buffer[..count]),
            _ => return note(false),
        }
    }
}
