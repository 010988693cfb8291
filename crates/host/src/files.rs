//! The files of one session beside its log.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::hosted::{FaultCode, HostFault, SessionManifest};
use model::identity::Identity;
use screen::Screen;
use serde::{Deserialize, Serialize};
use sys::private::{PrivateDir, PrivateError, PrivateFileFault};

pub const MANIFEST_FILE: &str = "session.json";

/// Who holds the terminal: ostler's own, beside the manifest, which is strict.
pub const HOLDER_FILE: &str = "host.json";

/// The screen at some point of the log, so that it need not be replayed from the start. A cache.
pub const KEYFRAME_FILE: &str = "keyframe";

/// The processes behind a session, so that they can be told from others for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    pub host: Identity,
    /// The program on the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<Identity>,
    /// Where the host listens.
    pub socket: PathBuf,
    /// The host's version.
    pub version: String,
}

/// The largest manifest and `host.json` that are read: the arguments of a program may be long.
const LARGEST_RECORD: u64 = 16 << 20;

/// How sure a write must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After a crash of the machine the session is gone anyway.
    System,
    /// This is how the session ended; it must survive.
    Disk,
}

/// A session's directory, held open: ours, not writable by others, reached through no link. What is
/// read and written through it stays in that very directory, even if its path means something else later (closes the
/// TOCTOU window between the check and the use).
#[derive(Clone, Debug)]
pub struct SessionDir {
    path: PathBuf,
    dir: Arc<PrivateDir>,
}

impl SessionDir {
    /// Opens the directory called `id` in `sessions`, whose own path is `path`.
    pub fn open_in(sessions: &PrivateDir, path: &Path, id: &str) -> Result<Self, PrivateError> {
        let path = path.join(id);
        let dir = sys::private::open_unwritable_child(sessions, OsStr::new(id), &path)?;
        Ok(Self { path, dir: Arc::new(dir) })
    }

    /// Opens a directory that was made a moment ago.
    pub(crate) fn adopt(path: &Path) -> Result<Self, PrivateError> {
        let dir = sys::private::open_unwritable_dir(path)?;
        Ok(Self { path: path.to_owned(), dir: Arc::new(dir) })
    }

    /// Its path, for what is only shown or read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn id(&self) -> Cow<'_, str> {
        self.path.file_name().unwrap_or_default().to_string_lossy()
    }

    /// Reads the manifest.
    pub fn read_manifest(&self) -> Result<SessionManifest, HostFault> {
        let path = self.path.join(MANIFEST_FILE);
        let bytes = match self.dir.read_unwritable(MANIFEST_FILE, LARGEST_RECORD) {
            Ok(bytes) => bytes,
            Err(PrivateFileFault::Missing) => {
                let message = format!("no session `{}`", self.id());
                return Err(HostFault::new(FaultCode::SessionNotFound, message));
            }
            Err(PrivateFileFault::Io(error)) => {
                let message = format!("cannot read {}: {error}", path.display());
                return Err(HostFault::new(FaultCode::StorageReadError, message));
            }
            Err(fault) => {
                let message = format!("the manifest {} {fault}", path.display());
                return Err(HostFault::new(FaultCode::StorageReadError, message));
            }
        };
        let invalid = |reason: String| {
            let message = format!("the manifest {} is not valid: {reason}", path.display());
            HostFault::new(FaultCode::ManifestValidationError, message)
        };
        let manifest: SessionManifest =
            serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
        if manifest.version != 1 {
            return Err(invalid(format!("it has version {}, not 1", manifest.version)));
        }
        if manifest.command.is_empty() {
            return Err(invalid("it names no command".to_owned()));
        }
        Ok(manifest)
    }

    /// Writes the manifest, whole or not at all.
    pub fn write_manifest(
        &self,
        manifest: &SessionManifest,
        durability: Durability,
    ) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(manifest)?;
        text.push('\n');
        match durability {
            Durability::System => self.dir.write_unsynced(MANIFEST_FILE, text.as_bytes()),
            Durability::Disk => self.dir.write_atomic(MANIFEST_FILE, text.as_bytes()),
        }
    }

    /// Makes the manifest durable as it stands.
    pub(crate) fn settle_on_disk(&self) -> io::Result<()> {
        sys::private::open_regular(&self.path.join(MANIFEST_FILE))?.sync_all()?;
        self.dir.sync()
    }

    /// Who holds the terminal; `None` when ostler did not write it down, or another user could have.
    pub fn read_holder(&self) -> Option<Holder> {
        let (bytes, _) = self.dir.read_private(HOLDER_FILE, LARGEST_RECORD).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    pub(crate) fn write_holder(&self, holder: &Holder) -> io::Result<()> {
        self.dir.write_unsynced(HOLDER_FILE, &serde_json::to_vec(holder)?)
    }
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
struct KeyframeHead {
    seq: i64,
    offset: u64,
}

pub(crate) fn write_keyframe(
    directory: &Path,
    seq: i64,
    offset: u64,
    screen: &Screen,
) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(&KeyframeHead { seq, offset })?;
    bytes.push(b'\n');
    bytes.extend_from_slice(&screen.to_keyframe());
    sys::atomic::write_unsynced(&directory.join(KEYFRAME_FILE), &bytes)
}

/// The latest keyframe, if there is one that can be believed.
pub fn read_keyframe(directory: &Path) -> Option<Keyframe> {
    let bytes = sys::private::read_regular(&directory.join(KEYFRAME_FILE)).ok()?;
    let end = memchr::memchr(b'\n', &bytes)?;
    let KeyframeHead { seq, offset } = serde_json::from_slice(&bytes[..end]).ok()?;
    let screen = Screen::from_keyframe(&bytes[end + 1..]).ok()?;
    Some(Keyframe { seq, offset, screen })
}
