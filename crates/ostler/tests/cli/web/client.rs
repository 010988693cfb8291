//! A server under test, and clients that say exactly what they are told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::home::TempHome;

use crate::cli::run::{ostler, run};

/// `ostler web` on a port of its own.
pub(crate) struct WebUnderTest {
    child: Child,
    pub(crate) port: u16,
    pub(crate) link: String,
}

impl Drop for WebUnderTest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl HttpAnswer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {:?}", self.head, self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

impl WebUnderTest {
    pub(crate) fn start(home: &TempHome, options: &str) -> Self {
        let mut command = ostler(home);
        command.args(["web", "--port", "0", "--json"]).args(options.split_whitespace());
        Self::spawn(command)
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut text = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let started: Value = loop {
            assert!(lines.read_line(&mut text).unwrap() > 0, "it ended: {text}");
            if let Ok(value) = serde_json::from_str(&text) {
                break value;
            }
        };
        let result = &started["result"];
        let port = u16::try_from(result["port"].as_u64().unwrap()).unwrap();
        let link = result["link"].as_str().unwrap().to_owned();
        Self { child, port, link }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn key(&self) -> &str {
        self.link.split_once("#k=").unwrap().1
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.host()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends exactly these lines, and reads to the end.
    pub(crate) fn say(&self, head: &str, body: &[u8]) -> HttpAnswer {
        let mut stream = self.connect();
        let head = head.replace('\n', "\r\n");
        stream.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
        // A server that has refused already may have closed.
        let _ = stream.write_all(body);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let end = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(all.len());
        let head = String::from_utf8_lossy(&all[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let body = all.get(end + 4..).unwrap_or_default().to_vec();
        let body = if head.to_lowercase().contains("transfer-encoding: chunked") {
            join_chunks(&body)
        } else {
            body
        };
        HttpAnswer { status, head, body }
    }

    /// A call as the page makes it.
    pub(crate) fn call(&self, method: &str, path: &str, token: &str, body: &Value) -> HttpAnswer {
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
        let host = self.host();
        let head = format!(
            "{method} {path} HTTP/1.1\nHost: {host}\nOrigin: http://{host}\n\
             Sec-Fetch-Site: same-origin\nAuthorization: Bearer {token}\nConnection: close\n\
             Content-Length: {}",
            body.len()
        );
        self.say(&head, &body)
    }

    pub(crate) fn get(&self, path: &str, token: &str) -> HttpAnswer {
        self.call("GET", path, token, &Value::Null)
    }

    /// Signs a tab in with the key of the link.
    #[track_caller]
    pub(crate) fn sign_in(&self) -> String {
        let answer = self.call("POST", "/v1/tab", "", &json!({ "key": self.key() }));
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["result"]["token"].as_str().unwrap().to_owned()
    }

    /// Gives a tab a right as a person does: the code from the page, the command in a terminal.
    #[track_caller]
    pub(crate) fn allow(&self, home: &TempHome, token: &str, right: &str) {
        let asked = self.call("POST", "/v1/tab/ask", token, &json!({ "right": right }));
        let code = asked.json()["result"]["code"].as_str().unwrap().to_owned();
        run(home, &format!("web allow {code}")).exits(0);
    }

    /// Opens the socket of a tab.
    pub(crate) fn open_socket(&self, token: &str) -> PageSocket {
        let ticket = self.call("POST", "/v1/tickets", token, &Value::Null);
        let ticket = ticket.json()["result"]["ticket"].as_str().unwrap().to_owned();
        let (status, socket) = self.try_socket(&ticket);
        assert_eq!(status, 101);
        socket
    }

    /// Tries a ticket.
    pub(crate) fn try_socket(&self, ticket: &str) -> (u16, PageSocket) {
        let mut stream = self.connect();
        let host = self.host();
        write!(
            stream,
            "GET /v1/stream HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: ostler.v1, ticket.{ticket}\r\n\r\n"
        )
        .unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        (status, PageSocket { stream })
    }
}

fn join_chunks(mut rest: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(&String::from_utf8_lossy(&rest[..end]), 16).unwrap();
        if length == 0 {
            break;
        }
        all.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 4 + length..];
    }
    all
}

/// The page's end of a WebSocket, frame by frame (RFC 6455).
#[derive(Debug)]
pub(crate) struct PageSocket {
    pub(crate) stream: TcpStream,
}

/// What a server sends.
#[derive(Debug, PartialEq)]
pub(crate) enum Heard {
    Json(Value),
    Closed(u16),
    Gone,
}

impl PageSocket {
    pub(crate) fn send(&mut self, value: &Value) {
        self.send_frame(1, value.to_string().as_bytes());
    }

    pub(crate) fn send_frame(&mut self, kind: u8, payload: &[u8]) {
        let mut frame = vec![0x80 | kind];
        match payload.len() {
            length @ 0..126 => frame.push(0x80 | length as u8),
            length @ 126..65536 => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
            length => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        // A mask of nothing leaves the payload as it is.
        frame.extend([0; 4]);
        frame.extend_from_slice(payload);
        let _ = self.stream.write_all(&frame);
    }

    pub(crate) fn hear(&mut self) -> Heard {
        loop {
            let mut head = [0; 2];
            if self.stream.read_exact(&mut head).is_err() {
                return Heard::Gone;
            }
            let length = match head[1] & 0x7f {
                126 => u64::from(u16::from_be_bytes(self.read_bytes())),
                127 => u64::from_be_bytes(self.read_bytes()),
                length => u64::from(length),
            };
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            if self.stream.read_exact(&mut payload).is_err() {
                return Heard::Gone;
            }
            match head[0] & 0x0f {
                1 => return Heard::Json(serde_json::from_slice(&payload).unwrap()),
                8 => {
                    let code = payload.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code));
                    return Heard::Closed(code);
                }
                _ => {}
            }
        }
    }

    fn read_bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Hears until something fits.
    #[track_caller]
    pub(crate) fn hear_until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            match self.hear() {
                Heard::Json(value) if fits(&value) => return value,
                Heard::Json(_) => {}
                other => panic!("{other:?} while waiting for {what}"),
            }
        }
    }
}
