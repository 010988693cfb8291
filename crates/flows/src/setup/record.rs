//! The record of what `ostler setup` has done: enough to take back exactly that.
//!
//! A part is written down before it is done, so that a kill in between loses nothing: taking back what
//! was not done changes nothing.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::hooks::{RestoredFile, SettingsRewrite, hash_content};

/// The version of the record's shape; one of a later version is not touched.
const RECORD_VERSION: u32 = 2;

/// The version of a record without anything that an ostler of the first shape would drop.
const FIRST_RECORD_VERSION: u32 = 1;

/// The most that is read of a record, or written.
const MAX_RECORD_BYTES: u64 = 64 << 20;

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetupRecord {
    version: u32,
    #[serde(default)]
    pub(super) hooks: Vec<RecordedHooks>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) rewritten: Vec<RecordedRewrite>,
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

/// Hooks of another ostler's that were put right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordedRewrite {
    pub(super) agent: String,
    pub(super) files: Vec<RewrittenFile>,
}

/// A file with such hooks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RewrittenFile {
    pub(super) path: PathBuf,
    /// The content from before the first setup; none if there was no file.
    pub(super) before: Option<String>,
    /// The hashes of what setups have made of it.
    pub(super) after_hashes: Vec<String>,
    /// The program that the hooks named.
    pub(super) program: Option<String>,
    /// Whether a copy of the file was made beside it.
    pub(super) was_copied: bool,
}

/// A file that ostler alone has written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordedFile {
    /// The shell that it is for.
    pub(super) shell: String,
    pub(super) path: PathBuf,
    pub(super) content_hash: String,
    /// The hashes of what earlier setups have written there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) earlier_hashes: Vec<String>,
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
        Self {
            version: FIRST_RECORD_VERSION,
            hooks: Vec::new(),
            rewritten: Vec::new(),
            completions: Vec::new(),
            service: None,
        }
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

    /// Writes it, durably. What could not be read again is not written.
    pub(super) fn write_record(&self, home: &Path) -> io::Result<()> {
        sys::private::create_private_dir(home).map_err(io::Error::other)?;
        // An older ostler takes back the rest, and would forget what was there before.
        let version = if self.rewritten.is_empty() { FIRST_RECORD_VERSION } else { RECORD_VERSION };
        let text = serde_json::to_vec_pretty(&Self { version, ..self.clone() })?;
        if text.len() as u64 > MAX_RECORD_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        sys::atomic::write_synced(&record_path(home), &text)
    }

    /// Whether there is nothing to take back.
    pub(super) fn is_empty(&self) -> bool {
        self.hooks.is_empty()
            && self.rewritten.is_empty()
            && self.completions.is_empty()
            && self.service.is_none()
    }

    /// What was written down of the script at this path.
    pub(super) fn script(&self, path: &Path) -> Option<&RecordedFile> {
        self.completions.iter().find(|one| one.path == path)
    }

    /// Writes down what files were before their hooks are put right. Of one that was put right before, the first
    /// content counts; what others have made of it since is not a setup's.
    pub(super) fn add_rewrites(&mut self, agent: &str, rewrites: Vec<SettingsRewrite>) {
        let known = match self.rewritten.iter().position(|one| one.agent == agent) {
            Some(known) => known,
            None => {
                self.rewritten.push(RecordedRewrite { agent: agent.to_owned(), files: Vec::new() });
                self.rewritten.len() - 1
            }
        };
        let files = &mut self.rewritten[known].files;
        for rewrite in rewrites {
            let before_hash = hash_content(rewrite.before.as_deref().map(str::as_bytes));
            match files.iter_mut().find(|file| file.path == rewrite.path) {
                Some(file) if file.is_content(&before_hash) => {
                    file.after_hashes.push(rewrite.after_hash);
                }
                Some(_) => {}
                None => files.push(RewrittenFile {
                    path: rewrite.path,
                    before: rewrite.before,
                    after_hashes: vec![rewrite.after_hash],
                    program: rewrite.program,
                    was_copied: rewrite.was_copied,
                }),
            }
        }
    }
}

impl RecordedFile {
    /// Whether a content is what a setup has written.
    pub(super) fn is_content(&self, bytes: &[u8]) -> bool {
        let hash = sys::hash::sha256(bytes);
        self.content_hash == hash || self.earlier_hashes.contains(&hash)
    }
}

impl RewrittenFile {
    /// Whether a content with this hash is one from before, or of a setup.
    fn is_content(&self, hash: &str) -> bool {
        self.after_hashes.iter().any(|after| after == hash)
            || hash == hash_content(self.before.as_deref().map(str::as_bytes))
    }

    /// What is to be put back.
    pub(super) fn as_restored(&self) -> RestoredFile<'_> {
        RestoredFile {
            path: &self.path,
            before: self.before.as_deref(),
            after_hashes: &self.after_hashes,
            program: self.program.as_deref(),
            was_copied: self.was_copied,
        }
    }
}

/// Where the record is.
pub(super) fn record_path(home: &Path) -> PathBuf {
    home.join("setup.json")
}
