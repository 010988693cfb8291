//! Atomic file replacement (temporary, fsync, rename): every reader sees the old or the new content, never a
//! part.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use crate::dropped::NoteDropped;
use crate::exchange::{self, ExchangeOutcome};

/// Writes `bytes` to `path` (mode 0600): a new file in the same directory, made durable, then
/// renamed over the old one. A symlink at `path` is replaced, not followed. After an error the
/// old content is untouched and no temporary file is left.
pub fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let temporary = temporary_beside(path)?;
    let written = write_durably(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // Best effort: the first error is the one that matters.
        fs::remove_file(&temporary).note_dropped("a temporary file");
        return Err(error);
    }
    // Without this a crash could bring back the old name although the caller was told otherwise.
    File::open(directory)?.sync_all()
}

/// As [`write_synced`], but leaves it to the system when the content reaches the disk: after a crash of the
/// machine the file may have the old content, or be empty. For what is of no use after one.
pub fn write_unsynced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        fs::remove_file(&temporary).note_dropped("a temporary file");
    }
    written
}

/// Replaces another owner's file that was read as `before` (`None`: it was not there), keeping
/// its mode and group. A file that has changed meanwhile is left alone, with `WouldBlock`: it must be
/// read anew. A symlink is followed, so that it goes on pointing at what it points at. One that says
/// that it is not to be changed (read-only), or that has other names which would go on showing the
/// old content (hard links), is refused.
pub fn replace_if_unchanged(path: &Path, before: Option<&[u8]>, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    update_by(path, before, bytes, temporary.file_name().unwrap_or_default(), &mut |_| Ok(()))
}

/// As [`replace_if_unchanged`], by way of a file of this name, so that recovery knows what a kill
/// leaves. After an error, what has that name was written by another process. `keep` is given what others
/// wrote in the moment of the exchange (see [`exchange::exchange_expected`]).
pub fn update_by(
    path: &Path,
    before: Option<&[u8]>,
    bytes: &[u8],
    temporary: &OsStr,
    keep: exchange::KeepWritten<'_>,
) -> io::Result<()> {
    let path = match before {
        Some(_) => fs::canonicalize(path)?,
        None => path.to_owned(),
    };
    let temporary = path.with_file_name(temporary);
    stage_content(&temporary, bytes)?;
    let ready = match before {
        Some(_) => take_over_attributes(&path, &temporary),
        None => Ok(()),
    };
    crate::pause::pause_at("atomic-update");
    let ready = ready.and_then(|()| check_unchanged(&path, before));
    crate::pause::pause_at("atomic-exchange");
    let replaced = ready.and_then(|()| match before {
        Some(before) => put_in_place(&path, &temporary, before, keep),
        None => rename_to_nothing(&temporary, &path),
    });
    if let Err(error) = replaced {
        // Whatever is not the new content is theirs: it stays.
        let removed = exchange::remove_known(&temporary, &|found| found == bytes);
        return match removed {
            Ok(true) => Err(error),
            _ => Err(io::Error::new(
                error.kind(),
                format!("{error}; what was written meanwhile is kept as {}", temporary.display()),
            )),
        };
    }
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// Writes the new content so that it has its name only when it is whole.
fn stage_content(temporary: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = exchange::unfinished_name(temporary);
    let staged =
        write_durably(&unfinished, bytes).and_then(|()| rename_to_nothing(&unfinished, temporary));
    staged.inspect_err(|_| remove_own(&unfinished))
}

/// Gives the new file the mode and the group of the one that it is to replace.
fn take_over_attributes(path: &Path, temporary: &Path) -> io::Result<()> {
    let denied = |reason| Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    let metadata = fs::metadata(path)?;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return denied("it belongs to another user, and would then be ours");
    }
    if metadata.mode() & 0o200 == 0 {
        return denied("it is read-only");
    }
    if metadata.nlink() > 1 {
        return denied("it has other names (hard links), which would keep the old content");
    }
    if metadata.gid() != fs::metadata(temporary)?.gid() {
        let group = rustix::fs::Gid::from_raw(metadata.gid());
        rustix::fs::chown(temporary, None, Some(group))?;
    }
    fs::set_permissions(temporary, metadata.permissions())
}

/// Exchanges the two files, unless another process was quicker than the last look.
fn put_in_place(
    path: &Path,
    temporary: &Path,
    before: &[u8],
    keep: exchange::KeepWritten<'_>,
) -> io::Result<()> {
    match exchange::exchange_expected(path, temporary, &|found| found == before, keep) {
        Ok(ExchangeOutcome::Replaced) => Ok(()),
        Ok(ExchangeOutcome::GivenBack | ExchangeOutcome::Parted) => Err(just_changed()),
        // A file system that cannot exchange: the window stays as small as it can be.
        Err(error) if exchange::is_unsupported(&error) => fs::rename(temporary, path),
        Err(error) => Err(error),
    }
}

