//! The client's side of a WebSocket (RFC 6455), as far as the gateway's protocol needs it: text
//! messages over a plain connection, one after the other, and never longer than `patience`.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// What every server mixes into its answer.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The longest head of an answer.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// The longest message, as the gateway itself has it.
const MAX_MESSAGE_BYTES: usize = 25 << 20;

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub(super) enum WebSocketError {
    /// Nothing came in time.
    #[error("no answer came in time")]
    TimedOut,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Io(io::Error),
    /// It was closed.
    #[error("the connection was closed{}", .0.as_ref().map(CloseFrame::describe_close).unwrap_or_default())]
    Closed(Option<CloseFrame>),
    /// The other side does not speak it.
    #[error("it does not speak WebSocket: {0}")]
    Garbled(String),
}

/// What is said at the end.
#[derive(Debug)]
pub(super) struct CloseFrame {
    pub(super) code: u16,
    reason: String,
}

impl CloseFrame {
    fn describe_close(&self) -> String {
        match &self.reason[..] {
            "" => format!(" ({})", self.code),
            reason => format!(" ({}: {reason})", self.code),
        }
    }
}

impl From<io::Error> for WebSocketError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::UnexpectedEof => Self::Closed(None),
            _ => Self::Io(error),
        }
    }
}

/// An open WebSocket.
#[derive(Debug)]
pub(super) struct WebSocket {
    stream: TcpStream,
    /// What came and was not used yet.
    rest: Vec<u8>,
    until: Instant,
}

impl WebSocket {
    /// Asks for a WebSocket over a connection.
    pub(super) fn open(
        stream: TcpStream,
        host: &str,
        patience: Duration,
    ) -> Result<Self, WebSocketError> {
        let mut socket = Self { stream, rest: Vec::new(), until: Instant::now() + patience };
        let key = STANDARD.encode(sys::random::random_bytes::<16>()?);
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        socket.write_bytes(request.as_bytes())?;
        let end = loop {
            if let Some(end) = socket.rest.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            if socket.rest.len() > MAX_HEAD_BYTES {
                return Err(WebSocketError::Garbled("its answer has no end".to_owned()));
            }
            socket.fill_buffer()?;
        };
        let accepted = STANDARD.encode(Sha1::digest(format!("{key}{GUID}")));
        check_answer(&socket.rest[..end], &accepted)?;
        socket.rest.drain(..end);
        Ok(socket)
    }

    /// Begins a new wait.
    pub(super) fn restart_timeout(&mut self, patience: Duration) {
        self.until = Instant::now() + patience;
    }

    /// Sends a text.
    pub(super) fn send(&mut self, text: &str) -> Result<(), WebSocketError> {
        self.send_frame(TEXT, text.as_bytes())
    }

    fn send_frame(&mut self, kind: u8, payload: &[u8]) -> Result<(), WebSocketError> {
        let mask = sys::random::random_bytes::<4>()?;
        let mut frame = vec![0x80 | kind];
        match payload.len() {
            length @ 0..=125 => frame.push(0x80 | length as u8),
            length @ 126..=0xffff => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
            length => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.write_bytes(&frame)
    }

    /// The next text. Pings are answered.
    pub(super) fn receive(&mut self) -> Result<String, WebSocketError> {
        let mut message = Vec::new();
        loop {
            let (last, kind, payload) = self.read_frame(MAX_MESSAGE_BYTES - message.len())?;
            match kind {
                PING => self.send_frame(PONG, &payload)?,
                PONG => {}
                CLOSE => return Err(WebSocketError::Closed(parse_close(&payload))),
                0 | TEXT => {
                    message.extend(payload);
                    if last {
                        return String::from_utf8(message).map_err(|_| {
                            WebSocketError::Garbled("a text is not UTF-8".to_owned())
                        });
                    }
                }
                other => return Err(WebSocketError::Garbled(format!("a frame of kind {other}"))),
            }
        }
    }

    /// One frame: whether it is the last of its message, its kind, its content.
    fn read_frame(&mut self, most: usize) -> Result<(bool, u8, Vec<u8>), WebSocketError> {
        let head = self.take_bytes(2)?;
        let (first, second) = (head[0], head[1]);
        if second & 0x80 != 0 || first & 0x70 != 0 {
            return Err(WebSocketError::Garbled("a frame that no server sends".to_owned()));
        }
        let length = match second & 0x7f {
            126 => u64::from(u16::from_be_bytes(to_array(&self.take_bytes(2)?))),
            127 => u64::from_be_bytes(to_array(&self.take_bytes(8)?)),
            short => u64::from(short),
        };
        let length = usize::try_from(length).ok().filter(|length| *length <= most);
        let length =
            length.ok_or_else(|| WebSocketError::Garbled("a message is too long".to_owned()))?;
        Ok((first & 0x80 != 0, first & 0x0f, self.take_bytes(length)?))
    }

    fn take_bytes(&mut self, count: usize) -> Result<Vec<u8>, WebSocketError> {
        while self.rest.len() < count {
            self.fill_buffer()?;
        }
        Ok(self.rest.drain(..count).collect())
    }

    fn fill_buffer(&mut self) -> Result<(), WebSocketError> {
        let mut chunk = [0; 16 << 10];
        self.stream.set_read_timeout(Some(self.time_left()?))?;
        match self.stream.read(&mut chunk) {
            Ok(0) => Err(WebSocketError::Closed(None)),
            Ok(count) => {
                self.rest.extend(&chunk[..count]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), WebSocketError> {
        self.stream.set_write_timeout(Some(self.time_left()?))?;
        Ok(self.stream.write_all(bytes)?)
    }

    fn time_left(&self) -> Result<Duration, WebSocketError> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(WebSocketError::TimedOut) } else { Ok(left) }
    }
}

fn to_array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

fn check_answer(head: &[u8], accepted: &str) -> Result<(), WebSocketError> {
    let garbled = |what: String| Err(WebSocketError::Garbled(what));
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut answer = httparse::Response::new(&mut headers);
    if answer.parse(head).is_err() {
        return garbled("its answer is not HTTP".to_owned());
    }
    if answer.code != Some(101) {
        return garbled(format!("it answered with status {}", answer.code.unwrap_or(0)));
    }
    let accept = answer.headers.iter().find(|header| {
        header.name.eq_ignore_ascii_case("Sec-WebSocket-Accept")
            && header.value.trim_ascii() == accepted.as_bytes()
    });
    if accept.is_none() {
        return garbled("its answer is not to our question".to_owned());
    }
    Ok(())
}

fn parse_close(payload: &[u8]) -> Option<CloseFrame> {
    let (code, reason) = payload.split_first_chunk::<2>()?;
    let reason = String::from_utf8_lossy(reason).into_owned();
    Some(CloseFrame { code: u16::from_be_bytes(*code), reason })
}
