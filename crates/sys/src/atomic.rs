//! Replace a file so that every reader sees the old or the new content, never a part.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
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
