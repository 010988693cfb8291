//! Connections: each asks one thing, and then waits, watches or goes.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Instant;

use model::hosted::{Code, Fault};
use screen::{Screen, Size};
use serde::Deserialize;
use serde_json::Value;

use super::viewer::Viewer;
use super::wait::Waiter;

/// The longest request. Text to type may be ten million bytes, and escaping makes it longer.
const LONGEST_REQUEST: usize = 64 << 20;

/// How many connections there may be at a time; the next one has to wait for its turn.
pub(super) const MOST: usize = 256;

/// A request.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    pub(super) id: Value,
    pub(super) method: String,
    #[serde(default)]
    pub(super) params: Value,
}

/// What a connection is for, now.
#[derive(Debug)]
pub(super) enum Role {
    /// Its request has not come yet.
    Asking,
    /// Its answer is due later.
    Waiting(Value, Box<Waiter>),
    /// It is a viewer.
    Viewing(Box<Viewer>),
    /// Its answer is on the way.
    Answered,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: u64,
    stream: UnixStream,
    pub(super) input: Vec<u8>,
    pub(super) output: Vec<u8>,
    sent: usize,
    pub(super) role: Role,
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
    pub(super) fn backlog(&self) -> usize {
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
        self.dead || (matches!(self.role, Role::Answered) && !self.wants_to_write())
    }

    /// Reads what is there.
    pub(super) fn receive(&mut self) {
        let mut buffer = [0; 16 << 10];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.dead = true;
                    return;
                }
                // What comes after the request is nobody's.
                Ok(_) if matches!(self.role, Role::Waiting(..) | Role::Answered) => {}
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.dead |= error.kind() != io::ErrorKind::WouldBlock;
                    return;
                }
            }
            if self.input.len() > LONGEST_REQUEST {
                self.dead = true;
                return;
            }
        }
    }

    /// The request, once it is whole.
    pub(super) fn request(&mut self) -> Option<Result<Request, Fault>> {
        let end = memchr::memchr(b'\n', &self.input)?;
        let line = std::mem::take(&mut self.input);
        Some(serde_json::from_slice(&line[..end]).map_err(|error| {
            Fault::new(Code::ProtocolError, format!("the request is not understood: {error}"))
        }))
    }

    /// Answers and is done.
    pub(super) fn answer(&mut self, id: &Value, answer: Result<Value, Fault>) {
        let line = match answer {
            Ok(result) => serde_json::json!({ "id": id, "ok": true, "result": result }),
            Err(fault) => serde_json::json!({ "id": id, "ok": false, "error": fault }),
        };
        self.output.extend_from_slice(line.to_string().as_bytes());
        self.output.push(b'\n');
        if !matches!(self.role, Role::Viewing(_)) {
            self.role = Role::Answered;
        }
        self.send();
    }

    /// Sends as much as the other side takes now.
    pub(super) fn send(&mut self) {
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
        if matches!(self.role, Role::Answered) {
            let _ = self.stream.shutdown(std::net::Shutdown::Write);
        }
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    pub(super) all: Vec<Connection>,
    next: u64,
}

impl Connections {
    /// Accepts everybody who waits and is this user.
    pub(super) fn accept(&mut self, listener: &UnixListener) {
        while self.all.len() < MOST {
            let Ok((stream, _)) = listener.accept() else { return };
            let ours = sys::socket::peer(&stream).is_ok_and(sys::socket::Peer::is_us);
            if !ours || stream.set_nonblocking(true).is_err() {
                continue;
            }
            self.next += 1;
            self.all.push(Connection {
                id: self.next,
                stream,
                input: Vec::new(),
                output: Vec::new(),
                sent: 0,
                role: Role::Asking,
                dead: false,
            });
        }
    }

    /// Forgets those that are over.
    pub(super) fn sweep(&mut self) {
        self.all.retain(|connection| !connection.is_over());
    }

    /// The viewers.
    pub(super) fn viewers(&mut self) -> impl Iterator<Item = (&mut Viewer, u64)> {
        self.all.iter_mut().filter(|one| !one.dead).filter_map(|connection| {
            match &mut connection.role {
                Role::Viewing(viewer) => Some((&mut **viewer, connection.id)),
                _ => None,
            }
        })
    }

    /// Those whose answer is due later.
    pub(super) fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        self.all.iter().filter_map(|connection| match &connection.role {
            Role::Waiting(_, waiter) => Some(&**waiter),
            _ => None,
        })
    }

    /// Answers those whose time `decide` says has come.
    pub(super) fn settle(
        &mut self,
        mut decide: impl FnMut(&mut Waiter) -> Option<Result<Value, Fault>>,
    ) {
        for connection in &mut self.all {
            if let Role::Waiting(id, waiter) = &mut connection.role
                && let Some(answer) = decide(waiter)
            {
                let id = id.take();
                connection.answer(&id, answer);
            }
        }
    }

    /// Whether somebody waits for something to be shown.
    pub(super) fn watches_screen(&self) -> bool {
        self.waiters().any(|waiter| matches!(waiter, Waiter::Render(_)))
    }

    /// Tells those who wait for silence.
    pub(super) fn saw_output(&mut self, now: Instant) {
        for connection in &mut self.all {
            if let Role::Waiting(_, waiter) = &mut connection.role
                && let Waiter::Idle { since, .. } = &mut **waiter
            {
                *since = now;
            }
        }
    }

    /// Tells viewers that it is over.
    pub(super) fn say_goodbye(&mut self, how: &str) {
        for connection in &mut self.all {
            if let Role::Viewing(_) = connection.role {
                crate::stream::put(
                    &mut connection.output,
                    crate::stream::Kind::Over,
                    how.as_bytes(),
                );
                connection.role = Role::Answered;
                connection.send();
            }
        }
    }

    /// Shows viewers what the program wrote.
    pub(super) fn output(&mut self, bytes: &[u8], screen: &Screen) {
        for connection in &mut self.all {
            if let Role::Viewing(_) = connection.role {
                Viewer::show(connection, bytes, screen);
            }
        }
    }

    /// Tells viewers about another size.
    pub(super) fn resized(&mut self, size: Size) {
        for connection in &mut self.all {
            if let Role::Viewing(_) = connection.role {
                Viewer::tell_size(connection, size);
            }
        }
    }
}
