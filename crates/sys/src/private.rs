//! Files and directories that are ours alone, checked through the opened descriptor: what was
//! checked is what is used, even if the name changes meanwhile.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

mod dir;

pub use dir::{InodeFacts, InodeKind, PrivateDir, PrivateFileFault};

/// Why something is not ours alone.
#[derive(Debug, thiserror::Error)]
pub enum PrivateError {
    /// The system refused. A symlink at the path shows up here, as it is never followed.
    #[error("cannot open `{}`: {source}", path.display())]
    Io {
        /// What was to be opened.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// It belongs to another user.
    #[error("`{}` belongs to user {owner}", path.display())]
    NotOurs {
        /// What was opened.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// Others may use it.
    #[error("`{}` is open to others (mode {mode:03o})", path.display())]
    TooOpen {
        /// What was opened.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Neither a file nor a directory, whichever was expected.
    #[error("`{}` is not a {expected}", path.display())]
    WrongKind {
        /// What was opened.
        path: PathBuf,
        /// What it should have been.
        expected: &'static str,
    },
}

/// The user whose files are ours.
pub fn our_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes sure that `path` is a directory that only this user can use (0700), creating it if it is
/// missing. One that exists is verified, never changed: a directory that others could write to
/// may already hold what they put there. Missing parents are created with the same mode.
pub fn create_private_dir(path: &Path) -> Result<(), PrivateError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| PrivateError::Io { path: path.into(), source })?;
    verify_private_dir(path)
}

/// Opens a private directory (ours, 0700) that no other user can move away or exchange: every level
/// above it belongs to root or to us, and others may not write there unless it is sticky.
///
/// For directories at well-known names in shared places such as `/tmp`.
pub fn open_guarded_dir(path: &Path) -> Result<PrivateDir, PrivateError> {
    walk_levels(path, Missing::Refuse)?;
    open_own_dir(path)
}

/// As [`open_guarded_dir`], making what is missing (0700). Each level is verified before anything is
/// made in it, so a link that another user put there leads nowhere.
pub fn create_guarded_dir(path: &Path) -> Result<PrivateDir, PrivateError> {
    walk_levels(path, Missing::Create)?;
    open_own_dir(path)
}

#[derive(Clone, Copy)]
enum Missing {
    Refuse,
    Create,
}

fn walk_levels(path: &Path, missing: Missing) -> Result<(), PrivateError> {
    let mut level = PathBuf::new();
    for part in path.components() {
        level.push(part);
        let io = |errno: Errno| PrivateError::Io { path: level.clone(), source: errno.into() };
        let stat = match (rustix::fs::lstat(&level), missing) {
            (Err(Errno::NOENT), Missing::Create) => match rustix::fs::mkdir(&level, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => rustix::fs::lstat(&level).map_err(io)?,
                Err(errno) => return Err(io(errno)),
            },
            (found, _) => found.map_err(io)?,
        };
        if stat.st_uid != 0 && stat.st_uid != our_uid() {
            return Err(PrivateError::NotOurs { path: level, owner: stat.st_uid });
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let mode = permission_bits(&stat);
                if mode & 0o022 != 0 && mode & 0o1000 == 0 {
                    return Err(PrivateError::TooOpen { path: level, mode });
                }
            }
            // `/tmp` is a link on some systems: its maker was root or us.
            FileType::Symlink => {
                let target = std::fs::canonicalize(&level)
                    .map_err(|source| PrivateError::Io { path: level.clone(), source })?;
                walk_levels(&target, Missing::Refuse)?;
                level = target;
            }
            _ => return Err(PrivateError::WrongKind { path: level, expected: "directory" }),
        }
    }
    Ok(())
}

/// Opens a directory that must be ours alone.
pub fn open_own_dir(path: &Path) -> Result<PrivateDir, PrivateError> {
    let io = |source| PrivateError::Io { path: path.into(), source };
    let dir = PrivateDir::open(path).map_err(io)?;
    verify_private(dir.as_fd(), path, FileType::Directory, 0o077)?;
    Ok(dir)
}

