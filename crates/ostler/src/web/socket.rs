//! The WebSocket of a tab (`ostler.v1`): channels that are subscribed to, screen states that merge while one
//! is unseen, input with numbers so that none counts twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flows::live::LiveUpdate;
use futures_util::{SinkExt, StreamExt};
use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::upgrade::Upgraded;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use model::page::PageAct;
use serde::Deserialize;
use serde_json::{Value, json};
use sha1::{Digest, Sha1};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};

use super::WebState;
use super::server::check_right;
use super::sessions::SessionsChannel;
use super::sign_in::SignedTab;
use super::terminal_channel::TerminalChannel;
use crate::api::{ApiFailure, ApiReply, ApiRight, ReplyBody};
use crate::timeouts::{PAGE_PING_INTERVAL, PAGE_SEND_TIMEOUT, PAGE_SILENCE_TIMEOUT};

const PROTOCOL: &str = "ostler.v1";
const TICKET_PREFIX: &str = "ticket.";
/// How many things a tab may be subscribed to.
const MOST_CHANNELS: usize = 16;
/// How many requests wait for a terminal that is being joined.
const MOST_HELD: usize = 64;
/// The longest message of a page.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

const OTHER_VERSION: u16 = 4001;
const NOT_UNDERSTOOD: u16 = 4002;
const SIGNED_OUT: u16 = 4003;

/// What a page asks for.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(super) enum PageRequest {
    Hello {
        version: String,
    },
    Pong,
    Sub {
        ch: u32,
        #[serde(flatten)]
        what: Subscription,
    },
    Unsub {
        ch: u32,
    },
    Seen {
        ch: u32,
        #[serde(rename = "gen")]
        generation: u64,
    },
    Keys {
        ch: u32,
        n: u64,
        keys: Vec<String>,
    },
    Text {
        ch: u32,
        n: u64,
        text: String,
    },
    Paste {
        ch: u32,
        n: u64,
        text: String,
    },
    Take {
        ch: u32,
    },
    Release {
        ch: u32,
    },
    Fit {
        ch: u32,
        cols: u16,
        rows: u16,
    },
}

impl PageRequest {
    /// The channel of a terminal that it is about, other than joining and leaving it.
    const fn needs_terminal(&self) -> Option<u32> {
        match self {
            Self::Keys { ch, .. }
            | Self::Text { ch, .. }
            | Self::Paste { ch, .. }
            | Self::Take { ch }
            | Self::Release { ch }
            | Self::Fit { ch, .. } => Some(*ch),
            Self::Hello { .. }
            | Self::Pong
            | Self::Sub { .. }
            | Self::Unsub { .. }
            | Self::Seen { .. } => None,
        }
    }
}

/// What can be subscribed to.
#[derive(Debug, Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
pub(super) enum Subscription {
    Terminal {
        id: String,
    },
    Sessions {
        #[serde(default)]
        filter: String,
        /// How many rows.
        #[serde(default)]
        window: Option<usize>,
    },
}

/// Takes a connection over, if its ticket is good.
pub(super) fn accept_socket(
    state: &Arc<WebState>,
    mut request: Request<Incoming>,
) -> Result<ApiReply, ApiFailure> {
    let headers = request.headers();
    let wrong = |what: &str| {
        ApiFailure::new("INVALID_INPUT", what, "a WebSocket of version 13, protocol `ostler.v1`")
    };
    let says = |name, wanted: &str| {
        let parts = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        parts
            .flat_map(|value| value.split(','))
            .any(|part| part.trim().eq_ignore_ascii_case(wanted))
    };
    if !says(UPGRADE, "websocket") || !says(CONNECTION, "upgrade") {
        return Err(wrong("this is a WebSocket"));
    }
    if !says(SEC_WEBSOCKET_VERSION, "13") || !says(SEC_WEBSOCKET_PROTOCOL, PROTOCOL) {
        return Err(wrong("this WebSocket speaks another protocol"));
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).ok_or_else(|| wrong("its key is missing"))?;
    let accept = accept_key(key.as_bytes());
    let ticket = ticket_in(headers);
    let tab = state.sign_ins().redeem_ticket(ticket.as_deref(), Instant::now())?;
    check_right(&tab, ApiRight::Watch)?;
    let place = Arc::clone(&state.viewers)
        .try_acquire_owned()
        .map_err(|_| ApiFailure::new("TOO_MANY", "too many pages are open", "close one of them"))?;
    let upgrade = hyper::upgrade::on(&mut request);
    let state = Arc::clone(state);
    tokio::spawn(async move {
        match upgrade.await {
            Ok(upgraded) => serve_socket(upgraded, state, tab.name, place).await,
            Err(error) => tracing::debug!(%error, "a socket was not taken over"),
        }
    });
    let mut reply = Response::new(ReplyBody::Whole(None));
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = reply.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    Ok(reply)
}

