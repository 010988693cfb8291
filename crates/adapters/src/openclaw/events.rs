//! OpenClaw's events: one JSON object each, lines of a file or rows of a database. The shape is
//! that of Pi's session files: `session`, `model_change`, `message`, and many that do not matter.

use std::collections::HashSet;

use model::conversation::{ConversationEntry, ConversationRole};
use model::sighting::{TokenUsage, TranscriptDigest, TurnState, shorten_title};
use model::time::Time;
use model::usage::micro_usd;

use crate::blocks::text_of;
use crate::skim::{self, BrokenJson, JsonValue};

/// What has been read of a session so far.
pub(super) struct OpenClawReading {
    pub(super) digest: TranscriptDigest,
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
    message: Option<JsonValue<'a>>,
    cwd: Option<JsonValue<'a>>,
    model: Option<JsonValue<'a>>,
    name: Option<JsonValue<'a>>,
}

impl<'a> Event<'a> {
    fn parse_event(raw: &'a [u8]) -> Result<Self, BrokenJson> {
        let mut event = Self::default();
        for field in skim::parse_object(raw)? {
            let (key, value) = field?;
            match key {
                b"type" => event.kind = value.raw(),
                b"timestamp" => event.at = value.as_time(),
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

impl OpenClawReading {
    pub(super) fn new(name: Option<String>) -> Self {
        Self {
            digest: TranscriptDigest { name, ..TranscriptDigest::default() },
            chosen_model: None,
            counted: HashSet::new(),
            cost: None,
        }
    }

    pub(super) fn read_event(&mut self, raw: &[u8]) {
        if !raw.trim_ascii().is_empty() && self.try_event(raw).is_err() {
            self.digest.damage.broken += 1;
        }
    }

    fn try_event(&mut self, raw: &[u8]) -> Result<(), BrokenJson> {
        let event = Event::parse_event(raw)?;
        if let Some(at) = event.at {
            self.digest.widen_span(at);
        }
        match event.kind {
            br#""session""# => self.digest.cwd = event.cwd.and_then(JsonValue::to_owned_string),
            br#""model_change""# => {
                self.chosen_model = event.model.and_then(JsonValue::to_owned_string)
            }
            br#""session_info""# => {
                let name =
                    event.name.and_then(JsonValue::to_owned_string).filter(|name| !name.is_empty());
                self.digest.title = name.as_deref().map(shorten_title);
            }
            br#""message""# => self.read_message(event.message.ok_or(BrokenJson)?)?,
            _ => {}
        }
        Ok(())
    }

    fn read_message(&mut self, message: JsonValue<'_>) -> Result<(), BrokenJson> {
        let role = message.get("role").ok_or(BrokenJson)?;
        if role.is_string("user") {
            let text = message.get("content").map(text_of).unwrap_or_default();
            if is_injected(&text) {
                self.digest.turn = TurnState::Open;
            } else {
                self.digest.count_prompt(&text);
            }
        } else if role.is_string("assistant") {
            self.read_assistant(message);
        } else if role.is_string("toolResult") {
            self.digest.turn = TurnState::Open;
        }
        Ok(())
    }

    fn read_assistant(&mut self, message: JsonValue<'_>) {
        if is_mirror(message) {
            return;
        }
        if let Some(model) = message.get("model").and_then(JsonValue::as_str) {
            self.digest.note_model(&model);
        }
        let is_new =
            message.get("responseId").is_none_or(|id| self.counted.insert(id.raw().into()));
        if let Some(usage) = message.get("usage").filter(|_| is_new) {
            let count = |name| usage.get(name).and_then(JsonValue::as_u64).unwrap_or(0);
            self.digest.add_usage(TokenUsage {
                input: count("input"),
                output: count("output"),
                cache_read: count("cacheRead"),
                cache_write: count("cacheWrite"),
            });
            if let Some(dollars) = usage.value_at(&["cost", "total"]).and_then(JsonValue::as_f64) {
                self.cost = Some(self.cost.unwrap_or(0.0) + dollars);
            }
        }
        let stop = message.get("stopReason");
        let ended = ["stop", "length", "error", "aborted"]
            .iter()
            .any(|reason| stop.is_some_and(|stop| stop.is_string(reason)));
        self.digest.turn = if ended { TurnState::Closed } else { TurnState::Open };
    }

    pub(super) fn into_digest(mut self) -> TranscriptDigest {
        if let (None, Some(model)) = (&self.digest.model, &self.chosen_model) {
            self.digest.note_model(model);
        }
        self.digest.cost_micro_usd = self.cost.map(micro_usd);
        self.digest
    }
}

/// What the gateway itself sent to a channel is mirrored as if a model had said it.
fn is_mirror(message: JsonValue<'_>) -> bool {
    message.get("provider").is_some_and(|provider| provider.is_string("openclaw"))
}

/// Heartbeats and greetings are written as user messages but are no prompts.
fn is_injected(text: &str) -> bool {
    let text = text.trim_start();
    ["Read HEARTBEAT.md if it exists", "A new session was started via /new or /reset"]
        .iter()
        .any(|start| text.starts_with(start))
}

fn content_blocks(content: JsonValue<'_>) -> impl Iterator<Item = JsonValue<'_>> {
    content.as_array().into_iter().flatten().filter_map(Result::ok)
}

/// Tells what one event says.
pub(super) fn emit_event(raw: &[u8], say: &mut dyn FnMut(ConversationEntry)) {
    let Ok(event) = Event::parse_event(raw) else { return };
    if event.kind != br#""message""# {
        return;
    }
    let Some(message) = event.message else { return };
    let Some(content) = message.get("content") else {
        return;
    };
    let role = message.get("role").and_then(JsonValue::to_owned_string).unwrap_or_default();
    match role.as_str() {
        "user" => {
            let text = text_of(content);
            let role =
                if is_injected(&text) { ConversationRole::System } else { ConversationRole::User };
            say(ConversationEntry::new(event.at, role, text));
        }
        "toolResult" => {
            say(ConversationEntry::new(event.at, ConversationRole::Result, text_of(content)))
        }
        "assistant" => {
            let speaker = if is_mirror(message) {
                ConversationRole::System
            } else {
                ConversationRole::Assistant
            };
            if let Some(text) = content.to_owned_string() {
                say(ConversationEntry::new(event.at, speaker, text));
            }
            for block in content_blocks(content) {
                let text =
                    |name| block.get(name).and_then(JsonValue::to_owned_string).unwrap_or_default();
                match text("type").as_str() {
                    "text" => say(ConversationEntry::new(event.at, speaker, text("text"))),
                    "toolCall" => {
                        let input = block.get("arguments").map_or(&b""[..], JsonValue::raw);
                        let input = String::from_utf8_lossy(input);
                        say(ConversationEntry::tool_call(event.at, text("name"), input));
                    }
                    _ => {}
                }
            }
            if let Some(error) = message.get("errorMessage").and_then(JsonValue::to_owned_string) {
                say(ConversationEntry::new(event.at, ConversationRole::System, error));
            }
        }
        _ => {}
    }
}
