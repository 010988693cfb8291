//! Asking the gateway: one request over its WebSocket, without a runtime.
//!
//! The gateway greets with a challenge; the client answers who it is, shows the secret, and is told
//! what may be asked. On this machine the secret is enough; a device of its own is not needed.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::{Value, json};

use super::websocket::{WebSocket, WebSocketError};
use crate::config::{GatewayAuth, GatewayConfig};
use crate::timeouts::PORT_CONNECT_TIMEOUT;

/// The protocols that are spoken: 3 up to 2026.5, 4 since.
const PROTOCOLS: (u32, u32) = (3, 4);

/// Codes with which it has not begun. Any other may come from the middle of it.
const NOT_BEGUN_CODES: [&str; 4] = ["INVALID_REQUEST", "NOT_FOUND", "NOT_PAIRED", "NOT_LINKED"];

/// How a close says that the secret is not right.
const POLICY_VIOLATION: u16 = 1008;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum GatewayCallError {
    /// There is no listener. Nothing was sent.
    #[error("OpenClaw's gateway does not listen on {place}")]
    NotRunning {
        /// Where it should.
        place: String,
    },
    /// It is said to be elsewhere, and cannot be asked from here. Nothing was sent.
    #[error("OpenClaw's gateway is at {place}: {why}")]
    Elsewhere { place: String, why: String },
    /// There is a listener, but the question was not reached. Nothing was asked.
    #[error("OpenClaw's gateway on {place} could not be asked: {why}")]
    NotAsked { place: String, why: String },
    /// It did not let us in. Nothing was asked.
    #[error("OpenClaw's gateway on {place} did not let us in: {why}")]
    Rejected {
        place: String,
        /// In its words.
        why: String,
    },
    /// It answered that it has not done it.
    #[error("OpenClaw's gateway refused: {message} ({code})")]
    Refused { code: String, message: String },
    /// It was asked, and then something went wrong.
    #[error(
        "OpenClaw's gateway was asked and did not say that it is done ({0}): it may have been applied"
    )]
    MayHaveApplied(String),
}

/// Asks the gateway. `patience` is for letting us in, and again for the answer.
pub fn call_gateway(
    gateway: &GatewayConfig,
    method: &str,
    params: &Value,
    patience: Duration,
) -> Result<Value, GatewayCallError> {
    let address = gateway_address(gateway)?;
    let place = address.to_string();
    let not_asked = |error: WebSocketError| GatewayCallError::NotAsked {
        place: place.clone(),
        why: error.to_string(),
    };
    let stream = match TcpStream::connect_timeout(&address, patience) {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return Err(GatewayCallError::NotRunning { place });
        }
        Err(error) => return Err(not_asked(error.into())),
    };
    let mut socket = WebSocket::open(stream, &place, patience).map_err(not_asked)?;
    let hello = introduce_client(&mut socket, &gateway.auth).map_err(|error| match error {
        Unwelcome::Socket(WebSocketError::Closed(Some(close)))
            if close.code == POLICY_VIOLATION =>
        {
            let why = WebSocketError::Closed(Some(close)).to_string();
            GatewayCallError::Rejected { place: place.clone(), why }
        }
        Unwelcome::Socket(error) => not_asked(error),
        Unwelcome::Refused(why) => GatewayCallError::Rejected { place: place.clone(), why },
    })?;
    let offers = hello.pointer("/features/methods").and_then(Value::as_array);
    if offers.is_some_and(|offers| !offers.iter().any(|offer| offer == method)) {
        let why = format!("it does not offer `{method}`");
        return Err(GatewayCallError::NotAsked { place, why });
    }
    socket.restart_timeout(patience);
    sys::pause::pause_at("gateway-ask");
    let answer = send_call(&mut socket, method, params);
    tracing::info!(method, answered = answer.is_ok(), "OpenClaw's gateway was asked");
    answer
}

/// Only this machine, and only without TLS: secrets go nowhere else.
fn gateway_address(gateway: &GatewayConfig) -> Result<SocketAddr, GatewayCallError> {
    let elsewhere = |place: &str, why: &str| GatewayCallError::Elsewhere {
        place: place.to_owned(),
        why: why.to_owned(),
    };
    let Some(url) = &gateway.remote else {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, gateway.port));
        if gateway.tls && TcpStream::connect_timeout(&address, PORT_CONNECT_TIMEOUT).is_ok() {
            return Err(elsewhere(&address.to_string(), "it speaks TLS, which ostler does not"));
        }
        return Ok(address);
    };
    if url.is_empty() {
        return Err(elsewhere("another machine", "`gateway.remote.url` does not say which"));
    }
    let place = without_secrets(url);
    let authority = url
        .strip_prefix("ws://")
        .and_then(|rest| rest.split(['/', '?', '#']).next())
        .filter(|authority| !authority.contains('@'))
        .ok_or_else(|| elsewhere(&place, "ostler asks only `ws://` on this machine"))?;
    let resolved = authority.to_socket_addrs().ok().and_then(|mut all| all.next());
    match resolved {
        Some(address) if address.ip().is_loopback() => Ok(address),
        _ => Err(elsewhere(&place, "ostler asks only gateways on this machine")),
    }
}

