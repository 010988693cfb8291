//! How a session ends: by itself, or on request, and then always.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};
use sys::dropped::NoteDropped;

use model::hosted::{EXIT_CODE_OF_A_SIGNAL, LogFact};
use model::status::Status;
use model::time::Time;
use sys::proc::Signal;

use super::host::Host;
use crate::files::Durability;

/// How long each request to end is given before the next, stronger one.
const END_STEP_TIMEOUT: Duration = Duration::from_millis(1500);

/// How much is still read of a program that has ended; others may have its terminal open and write
/// on and on.
const LAST_WORDS: usize = 64;

/// An end that was asked for.
#[derive(Debug)]
pub(super) struct Ending {
    step: EndingStep,
    next: Instant,
    becomes: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndingStep {
    HangUp,
    Terminate,
    Kill,
    /// Nothing more can be done: a program that even this does not end is stuck in the kernel.
    Leave,
}

impl Ending {
    /// When the next step is due.
    pub(super) const fn next_step_at(&self) -> Instant {
        self.next
    }
}

impl Host {
    /// Ends the session on request.
    pub(super) fn destroy_session(&mut self, force: bool) {
        self.begin_ending(
            if force { EndingStep::Kill } else { EndingStep::HangUp },
            Status::Destroyed,
        );
    }

    fn begin_ending(&mut self, step: EndingStep, becomes: Status) {
        if let Some(ending) = &mut self.ending {
            // Asked again: what was asked for first goes on, but not more slowly.
            ending.becomes = becomes;
            if step != EndingStep::Kill
                || matches!(ending.step, EndingStep::Kill | EndingStep::Leave)
            {
                return;
            }
        }
        self.ending = Some(Ending { step, next: Instant::now() + END_STEP_TIMEOUT, becomes });
        if becomes.is_destroyed() && !self.manifest.status.is_terminal() {
            self.manifest.status = Status::Destroying;
            self.write_manifest(Durability::System);
        }
        self.send_end(step);
    }

    fn send_end(&self, step: EndingStep) {
        let Some(terminal) = &self.terminal else { return };
        let signal = match step {
            EndingStep::HangUp => Signal::Hangup,
            EndingStep::Terminate => Signal::Terminate,
            EndingStep::Kill | EndingStep::Leave => Signal::Kill,
        };
        terminal
            .program
            .signal_group(&terminal.master, signal)
            .note_dropped("signalling the program");
        // What is stopped can neither hang up nor terminate before it goes on.
        terminal
            .program
            .signal_group(&terminal.master, Signal::Continue)
            .note_dropped("waking the program");
    }

    /// Goes on with an end that takes too long; hangs up a session that was idle too long.
    pub(super) fn check_ending(&mut self, now: Instant) {
        if let Some(until) = self.idle_until().filter(|until| *until <= now) {
            let _ = until;
            self.begin_ending(EndingStep::HangUp, Status::Exited);
        }
        let Some(ending) = self.ending.as_mut().filter(|ending| ending.next <= now) else { return };
        ending.next = now + END_STEP_TIMEOUT;
        ending.step = match ending.step {
            EndingStep::HangUp => EndingStep::Terminate,
            EndingStep::Terminate => EndingStep::Kill,
            EndingStep::Kill | EndingStep::Leave => EndingStep::Leave,
        };
        let step = ending.step;
        self.send_end(step);
        if step == EndingStep::Leave {
            self.record_end(None, None, sys::clock::now());
        }
    }

    /// When the session has been idle for too long.
    pub(super) fn idle_until(&self) -> Option<Instant> {
        let millis = self.manifest.idle_timeout_ms.filter(|_| self.ending.is_none())?;
        self.last_activity.checked_add(Duration::from_millis(millis))
    }

    /// The program has ended: its last words, then how it ended.
    pub(super) fn program_ended(&mut self) {
        for _ in 0..LAST_WORDS {
            if !self.read_terminal(true) {
                break;
            }
        }
        self.release_held(true);
        let now = sys::clock::now();
        let Some(terminal) = self.terminal.take() else { return };
        if self.ending.is_some() {
            // Those of its group that did not listen. Its number still means it: it is not reaped.
            terminal
                .program
                .signal_group(&terminal.master, Signal::Kill)
                .note_dropped("killing the program");
        }
        let (code, signal) = match terminal.program.reap() {
            Ok(status) => match status.signal() {
                Some(signal) => (Some(EXIT_CODE_OF_A_SIGNAL), Some(signal.to_string())),
                None => (status.code(), None),
            },
            Err(_) => (None, None),
        };
        self.record_end(code, signal, now);
    }

    /// Writes down how it ended. Nobody is told before it stands in the log and the manifest.
    pub(super) fn record_end(&mut self, code: Option<i32>, signal: Option<String>, now: Time) {
        self.terminal = None;
        self.log.push(now, &LogFact::Exit { exit_code: code, exit_signal: signal.clone() });
        self.log.flush(now);
        self.manifest.exit_code = code;
        self.manifest.exit_signal = signal;
        self.manifest.status = self.ending.as_ref().map_or(Status::Exited, |ending| ending.becomes);
        sys::pause::pause_at("host-before-end-is-written");
        self.write_manifest(Durability::System);
        self.over = true;
        self.answer_all(Instant::now());
        self.connections.say_goodbye(self.manifest.termination_category().as_str());
    }

    /// Leaves nothing behind but files that will be there tomorrow.
    pub(super) fn leave_cleanly(&mut self) {
        // From now on the manifest answers, not the host.
        #[expect(clippy::disallowed_methods, reason = "the socket of this process")]
        sys::socket::abandon_socket(&self.socket);
        self.write_keyframe();
        self.log.close(sys::clock::now());
        // Not written again: once it says that the session is over it belongs to others too.
        sys::pause::pause_at("host-before-leaving");
        self.files.settle_on_disk().note_dropped("getting the session to the disk");
    }
}