/// The ticket among the protocols: the one place where a browser lets a page say something.
fn ticket_in(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let words = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    words.filter_map(|word| word.trim().strip_prefix(TICKET_PREFIX)).map(str::to_owned).next()
}

/// The answer to a client's key (RFC 6455, section 4.2.2).
fn accept_key(key: &[u8]) -> String {
    const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let mut hash = Sha1::new();
    hash.update(key);
    hash.update(MAGIC);
    STANDARD.encode(hash.finalize())
}

type PageStream = WebSocketStream<TokioIo<Upgraded>>;

/// Why a socket is closed.
enum SocketEnd {
    /// The page left, or does not read.
    Gone,
    Code(u16, &'static str),
}

/// What a socket has.
struct TabSocket {
    state: Arc<WebState>,
    tab: String,
    stream: PageStream,
    channels: HashMap<u32, SocketChannel>,
    wake: mpsc::Sender<u32>,
    joined: mpsc::Sender<JoinedTerminal>,
    /// Counts subscriptions to terminals: an answer to one that was given up means nothing.
    joins: u64,
    heard: Instant,
}

/// What came of joining a terminal.
struct JoinedTerminal {
    ch: u32,
    join: u64,
    result: Result<TerminalChannel, ApiFailure>,
}

async fn serve_socket(
    upgraded: Upgraded,
    state: Arc<WebState>,
    tab: String,
    place: OwnedSemaphorePermit,
) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    let upgraded = TokioIo::new(upgraded);
    let stream = WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await;
    let (wake, woken) = mpsc::channel(MOST_CHANNELS * 4);
    let (joined, joins) = mpsc::channel(MOST_CHANNELS);
    let mut socket = TabSocket {
        state,
        tab,
        stream,
        channels: HashMap::new(),
        wake,
        joined,
        joins: 0,
        heard: Instant::now(),
    };
    let end = socket.run(woken, joins).await;
    if let SocketEnd::Code(code, reason) = end {
        let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
        // A page that does not hear it sees the connection end.
        let _ = timeout(PAGE_SEND_TIMEOUT, socket.stream.close(Some(frame))).await;
    }
    for (_, channel) in socket.channels.drain() {
        channel.leave().await;
    }
    drop(place);
}

impl TabSocket {
    async fn run(
        &mut self,
        mut woken: mpsc::Receiver<u32>,
        mut joins: mpsc::Receiver<JoinedTerminal>,
    ) -> SocketEnd {
        let mut revised = self.state.revised.subscribe();
        let mut ping = interval(PAGE_PING_INTERVAL);
        ping.tick().await;
        loop {
            let done = tokio::select! {
                message = self.stream.next() => match message {
                    Some(Ok(message)) => self.take_message(message).await,
                    _ => Err(SocketEnd::Gone),
                },
                channel = woken.recv() => match channel {
                    Some(channel) => self.send_changes(channel).await,
                    None => Err(SocketEnd::Gone),
                },
                joined = joins.recv() => match joined {
                    Some(joined) => self.take_terminal(joined).await,
                    None => Err(SocketEnd::Gone),
                },
                _ = revised.changed() => self.check_signed_in().await,
                _ = ping.tick() => {
                    if self.heard.elapsed() > PAGE_SILENCE_TIMEOUT {
                        Err(SocketEnd::Gone)
                    } else if self.current_tab().is_none() {
                        Err(SocketEnd::Code(SIGNED_OUT, "signed out"))
                    } else {
                        self.send(&json!({ "ping": true })).await
                    }
                }
            };
            if let Err(end) = done {
                return end;
            }
        }
    }

