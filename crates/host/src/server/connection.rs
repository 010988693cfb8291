//! Non-blocking client connections: each asks one thing, and then waits, watches or goes.
//!
//! No client can lock the others out: those who hold a connection (waiters, viewers) leave a reserve for
//! those who ask; one that does not ask in time, or does not read its answer, is dropped; when all places
//! are taken the next ones wait in the listener's queue (backpressure) until an idle one can be dropped.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};
use sys::dropped::NoteDropped;

use model::hosted::HostFault;
use model::hosted::protocol::{HostDialect, IncomingRequest, UNKNOWN_ID, reply_line};
use screen::Screen;
use serde_json::Value;

use super::viewer::Viewer;
use super::wait::Waiter;
use crate::timeouts::{ACCEPT_BACKOFF, ASKING_TIMEOUT, ASKING_TIMEOUT_WHEN_FULL};

/// The longest request. Text to type may be ten million bytes, and escaping makes it longer.
const MAX_REQUEST_BYTES: usize = 64 << 20;

/// How much all unfinished requests may take together.
const MOST_UNFINISHED: usize = 96 << 20;

/// How much is read of one connection before the others get their turn.
const READ_PER_TURN: usize = 1 << 20;

/// How many connections there may be at a time.
const MOST_CONNECTIONS: usize = 256;

/// How many of them may wait or watch: the rest is for those who ask.
const MOST_HELD: usize = 224;

