//! Client of the ssh-agent protocol: one request, one response, with a timeout.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use crate::rules::meta::LentKey;
use crate::timeouts::AGENT_ANSWER_TIMEOUT;
use sys::private::PrivateDir;

use super::SOCKET_CONNECT_TIMEOUT;
use super::protocol::{self, MAX_MESSAGE_BYTES};

/// Reads one message, without the length in front; `None` at the end of the stream.
pub(crate) fn receive_message(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    if stream.read(&mut length[..1])? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut length[1..])?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length == 0 || length > MAX_MESSAGE_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a message of an impossible length",
        ));
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message)?;
    Ok(Some(message))
}

/// Writes one message with its length in front.
pub(crate) fn send_message(stream: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    // At once: two small writes would be two packets for the reader.
    stream.write_all(&[&length[..], message].concat())
}

fn exchange_message(stream: &mut UnixStream, message: &[u8]) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(AGENT_ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(AGENT_ANSWER_TIMEOUT))?;
    send_message(stream, message)?;
    receive_message(stream)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Connects to an agent's socket in a directory.
pub(crate) fn connect_agent(dir: &PrivateDir, name: &str) -> io::Result<UnixStream> {
    sys::socket::connect_in(dir, OsStr::new(name), SOCKET_CONNECT_TIMEOUT).map_err(io::Error::other)
}

/// The public keys that the agent holds.
pub(crate) fn list_identities(stream: &mut UnixStream) -> io::Result<Vec<LentKey>> {
    let answer = exchange_message(stream, &[protocol::REQUEST_IDENTITIES])?;
    protocol::parse_identities(&answer)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not a list of keys"))
}

/// Makes the agent forget every key.
pub(crate) fn forget_all(stream: &mut UnixStream) -> io::Result<()> {
    match exchange_message(stream, &[protocol::REMOVE_ALL_IDENTITIES])?.first() {
        Some(&protocol::SUCCESS) => Ok(()),
        _ => Err(io::Error::other("the agent refused")),
    }
}
