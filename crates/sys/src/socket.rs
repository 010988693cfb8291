//! Private Unix sockets: only this user can reach them, and both sides check.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::private::{self, PrivateError};

mod in_dir;

pub use in_dir::{SocketConnectError, connect_in, listen_in};

/// The longest path a socket can have on every platform.
pub const MAX_SOCKET_PATH_BYTES: usize = 103;

/// Why a socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UnixSocketError {
    /// The directory it lies in is not ours alone.
    #[error(transparent)]
    NotPrivate(#[from] PrivateError),
    /// The system's names for sockets are short.
    #[error("the socket path `{}` is longer than {MAX_SOCKET_PATH_BYTES} bytes", .0.display())]
    TooLong(PathBuf),
    /// The listener runs as another user.
    #[error("the socket `{}` is served by user {uid}", path.display())]
    ForeignServer {
        path: PathBuf,
        /// Who serves it.
        uid: u32,
    },
    /// The system refused.
    #[error("cannot use the socket `{}`", path.display())]
    Io {
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Who is at the other end of a socket, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// Its pid, where the platform tells.
    pub pid: Option<u32>,
    pub uid: u32,
    pub gid: u32,
}

impl PeerCredentials {
    /// Whether it runs as the same user as this process.
    pub fn is_us(self) -> bool {
        self.uid == rustix::process::geteuid().as_raw()
    }
}

/// Who is at the other end.
pub fn peer_credentials(stream: &UnixStream) -> io::Result<PeerCredentials> {
    peer_of(stream)
}

/// As [`peer_credentials`], of anything that is a socket.
#[cfg(target_os = "linux")]
pub fn peer_of(stream: &impl AsFd) -> io::Result<PeerCredentials> {
    let credentials = rustix::net::sockopt::socket_peercred(stream)?;
    Ok(PeerCredentials {
        pid: u32::try_from(credentials.pid.as_raw_nonzero().get()).ok(),
        uid: credentials.uid.as_raw(),
        gid: credentials.gid.as_raw(),
    })
}

/// As [`peer_credentials`], of anything that is a socket.
#[cfg(target_os = "macos")]
pub fn peer_of(stream: &impl AsFd) -> io::Result<PeerCredentials> {
    use std::os::fd::AsRawFd;

    let stream = stream.as_fd();
    let (mut uid, mut gid) = (0, 0);
    #[expect(unsafe_code, reason = "getpeereid has no safe interface")]
    // SAFETY: the descriptor is open for the length of the call, and both pointers are valid.
    let answer = unsafe { libc::getpeereid(stream.as_raw_fd(), &mut uid, &mut gid) };
    if answer == 0 {
        Ok(PeerCredentials { pid: None, uid, gid })
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Who is at the other end: not known here, so no peer is trusted.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub fn peer_of(_: &impl AsFd) -> io::Result<PeerCredentials> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether no descriptor was left, in this process or in the whole system.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(errno, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

/// How many connections a server may hold at once: so many, and no more than a quarter of the
/// descriptors that this process may have, which it needs for its work.
pub fn connection_limit(most: usize) -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let quarter = limit.map_or(most, |limit| usize::try_from(limit / 4).unwrap_or(most));
    most.min(quarter).max(1)
}

/// Gives up a socket of this process's own, and the directory that was made for it and others like it
/// when this was the last one.
pub fn abandon_socket(path: &Path) {
    // They are not needed: what cannot be removed is swept later, and a directory that is in use stays.
    let _ = std::fs::remove_file(path);
    if let Some(directory) = path.parent() {
        drop_empty_directory(directory);
    }
}

/// Removes a directory that was made for sockets when its last one is gone; one in use stays.
pub fn drop_empty_directory(directory: &Path) {
    let _ = std::fs::remove_dir(directory);
}

/// Listens at `path`, whose directory is created private or verified to be so. A socket that is in
/// the way is replaced: the caller knows that no process serves it any more.
pub fn listen_private(path: &Path) -> Result<UnixListener, UnixSocketError> {
    const MOST_TRIES: usize = 64;
    for _ in 1..MOST_TRIES {
        match listen_once(path) {
            // The process that abandoned the last socket took the directory away after we had made it.
            Err(
                UnixSocketError::Io { source, .. }
                | UnixSocketError::NotPrivate(PrivateError::Io { source, .. }),
            ) if has_vanished(&source) => {}
            other => return other,
        }
    }
    listen_once(path)
}

/// Making a directory fails with either when it goes away meanwhile.
fn has_vanished(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
}

fn listen_once(path: &Path) -> Result<UnixListener, UnixSocketError> {
    check_path(path)?;
    private::create_private_dir(path.parent().unwrap_or(Path::new("/")))?;
    let io = |source| UnixSocketError::Io { path: path.into(), source };
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        std::fs::remove_file(path).map_err(io)?;
    }
    let listener = UnixListener::bind(path).map_err(io)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(io)?;
    Ok(listener)
}

/// Connects to `path`, whose directory must be private, and whose server must be this user.
pub fn connect_private(path: &Path) -> Result<UnixStream, UnixSocketError> {
    check_path(path)?;
    private::verify_private_dir(path.parent().unwrap_or(Path::new("/")))?;
    let io = |source| UnixSocketError::Io { path: path.into(), source };
    let stream = UnixStream::connect(path).map_err(io)?;
    let server = peer_credentials(&stream).map_err(io)?;
    if !server.is_us() {
        return Err(UnixSocketError::ForeignServer { path: path.into(), uid: server.uid });
    }
    Ok(stream)
}

fn check_path(path: &Path) -> Result<(), UnixSocketError> {
    if path.as_os_str().len() > MAX_SOCKET_PATH_BYTES {
        return Err(UnixSocketError::TooLong(path.into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn both_ends_know_each_other() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("run/socket");
        let listener = listen_private(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let client = connect_private(&path).unwrap();
        let (server, _) = listener.accept().unwrap();
        for end in [&client, &server] {
            let peer = peer_credentials(end).unwrap();
            assert!(peer.is_us());
            #[cfg(target_os = "linux")]
            assert_eq!(peer.pid, Some(std::process::id()));
        }
    }

    #[test]
    fn a_socket_in_a_directory_that_others_may_use_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("run/socket");
        let _listener = listen_private(&path).unwrap();
        fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(connect_private(&path), Err(UnixSocketError::NotPrivate(_))));
        assert!(matches!(listen_private(&path), Err(UnixSocketError::NotPrivate(_))));
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_file_is_not() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("run/socket");
        drop(listen_private(&path).unwrap());
        let _again = listen_private(&path).unwrap();
        connect_private(&path).unwrap();
        let file = home.path().join("run/file");
        fs::write(&file, "mine").unwrap();
        assert!(matches!(listen_private(&file), Err(UnixSocketError::Io { .. })));
        assert_eq!(fs::read(&file).unwrap(), b"mine");
    }

    #[test]
    fn m9_the_last_socket_takes_its_directory_along_while_others_come() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("run");
        let path = |name: &str| directory.join(name);
        let (_a, _b) = (listen_private(&path("a")).unwrap(), listen_private(&path("b")).unwrap());
        abandon_socket(&path("a"));
        assert!(path("b").exists());
        abandon_socket(&path("b"));
        assert!(!directory.exists());
        std::thread::scope(|threads| {
            for name in ["a", "b", "c"] {
                threads.spawn(move || {
                    let path = path(name);
                    for _ in 0..200 {
                        let _listener = listen_private(&path).unwrap();
                        abandon_socket(&path);
                    }
                });
            }
        });
        assert!(!directory.exists());
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_named() {
        let path = Path::new("/tmp").join("x".repeat(200)).join("socket");
        assert!(matches!(listen_private(&path), Err(UnixSocketError::TooLong(_))));
        assert!(matches!(connect_private(&path), Err(UnixSocketError::TooLong(_))));
    }
}
