//! The stream of events: read from the store, followed by being told of changes.

use std::path::Path;

use model::wire::EventView;
use store::state::{StateError, StateStore};
use sys::watch::DirectoryWatch;

/// How many events are read at once.
const EVENTS_PER_READ: usize = 500;

/// Why the stream cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum EventsError {
    /// The store said no.
    #[error(transparent)]
    State(#[from] StateError),
    /// Changes cannot be followed.
    #[error("cannot follow the store: {0}")]
    Watch(#[from] std::io::Error),
    /// The home is not ours alone.
    #[error(transparent)]
    NotPrivate(#[from] sys::private::PrivateError),
}

/// Hands out every event after `cursor`, and with `follow` goes on until `each` says stop.
pub fn read_events(
    home: &Path,
    mut cursor: i64,
    follow: bool,
    each: &mut dyn FnMut(EventView) -> bool,
) -> Result<(), EventsError> {
    let watch = match follow {
        true => {
            sys::private::create_private_dir(home)?;
            Some(DirectoryWatch::watch_directory(home)?)
        }
        false => None,
    };
    let mut state = None;
    loop {
        if state.is_none() {
            state = StateStore::open_read_only(home)?;
        }
        while let Some(open) = &state {
            let events = open.events_after(cursor, EVENTS_PER_READ)?;
            if events.is_empty() {
                break;
            }
            for event in events {
                cursor = event.cursor;
                if !each(event) {
                    return Ok(());
                }
            }
        }
        match &watch {
            None => return Ok(()),
            Some(watch) => watch.wait()?,
        }
    }
}

/// The cursor of the newest event; 0 when there is none.
pub fn newest_cursor(home: &Path) -> Result<i64, StateError> {
    StateStore::open_read_only(home)?.map_or(Ok(0), |state| state.newest_event())
}