    async fn check_signed_in(&mut self) -> Result<(), SocketEnd> {
        match self.current_tab() {
            Some(tab) => self.send(&json!({ "right": tab.right.as_str() })).await,
            None => Err(SocketEnd::Code(SIGNED_OUT, "signed out")),
        }
    }

    /// The tab as it is now; none once it is signed out, or its time is over.
    fn current_tab(&self) -> Option<SignedTab> {
        self.state.sign_ins().find_tab(&self.tab, sys::clock::now()).cloned()
    }

    async fn take_message(&mut self, message: Message) -> Result<(), SocketEnd> {
        self.heard = Instant::now();
        let text = match message {
            Message::Text(text) => text,
            Message::Binary(_) => return Err(SocketEnd::Code(NOT_UNDERSTOOD, "not text")),
            Message::Close(_) => return Err(SocketEnd::Gone),
            _ => return Ok(()),
        };
        let value: Value = serde_json::from_str(text.as_str())
            .map_err(|_| SocketEnd::Code(NOT_UNDERSTOOD, "not JSON"))?;
        let channel = value.get("ch").cloned();
        match serde_json::from_value::<PageRequest>(value) {
            Ok(request) => self.take_request(request).await,
            Err(error) => {
                let mut answer =
                    json!({ "error": { "code": "INVALID_INPUT", "message": error.to_string() } });
                if let Some(channel) = channel {
                    answer["ch"] = channel;
                }
                self.send(&answer).await
            }
        }
    }

    async fn take_request(&mut self, request: PageRequest) -> Result<(), SocketEnd> {
        if let Some(ch) = request.needs_terminal()
            && let Some(SocketChannel::Joining { held, .. }) = self.channels.get_mut(&ch)
            && held.len() < MOST_HELD
        {
            // It counts once the terminal is there.
            held.push(request);
            return Ok(());
        }
        let (channel, done) = match request {
            PageRequest::Hello { version } => {
                if version != self.state.assets.version {
                    return Err(SocketEnd::Code(OTHER_VERSION, "the page is of another version"));
                }
                return Ok(());
            }
            PageRequest::Pong => return Ok(()),
            PageRequest::Sub { ch, what } => (ch, self.subscribe(ch, what).await),
            PageRequest::Unsub { ch } => {
                if let Some(channel) = self.channels.remove(&ch) {
                    channel.leave().await;
                }
                return Ok(());
            }
            PageRequest::Seen { ch, generation } => {
                if let Some(SocketChannel::Terminal(channel)) = self.channels.get_mut(&ch) {
                    channel.note_seen(generation);
                }
                return self.send_changes(ch).await;
            }
            PageRequest::Keys { ch, n, keys } => {
                return self.answer_input(ch, n, Typed::Keys(keys)).await;
            }
            PageRequest::Text { ch, n, text } => {
                return self.answer_input(ch, n, Typed::Text(text)).await;
            }
            PageRequest::Paste { ch, n, text } => {
                return self.answer_input(ch, n, Typed::Paste(text)).await;
            }
            PageRequest::Take { ch } => (ch, self.take_keyboard(ch).await),
            PageRequest::Release { ch } => {
                if let Some(SocketChannel::Terminal(channel)) = self.channels.get_mut(&ch) {
                    channel.release_keyboard().await;
                }
                return self.send_changes(ch).await;
            }
            PageRequest::Fit { ch, cols, rows } => (ch, self.fit(ch, cols, rows).await),
        };
        match done {
            Ok(Some(answer)) => self.send(&answer).await,
            Ok(None) => self.send_changes(channel).await,
            Err(failure) => {
                self.send(&json!({ "ch": channel, "error": describe_failure(&failure) })).await
            }
        }
    }

