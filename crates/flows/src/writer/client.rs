//! HTTP client of the daemon's socket: blocking, one request per connection, no async runtime.
//!
//! The order itself is sent only when the daemon says `100 Continue`, which it does the moment it turns
//! to it. So an asker that gives up before has asked for nothing, and knows that.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use model::wire::BadgeResult;
use sys::machine::Machine;
use sys::private::PrivateDir;
use sys::socket::{SocketConnectError, UnixSocketError};

use super::place::{HomeId, fallback_directory, socket_name};
use super::{DAEMON_PROTOCOL, DaemonAnswer, DaemonOrder};
use crate::timeouts::{BADGE_TIMEOUT, DAEMON_CONNECT_TIMEOUT};

/// The longest answer that is read.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// The longest head of an answer.
const MOST_HEAD: usize = 16 << 10;

/// How long the daemon may take.
#[derive(Clone, Copy, Debug)]
pub struct AskLimits {
    /// Until it takes the order. Before that nothing is done.
    pub taken: Duration,
    /// From then until the answer.
    pub done: Duration,
}

impl AskLimits {
    /// For what a reader waits for: an answer soon, or none.
    pub const SHORT: Self = Self { taken: Duration::from_secs(2), done: Duration::from_secs(30) };

    pub const LONG: Self = Self { taken: Duration::from_secs(10), done: Duration::from_secs(600) };
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum DaemonCallError {
    /// There is no daemon that could be asked: no socket, it has no listener, it lies where others
    /// may write, or the listener went away. Nothing was sent; the lock says who may write.
    #[error("the daemon does not run")]
    NotRunning,
    /// The socket cannot be trusted or used. Nothing was sent.
    #[error(transparent)]
    Socket(UnixSocketError),
    /// The daemon is there and did not turn to the order. Nothing was sent.
    #[error(
        "the daemon{} did not take the order within {} s: it is busy or stopped, and nothing was done",
        in_brackets(*.pid), .waited.as_secs()
    )]
    NotTaken {
        pid: Option<u32>,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The daemon refused. Nothing was done.
    #[error("the daemon refused: {0}")]
    Refused(String),
    /// It was sent, and then something went wrong.
    #[error("the daemon was asked and did not answer ({0}): it may have been applied")]
    MayHaveApplied(String),
}

fn in_brackets(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}

/// Asks the daemon of a home. A failure before the order is taken is anything but
/// [`DaemonCallError::MayHaveApplied`]; afterwards the order may have been carried out, in spite of the answer.
pub fn ask(
    machine: &Machine,
    order: &DaemonOrder,
    limits: AskLimits,
) -> Result<DaemonAnswer, DaemonCallError> {
    let home = machine.home();
    let id = match HomeId::of_path(home) {
        Ok(id) => id,
        // No process can serve what is not there.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(DaemonCallError::NotRunning);
        }
        Err(source) => {
            return Err(DaemonCallError::Socket(UnixSocketError::Io { path: home.into(), source }));
        }
    };
    let stream = connect_daemon(machine, id)?;
    let mut call = Call { pid: peer_pid(&stream), stream, heard: Vec::new(), limits };
    let body =
        serde_json::to_vec(order).map_err(|error| DaemonCallError::Refused(error.to_string()))?;
    let response = match order {
        // Answered by the HTTP thread, even while the daemon's loop is busy.
        DaemonOrder::Status => {
            call.send_head("/v1/status", id, 0, "")?;
            call.read_head()?
        }
        _ => {
            call.send_head("/v1/orders", id, body.len(), "expect: 100-continue\r\n")?;
            sys::pause::pause_at("order.asked");
            let first = call.read_head()?;
            if first.status == 100 {
                return call.send_order(&body);
            }
            first
        }
    };
    // Nothing was sent so far.
    let text = call.read_rest(&response).unwrap_or_default();
    match response.status {
        200 => serde_json::from_slice(&text).map_err(|_| refused_nonsense()),
        503 => Err(DaemonCallError::NotRunning),
        _ => Err(DaemonCallError::Refused(String::from_utf8_lossy(&text).trim().to_owned())),
    }
}

/// Asks the daemon for the counts of the badge; none if there is no daemon that has them at hand.
pub fn ask_badge(machine: &Machine) -> Option<BadgeResult> {
    let id = HomeId::of_path(machine.home()).ok()?;
    let stream = connect_daemon(machine, id).ok()?;
    let limits = AskLimits { taken: BADGE_TIMEOUT, done: BADGE_TIMEOUT };
    let mut call = Call { pid: None, stream, heard: Vec::new(), limits };
    call.send_head("/v1/badge", id, 0, "").ok()?;
    let head = call.read_head().ok().filter(|head| head.status == 200)?;
    serde_json::from_slice(&call.read_rest(&head).ok()?).ok()
}

