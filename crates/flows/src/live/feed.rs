//! Live sessions on a background thread: one descriptor to poll, and at most one pending update (coalesced, so
//! a slow reader costs nothing).

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::{LiveSessions, LiveSource, LiveUpdate};
use crate::observe::ObserveScope;

/// What the thread and its owner share.
#[derive(Debug)]
struct SharedUpdate {
    /// What was found out and not taken yet; several looks are put together.
    waiting: Option<LiveUpdate>,
    /// What is to be looked at from now on.
    scope: ObserveScope,
    /// Why the thread ended, if it did.
    failed: Option<io::Error>,
}

/// Live sessions that can be waited for beside other things. Dropping it ends its thread.
#[derive(Debug)]
pub struct LiveFeed {
    shared: Arc<Mutex<SharedUpdate>>,
    bell: io::PipeReader,
    /// Writing to it asks the thread to look at what was set; closing it ends the thread.
    orders: Option<io::PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl LiveFeed {
    /// Begins to watch.
    pub fn start(source: LiveSource) -> io::Result<Self> {
        let (bell, ring) = io::pipe()?;
        let (taken, orders) = io::pipe()?;
        for end in [bell.as_fd(), ring.as_fd(), taken.as_fd(), orders.as_fd()] {
            sys::watch::set_nonblocking(end)?;
        }
        let shared = SharedUpdate { waiting: None, scope: source.scope, failed: None };
        let shared = Arc::new(Mutex::new(shared));
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("live".to_owned())
            .spawn(move || run_feed(source, &theirs, ring, taken))?;
        Ok(Self { shared, bell, orders: Some(orders), thread: Some(thread) })
    }

    /// What to poll for reading: then there is an update.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The update that waits, if one does. Does not block.
    pub fn take_update(&self) -> io::Result<Option<LiveUpdate>> {
        let mut rung = [0; 64];
        let is_over = loop {
            match (&self.bell).read(&mut rung) {
                // The thread has let go of its end: what it found last would be shown for ever.
                Ok(0) => break true,
                Ok(_) => {}
                Err(_) => break false,
            }
        };
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        match (shared.failed.take(), shared.waiting.take()) {
            (Some(error), _) => Err(error),
            (None, None) if is_over => Err(io::Error::other("nobody looks at sessions any more")),
            (None, update) => Ok(update),
        }
    }

    /// Looks at more or less of the past from now on.
    pub fn set_scope(&self, scope: ObserveScope) {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).scope = scope;
        if let Some(mut orders) = self.orders.as_ref() {
            // A full pipe has told already.
            let _ = orders.write(&[1]);
        }
    }
}

impl Drop for LiveFeed {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // It catches its panics and tells them.
            let _ = thread.join();
        }
    }
}

fn run_feed(
    source: LiveSource,
    shared: &Mutex<SharedUpdate>,
    mut ring: io::PipeWriter,
    orders: io::PipeReader,
) {
    let looks = || keep_looking(source, shared, &ring, &orders);
    let failed = match panic::catch_unwind(AssertUnwindSafe(looks)) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        Err(payload) => {
            let what = sys::spread::panic_text(&*payload);
            io::Error::other(format!("looking at sessions broke off: {what}"))
        }
    };
    shared.lock().unwrap_or_else(PoisonError::into_inner).failed = Some(failed);
    // A full pipe has rung already.
    let _ = ring.write(&[1]);
}

/// Looks until the owner is gone.
fn keep_looking(
    source: LiveSource,
    shared: &Mutex<SharedUpdate>,
    mut ring: &io::PipeWriter,
    mut orders: &io::PipeReader,
) -> io::Result<()> {
    let mut live = LiveSessions::new(source);
    loop {
        let found = live.next_change(None, Some(orders.as_fd()))?;
        sys::pause::break_at("live.found")?;
        let mut taken = [0; 64];
        match orders.read(&mut taken) {
            Ok(0) => return Ok(()),
            Ok(_) => {
                let scope = shared.lock().unwrap_or_else(PoisonError::into_inner).scope;
                live.set_scope(scope);
            }
            Err(_) => {}
        }
        let Some(update) = found else { continue };
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut shared.waiting {
            Some(waiting) => waiting.absorb(update),
            none => *none = Some(update),
        }
        // A full pipe has rung already.
        let _ = ring.write(&[1]);
    }
}
