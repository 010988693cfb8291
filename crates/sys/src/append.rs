//! Lock-free appends to shared files of ours: `O_APPEND` and one `write` per line, from many processes at once.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Adds `bytes` to the end of a file in one write, so that those of others stay whole. The file and
/// its directory are made if need be, for this user only; a link in its place is refused.
pub fn append_bytes(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = match open_for_append(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(directory) = path.parent() {
                crate::private::create_private_dir(directory).map_err(io::Error::other)?;
            }
            open_for_append(path)?
        }
        opened => opened?,
    };
    // Not `write_all`: a second write would land behind another writer's line.
    let written = file.write(bytes)?;
    if written < bytes.len() {
        return Err(io::Error::new(io::ErrorKind::WriteZero, "the line was written only in part"));
    }
    Ok(())
}

/// As [`append_bytes`], unless the file has grown to `limit` bytes.
pub fn append_up_to(limit: u64, path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.symlink_metadata().is_ok_and(|known| known.len() >= limit) {
        return Ok(());
    }
    append_bytes(path, bytes)
}

fn open_for_append(path: &Path) -> io::Result<File> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(no_follow.bits().cast_signed())
        .open(path)
}

/// Whether no other process has the file open, so that nothing can be added to it through a descriptor
/// from before. `false` where the system cannot tell.
pub fn is_sole_opener(file: &File) -> bool {
    matches!(hold_alone(file), Opener::Alone(_))
}

/// Whether it is certain that another process has the file open.
pub fn has_other_opener(file: &File) -> bool {
    matches!(hold_alone(file), Opener::Others)
}

/// Who has a file open.
#[derive(Debug)]
pub(crate) enum Opener<'a> {
    /// Only this process; another open waits until this is dropped.
    Alone(Lease<'a>),
    /// Another process too.
    Others,
    /// The system or the file system cannot tell.
    Unknown,
}

impl Opener<'_> {
    /// Whether no other opener has come since; what could not be told is not known to have changed.
    pub(crate) fn is_still_alone(&self) -> bool {
        match self {
            Self::Alone(lease) => lease::is_whole(lease.file),
            Self::Others => false,
            Self::Unknown => true,
        }
    }
}

/// The kernel's word that no other process has the file open.
#[derive(Debug)]
pub(crate) struct Lease<'a> {
    file: &'a File,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        lease::release(self.file);
    }
}

/// Asks who has the file open, and keeps others out if none has.
pub(crate) fn hold_alone(file: &File) -> Opener<'_> {
    match lease::take(file) {
        Ok(()) => {
            let held = Opener::Alone(Lease { file });
            crate::pause::pause_at("lease.held");
            held
        }
        Err(io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy) => Opener::Others,
        Err(_) => Opener::Unknown,
    }
}

/// Whether no other process has a file open for writing, which was opened for reading only. An open for writing waits
/// until this descriptor is closed, and is noticed by asking again. `true` where the system cannot tell.
pub(crate) fn hold_unwritten(file: &File) -> bool {
    if lease::is_kept_for_reading(file) {
        return true;
    }
    let taken = lease::take_for_reading(file);
    !matches!(taken, Err(io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy))
}

#[cfg(target_os = "linux")]
mod lease {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;

    /// Which signal tells of another open. Not in `libc` for every platform.
    const F_SETSIG: libc::c_int = 10;

    /// A write lease is granted only while the file is open nowhere else. Another open then makes the
    /// kernel send a signal, which is SIGIO, and deadly, unless another is chosen: SIGURG does nothing.
    pub(super) fn take(file: &File) -> Result<(), io::ErrorKind> {
        take_kind(file, libc::F_WRLCK)
    }

    /// A read lease is granted only while the file is open for writing nowhere.
    pub(super) fn take_for_reading(file: &File) -> Result<(), io::ErrorKind> {
        take_kind(file, libc::F_RDLCK)
    }