/// Asks the daemon of a home something that is answered at its door and changes nothing of the home's.
pub fn call_daemon(machine: &Machine, path: &str) -> Result<Vec<u8>, DaemonCallError> {
    let id = HomeId::of_path(machine.home()).map_err(|_| DaemonCallError::NotRunning)?;
    let stream = connect_daemon(machine, id)?;
    let limits = AskLimits::SHORT;
    let mut call = Call { pid: peer_pid(&stream), stream, heard: Vec::new(), limits };
    call.send_head(path, id, 0, "")?;
    let response = call.read_head()?;
    let text = call.read_rest(&response).unwrap_or_default();
    match response.status {
        200 => Ok(text),
        _ => Err(DaemonCallError::Refused(String::from_utf8_lossy(&text).trim().to_owned())),
    }
}

fn refused_nonsense() -> DaemonCallError {
    DaemonCallError::Refused("what it says is not an answer".to_owned())
}

/// One connection. Bytes read beyond a head are buffered for the body.
struct Call {
    stream: UnixStream,
    heard: Vec<u8>,
    pid: Option<u32>,
    limits: AskLimits,
}

struct ResponseHead {
    status: u16,
    length: Option<usize>,
}

impl Call {
    fn send_head(
        &mut self,
        path: &str,
        home: HomeId,
        length: usize,
        more: &str,
    ) -> Result<(), DaemonCallError> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: ostler\r\nconnection: close\r\n\
             content-type: application/json\r\nx-ostler-protocol: {DAEMON_PROTOCOL}\r\n\
             x-ostler-home: {home}\r\n{more}content-length: {length}\r\n\r\n"
        );
        let limit = Some(self.limits.taken);
        let sent = self
            .stream
            .set_read_timeout(limit)
            .and_then(|()| self.stream.set_write_timeout(limit))
            .and_then(|()| self.stream.write_all(head.as_bytes()));
        sent.map_err(|error| self.untaken(&error))
    }

    /// Reads the head of an answer, before anything was sent that could be carried out.
    fn read_head(&mut self) -> Result<ResponseHead, DaemonCallError> {
        match self.read_response_head() {
            Ok(head) => Ok(head),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(refused_nonsense()),
            Err(error) => Err(self.untaken(&error)),
        }
    }

    fn untaken(&self, error: &io::Error) -> DaemonCallError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                DaemonCallError::NotTaken { pid: self.pid, waited: self.limits.taken }
            }
            _ => DaemonCallError::NotRunning,
        }
    }

    /// Sends the order, which the daemon has turned to, and waits for what comes of it.
    fn send_order(mut self, body: &[u8]) -> Result<DaemonAnswer, DaemonCallError> {
        let unknown =
            |error: &dyn std::fmt::Display| DaemonCallError::MayHaveApplied(error.to_string());
        sys::pause::pause_at("order.taken");
        let answered = self
            .stream
            .set_read_timeout(Some(self.limits.done))
            .and_then(|()| self.stream.write_all(body))
            .and_then(|()| self.read_response_head())
            .and_then(|head| Ok((head.status, self.read_rest(&head)?)));
        let (status, text) = answered.map_err(|error| unknown(&error))?;
        match status {
            200 => serde_json::from_slice(&text).map_err(|error| unknown(&error)),
            400..=499 => {
                Err(DaemonCallError::Refused(String::from_utf8_lossy(&text).trim().to_owned()))
            }
            status => Err(unknown(&format!("status {status}"))),
        }
    }

    fn read_response_head(&mut self) -> io::Result<ResponseHead> {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "not an answer");
        loop {
            let mut headers = [httparse::EMPTY_HEADER; 32];
            let mut response = httparse::Response::new(&mut headers);
            if let httparse::Status::Complete(end) =
                response.parse(&self.heard).map_err(|_| bad())?
            {
                let length = response
                    .headers
                    .iter()
                    .find(|header| header.name.eq_ignore_ascii_case("content-length"))
                    .and_then(|header| std::str::from_utf8(header.value).ok()?.parse().ok());
                let status = response.code.ok_or_else(bad)?;
                self.heard.drain(..end);
                return Ok(ResponseHead { status, length });
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count if self.heard.len() + count <= MOST_HEAD => {
                    self.heard.extend_from_slice(&chunk[..count]);
                }
                _ => return Err(bad()),
            }
        }
    }

    /// Reads what follows a head.
    fn read_rest(&mut self, head: &ResponseHead) -> io::Result<Vec<u8>> {
        let mut text = std::mem::take(&mut self.heard);
        (&mut self.stream).take(MAX_ANSWER_BYTES).read_to_end(&mut text)?;
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "not an answer");
        let length = head.length.ok_or_else(bad)?;
        if text.len() < length {
            return Err(bad());
        }
        text.truncate(length);
        Ok(text)
    }
}

