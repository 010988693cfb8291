//! A gateway of OpenClaw's that does what a test wants, right or wrong.
#![expect(clippy::unwrap_used, reason = "a gateway that cannot listen is a broken test")]

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha1::{Digest, Sha1};

const TEXT: u8 = 1;
const CLOSE: u8 = 8;

/// The token that lets a client in.
pub const TOKEN: &str = "open-sesame";

/// What the gateway does.
#[derive(Clone, Debug)]
pub enum Manner {
    /// Takes the connection and never says a word.
    Silent,
    /// Is another program: answers every request with this status.
    Http(u16),
    /// Closes with this code and reason instead of greeting.
    Closes(u16, &'static str),
    /// Lets in, and offers none of the methods.
    OffersNothing,
    /// Answers with this error.
    Fails(&'static str, &'static str),
    /// Takes the question and never answers.
    Hangs,
    /// Takes the question and breaks the connection.
    Drops,
    /// Takes the question and answers with something that is no answer.
    Babbles,
    /// Answers with this.
    Answers(Value),
    /// Owns this index: deletes entries from it as 2026.7 does, which applies its policy with every write
    /// unless that only warns. What is older than 30 days goes then, but for groups, channels and threads.
    Owns {
        index: PathBuf,
        /// Whether writes apply the policy.
        enforces: bool,
    },
}

/// A gateway that listens as long as the value lives.
#[derive(Debug)]
pub struct FakeGateway {
    /// Where it listens, on the loopback address.
    pub port: u16,
    asked: Arc<Mutex<Vec<Value>>>,
    connections: Arc<AtomicUsize>,
}

impl FakeGateway {
    /// Begins to listen.
    pub fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let (heard, counted) = (Arc::clone(&asked), Arc::clone(&connections));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                let (manner, heard) = (manner.clone(), Arc::clone(&heard));
                // A client that goes away ends its conversation and nothing else.
                std::thread::spawn(move || drop(converse(stream, &manner, &heard)));
            }
        });
        Self { port, asked, connections }
    }

    /// How many have come.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The requests that were heard, `connect` included.
    pub fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }

    /// The methods that were asked for, `connect` included.
    pub fn methods(&self) -> Vec<String> {
        let method = |request: Value| request["method"].as_str().unwrap().to_owned();
        self.asked().into_iter().map(method).collect()
    }
}

/// A port without a listener, and which the system does not hand out by chance.
pub fn closed_port() -> u16 {
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    (first..32_000).find(free).unwrap()
}

