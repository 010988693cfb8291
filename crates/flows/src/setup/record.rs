//! The record of what `ostler setup` has done: enough to take back exactly that.
//!
//! A part is written down before it is done, so that a kill in between loses nothing: taking back what
//! was not done changes nothing.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The version of the record's shape; one of a later version is not touched.
const RECORD_VERSION: u32 = 1;

/// The most that is read of a record.
const MAX_RECORD_BYTES: u64 = 1 << 20;

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetupRecord {
    version: u32,
    #[serde(default)]
    pub(super) hooks: Vec<RecordedHooks>,
    #[serde(default)]
    pub(super) completions: Vec<RecordedFile>,
    #[serde(default)]
    pub(super) service: Option<RecordedService>,
}

/// Hooks that were not there before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordedHooks {
    pub(super) agent: String,
    /// The directories that were there before; they stay, even with nothing in them.
    pub(super) kept_directories: Vec<PathBuf>,
}

/// A file that ostler alone has written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordedFile {
    /// The shell that it is for.
    pub(super) shell: String,
    pub(super) path: PathBuf,
    pub(super) content_hash: String,
    pub(super) kept_directory: Option<PathBuf>,
}

/// A service that was not installed before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordedService {
    pub(super) unit: PathBuf,
    pub(super) kept_directory: Option<PathBuf>,
}

impl Default for SetupRecord {
    fn default() -> Self {
        Self { version: RECORD_VERSION, hooks: Vec::new(), completions: Vec::new(), service: None }
    }
}

impl SetupRecord {
    /// Reads the record; an empty one if there is none.
    pub(super) fn read_record(home: &Path) -> io::Result<Self> {
        let path = record_path(home);
        let text = match std::fs::metadata(&path) {
            Ok(file) if file.len() > MAX_RECORD_BYTES => {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Ok(_) => sys::private::read_regular(&path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let record: Self = serde_json::from_slice(&text)?;
        if record.version > RECORD_VERSION {
            let reason = "it was written by a later ostler; use that one";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        Ok(record)
    }

    /// Writes it, durably.
    pub(super) fn write_record(&self, home: &Path) -> io::Result<()> {
        sys::private::create_private_dir(home).map_err(io::Error::other)?;
        sys::atomic::write_synced(&record_path(home), &serde_json::to_vec_pretty(self)?)
    }

    /// Whether there is nothing to take back.
    pub(super) fn is_empty(&self) -> bool {
        self.hooks.is_empty() && self.completions.is_empty() && self.service.is_none()
    }
}

/// Where the record is.
pub(super) fn record_path(home: &Path) -> PathBuf {
    home.join("setup.json")
}
