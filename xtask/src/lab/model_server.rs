//! A fake model on loopback that speaks enough of four vendors' wire formats for real agents to
//! finish a turn: Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini.
//!
//! Markers in the last user text steer it: `[[delay:SECONDS]]`, `[[say:TEXT]]`,
//! `[[tool:SHELL COMMAND]]`, `[[call:TOOL:JSON]]`, `[[error:STATUS]]`. Usage is always
//! [`USAGE_INPUT`] in and [`USAGE_OUTPUT`] out, so that token counts can be asserted. Every
//! request is logged; the log tells which requests belong to which prompt.

mod answer;
mod ask;
mod http;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use ask::Ask;
use http::{Request, Response};

pub(crate) const USAGE_INPUT: u64 = 1234;
pub(crate) const USAGE_OUTPUT: u64 = 56;
/// What helpers get that ask for a title.
pub(crate) const TITLE: &str = ask::DEFAULT_TEXT;
const MODEL: &str = "fake-model";

/// What is remembered of one request.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) agent: String,
    /// Empty for anything that is not a model request.
    pub(crate) wire: &'static str,
    pub(crate) model: String,
    pub(crate) stream: bool,
    /// Offers tools and wants no structured output: the agent's own turn, not a helper's.
    pub(crate) turn: bool,
    pub(crate) tools: Vec<String>,
    /// Everything the user side of the conversation said.
    pub(crate) user_text: String,
    /// Everything that tools answered, as it came.
    pub(crate) tool_text: String,
    /// The answer has been written in full.
    pub(crate) answered: bool,
}

impl Entry {
    pub(crate) fn to_json(&self) -> Value {
        json!({ "method": self.method, "path": self.path, "agent": self.agent, "wire": self.wire,
                "model": self.model, "stream": self.stream, "turn": self.turn,
                "tools": self.tools, "answered": self.answered,
                "userText": self.user_text })
    }
}

#[derive(Default)]
struct Shared {
    log: Mutex<Vec<Entry>>,
    stop: AtomicBool,
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running server; dropping it stops it.
pub(crate) struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl ModelServer {
    /// Listens on a free loopback port.
    pub(crate) fn start() -> io::Result<ModelServer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let server = ModelServer { address: listener.local_addr()?, shared: Arc::default() };
        let shared = Arc::clone(&server.shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.stop.load(Ordering::Relaxed) {
                    break;
                }
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(stream, &shared));
            }
        });
        Ok(server)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn log(&self) -> Vec<Entry> {
        self.shared.log().clone()
    }

    /// The model requests with tools whose conversation contains `tag`: the agent's turns and its
    /// sub-agents, but no title makers and routers.
    pub(crate) fn turns(&self, tag: &str) -> Vec<Entry> {
        let mut log = self.log();
        log.retain(|entry| entry.turn && entry.user_text.contains(tag));
        log
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // Wakes the accepting thread so that it sees the flag.
        drop(TcpStream::connect(self.address));
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) {
    // An agent that is killed in mid-request must not leave this thread reading for ever.
    let timeout = Some(Duration::from_secs(60));
    if stream.set_read_timeout(timeout).is_err() {
        return;
    }
    let request = match Request::read(&mut stream) {
        Ok(Some(request)) => request,
        Ok(None) => return,
        Err(error) => {
            let body = json!({ "error": { "message": format!("fake model: {error}") } });
            let _ = Response::Json(400, body).write(&mut stream, true);
            return;
        }
    };
    let ask = read_ask(&request);
    let index = note(shared, &request, ask.as_ref());
    let response = match &ask {
        Some(ask) => {
            let plan = ask.plan();
            wait(plan.delay, shared);
            answer::answer(ask, &plan.reply)
        }
        None => other(&request),
    };
    let written = response.write(&mut stream, request.method != "HEAD");
    if written.is_ok()
        && let Some(entry) = shared.log().get_mut(index)
    {
        entry.answered = true;
    }
}

/// Waits out a delay, but not beyond the end of the server.
fn wait(delay: Duration, shared: &Shared) {
    let end = Instant::now() + delay;
    while Instant::now() < end && !shared.stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(20).min(delay));
    }
}

fn read_ask(request: &Request) -> Option<Ask> {
    if request.method != "POST" {
        return None;
    }
    let path = request.path.as_str();
    if path.ends_with("/messages") {
        return Some(Ask::messages(&request.json()));
    }
    if path.ends_with("/responses") {
        return Some(Ask::responses(&request.json()));
    }
    if path.ends_with("/chat/completions") {
        return Some(Ask::chat(&request.json()));
    }
    let (model, verb) = path.rsplit_once('/')?.1.split_once(':')?;
    match verb {
        "generateContent" => Some(Ask::gemini(&request.json(), model, false)),
        "streamGenerateContent" => Some(Ask::gemini(&request.json(), model, true)),
        _ => None,
    }
}

/// Everything that is not a question to the model.
fn other(request: &Request) -> Response {
    let path = request.path.as_str();
    if path.ends_with("/count_tokens") {
        return Response::Json(200, json!({ "input_tokens": USAGE_INPUT }));
    }
    if path.ends_with(":countTokens") {
        return Response::Json(200, json!({ "totalTokens": USAGE_INPUT }));
    }
    if path.ends_with("/models") {
        let model = json!({ "id": MODEL, "object": "model", "created": 1, "owned_by": "lab" });
        let body = json!({ "object": "list", "data": [model], "models": [], "has_more": false });
        return Response::Json(200, body);
    }
    match request.method.as_str() {
        "GET" => {
            let message = format!("fake model: nothing at {path}");
            Response::Json(
                404,
                json!({ "error": { "type": "not_found_error", "message": message } }),
            )
        }
        _ => Response::Json(200, json!({})),
    }
}

fn note(shared: &Shared, request: &Request, ask: Option<&Ask>) -> usize {
    let mut entry = Entry {
        method: request.method.clone(),
        path: request.path.clone(),
        agent: request.agent.clone(),
        wire: "",
        model: String::new(),
        stream: false,
        turn: false,
        tools: Vec::new(),
        user_text: String::new(),
        tool_text: String::new(),
        answered: false,
    };
    if let Some(ask) = ask {
        entry.wire = ask.wire.name();
        entry.model.clone_from(&ask.model);
        entry.stream = ask.stream;
        entry.turn = ask.is_turn();
        entry.tools = ask.tools.keys().cloned().collect();
        entry.user_text.clone_from(&ask.user_text);
        entry.tool_text.clone_from(&ask.tool_text);
    }
    let mut log = shared.log();
    log.push(entry);
    log.len() - 1
}
