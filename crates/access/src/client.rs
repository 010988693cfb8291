//! Talking to an ssh-agent: one message there, one back, with a time limit.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::rules::meta::Key;
use sys::private::Dir;

use super::CONNECT_PATIENCE;
use super::protocol::{self, MOST_BYTES};

/// How long an agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reads one message, without the length in front; `None` at the end of the stream.
pub(crate) fn receive(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    if stream.read(&mut length[..1])? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut length[1..])?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length == 0 || length > MOST_BYTES {
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
pub(crate) fn send(stream: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    // At once: two small writes would be two packets for the reader.
    stream.write_all(&[&length[..], message].concat())
}

fn ask(stream: &mut UnixStream, message: &[u8]) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    send(stream, message)?;
    receive(stream)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Connects to an agent's socket in a directory.
pub(crate) fn connect(dir: &Dir, name: &str) -> io::Result<UnixStream> {
    sys::socket::connect_in(dir, OsStr::new(name), CONNECT_PATIENCE).map_err(io::Error::other)
}

/// The public keys that the agent holds.
pub(crate) fn identities(stream: &mut UnixStream) -> io::Result<Vec<Key>> {
    let answer = ask(stream, &[protocol::REQUEST_IDENTITIES])?;
    protocol::parse_identities(&answer)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not a list of keys"))
}

/// Makes the agent forget every key.
pub(crate) fn forget_all(stream: &mut UnixStream) -> io::Result<()> {
    match ask(stream, &[protocol::REMOVE_ALL_IDENTITIES])?.first() {
        Some(&protocol::SUCCESS) => Ok(()),
        _ => Err(io::Error::other("the agent refused")),
    }
}
