//! The wall clock's reading of this boot, kept in the cache: whether the clock was set since.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use model::liveness::{ClockReading, WallClock};
use model::time::Time;

use crate::clock::time_since_boot;
use crate::dropped::NoteDropped;

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
    let since_boot = Duration::from_millis(model::time::whole_millis(time_since_boot()));
    let reading = ClockReading::first_reading(boot_id.to_owned(), since_boot, booted_at)
        .after_kept(kept.clone());
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
    let (since, begun) = (since_boot.as_millis(), booted_at.as_millis());
    let line = format!("{boot_id} {since} {begun} {}\n", earliest_boot.as_millis());
    crate::private::create_private_dir(path.parent()?).ok_or_note("the reading of the clock")?;
    crate::atomic::write_unsynced(path, line.as_bytes()).ok_or_note("the reading of the clock")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::sleep_until_boottime;

    #[test]
    fn h1_the_clock_is_watched_from_the_first_look_and_anew_after_a_step() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("cache/clock");
        let began = Time::from_millis(1_000_000_000);
        let look = |boot: &str, booted_at: Time| compare_with(&path, boot, booted_at);
        let first = look("a", began);
        let since = first.steady_since.unwrap();
        assert!(time_since_boot() >= since);
        // A second look, and one a little off, know the clock since the first.
        assert_eq!(look("a", began), first);
        assert_eq!(look("a", began.plus(Duration::from_millis(900))).steady_since, Some(since));
        sleep_until_boottime(time_since_boot() + Duration::from_millis(2));
        let stepped = look("a", began.plus(Duration::from_secs(5)));
        assert!(stepped.steady_since.unwrap() > since);
        assert_eq!(stepped.earliest_boot, Some(began));
        // Set back again: that is a step, too.
        sleep_until_boottime(time_since_boot() + Duration::from_millis(2));
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
            crate::atomic::write_unsynced(&path, text.as_bytes()).unwrap();
            let before = Duration::from_millis(model::time::whole_millis(time_since_boot()));
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
