//! A thread that reads the terminal, so that the program is not held up while the host is busy with
//! what it wrote before.
//!
//! Whoever reads the terminal holds the lock while reading, so that bytes stay in order whichever thread
//! took them. What waits is bounded: beyond that the program has to wait, as on any terminal.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use sys::pty::{Master, Read};

/// How much may wait to be dealt with.
const MOST: usize = 512 << 10;

/// How much is read at a time.
const CHUNK: usize = 64 << 10;

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    closed: bool,
}

#[derive(Debug)]
struct Shared {
    master: Arc<Master>,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

/// What the program wrote and nobody has dealt with yet.
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
    pub(super) fn start(master: Arc<Master>) -> io::Result<Self> {
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

    /// Takes what waits, into `into`; says whether nobody has the terminal open any more. With `all`,
    /// what the terminal still has is read first.
    pub(super) fn take(&mut self, into: &mut Vec<u8>, all: bool) -> bool {
        into.clear();
        let mut waiting = self.shared.lock();
        if all {
            self.shared.read_into(&mut waiting);
        }
        std::mem::swap(&mut waiting.bytes, into);
        if !into.is_empty() || waiting.closed {
            // The byte that announced it.
            let mut buffer = [0; 16];
            let mut ready = [PollFd::new(&self.wake, PollFlags::IN)];
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            if poll(&mut ready, Some(&now)).is_ok_and(|count| count > 0) {
                let _ = self.wake.read(&mut buffer);
            }
        }
        self.shared.changed.notify_all();
        waiting.closed
    }

    /// Looks again whether somebody has the terminal open.
    pub(super) fn look_again(&mut self) {
        self.shared.lock().closed = false;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is there, as far as there is room.
    fn read_into(&self, waiting: &mut Waiting) {
        let before = waiting.bytes.len();
        while waiting.bytes.len() < before + CHUNK {
            let filled = waiting.bytes.len();
            waiting.bytes.resize(filled + 4096, 0);
            let read = self.master.read(&mut waiting.bytes[filled..]);
            let count = if let Ok(Read::Bytes(count)) = read { count } else { 0 };
            waiting.bytes.truncate(filled + count);
            match read {
                Ok(Read::Bytes(_)) => {}
                Ok(Read::Nothing) => return,
                Ok(Read::Closed) | Err(_) => {
                    waiting.closed = true;
                    return;
                }
            }
        }
    }

    /// The thread: lives as long as the process.
    fn read_on(&self, mut waker: PipeWriter) {
        loop {
            let _ = poll(&mut [PollFd::new(&*self.master, PollFlags::IN)], None);
            let mut waiting = self.lock();
            while waiting.closed || waiting.bytes.len() >= MOST {
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            let announced = !waiting.bytes.is_empty();
            self.read_into(&mut waiting);
            let news = !waiting.bytes.is_empty() || waiting.closed;
            drop(waiting);
            if news && !announced && waker.write_all(&[1]).is_err() {
                return;
            }
        }
    }
}
