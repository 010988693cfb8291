//! How far long work has come: one line on stderr, only where a person sees it.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use crate::timeouts::PROGRESS_INTERVAL;

/// A line that is written over and over, and gone at the end.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    what: &'static str,
    last: Instant,
    seen: bool,
    on: bool,
}

impl ProgressLine {
    /// Says nothing yet.
    pub(crate) fn new(what: &'static str) -> Self {
        let on = std::io::stderr().is_terminal() && !crate::env::dumb_terminal();
        Self { what, last: Instant::now(), seen: false, on }
    }

    /// So much is done.
    pub(crate) fn show_progress(&mut self, done: usize, total: usize) {
        if self.on && self.last.elapsed() >= PROGRESS_INTERVAL {
            const WIDTH: usize = 24;
            let full = WIDTH * done / total.max(1);
            let bar = format!("{}{}", "#".repeat(full), "-".repeat(WIDTH - full.min(WIDTH)));
            let mut err = std::io::stderr().lock();
            let _ = write!(err, "\r\x1b[K{} [{bar}] {done}/{total}", self.what);
            let _ = err.flush();
            (self.last, self.seen) = (Instant::now(), true);
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.seen {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}