fn peer_pid(stream: &UnixStream) -> Option<u32> {
    sys::socket::peer_credentials(stream).ok()?.pid
}

/// Connects to the daemon of a home, wherever it may listen.
fn connect_daemon(machine: &Machine, id: HomeId) -> Result<UnixStream, DaemonCallError> {
    let (home, runtime) = (machine.home(), machine.runtime());
    let name = socket_name(id);
    let fallback = fallback_directory(home);
    let places = [
        (runtime, sys::private::open_guarded_dir(runtime)),
        (fallback.as_path(), sys::private::open_own_dir(&fallback)),
    ];
    for (place, dir) in places {
        // Where others may write no daemon is asked: the lock is in the home, and tells who may write.
        let Ok(dir) = dir else { continue };
        if let Some(stream) = connect_at(place, &dir, &name)? {
            return Ok(stream);
        }
    }
    Err(DaemonCallError::NotRunning)
}

fn connect_at(
    place: &Path,
    dir: &PrivateDir,
    name: &str,
) -> Result<Option<UnixStream>, DaemonCallError> {
    let path = place.join(name);
    let io = |source| DaemonCallError::Socket(UnixSocketError::Io { path: path.clone(), source });
    let stream = match sys::socket::connect_in(dir, name.as_ref(), DAEMON_CONNECT_TIMEOUT) {
        Ok(stream) => stream,
        Err(SocketConnectError::Silent | SocketConnectError::NotASocket) => return Ok(None),
        Err(SocketConnectError::TimedOut) => {
            return Err(DaemonCallError::NotTaken { pid: None, waited: DAEMON_CONNECT_TIMEOUT });
        }
        Err(SocketConnectError::Refused(source)) => return Err(io(source)),
    };
    let server = sys::socket::peer_credentials(&stream).map_err(io)?;
    if !server.is_us() {
        return Err(DaemonCallError::Socket(UnixSocketError::ForeignServer {
            path,
            uid: server.uid,
        }));
    }
    Ok(Some(stream))
}

/// A daemon of the version before homes had identities: one for all of a user's homes, on one socket.
pub mod previous {
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use model::wire::DaemonResult;
    use sys::lock::LockAttempt;
    use sys::machine::Machine;

    use super::{
        AskLimits, Call, DaemonAnswer, DaemonCallError, DaemonOrder, connect_at, peer_pid,
    };

    const SOCKET: &str = "daemon.sock";
    const PROTOCOL: u32 = 2;
    const LIMITS: AskLimits =
        AskLimits { taken: Duration::from_secs(2), done: Duration::from_secs(2) };

    /// Where it listens.
    pub fn socket(runtime: &Path) -> PathBuf {
        runtime.join(SOCKET)
    }

    /// What it says of itself, if it is the writer of this home: the holder of the home's lock and the
    /// process on the socket are one. That of another home is nothing to us.
    pub fn status(machine: &Machine) -> Option<DaemonResult> {
        match ask(machine, &DaemonOrder::Status) {
            Some(Ok(DaemonAnswer::Status(status))) => Some(status),
            _ => None,
        }
    }

    /// Tells it to stop, if it is the writer of this home. Returns whether it heard that.
    pub fn stop(machine: &Machine) -> bool {
        matches!(ask(machine, &DaemonOrder::Stop), Some(Ok(DaemonAnswer::Stopping)))
    }

    fn ask(
        machine: &Machine,
        order: &DaemonOrder,
    ) -> Option<Result<DaemonAnswer, DaemonCallError>> {
        use std::io::Write;

        let (home, runtime) = (machine.home(), machine.runtime());
        let dir = sys::private::open_guarded_dir(runtime).ok()?;
        let stream = connect_at(runtime, &dir, SOCKET).ok()??;
        let lock = sys::writer_lock::writer_lock_path(home);
        let Ok(LockAttempt::Held(Some(holder))) =
            lock.exists().then(|| sys::lock::try_take(&lock))?
        else {
            return None;
        };
        let pid = peer_pid(&stream);
        if pid.is_none() || holder.pid != pid {
            return None;
        }
        let mut call = Call { stream, heard: Vec::new(), pid, limits: LIMITS };
        let body = serde_json::to_vec(order).ok()?;
        let head = format!(
            "POST /v1/orders HTTP/1.1\r\nhost: ostler\r\nconnection: close\r\n\
             content-type: application/json\r\nx-ostler-protocol: {PROTOCOL}\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        call.stream.set_write_timeout(Some(LIMITS.taken)).ok()?;
        call.stream.write_all(head.as_bytes()).ok()?;
        Some(call.send_order(&body))
    }
}
