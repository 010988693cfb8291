//! What a person may set.

use std::time::Duration;

/// ostler's settings, with their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long *working* may go without a sign of life before it is called stale.
    pub stale_after: Duration,
    /// Adapters that are not asked.
    pub disabled_adapters: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self { stale_after: Duration::from_secs(3600), disabled_adapters: Vec::new() }
    }
}