    /// Every input is answered by its number: the page knows which may have been lost.
    async fn answer_input(&mut self, ch: u32, n: u64, typed: Typed) -> Result<(), SocketEnd> {
        let answer = match self.type_in(ch, n, typed).await {
            Ok(()) => json!({ "ch": ch, "typed": n }),
            Err(failure) => json!({ "ch": ch, "n": n, "error": describe_failure(&failure) }),
        };
        self.send(&answer).await
    }

    async fn subscribe(&mut self, ch: u32, what: Subscription) -> ChannelResult {
        if let Some(channel) = self.channels.remove(&ch) {
            channel.leave().await;
        }
        if self.channels.len() >= MOST_CHANNELS {
            return Err(ApiFailure::new("TOO_MANY", "too many channels", "unsubscribe from one"));
        }
        let channel = match what {
            Subscription::Terminal { id } => self.join_terminal(ch, id),
            Subscription::Sessions { filter, window } => {
                self.watch_sessions(ch, SessionsChannel::open(ch, &filter, window)?)?
            }
        };
        self.channels.insert(ch, channel);
        Ok(None)
    }

    /// Joins a terminal beside the socket: a host that does not answer holds up nothing else of the tab.
    fn join_terminal(&mut self, ch: u32, id: String) -> SocketChannel {
        self.joins += 1;
        let (join, joined) = (self.joins, self.joined.clone());
        let (hub, wake) = (Arc::clone(&self.state.terminals), self.wake.clone());
        let task = tokio::spawn(async move {
            let result = TerminalChannel::open(hub, id, ch, wake).await;
            // A socket that is gone wants no terminal.
            let _ = joined.send(JoinedTerminal { ch, join, result }).await;
        });
        SocketChannel::Joining { join, held: Vec::new(), task }
    }

    /// Puts a terminal that was joined in its place, with what the page asked of it meanwhile.
    async fn take_terminal(&mut self, joined: JoinedTerminal) -> Result<(), SocketEnd> {
        let JoinedTerminal { ch, join, result } = joined;
        let is_awaited = matches!(
            self.channels.get(&ch),
            Some(SocketChannel::Joining { join: awaited, .. }) if *awaited == join
        );
        if !is_awaited {
            if let Ok(channel) = result {
                channel.leave().await;
            }
            return Ok(());
        }
        let Some(SocketChannel::Joining { held, .. }) = self.channels.remove(&ch) else {
            return Ok(());
        };
        match result {
            Ok(channel) => {
                self.state.notes.note_watched(&self.audit_name(), channel.terminal_id());
                self.channels.insert(ch, SocketChannel::Terminal(Box::new(channel)));
                self.send_changes(ch).await?;
            }
            Err(failure) => {
                self.send(&json!({ "ch": ch, "error": describe_failure(&failure) })).await?;
            }
        }
        for request in held {
            self.take_request(request).await?;
        }
        Ok(())
    }

    fn watch_sessions(
        &self,
        ch: u32,
        channel: SessionsChannel,
    ) -> Result<SocketChannel, ApiFailure> {
        let mut updates =
            self.state.sessions.subscribe().map_err(|error| {
                ApiFailure::new("INTERNAL_ERROR", error.to_string(), "try again")
            })?;
        let (wake, latest) = (self.wake.clone(), updates.clone());
        let forward = tokio::spawn(async move {
            while updates.changed().await.is_ok() && wake.send(ch).await.is_ok() {}
        });
        Ok(SocketChannel::Sessions { channel: Box::new(channel), latest, forward })
    }

    /// The tab's name in events and logs.
    fn audit_name(&self) -> String {
        format!("web:{}", self.tab)
    }

