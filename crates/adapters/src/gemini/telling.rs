//! A Gemini CLI conversation, told in order.

use std::collections::HashSet;

use model::conversation::{Entry, Role};
use model::time::Time;

use super::{Message, responses};
use crate::Source;
use crate::files::ReadError;
use crate::skim::Value;

/// What has been told of a conversation so far: a message that is written again is told once.
#[derive(Default)]
pub(super) struct Telling {
    told: HashSet<Vec<u8>>,
}

impl Telling {
    /// Notes what was told before `until`. A line that was skipped throws the count off; then
    /// telling something twice is better than not at all.
    pub(super) fn remember_until(&mut self, source: &Source, until: u64) -> Result<(), ReadError> {
        let mut offset = 0;
        let end = source.lines(0, |line| {
            if offset < until {
                self.line(line, &mut |_| {});
            }
            offset += line.len() as u64 + 1;
        })?;
        if end.oversized > 0 {
            self.told.clear();
        }
        Ok(())
    }

    pub(super) fn line(&mut self, line: &[u8], say: &mut dyn FnMut(Entry)) {
        if let Ok(message) = Message::read(line)
            && message.id.is_some()
        {
            self.message(&message, say);
        }
    }

    pub(super) fn message(&mut self, message: &Message<'_>, say: &mut dyn FnMut(Entry)) {
        let at = message.timestamp.and_then(Value::time);
        let answers = message.content.into_iter().flat_map(responses);
        match message.kind {
            br#""gemini""# => self.text(message, at, Role::Assistant, say),
            br#""user""# if message.prompt().is_some() => self.text(message, at, Role::User, say),
            _ => self.text(message, at, Role::System, say),
        }
        for call in message.calls() {
            self.call(call, at, say);
        }
        for answer in answers {
            self.result(answer, at, say);
        }
    }

    fn text(
        &mut self,
        message: &Message<'_>,
        at: Option<Time>,
        role: Role,
        say: &mut dyn FnMut(Entry),
    ) {
        let text = message.text();
        if !text.trim().is_empty() && self.told.insert(message.id().to_vec()) {
            say(Entry::new(at, role, text));
        }
    }

    fn call(&mut self, call: Value<'_>, at: Option<Time>, say: &mut dyn FnMut(Entry)) {
        let at = call.get("timestamp").and_then(Value::time).or(at);
        if self.told.insert(key(b"call ", call)) {
            let name = call.get("name").and_then(Value::string).unwrap_or_default();
            let input = call.get("args").map_or(&b""[..], Value::raw);
            say(Entry::tool(at, name, String::from_utf8_lossy(input)));
        }
        for answer in call.get("result").into_iter().flat_map(responses) {
            self.result(answer, at, say);
        }
    }

    fn result(&mut self, answer: Value<'_>, at: Option<Time>, say: &mut dyn FnMut(Entry)) {
        if !self.told.insert(key(b"result ", answer)) {
            return;
        }
        let response = answer.get("response");
        let output = response.and_then(|response| response.get("output")).and_then(Value::string);
        let raw = || response.map(|value| String::from_utf8_lossy(value.raw()).into_owned());
        say(Entry::new(at, Role::Result, output.or_else(raw).unwrap_or_default()));
    }
}

/// What distinguishes a call or result: its id.
fn key(prefix: &[u8], value: Value<'_>) -> Vec<u8> {
    let id = value.get("id").unwrap_or(value);
    [prefix, id.raw()].concat()
}
