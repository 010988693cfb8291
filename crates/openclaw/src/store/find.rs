//! Where the stores are.

use std::path::{Path, PathBuf};

use crate::rules::agent::normalise_agent_id;
use model::wire::IncompleteSource;
use serde::{Deserialize, Serialize};

use super::{StoreError, path_text};
use crate::config::OpenClawConfig;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorePlace {
    /// Whose it is, if it is one agent's.
    pub agent: Option<String>,
    /// The index, or the database.
    pub path: PathBuf,
    /// Whether it is a database.
    pub database: bool,
    /// Whether a person named its path.
    pub named: bool,
}

/// Which stores are meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StoreSelection {
    /// The one of the agent that is used when none is named.
    Default,
    /// The one of an agent.
    Agent(String),
    /// All of them.
    All,
    Path(PathBuf),
}

/// Finds the stores that are meant, and what was passed over.
pub fn locate_stores(
    config: &OpenClawConfig,
    selection: &StoreSelection,
) -> Result<(Vec<StorePlace>, Vec<IncompleteSource>), StoreError> {
    let mut skipped = Vec::new();
    let places = match selection {
        StoreSelection::Path(path) => vec![named_store(path)?],
        StoreSelection::Default => agent_stores(config, config.default_agent(), &mut skipped)?,
        StoreSelection::Agent(id) => agent_stores(config, id, &mut skipped)?,
        StoreSelection::All => {
            let mut places = Vec::new();
            for id in agent_ids(config) {
                for place in agent_stores(config, &id, &mut skipped)? {
                    match places.iter_mut().find(|one: &&mut StorePlace| one.path == place.path) {
                        // A store that several agents share is listed once, and belongs to none of them.
                        Some(shared) => shared.agent = None,
                        None => places.push(place),
                    }
                }
            }
            places
        }
    };
    Ok((places, skipped))
}

/// A store that a person named. Links are followed once and for all: what is checked is what is
/// changed.
fn named_store(path: &Path) -> Result<StorePlace, StoreError> {
    let failed = |error: std::io::Error| StoreError::Read {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let path = match std::fs::canonicalize(path) {
        Ok(path) => path,
        // One that is not there is empty, like OpenClaw's own.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            std::path::absolute(path).map_err(failed)?
        }
        Err(error) => return Err(failed(error)),
    };
    let database = path.extension().is_some_and(|suffix| suffix == "sqlite");
    Ok(StorePlace { agent: None, path, database, named: true })
}

/// The agents that are configured, and those that only have a directory.
fn agent_ids(config: &OpenClawConfig) -> Vec<String> {
    let mut ids: Vec<String> = config.agents.iter().map(|agent| agent.id.clone()).collect();
    let listed = std::fs::read_dir(config.state.join("agents")).into_iter().flatten().flatten();
    let mut others: Vec<String> = listed
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|id| normalise_agent_id(id).as_deref() == Some(id) && !ids.contains(id))
        .collect();
    others.sort();
    ids.extend(others);
    ids
}

fn agent_stores(
    config: &OpenClawConfig,
    id: &str,
    skipped: &mut Vec<IncompleteSource>,
) -> Result<Vec<StorePlace>, StoreError> {
    let known = agent_ids(config);
    let unknown = || StoreError::NoAgent { id: id.to_owned(), known: known.clone() };
    let id = normalise_agent_id(id).filter(|id| known.contains(id)).ok_or_else(unknown)?;
    let own = config.state.join("agents").join(&id);
    let index = match config.find_agent(&id) {
        Some(agent) => agent.store.clone(),
        None => own.join("sessions/sessions.json"),
    };
    let database = own.join("agent/openclaw-agent.sqlite");
    let mut places = Vec::new();
    for (path, database) in [(index, false), (database, true)] {
        match lies_where_it_should(&config.state, &path) {
            Ok(true) => {
                places.push(StorePlace { agent: Some(id.clone()), path, database, named: false });
            }
            // Without a database the index may still come.
            Ok(false) if !database && !has_database(&places, &own) => {
                places.push(StorePlace { agent: Some(id.clone()), path, database, named: false });
            }
            Ok(false) => {}
            Err(reason) => skipped.push(IncompleteSource {
                source: "openclaw".to_owned(),
                path: Some(path_text(&path)),
                reason,
            }),
        }
    }
    Ok(places)
}

fn has_database(places: &[StorePlace], own: &Path) -> bool {
    places.iter().any(|place| place.database) || own.join("agent/openclaw-agent.sqlite").exists()
}

/// Whether a store is there. A link in its place, or one that leads out of OpenClaw's directory, is
/// not followed: another owner's file would be changed.
fn lies_where_it_should(state: &Path, path: &Path) -> Result<bool, String> {
    match std::fs::symlink_metadata(path) {
        Ok(about) if about.is_file() => {}
        Ok(about) if about.is_symlink() => return Err("a link, which is not followed".to_owned()),
        Ok(_) => return Err("not a file".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.to_string()),
    }
    let real = |path: &Path| std::fs::canonicalize(path).map_err(|error| error.to_string());
    // `session.store` may lie anywhere; what lies below the state directory must stay there.
    if path.starts_with(state) && !real(path)?.starts_with(real(state)?) {
        return Err("it leads out of OpenClaw's directory".to_owned());
    }
    Ok(true)
}