fn converse(mut stream: TcpStream, manner: &Manner, heard: &Mutex<Vec<Value>>) -> io::Result<()> {
    let head = read_head(&mut stream)?;
    match manner {
        Manner::Silent => {
            let _ = stream.read(&mut [0; 1])?;
            return Ok(());
        }
        Manner::Http(status) => {
            let answer = format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n");
            return stream.write_all(answer.as_bytes());
        }
        _ => {}
    }
    let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
    let accept = format!("{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key.trim());
    let accept = STANDARD.encode(Sha1::digest(accept));
    write!(
        stream,
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    )?;
    if let Manner::Closes(code, reason) = manner {
        return send_close(&mut stream, *code, reason);
    }
    let challenge = json!({ "nonce": "n", "ts": 1 });
    let challenge = json!({ "type": "event", "event": "connect.challenge", "payload": challenge });
    // In two parts, and with a ping between: both are allowed, and neither is usual.
    let text = challenge.to_string();
    let (one, two) = text.as_bytes().split_at(9);
    send(&mut stream, TEXT, one, false)?;
    send(&mut stream, 9, b"there?", true)?;
    send(&mut stream, 0, two, true)?;
    let connect = next_request(&mut stream, heard)?;
    let shown = connect.pointer("/params/auth/token").and_then(Value::as_str);
    if shown != Some(TOKEN) {
        let message = "unauthorized: gateway token mismatch";
        let error = json!({ "code": "INVALID_REQUEST", "message": message });
        reply(&mut stream, &connect, json!({ "ok": false, "error": error }))?;
        return send_close(&mut stream, 1008, message);
    }
    let methods: &[&str] = match manner {
        Manner::OffersNothing => &["sessions.list"],
        _ => &["sessions.list", "sessions.cleanup", "sessions.delete", "agents.delete"],
    };
    let features = json!({ "methods": methods, "events": [] });
    let hello = json!({ "type": "hello-ok", "protocol": 4, "features": features });
    reply(&mut stream, &connect, json!({ "ok": true, "payload": hello }))?;
    let request = next_request(&mut stream, heard)?;
    // Something irrelevant comes first.
    let event = json!({ "type": "event", "event": "tick", "payload": {} });
    send(&mut stream, TEXT, event.to_string().as_bytes(), true)?;
    match manner {
        Manner::Fails(code, message) => {
            let error = json!({ "code": code, "message": message });
            reply(&mut stream, &request, json!({ "ok": false, "error": error }))
        }
        Manner::Hangs => {
            let _ = stream.read(&mut [0; 1])?;
            Ok(())
        }
        Manner::Babbles => send(&mut stream, TEXT, b"{not json", true),
        Manner::Answers(answer) => {
            reply(&mut stream, &request, json!({ "ok": true, "payload": answer }))
        }
        Manner::Owns { index, enforces } => {
            let answer = match change_index(index, *enforces, &request) {
                Ok(payload) => json!({ "ok": true, "payload": payload }),
                Err(message) => {
                    let error = json!({ "code": "INVALID_REQUEST", "message": message });
                    json!({ "ok": false, "error": error })
                }
            };
            reply(&mut stream, &request, answer)
        }
        _ => Ok(()),
    }
}

/// What a gateway does to its index when it is asked.
fn change_index(index: &Path, enforces: bool, request: &Value) -> Result<Value, String> {
    let text = std::fs::read_to_string(index).unwrap();
    let mut entries: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
    let params = &request["params"];
    let key = params["key"].as_str().unwrap();
    if key == "agent:main:main" {
        return Err(format!("Cannot delete the main session ({key})."));
    }
    let entry = entries.get(key).cloned().unwrap_or_default();
    let matches = |expected: &str, own: &str| {
        params.get(expected).is_none_or(|expected| *expected == entry[own])
    };
    if !matches("expectedSessionId", "sessionId")
        || !matches("expectedSessionUpdatedAt", "updatedAt")
    {
        return Err(format!("Session {key} changed before deletion. Retry."));
    }
    let deleted = entries.remove(key).is_some();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let oldest = i64::try_from(now.as_millis()).unwrap() - 30 * 86_400_000;
    let is_place =
        |key: &str| [":group:", ":channel:", ":thread:"].iter().any(|it| key.contains(it));
    entries.retain(|key, entry| {
        !enforces || is_place(key) || entry["updatedAt"].as_i64().is_none_or(|at| at >= oldest)
    });
    std::fs::write(index, Value::Object(entries).to_string()).unwrap();
    Ok(json!({ "ok": true, "key": key, "deleted": deleted, "archived": [] }))
}

fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn send(stream: &mut TcpStream, kind: u8, payload: &[u8], last: bool) -> io::Result<()> {
    let mut frame = vec![if last { 0x80 | kind } else { kind }];
    match u8::try_from(payload.len()).ok().filter(|length| *length < 126) {
        Some(length) => frame.push(length),
        None => {
            frame.push(126);
            frame.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
        }
    }
    frame.extend(payload);
    stream.write_all(&frame)
}

fn send_close(stream: &mut TcpStream, code: u16, reason: &str) -> io::Result<()> {
    send(stream, CLOSE, &[&code.to_be_bytes(), reason.as_bytes()].concat(), true)
}

fn reply(stream: &mut TcpStream, request: &Value, mut answer: Value) -> io::Result<()> {
    answer["type"] = "res".into();
    answer["id"] = request["id"].clone();
    send(stream, TEXT, answer.to_string().as_bytes(), true)
}

/// The next text of the client, whose frames are masked.
fn next_request(stream: &mut TcpStream, heard: &Mutex<Vec<Value>>) -> io::Result<Value> {
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head)?;
        assert!(head[1] & 0x80 != 0, "a client masks what it sends");
        let length = match head[1] & 0x7f {
            126 => {
                let mut length = [0; 2];
                stream.read_exact(&mut length)?;
                usize::from(u16::from_be_bytes(length))
            }
            length => usize::from(length),
        };
        let mut mask = [0; 4];
        stream.read_exact(&mut mask)?;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload)?;
        payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        if head[0] & 0x0f == TEXT {
            let request: Value = serde_json::from_slice(&payload).unwrap();
            heard.lock().unwrap().push(request.clone());
            return Ok(request);
        }
    }
}
