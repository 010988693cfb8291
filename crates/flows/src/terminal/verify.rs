//! Whether a session's log is whole, and as it was written.

use host::log::{self, LogReader};
use model::hosted::HostFault;
use model::hosted::wire::VerifyResult;

use super::{HostedSession, cannot_read};

/// Reads the whole log and holds it against its chain of hashes.
pub fn verify_log(session: &HostedSession) -> Result<VerifyResult, HostFault> {
    let path = session.directory.join(log::LOG_FILE);
    let io = |error: std::io::Error| cannot_read(&path, &error);
    let chained = log::verify_chain(&path, &session.directory.join(log::CHAIN_FILE)).map_err(io)?;
    let mut reader = LogReader::open(&session.directory).map_err(io)?;
    let mut events = 0;
    while reader.next_event().map_err(io)?.is_some() {
        events += 1;
    }
    let mut problems: Vec<String> = reader.problems.iter().map(ToString::to_string).collect();
    // A host may be in the middle of a line.
    if let Some(bytes) = reader.torn.filter(|_| !session.asks_host()) {
        problems.push(format!("at byte {}: a torn last event of {bytes} bytes", reader.offset()));
    }
    let broken = chained.as_ref().and_then(|chained| chained.broken.clone());
    problems.extend(broken.iter().cloned());
    Ok(VerifyResult {
        session_id: session.id.clone(),
        sound: problems.is_empty(),
        events,
        bytes: reader.offset(),
        chained_bytes: chained.as_ref().map_or(0, |chained| chained.bytes),
        chain_holds: chained.is_some().then_some(broken.is_none()),
        problems,
    })
}
