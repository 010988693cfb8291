//! The clock: the only place that asks what time it is, and what remembers whether it was set.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::liveness::{ClockReading, WallClock};
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

/// The time since boot, suspension included: a clock that nobody can set.
pub fn boottime() -> Duration {
    let time = rustix::time::clock_gettime(BOOTTIME);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The processor time that the calling thread has used.
pub fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The file in the cache directory that holds the reading of the clock.
const READING_FILE: &str = "clock";

/// Where the reading of the clock is kept. One place for the whole process, as there is one clock.
static READING_PATH: OnceLock<PathBuf> = OnceLock::new();

/// From now on every observer compares the wall clock with the reading kept in this cache directory,
/// and keeps one there. Without it, and whenever the file is lost, the clock proves nothing: that
/// leaves more in doubt, and never calls anything dead.
pub fn keep_readings_in(cache: &Path) {
    READING_PATH.get_or_init(|| cache.join(READING_FILE));
}

/// What is known of the wall clock, given when this boot began by the clock as it is set now.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "start times are absolute there"))]
pub(crate) fn compare_with_kept(boot_id: &str, booted_at: Time) -> WallClock {
    match READING_PATH.get() {
        Some(path) => compare_with(path, boot_id, booted_at),
        None => WallClock { booted_at: Some(booted_at), ..WallClock::default() },
    }
}

fn compare_with(path: &Path, boot_id: &str, booted_at: Time) -> WallClock {
    let kept = read_reading(path);
    // As exact as it is written.
    let since_boot = Duration::from_millis(model::time::millis(boottime()));
    let reading =
        ClockReading::first(boot_id.to_owned(), since_boot, booted_at).after(kept.clone());
    let written = kept.as_ref() == Some(&reading) || write_reading(path, &reading).is_some();
    match written {
        true => reading.seen_from(booted_at),
        // What is not kept was not watched: the next command would know nothing of a change.
        false => WallClock { booted_at: Some(booted_at), ..WallClock::default() },
    }
}

/// One line: the boot, the milliseconds since it, when it began, the earliest it was said to begin.
fn write_reading(path: &Path, reading: &ClockReading) -> Option<()> {
    let ClockReading { boot_id, since_boot, booted_at, earliest_boot } = reading;
    let (since, begun) = (since_boot.as_millis(), booted_at.millis());
    let line = format!("{boot_id} {since} {begun} {}\n", earliest_boot.millis());
    crate::private::create_private_dir(path.parent()?).ok()?;
    crate::atomic::replace(path, line.as_bytes()).ok()
}

fn read_reading(path: &Path) -> Option<ClockReading> {
    const MOST: u64 = 256;
    let mut line = String::new();
    crate::private::open_private(path).ok()?.take(MOST).read_to_string(&mut line).ok()?;
    let mut words = line.strip_suffix('\n')?.split(' ');
    let boot_id = words.next()?.to_owned();
    let since_boot = Duration::from_millis(words.next()?.parse().ok()?);
    let booted_at = Time::from_millis(words.next()?.parse().ok()?);
    let earliest_boot = Time::from_millis(words.next()?.parse().ok()?);
    let whole = words.next().is_none() && earliest_boot <= booted_at;
    whole.then_some(ClockReading { boot_id, since_boot, booted_at, earliest_boot })
}

/// Sleeps until [`boottime`] says `deadline`; a suspended machine wakes up late, not never.
pub fn sleep_until_boottime(deadline: Duration) {
    while boottime() < deadline {
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
    std::thread::sleep(deadline.saturating_sub(boottime()).min(Duration::from_secs(60)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_after_its_time_and_not_before() {
        let deadline = boottime() + Duration::from_millis(30);
        sleep_until_boottime(deadline);
        assert!(boottime() >= deadline);
        sleep_until_boottime(Duration::ZERO);
    }

    #[test]
    fn h1_the_clock_is_watched_from_the_first_look_and_anew_after_a_step() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("cache/clock");
        let began = Time::from_millis(1_000_000_000);
        let look = |boot: &str, booted_at: Time| compare_with(&path, boot, booted_at);
        let first = look("a", began);
        let since = first.steady_since.unwrap();
        assert!(boottime() >= since);
        // A second look, and one a little off, know the clock since the first.
        assert_eq!(look("a", began), first);
        assert_eq!(look("a", began.plus(Duration::from_millis(900))).steady_since, Some(since));
        sleep_until_boottime(boottime() + Duration::from_millis(2));
        let stepped = look("a", began.plus(Duration::from_secs(5)));
        assert!(stepped.steady_since.unwrap() > since);
        assert_eq!(stepped.earliest_boot, Some(began));
        // Set back again: that is a step, too.
        sleep_until_boottime(boottime() + Duration::from_millis(2));
        assert!(look("a", began).steady_since > stepped.steady_since);
        // Another boot starts anew.
        assert_eq!(
            look("b", began.plus(Duration::from_secs(9))).earliest_boot,
            Some(began.plus(Duration::from_secs(9)))
        );
    }

    #[test]
    fn h1_a_reading_that_is_lost_damaged_or_not_ours_alone_proves_nothing() {
        use std::os::unix::fs::PermissionsExt;

        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("clock");
        std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let began = Time::from_millis(1_000_000_000);
        for text in ["", "a 5 1000000000 1000000000", "a x 1 1\n", "a 5 1 2\n", "a 5 1 1 1\n"] {
            crate::atomic::replace(&path, text.as_bytes()).unwrap();
            let before = Duration::from_millis(model::time::millis(boottime()));
            let clock = compare_with(&path, "a", began);
            assert!(clock.steady_since.unwrap() >= before, "{text:?}");
        }
        // A file that others may write to could say that the clock was watched all along.
        std::fs::write(&path, "a 0 1000000000 1000000000\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(compare_with(&path, "a", began).steady_since.unwrap() > Duration::ZERO);
        // Nothing can be kept: nothing is known.
        let nowhere = std::path::Path::new("/proc/clock");
        assert_eq!(compare_with(nowhere, "a", began).steady_since, None);
    }
}
