//! Reader thread of the pseudo-terminal, so that the program is not held up while the host is busy with
//! what it wrote before.
//!
//! The reader of the terminal holds the lock while reading, so that bytes stay in order whichever thread
//! took them. What waits is bounded (backpressure): beyond that the program blocks, as on any terminal.
//!
//! A terminal gives a few kilobytes at a time. While a program floods it, the host is called when a
//! larger piece has gathered, not for every one of them: a switch costs more than the piece.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::pty::{PtyMaster, PtyRead};

use crate::timeouts::FLOOD_GATHER_TIMEOUT;

/// How much may wait to be dealt with.
const MAX_WAITING_BYTES: usize = 512 << 10;

/// How much is read at a time.
const READ_SIZE: usize = 64 << 10;

/// A read of so much fills the kernel's buffer: a flood.
const FLOOD_READ_SIZE: usize = 4 << 10;

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    closed: bool,
    /// A byte in the pipe says that there is something to take.
    announced: bool,
}

#[derive(Debug)]
struct Shared {
    master: Arc<PtyMaster>,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

/// What the program wrote and is not processed yet.
#[derive(Debug)]
pub(super) struct Intake {
    shared: Arc<Shared>,
    wake: PipeReader,
}

impl AsFd for Intake {
    /// Readable when there is something to take.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Intake {
    /// Begins to read.
    pub(super) fn start_reading(master: Arc<PtyMaster>) -> io::Result<Self> {
        let (wake, waker) = io::pipe()?;
        let shared =
            Arc::new(Shared { master, waiting: Mutex::default(), changed: Condvar::new() });
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("terminal".to_owned())
            .stack_size(128 << 10)
            .spawn(move || theirs.read_on(waker))?;
        Ok(Self { shared, wake })
    }

    /// Takes what waits, into `into`; says whether no process has the terminal open any more. With `all`,
    /// what the terminal still has is read first.
    pub(super) fn take_output(&mut self, into: &mut Vec<u8>, all: bool) -> bool {
        into.clear();
        let mut waiting = self.shared.lock_waiting();
        if all {
            self.shared.read_into(&mut waiting);
        }
        std::mem::swap(&mut waiting.bytes, into);
        if std::mem::take(&mut waiting.announced) {
            let _ = self.wake.read(&mut [0]);
        }
        self.shared.changed.notify_all();
        waiting.closed
    }

    /// Looks again whether a process has the terminal open.
    pub(super) fn look_again(&mut self) {
        self.shared.lock_waiting().closed = false;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock_waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is there, as far as there is room. Says whether there is likely to be more at once.
    fn read_into(&self, waiting: &mut Waiting) -> bool {
        let before = waiting.bytes.len();
        let mut flood = false;
        while waiting.bytes.len() < before + READ_SIZE {
            let filled = waiting.bytes.len();
            waiting.bytes.resize(filled + FLOOD_READ_SIZE, 0);
            let read = self.master.read(&mut waiting.bytes[filled..]);
            let count = if let Ok(PtyRead::Bytes(count)) = read { count } else { 0 };
            waiting.bytes.truncate(filled + count);
            match read {
                // One byte of the kernel's buffer stays free.
                Ok(PtyRead::Bytes(_)) => flood |= count + 1 >= FLOOD_READ_SIZE,
                Ok(PtyRead::Nothing) => return flood,
                Ok(PtyRead::Closed) | Err(_) => {
                    waiting.closed = true;
                    return false;
                }
            }
        }
        flood
    }

    /// Waits until there is something to read. Says whether there is.
    fn wait_readable(&self, until: Option<Instant>) -> bool {
        let timeout = until.map(|until| {
            let span = until.saturating_duration_since(Instant::now());
            Timespec { tv_sec: 0, tv_nsec: i64::from(span.subsec_nanos()) }
        });
        let mut terminal = [PollFd::new(&*self.master, PollFlags::IN)];
        poll(&mut terminal, timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// The thread: lives as long as the process.
    fn read_on(&self, mut waker: PipeWriter) {
        loop {
            self.wait_readable(None);
            let until = Instant::now() + FLOOD_GATHER_TIMEOUT;
            let mut waiting = self.lock_waiting();
            while waiting.closed || waiting.bytes.len() >= MAX_WAITING_BYTES {
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            while self.read_into(&mut waiting)
                && waiting.bytes.len() < READ_SIZE
                && !waiting.announced
            {
                drop(waiting);
                let more = self.wait_readable(Some(until));
                waiting = self.lock_waiting();
                if !more {
                    break;
                }
            }
            if waiting.announced || waiting.bytes.is_empty() && !waiting.closed {
                continue;
            }
            // Never more than one byte, so that this cannot block.
            if waker.write_all(&[1]).is_err() {
                return;
            }
            waiting.announced = true;
        }
    }
}
