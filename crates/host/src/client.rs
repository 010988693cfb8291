//! Client of the host protocol: one request per connection, one line of JSON each way.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use model::hosted::protocol::{HostDialect, HostQuery, request_line};
use model::hosted::wire::{AttachParams, AttachResult};
use model::hosted::{FaultCode, HostFault};
use serde::Deserialize;
use serde_json::value::RawValue;

pub use crate::timeouts::HOST_ANSWER_TIMEOUT;

/// A host that can be asked.
#[derive(Clone, Copy, Debug)]
pub struct HostAddress<'a> {
    /// Where it listens.
    pub socket: &'a Path,
    /// Whose protocol it speaks.
    pub dialect: HostDialect,
}

#[derive(Deserialize)]
struct ResponseLine<'a> {
    ok: bool,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<HostFault>,
}

/// Asks a host. Without a `timeout` its answer may take for ever.
pub fn ask_host<Q: HostQuery>(
    host: HostAddress<'_>,
    query: &Q,
    timeout: Option<Duration>,
) -> Result<Q::Answer, HostFault> {
    exchange(host, query, timeout, None).map(|(answer, _)| answer)
}

/// As [`ask_host`], until `cancelled` can be read: then nobody waits for the answer any more. The host notices that
/// its asker is gone.
pub fn ask_host_unless<Q: HostQuery>(
    host: HostAddress<'_>,
    query: &Q,
    timeout: Option<Duration>,
    cancelled: Option<BorrowedFd<'_>>,
) -> Result<Q::Answer, HostFault> {
    exchange(host, query, timeout, cancelled).map(|(answer, _)| answer)
}

/// Attaches to the session: its answer, and the stream of frames that follows.
pub fn attach_to_host(
    host: HostAddress<'_>,
    params: &AttachParams,
) -> Result<(AttachResult, Vec<u8>, UnixStream), HostFault> {
    let (answer, reader) = exchange(host, params, Some(HOST_ANSWER_TIMEOUT), None)?;
    let early = reader.buffer().to_vec();
    let stream = reader.into_inner();
    stream.set_read_timeout(None).map_err(|error| host_unreachable(host.socket, &error))?;
    Ok((answer, early, stream))
}

fn exchange<Q: HostQuery>(
    host: HostAddress<'_>,
    query: &Q,
    timeout: Option<Duration>,
    cancelled: Option<BorrowedFd<'_>>,
) -> Result<(Q::Answer, BufReader<UnixStream>), HostFault> {
    let (socket, method) = (host.socket, Q::METHOD);
    let line = request_line(query, host.dialect)?;
    let mut stream = sys::socket::connect_private(socket).map_err(|error| match error {
        sys::socket::UnixSocketError::Io { source, .. } => host_unreachable(socket, &source),
        other => HostFault::new(FaultCode::HostUnreachable, other.to_string()),
    })?;
    let io = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => HostFault::new(
            FaultCode::HostTimeout,
            format!("the session's host did not answer `{method}` in time"),
        ),
        _ => host_unreachable(socket, &error),
    };
    stream.set_write_timeout(Some(HOST_ANSWER_TIMEOUT)).map_err(io)?;
    stream.set_read_timeout(timeout).map_err(io)?;
    // A host that refuses while it is still told answers all the same.
    let sent = stream.write_all(&line);
    if let Some(cancelled) = cancelled {
        let ready = sys::watch::poll_readable(&[stream.as_fd(), cancelled], timeout).map_err(io)?;
        match ready[..] {
            [true, _] => {}
            [_, true] => {
                let message = format!("nobody waits for the answer to `{method}` any more");
                return Err(HostFault::new(FaultCode::WaitTimeout, message));
            }
            _ => return Err(io(io::ErrorKind::TimedOut.into())),
        }
    }
    let mut reader = BufReader::new(stream);
    let answer = match (sent, read_line(&mut reader)) {
        (Err(error), Ok(answer)) if answer.is_empty() => return Err(io(error)),
        (Err(error), Err(_)) => return Err(io(error)),
        (_, answer) => answer.map_err(io)?,
    };
    if answer.last() != Some(&b'\n') {
        let message =
            format!("the session's host closed the connection before it answered `{method}`");
        return Err(HostFault::new(FaultCode::HostUnreachable, message));
    }
    let wrong = |reason: String| {
        HostFault::new(
            FaultCode::ProtocolError,
            format!("the host's answer to `{method}` is not understood: {reason}"),
        )
    };
    let response: ResponseLine<'_> =
        serde_json::from_slice(&answer).map_err(|error| wrong(error.to_string()))?;
    match (response.ok, response.result, response.error) {
        (true, Some(result), _) => {
            let result = serde_json::from_slice(result.get().as_bytes())
                .map_err(|error| wrong(error.to_string()))?;
            Ok((result, reader))
        }
        (false, _, Some(fault)) => Err(fault),
        _ => Err(wrong("neither result nor error".to_owned())),
    }
}

/// Reads up to a line break, or up to a signal that asks this process to end.
fn read_line(reader: &mut BufReader<UnixStream>) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        let chunk = match reader.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                if sys::signals::received_interruption().is_some() {
                    return Ok(Vec::new());
                }
                continue;
            }
            Err(error) => return Err(error),
        };
        let end = memchr::memchr(b'\n', chunk).map(|at| at + 1);
        let used = end.unwrap_or(chunk.len());
        line.extend_from_slice(&chunk[..used]);
        reader.consume(used);
        if end.is_some() || used == 0 {
            return Ok(line);
        }
    }
}

fn host_unreachable(socket: &Path, error: &io::Error) -> HostFault {
    let message = format!("cannot reach the session's host at {}: {error}", socket.display());
    HostFault::new(FaultCode::HostUnreachable, message)
}
