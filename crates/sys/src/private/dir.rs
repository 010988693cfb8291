//! Directory handles (`openat` and the like): everything below one is reached through its descriptor, so that a
//! path that changes meanwhile leads nowhere else.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::dropped::NoteDropped;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// An open directory.
#[derive(Debug)]
pub struct PrivateDir(OwnedFd);

/// What a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeKind {
    /// A regular file.
    File,
    Directory,
    Socket,
    /// A link, a FIFO, a device.
    Other,
}

/// What the file system says about a file. Two that are equal are about the same, unchanged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeFacts {
    /// What it is.
    pub kind: InodeKind,
    /// Whose it is.
    pub owner: u32,
    pub mode: u32,
    /// How many names it has.
    pub links: u64,
    pub bytes: u64,
    pub device: u64,
    /// Its number on that device.
    pub inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl InodeFacts {
    /// Whether it is ours and no other user may use it.
    pub fn is_private(&self) -> bool {
        self.is_ours() && self.mode & 0o077 == 0
    }

    /// Whether it belongs to this user.
    pub fn is_ours(&self) -> bool {
        self.owner == rustix::process::geteuid().as_raw()
    }

    /// Whether both are the same thing on disk, changed or not.
    pub fn is_same(&self, other: &Self) -> bool {
        self.device == other.device && self.inode == other.inode
    }

    // The widths of these fields differ between platforms.
    #[allow(clippy::useless_conversion, clippy::cast_lossless, clippy::unnecessary_cast)]
    fn from_stat(stat: &rustix::fs::Stat) -> Self {
        Self {
            kind: match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => InodeKind::File,
                FileType::Directory => InodeKind::Directory,
                FileType::Socket => InodeKind::Socket,
                _ => InodeKind::Other,
            },
            owner: stat.st_uid,
            mode: u32::from(stat.st_mode) & 0o7777,
            links: stat.st_nlink as u64,
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            device: stat.st_dev as u64,
            inode: stat.st_ino,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum PrivateFileFault {
    /// It is not there.
    #[error("is missing")]
    Missing,
    /// It is a link, a directory, a FIFO, a socket or a device.
    #[error("is not a regular file")]
    NotAFile,
    /// It belongs to another user.
    #[error("belongs to another user")]
    NotOurs,
    /// Its mode is not 0600.
    #[error("does not have mode 0600")]
    WrongMode,
    /// Others may write to it.
    #[error("can be written by others")]
    WritableByOthers,
    /// It has another name somewhere.
    #[error("has more than one name")]
    HardLinked,
    /// It is larger than it may be.
    #[error("is too large")]
    TooLarge,
    /// It was exchanged while it was opened.
    #[error("changed while it was read")]
    Changed,
    /// The system refused.
    #[error("cannot be read")]
    Io(#[source] io::Error),
}

impl From<Errno> for PrivateFileFault {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

impl PrivateDir {
    /// Opens a directory by its path; a link at its end is refused.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Opens a directory in this one; a link is refused.
    pub fn open_child(&self, name: &OsStr) -> io::Result<Self> {
        plain_name(name)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Makes a directory (0700) in this one that was not there, and opens it.
    pub fn create_child(&self, name: &OsStr) -> io::Result<Self> {
        plain_name(name)?;
        rustix::fs::mkdirat(&self.0, name, Mode::RWXU)?;
        self.open_child(name)
    }

    /// Opens a directory in this one, making it (0700) if it is missing.
    pub fn ensure_child(&self, name: &OsStr) -> io::Result<Self> {
        match self.create_child(name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.open_child(name),
            other => other,
        }
    }

    /// Facts about the directory itself.
    pub fn own_facts(&self) -> io::Result<InodeFacts> {
        Ok(InodeFacts::from_stat(&rustix::fs::fstat(&self.0)?))
    }

    /// Facts about a name in it, links not followed. `None` when there is no such name.
    pub fn facts_of(&self, name: &OsStr) -> io::Result<Option<InodeFacts>> {
        match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(InodeFacts::from_stat(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The names in it, sorted.
    pub fn list_names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Reads a whole file of ours: regular, mode exactly 0600, one name, at most `most` bytes. Says
    /// with the content which file it was.
    pub fn read_private(
        &self,
        name: &str,
        most: u64,
    ) -> Result<(Vec<u8>, InodeFacts), PrivateFileFault> {
        let before = match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => InodeFacts::from_stat(&stat),
            Err(Errno::NOENT) => return Err(PrivateFileFault::Missing),
            Err(errno) => return Err(errno.into()),
        };
        match before {
            InodeFacts { kind, .. } if kind != InodeKind::File => {
                return Err(PrivateFileFault::NotAFile);
            }
            facts if !facts.is_ours() => return Err(PrivateFileFault::NotOurs),
            InodeFacts { mode, .. } if mode != 0o600 => return Err(PrivateFileFault::WrongMode),
            InodeFacts { links, .. } if links != 1 => return Err(PrivateFileFault::HardLinked),
            InodeFacts { bytes, .. } if bytes > most => return Err(PrivateFileFault::TooLarge),
            _ => {}
        }
        // NONBLOCK: a FIFO put in its place must not hang us before the check.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat(&self.0, name, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::LOOP) => return Err(PrivateFileFault::Changed),
            Err(errno) => return Err(errno.into()),
        };
        if InodeFacts::from_stat(&rustix::fs::fstat(&opened)?) != before {
            return Err(PrivateFileFault::Changed);
        }
        let mut bytes = Vec::new();
        File::from(opened).take(most + 1).read_to_end(&mut bytes).map_err(PrivateFileFault::Io)?;
        if bytes.len() as u64 != before.bytes {
            return Err(PrivateFileFault::Changed);
        }
        Ok((bytes, before))
    }

    /// Reads a whole regular file of ours that others cannot write to, at most `most` bytes. For what
    /// another program may have written with another mode than `Self::read` asks for.
    pub fn read_unwritable(&self, name: &str, most: u64) -> Result<Vec<u8>, PrivateFileFault> {
        // NONBLOCK: a FIFO must not hang us before the check.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat(&self.0, name, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Err(PrivateFileFault::Missing),
            Err(Errno::LOOP | Errno::NXIO) => return Err(PrivateFileFault::NotAFile),
            Err(errno) => return Err(errno.into()),
        };
        match InodeFacts::from_stat(&rustix::fs::fstat(&opened)?) {
            InodeFacts { kind, .. } if kind != InodeKind::File => {
                return Err(PrivateFileFault::NotAFile);
            }
            facts if !facts.is_ours() => return Err(PrivateFileFault::NotOurs),
            facts if facts.mode & 0o022 != 0 => return Err(PrivateFileFault::WritableByOthers),
            InodeFacts { bytes, .. } if bytes > most => return Err(PrivateFileFault::TooLarge),
            _ => {}
        }
        let mut bytes = Vec::new();
        File::from(opened).take(most + 1).read_to_end(&mut bytes).map_err(PrivateFileFault::Io)?;
        if bytes.len() as u64 > most { Err(PrivateFileFault::TooLarge) } else { Ok(bytes) }
    }

    /// Writes a file (0600) so that every reader sees all of it or nothing; one that is there is
    /// replaced.
    pub fn write_atomic(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.write_then(name, bytes, File::sync_all)?;
        self.sync()
    }

    /// As `Self::write`, but leaves it to the system when the content reaches the disk.
    pub fn write_unsynced(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.write_then(name, bytes, |_| Ok(()))
    }

    fn write_then(
        &self,
        name: &str,
        bytes: &[u8],
        settle: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let temporary = format!(".{name}.{}.{serial}.tmp", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.0, &temporary, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(opened);
        let written = file
            .write_all(bytes)
            .and_then(|()| settle(&file))
            .and_then(|()| Ok(rustix::fs::renameat(&self.0, &temporary, &self.0, name)?));
        if written.is_err() {
            // Best effort: the first error is the one that matters.
            rustix::fs::unlinkat(&self.0, &temporary, AtFlags::empty())
                .note_dropped("a temporary file");
        }
        written
    }

    /// Opens a file of ours (0600) in it to append to, making it if it is missing.
    pub fn append_to(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR)?;
        let facts = InodeFacts::from_stat(&rustix::fs::fstat(&opened)?);
        if facts.kind != InodeKind::File || !facts.is_private() || facts.links != 1 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "not a private file of ours",
            ));
        }
        Ok(opened.into())
    }

    /// Gives a name another one in the same directory. Nothing is ever replaced.
    pub fn rename_noreplace(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(&self.0, from, &self.0, to, RenameFlags::NOREPLACE)?)
    }

    /// Removes a name that is no directory. A link is removed, not what it names.
    pub fn unlink_name(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes the socket called `name`, if it is one and ours. Says whether it was.
    pub fn unlink_socket(&self, name: &OsStr) -> io::Result<bool> {
        plain_name(name)?;
        match self.facts_of(name)? {
            Some(facts) if facts.kind == InodeKind::Socket && facts.is_ours() => {
                self.unlink_name(name).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Removes an empty directory.
    pub fn remove_child(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Makes renames and removals durable.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }
}

impl AsFd for PrivateDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A name and not a path: nothing that leads elsewhere.
fn plain_name(name: &OsStr) -> io::Result<()> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn fault(dir: &PrivateDir, name: &str) -> PrivateFileFault {
        dir.read_private(name, 16).unwrap_err()
    }

    #[test]
    fn what_is_written_is_private_and_read_back() {
        let home = tempfile::tempdir().unwrap();
        let dir = PrivateDir::open(home.path()).unwrap();
        dir.write_atomic("file", b"old and long").unwrap();
        dir.write_atomic("file", b"new").unwrap();
        assert_eq!(dir.read_private("file", 16).unwrap().0, b"new");
        assert_eq!(dir.list_names().unwrap(), ["file"], "no temporary file stays");
        let facts = dir.facts_of(OsStr::new("file")).unwrap().unwrap();
        assert_eq!((facts.mode, facts.kind), (0o600, InodeKind::File));
    }

    #[test]
    fn each_rule_of_a_file_has_its_fault() {
        let home = tempfile::tempdir().unwrap();
        let dir = PrivateDir::open(home.path()).unwrap();
        assert!(matches!(fault(&dir, "missing"), PrivateFileFault::Missing));
        dir.write_atomic("file", b"text").unwrap();
        symlink("file", home.path().join("link")).unwrap();
        assert!(matches!(fault(&dir, "link"), PrivateFileFault::NotAFile));
        dir.create_child(OsStr::new("child")).unwrap();
        assert!(matches!(fault(&dir, "child"), PrivateFileFault::NotAFile));
        dir.write_atomic("large", &[b'x'; 17]).unwrap();
        assert!(matches!(fault(&dir, "large"), PrivateFileFault::TooLarge));
        dir.write_atomic("mode", b"x").unwrap();
        fs::set_permissions(home.path().join("mode"), fs::Permissions::from_mode(0o400)).unwrap();
        assert!(matches!(fault(&dir, "mode"), PrivateFileFault::WrongMode));
        fs::hard_link(home.path().join("file"), home.path().join("twin")).unwrap();
        assert!(matches!(fault(&dir, "file"), PrivateFileFault::HardLinked));
    }

    #[test]
    fn links_are_not_entered_and_renames_replace_nothing() {
        let home = tempfile::tempdir().unwrap();
        let dir = PrivateDir::open(home.path()).unwrap();
        dir.create_child(OsStr::new("real")).unwrap();
        symlink("real", home.path().join("link")).unwrap();
        dir.open_child(OsStr::new("link")).unwrap_err();
        assert!(PrivateDir::open(&home.path().join("link")).is_err());
        for path in ["..", ".", "", "real/..", "/etc"] {
            dir.open_child(OsStr::new(path)).unwrap_err();
        }
        dir.create_child(OsStr::new("other")).unwrap();
        dir.rename_noreplace(OsStr::new("real"), OsStr::new("other")).unwrap_err();
        dir.rename_noreplace(OsStr::new("real"), OsStr::new("third")).unwrap();
        dir.remove_child(OsStr::new("third")).unwrap();
    }
}
