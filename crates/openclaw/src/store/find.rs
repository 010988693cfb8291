//! Where the stores are.

use std::path::{Path, PathBuf};

use crate::rules::agent::normalise;
use model::wire::Incomplete;
use serde::{Deserialize, Serialize};

use super::{StoreError, display};
use crate::config::Config;

/// A store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
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
pub enum Selection {
    /// The one of the agent that is used when none is named.
    Default,
    /// The one of an agent.
    Agent(String),
    /// All of them.
    All,
    /// This one.
    Path(PathBuf),
}

/// Finds the stores that are meant, and what was passed over.
pub fn find(
    config: &Config,
    selection: &Selection,
) -> Result<(Vec<Place>, Vec<Incomplete>), StoreError> {
    let mut skipped = Vec::new();
    let places = match selection {
        Selection::Path(path) => vec![named(path)?],
        Selection::Default => of_agent(config, config.default_agent(), &mut skipped)?,
        Selection::Agent(id) => of_agent(config, id, &mut skipped)?,
        Selection::All => {
            let mut places = Vec::new();
            for id in agents(config) {
                for place in of_agent(config, &id, &mut skipped)? {
                    match places.iter_mut().find(|one: &&mut Place| one.path == place.path) {
                        // A store that several agents share is listed once, and is nobody's own.
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
fn named(path: &Path) -> Result<Place, StoreError> {
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
    Ok(Place { agent: None, path, database, named: true })
}

/// The agents that are configured, and those that only have a directory.
fn agents(config: &Config) -> Vec<String> {
    let mut ids: Vec<String> = config.agents.iter().map(|agent| agent.id.clone()).collect();
    let listed = std::fs::read_dir(config.state.join("agents")).into_iter().flatten().flatten();
    let mut others: Vec<String> = listed
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|id| normalise(id).as_deref() == Some(id) && !ids.contains(id))
        .collect();
    others.sort();
    ids.extend(others);
    ids
}

fn of_agent(
    config: &Config,
    id: &str,
    skipped: &mut Vec<Incomplete>,
) -> Result<Vec<Place>, StoreError> {
    let known = agents(config);
    let unknown = || StoreError::NoAgent { id: id.to_owned(), known: known.clone() };
    let id = normalise(id).filter(|id| known.contains(id)).ok_or_else(unknown)?;
    let own = config.state.join("agents").join(&id);
    let index = match config.agent(&id) {
        Some(agent) => agent.store.clone(),
        None => own.join("sessions/sessions.json"),
    };
    let database = own.join("agent/openclaw-agent.sqlite");
    let mut places = Vec::new();
    for (path, database) in [(index, false), (database, true)] {
        match lies_where_it_should(&config.state, &path) {
            Ok(true) => {
                places.push(Place { agent: Some(id.clone()), path, database, named: false });
            }
            // Without a database the index may still come.
            Ok(false) if !database && !has_database(&places, &own) => {
                places.push(Place { agent: Some(id.clone()), path, database, named: false });
            }
            Ok(false) => {}
            Err(reason) => skipped.push(Incomplete {
                source: "openclaw".to_owned(),
                path: Some(display(&path)),
                reason,
            }),
        }
    }
    Ok(places)
}

fn has_database(places: &[Place], own: &Path) -> bool {
    places.iter().any(|place| place.database) || own.join("agent/openclaw-agent.sqlite").exists()
}

/// Whether a store is there. A link in its place, or one that leads out of OpenClaw's directory, is
/// not followed: somebody else's file would be changed.
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
