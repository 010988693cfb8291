//! One iteration of the host's event loop: `poll`, then everything that is ready.

use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::ConnectionRole;
use super::host::{Host, PtyLine};
use crate::timeouts::{FAREWELL_TIMEOUT, REOPEN_CHECK_INTERVAL, RESTLESS_SPAN};

#[derive(Debug, Default)]
struct PollEvents {
    readable: bool,
    writable: bool,
    ended: bool,
    /// A child has ended.
    orphaned: bool,
    called: bool,
    connections: Vec<(u64, Heard)>,
}

/// What happened on a connection.
#[derive(Clone, Copy, Debug)]
struct Heard {
    readable: bool,
    writable: bool,
    /// Its peer does not read.
    gone: bool,
}

impl PollEvents {
    const fn has_any(&self) -> bool {
        self.readable
            || self.writable
            || self.ended
            || self.orphaned
            || self.called
            || !self.connections.is_empty()
    }
}

impl Host {
    /// Stays until the session is over.
    pub(super) fn run_until_over(&mut self) {
        while !self.over {
            self.turn(self.next_deadline());
        }
        let until = Instant::now() + FAREWELL_TIMEOUT;
        self.connections.drop_finished();
        while !self.connections.all.is_empty() && Instant::now() < until {
            let happened = self.sleep_until(Some(until));
            self.serve_connections(&happened);
        }
        self.leave_cleanly();
    }

    /// Sleeps until something happens, and deals with it; says whether anything did.
    pub(super) fn turn(&mut self, until: Option<Instant>) -> bool {
        let happened = self.sleep_until(until);
        self.deal_with(&happened);
        happened.has_any()
    }

    fn deal_with(&mut self, happened: &PollEvents) {
        if happened.writable {
            self.write_terminal();
        }
        if happened.readable {
            self.read_terminal(false);
            self.read_streams();
        }
        if let (PtyLine::HungUp(since), Some(terminal)) = (self.line, &mut self.terminal)
            && since.elapsed() >= REOPEN_CHECK_INTERVAL
        {
            self.line = PtyLine::Open;
            terminal.intake.look_again();
        }
        if happened.ended {
            self.program_ended();
        }
        if happened.orphaned {
            self.reap_orphans();
        }
        if happened.called {
            self.connections.accept_waiting(&self.listener);
        }
        self.serve_connections(happened);
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
        self.check_submissions(now);
        self.resume_viewers();
        self.check_readiness(now, false);
        self.check_deadlines(now);
        self.connections.drop_idle(now);
        self.connections.drop_finished();
        self.connections.sync_viewers(&self.screen);
    }

    /// When something is due although nothing happens.
    fn next_deadline(&self) -> Option<Instant> {
        let waiters =
            self.connections.waiters().filter_map(super::wait::Waiter::next_check_at).min();
        let line = match self.line {
            PtyLine::Open => None,
            PtyLine::HungUp(since) => Some(since + REOPEN_CHECK_INTERVAL),
        };
        // A paused log is tried again when there is something to write, and only then.
        [
            waiters,
            line,
            self.held_until(),
            self.connections.deadline(),
            self.idle_until(),
            self.submissions.next_check_at(),
            self.ending.as_ref().map(super::ending::Ending::next_step_at),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn sleep_until(&mut self, until: Option<Instant>) -> PollEvents {
        let timeout = until.map(|until| {
            let span = until.saturating_duration_since(Instant::now());
            // Rounded up: waking too early would only mean to sleep again.
            Timespec {
                tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(span.subsec_nanos()),
            }
        });
        if self.would_sleep() {
            self.release_buffer();
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
        let orphans_at = self.orphans.as_ref().map(|orphans| {
            fds.push(PollFd::new(orphans, PollFlags::IN));
            fds.len() - 1
        });
        let headless_at = fds.len();
        if let Some(headless) = &self.headless {
            fds.push(PollFd::new(&headless.watch, PollFlags::IN));
            let open = headless.streams.iter().filter_map(|stream| stream.pipe.as_ref());
            fds.extend(open.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        }
        let (first, full) = (fds.len(), self.is_input_full());
        for connection in &self.connections.all {
            // One that has said all would be reported again and again.
            let mut events = PollFlags::empty();
            let must_wait = full && connection.awaits_program();
            events.set(PollFlags::IN, !connection.said_all && !must_wait);
            events.set(PollFlags::OUT, connection.wants_to_write());
            fds.push(PollFd::new(connection, events));
        }
        let mut happened = PollEvents::default();
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
        happened.orphaned = orphans_at.is_some_and(|at| !fds[at].revents().is_empty());
        let mut headless = fds[headless_at..first].iter().map(|fd| !fd.revents().is_empty());
        happened.ended |= headless.next().unwrap_or(false);
        happened.readable |= headless.any(|some| some);
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
        self.last_activity.elapsed() > RESTLESS_SPAN
    }

    fn serve_connections(&mut self, happened: &PollEvents) {
        for &(id, heard) in &happened.connections {
            let at = self.connections.all.iter().position(|connection| connection.id == id);
            let Some(at) = at else { continue };
            // Out of the list while its input is handled, so that the handler can change the host.
            let mut connection = self.connections.all.swap_remove(at);
            if heard.writable {
                connection.send_pending();
            }
            if heard.readable {
                let room = self.connections.room_for_requests();
                connection.receive_bytes(room);
                match connection.role {
                    ConnectionRole::Asking => {
                        if let Some(request) = connection.take_request(room) {
                            self.serve_request(&mut connection, request);
                        }
                    }
                    ConnectionRole::Viewing(_) => self.read_viewer(&mut connection),
                    ConnectionRole::Waiting(..) | ConnectionRole::Answered => {}
                }
            }
            connection.dead |= heard.gone && connection.said_all;
            self.connections.all.push(connection);
        }
        self.connections.drop_finished();
    }
}
