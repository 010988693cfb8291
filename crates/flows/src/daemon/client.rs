//! Asking the daemon: one request over its socket, without a runtime.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use sys::socket::SocketError;

use super::{Answer, Order, PROTOCOL, socket};

/// The longest answer that is read.
const MOST_ANSWER: u64 = 64 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// There is no daemon: no socket, or nobody listens on it. Nothing was sent.
    #[error("the daemon does not run")]
    NotRunning,
    /// The socket cannot be trusted or used. Nothing was sent.
    #[error(transparent)]
    Socket(SocketError),
    /// The daemon refused. Nothing was done.
    #[error("the daemon refused: {0}")]
    Refused(String),
    /// It was sent, and then something went wrong.
    #[error("the daemon was asked and did not answer ({0}): it may have been applied")]
    MayHaveApplied(String),
}

/// Asks the daemon. Whatever goes wrong before the first byte is sent is [`CallError::NotRunning`]
/// or [`CallError::Socket`]; afterwards the order may have been carried out, whatever is heard.
pub fn ask(runtime: &Path, order: &Order, patience: Duration) -> Result<Answer, CallError> {
    let stream = connect(&socket(runtime))?;
    let unknown = |error: &dyn std::fmt::Display| CallError::MayHaveApplied(error.to_string());
    stream
        .set_read_timeout(Some(patience))
        .and_then(|()| stream.set_write_timeout(Some(patience)))
        .map_err(|error| unknown(&error))?;
    let body = serde_json::to_vec(order).map_err(|error| unknown(&error))?;
    let (status, body) = exchange(stream, &body).map_err(|error| unknown(&error))?;
    match status {
        200 => serde_json::from_slice(&body).map_err(|error| unknown(&error)),
        400..=499 => Err(CallError::Refused(String::from_utf8_lossy(&body).trim().to_owned())),
        status => Err(unknown(&format!("status {status}"))),
    }
}

fn connect(path: &Path) -> Result<UnixStream, CallError> {
    sys::socket::connect(path).map_err(|error| {
        let absent = match &error {
            SocketError::Io { source, .. }
            | SocketError::NotPrivate(sys::private::PrivateError::Io { source, .. }) => {
                let kinds = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
                kinds.contains(&source.kind())
            }
            _ => false,
        };
        if absent { CallError::NotRunning } else { CallError::Socket(error) }
    })
}

/// Sends one request and reads the whole answer.
fn exchange(mut stream: UnixStream, body: &[u8]) -> io::Result<(u16, Vec<u8>)> {
    let head = format!(
        "POST /v1/orders HTTP/1.1\r\nhost: ostler\r\nconnection: close\r\n\
         content-type: application/json\r\nx-ostler-protocol: {PROTOCOL}\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat())?;
    let mut text = Vec::new();
    stream.take(MOST_ANSWER).read_to_end(&mut text)?;
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "not an answer");
    let start = match response.parse(&text) {
        Ok(httparse::Status::Complete(start)) => start,
        _ => return Err(bad()),
    };
    let status = response.code.ok_or_else(bad)?;
    let length = response
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"))
        .and_then(|header| std::str::from_utf8(header.value).ok()?.parse::<usize>().ok())
        .ok_or_else(bad)?;
    let body = text.get(start..start + length).ok_or_else(bad)?;
    Ok((status, body.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_daemon_that_never_answers_may_have_applied() {
        let private = std::fs::Permissions::from_mode(0o700);
        let runtime = tempfile::Builder::new().permissions(private.clone()).tempdir().unwrap();
        let path = socket(runtime.path());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::set_permissions(path.parent().unwrap(), private).unwrap();
        // The kernel takes the connection and the order; nobody reads it.
        let _listener = UnixListener::bind(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let answer = ask(runtime.path(), &Order::Status, Duration::from_millis(50));
        assert!(matches!(answer, Err(CallError::MayHaveApplied(_))), "{answer:?}");
    }
}