/// Makes sure that `path` is a directory that only this user can use.
pub fn verify_private_dir(path: &Path) -> Result<(), PrivateError> {
    let directory = open_nofollow(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    verify_private(&directory, path, FileType::Directory, 0o077)
}

/// Opens a directory that belongs to us and that others cannot write to, so that what is found in it
/// was put there by us. A link in its place is followed if we made the link.
pub fn open_unwritable_dir(path: &Path) -> Result<PrivateDir, PrivateError> {
    let io = |source| PrivateError::Io { path: path.into(), source };
    let found = std::fs::symlink_metadata(path).map_err(io)?;
    let dir = if found.is_symlink() && found.uid() == our_uid() {
        PrivateDir::open(&std::fs::canonicalize(path).map_err(io)?)
    } else {
        PrivateDir::open(path)
    };
    let dir = dir.map_err(io)?;
    verify_unwritable(&dir, path)?;
    Ok(dir)
}

/// Opens a directory in `parent`, which is called `path` in errors, as [`open_unwritable_dir`] does; no
/// link is followed.
pub fn open_unwritable_child(
    parent: &PrivateDir,
    name: &std::ffi::OsStr,
    path: &Path,
) -> Result<PrivateDir, PrivateError> {
    let dir = parent.open_child(name);
    let dir = dir.map_err(|source| PrivateError::Io { path: path.into(), source })?;
    verify_unwritable(&dir, path)?;
    Ok(dir)
}

fn verify_unwritable(dir: &PrivateDir, path: &Path) -> Result<(), PrivateError> {
    verify_private(dir, path, FileType::Directory, 0o022)
}

/// Opens a file of ours for reading. It must be a regular file that belongs to us and that others
/// can neither read nor write.
pub fn open_private(path: &Path) -> Result<File, PrivateError> {
    // NONBLOCK: a FIFO put in its place must not hang us before the check.
    let file = open_nofollow(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
    verify_file(&file, path)?;
    Ok(file)
}

/// Opens a regular file for reading, of any owner. A link is not followed, and a pipe put in
/// its place is not waited for.
pub fn open_regular(path: &Path) -> Result<File, PrivateError> {
    open_regular_as(path, OFlags::RDONLY)
}

/// As [`open_regular`], to be changed in place.
pub fn open_regular_to_change(path: &Path) -> Result<File, PrivateError> {
    open_regular_as(path, OFlags::RDWR)
}

fn open_regular_as(path: &Path, access: OFlags) -> Result<File, PrivateError> {
    let file = open_nofollow(path, access | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    match file.metadata() {
        Ok(about) if about.is_file() => Ok(file),
        Ok(_) => Err(PrivateError::WrongKind { path: path.into(), expected: "regular file" }),
        Err(source) => Err(PrivateError::Io { path: path.into(), source }),
    }
}

/// Reads a whole regular file, which is opened as [`open_regular`] does.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut open_regular(path)?, &mut bytes)?;
    Ok(bytes)
}

impl From<PrivateError> for io::Error {
    /// Keeps the system's own answer, so that a missing file is still known as one.
    fn from(error: PrivateError) -> Self {
        match error {
            PrivateError::Io { source, .. } => source,
            other => Self::new(io::ErrorKind::InvalidData, other),
        }
    }
}

fn open_nofollow(path: &Path, flags: OFlags) -> Result<File, PrivateError> {
    rustix::fs::open(path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        .map(File::from)
        .map_err(|errno| PrivateError::Io { path: path.into(), source: errno.into() })
}

/// Makes sure that an opened file is a regular one, ours, and closed to others.
pub(crate) fn verify_file(opened: impl AsFd, path: &Path) -> Result<(), PrivateError> {
    verify_private(opened, path, FileType::RegularFile, 0o077)
}

fn verify_private(
    opened: impl AsFd,
    path: &Path,
    kind: FileType,
    forbidden: u32,
) -> Result<(), PrivateError> {
    let stat = rustix::fs::fstat(opened)
        .map_err(|errno| PrivateError::Io { path: path.into(), source: errno.into() })?;
    if FileType::from_raw_mode(stat.st_mode) != kind {
        let expected = if kind == FileType::Directory { "directory" } else { "regular file" };
        return Err(PrivateError::WrongKind { path: path.into(), expected });
    }
    if stat.st_uid != our_uid() {
        return Err(PrivateError::NotOurs { path: path.into(), owner: stat.st_uid });
    }
    let mode = permission_bits(&stat);
    if mode & forbidden != 0 {
        return Err(PrivateError::TooOpen { path: path.into(), mode });
    }
    Ok(())
}

// The width of `st_mode` differs between platforms.
#[allow(clippy::useless_conversion)]
fn permission_bits(stat: &rustix::fs::Stat) -> u32 {
    u32::from(stat.st_mode) & 0o7777
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_missing_directory_is_created_private_and_an_existing_one_verified() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b");
        create_private_dir(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        create_private_dir(&path).unwrap();
        chmod(&path, 0o750);
        assert!(matches!(
            create_private_dir(&path),
            Err(PrivateError::TooOpen { mode: 0o750, .. })
        ));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750, "not changed");
    }

    #[test]
    fn a_symlink_is_never_followed() {
        let home = tempfile::tempdir().unwrap();
        let (real, link) = (home.path().join("real"), home.path().join("link"));
        create_private_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        assert!(matches!(create_private_dir(&link), Err(PrivateError::Io { .. })));
        let (file, link) = (real.join("file"), real.join("link"));
        crate::atomic::write_synced(&file, b"x").unwrap();
        symlink(&file, &link).unwrap();
        open_private(&file).unwrap();
        assert!(matches!(open_private(&link), Err(PrivateError::Io { .. })));
    }

    #[test]
    fn what_others_can_read_or_what_is_no_file_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        crate::atomic::write_synced(&file, b"x").unwrap();
        chmod(&file, 0o644);
        assert!(matches!(open_private(&file), Err(PrivateError::TooOpen { mode: 0o644, .. })));
        assert!(matches!(open_private(home.path()), Err(PrivateError::WrongKind { .. })));
        let fifo = home.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        assert!(matches!(open_private(&fifo), Err(PrivateError::WrongKind { .. })), "and no hang");
    }

    #[test]
    fn m9_every_level_above_a_guarded_directory_is_verified() {
        let home = tempfile::tempdir().unwrap();
        let (shared, path) = (home.path().join("shared"), home.path().join("shared/ours/run"));
        fs::create_dir(&shared).unwrap();
        chmod(&shared, 0o1777);
        create_guarded_dir(&path).unwrap();
        assert_eq!(fs::metadata(shared.join("ours")).unwrap().permissions().mode() & 0o777, 0o700);
        open_guarded_dir(&path).unwrap();
        chmod(&shared, 0o777);
        assert!(matches!(open_guarded_dir(&path), Err(PrivateError::TooOpen { .. })));
        assert!(matches!(
            create_guarded_dir(&shared.join("new")),
            Err(PrivateError::TooOpen { .. })
        ));
        assert!(!shared.join("new").exists(), "nothing is made where others may write");
        chmod(&shared, 0o1777);
        chmod(&path, 0o755);
        assert!(matches!(open_guarded_dir(&path), Err(PrivateError::TooOpen { .. })));
    }

    #[test]
    fn m9_a_level_that_somebody_else_made_is_refused_and_nothing_is_made_through_it() {
        if our_uid() != 0 {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let (shared, victim) = (home.path().join("shared"), home.path().join("victim"));
        for directory in [&shared, &victim] {
            fs::create_dir(directory).unwrap();
        }
        chmod(&shared, 0o1777);
        symlink(&victim, shared.join("ostler-0")).unwrap();
        std::os::unix::fs::lchown(shared.join("ostler-0"), Some(4711), None).unwrap();
        let made = create_guarded_dir(&shared.join("ostler-0/deep"));
        assert!(matches!(made, Err(PrivateError::NotOurs { owner: 4711, .. })), "{made:?}");
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    }
}
