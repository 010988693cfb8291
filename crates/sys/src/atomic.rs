//! Replace a file so that every reader sees the old or the new content, never a part.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Writes `bytes` to `path` (mode 0600): a new file in the same directory, made durable, then
/// renamed over the old one. A symlink at `path` is replaced, not followed. After an error the
/// old content is untouched and no temporary file is left.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let temporary = temporary_beside(path)?;
    let written = write_durably(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // Best effort: the first error is the one that matters.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    // Without this a crash could bring back the old name although the caller was told otherwise.
    File::open(directory)?.sync_all()
}

/// As [`write()`], but leaves it to the system when the content reaches the disk: after a crash of the
/// machine the file may have the old content, or be empty. For what is of no use after one.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Replaces a file of somebody else's that was read as `before` (`None`: it was not there), keeping
/// its mode. A file that has changed meanwhile is left alone, with `WouldBlock`: it must be read
/// anew. A symlink is followed, so that it goes on pointing at what it points at.
pub fn update(path: &Path, before: Option<&[u8]>, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    update_by(path, before, bytes, temporary.file_name().unwrap_or_default())
}

/// As [`update`], by way of a file of this name, so that whoever is told of it knows what a kill leaves.
pub fn update_by(
    path: &Path,
    before: Option<&[u8]>,
    bytes: &[u8],
    temporary: &OsStr,
) -> io::Result<()> {
    let path = match before {
        Some(_) => fs::canonicalize(path)?,
        None => path.to_owned(),
    };
    let temporary = path.with_file_name(temporary);
    let replaced = write_durably(&temporary, bytes).and_then(|()| {
        if before.is_some() {
            let metadata = fs::metadata(&path)?;
            if metadata.uid() != rustix::process::geteuid().as_raw() {
                let reason = "it belongs to another user, and would then be ours";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
            }
            fs::set_permissions(&temporary, metadata.permissions())?;
        }
        crate::pause::at("atomic-update");
        unchanged(&path, before)?;
        match before {
            Some(_) => fs::rename(&temporary, &path),
            // Nothing was there: nothing that came meanwhile is written over.
            None => crate::trash::rename(&temporary, &path).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => io::ErrorKind::WouldBlock.into(),
                _ => error,
            }),
        }
    });
    if let Err(error) = replaced {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// Removes a file that was read as `before`, unless it has changed meanwhile.
pub fn remove(path: &Path, before: &[u8]) -> io::Result<()> {
    crate::pause::at("atomic-remove");
    unchanged(path, Some(before))?;
    fs::remove_file(path)
}

/// Gives a file that is whole its name, in the place of whatever had it.
pub fn put(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Gives up something of this process's own that is of no use to anybody: a file it was writing, a
/// socket it listened on. Everything else goes through the reaper.
pub fn abandon(path: &Path) {
    // Nobody needs it: one that cannot be removed is swept later.
    let _ = fs::remove_file(path);
}

fn unchanged(path: &Path, before: Option<&[u8]>) -> io::Result<()> {
    let now = match fs::read(path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if now.as_deref() == before {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "somebody else has just changed it"))
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A name that no other writer, in this process or another, uses at the same time.
fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let now = crate::clock::now().millis();
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.{now}.{serial}.tmp", std::process::id()));
    Ok(path.with_file_name(temporary))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names_in(directory: &Path) -> Vec<OsString> {
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn the_content_is_replaced_and_private() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state");
        fs::write(&path, "old, and longer than the new one").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names_in(home.path()), ["state"]);
    }

    #[test]
    fn a_symlink_is_replaced_and_its_target_untouched() {
        let home = tempfile::tempdir().unwrap();
        let (target, link) = (home.path().join("target"), home.path().join("link"));
        fs::write(&target, "theirs").unwrap();
        symlink(&target, &link).unwrap();
        write(&link, b"ours").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"theirs");
        assert_eq!(fs::read(&link).unwrap(), b"ours");
    }

    #[test]
    fn a_file_of_somebody_elses_keeps_its_mode_and_its_link() {
        let home = tempfile::tempdir().unwrap();
        let (target, link) = (home.path().join("target"), home.path().join("link"));
        fs::write(&target, "theirs").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("target", &link).unwrap();
        update(&link, Some(b"theirs"), b"both").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"both");
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(link.is_symlink());
        assert_eq!(names_in(home.path()).len(), 2);
    }

    #[test]
    fn what_has_changed_since_it_was_read_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        let kind = |result: io::Result<()>| result.unwrap_err().kind();
        fs::write(&path, "new").unwrap();
        assert_eq!(kind(update(&path, Some(b"old"), b"x")), io::ErrorKind::WouldBlock);
        assert_eq!(kind(update(&path, None, b"x")), io::ErrorKind::WouldBlock);
        assert_eq!(kind(remove(&path, b"old")), io::ErrorKind::WouldBlock);
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names_in(home.path()), ["file"]);
        remove(&path, b"new").unwrap();
        assert!(names_in(home.path()).is_empty());
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a-directory");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "x").unwrap();
        write(&path, b"new").unwrap_err();
        assert_eq!(names_in(home.path()), ["a-directory"]);
        write(&home.path().join("missing/state"), b"new").unwrap_err();
        write(Path::new("/"), b"new").unwrap_err();
    }
}