    #[expect(unsafe_code, reason = "fcntl leases are in no safe wrapper")]
    fn take_kind(file: &File, kind: libc::c_int) -> Result<(), io::ErrorKind> {
        let fd = file.as_raw_fd();
        // SAFETY: the descriptor is open for the whole call, and both commands take an integer.
        let taken = unsafe {
            libc::fcntl(fd, F_SETSIG, libc::SIGURG) == 0
                && libc::fcntl(fd, libc::F_SETLEASE, kind) == 0
        };
        if taken { Ok(()) } else { Err(io::Error::last_os_error().kind()) }
    }

    /// Whether no other open waits: a lease that is being broken is not one for writing any more.
    pub(super) fn is_whole(file: &File) -> bool {
        kind_of(file) == libc::F_WRLCK
    }

    pub(super) fn is_kept_for_reading(file: &File) -> bool {
        kind_of(file) == libc::F_RDLCK
    }

    #[expect(unsafe_code, reason = "fcntl leases are in no safe wrapper")]
    fn kind_of(file: &File) -> libc::c_int {
        // SAFETY: as above; the command takes nothing.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) }
    }

    #[expect(unsafe_code, reason = "fcntl leases are in no safe wrapper")]
    pub(super) fn release(file: &File) {
        // SAFETY: as above. A lease that the kernel has taken back needs no release.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    }
}

#[cfg(not(target_os = "linux"))]
mod lease {
    use std::fs::File;
    use std::io;

    pub(super) fn take(_: &File) -> Result<(), io::ErrorKind> {
        Err(io::ErrorKind::Unsupported)
    }

    pub(super) fn take_for_reading(_: &File) -> Result<(), io::ErrorKind> {
        Err(io::ErrorKind::Unsupported)
    }

    pub(super) fn is_kept_for_reading(_: &File) -> bool {
        false
    }

    pub(super) fn is_whole(_: &File) -> bool {
        true
    }

    pub(super) fn release(_: &File) {}
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn lines_of_many_writers_stay_whole() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("spool/events");
        std::thread::scope(|threads| {
            for writer in 0..8u8 {
                let path = &path;
                threads.spawn(move || {
                    let mut line = vec![b'a' + writer; 3000];
                    line.push(b'\n');
                    for _ in 0..50 {
                        append_bytes(path, &line).unwrap();
                    }
                });
            }
        });
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 400);
        for line in text.lines() {
            assert_eq!(line.len(), 3000);
            assert!(line.bytes().all(|byte| byte == line.as_bytes()[0]));
        }
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    /// Opening a leased file makes the kernel send a signal: it must not be SIGIO.
    #[cfg(target_os = "linux")]
    #[test]
    fn m6_somebody_who_opens_the_file_does_not_kill_us() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        std::fs::write(&path, "x").unwrap();
        let file = File::open(&path).unwrap();
        let held = hold_alone(&file);
        assert!(matches!(held, Opener::Alone(_)) && held.is_still_alone());
        let impatient = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let opened = OpenOptions::new().append(true).custom_flags(impatient).open(&path);
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(!held.is_still_alone(), "somebody is at the door");
        drop(held);
        let _other = OpenOptions::new().append(true).open(&path).unwrap();
        assert!(matches!(hold_alone(&file), Opener::Others));
        assert!(!is_sole_opener(&file));
    }

    #[test]
    fn a_link_is_not_followed_and_a_limit_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let (target, link) = (home.path().join("target"), home.path().join("link"));
        std::fs::write(&target, "theirs").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        append_bytes(&link, b"x").unwrap_err();
        let log = home.path().join("log");
        for _ in 0..10 {
            append_up_to(20, &log, b"0123456789").unwrap();
        }
        assert_eq!(log.metadata().unwrap().len(), 20);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn another_opener_is_noticed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("events");
        append_bytes(&path, b"x").unwrap();
        let ours = File::open(&path).unwrap();
        let theirs = open_for_append(&path).unwrap();
        assert!(!is_sole_opener(&ours));
        drop(theirs);
        assert!(is_sole_opener(&ours));
    }
}
