//! The conversation of a session, whichever agent held it.

use adapters::{ReadError, TranscriptSource};
use model::conversation::ConversationEntry;

/// Reads the conversation from `position` on; returns where to go on later.
pub fn read_conversation(
    agent: &str,
    source: &TranscriptSource,
    position: u64,
    say: &mut dyn FnMut(ConversationEntry),
) -> Result<u64, ReadError> {
    match adapters::by_id(agent) {
        Some(adapter) => adapter.read_conversation(source, position, say),
        None => Ok(position),
    }
}