    /// The channel of a terminal, for a tab that may type.
    fn typing_channel(&mut self, ch: u32) -> Result<&mut TerminalChannel, ApiFailure> {
        let tab = self.current_tab();
        let tab = tab.ok_or_else(|| ApiFailure::new("UNAUTHORIZED", "signed out", "sign in"))?;
        check_right(&tab, ApiRight::Type)?;
        match self.channels.get_mut(&ch) {
            Some(SocketChannel::Terminal(channel)) => Ok(channel),
            _ => Err(ApiFailure::new(
                "INVALID_INPUT",
                "the channel is not a terminal's",
                "subscribe to it first",
            )),
        }
    }

    async fn type_in(&mut self, ch: u32, n: u64, typed: Typed) -> Result<(), ApiFailure> {
        let channel = self.typing_channel(ch)?;
        if channel.type_in(n, typed).await? {
            let terminal = channel.terminal_id().to_owned();
            self.state.notes.note_terminal(&self.audit_name(), PageAct::Typed, &terminal);
        }
        Ok(())
    }

    async fn take_keyboard(&mut self, ch: u32) -> ChannelResult {
        let hub = Arc::clone(&self.state.terminals);
        let (tab, by) = (self.tab.clone(), self.audit_name());
        let channel = self.typing_channel(ch)?;
        channel.take_keyboard(hub, tab, by.clone()).await?;
        let terminal = channel.terminal_id().to_owned();
        self.state.notes.note_terminal(&by, PageAct::TookKeyboard, &terminal);
        Ok(None)
    }

    async fn fit(&mut self, ch: u32, cols: u16, rows: u16) -> ChannelResult {
        self.typing_channel(ch)?.fit(cols, rows).await?;
        Ok(None)
    }

    async fn send_changes(&mut self, ch: u32) -> Result<(), SocketEnd> {
        let frame = self.channels.get_mut(&ch).and_then(SocketChannel::next_frame);
        match frame {
            Some(frame) => self.send_text(frame).await,
            None => Ok(()),
        }
    }

    async fn send(&mut self, value: &Value) -> Result<(), SocketEnd> {
        self.send_text(value.to_string()).await
    }

    async fn send_text(&mut self, text: String) -> Result<(), SocketEnd> {
        match timeout(PAGE_SEND_TIMEOUT, self.stream.send(Message::text(text))).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(SocketEnd::Gone),
        }
    }
}

fn describe_failure(failure: &ApiFailure) -> Value {
    json!({ "code": failure.code, "message": failure.message, "hint": failure.hint })
}

/// Something that a tab is subscribed to.
enum SocketChannel {
    Terminal(Box<TerminalChannel>),
    /// A terminal whose host has not answered yet, and what is asked of it.
    Joining {
        join: u64,
        held: Vec<PageRequest>,
        task: JoinHandle<()>,
    },
    Sessions {
        channel: Box<SessionsChannel>,
        latest: watch::Receiver<Option<Arc<LiveUpdate>>>,
        forward: JoinHandle<()>,
    },
}

impl SocketChannel {
    fn next_frame(&mut self) -> Option<String> {
        match self {
            Self::Terminal(channel) => channel.next_frame(),
            Self::Joining { .. } => None,
            Self::Sessions { channel, latest, .. } => {
                let update = latest.borrow_and_update().clone()?;
                channel.next_frame(&update)
            }
        }
    }

    async fn leave(self) {
        match self {
            Self::Terminal(channel) => channel.leave().await,
            Self::Joining { task, .. } => task.abort(),
            Self::Sessions { forward, .. } => forward.abort(),
        }
    }
}

/// What a page typed.
pub(super) enum Typed {
    /// Keys by name.
    Keys(Vec<String>),
    Text(String),
    Paste(String),
}

/// An answer of its own, or what has changed.
pub(super) type ChannelResult = Result<Option<Value>, ApiFailure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handshake_is_that_of_the_standard() {
        assert_eq!(accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
