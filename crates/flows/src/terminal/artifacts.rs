//! What was made of a session: snapshots, pictures, recordings, and the list of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::screen::Personality;
use model::hosted::wire::ArtifactsHealth;
use model::hosted::{Code, Fault};
use model::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Home, Session, cannot_write, create, sha256};

/// How long to wait for somebody else who adds to the list.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct List {
    version: u32,
    session_id: String,
    artifacts: Vec<Artifact>,
}

/// One of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Artifact {
    id: String,
    kind: Kind,
    filename: String,
    session_id: String,
    captured_at_seq: i64,
    created_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    metadata: Map<String, Value>,
}

/// What kind of thing it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A picture.
    Screenshot,
    /// A screen as data.
    Snapshot,
    /// A recording of text.
    Recording,
    /// A moving picture.
    Video,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Screenshot => "screenshot",
            Self::Snapshot => "snapshot",
            Self::Recording => "recording",
            Self::Video => "video",
        }
    }
}

/// Something to be kept.
#[derive(Debug)]
pub struct New<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its name in the list.
    pub filename: String,
    /// The last event behind it.
    pub seq: i64,
    /// What it is made of.
    pub content: &'a [u8],
    /// More about it.
    pub metadata: Map<String, Value>,
}

/// Writes it and adds it to the list. Gives its path and hash.
pub fn keep(home: &Home, session: &Session, new: New<'_>) -> Result<(PathBuf, String), Fault> {
    let directory = session.directory.join("artifacts");
    let hash = sha256(new.content);
    let path = directory.join(&new.filename);
    if home.personality == Personality::Ostler && is_kept(&directory, &new, &hash) {
        return Ok((path, hash));
    }
    std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
        .create(&directory)
        .map_err(|error| cannot_write(&directory, &error))?;
    sys::atomic::replace(&path, new.content).map_err(|error| cannot_write(&path, &error))?;
    let New { kind, filename, seq, content, metadata } = new;
    let bytes = content.len() as u64;
    let listing = Listing { kind, filename, seq, sha256: &hash, bytes, metadata };
    list(home, session, &listing).inspect_err(|_| {
        // What is not in the list would never be found again.
        sys::atomic::abandon(&path);
    })?;
    Ok((path, hash))
}

/// Whether the very same thing is there and listed already: a screen that did not change is asked for
/// often, and replacing files is what costs most.
fn is_kept(directory: &Path, new: &New<'_>, hash: &str) -> bool {
    let same = std::fs::read(directory.join(&new.filename)).is_ok_and(|found| found == new.content);
    let listed = || {
        let list = std::fs::read(directory.join("manifest.json")).ok()?;
        let list: List = serde_json::from_slice(&list).ok()?;
        let fits =
            |one: &Artifact| one.filename == new.filename && one.sha256.as_deref() == Some(hash);
        Some(list.artifacts.iter().any(fits))
    };
    same && listed().unwrap_or(false)
}

/// What the list says about something.
#[derive(Debug)]
pub(super) struct Listing<'a> {
    pub(super) kind: Kind,
    pub(super) filename: String,
    pub(super) seq: i64,
    pub(super) sha256: &'a str,
    pub(super) bytes: u64,
    pub(super) metadata: Map<String, Value>,
}

/// Adds something to the list.
pub(super) fn list(home: &Home, session: &Session, new: &Listing<'_>) -> Result<(), Fault> {
    let directory = session.directory.join("artifacts");
    let write = |error: &dyn std::fmt::Display| {
        Fault::new(Code::StorageWriteError, format!("cannot list the artifact: {error}"))
    };
    let lock = sys::lock::take_within(&directory.join(".lock"), PATIENCE)
        .map_err(|error| write(&error))?
        .taken()
        .ok_or_else(|| write(&"somebody else holds the list"))?;
    let path = directory.join("manifest.json");
    let mut list = match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            let message = format!("the artifact list {} is not valid: {error}", path.display());
            Fault::new(Code::ManifestValidationError, message)
        })?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            List { version: 1, session_id: session.id.clone(), artifacts: Vec::new() }
        }
        Err(error) => return Err(super::cannot_read(&path, &error)),
    };
    if home.personality == Personality::Ostler {
        // The file was replaced, and so is what is said about it.
        list.artifacts.retain(|one| one.filename != new.filename);
    }
    list.artifacts.push(Artifact {
        id: create::new_id().map_err(|error| write(&error))?,
        kind: new.kind,
        filename: new.filename.clone(),
        session_id: session.id.clone(),
        captured_at_seq: new.seq,
        created_at: sys::clock::now(),
        sha256: Some(new.sha256.to_owned()),
        bytes: Some(new.bytes),
        metadata: new.metadata.clone(),
    });
    let text = serde_json::to_string_pretty(&list).map_err(|error| write(&error))? + "\n";
    sys::atomic::replace(&path, text.as_bytes()).map_err(|error| cannot_write(&path, &error))?;
    drop(lock);
    Ok(())
}

/// Whether everything that is listed is there.
pub fn health(session: &Session) -> ArtifactsHealth {
    let directory = session.directory.join("artifacts");
    let nothing = |health| ArtifactsHealth {
        total: 0,
        by_kind: BTreeMap::new(),
        missing_count: 0,
        health,
        missing: Vec::new(),
    };
    let list: List = match std::fs::read(directory.join("manifest.json")) {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(list) => list,
            Err(_) => return nothing("manifest-invalid"),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return nothing("no-artifacts");
        }
        Err(_) => return nothing("unknown"),
    };
    let mut by_kind = BTreeMap::new();
    for one in &list.artifacts {
        *by_kind.entry(one.kind.word().to_owned()).or_insert(0) += 1;
    }
    let missing: Vec<String> = list
        .artifacts
        .iter()
        .filter(|one| !directory.join(&one.filename).exists() && !is_elsewhere(one))
        .map(|one| one.filename.clone())
        .collect();
    ArtifactsHealth {
        total: list.artifacts.len(),
        by_kind,
        missing_count: missing.len(),
        health: match (list.artifacts.is_empty(), missing.is_empty()) {
            (true, _) => "no-artifacts",
            (false, true) => "healthy",
            (false, false) => "missing-artifacts",
        },
        missing,
    }
}

/// Whether a person asked for it to be put somewhere else.
fn is_elsewhere(artifact: &Artifact) -> bool {
    let path = artifact.metadata.get("path").and_then(Value::as_str);
    path.is_some_and(|path| std::path::Path::new(path).exists())
}
