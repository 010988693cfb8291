//! Asking a session's host: one request per connection, one line each way.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use model::hosted::wire::{AttachParams, AttachResult};
use model::hosted::{Code, Fault};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// How long a host may take for what it can do at once.
pub const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct Request<'a, P> {
    id: &'a str,
    method: &'a str,
    params: P,
}

#[derive(Deserialize)]
struct Response<'a> {
    ok: bool,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Fault>,
}

/// Asks the host that listens at `socket`. `patience` is how long its answer may take; none is for
/// ever.
pub fn call<T: DeserializeOwned>(
    socket: &Path,
    method: &str,
    params: impl Serialize,
    patience: Option<Duration>,
) -> Result<T, Fault> {
    let (answer, _) = ask(socket, method, params, patience)?;
    Ok(answer)
}

/// Attaches to the session: its answer, and the stream of frames that follows.
pub fn attach(
    socket: &Path,
    params: AttachParams,
) -> Result<(AttachResult, Vec<u8>, UnixStream), Fault> {
    let (answer, reader) = ask(socket, "attach", params, Some(PATIENCE))?;
    let early = reader.buffer().to_vec();
    let stream = reader.into_inner();
    stream.set_read_timeout(None).map_err(|error| unreachable(socket, &error))?;
    Ok((answer, early, stream))
}

fn ask<T: DeserializeOwned>(
    socket: &Path,
    method: &str,
    params: impl Serialize,
    patience: Option<Duration>,
) -> Result<(T, BufReader<UnixStream>), Fault> {
    let mut stream = sys::socket::connect(socket).map_err(|error| match error {
        sys::socket::SocketError::Io { source, .. } => unreachable(socket, &source),
        other => Fault::new(Code::HostUnreachable, other.to_string()),
    })?;
    let io = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Fault::new(
            Code::HostTimeout,
            format!("the session's host did not answer `{method}` in time"),
        ),
        _ => unreachable(socket, &error),
    };
    stream.set_write_timeout(Some(PATIENCE)).map_err(io)?;
    stream.set_read_timeout(patience).map_err(io)?;
    let mut line = serde_json::to_vec(&Request { id: "1", method, params })
        .map_err(|error| Fault::new(Code::ProtocolError, error.to_string()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(io)?;
    let mut reader = BufReader::new(stream);
    let answer = read_line(&mut reader).map_err(io)?;
    if answer.last() != Some(&b'\n') {
        let message =
            format!("the session's host closed the connection before it answered `{method}`");
        return Err(Fault::new(Code::HostUnreachable, message));
    }
    let wrong = |reason: String| {
        Fault::new(
            Code::ProtocolError,
            format!("the host's answer to `{method}` is not understood: {reason}"),
        )
    };
    let response: Response<'_> =
        serde_json::from_slice(&answer).map_err(|error| wrong(error.to_string()))?;
    match (response.ok, response.result, response.error) {
        (true, Some(result), _) => {
            let result =
                serde_json::from_str(result.get()).map_err(|error| wrong(error.to_string()))?;
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
                if sys::signals::interruption().is_some() {
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

fn unreachable(socket: &Path, error: &io::Error) -> Fault {
    let message = format!("cannot reach the session's host at {}: {error}", socket.display());
    Fault::new(Code::HostUnreachable, message)
}
