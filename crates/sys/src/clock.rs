//! The clock: the only place that asks what time it is.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::time::Time;

/// The wall-clock time. A clock set before 1970 reads as 1970.
pub fn now() -> Time {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// The day of a time in the zone of this machine, as `2026-11-15`.
pub fn local_day(time: Time) -> String {
    match jiff::Timestamp::from_millisecond(time.as_millis()) {
        Ok(stamp) => stamp.to_zoned(jiff::tz::TimeZone::system()).date().to_string(),
        Err(_) => "unknown".to_owned(),
    }
}

/// The first moment of a local day that is written `2026-11-15`.
pub fn start_of_local_day(day: &str) -> Option<Time> {
    let date: jiff::civil::Date = day.parse().ok()?;
    let start = date.to_zoned(jiff::tz::TimeZone::system()).ok()?;
    Some(Time::from_millis(start.timestamp().as_millisecond()))
}

/// A text that no other call gives, here or in another process of this machine.
pub fn unique_suffix(now: Time) -> String {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (pid, nanos) = (std::process::id(), since_epoch.subsec_nanos());
    format!("{:x}-{pid:x}-{nanos:x}-{serial:x}", now.as_millis())
}

/// The time since boot, suspension included: a clock that cannot be set.
pub fn time_since_boot() -> Duration {
    let time = rustix::time::clock_gettime(BOOTTIME);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The processor time that the calling thread has used.
pub fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Sleeps until [`time_since_boot`] says `deadline`; a suspended machine wakes up late, not never.
pub fn sleep_until_boottime(deadline: Duration) {
    while time_since_boot() < deadline {
        sleep_towards(deadline);
    }
}

#[cfg(target_os = "linux")]
const BOOTTIME: rustix::time::ClockId = rustix::time::ClockId::Boottime;
/// On macOS this clock counts suspension too.
#[cfg(not(target_os = "linux"))]
const BOOTTIME: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

#[cfg(target_os = "linux")]
fn sleep_towards(deadline: Duration) {
    let until = rustix::thread::Timespec {
        tv_sec: i64::try_from(deadline.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: deadline.subsec_nanos().into(),
    };
    // Interrupted, or a clock that this kernel cannot wait for: the caller looks again.
    if rustix::thread::clock_nanosleep_absolute(BOOTTIME, &until).is_err() {
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(not(target_os = "linux"))]
fn sleep_towards(deadline: Duration) {
    // Sleeping does not count suspension: look again from time to time.
    std::thread::sleep(deadline.saturating_sub(time_since_boot()).min(Duration::from_secs(60)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_after_its_time_and_not_before() {
        let deadline = time_since_boot() + Duration::from_millis(30);
        sleep_until_boottime(deadline);
        assert!(time_since_boot() >= deadline);
        sleep_until_boottime(Duration::ZERO);
    }
}
