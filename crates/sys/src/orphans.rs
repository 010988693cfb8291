//! Orphans: processes whose parent has ended come to this one (child subreaper) instead of to the system,
//! so that what a program left behind is still known to be its own.
//!
//! A subreaper must reap. That an orphan has ended is told by a descriptor that can be polled.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// This process adopts orphans.
#[derive(Debug)]
pub struct OrphanWatch {
    ends: OwnedFd,
}

impl AsFd for OrphanWatch {
    /// Readable when a child has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ends.as_fd()
    }
}

/// Adopts orphans from now on. To be called before another thread is started: the signal that tells of
/// their ends is blocked in this one and all that come after.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "subreaper and signalfd have no safe interface")]
pub fn adopt_orphans() -> io::Result<OrphanWatch> {
    use std::os::fd::FromRawFd;

    // SAFETY: sets an attribute of this process.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the set is initialised before it is used, and the descriptor is owned here alone.
    unsafe {
        let mut ends: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut ends);
        libc::sigaddset(&raw mut ends, libc::SIGCHLD);
        let answer = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const ends, std::ptr::null_mut());
        if answer != 0 {
            return Err(io::Error::from_raw_os_error(answer));
        }
        let fd = libc::signalfd(-1, &raw const ends, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OrphanWatch { ends: OwnedFd::from_raw_fd(fd) })
    }
}

/// There is no such thing here: trees are walked instead.
#[cfg(not(target_os = "linux"))]
pub fn adopt_orphans() -> io::Result<OrphanWatch> {
    Err(io::ErrorKind::Unsupported.into())
}

impl OrphanWatch {
    /// Reaps those that have ended, but not the child `keep`, whose end is another's business. To be
    /// called again once that one is reaped: it may hide others.
    pub fn reap_ended(&self, keep: Option<u32>) {
        let mut notes = [0; 1024];
        while matches!(rustix::io::read(&self.ends, &mut notes), Ok(count) if count > 0) {}
        while let Some(pid) = ended_child() {
            let number = u32::try_from(pid).ok();
            if number.is_none() || number == keep {
                return;
            }
            #[expect(
                unsafe_code,
                reason = "a child that is no `Child` can only be reaped through C"
            )]
            // SAFETY: reaps a child of ours that has ended; a null status is allowed.
            let reaped = unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
            if reaped != pid {
                return;
            }
        }
    }
}

/// A child that has ended and is not reaped.
fn ended_child() -> Option<libc::pid_t> {
    #[expect(unsafe_code, reason = "rustix does not say which child it was")]
    // SAFETY: the structure is valid when zeroed, and filled by the call.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let answer = libc::waitid(libc::P_ALL, 0, &raw mut info, options);
        let pid = info.si_pid();
        (answer == 0 && pid != 0).then_some(pid)
    }
}
