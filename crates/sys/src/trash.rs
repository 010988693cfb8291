//! Atomic moves into the trash and back (`renameat2`, no replacement): whole or not at all, and never over
//! something else.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use model::plan::FileForm;
use rustix::fs::{AtFlags, CWD, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;

/// Gives something another name, unless the name is taken (`AlreadyExists`). The names of both
/// directories are on the disk when this returns.
pub fn rename_noreplace(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        // A file system that cannot promise it: looked at first, with a moment in between.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            if fs::symlink_metadata(to).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(from, to)?;
        }
        Err(errno) => return Err(errno.into()),
    }
    sync_directory_of(to)?;
    sync_directory_of(from)
}

/// Makes sure that the names in a file's directory are on the disk.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}

/// What is done about a name that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingName {
    /// It is an error.
    Refuse,
    /// It stays as it is; only what is missing is written.
    Keep,
}

/// Copies a file, a link or a whole directory: content, modes, times and owners. A socket, a pipe or
/// a device is an error (`Unsupported`), as nothing could be given back. What was copied is on the
/// disk when this returns.
pub fn copy_tree(from: &Path, to: &Path, existing: ExistingName) -> io::Result<()> {
    copy_noting(from, to, existing, &mut |_, _| {})
}

/// As [`copy`]; `note` is told what everything was before it was read.
pub(crate) fn copy_noting(
    from: &Path,
    to: &Path,
    existing: ExistingName,
    note: &mut dyn FnMut(&Path, &Metadata),
) -> io::Result<()> {
    let about = fs::symlink_metadata(from)?;
    note(from, &about);
    let print = crate::fingerprint::of_metadata(&about);
    if existing == ExistingName::Keep
        && print.form != FileForm::Directory
        && fs::symlink_metadata(to).is_ok()
    {
        return Ok(());
    }
    match print.form {
        FileForm::File => copy_file(from, to)?,
        FileForm::Link => std::os::unix::fs::symlink(fs::read_link(from)?, to)?,
        FileForm::Directory => {
            match fs::create_dir(to) {
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists
                        && existing == ExistingName::Keep
                        && to.is_dir() => {}
                made => made?,
            }
            for entry in fs::read_dir(from)? {
                let entry = entry?;
                copy_noting(&entry.path(), &to.join(entry.file_name()), existing, note)?;
            }
        }
        FileForm::Special => {
            let reason = format!("{} is a socket, a pipe or a device", from.display());
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
    }
    carry_over(to, &about, print.form)?;
    if print.form == FileForm::Directory {
        File::open(to)?.sync_all()?;
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::from(rustix::fs::open(
        from,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?);
    let mut target = File::options().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut source, &mut target)?;
    target.sync_all()
}

/// Owner, mode and times. The owner goes first: changing it clears bits of the mode.
pub(crate) fn carry_over(to: &Path, about: &Metadata, form: FileForm) -> io::Result<()> {
    let now = fs::symlink_metadata(to)?;
    if (now.uid(), now.gid()) != (about.uid(), about.gid()) {
        std::os::unix::fs::lchown(to, Some(about.uid()), Some(about.gid()))?;
    }
    if form != FileForm::Link {
        fs::set_permissions(to, fs::Permissions::from_mode(about.mode() & 0o7777))?;
    }
    let time = |secs, nanos| Timespec { tv_sec: secs, tv_nsec: nanos };
    let times = Timestamps {
        last_access: time(about.atime(), about.atime_nsec()),
        last_modification: time(about.mtime(), about.mtime_nsec()),
    };
    Ok(rustix::fs::utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Removes a file, a link or a whole directory for good. Links are removed, not followed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

/// The bytes of a file, or of all files below a directory; links are not followed.
pub fn size_of(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| size_of(&entry.path())).sum()
        }
        Ok(about) if about.is_file() => about.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::of_path;

    #[test]
    fn a_name_that_is_taken_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let (a, b) = (home.path().join("a"), home.path().join("b"));
        fs::write(&a, "a").unwrap();
        fs::write(&b, "b").unwrap();
        assert_eq!(rename_noreplace(&a, &b).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!((fs::read(&a).unwrap(), fs::read(&b).unwrap()), (b"a".into(), b"b".into()));
        rename_noreplace(&a, &home.path().join("c")).unwrap();
        assert!(!a.exists());
    }

    #[test]
    fn a_copy_keeps_modes_times_and_links() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::create_dir_all(from.join("deep/er")).unwrap();
        fs::write(from.join("deep/file"), "content").unwrap();
        fs::set_permissions(from.join("deep/file"), fs::Permissions::from_mode(0o741)).unwrap();
        std::os::unix::fs::symlink("/nowhere", from.join("deep/er/link")).unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        File::open(from.join("deep/file")).unwrap().set_modified(old).unwrap();
        File::open(from.join("deep")).unwrap().set_modified(old).unwrap();
        fs::set_permissions(from.join("deep"), fs::Permissions::from_mode(0o750)).unwrap();
        copy_tree(&from, &to, ExistingName::Refuse).unwrap();
        for name in ["deep", "deep/file", "deep/er", "deep/er/link"] {
            let (was, is) = (from.join(name), to.join(name));
            let (was, is) = (of_path(&was).unwrap(), of_path(&is).unwrap());
            assert_eq!((was.form, was.mode, was.size), (is.form, is.mode, is.size), "{name}");
            assert_eq!(was.mtime, is.mtime, "{name}");
        }
        assert_eq!(fs::read_link(to.join("deep/er/link")).unwrap(), Path::new("/nowhere"));
        assert!(copy_tree(&from, &to, ExistingName::Refuse).is_err(), "nothing is written over");
        fs::remove_file(to.join("deep/file")).unwrap();
        fs::write(to.join("new"), "theirs").unwrap();
        copy_tree(&from, &to, ExistingName::Keep).unwrap();
        assert_eq!(fs::read(to.join("deep/file")).unwrap(), b"content");
        assert_eq!(fs::read(to.join("new")).unwrap(), b"theirs");
    }

    #[test]
    fn what_cannot_be_given_back_is_not_copied() {
        let home = tempfile::tempdir().unwrap();
        let socket = home.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let refused =
            copy_tree(&socket, &home.path().join("to"), ExistingName::Refuse).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn removing_a_link_leaves_its_target() {
        let home = tempfile::tempdir().unwrap();
        let (target, link) = (home.path().join("target"), home.path().join("link"));
        fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        remove_tree(&link).unwrap();
        assert!(target.is_dir());
        remove_tree(&target).unwrap();
        assert!(!target.exists());
    }
}
