//! Signal handling by a self-pipe: signals to this process, as a descriptor that can be polled.
//!
//! A handler only notes the signal and writes a byte to a pipe. Calls that block are interrupted, so
//! that a blocked caller can ask [`received_interruption`].

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::proc::Signal;

static SIGNAL_PIPE: AtomicI32 = AtomicI32::new(-1);
static INTERRUPTION: AtomicI32 = AtomicI32::new(0);

/// Signals that are watched. There is one watch in a process.
#[derive(Debug)]
pub struct SignalWatch {
    pipe: io::PipeReader,
}

impl AsFd for SignalWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

extern "C" fn note_signal(signal: libc::c_int) {
    if matches!(signal, libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT) {
        INTERRUPTION.store(signal, Ordering::Relaxed);
    }
    let pipe = SIGNAL_PIPE.load(Ordering::Relaxed);
    if pipe >= 0 {
        #[expect(unsafe_code, reason = "only plain system calls are allowed in a handler")]
        // SAFETY: `write` is async-signal-safe; the pipe is never closed, and does not block.
        unsafe {
            libc::write(pipe, std::ptr::from_ref(&0u8).cast(), 1)
        };
    }
}

/// Watches the signals from now on instead of ending by them.
pub fn watch_signals(signals: &[Signal]) -> io::Result<SignalWatch> {
    let (reader, writer) = io::pipe()?;
    for end in [reader.as_fd(), writer.as_fd()] {
        crate::watch::set_nonblocking(end)?;
    }
    SIGNAL_PIPE.store(writer.into_raw_fd(), Ordering::Relaxed);
    for signal in signals {
        #[expect(unsafe_code, reason = "handlers can only be set through C")]
        // SAFETY: the structure is valid when zeroed, and `note_signal` only does what a handler may.
        let answer = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note_signal as *const () as libc::sighandler_t;
            libc::sigaction(signal.as_raw().as_raw(), &action, std::ptr::null_mut())
        };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(SignalWatch { pipe: reader })
}

impl SignalWatch {
    /// Forgets what was noted so far, so that the next signal is noticed.
    pub fn clear(&self) {
        let mut buffer = [0; 64];
        while matches!((&self.pipe).read(&mut buffer), Ok(count) if count > 0) {}
    }
}

/// The number of the watched signal that asked this process to end, if one did.
pub fn received_interruption() -> Option<u8> {
    u8::try_from(INTERRUPTION.load(Ordering::Relaxed)).ok().filter(|signal| *signal != 0)
}
