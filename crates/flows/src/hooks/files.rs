//! Agents' files as they are found, and what is to happen to them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::plan::{Refusal, RemovableKind};
use model::wire::FileChange;
use reaper::{CollectError, PlannedRemoval, Reaper, io_refusal, recheck_planned};
use sha2::Digest;
use sys::dropped::NoteDropped;
use sys::machine::Machine;
use sys::writer_lock::WriterLock;

use super::made::SettingsDirectories;
use super::{EditError, HooksError};

const BACKUP: &str = ".ostler-backup";
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The most that is read of a settings file.
const MAX_SETTINGS_BYTES: u64 = 16 << 20;

/// A file as it was read, with the one that was kept from before ostler's hooks.
#[derive(Debug)]
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    backup_path: PathBuf,
    bytes: Option<Vec<u8>>,
    backup: Option<Vec<u8>>,
}

impl SettingsFile {
    /// Reads a file, and the copy of it at `backup_path`.
    pub(super) fn read_settings(path: &Path, backup_path: PathBuf) -> Result<Self, HooksError> {
        let fail = |source| HooksError::Read { path: path.to_owned(), source };
        let bytes = read_if_present(path).map_err(fail)?;
        if bytes.is_none() && path.is_symlink() {
            return Err(fail(io::Error::new(
                io::ErrorKind::NotFound,
                "it is a link to a file that is not there",
            )));
        }
        let backup = read_if_present(&backup_path)
            .map_err(|source| HooksError::Read { path: backup_path.clone(), source })?;
        Ok(Self { path: path.to_owned(), backup_path, bytes, backup })
    }

    pub(super) fn backup_path(&self) -> PathBuf {
        self.backup_path.clone()
    }

    pub(super) fn has_backup(&self) -> bool {
        self.backup.is_some()
    }

    /// The content without its byte order mark; nothing if there is no file.
    pub(super) fn settings_text(&self) -> Result<&str, HooksError> {
        let bytes = self.bytes.as_deref().unwrap_or_default();
        let text = std::str::from_utf8(bytes).map_err(|error| HooksError::Wrong {
            path: self.path.clone(),
            wrong: EditError::wrong_shape(format!("byte {} is not UTF-8", error.valid_up_to() + 1)),
        })?;
        Ok(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text))
    }

    /// The same for a content that was looked at before.
    pub(super) fn text_or_empty(&self) -> &str {
        self.settings_text().unwrap_or_default()
    }

    /// The content from before ostler's hooks, if it was kept.
    pub(super) fn original_text(&self) -> Option<String> {
        let text = String::from_utf8(self.backup.clone()?).ok()?;
        Some(text.strip_prefix(BYTE_ORDER_MARK).map_or(text.clone(), str::to_owned))
    }

    fn has_mark(&self) -> bool {
        self.bytes.as_deref().is_some_and(|bytes| bytes.starts_with(BYTE_ORDER_MARK.as_bytes()))
    }
}

/// Where a file of the user's own settings is kept: beside it.
pub(super) fn backup_beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(BACKUP);
    name.into()
}

/// Where a file of a project is kept: in ostler's home. What stands in a work tree is committed.
pub(super) fn backup_at_home(home: &Path, path: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;

    let name = model::hex::to_hex(&sha2::Sha256::digest(path.as_os_str().as_bytes()));
    home.join("hook-backups").join(name)
}

/// The place of a file below a project, all links resolved; they may not lead out of it. The
/// directories that are not there yet are part of the answer.
pub(super) fn resolve_beneath(project: &Path, path: &Path) -> Result<PathBuf, HooksError> {
    let fail = |source| HooksError::Read { path: path.to_owned(), source };
    let project = fs::canonicalize(project).map_err(fail)?;
    let there = path.ancestors().find(|place| fs::symlink_metadata(place).is_ok());
    let Some(there) = there else { return Ok(path.to_owned()) };
    let real = fs::canonicalize(there).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => {
            fail(io::Error::new(source.kind(), "it is a link to a file that is not there"))
        }
        _ => fail(source),
    })?;
    if !real.starts_with(&project) {
        return Err(HooksError::LeavesProject { path: path.to_owned(), target: real });
    }
    let missing = path.strip_prefix(there).unwrap_or(Path::new(""));
    Ok(if missing.as_os_str().is_empty() { real } else { real.join(missing) })
}

