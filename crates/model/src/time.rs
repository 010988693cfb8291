//! A point in time, to the millisecond, as agents write it and programs read it.

use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Reads an RFC 3339 time stamp; anything else is `None`, never a guess.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|t| Self(t.as_millisecond()))
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
            serializer.collect_str(self)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_with_milliseconds_and_read_back() {
        let time = Time::parse("2026-11-15T17:53:44.662Z").unwrap();
        assert_eq!(time.millis(), 1_794_765_224_662);
        assert_eq!(time.to_string(), "2026-11-15T17:53:44.662Z");
        assert_eq!(
            Time::parse("2026-11-15T18:53:44+01:00").unwrap().to_string(),
            "2026-11-15T17:53:44.000Z"
        );
        assert_eq!(Time::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
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
