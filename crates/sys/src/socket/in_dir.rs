//! Reaching a socket through the directory it was checked in.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

use crate::private::PrivateDir;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum SocketConnectError {
    /// No such socket, or it has no listener.
    #[error("nobody listens there")]
    Silent,
    /// The name is no socket (any more).
    #[error("it is not a socket")]
    NotASocket,
    /// The connection was not accepted in time.
    #[error("no answer in time")]
    TimedOut,
    /// The system refused.
    #[error("the connection was refused")]
    Refused(#[source] io::Error),
}

/// Connects to the socket called `name` in a directory: to that very socket, whichever one the path to
/// it means now, and never through a link.
pub fn connect_in(
    dir: &PrivateDir,
    name: &OsStr,
    patience: Duration,
) -> Result<UnixStream, SocketConnectError> {
    let target = Target::resolve_socket(dir, name)?;
    let socket = new_socket().map_err(|errno| SocketConnectError::Refused(errno.into()))?;
    rustix::io::ioctl_fionbio(&socket, true)
        .map_err(|errno| SocketConnectError::Refused(errno.into()))?;
    let deadline = Instant::now() + patience;
    loop {
        match rustix::net::connect(&socket, target.socket_address()) {
            Ok(()) => break,
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Err(SocketConnectError::Silent),
            // Its queue is full: nothing tells when there is room again.
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(Errno::AGAIN | Errno::INTR) => return Err(SocketConnectError::TimedOut),
            Err(errno) => return Err(SocketConnectError::Refused(errno.into())),
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false).map_err(SocketConnectError::Refused)?;
    Ok(stream)
}

/// Listens at `name` in a directory that was checked, however long the path to it is. A socket that is
/// in the way is replaced: the caller knows that no process serves it any more.
pub fn listen_in(dir: &PrivateDir, name: &OsStr) -> io::Result<UnixListener> {
    if dir.facts_of(name)?.is_some_and(|found| found.kind == crate::private::InodeKind::Socket) {
        rustix::fs::unlinkat(dir.as_fd(), name, rustix::fs::AtFlags::empty())?;
    }
    let path = path_in(dir, name)?;
    let listener = UnixListener::bind(&path)?;
    rustix::fs::chmod(&path, Mode::RUSR | Mode::WUSR)?;
    Ok(listener)
}

/// A path of this process that leads to a name in the opened directory.
#[cfg(target_os = "linux")]
fn path_in(dir: &PrivateDir, name: &OsStr) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;

    Ok(PathBuf::from(format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd())).join(name))
}

/// A path that leads to a name in the opened directory: its own, asked for and used at once.
#[cfg(target_os = "macos")]
fn path_in(dir: &PrivateDir, name: &OsStr) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;

    let path = rustix::fs::getpath(dir.as_fd())?.into_bytes();
    Ok(PathBuf::from(std::ffi::OsString::from_vec(path)).join(name))
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn path_in(_: &PrivateDir, _: &OsStr) -> io::Result<PathBuf> {
    Err(io::ErrorKind::Unsupported.into())
}

fn new_socket() -> Result<OwnedFd, Errno> {
    #[cfg(target_os = "linux")]
    {
        let flags = rustix::net::SocketFlags::CLOEXEC;
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        Ok(socket)
    }
}

/// The socket, held on to while it is connected to.
#[derive(Debug)]
struct Target {
    address: SocketAddrUnix,
    _held: OwnedFd,
}

impl Target {
    fn socket_address(&self) -> &SocketAddrUnix {
        &self.address
    }

    /// Opens the socket's own inode; connecting to that descriptor's path reaches nothing else.
    #[cfg(target_os = "linux")]
    fn resolve_socket(dir: &PrivateDir, name: &OsStr) -> Result<Self, SocketConnectError> {
        use std::os::fd::AsRawFd;

        use rustix::fs::OFlags;

        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = match rustix::fs::openat(dir.as_fd(), name, flags, Mode::empty()) {
            Ok(held) => held,
            Err(Errno::NOENT) => return Err(SocketConnectError::Silent),
            Err(errno) => return Err(SocketConnectError::Refused(errno.into())),
        };
        let refused = |errno: Errno| SocketConnectError::Refused(errno.into());
        let mode = rustix::fs::fstat(&held).map_err(refused)?.st_mode;
        if rustix::fs::FileType::from_raw_mode(mode) != rustix::fs::FileType::Socket {
            return Err(SocketConnectError::NotASocket);
        }
        let path = format!("/proc/self/fd/{}", held.as_raw_fd());
        let address = SocketAddrUnix::new(path.as_str()).map_err(refused)?;
        Ok(Self { address, _held: held })
    }