/// A URL without what only its owner should know.
fn without_secrets(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or(url);
    match (plain.split_once("://"), plain.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => plain.to_owned(),
    }
}

/// Why we were not let in.
enum Unwelcome {
    Socket(WebSocketError),
    Refused(String),
}

impl From<WebSocketError> for Unwelcome {
    fn from(error: WebSocketError) -> Self {
        Self::Socket(error)
    }
}

/// Says who we are. The answer is what may be asked.
fn introduce_client(socket: &mut WebSocket, auth: &GatewayAuth) -> Result<Value, Unwelcome> {
    loop {
        let message = json_of(&socket.receive()?)?;
        if message.get("event").and_then(Value::as_str) == Some("connect.challenge") {
            break;
        }
    }
    let mut secrets = serde_json::Map::new();
    let known = [("token", &auth.token), ("password", &auth.password)];
    for (name, secret) in known {
        secrets.extend(secret.clone().map(|secret| (name.to_owned(), Value::from(secret))));
    }
    let mut params = json!({
        "minProtocol": PROTOCOLS.0,
        "maxProtocol": PROTOCOLS.1,
        "client": {
            "id": "gateway-client",
            "displayName": "ostler",
            "version": env!("CARGO_PKG_VERSION"),
            "platform": std::env::consts::OS,
            "mode": "backend",
        },
        "role": "operator",
        "scopes": ["operator.admin"],
    });
    if !secrets.is_empty() {
        params["auth"] = secrets.into();
    }
    send_request(socket, "connect", "connect", &params)?;
    let answer = answer_to(socket, "connect")?;
    match answer.get("ok") {
        Some(Value::Bool(true)) => Ok(answer.get("payload").cloned().unwrap_or_default()),
        _ => Err(Unwelcome::Refused(error_details(&answer).1)),
    }
}

/// The question itself. A failure here may have come after it was done.
fn send_call(
    socket: &mut WebSocket,
    method: &str,
    params: &Value,
) -> Result<Value, GatewayCallError> {
    let unknown = |error: WebSocketError| GatewayCallError::MayHaveApplied(error.to_string());
    send_request(socket, "ask", method, params).map_err(unknown)?;
    let answer = answer_to(socket, "ask").map_err(unknown)?;
    match answer.get("ok") {
        Some(Value::Bool(true)) => Ok(answer.get("payload").cloned().unwrap_or_default()),
        Some(Value::Bool(false)) => {
            let (code, message) = error_details(&answer);
            if NOT_BEGUN_CODES.contains(&&code[..]) {
                return Err(GatewayCallError::Refused { code, message });
            }
            Err(GatewayCallError::MayHaveApplied(format!("{code}: {message}")))
        }
        _ => Err(GatewayCallError::MayHaveApplied("its answer says neither yes nor no".to_owned())),
    }
}

fn send_request(
    socket: &mut WebSocket,
    id: &str,
    method: &str,
    params: &Value,
) -> Result<(), WebSocketError> {
    let frame = json!({ "type": "req", "id": id, "method": method, "params": params });
    socket.send(&frame.to_string())
}

/// Waits for the answer among events and answers to others.
fn answer_to(socket: &mut WebSocket, id: &str) -> Result<Value, WebSocketError> {
    loop {
        let message = json_of(&socket.receive()?)?;
        let text = |member: &str| message.get(member).and_then(Value::as_str);
        if text("type") == Some("res") && text("id") == Some(id) {
            return Ok(message);
        }
    }
}

fn json_of(text: &str) -> Result<Value, WebSocketError> {
    serde_json::from_slice(text.as_bytes())
        .map_err(|_| WebSocketError::Garbled("a message is not JSON".to_owned()))
}

/// The code and the words of an error.
fn error_details(answer: &Value) -> (String, String) {
    let text = |member: &str, otherwise: &str| {
        let found = answer.pointer(&format!("/error/{member}")).and_then(Value::as_str);
        found.unwrap_or(otherwise).to_owned()
    };
    (text("code", "UNKNOWN"), text("message", "it does not say why"))
}
