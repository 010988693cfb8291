//! Directory watches (inotify), instead of polling; a platform without them is asked again at intervals.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

/// Tells when files in a directory are written to, made or renamed.
#[derive(Debug)]
pub struct DirectoryWatch {
    #[cfg(target_os = "linux")]
    events: std::os::fd::OwnedFd,
}

/// A limit of the kernel's on directory watches is used up, by the programs of this user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no inotify {thing} is left: the limit `{setting}` is used up")]
pub struct WatchLimitError {
    thing: &'static str,
    setting: &'static str,
}

impl WatchLimitError {
    /// The limit that an error is about, if it is about one.
    pub fn from_error(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }

    pub fn remedy(&self) -> String {
        let setting = self.setting;
        format!("end programs that watch files, or raise it: `sudo sysctl {setting}=1024`")
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn limit_error(errno: rustix::io::Errno) -> io::Error {
        use rustix::io::Errno;

        let limit = match errno {
            // The same error says that this process has no descriptor left, which is another matter.
            Errno::MFILE if std::fs::File::open("/dev/null").is_ok() => {
                Self { thing: "instance", setting: "fs.inotify.max_user_instances" }
            }
            Errno::NOSPC => Self { thing: "watch", setting: "fs.inotify.max_user_watches" },
            _ => return errno.into(),
        };
        io::Error::other(limit)
    }
}

/// How often a platform that does not tell has to be asked.
#[cfg(not(target_os = "linux"))]
pub const POLL_INTERVAL: Option<Duration> = Some(Duration::from_secs(1));

/// How often a platform that does not tell has to be asked.
#[cfg(target_os = "linux")]
pub const POLL_INTERVAL: Option<Duration> = None;

impl DirectoryWatch {
    /// Watches a directory.
    #[cfg(target_os = "linux")]
    pub fn watch_directory(path: &Path) -> io::Result<Self> {
        use rustix::fs::inotify;

        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let events = inotify::init(flags).map_err(WatchLimitError::limit_error)?;
        let changes = inotify::WatchFlags::MODIFY
            | inotify::WatchFlags::CREATE
            | inotify::WatchFlags::MOVED_TO;
        inotify::add_watch(&events, path, changes).map_err(WatchLimitError::limit_error)?;
        Ok(Self { events })
    }

    /// Watches a directory: here by being asked every [`POLL_INTERVAL`].
    #[cfg(not(target_os = "linux"))]
    pub fn watch_directory(_: &Path) -> io::Result<Self> {
        Ok(Self {})
    }

    /// What to poll for reading, where the platform tells.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        #[cfg(target_os = "linux")]
        return Some(self.events.as_fd());
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Forgets what was told so far.
    pub fn clear(&self) {
        #[cfg(target_os = "linux")]
        {
            let mut buffer = [0u8; 4096];
            while rustix::io::read(&self.events, &mut buffer).is_ok_and(|count| count > 0) {}
        }
    }

    /// Waits until something has changed.
    pub fn wait(&self) -> io::Result<()> {
        self.wait_for(None).map(|_| ())
    }

    /// Waits until something has changed, or for so long. Says whether it may have.
    pub fn wait_for(&self, timeout: Option<Duration>) -> io::Result<bool> {
        let Some(descriptor) = self.descriptor() else {
            std::thread::sleep(timeout.or(POLL_INTERVAL).unwrap_or(Duration::from_secs(1)));
            return Ok(true);
        };
        let told = poll_readable(&[descriptor], timeout)?[0];
        self.clear();
        Ok(told)
    }
}

/// From now on reading and writing through this descriptor does not wait.
pub fn set_nonblocking(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(descriptor)?;
    Ok(rustix::fs::fcntl_setfl(descriptor, flags | rustix::fs::OFlags::NONBLOCK)?)
}

/// Waits until one of the descriptors can be read, or for so long. Returns which can.
pub fn poll_readable(
    descriptors: &[BorrowedFd<'_>],
    timeout: Option<Duration>,
) -> io::Result<Vec<bool>> {
    let timeout = timeout.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
    let mut waiting: Vec<PollFd<'_>> =
        descriptors.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    loop {
        match rustix::event::poll(&mut waiting, timeout.as_ref()) {
            Ok(_) => return Ok(waiting.iter().map(|fd| !fd.revents().is_empty()).collect()),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_change_is_not_told() {
        let home = tempfile::tempdir().unwrap();
        let watch = DirectoryWatch::watch_directory(home.path()).unwrap();
        assert!(!watch.wait_for(Some(Duration::ZERO)).unwrap());
        crate::append::append_bytes(&home.path().join("events"), b"x").unwrap();
        assert!(watch.wait_for(Some(Duration::ZERO)).unwrap());
        assert!(!watch.wait_for(Some(Duration::ZERO)).unwrap(), "it was told once");
    }

    #[test]
    fn a_line_that_is_added_is_told() {
        let home = tempfile::tempdir().unwrap();
        let watch = DirectoryWatch::watch_directory(home.path()).unwrap();
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| watch.wait());
            crate::append::append_bytes(&home.path().join("events"), b"x").unwrap();
            waiting.join().unwrap().unwrap();
        });
    }
}
