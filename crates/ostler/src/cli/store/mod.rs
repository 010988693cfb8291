//! `ostler store`

use std::path::{Path, PathBuf};

use clap::Args;
use model::wire::IncompleteSource;
use openclaw::config::OpenClawConfig;
use openclaw::store::{SessionStoreRequest, StoreError, StorePlace, StoreSelection, locate_stores};
use sys::machine::Machine;

use crate::error::Error;

pub(super) mod cleanup;
pub(super) mod ls;
pub(super) mod rebuild;
pub(super) mod show;
pub(super) mod verify;

declare_commands![CommandEntry {
    place: HelpPlace(OpenClaw, 2),
    usual_member: "ls",
    ..entry!("store", StoreArgs)
}];

/// List, check, clean up and rebuild OpenClaw's session stores.
///
/// A store is an index (`sessions.json`) with transcripts beside it. One that cannot be read is an
/// error, never an empty one. Nothing is changed while OpenClaw's gateway runs, or may run: then the
/// gateway is asked to do it. What goes can be brought back with `ostler undo`. The databases of
/// 2026.8 and later are only read.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {}

/// Which stores are meant.
#[derive(Debug, Args)]
struct StoreSelectionArgs {
    /// The store of this agent.
    #[arg(long, value_name = "AGENT", conflicts_with_all = ["all_agents", "store"])]
    agent: Option<String>,
    /// The stores of all agents.
    #[arg(long, conflicts_with = "store")]
    all_agents: bool,
    /// This index, wherever it lies.
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,
}

impl StoreSelectionArgs {
    /// The stores that are meant; `otherwise` if none is named.
    fn store_selection(&self, otherwise: StoreSelection) -> StoreSelection {
        match (&self.agent, &self.store) {
            (Some(agent), _) => StoreSelection::Agent(agent.clone()),
            (_, Some(path)) => store_at_path(path),
            _ if self.all_agents => StoreSelection::All,
            _ => otherwise,
        }
    }
}

/// A store by its path. The process that changes it may work in another directory.
fn store_at_path(path: &Path) -> StoreSelection {
    StoreSelection::Path(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// OpenClaw's configuration, in this machine's environment.
fn load_openclaw_config(machine: &Machine) -> Result<OpenClawConfig, Error> {
    OpenClawConfig::load(&machine.env()).map_err(StoreError::from).map_err(Error::Store)
}

fn find_stores(
    config: &OpenClawConfig,
    selection: &StoreSelection,
) -> Result<(Vec<StorePlace>, Vec<IncompleteSource>), Error> {
    locate_stores(config, selection).map_err(Error::Store)
}

/// A question about a selection, with nothing else asked for.
fn plain_request(selection: StoreSelection) -> SessionStoreRequest {
    SessionStoreRequest {
        selection,
        enforce: false,
        active: None,
        fix_missing: false,
        fix_dm_scope: false,
        drop_unusable: false,
        with_kept: false,
        consent: None,
        variables: std::collections::BTreeMap::new(),
    }
}
