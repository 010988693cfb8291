//! Results that are dropped on purpose are noted at `debug`: they are there when a fault is looked for, and
//! without a log it costs one atomic load.

use std::fmt::Display;

/// A result whose error changes nothing for the caller.
pub trait NoteDropped {
    /// Drops it, and notes what failed if it did.
    fn note_dropped(self, what: &'static str);
}

impl<T, E: Display> NoteDropped for Result<T, E> {
    fn note_dropped(self, what: &'static str) {
        if let Err(error) = self {
            tracing::debug!(%error, "dropped: {what}");
        }
    }
}
