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
pub enum MaintenanceMode {
    Enforce,
    /// It only says what it would remove.
    Warn,
}

impl MaintenanceMode {
    /// The word in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Warn => "warn",
        }
    }
}

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    Default,
    Config,
    /// Follows from another value.
    Derived,
}

impl SettingOrigin {
    /// The word for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Config => "config",
            Self::Derived => "derived",
        }
    }
}

/// A value, and where it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicySetting<T> {
    pub value: T,
    pub origin: SettingOrigin,
}

impl<T> PolicySetting<T> {
    const fn default(value: T) -> Self {
        Self { value, origin: SettingOrigin::Default }
    }

    const fn from_config(value: T) -> Self {
        Self { value, origin: SettingOrigin::Config }
    }

    const fn from_rule(value: T) -> Self {
        Self { value, origin: SettingOrigin::Derived }
    }
}

/// The policy that holds for a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenancePolicy {
    /// Whether maintenance acts.
    pub mode: PolicySetting<MaintenanceMode>,
    /// Sessions that were last changed before this go.
    pub prune_after: PolicySetting<Duration>,
    /// How many entries are kept.
    pub max_entries: PolicySetting<usize>,
    /// How long transcripts of sessions that began anew are kept; for ever if `None`.
    pub reset_retention: PolicySetting<Option<Duration>>,
    /// The most bytes in the directory; as many as there are if `None`.
    pub max_disk: PolicySetting<Option<u64>>,
    /// What is aimed at when there are more.
    pub high_water: PolicySetting<u64>,
    /// What was ignored or taken for something else.
    pub notes: Vec<String>,
}

impl Default for MaintenancePolicy {
    fn default() -> Self {
        Self {
            mode: PolicySetting::default(MaintenanceMode::Enforce),
            prune_after: PolicySetting::default(30 * DAY),
            max_entries: PolicySetting::default(500),
            reset_retention: PolicySetting::from_rule(Some(30 * DAY)),
            max_disk: PolicySetting::default(None),
            high_water: PolicySetting::from_rule(0),
            notes: Vec::new(),
        }
    }
}

/// What is wrong with `session.maintenance`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenancePolicyError {
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
}

impl std::fmt::Display for MaintenancePolicyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "session.maintenance{}: {}", self.key, self.reason)
    }
}

impl std::error::Error for MaintenancePolicyError {}

/// Said of a setting that only databases heed.
const NOTHING_TO_FILES: &str = "means nothing to a file store";

/// Settings of other releases, which mean nothing to a file store.
const OF_OTHER_RELEASES: [&str; 4] =
    ["rotateBytes", "archiveDashboardAfter", "preserveRecent", "coldStorage"];

