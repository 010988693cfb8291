//! Pseudo-terminals, and programs started on them.
//!
//! The program gets a session of its own with the terminal as its controlling terminal, no signal
//! blocked or ignored, and no descriptor but the terminal. The starter is its parent and must
//! reap it; until then its pid, and its group's, cannot be handed on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, WaitId, WaitIdOptions};
use rustix::pty::OpenptFlags;
use rustix::termios::{InputModes, OptionalActions, Winsize};

use crate::proc::Signal;

/// The size of a terminal in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtySize {
    pub cols: u16,
    pub rows: u16,
}

impl PtySize {
    fn winsize(self) -> Winsize {
        Winsize { ws_row: self.rows, ws_col: self.cols, ws_xpixel: 0, ws_ypixel: 0 }
    }
}

/// The side of a pseudo-terminal that a terminal emulator holds. Reads and writes never block.
#[derive(Debug)]
pub struct PtyMaster(OwnedFd);

impl AsFd for PtyMaster {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What one read of a terminal gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtyRead {
    /// That many bytes.
    Bytes(usize),
    /// Nothing can be read now; more may come.
    Nothing,
    /// The other side is closed.
    Closed,
}

impl PtyMaster {
    /// Reads what is there.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<PtyRead> {
        use rustix::io::Errno;
        match rustix::io::read(&self.0, buffer) {
            Ok(0) => Ok(PtyRead::Closed),
            Ok(count) => Ok(PtyRead::Bytes(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(PtyRead::Nothing),
            // How Linux says that the last process closed its side.
            Err(Errno::IO) => Ok(PtyRead::Closed),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Writes as much as the terminal takes now.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        use rustix::io::Errno;
        match rustix::io::write(&self.0, bytes) {
            Ok(count) => Ok(count),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Changes the size; the programs are told by the kernel.
    pub fn resize(&self, size: PtySize) -> io::Result<()> {
        Ok(rustix::termios::tcsetwinsize(&self.0, size.winsize())?)
    }

    /// Whether the line discipline gathers lines: nothing has taken the keyboard over. What cannot be
    /// asked counts as such.
    pub fn is_canonical(&self) -> bool {
        use rustix::termios::LocalModes;
        let modes = rustix::termios::tcgetattr(&self.0);
        modes.map_or(true, |modes| modes.local_modes.contains(LocalModes::ICANON))
    }

    /// The process group in the foreground.
    fn foreground_group(&self) -> Option<Pid> {
        rustix::termios::tcgetpgrp(&self.0).ok()
    }
}

/// A program on a terminal, started by this process and not reaped yet.
#[derive(Debug)]
pub struct PtyProgram {
    child: Child,
}

/// Starts the command on a new terminal of the given size.
pub fn spawn_on_pty(mut command: Command, size: PtySize) -> io::Result<(PtyMaster, PtyProgram)> {
    let (master, slave) = open_pty(size)?;
    command
        .stdin(Stdio::from(slave.try_clone()?))
        .stdout(Stdio::from(slave.try_clone()?))
        .stderr(Stdio::from(slave));
    #[expect(unsafe_code, reason = "a program can only be prepared between fork and exec")]
    // SAFETY: `take_terminal` makes system calls and nothing else: it neither allocates nor locks.
    unsafe {
        command.pre_exec(take_terminal)
    };
    let child = command.spawn()?;
    Ok((master, PtyProgram { child }))
}

/// Starts the command without a terminal: its input is a file, what it says comes through two pipes, whose
/// reading ends never block. It leads a session of its own.
pub fn spawn_on_pipes(
    mut command: Command,
    input: std::fs::File,
) -> io::Result<(PtyProgram, [io::PipeReader; 2])> {
    let (stdout, stdout_end) = io::pipe()?;
    let (stderr, stderr_end) = io::pipe()?;
    for pipe in [&stdout, &stderr] {
        let status = rustix::fs::fcntl_getfl(pipe)?;
        rustix::fs::fcntl_setfl(pipe, status | rustix::fs::OFlags::NONBLOCK)?;
    }
    command.stdin(Stdio::from(input)).stdout(stdout_end).stderr(stderr_end);
    #[expect(unsafe_code, reason = "a program can only be prepared between fork and exec")]
    // SAFETY: `lead_session` makes system calls and nothing else: it neither allocates nor locks.
    unsafe {
        command.pre_exec(lead_session)
    };
    let child = command.spawn()?;
    Ok((PtyProgram { child }, [stdout, stderr]))
}

fn open_pty(size: PtySize) -> io::Result<(PtyMaster, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    #[cfg(target_os = "linux")]
    let flags = flags | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    let slave = rustix::fs::open(
        &*name,
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    let mut modes = rustix::termios::tcgetattr(&slave)?;
    // So that erasing a character erases all its bytes.
    modes.input_modes |= InputModes::IUTF8;
    rustix::termios::tcsetattr(&slave, OptionalActions::Now, &modes)?;
    rustix::termios::tcsetwinsize(&slave, size.winsize())?;
    let status = rustix::fs::fcntl_getfl(&master)?;
    rustix::fs::fcntl_setfl(&master, status | rustix::fs::OFlags::NONBLOCK)?;
    Ok((PtyMaster(master), slave))
}

/// Runs between fork and exec.
fn take_terminal() -> io::Result<()> {
    lead_session()?;
    #[expect(unsafe_code, reason = "stdin is the terminal, put there by the standard library")]
    // SAFETY: descriptor 0 was made the terminal by the spawn that runs this.
    let terminal = unsafe { BorrowedFd::borrow_raw(0) };
    rustix::process::ioctl_tiocsctty(terminal)?;
    Ok(())
}

/// Runs between fork and exec: a session of its own, no signal blocked or ignored, nothing open but the
/// standard streams.
fn lead_session() -> io::Result<()> {
    for signal in 1..32 {
        #[expect(unsafe_code, reason = "dispositions are only reachable through C")]
        // SAFETY: setting a disposition to the default is async-signal-safe; the two signals that
        // have none answer with an error that does not matter.
        unsafe {
            libc::signal(signal, libc::SIG_DFL)
        };
    }
    #[expect(unsafe_code, reason = "the mask is only reachable through C")]
    // SAFETY: the set is initialised before it is used; both calls are async-signal-safe.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
    crate::spawn::close_at_exec();
    rustix::process::setsid()?;
    Ok(())
}

impl PtyProgram {
    /// Its pid, which is also the number of its group and session.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn raw_pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Whether it has ended. It stays unreaped, so its numbers still mean it.
    pub fn has_ended(&self) -> bool {
        let Some(pid) = self.raw_pid() else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(rustix::process::waitid(WaitId::Pid(pid), options), Ok(None))
    }

    /// Sends a signal to the program alone.
    pub fn send_signal(&self, signal: Signal) -> io::Result<()> {
        match self.raw_pid() {
            Some(pid) => Ok(rustix::process::kill_process(pid, signal.as_raw())?),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Sends a signal to the program's own group.
    pub fn signal_own_group(&self, signal: Signal) -> io::Result<()> {
        let Some(own) = self.raw_pid() else { return Err(io::ErrorKind::NotFound.into()) };
        Ok(rustix::process::kill_process_group(own, signal.as_raw())?)
    }

    /// Whether a process is in one of the groups that [`Self::signal_group`] reaches.
    pub fn is_in_reach(&self, master: Option<&PtyMaster>, pid: u32) -> bool {
        let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let group = group.and_then(|pid| rustix::process::getpgid(Some(pid)).ok());
        let foreground = master.and_then(PtyMaster::foreground_group);
        group.is_some() && (group == self.raw_pid() || group == foreground)
    }

    /// Sends a signal to the program's group and to the group in the foreground of its terminal.
    pub fn signal_group(&self, master: &PtyMaster, signal: Signal) -> io::Result<()> {
        let own = self.raw_pid();
        // A group that lives keeps its number from being handed on.
        if let Some(foreground) = master.foreground_group().filter(|group| Some(*group) != own) {
            let _ = rustix::process::kill_process_group(foreground, signal.as_raw());
        }
        self.signal_own_group(signal)
    }

    /// Reaps it, waiting for its end.
    pub fn reap(mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// A descriptor that becomes readable when the program ends.
    #[cfg(target_os = "linux")]
    pub fn end_watch(&self) -> io::Result<OwnedFd> {
        let pid = self.raw_pid().ok_or(io::ErrorKind::NotFound)?;
        Ok(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?)
    }

    /// A descriptor that becomes readable when the program ends.
    #[cfg(not(target_os = "linux"))]
    pub fn end_watch(&self) -> io::Result<OwnedFd> {
        let pid = self.raw_pid().ok_or(io::ErrorKind::NotFound)?;
        let (watch, end) = io::pipe()?;
        std::thread::Builder::new().name("child".to_owned()).stack_size(64 << 10).spawn(
            move || {
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                let _ = rustix::process::waitid(WaitId::Pid(pid), options);
                drop(end);
            },
        )?;
        Ok(watch.into())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const SIZE: PtySize = PtySize { cols: 91, rows: 33 };

    fn shell(script: &str) -> (PtyMaster, PtyProgram) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        spawn_on_pty(command, SIZE).unwrap()
    }

    /// Everything it prints until it closes the terminal.
    fn output(master: &PtyMaster) -> String {
        let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            assert!(Instant::now() < deadline, "{:?}", String::from_utf8_lossy(&all));
            let mut fds = [rustix::event::PollFd::new(master, rustix::event::PollFlags::IN)];
            let wait = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
            rustix::event::poll(&mut fds, Some(&wait)).unwrap();
            match master.read(&mut buffer).unwrap() {
                PtyRead::Bytes(count) => all.extend_from_slice(&buffer[..count]),
                PtyRead::Nothing => {}
                PtyRead::Closed => return String::from_utf8(all).unwrap(),
            }
        }
    }

    #[test]
    fn the_program_has_the_terminal_its_size_and_nothing_else_open() {
        let (_kept_open, _too) = io::pipe().unwrap();
        let (master, program) =
            shell("tty </dev/tty >/dev/null && stty size; ls /proc/self/fd | wc -w");
        let text = output(&master);
        // `ls` itself has the directory open beside the three.
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["33", "91", "4"]);
        assert!(program.reap().unwrap().success());
    }

    #[test]
    fn no_signal_is_blocked_or_ignored() {
        let (master, program) = shell("grep -E 'SigBlk|SigIgn' /proc/self/status");
        let text = output(&master);
        let masks = text.split_whitespace().filter(|word| !word.ends_with(':'));
        // Beyond 31 are those that the C library keeps for itself.
        let masks = masks.map(|mask| u64::from_str_radix(mask, 16).unwrap() & 0x7fff_ffff);
        assert_eq!(masks.collect::<Vec<_>>(), [0, 0]);
        program.reap().unwrap();
    }

    #[test]
    fn its_end_is_seen_before_it_is_reaped() {
        let (_master, program) = shell("exit 7");
        let watch = program.end_watch().unwrap();
        let mut fds = [rustix::event::PollFd::new(&watch, rustix::event::PollFlags::IN)];
        let wait = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut fds, Some(&wait)).unwrap(), 1);
        assert!(program.has_ended());
        assert_eq!(program.reap().unwrap().code(), Some(7));
    }

    #[test]
    fn a_program_that_cannot_be_run_is_an_error_here() {
        let error = spawn_on_pty(Command::new("/no/such/program"), SIZE).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_whole_group_is_signalled() {
        let (master, program) = shell("sleep 1000 & sleep 1000 & echo ready; wait");
        let mut buffer = [0; 64];
        while !matches!(master.read(&mut buffer).unwrap(), PtyRead::Bytes(_)) {
            std::thread::yield_now();
        }
        program.signal_group(&master, Signal::Kill).unwrap();
        // Closed means that the two in the background are gone too.
        output(&master);
        assert!(!program.reap().unwrap().success());
    }
}