fn read_if_present(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"))
        }
        Ok(metadata) if metadata.len() > MAX_SETTINGS_BYTES => {
            Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large for settings"))
        }
        Ok(_) => fs::read(path).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Original {
    Leave,
    Keep,
    Drop,
}

/// What is to happen to a file.
#[derive(Debug)]
pub(super) struct SettingsPlan {
    pub(super) seen: SettingsFile,
    /// The content afterwards; `None` for no file.
    after: Option<Vec<u8>>,
    original: Original,
}

impl SettingsPlan {
    pub(super) fn leave_unchanged(seen: SettingsFile) -> Self {
        let after = seen.bytes.clone();
        Self { seen, after, original: Original::Leave }
    }

    pub(super) fn write_text(seen: SettingsFile, text: String) -> Self {
        let mark = if seen.has_mark() { BYTE_ORDER_MARK } else { "" };
        let after = Some(format!("{mark}{text}").into_bytes());
        Self { seen, after, original: Original::Leave }
    }

    pub(super) fn remove_file(seen: SettingsFile) -> Self {
        Self { seen, after: None, original: Original::Leave }
    }

    /// Keeps the file as it is now beside it.
    pub(super) fn keeping_original(self) -> Self {
        Self { original: Original::Keep, ..self }
    }

    /// The file from before is the file itself again.
    pub(super) fn dropping_original(self) -> Self {
        Self { original: Original::Drop, ..self }
    }

    /// Gives the file the content that it had before; a copy that was made of that content goes.
    pub(super) fn put_back(seen: SettingsFile, before: Option<Vec<u8>>, was_copied: bool) -> Self {
        let is_copy = was_copied && seen.backup.is_some() && seen.backup == before;
        let original = if is_copy { Original::Drop } else { Original::Leave };
        Self { seen, after: before, original }
    }

    /// The content of the file as it was read, and as it will be.
    pub(super) fn contents(&self) -> (Option<&[u8]>, Option<&[u8]>) {
        (self.seen.bytes.as_deref(), self.after.as_deref())
    }

    /// Whether a copy of the file is made that was not there.
    pub(super) fn makes_copy(&self) -> bool {
        self.original == Original::Keep && self.seen.bytes.is_some() && self.seen.backup.is_none()
    }

    pub(super) fn text_afterwards(&self) -> &str {
        let text = std::str::from_utf8(self.after.as_deref().unwrap_or_default());
        let text = text.unwrap_or_default();
        text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
    }

    pub(super) fn file_change(&self) -> FileChange {
        match (&self.seen.bytes, &self.after) {
            (before, after) if before == after => FileChange::Unchanged,
            (None, _) => FileChange::Created,
            (_, None) => FileChange::Removed,
            _ => FileChange::Changed,
        }
    }

    pub(super) fn backup_afterwards(&self) -> bool {
        match self.original {
            Original::Leave => self.seen.backup.is_some(),
            Original::Keep => self.seen.bytes.is_some(),
            Original::Drop => false,
        }
    }

    /// Leaves the file as it is; a copy of exactly that, which a killed change has made, goes.
    pub(super) fn leave_uninstalled(seen: SettingsFile) -> Self {
        let is_copy = seen.backup.is_some() && seen.backup == seen.bytes;
        let plan = Self::leave_unchanged(seen);
        if is_copy { plan.dropping_original() } else { plan }
    }

    /// Takes away the copy that was made for a change that then failed.
    pub(super) fn drop_new_backup(&self, remove: RemoveSettings<'_>) {
        if self.original != Original::Keep || self.seen.backup.is_some() {
            return;
        }
        let backup = self.seen.backup_path();
        if let Some(bytes) = &self.seen.bytes
            && fs::read(&backup).is_ok_and(|kept| kept == *bytes)
        {
            remove(&backup, bytes).note_dropped("a copy of settings that were not changed");
        }
    }

    /// The change, line by line.
    pub(super) fn render_diff(&self) -> String {
        let text = |bytes: &Option<Vec<u8>>| {
            String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned()
        };
        let path = self.seen.path.display().to_string();
        let (before, after) = (text(&self.seen.bytes), text(&self.after));
        let name = |there: bool| if there { path.as_str() } else { "/dev/null" };
        similar::TextDiff::from_lines(&before, &after)
            .unified_diff()
            .header(name(self.seen.bytes.is_some()), name(self.after.is_some()))
            .to_string()
    }

