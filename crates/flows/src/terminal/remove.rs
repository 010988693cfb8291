//! Removing a session's files: the one place that does, and that asks whether it may.

use std::time::{Duration, Instant};

use model::hosted::{Code, Fault};

use super::Session;

/// How long a host may take to leave.
const PATIENCE: Duration = Duration::from_secs(3);

/// Removes everything of a session that is over and whose host is proven gone. Gives the bytes that
/// were freed. What may not go is refused with the reason.
pub fn remove_session_dir(session: &Session) -> Result<u64, Fault> {
    let session = session.again().ok_or_else(|| refusal("missing or unreadable manifest"))?;
    if !session.status().is_collectable() {
        return Err(refusal("session host is still alive"));
    }
    // A host that has written the end down is on its way out; a moment later it is gone.
    let until = Instant::now() + PATIENCE;
    while session.holder.is_some() && !session.host_liveness().is_dead() {
        if !session.host_liveness().is_alive() || Instant::now() > until {
            return Err(refusal("session host is still alive"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let bytes = size_of(&session.directory);
    std::fs::remove_dir_all(&session.directory)
        .map_err(|error| super::cannot_write(&session.directory, &error))?;
    Ok(bytes)
}

fn refusal(reason: &str) -> Fault {
    Fault::new(Code::SessionNotRunning, reason)
}

/// The bytes of all files below a directory; links are not followed.
pub fn size_of(directory: &std::path::Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => size_of(&entry.path()),
            Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |file| file.len()),
            _ => 0,
        })
        .sum()
}