/// What a connection is for, now.
#[derive(Debug)]
pub(super) enum ConnectionRole {
    /// Its request has not come yet.
    Asking,
    /// Its answer is due later.
    Waiting(Box<Waiter>),
    /// It is a viewer.
    Viewing(Box<Viewer>),
    /// Its answer is on the way.
    Answered,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: u64,
    stream: UnixStream,
    pub(super) input: Vec<u8>,
    /// How much of the input is known to have no line break.
    searched: usize,
    pub(super) output: Vec<u8>,
    sent: usize,
    pub(super) role: ConnectionRole,
    /// What its answer must carry, and how it is said.
    asked: (String, HostDialect),
    /// Since when it is what it is.
    since: Instant,
    /// The other side says no more; it may still listen.
    pub(super) said_all: bool,
    /// The other side is gone, or never made sense.
    pub(super) dead: bool,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Connection {
    /// Whether something waits to be sent.
    pub(super) fn wants_to_write(&self) -> bool {
        self.sent < self.output.len()
    }

    /// How much waits to be sent.
    pub(super) fn backlog_bytes(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Forgets the frames that were not begun to be sent.
    pub(super) fn keep_begun_frame(&mut self) {
        let mut end = 0;
        while end < self.sent.max(1) {
            let Some(length) = self.output.get(end + 1..end + 5) else { break };
            let length: [u8; 4] = length.try_into().unwrap_or_default();
            end += 5 + u32::from_be_bytes(length) as usize;
        }
        self.output.truncate(end.max(self.sent));
    }

    pub(super) fn is_over(&self) -> bool {
        self.dead || (matches!(self.role, ConnectionRole::Answered) && !self.wants_to_write())
    }

    /// Whether it types: what it sends is kept for the program.
    pub(super) fn awaits_program(&self) -> bool {
        matches!(&self.role, ConnectionRole::Viewing(viewer) if viewer.writes)
    }

    /// Whether something of it was received and not dealt with.
    pub(super) fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// Reads what is there, as far as `room` allows for a request.
    pub(super) fn receive_bytes(&mut self, room: usize) {
        let mut buffer = [0; 16 << 10];
        let mut read = 0;
        while read < READ_PER_TURN {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.said_all = true;
                    self.dead |= matches!(self.role, ConnectionRole::Viewing(_));
                    return;
                }
                // What comes after the request is ignored.
                Ok(count)
                    if matches!(
                        self.role,
                        ConnectionRole::Waiting(..) | ConnectionRole::Answered
                    ) =>
                {
                    read += count;
                }
                Ok(count) => {
                    read += count;
                    self.input.extend_from_slice(&buffer[..count]);
                    if self.input.len() > MAX_REQUEST_BYTES.min(room) {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.dead |= error.kind() != io::ErrorKind::WouldBlock;
                    return;
                }
            }
        }
    }

    /// The request, once it is whole or cannot become so.
    pub(super) fn take_request(&mut self, room: usize) -> Option<IncomingRequest> {
        let end = memchr::memchr(b'\n', &self.input[self.searched..]);
        if let Some(end) = end.map(|end| self.searched + end) {
            let line = std::mem::take(&mut self.input);
            return Some(IncomingRequest::parse(&line[..end]));
        }
        self.searched = self.input.len();
        let reason = if self.input.len() > MAX_REQUEST_BYTES {
            "RPC request exceeds maximum buffer size."
        } else if self.input.len() > room {
            "RPC request exceeds maximum buffer size: too much is said at the same time."
        } else if !self.said_all {
            return None;
        } else if self.input.is_empty() {
            "RPC request ended before any data was received."
        } else {
            "RPC request was not newline-delimited."
        };
        self.input = Vec::new();
        Some(IncomingRequest::unreadable(reason))
    }

    /// Remembers how to answer.
    pub(super) fn asked_as(&mut self, id: String, dialect: HostDialect) {
        self.asked = (id, dialect);
        self.since = Instant::now();
    }

    /// Answers and is done.
    pub(super) fn answer_and_close(&mut self, answer: &Result<Value, HostFault>) {
        self.output.extend_from_slice(&reply_line(&self.asked.0, answer));
        self.since = Instant::now();
        if !matches!(self.role, ConnectionRole::Viewing(_)) {
            self.role = ConnectionRole::Answered;
        }
        self.send_pending();
    }

    /// When it has had its time: a waiter or viewer never has.
    fn must_go_at(&self, timeout: Duration) -> Option<Instant> {
        match self.role {
            ConnectionRole::Asking | ConnectionRole::Answered => Some(self.since + timeout),
            ConnectionRole::Waiting(_) | ConnectionRole::Viewing(_) => None,
        }
    }

    /// Sends as much as the other side takes now.
    pub(super) fn send_pending(&mut self) {
        while self.wants_to_write() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => {
                    self.dead = true;
                    return;
                }
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.dead |= error.kind() != io::ErrorKind::WouldBlock;
                    return;
                }
            }
        }
        self.sent = 0;
        self.output.clear();
        self.output.shrink_to(64 << 10);
        if matches!(self.role, ConnectionRole::Answered) {
            self.stream.shutdown(std::net::Shutdown::Write).note_dropped("closing a connection");
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Connections {
    pub(super) all: Vec<Connection>,
    next: u64,
    /// Until when no connection is accepted: the system refused.
    backoff: Option<Instant>,
}

impl Connections {
    /// Whether another one is accepted now.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        self.all.len() < MOST_CONNECTIONS && self.backoff.is_none_or(|until| until <= now)
    }

    /// Whether those who wait and watch have all places that they may take.
    pub(super) fn is_full_of_held(&self) -> bool {
        let held = |one: &&Connection| {
            matches!(one.role, ConnectionRole::Waiting(_) | ConnectionRole::Viewing(_))
        };
        self.all.iter().filter(held).count() >= MOST_HELD
    }

    /// How much more may be said, all unfinished requests taken together.
    pub(super) fn room_for_requests(&self) -> usize {
        MOST_UNFINISHED.saturating_sub(self.all.iter().map(|one| one.input.len()).sum())
    }

    /// Accepts everybody who waits and is this user.
    pub(super) fn accept_waiting(&mut self, listener: &UnixListener) {
        self.backoff = None;
        while self.all.len() < MOST_CONNECTIONS {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // No descriptor or no memory is left: the caller waits in the queue, and so do we.
                Err(error) => {
                    tracing::warn!(%error, "no connection can be accepted for now");
                    self.backoff = Some(Instant::now() + ACCEPT_BACKOFF);
                    return;
                }
            };
            let ours = sys::socket::peer_credentials(&stream)
                .is_ok_and(sys::socket::PeerCredentials::is_us);
            if !ours {
                tracing::warn!("a connection was refused: it is another user's");
            }
            if !ours || stream.set_nonblocking(true).is_err() {
                continue;
            }
            self.next += 1;
            self.all.push(Connection {
                id: self.next,
                stream,
                input: Vec::new(),
                searched: 0,
                output: Vec::new(),
                sent: 0,
                role: ConnectionRole::Asking,
                asked: (UNKNOWN_ID.to_owned(), HostDialect::AgentTty),
                since: Instant::now(),
                said_all: false,
                dead: false,
            });
        }
    }

    fn asking_timeout(&self) -> Duration {
        if self.all.len() < MOST_CONNECTIONS { ASKING_TIMEOUT } else { ASKING_TIMEOUT_WHEN_FULL }
    }

    /// When the next one has had its time, or connections may be accepted again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let timeout = self.asking_timeout();
        let idle = self.all.iter().filter_map(|one| one.must_go_at(timeout)).min();
        [idle, self.backoff].into_iter().flatten().min()
    }

    /// Drops those that had their time.
    pub(super) fn drop_idle(&mut self, now: Instant) {
        let timeout = self.asking_timeout();
        self.all.retain(|one| one.must_go_at(timeout).is_none_or(|at| now < at));
        if self.backoff.is_some_and(|until| until <= now) {
            self.backoff = None;
        }
    }

    /// Forgets those that are over.
    pub(super) fn drop_finished(&mut self) {
        self.all.retain(|connection| {
            if connection.is_over() && matches!(connection.role, ConnectionRole::Viewing(_)) {
                tracing::info!(viewer = connection.id, "a viewer left");
            }
            !connection.is_over()
        });
    }

    pub(super) fn viewers(&self) -> impl Iterator<Item = &Viewer> {
        self.all.iter().filter(|one| !one.dead).filter_map(|connection| match &connection.role {
            ConnectionRole::Viewing(viewer) => Some(&**viewer),
            _ => None,
        })
    }

    /// Those whose answer is due later.
    pub(super) fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        self.all.iter().filter_map(|connection| match &connection.role {
            ConnectionRole::Waiting(waiter) => Some(&**waiter),
            _ => None,
        })
    }

    /// Answers those whose time `decide` says has come.
    pub(super) fn answer_ready(
        &mut self,
        mut decide: impl FnMut(&mut Waiter, HostDialect) -> Option<Result<Value, HostFault>>,
    ) {
        for connection in &mut self.all {
            let dialect = connection.asked.1;
            if let ConnectionRole::Waiting(waiter) = &mut connection.role
                && let Some(answer) = decide(waiter, dialect)
            {
                connection.answer_and_close(&answer);
            }
        }
    }

    /// Whether a client waits for something to be shown.
    pub(super) fn watches_screen(&self) -> bool {
        self.waiters().any(|waiter| matches!(waiter, Waiter::Render(_)))
    }

    /// Tells those who wait for silence.
    pub(super) fn saw_output(&mut self, now: Instant) {
        for connection in &mut self.all {
            if let ConnectionRole::Waiting(waiter) = &mut connection.role
                && let Waiter::Idle { since, .. } = &mut **waiter
            {
                *since = Some(now);
            }
        }
    }

    /// Tells viewers that it is over.
    pub(super) fn say_goodbye(&mut self, how: &str) {
        for connection in &mut self.all {
            if let ConnectionRole::Viewing(_) = connection.role {
                crate::stream::put_frame(
                    &mut connection.output,
                    crate::stream::FrameKind::Over,
                    how.as_bytes(),
                );
                connection.role = ConnectionRole::Answered;
                connection.send_pending();
            }
        }
    }

    /// Shows viewers what the program wrote.
    pub(super) fn show_output(&mut self, bytes: &[u8], screen: &Screen) {
        for connection in &mut self.all {
            if let ConnectionRole::Viewing(_) = connection.role {
                Viewer::show_output(connection, bytes, screen);
            }
        }
    }

    /// Brings every viewer up to date with the size and with who types.
    pub(super) fn sync_viewers(&mut self, screen: &Screen) {
        let typist = self.viewers().any(|viewer| viewer.writes);
        for connection in &mut self.all {
            if let ConnectionRole::Viewing(_) = connection.role {
                Viewer::sync(connection, screen, typist);
            }
        }
    }
}
