//! The event stream: read from the store, followed by watching its directory.

use std::path::Path;

use model::wire::EventView;
use store::state::{StateError, StateStore};
use sys::watch::{DirectoryWatch, WatchLimitError};
use sys::watch_set::ASK_INTERVAL;

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

/// How new events are noticed.
enum EventsFollow {
    /// They are not.
    Never,
    /// By being told.
    Told(DirectoryWatch),
    /// By asking, because the kernel's watches have run out.
    Asked,
}

impl EventsFollow {
    fn of_home(home: &Path, notice: &mut dyn FnMut(&str)) -> Result<Self, EventsError> {
        sys::private::create_private_dir(home)?;
        match DirectoryWatch::watch_directory(home) {
            Ok(watch) => Ok(Self::Told(watch)),
            Err(error) => match WatchLimitError::from_error(&error) {
                Some(limit) => {
                    notice(&format!("asks every second: {limit}; {}", limit.remedy()));
                    Ok(Self::Asked)
                }
                None => Err(error.into()),
            },
        }
    }
}

/// How what comes next is followed.
#[expect(missing_debug_implementations, reason = "it holds what its caller does")]
pub struct FollowTerms<'a> {
    /// Whether somebody still listens: looked at every second, where it is given.
    pub is_heard: Option<&'a dyn Fn() -> bool>,
    /// Is told why new events have to be asked for, if they have.
    pub notice: &'a mut dyn FnMut(&str),
}

/// Hands out every event after `cursor`, and with `follow` goes on until `each` says stop, or nobody listens.
pub fn read_events(
    home: &Path,
    mut cursor: i64,
    follow: Option<FollowTerms<'_>>,
    each: &mut dyn FnMut(EventView) -> bool,
) -> Result<(), EventsError> {
    let (follow, is_heard) = match follow {
        Some(terms) => (EventsFollow::of_home(home, terms.notice)?, terms.is_heard),
        None => (EventsFollow::Never, None),
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
        match &follow {
            EventsFollow::Never => return Ok(()),
            EventsFollow::Told(watch) => {
                while !watch.wait_for(is_heard.map(|_| ASK_INTERVAL))? {
                    if is_heard.is_some_and(|is_heard| !is_heard()) {
                        return Ok(());
                    }
                }
            }
            EventsFollow::Asked => std::thread::sleep(ASK_INTERVAL),
        }
        if is_heard.is_some_and(|is_heard| !is_heard()) {
            return Ok(());
        }
    }
}

/// The cursor of the newest event; 0 when there is none.
pub fn newest_cursor(home: &Path) -> Result<i64, StateError> {
    StateStore::open_read_only(home)?.map_or(Ok(0), |state| state.newest_event())
}
