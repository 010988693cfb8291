//! Pidfds: a handle that stays with its process, the only thing a signal is ever sent through.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use model::liveness::{Liveness, PidLookup};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::hold_process;
use crate::proc::SignalError;

/// File system magic of pidfs, where a pidfd's inode is unique to the process. Before it, all
/// pidfds shared one inode.
const PIDFS_MAGIC: u64 = 0x5049_4446;

/// An open pidfd.
#[derive(Debug)]
pub(super) struct Pidfd(OwnedFd);

/// What the kernel says when asked for a pidfd.
#[derive(Debug)]
pub(super) enum PidfdAnswer {
    /// Here it is. A zombie has one too.
    Opened(Pidfd),
    /// Nothing in our pid namespace has this pid. Not subject to hidepid.
    NoProcess,
    /// The number names a thread that leads no process.
    NotALeader,
    /// No pidfds here: an old kernel, a sandbox, or no descriptor left.
    Unavailable,
}

impl Pidfd {
    pub(super) fn open(pid: u32) -> PidfdAnswer {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let Some(raw) = raw else {
            return PidfdAnswer::NoProcess;
        };
        match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(fd) => PidfdAnswer::Opened(Self(fd)),
            Err(Errno::SRCH) => PidfdAnswer::NoProcess,
            // Linux answered EINVAL before 6.16 and answers ENOENT since.
            Err(Errno::INVAL | Errno::NOENT) => PidfdAnswer::NotALeader,
            Err(_) => PidfdAnswer::Unavailable,
        }
    }

    /// The descriptor itself, to be polled.
    pub(super) fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// The inode, where it names the process.
    pub(super) fn unique_inode(&self) -> Option<u64> {
        // The running kernel has it or has not, for all pidfds and for good.
        static PIDFS: OnceLock<bool> = OnceLock::new();
        let is_pidfs = || {
            rustix::fs::fstatfs(&self.0)
                .is_ok_and(|system| u64::try_from(system.f_type) == Ok(PIDFS_MAGIC))
        };
        PIDFS
            .get_or_init(is_pidfs)
            .then(|| rustix::fs::fstat(&self.0).ok())?
            .map(|stat| stat.st_ino)
    }
}

pub(in crate::proc) fn signal_process(
    pid: u32,
    signal: Signal,
    decide: impl Fn(PidLookup) -> Liveness,
) -> Result<(), SignalError> {
    let held = hold_process(pid);
    let verdict = decide(held.seen);
    if !verdict.is_alive() {
        return Err(SignalError::NotAlive(verdict));
    }
    let pidfd = held.pidfd.ok_or(SignalError::Unsupported)?;
    match pidfd_send_signal(&pidfd.0, signal) {
        Ok(()) => Ok(()),
        // It ended after the check; the signal reached no process.
        Err(Errno::SRCH) => Err(SignalError::NotAlive(decide(hold_process(pid).seen))),
        Err(errno) => Err(SignalError::Refused(errno.into())),
    }
}
