//! The clock: the only place that asks what time it is.

use std::time::{SystemTime, UNIX_EPOCH};

use model::time::Time;

/// The wall-clock time. A clock set before 1970 reads as 1970.
pub fn now() -> Time {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}