fn just_changed() -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, "somebody else has just changed it")
}

/// Gives a new file its name, unless something has that name already.
fn rename_to_nothing(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => {
            Err(io::Error::new(io::ErrorKind::WouldBlock, "somebody else has just made it"))
        }
        Err(error) if exchange::is_unsupported(&error.into()) => fs::rename(from, to),
        other => Ok(other?),
    }
}

/// Renames a complete file over its destination (atomic).
pub fn rename_over(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Gives up something of this process's own that is of no use to anybody: a file it was writing, a
/// socket it listened on. Everything else goes through the reaper.
pub fn remove_own(path: &Path) {
    // It is not needed: one that cannot be removed is swept later.
    fs::remove_file(path).note_dropped("a file of this process");
}

fn check_unchanged(path: &Path, before: Option<&[u8]>) -> io::Result<()> {
    let now = match fs::read(path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if now.as_deref() == before { Ok(()) } else { Err(just_changed()) }
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
    let now = crate::clock::now().as_millis();
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
        write_synced(&path, b"new").unwrap();
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
        write_synced(&link, b"ours").unwrap();
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
        replace_if_unchanged(&link, Some(b"theirs"), b"both").unwrap();
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
        assert_eq!(
            kind(replace_if_unchanged(&path, Some(b"old"), b"x")),
            io::ErrorKind::WouldBlock
        );
        assert_eq!(kind(replace_if_unchanged(&path, None, b"x")), io::ErrorKind::WouldBlock);
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names_in(home.path()), ["file"]);
    }

    #[test]
    fn l1_what_was_written_after_the_last_look_is_put_back() {
        let home = tempfile::tempdir().unwrap();
        let (path, ours) = (home.path().join("settings"), home.path().join("ours"));
        fs::write(&path, "theirs, newer").unwrap();
        fs::write(&ours, "ours").unwrap();
        // As if it had been "old" at the last look.
        let error = put_in_place(&path, &ours, b"old", &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(fs::read(&path).unwrap(), b"theirs, newer");
        fs::write(&ours, "ours").unwrap();
        let error = rename_to_nothing(&ours, &path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn l1_no_write_of_a_busy_agent_is_lost() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("settings");
        fs::write(&path, "0").unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        // The agent counts; we add a mark. The number must never go back.
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for number in 1..2000 {
                    let beside = home.path().join("agent");
                    fs::write(&beside, number.to_string()).unwrap();
                    fs::rename(&beside, &path).unwrap();
                    // While it is being put back, the older one shows for a moment.
                    let is_there = || {
                        let now = fs::read_to_string(&path).unwrap();
                        now.trim_end_matches('!') == number.to_string()
                    };
                    assert!((0..100_000).any(|_| is_there()), "{number} is lost");
                }
                done.store(true, Ordering::SeqCst);
            });
            while !done.load(Ordering::SeqCst) {
                let before = fs::read_to_string(&path).unwrap();
                let after = format!("{}!", before.trim_end_matches('!'));
                if let Err(error) =
                    replace_if_unchanged(&path, Some(before.as_bytes()), after.as_bytes())
                {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
                }
            }
        });
        let last = fs::read_to_string(&path).unwrap();
        assert_eq!(last.trim_end_matches('!'), "1999");
    }

    #[test]
    fn l7_a_read_only_or_linked_file_is_refused_and_the_group_kept() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("settings");
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let refused = || replace_if_unchanged(&path, Some(b"a"), b"b").unwrap_err().kind();
        fs::write(&path, "a").unwrap();
        mode(0o444);
        assert_eq!(refused(), io::ErrorKind::PermissionDenied);
        mode(0o644);
        fs::hard_link(&path, home.path().join("other")).unwrap();
        assert_eq!(refused(), io::ErrorKind::PermissionDenied);
        fs::remove_file(home.path().join("other")).unwrap();
        // Any other group that this user is in.
        let groups = rustix::process::getgroups().unwrap();
        let group =
            groups.into_iter().find(|group| group.as_raw() != fs::metadata(&path).unwrap().gid());
        if let Some(group) =
            group.or(rustix::process::geteuid().is_root().then(|| rustix::fs::Gid::from_raw(12345)))
        {
            rustix::fs::chown(&path, None, Some(group)).unwrap();
            replace_if_unchanged(&path, Some(b"a"), b"b").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().gid(), group.as_raw());
        }
        assert_eq!(names_in(home.path()), ["settings"]);
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a-directory");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "x").unwrap();
        write_synced(&path, b"new").unwrap_err();
        assert_eq!(names_in(home.path()), ["a-directory"]);
        write_synced(&home.path().join("missing/state"), b"new").unwrap_err();
        write_synced(Path::new("/"), b"new").unwrap_err();
    }
}
