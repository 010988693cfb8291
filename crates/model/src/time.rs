//! A point in time, to the millisecond, as agents write it and programs read it.

use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Whole milliseconds; a span that no number holds is as long as the greatest.
pub fn whole_millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since the Unix epoch, UTC.
///
/// Eight bytes, ordered, and written as RFC 3339 with milliseconds wherever people or programs
/// see it; binary formats (the index) keep the integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The time `millis` milliseconds after the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// The time `secs` seconds and `nanos` nanoseconds after the Unix epoch.
    pub const fn from_secs_nanos(secs: i64, nanos: i64) -> Self {
        Self(secs.saturating_mul(1000).saturating_add(nanos / 1_000_000))
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Reads an RFC 3339 time stamp; anything else is `None`, never a guess.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|t| Self(t.as_millisecond()))
    }

    /// The text of a time between 1970 and 9998, as [`fmt::Display`] writes it.
    fn to_rfc3339(self) -> Option<[u8; 24]> {
        const DAY: i64 = 86_400_000;
        if !(0..253_370_764_800_000).contains(&self.0) {
            return None;
        }
        let date = jiff::civil::Date::constant(1970, 1, 1);
        let (days, rest) = (self.0 / DAY, self.0 % DAY);
        let date = date.checked_add(jiff::Span::new().days(days)).ok()?;
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let mut put = |at: usize, digits: usize, mut number: i64| {
            for place in (at..at + digits).rev() {
                text[place] = b'0' + (number % 10) as u8;
                number /= 10;
            }
        };
        put(0, 4, date.year().into());
        put(5, 2, date.month().into());
        put(8, 2, date.day().into());
        put(11, 2, rest / 3_600_000);
        put(14, 2, rest / 60_000 % 60);
        put(17, 2, rest / 1000 % 60);
        put(20, 3, rest % 1000);
        Some(text)
    }

    /// How long before `self` the `earlier` time was; zero when it was not before.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// This time moved back by `span`.
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// This time moved forward by `span`.
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(stamp) => write!(f, "{stamp:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            // A listing writes four times a session: the usual years take a short cut.
            match self.to_rfc3339() {
                Some(text) => serializer.serialize_str(std::str::from_utf8(&text).unwrap_or("")),
                None => serializer.collect_str(self),
            }
        } else {
            serializer.serialize_i64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time"))
        } else {
            i64::deserialize(deserializer).map(Self)
        }
    }
}

impl JsonSchema for Time {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "RFC 3339, UTC, milliseconds",
            "pattern": r"^-?\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$",
        })
    }
}

/// Reads `90s`, `30m`, `2h`, `1d`, `3w` and sums of them such as `1h30m`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut total = 0u64;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = match rest[digits..].chars().next()? {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[digits + 1..];
    }
    Some(Duration::from_secs(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_with_milliseconds_and_read_back() {
        let time = Time::parse("2026-11-15T17:53:44.662Z").unwrap();
        assert_eq!(time.as_millis(), 1_794_765_224_662);
        assert_eq!(time.to_string(), "2026-11-15T17:53:44.662Z");
        assert_eq!(
            Time::parse("2026-11-15T18:53:44+01:00").unwrap().to_string(),
            "2026-11-15T17:53:44.000Z"
        );
        assert_eq!(Time::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn the_short_cut_writes_the_same() {
        let mut millis: i64 = 0;
        while let Some(text) = Time(millis).to_rfc3339() {
            assert_eq!(std::str::from_utf8(&text).unwrap(), Time(millis).to_string());
            millis += 86_400_000 * 37 + 12_345_678_901 % 86_399_999;
        }
        for millis in [0, 951_782_399_999, 951_782_400_000, 1_709_164_800_000, 253_370_764_799_999]
        {
            let text = Time(millis).to_rfc3339().unwrap();
            assert_eq!(std::str::from_utf8(&text).unwrap(), Time(millis).to_string());
        }
        assert_eq!(Time(-1).to_rfc3339(), None);
        assert_eq!(serde_json::to_string(&Time(-1)).unwrap(), "\"1969-12-31T23:59:59.999Z\"");
    }

    #[test]
    fn garbage_and_absurd_times_never_panic() {
        for text in ["", "yesterday", "2026-11-15", "99999-01-01T00:00:00Z"] {
            assert_eq!(Time::parse(text), None, "{text}");
        }
        assert_eq!(Time::from_millis(i64::MAX).to_string(), format!("{}ms", i64::MAX));
        assert_eq!(Time::from_millis(5).since(Time::from_millis(9)), Duration::ZERO);
    }
}
