//! Tells a conversation of OpenCode's parts, so that a follower misses and repeats nothing.
//!
//! A position counts two steps for each part: its text or call, and the call's result. Parts are
//! rewritten until they are complete, so a follower's position stays before the first step that
//! may still change. Who reads from the start gets that step too: it may be all there ever is.

use model::conversation::{Entry, Role};

use super::{Message, is_synthetic};
use crate::skim::Value;

/// The conversation being told, part by part.
pub(super) struct Telling<'a> {
    from: u64,
    step: u64,
    /// The first step that may still change: where a follower goes on.
    held: Option<u64>,
    say: &'a mut dyn FnMut(Entry),
}

impl<'a> Telling<'a> {
    pub(super) fn new(from: u64, say: &'a mut dyn FnMut(Entry)) -> Self {
        Self { from, step: 0, held: None, say }
    }

    /// Leaves out the parts before `position` without looking at them.
    pub(super) fn skip_to(&mut self, position: u64) {
        self.step = position & !1;
    }

    /// How many parts are behind.
    pub(super) fn parts(&self) -> u64 {
        self.step / 2
    }

    /// Where a follower goes on.
    pub(super) fn position(&self) -> u64 {
        self.held.unwrap_or(self.step)
    }

    /// Tells the next part; a message without any counts as one.
    pub(super) fn part(
        &mut self,
        message: &Message<'_>,
        part: Option<&[u8]>,
        is_last_message: bool,
    ) {
        let settled = message.is_settled() || !is_last_message;
        let role = message.role.unwrap_or(Role::System);
        let at = message.created;
        let part = Value::new(part.unwrap_or(b"{}"));
        let text = |name| part.get(name).and_then(Value::string).unwrap_or_default();
        match text("type").as_str() {
            "text" => {
                let whole = settled || part.at(&["time", "end"]).is_some();
                let role = if is_synthetic(part) { Role::System } else { role };
                let at = part.at(&["time", "start"]).and_then(Value::time).or(at);
                self.tell(whole, Some(Entry::new(at, role, text("text"))));
                self.tell(whole, None);
            }
            "tool" => {
                let state = |path: &str| part.at(&["state", path]);
                let status = state("status").and_then(Value::string).unwrap_or_default();
                let started = part.at(&["state", "time", "start"]).and_then(Value::time).or(at);
                let ended = part.at(&["state", "time", "end"]).and_then(Value::time).or(started);
                let input = state("input").map_or(&b""[..], Value::raw);
                let call = Entry::tool(started, text("tool"), String::from_utf8_lossy(input));
                self.tell(settled || status != "pending", Some(call));
                let result = state("output").or(state("error")).and_then(Value::string);
                let done = settled || status == "completed" || status == "error";
                self.tell(done, result.map(|text| Entry::new(ended, Role::Result, text)));
            }
            "file" => {
                let name = format!("[file {}]", text("filename"));
                self.tell(true, Some(Entry::new(at, role, name)));
                self.tell(true, None);
            }
            // The parts of a message follow a moment after it.
            "" => {
                let whole = !is_last_message || (settled && role == Role::Assistant);
                let error = message.error.and_then(Value::string);
                self.tell(whole, error.map(|text| Entry::new(at, Role::System, text)));
                self.tell(whole, None);
            }
            _ => {
                self.tell(true, None);
                self.tell(true, None);
            }
        }
    }

    fn tell(&mut self, whole: bool, entry: Option<Entry>) {
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
