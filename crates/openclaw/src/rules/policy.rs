//! Which maintenance policy holds, and where each value came from.
//!
//! `session.maintenance` of OpenClaw's configuration, with the defaults of its file stores. A value that
//! would change what is removed and cannot be read is an error; the two sizes of the disk budget are
//! read as OpenClaw reads them, and what they were taken for is said.

use std::time::Duration;

use serde_json::Value;

use crate::rules::amount;

const DAY: Duration = Duration::from_secs(86_400);

/// Whether maintenance acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It removes.
    Enforce,
    /// It only says what it would remove.
    Warn,
}

impl Mode {
    /// The word in the configuration.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Warn => "warn",
        }
    }
}

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// OpenClaw's default.
    Default,
    /// OpenClaw's configuration.
    Config,
    /// Follows from another value.
    Derived,
}

impl Origin {
    /// The word for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Config => "config",
            Self::Derived => "derived",
        }
    }
}

/// A value, and where it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// What holds.
    pub value: T,
    /// Where from.
    pub origin: Origin,
}

impl<T> Setting<T> {
    const fn default(value: T) -> Self {
        Self { value, origin: Origin::Default }
    }

    const fn config(value: T) -> Self {
        Self { value, origin: Origin::Config }
    }

    const fn derived(value: T) -> Self {
        Self { value, origin: Origin::Derived }
    }
}

/// The policy that holds for a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Whether maintenance acts.
    pub mode: Setting<Mode>,
    /// Sessions that were last changed before this go.
    pub prune_after: Setting<Duration>,
    /// How many entries are kept.
    pub max_entries: Setting<usize>,
    /// How long transcripts of sessions that began anew are kept; for ever if `None`.
    pub reset_retention: Setting<Option<Duration>>,
    /// The most bytes in the directory; as many as there are if `None`.
    pub max_disk: Setting<Option<u64>>,
    /// What is aimed at when there are more.
    pub high_water: Setting<u64>,
    /// What was ignored or taken for something else.
    pub notes: Vec<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Setting::default(Mode::Enforce),
            prune_after: Setting::default(30 * DAY),
            max_entries: Setting::default(500),
            reset_retention: Setting::derived(Some(30 * DAY)),
            max_disk: Setting::default(None),
            high_water: Setting::derived(0),
            notes: Vec::new(),
        }
    }
}

/// What is wrong with `session.maintenance`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The setting.
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
}

impl std::fmt::Display for PolicyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "session.maintenance{}: {}", self.key, self.reason)
    }
}

impl std::error::Error for PolicyError {}

/// Said of a setting that only databases heed.
const NOTHING_TO_FILES: &str = "means nothing to a file store";

/// Settings of other releases, which mean nothing to a file store.
const OF_OTHER_RELEASES: [&str; 4] =
    ["rotateBytes", "archiveDashboardAfter", "preserveRecent", "coldStorage"];

