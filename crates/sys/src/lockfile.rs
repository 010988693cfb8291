//! Lock files of other programs (`O_EXCL`): a file that is there while its lock is held, and says by whom.
//!
//! The creator of the file (O_EXCL) has the lock, and removes the file to let go. A kill leaves it behind, so that
//! the next one has to judge whether the holder is gone: that is the caller's business. Ours to keep are
//! two things. A lock is taken over only while it is the very one that was judged, and only a lock that
//! is still ours is removed. For locks among ourselves there is [`crate::lock`], which needs neither.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use model::plan::{FileForm, Fingerprint};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use crate::dropped::NoteDropped;
use crate::fingerprint;

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub struct LockFile {
    path: PathBuf,
    file: File,
}

/// Makes the file, with this content and for this user only; `None` if there is one.
pub fn create_lock_file(path: &Path, content: &[u8]) -> io::Result<Option<LockFile>> {
    let made = File::options().write(true).create_new(true).mode(0o600).open(path);
    let file = match made {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        Err(error) => return Err(error),
    };
    // From here on it is let go of, in every case.
    let mut lock = LockFile { path: path.to_owned(), file };
    // Only another ostler that takes it for a stale one can be in between, and it sees that it is not.
    rustix::fs::flock(&lock.file, FlockOperation::NonBlockingLockExclusive)
        .note_dropped("locking a lock file");
    lock.file.write_all(content)?;
    Ok(Some(lock))
}

/// Puts this content in the place of what a holder who is gone has left; `None` if that is not there any
/// more, or another process is taking it over.
pub fn take_over(path: &Path, left: &[u8], content: &[u8]) -> io::Result<Option<LockFile>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened =
        File::options().read(true).write(true).custom_flags(flags.bits().cast_signed()).open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // Among ourselves: only one gets to look at it and to write.
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    }
    let mut bytes = Vec::new();
    (&file).take(left.len() as u64 + 1).read_to_end(&mut bytes)?;
    if bytes != left || !is_at(&file, path) {
        return Ok(None);
    }
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(content)?;
    // A process that judged it stale too may have put another file in its place.
    Ok(is_at(&file, path).then(|| LockFile { path: path.to_owned(), file }))
}

/// Whether a plain file is open, and is the one at a path.
fn is_at(file: &File, path: &Path) -> bool {
    let print = file.metadata().map(|about| fingerprint::of_metadata(&about));
    print.is_ok_and(|print| print.form == FileForm::File && fingerprint::is_at(&print, path))
}

impl LockFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is, to tell later whether it is still this one.
    pub fn fingerprint_now(&self) -> Option<Fingerprint> {
        self.file.metadata().ok().map(|about| fingerprint::of_metadata(&about))
    }
}

/// Lets go of a lock that one of us held when it was killed: only of the very file that it wrote, and only
/// if none of us holds it now. Whether it is gone.
pub fn let_go_of(path: &Path, print: &Fingerprint) -> bool {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let Ok(file) = opened else { return false };
    let ours = file.metadata().is_ok_and(|about| print.is_same(&fingerprint::of_metadata(&about)));
    let free = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    ours && free && is_at(&file, path) && std::fs::remove_file(path).is_ok()
}

impl Drop for LockFile {
    /// Lets go. No process puts another file in the place of a lock whose holder lives, so that what was
    /// ours a moment ago still is.
    fn drop(&mut self) {
        if is_at(&self.file, &self.path) {
            std::fs::remove_file(&self.path).note_dropped("letting go of a lock file");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn one_makes_it_and_lets_go_of_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.lock");
        let lock = create_lock_file(&path, b"me").unwrap().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"me");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(create_lock_file(&path, b"you").unwrap().is_none());
        assert!(take_over(&path, b"me", b"you").unwrap().is_none(), "it is held");
        drop(lock);
        assert!(!path.exists());
        assert!(create_lock_file(&path, b"you").unwrap().is_some());
        assert!(create_lock_file(&home.path().join("no/a.lock"), b"me").is_err());
    }

    #[test]
    fn only_what_was_judged_is_taken_over() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.lock");
        assert!(take_over(&path, b"left", b"me").unwrap().is_none());
        std::fs::write(&path, "left behind, by another").unwrap();
        assert!(take_over(&path, b"left behind", b"me").unwrap().is_none());
        let lock = take_over(&path, b"left behind, by another", b"me").unwrap().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"me");
        // Another of us read what is there now, and judges us gone.
        assert!(take_over(&path, b"me", b"you").unwrap().is_none());
        drop(lock);
        assert!(!path.exists());
        let target = home.path().join("target");
        std::fs::write(&target, "left").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(take_over(&path, b"left", b"me").is_err());
        assert_eq!(std::fs::read(&target).unwrap(), b"left");
    }

    #[test]
    fn l3_what_a_killed_holder_left_is_let_go_of_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.lock");
        let lock = create_lock_file(&path, b"me").unwrap().unwrap();
        let print = lock.fingerprint_now().unwrap();
        assert!(!let_go_of(&path, &print), "its holder lives");
        // As a kill leaves it: closed, and not removed.
        let LockFile { path: left, file } = &mut *std::mem::ManuallyDrop::new(lock);
        rustix::fs::flock(&*file, FlockOperation::Unlock).unwrap();
        std::fs::write(home.path().join("b"), "me").unwrap();
        std::fs::rename(home.path().join("b"), &*left).unwrap();
        assert!(!let_go_of(&path, &print), "it is another's");
        let print = fingerprint::of_path(&path).unwrap();
        assert!(let_go_of(&path, &print) && !path.exists());
    }

    #[test]
    fn what_another_put_in_its_place_is_not_removed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.lock");
        let lock = create_lock_file(&path, b"me").unwrap().unwrap();
        let other = home.path().join("b");
        std::fs::write(&other, "you").unwrap();
        std::fs::rename(&other, &path).unwrap();
        drop(lock);
        assert_eq!(std::fs::read(&path).unwrap(), b"you");
    }
}