impl MaintenancePolicy {
    /// Reads `session.maintenance`; without one, the defaults hold.
    pub fn parse(maintenance: Option<&Value>) -> Result<Self, MaintenancePolicyError> {
        let mut policy = Self::default();
        let settings = match maintenance {
            None => return Ok(policy),
            Some(Value::Object(settings)) => settings,
            Some(other) => return Err(policy_error("", &format!("{other} is not an object"))),
        };
        let get = |name: &str| settings.get(name).filter(|value| !value.is_null());
        if let Some(mode) = get("mode") {
            policy.mode = PolicySetting::from_config(match mode.as_str() {
                Some("enforce") => MaintenanceMode::Enforce,
                Some("warn") => MaintenanceMode::Warn,
                _ => {
                    return Err(policy_error(
                        ".mode",
                        &format!("{mode} is neither enforce nor warn"),
                    ));
                }
            });
        }
        if let Some(span) = get("pruneAfter") {
            policy.prune_after = PolicySetting::from_config(positive_span(".pruneAfter", span)?);
        } else if let Some(days) = get("pruneDays") {
            let days = parse_positive(".pruneDays", days)?;
            policy.prune_after = PolicySetting::from_config(DAY.saturating_mul(days));
        }
        if let Some(count) = get("maxEntries") {
            policy.max_entries =
                PolicySetting::from_config(parse_positive(".maxEntries", count)? as usize);
        }
        policy.reset_retention = match get("resetArchiveRetention") {
            None => PolicySetting::from_rule(Some(policy.prune_after.value)),
            Some(Value::Bool(false)) => PolicySetting::from_config(None),
            Some(span) => {
                PolicySetting::from_config(Some(positive_span(".resetArchiveRetention", span)?))
            }
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
                key => return Err(policy_error(&format!(".{key}"), "no such setting")),
            }
        }
        Ok(policy)
    }

    /// The same policy for a database (since 2026.8), whose defaults are others.
    #[must_use]
    pub fn for_database(mut self) -> Self {
        const MOST_BYTES: u64 = 10 << 30;
        if self.max_entries.origin == SettingOrigin::Default {
            self.max_entries.value = 5000;
        }
        if self.max_disk.origin == SettingOrigin::Default {
            self.max_disk.value = Some(MOST_BYTES);
            self.high_water = PolicySetting::from_rule(MOST_BYTES / 5 * 4);
        }
        if self.reset_retention.origin == SettingOrigin::Derived {
            self.reset_retention = PolicySetting::default(None);
        }
        self.notes.retain(|note| !note.ends_with(NOTHING_TO_FILES));
        self
    }

    /// Zero bytes is no budget: taken literally it would remove every session.
    fn read_budget(&mut self, max: Option<&Value>, high: Option<&Value>) {
        let Some(max) = max else { return };
        self.max_disk = PolicySetting::from_config(match max {
            Value::Bool(false) => None,
            max => match amount::parse_size(max) {
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
        self.high_water = match high.map(|high| (high, amount::parse_size(high))) {
            None => PolicySetting::from_rule(most),
            Some((_, Some(bytes))) => PolicySetting::from_config(bytes.min(max)),
            Some((high, None)) => {
                self.notes.push(format!("highWaterBytes {high} is not a size: 80 % is aimed at"));
                PolicySetting::from_rule(most)
            }
        };
    }

    /// From how many entries on an ordinary write applies the cap: in batches, not at every write.
    pub fn high_water_entries(&self) -> usize {
        high_water_entries(self.max_entries.value)
    }
}

/// As [`MaintenancePolicy::high_water_entries`].
pub fn high_water_entries(max: usize) -> usize {
    if max <= 49 { max + 1 } else { max.saturating_add(max.div_ceil(10).max(25)) }
}

fn policy_error(key: &str, reason: &str) -> MaintenancePolicyError {
    MaintenancePolicyError { key: key.to_owned(), reason: reason.to_owned() }
}

fn parse_positive(key: &str, value: &Value) -> Result<u32, MaintenancePolicyError> {
    let whole = value.as_f64().filter(|number| number.fract() == 0.0);
    match whole.filter(|number| (1.0..=f64::from(u32::MAX)).contains(number)) {
        Some(number) => Ok(number as u32),
        None => Err(policy_error(key, &format!("{value} is not a whole number above 0"))),
    }
}

fn positive_span(key: &str, value: &Value) -> Result<Duration, MaintenancePolicyError> {
    amount::parse_span(value).filter(|span| !span.is_zero()).ok_or_else(|| {
        policy_error(key, &format!("{value} is not a span of time, such as \"30d\""))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: Value) -> Result<MaintenancePolicy, MaintenancePolicyError> {
        MaintenancePolicy::parse(Some(&value))
    }

    #[test]
    fn p4_a_database_has_defaults_of_its_own_and_the_configuration_counts_in_both() {
        let plain = MaintenancePolicy::default().for_database();
        assert_eq!((plain.max_entries.value, plain.max_disk.value), (5000, Some(10 << 30)));
        assert_eq!((plain.high_water.value, plain.reset_retention.value), (8 << 30, None));
        let set = json!({ "maxEntries": 7, "maxDiskBytes": false, "resetArchiveRetention": "1d",
            "preserveRecent": 3 });
        let set = MaintenancePolicy::parse(Some(&set)).unwrap().for_database();
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
        assert_eq!(high(budget(json!(5000))), PolicySetting::from_config(1000));
        assert_eq!(high(json!({ "maxDiskBytes": 1000 })), PolicySetting::from_rule(800));
        assert_eq!(high(budget(json!("much"))), PolicySetting::from_rule(800));
        assert_eq!(high(json!({ "maxDiskBytes": 1 })), PolicySetting::from_rule(1));
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
        assert_eq!(policy.mode, PolicySetting::from_config(MaintenanceMode::Warn));
        assert_eq!(policy.prune_after, PolicySetting::from_config(7 * DAY));
        assert_eq!(policy.reset_retention, PolicySetting::from_rule(Some(7 * DAY)));
        assert_eq!(policy.max_entries, PolicySetting::default(500));
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
