//! The guard: a small process that waits for the dashboard, and gives the terminal back if that cannot.
//!
//! A program that is killed with SIGKILL, or aborts, restores nothing. The guard saved the terminal's
//! modes before it started the dashboard as its child, does nothing while that runs, and writes them back
//! if it ended by a signal. If the guard itself is killed, the dashboard notices and ends as usual.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode};

use sys::dropped::NoteDropped;
use sys::proc::Signal;
use sys::terminal::SavedModes;

use super::tty::leaving_bytes;
use crate::error::Error;

/// The option that starts the dashboard itself, below its guard, with the line between the two.
pub(crate) const GUARD_OPTION: &str = "--below-guard";

/// Starts the dashboard with the same words, and waits for it.
pub(crate) fn guard_dashboard() -> Result<ExitCode, Error> {
    let saved = SavedModes::save()?;
    // Each end closes with its holder.
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(sys::spawn::this_program()?);
    // The name decides whose commands they are.
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    let number = sys::spawn::pass_on(theirs.as_fd())?;
    command.args(std::env::args_os().skip(1)).arg(format!("{GUARD_OPTION}={number}"));
    let signals = sys::signals::watch_signals(&[
        Signal::Terminate,
        Signal::Hangup,
        Signal::Interrupt,
        Signal::Quit,
    ])?;
    let mut child = command.spawn()?;
    drop(theirs);
    loop {
        let waiting = [ours.as_fd(), signals.as_fd()];
        if sys::terminal::wait_readable(&waiting, None)?[0] {
            break;
        }
        signals.clear();
        if sys::signals::received_interruption().is_some() {
            // It ends as it does when it is told to, and gives the terminal back itself.
            sys::spawn::signal_child(&child, Signal::Terminate)?;
            sys::watch::poll_readable(&[ours.as_fd()], None)?;
            break;
        }
    }
    let asks = matches!((&ours).read(&mut [0]), Ok(1));
    let status = child.wait()?;
    if status.signal().is_some() || asks {
        let mut out = io::stdout().lock();
        // A frame may have been cut in a sequence, which this ends. The terminal may be gone, too.
        write!(out, "\x18{}", leaving_bytes())
            .and_then(|()| out.flush())
            .note_dropped("giving the terminal back");
        saved.restore().note_dropped("giving the terminal's modes back");
    }
    if let Some(signal) = status.signal() {
        return Ok(ExitCode::from(128 + u8::try_from(signal).unwrap_or(0)));
    }
    Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)))
}
