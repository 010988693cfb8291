//! The clock: the only place that asks what time it is.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use model::time::Time;

/// The wall-clock time. A clock set before 1970 reads as 1970.
pub fn now() -> Time {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// A text that no other call gives, here or in another process of this machine.
pub fn unique(now: Time) -> String {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (pid, nanos) = (std::process::id(), since_epoch.subsec_nanos());
    format!("{:x}-{pid:x}-{nanos:x}-{serial:x}", now.millis())
}