    /// Sockets cannot be opened here: the directory's own path is asked for and used at once.
    #[cfg(target_os = "macos")]
    fn resolve_socket(dir: &PrivateDir, name: &OsStr) -> Result<Self, SocketConnectError> {
        let refused = |errno: Errno| SocketConnectError::Refused(errno.into());
        match dir.facts_of(name).map_err(SocketConnectError::Refused)? {
            None => return Err(SocketConnectError::Silent),
            Some(facts) if facts.kind != crate::private::InodeKind::Socket => {
                return Err(SocketConnectError::NotASocket);
            }
            Some(_) => {}
        }
        let held = rustix::io::fcntl_dupfd_cloexec(dir.as_fd(), 0).map_err(refused)?;
        let path = path_in(dir, name).map_err(SocketConnectError::Refused)?;
        let address = SocketAddrUnix::new(path).map_err(refused)?;
        Ok(Self { address, _held: held })
    }

    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    fn resolve_socket(_: &PrivateDir, _: &OsStr) -> Result<Self, SocketConnectError> {
        Err(SocketConnectError::Refused(io::ErrorKind::Unsupported.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const CONNECT_TIMEOUT: Duration = Duration::from_millis(200);

    fn asked(dir: &PrivateDir, name: &str) -> Result<UnixStream, SocketConnectError> {
        connect_in(dir, OsStr::new(name), CONNECT_TIMEOUT)
    }

    #[test]
    fn a_listener_is_reached_and_known() {
        let home = tempfile::tempdir().unwrap();
        let dir = PrivateDir::open(home.path()).unwrap();
        let _listener = UnixListener::bind(home.path().join("s")).unwrap();
        let stream = asked(&dir, "s").unwrap();
        let peer = crate::socket::peer_credentials(&stream).unwrap();
        assert_eq!(peer.pid, Some(std::process::id()));
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
    }

    #[test]
    fn silence_links_and_files_are_told_apart() {
        let home = tempfile::tempdir().unwrap();
        let dir = PrivateDir::open(home.path()).unwrap();
        assert!(matches!(asked(&dir, "missing"), Err(SocketConnectError::Silent)));
        drop(UnixListener::bind(home.path().join("stale")).unwrap());
        assert!(matches!(asked(&dir, "stale"), Err(SocketConnectError::Silent)));
        let _listener = UnixListener::bind(home.path().join("real")).unwrap();
        symlink("real", home.path().join("link")).unwrap();
        assert!(asked(&dir, "link").is_err(), "a link is never followed");
        dir.write_atomic("file", b"x").unwrap();
        assert!(matches!(asked(&dir, "file"), Err(SocketConnectError::NotASocket)));
    }

    #[test]
    fn a_full_queue_is_a_timeout_and_no_hang() {
        let home = tempfile::tempdir().unwrap();
        let dir = PrivateDir::open(home.path()).unwrap();
        let listener = UnixListener::bind(home.path().join("s")).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let mut waiting = Vec::new();
        let refused = loop {
            match connect_in(&dir, OsStr::new("s"), Duration::from_millis(20)) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
            assert!(waiting.len() < 64);
        };
        assert!(matches!(refused, SocketConnectError::TimedOut), "{refused:?}");
    }

    #[test]
    fn a_path_that_is_too_long_for_a_socket_is_no_hindrance() {
        let home = tempfile::tempdir().unwrap();
        let deep = home.path().join("x".repeat(200));
        crate::private::create_private_dir(&deep).unwrap();
        let dir = PrivateDir::open(&deep).unwrap();
        for _ in 0..2 {
            let _listener = listen_in(&dir, OsStr::new("s")).unwrap();
            let facts = dir.facts_of(OsStr::new("s")).unwrap().unwrap();
            assert_eq!(facts.mode, 0o600);
            asked(&dir, "s").unwrap();
        }
        dir.write_atomic("file", b"x").unwrap();
        assert!(listen_in(&dir, OsStr::new("file")).is_err(), "only a socket is replaced");
    }
}
