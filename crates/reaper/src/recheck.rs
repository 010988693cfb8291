//! The last look before something goes. [`Checked`] can be made only here, and only what was checked
//! can be moved.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::plan::{Fingerprint, Form, Item, Kind, Refusal};
use model::time::{Time, millis};
use sys::lockfile::LockFile;

use super::journal::{LockNote, Name as JournalPath};

/// Something that would go, and what it was when that was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What, and why.
    pub item: Item,
    /// Where, to the byte.
    pub path: PathBuf,
    /// What it was.
    pub print: Fingerprint,
}

impl Planned {
    /// Looks at what is there now.
    pub fn new(
        kind: Kind,
        path: &Path,
        owner: impl Into<String>,
        why: impl Into<String>,
    ) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let print = sys::fingerprint::of_path(&path)?;
        Ok(Self::seen(kind, path, print, owner, why))
    }

    /// Something that was looked at already, by its whole path.
    pub fn seen(
        kind: Kind,
        path: PathBuf,
        print: Fingerprint,
        owner: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        let item = Item {
            kind,
            path: path.to_string_lossy().into_owned(),
            owner: owner.into(),
            session: None,
            why: why.into(),
            age_ms: None,
            bytes: print.size,
            evidence: Vec::new(),
        };
        Self { item, path, print }
    }

    /// How long it has not been changed.
    pub fn age(&self, now: Time) -> Duration {
        now.since(self.print.modified_at())
    }

    /// Says how long it has not been changed, and that this is what was looked at.
    pub fn note_age(&mut self, now: Time) -> Duration {
        let age = self.age(now);
        self.item.age_ms = Some(millis(age));
        self.item.evidence = vec!["when it was last changed; nobody has it open".to_owned()];
        age
    }

    /// With the size of everything below it.
    #[must_use]
    pub fn weighed(mut self) -> Self {
        if self.print.form == Form::Directory {
            self.item.bytes = sys::trash::size_of(&self.path);
        }
        self
    }
}

/// Something that may go now: it was locked, and looked at again after that.
#[derive(Debug)]
pub struct Checked<'a> {
    pub(super) planned: &'a Planned,
    /// Held until the thing is gone.
    lock: Option<LockFile>,
}

impl Checked<'_> {
    /// Which lock is held, for whoever finds it after a kill.
    pub(super) fn lock_note(&self) -> Option<LockNote> {
        let lock = self.lock.as_ref()?;
        Some(LockNote { path: JournalPath(lock.path().to_owned()), print: lock.print()? })
    }
}

/// Looks again. `check` takes whatever lock the thing has and asks its own questions; what it locked
/// is held until the thing is gone.
pub fn recheck<'a>(
    planned: &'a Planned,
    check: impl FnOnce(&Planned) -> Result<Option<LockFile>, Refusal>,
) -> Result<Checked<'a>, Refusal> {
    let lock = check(planned)?;
    sys::pause::at("reap.recheck");
    let now = look(&planned.path)?;
    if !planned.print.is_same(&now) {
        return Err(Refusal::Changed);
    }
    let us = sys::private::our_uid();
    if us != 0 && now.uid != us {
        return Err(Refusal::NotOurs { uid: now.uid });
    }
    if now.form == Form::Special && planned.item.kind != Kind::Socket {
        return Err(Refusal::Special);
    }
    if now.form == Form::Directory && is_mount_point(&planned.path, &now) {
        return Err(Refusal::Mounted);
    }
    Ok(Checked { planned, lock })
}

fn look(path: &Path) -> Result<Fingerprint, Refusal> {
    sys::fingerprint::of_path(path).map_err(|error| refusal(path, &error))
}

fn is_mount_point(path: &Path, print: &Fingerprint) -> bool {
    let parent = path.parent().and_then(|parent| sys::fingerprint::of_path(parent).ok());
    parent.is_none_or(|parent| parent.form == Form::Directory && parent.dev != print.dev)
}

/// What the system's answer means for the thing.
pub fn refusal(path: &Path, error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::NotFound => Refusal::Gone,
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
            Refusal::NameTaken { path: path.to_string_lossy().into_owned() }
        }
        io::ErrorKind::ReadOnlyFilesystem => Refusal::ReadOnly,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Refusal::NoSpace,
        io::ErrorKind::ResourceBusy => Refusal::Mounted,
        io::ErrorKind::WouldBlock => Refusal::Changed,
        io::ErrorKind::Unsupported => Refusal::Special,
        _ => Refusal::Undeletable { why: error.to_string() },
    }
}
