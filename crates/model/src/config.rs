//! Settings, with their defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::usage::PriceTable;

/// ostler's settings, with their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OstlerConfig {
    /// How long *working* may go without a sign of life before it is called stale.
    pub stale_after: Duration,
    /// Adapters that are not asked.
    pub disabled_adapters: Vec<String>,
    /// Further places of an adapter's format, by its id: what a fork of the agent writes.
    pub adapter_roots: BTreeMap<String, Vec<PathBuf>>,
    /// How long things are kept.
    pub retention: Retention,
    /// What models cost; nothing is known but what is set.
    pub prices: PriceTable,
}

/// How long things are kept. The defaults remove nothing of an agent's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    /// Hosted terminals that are over.
    pub terminals: Duration,
    /// Payloads that did not fit into the spool.
    pub spills: Duration,
    /// Notes of agents that were started, once those are gone.
    pub launches: Duration,
    /// How much the vault may hold; as much as there is by default.
    pub vault_bytes: Option<u64>,
    /// Agents' temporary files, if they are to be collected.
    pub temps: Duration,
    /// What agents set aside, if it is to be collected.
    pub archives: Duration,
    /// Worktrees without a live session, if they are to be collected.
    pub worktrees: Duration,
    /// Agents' transcripts, if they are to be collected; for ever by default.
    pub transcripts: Option<Duration>,
    /// How much agents' transcripts may take, if they are to be collected.
    pub transcript_bytes: Option<u64>,
    /// What lies in the trash, if it is to be emptied.
    pub trash: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(86_400);
        Self {
            terminals: 7 * DAY,
            spills: 7 * DAY,
            launches: DAY,
            vault_bytes: None,
            temps: DAY,
            archives: 30 * DAY,
            worktrees: 14 * DAY,
            transcripts: None,
            transcript_bytes: None,
            trash: 30 * DAY,
        }
    }
}

impl OstlerConfig {
    /// Further places of an adapter's format.
    pub fn roots_of(&self, adapter: &str) -> &[PathBuf] {
        self.adapter_roots.get(adapter).map_or(&[], Vec::as_slice)
    }
}

impl Default for OstlerConfig {
    fn default() -> Self {
        Self {
            stale_after: Duration::from_secs(3600),
            disabled_adapters: Vec::new(),
            adapter_roots: BTreeMap::new(),
            retention: Retention::default(),
            prices: PriceTable::new(),
        }
    }
}