    /// Carries it out; what goes is given to `remove`. `Busy` if the file has changed since it was read:
    /// then nothing was done.
    pub(super) fn apply(
        &self,
        directories: &SettingsDirectories<'_>,
        remove: RemoveSettings<'_>,
    ) -> Result<(), HooksError> {
        if self.file_change() == FileChange::Unchanged && self.original != Original::Drop {
            return Ok(());
        }
        let path = &self.seen.path;
        let fail = |source: io::Error| match source.kind() {
            io::ErrorKind::WouldBlock => HooksError::Busy(path.clone()),
            _ => HooksError::Write { path: path.clone(), source },
        };
        if self.original == Original::Keep
            && let Some(bytes) = &self.seen.bytes
        {
            let backup = self.seen.backup_path();
            if let Some(directory) = backup.parent().filter(|parent| Some(*parent) != path.parent())
            {
                sys::private::create_private_dir(directory).map_err(|error| HooksError::Write {
                    path: directory.to_owned(),
                    source: io::Error::other(error),
                })?;
            }
            sys::atomic::write_synced(&backup, bytes)
                .map_err(|source| HooksError::Write { path: backup, source })?;
        }
        match (&self.seen.bytes, &self.after) {
            (Some(before), Some(after)) if before == after => {}
            (before, Some(after)) => {
                directories.make_parent(path).map_err(fail)?;
                sys::atomic::replace_if_unchanged(path, before.as_deref(), after).map_err(fail)?;
            }
            (Some(before), None) => {
                remove(path, before).map_err(fail)?;
                directories.remove_made(path).map_err(fail)?;
            }
            (None, None) => {}
        }
        if self.original == Original::Drop
            && let Some(backup) = &self.seen.backup
        {
            let path = self.seen.backup_path();
            remove(&path, backup).map_err(|source| HooksError::Write { path, source })?;
        }
        Ok(())
    }
}

/// Has a file removed that was read as these bytes. `WouldBlock` if it has changed meanwhile.
pub type RemoveSettings<'a> = &'a dyn Fn(&Path, &[u8]) -> io::Result<()>;

/// Moves a settings file to the trash that ostler alone has written, or its copy from before, unless it
/// has changed since its content had this hash. The caller holds the writer lock.
pub fn trash_settings(
    writer: &WriterLock,
    path: &Path,
    content_hash: &str,
    machine: &Machine,
) -> Result<Result<(), Refusal>, CollectError> {
    let why = "ostler alone has written it, or it is a copy from before ostler's change";
    let failed = |error: io::Error| io_refusal(path, &error);
    let planned = PlannedRemoval::new(RemovableKind::Configuration, path, "ostler", why);
    let planned = match planned.map_err(failed) {
        Ok(planned) => planned,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let checked = recheck_planned(&planned, |_| {
        let bytes = fs::read(path).map_err(failed)?;
        (sys::hash::sha256(&bytes) == content_hash).then_some(None).ok_or(Refusal::Changed)
    });
    let mut reaper = Reaper::begin(writer, "hooks uninstall", machine)?;
    let taken = match checked {
        Ok(checked) => reaper.trash_item(&checked)?,
        Err(refusal) => Err(refusal),
    };
    reaper.finish()?;
    Ok(taken)
}

/// Removes the directories above a file that have nothing in them any more, below `boundary` and the
/// nearest one that is kept.
#[expect(clippy::disallowed_methods, reason = "it removes nothing but empty directories")]
pub(crate) fn remove_empty_directories(
    path: &Path,
    boundary: Option<&Path>,
    kept_directories: &[PathBuf],
) {
    let Some(boundary) = boundary else { return };
    for directory in path.ancestors().skip(1) {
        let is_kept = kept_directories.iter().any(|kept| kept == directory);
        let below = directory.starts_with(boundary) && directory != boundary && !is_kept;
        // It fails for one that is not empty, and that is the end of it.
        if !below || fs::remove_dir(directory).is_err() {
            return;
        }
    }
}
