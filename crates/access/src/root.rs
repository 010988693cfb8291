//! The directories that hold access sessions. If they are not ours alone, nothing in them is trusted
//! and the whole command fails.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use sys::dropped::NoteDropped;

use crate::rules::meta::AccessMeta;
use crate::rules::{LENT_SOCKET, MAX_META_BYTES, META_FILE, is_id};
use sys::lock::{self, AdvisoryLock};
use sys::private::{InodeFacts, InodeKind, PrivateDir, PrivateError};

use super::AccessError;
use model::address::{AddressError, NoSingleId, pick_by_id};

/// Why the directories cannot be trusted. Nothing was touched.
#[derive(Debug, thiserror::Error)]
pub enum RootFault {
    /// Others may use it.
    #[error("FAIL_ROOT_OPEN: `{}` is open to others (mode {mode:04o})", path.display())]
    Open {
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A link or a file.
    #[error("FAIL_ROOT_NOT_DIR: `{}` is not a directory", path.display())]
    NotDir { path: PathBuf },
    #[error("FAIL_ROOT_OWNER: `{}` belongs to user {owner}", path.display())]
    Owner { path: PathBuf, owner: u32 },
    /// The system refused.
    #[error("`{}` cannot be used: {source}", path.display())]
    Io {
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// The directories, checked and held.
#[derive(Debug)]
pub struct AccessRoot {
    path: PathBuf,
    access: PrivateDir,
    sessions: PrivateDir,
    device: u64,
}

impl AccessRoot {
    /// Finds the directories below ostler's home; `None` when nothing was ever opened.
    pub fn find(home: &Path) -> Result<Option<Self>, RootFault> {
        let Some((path, home)) = open_home(home)? else { return Ok(None) };
        let path = path.join("access");
        let Some(access) = open_private(&home, "access", &path)? else { return Ok(None) };
        let Some(sessions) = open_private(&access, "sessions", &path.join("sessions"))? else {
            return Ok(None);
        };
        Self::new(path, access, sessions).map(Some)
    }

    /// Finds the directories, making those that are missing.
    pub fn create(home: &Path) -> Result<Self, RootFault> {
        if !home.exists() {
            sys::private::create_private_dir(home).map_err(|error| RootFault::Io {
                path: home.into(),
                source: io::Error::other(error),
            })?;
        }
        let missing =
            || RootFault::Io { path: home.into(), source: io::ErrorKind::NotFound.into() };
        let (path, home) = open_home(home)?.ok_or_else(missing)?;
        let path = path.join("access");
        let access = make_private(&home, "access", &path)?;
        let sessions = make_private(&access, "sessions", &path.join("sessions"))?;
        make_private(&access, "locks", &path.join("locks"))?;
        make_private(&access, "log", &path.join("log"))?;
        Self::new(path, access, sessions)
    }

    fn new(path: PathBuf, access: PrivateDir, sessions: PrivateDir) -> Result<Self, RootFault> {
        let facts = sessions.own_facts();
        let facts = facts.map_err(|source| RootFault::Io { path: path.clone(), source })?;
        Ok(Self { path, access, sessions, device: facts.device })
    }

    /// `access/sessions`.
    pub(crate) fn sessions(&self) -> &PrivateDir {
        &self.sessions
    }

    /// The file system that every session must be on.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// Where `access/sessions` is.
    pub fn sessions_path(&self) -> PathBuf {
        self.path.join("sessions")
    }

    /// Where the logs are.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Where a session's lent socket is, or would be.
    pub fn socket_path(&self, id: &str) -> PathBuf {
        self.sessions_path().join(id).join(LENT_SOCKET)
    }

    /// A directory beside `sessions`, checked; made if it is missing.
    pub(crate) fn make_beside(&self, name: &str) -> Result<PrivateDir, RootFault> {
        make_private(&self.access, name, &self.path.join(name))
    }

    /// A directory beside `sessions`, checked; `None` if it is missing.
    pub(crate) fn existing_beside(&self, name: &str) -> Result<Option<PrivateDir>, RootFault> {
        open_private(&self.access, name, &self.path.join(name))
    }

    /// Tries to lock a session; `None` when another process holds it.
    pub(crate) fn lock_session(&self, id: &str) -> Result<Option<AdvisoryLock>, PrivateError> {
        self.make_beside("locks").map_err(|fault| PrivateError::Io {
            path: self.path.join("locks"),
            source: io::Error::other(fault),
        })?;
        Ok(lock::try_take(&self.lock_path(id))?.into_lock())
    }

    /// Whether a session is locked, learned without making anything.
    pub(crate) fn is_locked(&self, id: &str) -> bool {
        let path = self.lock_path(id);
        path.exists() && lock::try_take(&path).is_ok_and(|attempt| attempt.into_lock().is_none())
    }

    /// Removes the lock file of a session that is gone, while its lock is held.
    pub(crate) fn forget_lock(&self, id: &str) {
        if let Ok(Some(locks)) = self.existing_beside("locks") {
            // It does no harm if it stays.
            #[expect(clippy::disallowed_methods, reason = "the lock that this process holds")]
            locks
                .unlink_name(OsStr::new(&format!("{id}.lock")))
                .note_dropped("removing a lock file");
        }
    }

    fn lock_path(&self, id: &str) -> PathBuf {
        self.path.join("locks").join(format!("{id}.lock"))
    }

    /// The names of everything in `sessions`.
    pub(crate) fn entry_names(&self) -> Result<Vec<std::ffi::OsString>, RootFault> {
        let path = self.sessions_path();
        self.sessions.list_names().map_err(|source| RootFault::Io { path, source })
    }

    /// The session that `text` means: its id, an unambiguous beginning of it, or its label.
    pub fn resolve_id(&self, text: &str) -> Result<String, AccessError> {
        let names = self.entry_names()?;
        let ids = || names.iter().filter_map(|name| name.to_str()).filter(|name| is_id(name));
        let fits: Vec<&str> = match pick_by_id(ids(), text, |id| [*id]) {
            Ok(one) => vec![one],
            Err(NoSingleId::Several(several)) => several,
            Err(NoSingleId::Nothing) if text.is_empty() => Vec::new(),
            Err(NoSingleId::Nothing) => {
                ids().filter(|id| self.label_of(id).as_deref() == Some(text)).collect()
            }
        };
        match fits[..] {
            [] => Err(AddressError::NotFound(text.to_owned()).into()),
            [one] => Ok(one.to_owned()),
            _ => Err(AddressError::Ambiguous {
                text: text.to_owned(),
                candidates: fits.into_iter().map(str::to_owned).collect(),
            }
            .into()),
        }
    }
}

impl AccessRoot {
    /// What a session is labelled, if its record keeps the rules.
    fn label_of(&self, id: &str) -> Option<String> {
        const WHAT: &str = "the record of an access session";
        let dir = self.sessions.open_child(OsStr::new(id)).ok_or_note(WHAT)?;
        let (bytes, _) = dir.read_private(META_FILE, MAX_META_BYTES).ok_or_note(WHAT)?;
        AccessMeta::parse_for(&bytes, id).ok_or_note(WHAT)?.label
    }
}

/// Opens ostler's home, wherever links lead to it. It may be readable to others, not writable.
fn open_home(home: &Path) -> Result<Option<(PathBuf, PrivateDir)>, RootFault> {
    let failed = |source| RootFault::Io { path: home.into(), source };
    let path = match std::fs::canonicalize(home) {
        Ok(path) => path,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let dir = match PrivateDir::open(&path) {
        Ok(dir) => dir,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(RootFault::NotDir { path });
        }
        Err(error) => return Err(failed(error)),
    };
    let facts = dir.own_facts().map_err(failed)?;
    check_trusted(&facts, &path, 0o022)?;
    Ok(Some((path, dir)))
}

fn check_trusted(facts: &InodeFacts, path: &Path, forbidden: u32) -> Result<(), RootFault> {
    match facts {
        InodeFacts { kind, .. } if *kind != InodeKind::Directory => {
            Err(RootFault::NotDir { path: path.into() })
        }
        facts if !facts.is_ours() => {
            Err(RootFault::Owner { path: path.into(), owner: facts.owner })
        }
        InodeFacts { mode, .. } if mode & forbidden != 0 => {
            Err(RootFault::Open { path: path.into(), mode: *mode })
        }
        _ => Ok(()),
    }
}

/// Opens a directory that must be ours alone; `None` when it is missing.
fn open_private(
    parent: &PrivateDir,
    name: &str,
    path: &Path,
) -> Result<Option<PrivateDir>, RootFault> {
    let failed = |source| RootFault::Io { path: path.into(), source };
    let name = OsStr::new(name);
    let Some(facts) = parent.facts_of(name).map_err(failed)? else { return Ok(None) };
    check_trusted(&facts, path, 0o077)?;
    let dir = parent.open_child(name).map_err(failed)?;
    // What is used is what was opened.
    check_trusted(&dir.own_facts().map_err(failed)?, path, 0o077)?;
    Ok(Some(dir))
}

fn make_private(parent: &PrivateDir, name: &str, path: &Path) -> Result<PrivateDir, RootFault> {
    if let Some(dir) = open_private(parent, name, path)? {
        return Ok(dir);
    }
    let failed = |source| RootFault::Io { path: path.into(), source };
    parent.ensure_child(OsStr::new(name)).map_err(failed)?;
    open_private(parent, name, path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}
