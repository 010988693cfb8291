//! Resuming a session: the command that opens its conversation again.

use crate::hooks::quote_word;
use model::session::{Session, SessionKind, is_safe_id};

/// The command that opens a session's conversation again in its agent, if the agent has one. A
/// sub-agent is part of its parent and has none.
pub fn resume_command(session: &Session) -> Option<Vec<String>> {
    let resumable = session.kind == SessionKind::Native
        && session.digest.parent.is_none()
        && is_safe_id(&session.id)
        && !session.id.starts_with('-');
    let adapter = adapters::by_id(session.agent).filter(|_| resumable)?;
    let mut words: Vec<String> = adapter.resume_words().into_iter().map(str::to_owned).collect();
    if words.is_empty() {
        return None;
    }
    words.push(session.id.clone());
    Some(words)
}

/// That command as a line for a shell, in the session's directory.
pub fn resume_line(session: &Session) -> Option<String> {
    let words: Vec<String> = resume_command(session)?.iter().map(|word| quote_word(word)).collect();
    let command = words.join(" ");
    Some(match &session.digest.cwd {
        Some(cwd) => format!("cd {} && {command}", quote_word(cwd)),
        None => command,
    })
}
