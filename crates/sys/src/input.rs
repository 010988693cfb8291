//! Bounded reads of what another program writes to us: a timeout and a size limit.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub struct BoundedInput {
    /// The bytes, at most as many as were asked for.
    pub bytes: Vec<u8>,
    /// Whether there were more. They were read and dropped: the writer must not be left hanging.
    pub cut: bool,
    /// Whether the end came in time.
    pub ended: bool,
}

/// What this process is given on its standard input, read without a buffer in between.
pub fn unbuffered_stdin() -> BorrowedFd<'static> {
    rustix::stdio::stdin()
}

/// Reads to the end, keeping at most `limit` bytes, for no longer than `patience`.
pub fn read_bounded(from: impl AsFd, limit: usize, patience: Duration) -> io::Result<BoundedInput> {
    const CHUNK: usize = 16 << 10;
    // Most of what is handed to us fits into this, its end included.
    const FIRST: usize = 4 << 10;
    const LEAST_ROOM: usize = 512;
    let deadline = Instant::now() + patience;
    let mut input = BoundedInput { bytes: Vec::with_capacity(FIRST), cut: false, ended: false };
    let mut beyond = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut waiting = [PollFd::new(&from, PollFlags::IN)];
        match rustix::event::poll(&mut waiting, Some(&timeout)) {
            Ok(0) => return Ok(input),
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
            Ok(_) => {}
        }
        let full = input.bytes.len() >= limit;
        let room = if full { &mut beyond } else { &mut input.bytes };
        if full {
            room.clear();
        }
        if room.capacity() - room.len() < LEAST_ROOM {
            room.reserve(CHUNK);
        }
        match rustix::io::read(&from, rustix::buffer::spare_capacity(room)) {
            Ok(0) => {
                input.ended = true;
                return Ok(input);
            }
            Ok(_) if full => input.cut = true,
            Ok(_) if input.bytes.len() > limit => {
                input.bytes.truncate(limit);
                input.cut = true;
            }
            Ok(_) | Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn piped(bytes: &[u8]) -> io::PipeReader {
        let (reader, mut writer) = io::pipe().unwrap();
        let bytes = bytes.to_vec();
        std::thread::spawn(move || writer.write_all(&bytes).unwrap());
        reader
    }

    #[test]
    fn everything_up_to_the_limit_is_kept_and_the_rest_is_taken_too() {
        let long = vec![7; 300_000];
        let patience = Duration::from_secs(20);
        for limit in [1, 100, 299_999] {
            let input = read_bounded(piped(&long), limit, patience).unwrap();
            assert_eq!((input.bytes.len(), input.cut, input.ended), (limit, true, true));
        }
        for limit in [300_000, 400_000] {
            let input = read_bounded(piped(&long), limit, patience).unwrap();
            assert_eq!((input.bytes.len(), input.cut, input.ended), (300_000, false, true));
        }
    }

    #[test]
    fn a_writer_that_never_ends_is_not_waited_for() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"half").unwrap();
        let input = read_bounded(&reader, 100, Duration::from_millis(20)).unwrap();
        assert_eq!(input, BoundedInput { bytes: b"half".to_vec(), cut: false, ended: false });
    }
}
