//! Connection limit of a keeper: a counting semaphore that closes idle connections under pressure.
//!
//! At the limit nothing more is accepted and the others wait in the socket's backlog; none is closed
//! without a word. An idle connection (or one with half a request) is closed
//! while others wait, so that it cannot starve them.

use std::collections::HashMap;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use sys::dropped::NoteDropped;

use crate::timeouts::{CONNECTION_IDLE_TIMEOUT, IDLE_CHECK_INTERVAL};

/// The most connections that are served at once.
const MOST_CONNECTIONS: usize = 128;

/// The connections that are being served.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<HashMap<u64, OpenConnection>>,
    changed: Condvar,
}

#[derive(Debug)]
struct OpenConnection {
    stream: UnixStream,
    /// Since when it asks nothing; `None` while a request is under way.
    idle_since: Option<Instant>,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, OpenConnection>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until one more may be served.
    pub(super) fn wait_for_room(&self) {
        let mut open = self.open();
        while open.len() >= MOST_CONNECTIONS {
            for connection in open.values_mut() {
                if connection
                    .idle_since
                    .is_some_and(|since| since.elapsed() >= CONNECTION_IDLE_TIMEOUT)
                {
                    // Its thread sees the end of the stream and lets go. One that is closed already
                    // has nothing to be told.
                    connection
                        .stream
                        .shutdown(Shutdown::Both)
                        .note_dropped("closing a borrower's connection");
                }
            }
            let waited = self.changed.wait_timeout(open, IDLE_CHECK_INTERVAL);
            open = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Counts a connection for as long as the answer lives.
    pub(super) fn enter(
        self: &Arc<Self>,
        number: u64,
        stream: &UnixStream,
    ) -> std::io::Result<ConnectionTurn> {
        let connection =
            OpenConnection { stream: stream.try_clone()?, idle_since: Some(Instant::now()) };
        self.open().insert(number, connection);
        Ok(ConnectionTurn { all: Arc::clone(self), number })
    }

    fn set_idle(&self, number: u64, idle_since: Option<Instant>) {
        if let Some(connection) = self.open().get_mut(&number) {
            connection.idle_since = idle_since;
        }
    }
}

/// One connection's place among those that are served.
#[derive(Debug)]
pub(super) struct ConnectionTurn {
    all: Arc<Connections>,
    number: u64,
}

impl ConnectionTurn {
    /// A request is under way until the answer is dropped.
    pub(super) fn begin(&self) -> BusyConnection<'_> {
        self.all.set_idle(self.number, None);
        BusyConnection(self)
    }
}

impl Drop for ConnectionTurn {
    fn drop(&mut self) {
        self.all.open().remove(&self.number);
        self.all.changed.notify_one();
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(super) struct BusyConnection<'a>(&'a ConnectionTurn);

impl Drop for BusyConnection<'_> {
    fn drop(&mut self) {
        self.0.all.set_idle(self.0.number, Some(Instant::now()));
    }
}
