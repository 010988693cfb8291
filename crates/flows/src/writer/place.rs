//! Which daemon is whose: a home's identity (device and inode), the socket that is named after it, and
//! the lock that says whether a daemon of that home runs.
//!
//! See `docs/decisions/0019-one-daemon-per-home.md`.

use std::fmt;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;
use sys::dropped::NoteDropped;

use model::identity::Identity;
use sys::lock::{AdvisoryLock, LockAttempt};
use sys::machine::Machine;
use sys::private::{self, PrivateDir, PrivateError};
use sys::socket::UnixSocketError;

/// A home, independent of the path that leads to it. Holding the directory open keeps its inode from being given to
/// another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomeId {
    device: u64,
    inode: u64,
}

impl HomeId {
    /// The home at that path.
    pub fn of_path(home: &Path) -> io::Result<Self> {
        Self::of_dir(&PrivateDir::open(home)?)
    }

    /// The home that is held open.
    pub fn of_dir(home: &PrivateDir) -> io::Result<Self> {
        let facts = home.own_facts()?;
        Ok(Self { device: facts.device, inode: facts.inode })
    }
}

impl fmt::Display for HomeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.device, self.inode)
    }
}

/// The name of the socket of a home's daemon.
pub fn socket_name(home: HomeId) -> String {
    format!("daemon-{home}.sock")
}

/// Where sockets go when the runtime directory is not ours alone.
pub fn fallback_directory(home: &Path) -> PathBuf {
    home.join("run")
}

/// Listens for a home, in the runtime directory or, where that cannot be used, in the home itself.
/// Returns the socket's path too. The caller holds the home's locks.
pub fn listen(machine: &Machine, id: HomeId) -> Result<(UnixListener, PathBuf), UnixSocketError> {
    let (home, runtime) = (machine.home(), machine.runtime());
    let name = socket_name(id);
    let (dir, place) = match private::create_guarded_dir(runtime) {
        Ok(dir) => (dir, runtime.to_owned()),
        // The lock is in the home: a foreign file at the well-known name blocks no command.
        Err(_) => {
            let place = fallback_directory(home);
            private::create_private_dir(&place)?;
            (private::open_own_dir(&place)?, place)
        }
    };
    let path = place.join(&name);
    match sys::socket::listen_in(&dir, name.as_ref()) {
        Ok(listener) => Ok((listener, path)),
        Err(source) => Err(UnixSocketError::Io { path, source }),
    }
}

/// Becomes the daemon of a home, unless there is one: then who it is.
pub fn hold_daemon_lock(
    machine: &Machine,
    patience: Duration,
) -> Result<LockAttempt, PrivateError> {
    let home = machine.home();
    private::create_private_dir(home)?;
    let mut attempt = sys::lock::take_within(&daemon_lock_path(home), patience)?;
    if let LockAttempt::Taken(lock) = &mut attempt
        && let Ok(me) = machine.identify_process(std::process::id())
    {
        sign(lock, &me);
    }
    Ok(attempt)
}

fn sign(lock: &mut AdvisoryLock, me: &Identity) {
    // Only for the words of an error: the kernel's lock decides.
    lock.write_holder(me).note_dropped("who holds the daemon's lock");
}

/// Waits for the daemon of a home to be gone; returns who it is if it is not. The lock is the proof: a
/// socket may be closed, removed or out of reach while its daemon runs.
pub fn wait_for_end(home: &Path, patience: Duration) -> Result<Option<DaemonHolder>, PrivateError> {
    let path = daemon_lock_path(home);
    if !path.exists() {
        return Ok(None);
    }
    match sys::lock::take_within(&path, patience)? {
        LockAttempt::Taken(_) => Ok(None),
        LockAttempt::Held(holder) => {
            Ok(Some(DaemonHolder { pid: holder.and_then(|holder| holder.pid) }))
        }
    }
}

/// A daemon that holds its home's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaemonHolder {
    /// Its pid, if it signed.
    pub pid: Option<u32>,
}

fn daemon_lock_path(home: &Path) -> PathBuf {
    home.join("daemon.lock")
}
