//! Re-check under the lock (closes the TOCTOU window). [`CheckedRemoval`] can be made only here, and only
//! what was checked can be moved.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::plan::{FileForm, Fingerprint, PlanItem, Refusal, RemovableKind};
use model::time::{Time, whole_millis};
use sys::lockfile::LockFile;

use super::journal::{JournalPath, LockNote};

/// Something that would go, and what it was when that was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRemoval {
    /// What, and why.
    pub item: PlanItem,
    /// Where, to the byte.
    pub path: PathBuf,
    /// What it was.
    pub print: Fingerprint,
}

impl PlannedRemoval {
    /// Looks at what is there now.
    pub fn new(
        kind: RemovableKind,
        path: &Path,
        owner: impl Into<String>,
        why: impl Into<String>,
    ) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let print = sys::fingerprint::of_path(&path)?;
        Ok(Self::from_fingerprint(kind, path, print, owner, why))
    }

    /// Something that was looked at already, by its whole path.
    pub fn from_fingerprint(
        kind: RemovableKind,
        path: PathBuf,
        print: Fingerprint,
        owner: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        let item = PlanItem {
            kind,
            path: path.to_string_lossy().into_owned(),
            owner: owner.into(),
            session: None,
            title: None,
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
        self.item.age_ms = Some(whole_millis(age));
        self.item.evidence = vec!["when it was last changed; nobody has it open".to_owned()];
        age
    }

    /// With the size of everything below it.
    #[must_use]
    pub fn with_total_size(mut self) -> Self {
        if self.print.form == FileForm::Directory {
            self.item.bytes = sys::trash::size_of(&self.path);
        }
        self
    }
}

/// Something that may go now: it was locked, and looked at again after that.
#[derive(Debug)]
pub struct CheckedRemoval<'a> {
    pub(super) planned: &'a PlannedRemoval,
    /// What it is now, with the time of its birth: a plan may have been made from less.
    pub(super) print: Fingerprint,
    /// Held until the thing is gone.
    lock: Option<LockFile>,
}

impl CheckedRemoval<'_> {
    /// Which lock is held, for recovery after a kill.
    pub(super) fn lock_note(&self) -> Option<LockNote> {
        let lock = self.lock.as_ref()?;
        Some(LockNote { path: JournalPath(lock.path().to_owned()), print: lock.fingerprint_now()? })
    }
}

/// Looks again. `check` takes the thing's own lock and asks its own questions; what it locked
/// is held until the thing is gone.
pub fn recheck_planned<'a>(
    planned: &'a PlannedRemoval,
    check: impl FnOnce(&PlannedRemoval) -> Result<Option<LockFile>, Refusal>,
) -> Result<CheckedRemoval<'a>, Refusal> {
    let lock = check(planned)?;
    sys::pause::pause_at("reap.recheck");
    let now = fingerprint_now(&planned.path)?;
    let born = planned.print.born.zip(now.born);
    if !planned.print.is_same(&now) || born.is_some_and(|(then, now)| then != now) {
        return Err(Refusal::Changed);
    }
    let us = sys::private::our_uid();
    if us != 0 && now.uid != us {
        return Err(Refusal::NotOurs { uid: now.uid });
    }
    if now.form == FileForm::Special && planned.item.kind != RemovableKind::Socket {
        return Err(Refusal::Special);
    }
    if now.form == FileForm::Directory && is_mount_point(&planned.path, &now) {
        return Err(Refusal::Mounted);
    }
    Ok(CheckedRemoval { planned, print: now, lock })
}

fn fingerprint_now(path: &Path) -> Result<Fingerprint, Refusal> {
    sys::fingerprint::of_path(path).map_err(|error| io_refusal(path, &error))
}

fn is_mount_point(path: &Path, print: &Fingerprint) -> bool {
    let parent = path.parent().and_then(|parent| sys::fingerprint::of_path(parent).ok());
    parent.is_none_or(|parent| parent.form == FileForm::Directory && parent.dev != print.dev)
}

/// What the system's answer means for the thing.
pub fn io_refusal(path: &Path, error: &io::Error) -> Refusal {
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
