//! Signals to this process, as something that can be waited for.
//!
//! A handler only notes the signal and writes a byte to a pipe. Calls that block are interrupted, so
//! that whoever is in one can ask [`interruption`].

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::proc::Signal;

static PIPE: AtomicI32 = AtomicI32::new(-1);
static INTERRUPTION: AtomicI32 = AtomicI32::new(0);

/// Signals that are watched. There is one watch in a process.
#[derive(Debug)]
pub struct Watch {
    pipe: io::PipeReader,
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

extern "C" fn note(signal: libc::c_int) {
    if matches!(signal, libc::SIGINT | libc::SIGTERM | libc::SIGHUP) {
        INTERRUPTION.store(signal, Ordering::Relaxed);
    }
    let pipe = PIPE.load(Ordering::Relaxed);
    if pipe >= 0 {
        #[expect(unsafe_code, reason = "only plain system calls are allowed in a handler")]
        // SAFETY: `write` is async-signal-safe; the pipe is never closed, and does not block.
        unsafe {
            libc::write(pipe, std::ptr::from_ref(&0u8).cast(), 1)
        };
    }
}

/// Watches the signals from now on instead of ending by them.
pub fn watch(signals: &[Signal]) -> io::Result<Watch> {
    let (reader, writer) = io::pipe()?;
    for end in [reader.as_fd(), writer.as_fd()] {
        let flags = rustix::fs::fcntl_getfl(end)?;
        rustix::fs::fcntl_setfl(end, flags | rustix::fs::OFlags::NONBLOCK)?;
    }
    PIPE.store(writer.into_raw_fd(), Ordering::Relaxed);
    for signal in signals {
        #[expect(unsafe_code, reason = "handlers can only be set through C")]
        // SAFETY: the structure is valid when zeroed, and `note` only does what a handler may.
        let answer = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as *const () as libc::sighandler_t;
            libc::sigaction(signal.raw().as_raw(), &action, std::ptr::null_mut())
        };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(Watch { pipe: reader })
}

impl Watch {
    /// Forgets what was noted so far, so that the next signal is noticed.
    pub fn clear(&self) {
        let mut buffer = [0; 64];
        while matches!((&self.pipe).read(&mut buffer), Ok(count) if count > 0) {}
    }
}

/// The number of the watched signal that asked this process to end, if one did.
pub fn interruption() -> Option<u8> {
    u8::try_from(INTERRUPTION.load(Ordering::Relaxed)).ok().filter(|signal| *signal != 0)
}
