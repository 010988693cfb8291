//! File locks: the kernel's, released by the end of the process however it ends.
//!
//! A lock file is never removed while it is in use, and its age says nothing: who holds it is asked
//! of the kernel. The holder may sign the file with its identity, for error messages only.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use model::identity::Identity;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::private::{self, PrivateError};

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub struct AdvisoryLock {
    file: File,
}

/// What came of trying.
#[derive(Debug)]
pub enum LockAttempt {
    /// It is ours.
    Taken(AdvisoryLock),
    /// Another process has it: who, if they signed.
    Held(Option<Box<Identity>>),
}

impl LockAttempt {
    /// The lock, if it was taken.
    pub fn into_lock(self) -> Option<AdvisoryLock> {
        match self {
            Self::Taken(lock) => Some(lock),
            Self::Held(_) => None,
        }
    }
}

/// The largest signature that is read.
const MAX_HOLDER_BYTES: u64 = 4096;

/// Tries once. The file is made if need be, for this user only.
pub fn try_take(path: &Path) -> Result<LockAttempt, PrivateError> {
    let failed = |errno: Errno| PrivateError::Io { path: path.into(), source: errno.into() };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags | OFlags::NONBLOCK, Mode::RUSR | Mode::WUSR);
    let file = File::from(file.map_err(failed)?);
    private::verify_file(&file, path)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(LockAttempt::Taken(AdvisoryLock { file })),
        Err(Errno::WOULDBLOCK) => Ok(LockAttempt::Held(read_holder(file).map(Box::new))),
        Err(errno) => Err(failed(errno)),
    }
}

/// Tries for at most so long.
pub fn take_within(path: &Path, patience: Duration) -> Result<LockAttempt, PrivateError> {
    const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);
    let deadline = Instant::now() + patience;
    let mut nap = Duration::from_micros(200);
    loop {
        let attempt = try_take(path)?;
        let left = deadline.saturating_duration_since(Instant::now());
        if matches!(attempt, LockAttempt::Taken(_)) || left.is_zero() {
            return Ok(attempt);
        }
        std::thread::sleep(nap.min(left));
        nap = (nap * 2).min(LOCK_RETRY_INTERVAL);
    }
}

impl AdvisoryLock {
    /// Writes down who holds it.
    pub fn write_holder(&mut self, holder: &Identity) -> io::Result<()> {
        let text = serde_json::to_vec(holder)?;
        self.file.rewind()?;
        self.file.set_len(0)?;
        self.file.write_all(&text)
    }
}

/// Who last signed the file. A signature that cannot be read is none.
fn read_holder(file: File) -> Option<Identity> {
    let mut text = Vec::new();
    file.take(MAX_HOLDER_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn one_holds_it_and_the_other_learns_who() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.lock");
        let me = crate::proc::identify_self().unwrap();
        let mut lock = try_take(&path).unwrap().into_lock().unwrap();
        lock.write_holder(&me).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        match try_take(&path).unwrap() {
            LockAttempt::Held(Some(holder)) => assert_eq!(holder.pid, me.pid),
            other => panic!("{other:?}"),
        }
        drop(lock);
        assert!(try_take(&path).unwrap().into_lock().is_some());
        assert!(path.exists(), "a lock file stays");
    }

    #[test]
    fn patience_ends() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.lock");
        let _held = try_take(&path).unwrap().into_lock().unwrap();
        let attempt = take_within(&path, Duration::from_millis(30)).unwrap();
        assert!(matches!(attempt, LockAttempt::Held(None)));
    }

    #[test]
    fn patience_is_rewarded_when_the_holder_lets_go() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.lock");
        let held = try_take(&path).unwrap().into_lock().unwrap();
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| take_within(&path, Duration::from_secs(30)));
            drop(held);
            assert!(waiting.join().unwrap().unwrap().into_lock().is_some());
        });
    }

    #[test]
    fn a_lock_file_open_to_others_or_a_link_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("open.lock");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(try_take(&path), Err(PrivateError::TooOpen { .. })));
        let link = home.path().join("link.lock");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(try_take(&link), Err(PrivateError::Io { .. })));
    }
}
