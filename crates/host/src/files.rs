//! The files of one session beside its log.

use std::io;
use std::path::{Path, PathBuf};

use model::hosted::{Code, Fault, Manifest};
use model::identity::Identity;
use screen::Screen;
use serde::{Deserialize, Serialize};

/// The manifest.
pub const MANIFEST: &str = "session.json";

/// Who holds the terminal: ostler's own, beside the manifest, which is strict.
pub const HOLDER: &str = "host.json";

/// The screen at some point of the log, so that it need not be replayed from the start. A cache.
pub const KEYFRAME: &str = "keyframe";

/// The processes behind a session, so that they can be told from others for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// The host.
    pub host: Identity,
    /// The program on the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<Identity>,
    /// Where the host listens.
    pub socket: PathBuf,
    /// The host's version.
    pub version: String,
}

/// Reads the manifest of the session in `directory`.
pub fn read_manifest(directory: &Path) -> Result<Manifest, Fault> {
    let path = directory.join(MANIFEST);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = directory.file_name().unwrap_or_default().to_string_lossy();
            return Err(Fault::new(Code::SessionNotFound, format!("no session `{id}`")));
        }
        Err(error) => {
            let message = format!("cannot read {}: {error}", path.display());
            return Err(Fault::new(Code::StorageReadError, message));
        }
    };
    let invalid = |reason: String| {
        let message = format!("the manifest {} is not valid: {reason}", path.display());
        Fault::new(Code::ManifestValidationError, message)
    };
    let manifest: Manifest =
        serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
    if manifest.version != 1 {
        return Err(invalid(format!("it has version {}, not 1", manifest.version)));
    }
    if manifest.command.is_empty() {
        return Err(invalid("it names no command".to_owned()));
    }
    Ok(manifest)
}

/// How sure a write must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After a crash of the machine the session is gone anyway.
    System,
    /// This is how the session ended; it must survive.
    Disk,
}

/// Writes the manifest of the session in `directory`, whole or not at all.
pub fn write_manifest(
    directory: &Path,
    manifest: &Manifest,
    durability: Durability,
) -> io::Result<()> {
    let mut text = serde_json::to_string_pretty(manifest)?;
    text.push('\n');
    let path = directory.join(MANIFEST);
    match durability {
        Durability::System => sys::atomic::replace(&path, text.as_bytes()),
        Durability::Disk => sys::atomic::write(&path, text.as_bytes()),
    }
}

/// Makes the manifest durable as it stands.
pub(crate) fn settle_on_disk(directory: &Path) -> io::Result<()> {
    std::fs::File::open(directory.join(MANIFEST))?.sync_all()?;
    std::fs::File::open(directory)?.sync_all()
}

/// Who holds the terminal of the session in `directory`; `None` when ostler did not write it down.
pub fn read_holder(directory: &Path) -> Option<Holder> {
    serde_json::from_slice(&std::fs::read(directory.join(HOLDER)).ok()?).ok()
}

pub(crate) fn write_holder(directory: &Path, holder: &Holder) -> io::Result<()> {
    sys::atomic::replace(&directory.join(HOLDER), &serde_json::to_vec(holder)?)
}

/// A screen and the place in the log that it stands for.
#[derive(Debug)]
pub struct Keyframe {
    /// The last event that it shows; -1 before the first.
    pub seq: i64,
    /// Where the next event begins.
    pub offset: u64,
    /// The screen then.
    pub screen: Screen,
}

#[derive(Serialize, Deserialize)]
struct Head {
    seq: i64,
    offset: u64,
}

pub(crate) fn write_keyframe(
    directory: &Path,
    seq: i64,
    offset: u64,
    screen: &Screen,
) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(&Head { seq, offset })?;
    bytes.push(b'\n');
    bytes.extend_from_slice(&screen.keyframe());
    sys::atomic::replace(&directory.join(KEYFRAME), &bytes)
}

/// The latest keyframe, if there is one that can be believed.
pub fn read_keyframe(directory: &Path) -> Option<Keyframe> {
    let bytes = std::fs::read(directory.join(KEYFRAME)).ok()?;
    let end = memchr::memchr(b'\n', &bytes)?;
    let Head { seq, offset } = serde_json::from_slice(&bytes[..end]).ok()?;
    let screen = Screen::from_keyframe(&bytes[end + 1..]).ok()?;
    Some(Keyframe { seq, offset, screen })
}
