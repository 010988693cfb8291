//! Just enough HTTP/1.1 for agents on loopback: one request per connection, bodies with a
//! length or in chunks, answers as JSON or as server-sent events.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// Nothing an agent sends in the lab comes near this.
const MAX_BODY: usize = 32 * 1024 * 1024;
const MAX_HEADERS: usize = 200;

/// One request, its body not yet understood.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// Path without the query.
    pub(super) path: String,
    pub(super) agent: String,
    pub(super) body: Vec<u8>,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut text = String::new();
    reader.take(64 * 1024).read_line(&mut text)?;
    Ok(text.trim_end().to_owned())
}

impl Request {
    /// Reads one request. `None` means the peer closed the connection without asking anything.
    pub(super) fn read(stream: &mut TcpStream) -> io::Result<Option<Request>> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let first = line(&mut reader)?;
        if first.is_empty() {
            return Ok(None);
        }
        let mut words = first.split(' ');
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(invalid("request line"));
        };
        let path = target.split('?').next().unwrap_or(target);
        let mut request = Request {
            method: method.to_owned(),
            path: path.to_owned(),
            agent: String::new(),
            body: Vec::new(),
        };
        let (mut length, mut chunked, mut encoded) = (0, false, false);
        for count in 0.. {
            let header = line(&mut reader)?;
            if header.is_empty() {
                break;
            }
            if count > MAX_HEADERS {
                return Err(invalid("too many headers"));
            }
            let Some((name, value)) = header.split_once(':') else {
                continue;
            };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().map_err(|_| invalid("length"))?,
                "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
                "content-encoding" => encoded = !value.eq_ignore_ascii_case("identity"),
                "expect" => stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?,
                "user-agent" => value.clone_into(&mut request.agent),
                _ => {}
            }
        }
        if encoded {
            return Err(invalid("compressed request bodies are not supported"));
        }
        if chunked {
            request.body = read_chunks(&mut reader)?;
        } else {
            if length > MAX_BODY {
                return Err(invalid("body too large"));
            }
            request.body.resize(length, 0);
            reader.read_exact(&mut request.body)?;
        }
        Ok(Some(request))
    }

    /// The body as JSON; an empty or foreign body reads as an empty object.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| serde_json::json!({}))
    }
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(reader)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| invalid("chunk size"))?;
        if body.len() + size > MAX_BODY {
            return Err(invalid("body too large"));
        }
        if size == 0 {
            while !line(reader)?.is_empty() {}
            return Ok(body);
        }
        let start = body.len();
        body.resize(start + size, 0);
        reader.read_exact(&mut body[start..])?;
        line(reader)?;
    }
}

/// What goes back.
#[derive(Debug)]
pub(super) enum Response {
    Json(u16, Value),
    /// Server-sent events: an optional event name and the data of each.
    Events(Vec<(Option<String>, String)>),
}

impl Response {
    pub(super) fn write(&self, stream: &mut impl Write, with_body: bool) -> io::Result<()> {
        let (status, kind, body) = match self {
            Response::Json(status, value) => (*status, "application/json", value.to_string()),
            Response::Events(events) => (200, "text/event-stream", event_text(events)),
        };
        write!(
            stream,
            "HTTP/1.1 {status} Lab\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\
             cache-control: no-cache\r\nconnection: close\r\n\r\n",
            body.len()
        )?;
        if with_body {
            stream.write_all(body.as_bytes())?;
        }
        stream.flush()
    }
}

fn event_text(events: &[(Option<String>, String)]) -> String {
    let mut text = String::new();
    for (name, data) in events {
        if let Some(name) = name {
            text.push_str(&format!("event: {name}\n"));
        }
        text.push_str(&format!("data: {data}\n\n"));
    }
    text
}
