//! OpenClaw's events: one JSON object each, lines of a file or rows of a database. The shape is
//! that of Pi's session files: `session`, `model_change`, `message`, and many that do not matter.

use std::collections::HashSet;

use model::conversation::{Entry, Role};
use model::sighting::{Digest, Tokens, Turn, shorten};
use model::time::Time;

use crate::blocks::text_of;
use crate::skim::{self, Broken, Value};

/// What has been read of a session so far.
pub(super) struct Reading {
    pub(super) digest: Digest,
    /// The model that was asked for: all there is until one has answered.
    pub(super) chosen_model: Option<String>,
    /// Answers whose usage has been counted: a rewritten transcript repeats them.
    counted: HashSet<Box<[u8]>>,
    cost: Option<f64>,
}

/// The fields of an event that matter.
#[derive(Default)]
struct Event<'a> {
    kind: &'a [u8],
    at: Option<Time>,
    message: Option<Value<'a>>,
    cwd: Option<Value<'a>>,
    model: Option<Value<'a>>,
    name: Option<Value<'a>>,
}

impl<'a> Event<'a> {
    fn read(raw: &'a [u8]) -> Result<Self, Broken> {
        let mut event = Self::default();
        for field in skim::object(raw)? {
            let (key, value) = field?;
            match key {
                b"type" => event.kind = value.raw(),
                b"timestamp" => event.at = value.time(),
                b"message" => event.message = Some(value),
                b"cwd" => event.cwd = Some(value),
                b"modelId" => event.model = Some(value),
                b"name" => event.name = Some(value),
                _ => {}
            }
        }
        Ok(event)
    }
}

impl Reading {
    pub(super) fn new(name: Option<String>) -> Self {
        Self {
            digest: Digest { name, ..Digest::default() },
            chosen_model: None,
            counted: HashSet::new(),
            cost: None,
        }
    }

    pub(super) fn event(&mut self, raw: &[u8]) {
        if !raw.trim_ascii().is_empty() && self.try_event(raw).is_err() {
            self.digest.damage.broken += 1;
        }
    }

    fn try_event(&mut self, raw: &[u8]) -> Result<(), Broken> {
        let event = Event::read(raw)?;
        if let Some(at) = event.at {
            self.digest.saw(at);
        }
        match event.kind {
            br#""session""# => self.digest.cwd = event.cwd.and_then(Value::string),
            br#""model_change""# => self.chosen_model = event.model.and_then(Value::string),
            br#""session_info""# => {
                let name = event.name.and_then(Value::string).filter(|name| !name.is_empty());
                self.digest.title = name.as_deref().map(shorten);
            }
            br#""message""# => self.message(event.message.ok_or(Broken)?)?,
            _ => {}
        }
        Ok(())
    }

    fn message(&mut self, message: Value<'_>) -> Result<(), Broken> {
        let role = message.get("role").ok_or(Broken)?;
        if role.is("user") {
            let text = message.get("content").map(text_of).unwrap_or_default();
            if is_injected(&text) {
                self.digest.turn = Turn::Open;
            } else {
                self.digest.prompted(&text);
            }
        } else if role.is("assistant") {
            self.assistant(message);
        } else if role.is("toolResult") {
            self.digest.turn = Turn::Open;
        }
        Ok(())
    }

    fn assistant(&mut self, message: Value<'_>) {
        if is_mirror(message) {
            return;
        }
        if let Some(model) = message.get("model").and_then(Value::str) {
            self.digest.answered_by(&model);
        }
        let is_new =
            message.get("responseId").is_none_or(|id| self.counted.insert(id.raw().into()));
        if let Some(usage) = message.get("usage").filter(|_| is_new) {
            let count = |name| usage.get(name).and_then(Value::u64).unwrap_or(0);
            self.digest.spend(Tokens {
                input: count("input"),
                output: count("output"),
                cache_read: count("cacheRead"),
                cache_write: count("cacheWrite"),
            });
            if let Some(dollars) = usage.at(&["cost", "total"]).and_then(Value::f64) {
                self.cost = Some(self.cost.unwrap_or(0.0) + dollars);
            }
        }
        let stop = message.get("stopReason");
        let ended = ["stop", "length", "error", "aborted"]
            .iter()
            .any(|reason| stop.is_some_and(|stop| stop.is(reason)));
        self.digest.turn = if ended { Turn::Closed } else { Turn::Open };
    }

    pub(super) fn finish(mut self) -> Digest {
        if let (None, Some(model)) = (&self.digest.model, &self.chosen_model) {
            self.digest.answered_by(model);
        }
        self.digest.cost_micro_usd = self.cost.map(|dollars| (dollars * 1e6).round() as u64);
        self.digest
    }
}

/// What the gateway itself sent to a channel is mirrored as if a model had said it.
fn is_mirror(message: Value<'_>) -> bool {
    message.get("provider").is_some_and(|provider| provider.is("openclaw"))
}

/// Heartbeats and greetings are written as user messages but nobody asked them.
fn is_injected(text: &str) -> bool {
    let text = text.trim_start();
    ["Read HEARTBEAT.md if it exists", "A new session was started via /new or /reset"]
        .iter()
        .any(|start| text.starts_with(start))
}

fn blocks(content: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    content.array().into_iter().flatten().filter_map(Result::ok)
}

/// Tells what one event says.
pub(super) fn converse(raw: &[u8], say: &mut dyn FnMut(Entry)) {
    let Ok(event) = Event::read(raw) else { return };
    if event.kind != br#""message""# {
        return;
    }
    let Some(message) = event.message else { return };
    let Some(content) = message.get("content") else {
        return;
    };
    let role = message.get("role").and_then(Value::string).unwrap_or_default();
    match role.as_str() {
        "user" => {
            let text = text_of(content);
            let role = if is_injected(&text) { Role::System } else { Role::User };
            say(Entry::new(event.at, role, text));
        }
        "toolResult" => say(Entry::new(event.at, Role::Result, text_of(content))),
        "assistant" => {
            let speaker = if is_mirror(message) { Role::System } else { Role::Assistant };
            if let Some(text) = content.string() {
                say(Entry::new(event.at, speaker, text));
            }
            for block in blocks(content) {
                let text = |name| block.get(name).and_then(Value::string).unwrap_or_default();
                match text("type").as_str() {
                    "text" => say(Entry::new(event.at, speaker, text("text"))),
                    "toolCall" => {
                        let input = block.get("arguments").map_or(&b""[..], Value::raw);
                        let input = String::from_utf8_lossy(input);
                        say(Entry::tool(event.at, text("name"), input));
                    }
                    _ => {}
                }
            }
            if let Some(error) = message.get("errorMessage").and_then(Value::string) {
                say(Entry::new(event.at, Role::System, error));
            }
        }
        _ => {}
    }
}
