//! The terminal that this process writes to.

use std::io;

use rustix::termios::{OptionalActions, Termios};

use crate::pty::PtySize;

/// How many columns the terminal on stdout has, if it says.
pub fn stdout_columns() -> Option<usize> {
    stdout_size().map(|size| usize::from(size.cols))
}

/// The size of the terminal on stdout, if it says.
pub fn stdout_size() -> Option<PtySize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some(PtySize { cols: size.ws_col, rows: size.ws_row })
}

/// Whether the reader of stdout has gone away, as far as that is known without writing.
pub fn is_stdout_closed() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let told = poll(&mut fds, Some(&at_once)).unwrap_or(0);
    told > 0 && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL)
}

/// The terminal that a process reads from or writes to, where that can be seen.
#[cfg(target_os = "linux")]
pub fn terminal_of(pid: u32) -> Option<String> {
    let place = |number: u32| std::fs::read_link(format!("/proc/{pid}/fd/{number}")).ok();
    let is_terminal = |path: &std::path::PathBuf| {
        path.starts_with("/dev/pts") || path.to_string_lossy().starts_with("/dev/tty")
    };
    (0..3).filter_map(place).find(is_terminal).map(|path| path.to_string_lossy().into_owned())
}

/// The terminal that a process reads from or writes to: not known on this platform.
#[cfg(not(target_os = "linux"))]
pub fn terminal_of(_pid: u32) -> Option<String> {
    None
}

/// The terminal on stdin handing over every key as it is pressed, until this is dropped.
#[derive(Debug)]
pub struct RawMode {
    before: Termios,
}

impl RawMode {
    pub fn enter() -> io::Result<Self> {
        let before = rustix::termios::tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(io::stdin(), OptionalActions::Drain, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = rustix::termios::tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

/// The terminal on stdout, opened anew for writing: this one can be told not to wait, without telling
/// everybody who shares the other.
pub fn reopen_stdout() -> io::Result<std::fs::File> {
    use rustix::fs::{Mode, OFlags};

    let name = rustix::termios::ttyname(io::stdout(), Vec::new())?;
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(name.as_c_str(), flags, Mode::empty())?.into())
}

/// The modes of the terminal on stdin, to be given back later.
#[derive(Debug)]
pub struct SavedModes {
    before: Termios,
}

impl SavedModes {
    /// As they are now.
    pub fn save() -> io::Result<Self> {
        Ok(Self { before: rustix::termios::tcgetattr(io::stdin())? })
    }

    /// As they were then.
    pub fn restore(&self) -> io::Result<()> {
        Ok(rustix::termios::tcsetattr(io::stdin(), OptionalActions::Flush, &self.before)?)
    }
}

/// Drops what was typed and not read: replies of a terminal to a program that is gone.
pub fn drop_typed() -> io::Result<()> {
    Ok(rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush)?)
}

/// Stops this process and its group, as Ctrl-Z does, until they are continued.
pub fn suspend_group() -> io::Result<()> {
    use rustix::process::{Signal, kill_current_process_group};

    Ok(kill_current_process_group(Signal::TSTP)?)
}

/// Waits until one of the descriptors can be read, at most until `deadline`; says which. A signal ends
/// the wait with none.
pub fn wait_readable(
    descriptors: &[std::os::fd::BorrowedFd<'_>],
    deadline: Option<std::time::Instant>,
) -> io::Result<Vec<bool>> {
    wait_for_any(descriptors, &[], deadline)
}

/// As [`wait_readable`], and until one of `stalled` can be written to; says which can be read.
pub fn wait_for_any(
    descriptors: &[std::os::fd::BorrowedFd<'_>],
    stalled: &[std::os::fd::BorrowedFd<'_>],
    deadline: Option<std::time::Instant>,
) -> io::Result<Vec<bool>> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let timeout = deadline.map(|deadline| {
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        }
    });

    let readers = descriptors.iter().map(|fd| PollFd::new(fd, PollFlags::IN));
    let writers = stalled.iter().map(|fd| PollFd::new(fd, PollFlags::OUT));
    let mut fds: Vec<PollFd<'_>> = readers.chain(writers).collect();
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(fds[..descriptors.len()].iter().map(|fd| !fd.revents().is_empty()).collect())
}
