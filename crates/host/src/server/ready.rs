//! Readiness of a program for a text: it has left canonical mode, asked for brackets around what is
//! pasted, and its screen has come to rest.
//!
//! What is typed before that is echoed by the terminal and lost, or stays unsent in the composer. A screen
//! that never rests does not hold a program back for long: something may move on it all the time.

use std::time::{Duration, Instant};

use model::hosted::wire::{ReadyParams, ReadyResult};

use super::host::Host;
use super::methods::internal_fault;
use super::wait::Waiter;
use crate::timeouts::{DRAWING_SPAN, MODES_CHECK_INTERVAL, STILL_SPAN};

/// A client that waits until the program takes a text.
#[derive(Debug)]
pub(super) struct ReadyWait {
    deadline: Instant,
    look_again: Option<Instant>,
    /// Since when the modes are right, and the screen with the time of its last change.
    seen: Option<(Instant, u64, Instant)>,
}

impl ReadyWait {
    pub(super) fn new(params: ReadyParams, now: Instant) -> Self {
        let timeout = Duration::from_millis(params.timeout_ms);
        // Looked at in the same turn, in case it is ready already.
        Self { deadline: now + timeout, look_again: Some(now), seen: None }
    }

    pub(super) fn next_check_at(&self) -> Instant {
        self.look_again.map_or(self.deadline, |at| at.min(self.deadline))
    }

    /// Whether it is over: ready or not in time.
    fn check_modes(&mut self, host: ModesNow, now: Instant) -> Option<bool> {
        if !(host.brackets && host.left_canonical && host.shows_something) {
            self.seen = None;
            self.look_again = host.brackets.then_some(now + MODES_CHECK_INTERVAL);
            return (now >= self.deadline).then_some(false);
        }
        let (since, changed) = match self.seen {
            Some((since, screen, changed)) if screen == host.screen => (since, changed),
            Some((since, ..)) => (since, now),
            None => (now, now),
        };
        self.seen = Some((since, host.screen, changed));
        let rests_at = (changed + STILL_SPAN).min(since + DRAWING_SPAN);
        self.look_again = Some(rests_at);
        match now >= rests_at {
            true => Some(true),
            false => (now >= self.deadline).then_some(false),
        }
    }
}

/// What a program has made of its terminal.
#[derive(Clone, Copy)]
struct ModesNow {
    brackets: bool,
    left_canonical: bool,
    /// An empty screen has no composer: some programs set their terminal up seconds before they draw.
    shows_something: bool,
    screen: u64,
}

impl Host {
    /// Answers those who wait until the program takes a text.
    pub(super) fn check_readiness(&mut self, now: Instant, over: bool) {
        if !self.connections.waiters().any(|waiter| matches!(waiter, Waiter::Ready(_))) {
            return;
        }
        let screen = self.screen.rows().join("\n").trim_end().to_owned();
        let modes = ModesNow {
            brackets: self.screen.modes().bracketed_paste,
            left_canonical: self.has_left_canonical_mode(),
            shows_something: !screen.trim_start().is_empty(),
            screen: self.screen.generation(),
        };
        let unsent = self.submissions.has_unsent();
        let enters = self.submissions.enters();
        let since_enter = self.submissions.since_enter(now).map(model::time::whole_millis);
        self.connections.answer_ready(|waiter, _| {
            let Waiter::Ready(wait) = waiter else { return None };
            let ready = if over { false } else { wait.check_modes(modes, now)? };
            let result = ReadyResult {
                ready,
                ended: over,
                screen: screen.clone(),
                counts_enters: true,
                enters: Some(enters),
                unsent,
                since_enter_ms: since_enter,
            };
            Some(serde_json::to_value(result).map_err(internal_fault))
        });
    }
}
