//! Tells a conversation of OpenCode's parts, so that a follower misses and repeats nothing.
//!
//! A position counts two steps for each part: its text or call, and the call's result. Parts are
//! rewritten until they are complete, so a follower's position stays before the first step that
//! may still change. Who reads from the start gets that step too: it may be all there ever is.

use model::conversation::{ConversationEntry, ConversationRole};

use super::{Message, is_synthetic};
use crate::skim::JsonValue;

/// The conversation being told, part by part.
pub(super) struct OpenCodeConversation<'a> {
    from: u64,
    step: u64,
    /// The first step that may still change: where a follower goes on.
    held: Option<u64>,
    say: &'a mut dyn FnMut(ConversationEntry),
}

impl<'a> OpenCodeConversation<'a> {
    pub(super) fn new(from: u64, say: &'a mut dyn FnMut(ConversationEntry)) -> Self {
        Self { from, step: 0, held: None, say }
    }

    /// Leaves out the parts before `position` without looking at them.
    pub(super) fn skip_to(&mut self, position: u64) {
        self.step = position & !1;
    }

    /// How many parts are behind.
    pub(super) fn parts_told(&self) -> u64 {
        self.step / 2
    }

    /// Where a follower goes on.
    pub(super) fn position(&self) -> u64 {
        self.held.unwrap_or(self.step)
    }

    /// Tells the next part; a message without any counts as one.
    pub(super) fn tell_part(
        &mut self,
        message: &Message<'_>,
        part: Option<&[u8]>,
        is_last_message: bool,
    ) {
        let settled = message.is_settled() || !is_last_message;
        let role = message.role.unwrap_or(ConversationRole::System);
        let at = message.created;
        let part = JsonValue::new(part.unwrap_or(b"{}"));
        let text = |name| part.get(name).and_then(JsonValue::to_owned_string).unwrap_or_default();
        match text("type").as_str() {
            "text" => {
                let whole = settled || part.value_at(&["time", "end"]).is_some();
                let role = if is_synthetic(part) { ConversationRole::System } else { role };
                let at = part.value_at(&["time", "start"]).and_then(JsonValue::as_time).or(at);
                self.emit_entry(whole, Some(ConversationEntry::new(at, role, text("text"))));
                self.emit_entry(whole, None);
            }
            "tool" => {
                let state = |path: &str| part.value_at(&["state", path]);
                let status =
                    state("status").and_then(JsonValue::to_owned_string).unwrap_or_default();
                let started =
                    part.value_at(&["state", "time", "start"]).and_then(JsonValue::as_time).or(at);
                let ended = part
                    .value_at(&["state", "time", "end"])
                    .and_then(JsonValue::as_time)
                    .or(started);
                let input = state("input").map_or(&b""[..], JsonValue::raw);
                let call = ConversationEntry::tool_call(
                    started,
                    text("tool"),
                    String::from_utf8_lossy(input),
                );
                self.emit_entry(settled || status != "pending", Some(call));
                let result =
                    state("output").or(state("error")).and_then(JsonValue::to_owned_string);
                let done = settled || status == "completed" || status == "error";
                self.emit_entry(
                    done,
                    result
                        .map(|text| ConversationEntry::new(ended, ConversationRole::Result, text)),
                );
            }
            "file" => {
                let name = format!("[file {}]", text("filename"));
                self.emit_entry(true, Some(ConversationEntry::new(at, role, name)));
                self.emit_entry(true, None);
            }
            // The parts of a message follow a moment after it.
            "" => {
                let whole = !is_last_message || (settled && role == ConversationRole::Assistant);
                let error = message.error.and_then(JsonValue::to_owned_string);
                self.emit_entry(
                    whole,
                    error.map(|text| ConversationEntry::new(at, ConversationRole::System, text)),
                );
                self.emit_entry(whole, None);
            }
            _ => {
                self.emit_entry(true, None);
                self.emit_entry(true, None);
            }
        }
    }

    fn emit_entry(&mut self, whole: bool, entry: Option<ConversationEntry>) {
        if !whole && self.held.is_none() {
            self.held = Some(self.step);
        }
        if self.step >= self.from
            && (self.from == 0 || self.held.is_none())
            && let Some(entry) = entry
        {
            (self.say)(entry);
        }
        self.step += 1;
    }
}
