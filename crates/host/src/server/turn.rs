//! One turn of the host: sleep until something happens, then deal with all of it.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::Role;
use super::host::{Host, Line};

/// How long to wait before looking whether somebody opened a closed terminal again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long the last answers may take to be read.
const FAREWELL: Duration = Duration::from_secs(1);

/// What happened.
#[derive(Debug, Default)]
struct Happened {
    readable: bool,
    writable: bool,
    ended: bool,
    called: bool,
    /// By id.
    connections: Vec<(u64, Heard)>,
}

/// What happened on a connection.
#[derive(Clone, Copy, Debug)]
struct Heard {
    readable: bool,
    writable: bool,
    /// Nobody reads what it is sent.
    gone: bool,
}

impl Happened {
    const fn anything(&self) -> bool {
        self.readable || self.writable || self.ended || self.called || !self.connections.is_empty()
    }
}

impl Host {
    /// Stays until the session is over.
    pub(super) fn run(&mut self) {
        while !self.over {
            self.turn(self.deadline());
        }
        let until = Instant::now() + FAREWELL;
        self.connections.sweep();
        while !self.connections.all.is_empty() && Instant::now() < until {
            let happened = self.sleep(Some(until));
            self.hear_all(&happened);
        }
        self.leave();
    }

    /// Sleeps until something happens, and deals with it; says whether anything did.
    pub(super) fn turn(&mut self, until: Option<Instant>) -> bool {
        let happened = self.sleep(until);
        self.deal_with(&happened);
        happened.anything()
    }

    fn deal_with(&mut self, happened: &Happened) {
        if happened.writable {
            self.write_terminal();
        }
        if happened.readable {
            self.read_terminal(false);
        }
        if let (Line::HungUp(since), Some(terminal)) = (self.line, &mut self.terminal)
            && since.elapsed() >= LOOK_AGAIN
        {
            self.line = Line::Open;
            terminal.intake.look_again();
        }
        if happened.ended {
            self.program_ended();
        }
        if happened.called {
            self.connections.accept(&self.listener);
        }
        self.hear_all(happened);
        let now = Instant::now();
        if self.held_until().is_some_and(|until| until <= now) {
            self.release_held(false);
        }
        if self.log.retry_at().is_some_and(|at| at <= now) {
            self.log.flush(sys::clock::now());
        }
        if !self.over {
            self.check_ending(now);
        }
        self.check_screen(now);
        self.check_deadlines(now);
        self.connections.drop_idle(now);
        self.connections.sweep();
        self.connections.sync_viewers(&self.screen);
    }

    /// When something is due although nothing happens.
    fn deadline(&self) -> Option<Instant> {
        let waiters = self.connections.waiters().filter_map(super::wait::Waiter::next).min();
        let line = match self.line {
            Line::Open => None,
            Line::HungUp(since) => Some(since + LOOK_AGAIN),
        };
        // A paused log is tried again when there is something to write, and only then.
        [
            waiters,
            line,
            self.held_until(),
            self.connections.deadline(),
            self.idle_until(),
            self.ending.as_ref().map(super::ending::Ending::next),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn sleep(&mut self, until: Option<Instant>) -> Happened {
        let timeout = until.map(|until| {
            let span = until.saturating_duration_since(Instant::now());
            // Rounded up: waking too early would only mean to sleep again.
            Timespec {
                tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(span.subsec_nanos()),
            }
        });
        if self.would_sleep() {
            self.rest();
        }
        let mut fds = Vec::with_capacity(3 + self.connections.all.len());
        let writes = !self.input.is_empty();
        let terminal = self.terminal.as_ref().inspect(|terminal| {
            fds.push(PollFd::new(&terminal.watch, PollFlags::IN));
            fds.push(PollFd::new(&terminal.intake, PollFlags::IN));
            // Not asked for an event, a closed terminal would be reported again and again.
            if writes {
                fds.push(PollFd::new(&*terminal.master, PollFlags::OUT));
            }
        });
        let has_terminal = terminal.is_some();
        let calls = self.connections.has_room(Instant::now()) && !self.over;
        if calls {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let first = fds.len();
        for connection in &self.connections.all {
            // One that has said all would be reported again and again.
            let mut events = PollFlags::empty();
            events.set(PollFlags::IN, !connection.said_all);
            events.set(PollFlags::OUT, connection.wants_to_write());
            fds.push(PollFd::new(connection, events));
        }
        let mut happened = Happened::default();
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return happened;
        }
        let trouble = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        let mut next = 0;
        if has_terminal {
            happened.ended = !fds[0].revents().is_empty();
            happened.readable = !fds[1].revents().is_empty();
            happened.writable = writes && !fds[2].revents().is_empty();
            next = 2 + usize::from(writes);
        }
        happened.called = calls && !fds[next].revents().is_empty();
        for (connection, fd) in self.connections.all.iter().zip(&fds[first..]) {
            let events = fd.revents();
            if !events.is_empty() {
                let heard = Heard {
                    readable: events.intersects(PollFlags::IN | trouble),
                    writable: events.contains(PollFlags::OUT),
                    gone: events.intersects(trouble),
                };
                happened.connections.push((connection.id, heard));
            }
        }
        happened
    }

    /// Whether nothing is known to be there to be done.
    fn would_sleep(&self) -> bool {
        self.last_activity.elapsed() > Duration::from_millis(100)
    }

    fn hear_all(&mut self, happened: &Happened) {
        for &(id, heard) in &happened.connections {
            let at = self.connections.all.iter().position(|connection| connection.id == id);
            let Some(at) = at else { continue };
            // Out of the list while it is heard, so that it can change the host.
            let mut connection = self.connections.all.swap_remove(at);
            if heard.writable {
                connection.send();
            }
            if heard.readable {
                let room = self.connections.room_for_requests();
                connection.receive(room);
                match connection.role {
                    Role::Asking => {
                        if let Some(request) = connection.request(room) {
                            self.serve(&mut connection, request);
                        }
                    }
                    Role::Viewing(_) => self.hear_viewer(&mut connection),
                    Role::Waiting(..) | Role::Answered => {}
                }
            }
            connection.dead |= heard.gone && connection.said_all;
            self.connections.all.push(connection);
        }
        self.connections.sweep();
    }
}
