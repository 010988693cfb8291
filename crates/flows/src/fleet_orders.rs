//! The journal of operators' orders to this home (idempotency records), and the outcome of each.

use std::path::Path;

use model::fleet_order::{ORDER_JOURNAL, OrderJournal, OrderState};
use model::wire::OutcomeResult;
use sys::private::PrivateFileFault;

/// The largest journal.
const MOST_JOURNAL_BYTES: u64 = 4 << 20;

/// Looks an order up. One that was never noted was never begun.
pub fn read_outcome(home: &Path, id: &str) -> std::io::Result<OutcomeResult> {
    let journal = read_journal(home)?;
    let order = journal.find(id).filter(|entry| entry.state != OrderState::Void).cloned();
    Ok(OutcomeResult { id: id.to_owned(), state: journal.outcome_of(None, id), order })
}

fn read_journal(home: &Path) -> std::io::Result<OrderJournal> {
    let path = home.join(ORDER_JOURNAL);
    let name = path.file_name().and_then(|name| name.to_str());
    let (Some(directory), Some(name)) = (path.parent(), name) else {
        return Ok(OrderJournal::default());
    };
    if !directory.exists() {
        return Ok(OrderJournal::default());
    }
    let directory = sys::private::open_own_dir(directory)?;
    match directory.read_private(name, MOST_JOURNAL_BYTES) {
        Ok((bytes, _)) => Ok(serde_json::from_slice(&bytes)?),
        Err(PrivateFileFault::Missing) => Ok(OrderJournal::default()),
        Err(fault) => Err(std::io::Error::other(format!("{}: {fault}", path.display()))),
    }
}