impl Policy {
    /// Reads `session.maintenance`; without one, the defaults hold.
    pub fn parse(maintenance: Option<&Value>) -> Result<Self, PolicyError> {
        let mut policy = Self::default();
        let settings = match maintenance {
            None => return Ok(policy),
            Some(Value::Object(settings)) => settings,
            Some(other) => return Err(wrong("", &format!("{other} is not an object"))),
        };
        let get = |name: &str| settings.get(name).filter(|value| !value.is_null());
        if let Some(mode) = get("mode") {
            policy.mode = Setting::config(match mode.as_str() {
                Some("enforce") => Mode::Enforce,
                Some("warn") => Mode::Warn,
                _ => return Err(wrong(".mode", &format!("{mode} is neither enforce nor warn"))),
            });
        }
        if let Some(span) = get("pruneAfter") {
            policy.prune_after = Setting::config(positive_span(".pruneAfter", span)?);
        } else if let Some(days) = get("pruneDays") {
            let days = positive(".pruneDays", days)?;
            policy.prune_after = Setting::config(DAY.saturating_mul(days));
        }
        if let Some(count) = get("maxEntries") {
            policy.max_entries = Setting::config(positive(".maxEntries", count)? as usize);
        }
        policy.reset_retention = match get("resetArchiveRetention") {
            None => Setting::derived(Some(policy.prune_after.value)),
            Some(Value::Bool(false)) => Setting::config(None),
            Some(span) => Setting::config(Some(positive_span(".resetArchiveRetention", span)?)),
        };
        policy.read_budget(get("maxDiskBytes"), get("highWaterBytes"));
        for key in settings.keys() {
            match key.as_str() {
                "mode"
                | "pruneAfter"
                | "pruneDays"
                | "maxEntries"
                | "resetArchiveRetention"
                | "maxDiskBytes"
                | "highWaterBytes" => {}
                key if OF_OTHER_RELEASES.contains(&key) => {
                    policy.notes.push(format!("{key} {NOTHING_TO_FILES}"));
                }
                key => return Err(wrong(&format!(".{key}"), "no such setting")),
            }
        }
        Ok(policy)
    }

    /// The same policy for a database (since 2026.8), whose defaults are others.
    #[must_use]
    pub fn for_database(mut self) -> Self {
        const MOST_BYTES: u64 = 10 << 30;
        if self.max_entries.origin == Origin::Default {
            self.max_entries.value = 5000;
        }
        if self.max_disk.origin == Origin::Default {
            self.max_disk.value = Some(MOST_BYTES);
            self.high_water = Setting::derived(MOST_BYTES / 5 * 4);
        }
        if self.reset_retention.origin == Origin::Derived {
            self.reset_retention = Setting::default(None);
        }
        self.notes.retain(|note| !note.ends_with(NOTHING_TO_FILES));
        self
    }

    /// Zero bytes is no budget: taken literally it would remove every session.
    fn read_budget(&mut self, max: Option<&Value>, high: Option<&Value>) {
        let Some(max) = max else { return };
        self.max_disk = Setting::config(match max {
            Value::Bool(false) => None,
            max => match amount::size(max) {
                Some(0) => None,
                Some(bytes) => Some(bytes),
                None => {
                    self.notes.push(format!("maxDiskBytes {max} is not a size: no budget"));
                    None
                }
            },
        });
        let Some(max) = self.max_disk.value else { return };
        let most = (max / 5 * 4 + max % 5 * 4 / 5).max(1);
        self.high_water = match high.map(|high| (high, amount::size(high))) {
            None => Setting::derived(most),
            Some((_, Some(bytes))) => Setting::config(bytes.min(max)),
            Some((high, None)) => {
                self.notes.push(format!("highWaterBytes {high} is not a size: 80 % is aimed at"));
                Setting::derived(most)
            }
        };
    }

    /// From how many entries on an ordinary write applies the cap: in batches, not at every write.
    pub fn high_water_entries(&self) -> usize {
        high_water_entries(self.max_entries.value)
    }
}

/// As [`Policy::high_water_entries`].
pub fn high_water_entries(max: usize) -> usize {
    if max <= 49 { max + 1 } else { max.saturating_add(max.div_ceil(10).max(25)) }
}

fn wrong(key: &str, reason: &str) -> PolicyError {
    PolicyError { key: key.to_owned(), reason: reason.to_owned() }
}

fn positive(key: &str, value: &Value) -> Result<u32, PolicyError> {
    let whole = value.as_f64().filter(|number| number.fract() == 0.0);
    match whole.filter(|number| (1.0..=f64::from(u32::MAX)).contains(number)) {
        Some(number) => Ok(number as u32),
        None => Err(wrong(key, &format!("{value} is not a whole number above 0"))),
    }
}

