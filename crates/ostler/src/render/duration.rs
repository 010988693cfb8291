//! Spans of time as people read and write them.

use std::time::Duration;

use model::time::Time;
pub(crate) use model::time::parse_duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;
const YEAR: u64 = 365 * DAY;

/// A point in time as people read it: local, to the second. Programs get UTC.
pub(crate) fn local_time(time: Time) -> String {
    let Ok(stamp) = jiff::Timestamp::from_millisecond(time.as_millis()) else {
        return time.to_string();
    };
    stamp.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A short age: `now`, `42s`, `5m`, `3h`, `2d`, `6w`, `1y`.
pub(crate) fn short_age(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..2 => "now".to_owned(),
        2..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => format!("{}m", seconds / MINUTE),
        HOUR..DAY => format!("{}h", seconds / HOUR),
        DAY..WEEK => format!("{}d", seconds / DAY),
        WEEK..YEAR => format!("{}w", seconds / WEEK),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// An age as part of a sentence.
pub(crate) fn age_phrase(span: Duration) -> String {
    match short_age(span).as_str() {
        "now" => "just now".to_owned(),
        age => format!("{age} ago"),
    }
}

/// A span exactly, in the largest unit that divides it.
pub(crate) fn exact_span(span: Duration) -> String {
    let seconds = span.as_secs();
    for (unit, letter) in [(WEEK, 'w'), (DAY, 'd'), (HOUR, 'h'), (MINUTE, 'm')] {
        if seconds > 0 && seconds.is_multiple_of(unit) {
            return format!("{}{letter}", seconds / unit);
        }
    }
    format!("{seconds}s")
}

/// As [`parse_duration`], for the command line.
pub(crate) fn from_argument(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .ok_or_else(|| format!("`{text}` is not a duration; write it like 90s, 12h or 30d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let ages = [0, 1, 2, 59, 60, 3599, 3600, 86_399, 86_400, 604_800, 40_000_000];
        let words: Vec<String> = ages.iter().map(|&s| short_age(Duration::from_secs(s))).collect();
        assert_eq!(words, ["now", "now", "2s", "59s", "1m", "59m", "1h", "23h", "1d", "1w", "1y"]);
    }

    #[test]
    fn durations_are_read_and_written() {
        let seconds = |text| parse_duration(text).map(|span| span.as_secs());
        assert_eq!(seconds("90s"), Some(90));
        assert_eq!(seconds("1h30m"), Some(5400));
        assert_eq!(seconds("2d"), Some(172_800));
        for wrong in ["", "h", "5", "5x", "-1h", "1 h", "99999999999999999999s", "5é"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
        assert_eq!(exact_span(Duration::from_secs(5400)), "90m");
        assert_eq!(exact_span(Duration::from_secs(0)), "0s");
    }
}
