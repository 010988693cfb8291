//! Results that are dropped on purpose are noted at `debug`: they are there when a fault is looked for, and
//! without a log it costs one atomic load.

use std::fmt::Display;

/// A result whose error changes nothing for the caller.
pub trait NoteDropped {
    /// What it has when nothing failed.
    type Value;

    /// Drops the error, and notes what failed: `Result::ok` with a trace in the log.
    fn ok_or_note(self, what: &'static str) -> Option<Self::Value>;

    /// Drops all of it, and notes what failed.
    fn note_dropped(self, what: &'static str);
}

impl<T, E: Display> NoteDropped for Result<T, E> {
    type Value = T;

    fn ok_or_note(self, what: &'static str) -> Option<T> {
        self.inspect_err(|error| tracing::debug!(%error, "dropped: {what}")).ok()
    }

    fn note_dropped(self, what: &'static str) {
        self.ok_or_note(what);
    }
}