fn positive_span(key: &str, value: &Value) -> Result<Duration, PolicyError> {
    amount::span(value)
        .filter(|span| !span.is_zero())
        .ok_or_else(|| wrong(key, &format!("{value} is not a span of time, such as \"30d\"")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: Value) -> Result<Policy, PolicyError> {
        Policy::parse(Some(&value))
    }

    #[test]
    fn p4_a_database_has_defaults_of_its_own_and_the_configuration_counts_in_both() {
        let plain = Policy::default().for_database();
        assert_eq!((plain.max_entries.value, plain.max_disk.value), (5000, Some(10 << 30)));
        assert_eq!((plain.high_water.value, plain.reset_retention.value), (8 << 30, None));
        let set = json!({ "maxEntries": 7, "maxDiskBytes": false, "resetArchiveRetention": "1d",
            "preserveRecent": 3 });
        let set = Policy::parse(Some(&set)).unwrap().for_database();
        assert_eq!((set.max_entries.value, set.max_disk.value), (7, None));
        assert_eq!((set.reset_retention.value, set.notes.len()), (Some(DAY), 0));
    }

    #[test]
    fn row_15_and_17_the_cap_is_applied_in_batches() {
        let table = [(1, 2), (49, 50), (50, 75), (250, 275), (500, 550), (5000, 5500)];
        for (max, high) in table {
            assert_eq!(high_water_entries(max), high, "{max}");
        }
    }

    #[test]
    fn row_18_a_cap_of_zero_is_an_error() {
        for cap in [json!(0), json!(-1), json!(1.5), json!("many")] {
            let error = parse(json!({ "maxEntries": cap })).unwrap_err();
            assert!(error.to_string().starts_with("session.maintenance.maxEntries: "), "{error}");
        }
    }

    #[test]
    fn row_47_the_high_water_mark_stays_below_the_budget() {
        let high = |value: Value| parse(value).unwrap().high_water;
        let budget = |high: Value| json!({ "maxDiskBytes": 1000, "highWaterBytes": high });
        assert_eq!(high(budget(json!(5000))), Setting::config(1000));
        assert_eq!(high(json!({ "maxDiskBytes": 1000 })), Setting::derived(800));
        assert_eq!(high(budget(json!("much"))), Setting::derived(800));
        assert_eq!(high(json!({ "maxDiskBytes": 1 })), Setting::derived(1));
        assert_eq!(parse(budget(json!("much"))).unwrap().notes.len(), 1);
    }

    #[test]
    fn row_48_no_bytes_is_no_budget() {
        for max in [json!(0), json!("0"), json!(false), json!("lots")] {
            let policy = parse(json!({ "maxDiskBytes": max, "highWaterBytes": 0 })).unwrap();
            assert_eq!(policy.max_disk.value, None, "{max}");
        }
    }

    #[test]
    fn the_effective_policy_says_where_it_comes_from() {
        let policy =
            parse(json!({ "mode": "warn", "pruneDays": 7, "rotateBytes": "10mb" })).unwrap();
        assert_eq!(policy.mode, Setting::config(Mode::Warn));
        assert_eq!(policy.prune_after, Setting::config(7 * DAY));
        assert_eq!(policy.reset_retention, Setting::derived(Some(7 * DAY)));
        assert_eq!(policy.max_entries, Setting::default(500));
        assert_eq!(policy.notes, ["rotateBytes means nothing to a file store"]);
        let both = parse(json!({ "pruneAfter": "2h", "pruneDays": 7 })).unwrap();
        assert_eq!(both.prune_after.value, Duration::from_secs(7200));
    }

    #[test]
    fn a_wrong_setting_is_named() {
        for (value, key) in [
            (json!({ "pruneAfter": "soon" }), ".pruneAfter"),
            (json!({ "pruneAfter": 0 }), ".pruneAfter"),
            (json!({ "mode": "delete" }), ".mode"),
            (json!({ "pruneafter": "30d" }), ".pruneafter"),
            (json!({ "resetArchiveRetention": true }), ".resetArchiveRetention"),
            (json!([]), ""),
        ] {
            assert_eq!(parse(value).unwrap_err().key, key);
        }
    }
}
