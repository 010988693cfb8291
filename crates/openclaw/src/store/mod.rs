//! OpenClaw's session stores: listing, checking, maintaining and rebuilding them.
//!
//! What would go is decided by `crate::rules::maintain` alone; here is what it needs to see, and how
//! its plan is carried out: through the reaper, and only on the proof that no other process writes.
//! A store that cannot be read is an error, never an empty one. Databases (since 2026.8) are read only.

use std::path::{Path, PathBuf};

use crate::rules::document::IndexDocumentError;
use crate::rules::policy::{MaintenancePolicy, MaintenancePolicyError};
use model::wire::IncompleteSource;
use sys::machine::Machine;

use super::config::{ConfigError, OpenClawConfig};
use super::gateway::{self, GatewayOwner};

mod apply;
mod ask;
mod database;
mod facts;
mod find;
mod list;
mod plan;
mod read;
mod rebuild;
mod through;
mod verify;

pub use apply::perform_cleanup;
pub use ask::SessionStoreRequest;
pub use find::{StorePlace, StoreSelection, locate_stores};
pub use list::{StoreListing, list_stores, show_session};
pub use plan::{CleanupRequest, PlannedCleanup, preview_cleanup};
pub use read::LoadedStore;
pub use rebuild::perform_rebuild;
pub use rebuild::preview_rebuild;
pub use through::{StoreChangeError, clean_beside, refuse_remote};
pub use verify::verify_stores;

/// Whose the sessions are, wherever sessions are named.
const AGENT: &str = "openclaw";

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// OpenClaw's configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its maintenance policy is wrong.
    #[error("OpenClaw's configuration {} is not valid: {source}", path.display())]
    Policy {
        path: PathBuf,
        /// What is wrong.
        source: MaintenancePolicyError,
    },
    /// There is no such agent.
    #[error("OpenClaw has no agent `{id}`")]
    NoAgent {
        /// What was asked for.
        id: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// No session has such a key.
    #[error("no session of OpenClaw's has the key `{0}`")]
    NoKey(String),
    /// Where a store would lie there is nothing.
    #[error(
        "there is neither an index nor a transcript in {}, so there is nothing an index could be made from",
        .0.display()
    )]
    Nothing(PathBuf),
    /// Several sessions could be meant.
    #[error("`{text}` could be several sessions of OpenClaw's")]
    Ambiguous {
        /// What was asked for.
        text: String,
        /// What it could be.
        candidates: Vec<String>,
    },
    /// The store cannot be read.
    #[error("the store {} cannot be read: {reason}", path.display())]
    Read { path: PathBuf, reason: String },
    /// The index is not what it should be.
    #[error("the store {} is not an index of sessions: {source}", path.display())]
    Broken {
        path: PathBuf,
        /// What is wrong.
        source: IndexDocumentError,
    },
    /// A database, which only OpenClaw may change.
    #[error(
        "the store {} is a database, which only OpenClaw may change: its tables follow from each other",
        .0.display()
    )]
    Database(PathBuf),
    /// Anything in it may be pinned.
    #[error("it cannot be told which sessions are pinned: {0}")]
    Pins(String),
}

impl StoreError {
    /// What a person can do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Config(_) => "put the file right, then try again".to_owned(),
            Self::Policy { .. } => {
                "put the setting right; without it OpenClaw's default holds".to_owned()
            }
            Self::NoAgent { known, .. } => format!("there are: {}", known.join(", ")),
            Self::NoKey(_) => "`ostler store ls --limit all` lists every key".to_owned(),
            Self::Nothing(_) => {
                "`ostler store ls --all-agents` tells which stores there are; `--agent` or `--store` \
                 names one"
                    .to_owned()
            }
            Self::Ambiguous { candidates, .. } => format!(
                "type more of the key: {}",
                candidates.iter().take(5).cloned().collect::<Vec<_>>().join(", ")
            ),
            Self::Read { .. } => "check the path and its permissions".to_owned(),
            Self::Broken { path, .. } => format!(
                "`ostler store rebuild --store {}` makes a new one from the transcripts",
                path.display()
            ),
            Self::Pins(_) => "`ostler doctor` tells what is wrong".to_owned(),
            Self::Database(_) => {
                "let OpenClaw do it: `openclaw sessions cleanup`, with its gateway running"
                    .to_owned()
            }
        }
    }

    /// As a line of what could not be read.
    pub fn incomplete(&self) -> IncompleteSource {
        let path = match self {
            Self::Read { path, .. }
            | Self::Broken { path, .. }
            | Self::Database(path)
            | Self::Nothing(path) => Some(path),
            _ => None,
        };
        IncompleteSource {
            source: "openclaw".to_owned(),
            path: path.map(|path| path_text(path)),
            reason: self.to_string(),
        }
    }
}

/// The policy that OpenClaw's configuration sets.
pub fn read_policy(config: &OpenClawConfig) -> Result<MaintenancePolicy, StoreError> {
    MaintenancePolicy::parse(config.maintenance.as_ref())
        .map_err(|source| StoreError::Policy { path: config.path.clone(), source })
}

/// Whether OpenClaw runs on these files, or may: an entry that says it runs may then be right.
fn may_run(config: &OpenClawConfig, machine: &Machine) -> bool {
    gateway::find_owner(config, machine) != GatewayOwner::Nobody
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
