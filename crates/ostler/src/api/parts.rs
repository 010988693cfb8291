//! Output of a command that is sent as it is printed, to a client that may read slowly or not at all.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// What the last line of a stream says whose client did not read.
pub(super) const TOO_SLOW: &str = "the stream was not read for too long";

/// Where a command writes whose output is sent part by part. It runs on a thread for blocking work of the runtime that
/// sends the parts.
pub(super) struct PartsSink {
    parts: mpsc::Sender<Bytes>,
    /// How long a part may wait for its client.
    patience: Duration,
    is_unread: Arc<AtomicBool>,
}

impl PartsSink {
    pub(super) fn new(parts: mpsc::Sender<Bytes>, patience: Duration) -> Self {
        Self { parts, patience, is_unread: Arc::default() }
    }

    /// Whether a part was given up, because the client did not read.
    pub(super) fn unread_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_unread)
    }
}

impl Write for PartsSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = Bytes::copy_from_slice(bytes);
        let runtime = tokio::runtime::Handle::current();
        let sent = runtime.block_on(async { timeout(self.patience, self.parts.send(part)).await });
        match sent {
            Ok(Ok(())) => Ok(bytes.len()),
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => {
                self.is_unread.store(true, Ordering::Relaxed);
                // The command ends as if its reader had left, and gives its place back.
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.parts.is_closed() {
            true => Err(io::ErrorKind::BrokenPipe.into()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_40_a_stream_that_nobody_reads_is_given_up() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (parts, receiver) = mpsc::channel(2);
            let mut sink = PartsSink::new(parts, Duration::from_millis(20));
            let is_unread = sink.unread_flag();
            let written = tokio::task::spawn_blocking(move || {
                let sent = (0..2).map(|_| sink.write(b"line\n").unwrap()).sum::<usize>();
                (sent, sink.write(b"one too many\n").unwrap_err().kind())
            });
            assert_eq!(written.await.unwrap(), (10, io::ErrorKind::BrokenPipe));
            assert!(is_unread.load(Ordering::Relaxed));
            drop(receiver);
        });
    }
}
