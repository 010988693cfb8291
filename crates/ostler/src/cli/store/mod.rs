//! `ostler store`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use flows::openclaw_store::Desk;
use model::wire::Incomplete;
use openclaw::config::Config;
use openclaw::store::{Ask, Place, Selection, StoreError, find};

use crate::cli::Context;
use crate::env;
use crate::error::Error;

mod cleanup;
mod ls;
mod rebuild;
mod show;
mod verify;

/// List, check, clean up and rebuild OpenClaw's session stores.
///
/// A store is an index (`sessions.json`) with transcripts beside it. One that cannot be read is an
/// error, never an empty one. Nothing is changed while OpenClaw's gateway runs, or may run: then the
/// gateway is asked to do it. What goes can be brought back with `ostler undo`. The databases of
/// 2026.8 and later are only read.
#[derive(Debug, Args)]
pub(crate) struct Store {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Ls(ls::Ls),
    Show(show::Show),
    Cleanup(cleanup::Cleanup),
    Verify(verify::Verify),
    Rebuild(rebuild::Rebuild),
}

impl Store {
    /// The name in the envelope.
    pub(crate) fn name(&self) -> &'static str {
        match &self.what {
            What::Ls(_) => "store ls",
            What::Show(_) => "store show",
            What::Cleanup(_) => "store cleanup",
            What::Verify(_) => "store verify",
            What::Rebuild(_) => "store rebuild",
        }
    }

    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        match &self.what {
            What::Ls(command) => command.run(context),
            What::Show(command) => command.run(context),
            What::Cleanup(command) => command.run(context),
            What::Verify(command) => command.run(context),
            What::Rebuild(command) => command.run(context),
        }
    }
}

/// Which stores are meant.
#[derive(Debug, Args)]
struct Which {
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

impl Which {
    /// The stores that are meant; `otherwise` if nobody says.
    fn selection(&self, otherwise: Selection) -> Selection {
        match (&self.agent, &self.store) {
            (Some(agent), _) => Selection::Agent(agent.clone()),
            (_, Some(path)) => at(path),
            _ if self.all_agents => Selection::All,
            _ => otherwise,
        }
    }
}

/// A store by its path. Whoever changes it may work in another directory.
fn at(path: &Path) -> Selection {
    Selection::Path(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// OpenClaw's configuration, in this process's environment.
fn configuration() -> Result<Config, Error> {
    Config::read(&flows::Env::new(&env::lookup)).map_err(StoreError::from).map_err(Error::Store)
}

fn places(config: &Config, selection: &Selection) -> Result<(Vec<Place>, Vec<Incomplete>), Error> {
    find(config, selection).map_err(Error::Store)
}

/// A question about a selection, with nothing else asked for.
fn plain(selection: Selection) -> Ask {
    Ask {
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

/// Does something that may change a store.
fn at_the_desk<T>(
    context: &Context,
    work: impl FnOnce(&Desk<'_>) -> Result<T, flows::openclaw_store::CleanError>,
) -> Result<T, Error> {
    let dirs = context.dirs()?;
    let env = flows::Env::new(&env::lookup);
    let desk = Desk { home: &dirs.home, runtime: &dirs.runtime, env: &env, now: context.now };
    work(&desk).map_err(Error::from)
}
