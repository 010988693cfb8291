//! What was made of a session: snapshots, pictures, recordings, and the list of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::hex::to_hex;
use model::hosted::wire::ArtifactsHealth;
use model::hosted::{FaultCode, HostFault};
use model::time::Time;
use screen::Personality;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use sys::private::read_regular;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ArtifactList {
    version: u32,
    session_id: String,
    artifacts: Vec<Artifact>,
}

/// One of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Artifact {
    id: String,
    kind: ArtifactKind,
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
pub enum ArtifactKind {
    Screenshot,
    /// A screen as data.
    Snapshot,
    /// A recording of text.
    Recording,
    /// A moving picture.
    Video,
}

impl ArtifactKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Screenshot => "screenshot",
            Self::Snapshot => "snapshot",
            Self::Recording => "recording",
            Self::Video => "video",
        }
    }
}

/// Where the artifacts of one session are.
#[derive(Clone, Copy, Debug)]
pub struct ArtifactDir<'a> {
    /// The session's directory.
    pub session: &'a Path,
    pub id: &'a str,
    /// Whose contract holds: agent-tty lists the same thing again and again.
    pub personality: Personality,
    /// How long to wait for another process that adds to the list.
    pub patience: Duration,
}

impl ArtifactDir<'_> {
    /// The directory, which is made when something is kept.
    pub fn directory(&self) -> PathBuf {
        self.session.join("artifacts")
    }
}

/// Something to be kept.
#[derive(Debug)]
pub struct NewArtifact<'a> {
    /// What it is.
    pub kind: ArtifactKind,
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
pub fn keep_artifact(
    shelf: ArtifactDir<'_>,
    new: NewArtifact<'_>,
) -> Result<(PathBuf, String), HostFault> {
    let directory = shelf.directory();
    let hash = to_hex(&Sha256::digest(new.content));
    let path = directory.join(&new.filename);
    if shelf.personality == Personality::Ostler && is_kept(&directory, &new, &hash) {
        return Ok((path, hash));
    }
    std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
        .create(&directory)
        .map_err(|error| cannot_write(&directory, &error))?;
    let NewArtifact { kind, filename, seq, content, metadata } = new;
    let bytes = content.len() as u64;
    let listing = ArtifactListing { kind, filename, seq, sha256: &hash, bytes, metadata };
    list_and_place(shelf, &listing, &path, || {
        sys::atomic::write_unsynced(&path, content).map_err(|error| cannot_write(&path, &error))
    })?;
    Ok((path, hash))
}

/// Whether the very same thing is there and listed already: a screen that did not change is asked for
/// often, and replacing files is what costs most.
fn is_kept(directory: &Path, new: &NewArtifact<'_>, hash: &str) -> bool {
    let same = read_regular(&directory.join(&new.filename)).is_ok_and(|found| found == new.content);
    let listed = || {
        let list = read_regular(&directory.join("manifest.json")).ok()?;
        let list: ArtifactList = serde_json::from_slice(&list).ok()?;
        let fits =
            |one: &Artifact| one.filename == new.filename && one.sha256.as_deref() == Some(hash);
        Some(list.artifacts.iter().any(fits))
    };
    same && listed().unwrap_or(false)
}

/// What the list says about something.
#[derive(Debug)]
pub struct ArtifactListing<'a> {
    /// What it is.
    pub kind: ArtifactKind,
    pub filename: String,
    /// The last event behind it.
    pub seq: i64,
    pub sha256: &'a str,
    pub bytes: u64,
    /// More about it.
    pub metadata: Map<String, Value>,
}

/// Adds something to the list, and has it put where it belongs, which is `path`: only when the list is held and can
/// be read, since the same name is used again and what has it may be listed already.
pub fn list_and_place(
    shelf: ArtifactDir<'_>,
    new: &ArtifactListing<'_>,
    path: &Path,
    place: impl FnOnce() -> Result<(), HostFault>,
) -> Result<(), HostFault> {
    let directory = shelf.directory();
    let write = |error: &dyn std::fmt::Display| {
        HostFault::new(FaultCode::StorageWriteError, format!("cannot list the artifact: {error}"))
    };
    let lock = sys::lock::take_within(&directory.join(".lock"), shelf.patience)
        .map_err(|error| write(&error))?
        .into_lock()
        .ok_or_else(|| write(&"somebody else holds the list"))?;
    let list_path = directory.join("manifest.json");
    let mut list = read_list(&list_path, shelf.id)?;
    if shelf.personality == Personality::Ostler {
        // The file was replaced, and so is what is said about it.
        list.artifacts.retain(|one| one.filename != new.filename);
    }
    list.artifacts.push(Artifact {
        id: sys::random::new_ulid().map_err(|error| write(&error))?,
        kind: new.kind,
        filename: new.filename.clone(),
        session_id: shelf.id.to_owned(),
        captured_at_seq: new.seq,
        created_at: sys::clock::now(),
        sha256: Some(new.sha256.to_owned()),
        bytes: Some(new.bytes),
        metadata: new.metadata.clone(),
    });
    let text = serde_json::to_string_pretty(&list).map_err(|error| write(&error))? + "\n";
    let is_new = path.symlink_metadata().is_err();
    place()?;
    let listed = sys::atomic::write_unsynced(&list_path, text.as_bytes());
    if listed.is_err() && is_new && path.starts_with(&directory) {
        // What is not in the list would never be found again.
        #[expect(
            clippy::disallowed_methods,
            reason = "an artifact of this process that could not be listed"
        )]
        sys::atomic::remove_own(path);
    }
    drop(lock);
    listed.map_err(|error| cannot_write(&list_path, &error))
}

fn read_list(path: &Path, id: &str) -> Result<ArtifactList, HostFault> {
    match read_regular(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            let message = format!("the artifact list {} is not valid: {error}", path.display());
            HostFault::new(FaultCode::ManifestValidationError, message)
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(ArtifactList { version: 1, session_id: id.to_owned(), artifacts: Vec::new() })
        }
        Err(error) => {
            let message = format!("cannot read {}: {error}", path.display());
            Err(HostFault::new(FaultCode::StorageReadError, message))
        }
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> HostFault {
    HostFault::new(
        FaultCode::StorageWriteError,
        format!("cannot write {}: {error}", path.display()),
    )
}

/// Whether everything that is listed is there.
pub fn artifacts_health(shelf: ArtifactDir<'_>) -> ArtifactsHealth {
    let directory = shelf.directory();
    let nothing = |health| ArtifactsHealth {
        total: 0,
        by_kind: BTreeMap::new(),
        missing_count: 0,
        health,
        missing: Vec::new(),
    };
    let list: ArtifactList = match read_regular(&directory.join("manifest.json")) {
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
        *by_kind.entry(one.kind.as_str().to_owned()).or_insert(0) += 1;
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
