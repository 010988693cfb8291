//! One command at a time changes a hub: what it reads, changes, writes and tells the engine belongs together. Without
//! that two that admit somebody at once lose one of them and sign two lists of one version.

use std::path::Path;

use model::helper::{HelperFailure, HelperFailureKind};
use sys::lock::AdvisoryLock;

use crate::fleet_files::read_failure;
use crate::hub::Hub;
use crate::timeouts::HUB_LOCK_TIMEOUT;

/// Held by whoever changes the hub.
const HUB_LOCK: &str = "hub.lock";

/// The hub of this home; nobody else changes it until the lock is dropped.
pub(crate) fn open_to_change(home: &Path) -> Result<(Hub, AdvisoryLock), HelperFailure> {
    let path = Hub::open(home)?.dir.path().join(HUB_LOCK);
    let taken = sys::lock::take_within(&path, HUB_LOCK_TIMEOUT);
    let taken = taken.map_err(|error| read_failure(&path, error))?;
    let lock = taken.into_lock().ok_or_else(|| {
        HelperFailure::new(
            HelperFailureKind::Busy,
            "another command changes the hub",
            "try again when it has ended; nothing was changed",
        )
    })?;
    // Read again: what the other one wrote counts.
    Ok((Hub::open(home)?, lock))
}
