//! A Gemini CLI conversation, told in order.

use std::collections::HashSet;

use model::conversation::{ConversationEntry, ConversationRole};
use model::time::Time;

use super::{Message, tool_responses};
use crate::TranscriptSource;
use crate::files::ReadError;
use crate::skim::JsonValue;

/// What has been told of a conversation so far: a message that is written again is told once.
#[derive(Default)]
pub(super) struct GeminiConversation {
    told: HashSet<Vec<u8>>,
}

impl GeminiConversation {
    /// Notes what was told before `until`. A line that was skipped throws the count off; then
    /// telling something twice is better than not at all.
    pub(super) fn remember_until(
        &mut self,
        source: &TranscriptSource,
        until: u64,
    ) -> Result<(), ReadError> {
        let mut offset = 0;
        let end = source.each_line(0, |line| {
            if offset < until {
                self.tell_line(line, &mut |_| {});
            }
            offset += line.len() as u64 + 1;
        })?;
        if end.oversized > 0 {
            self.told.clear();
        }
        Ok(())
    }

    pub(super) fn tell_line(&mut self, line: &[u8], say: &mut dyn FnMut(ConversationEntry)) {
        if let Ok(message) = Message::parse_message(line)
            && message.id.is_some()
        {
            self.tell_message(&message, say);
        }
    }

    pub(super) fn tell_message(
        &mut self,
        message: &Message<'_>,
        say: &mut dyn FnMut(ConversationEntry),
    ) {
        let at = message.timestamp.and_then(JsonValue::as_time);
        let answers = message.content.into_iter().flat_map(tool_responses);
        match message.kind {
            br#""gemini""# => self.tell_text(message, at, ConversationRole::Assistant, say),
            br#""user""# if message.typed_prompt().is_some() => {
                self.tell_text(message, at, ConversationRole::User, say)
            }
            _ => self.tell_text(message, at, ConversationRole::System, say),
        }
        for call in message.tool_calls() {
            self.tell_call(call, at, say);
        }
        for answer in answers {
            self.tell_result(answer, at, say);
        }
    }

    fn tell_text(
        &mut self,
        message: &Message<'_>,
        at: Option<Time>,
        role: ConversationRole,
        say: &mut dyn FnMut(ConversationEntry),
    ) {
        let text = message.joined_text();
        if !text.trim().is_empty() && self.told.insert(message.id().to_vec()) {
            say(ConversationEntry::new(at, role, text));
        }
    }

    fn tell_call(
        &mut self,
        call: JsonValue<'_>,
        at: Option<Time>,
        say: &mut dyn FnMut(ConversationEntry),
    ) {
        let at = call.get("timestamp").and_then(JsonValue::as_time).or(at);
        if self.told.insert(distinct_key(b"call ", call)) {
            let name = call.get("name").and_then(JsonValue::to_owned_string).unwrap_or_default();
            let input = call.get("args").map_or(&b""[..], JsonValue::raw);
            say(ConversationEntry::tool_call(at, name, String::from_utf8_lossy(input)));
        }
        for answer in call.get("result").into_iter().flat_map(tool_responses) {
            self.tell_result(answer, at, say);
        }
    }

    fn tell_result(
        &mut self,
        answer: JsonValue<'_>,
        at: Option<Time>,
        say: &mut dyn FnMut(ConversationEntry),
    ) {
        if !self.told.insert(distinct_key(b"result ", answer)) {
            return;
        }
        let response = answer.get("response");
        let output = response
            .and_then(|response| response.get("output"))
            .and_then(JsonValue::to_owned_string);
        let raw = || response.map(|value| String::from_utf8_lossy(value.raw()).into_owned());
        say(ConversationEntry::new(
            at,
            ConversationRole::Result,
            output.or_else(raw).unwrap_or_default(),
        ));
    }
}

/// What distinguishes a call or result: its id.
fn distinct_key(prefix: &[u8], value: JsonValue<'_>) -> Vec<u8> {
    let id = value.get("id").unwrap_or(value);
    [prefix, id.raw()].concat()
}
