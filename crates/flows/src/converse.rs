//! The conversation of a session, whichever agent held it.

use adapters::{ReadError, Source};
use model::conversation::Entry;

/// Reads the conversation from `position` on; returns where to go on later.
pub fn converse(
    agent: &str,
    source: &Source,
    position: u64,
    say: &mut dyn FnMut(Entry),
) -> Result<u64, ReadError> {
    match adapters::by_id(agent) {
        Some(adapter) => adapter.converse(source, position, say),
        None => Ok(position),
    }
}
