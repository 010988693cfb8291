//! What agents' hooks say. Most agents tell it in one shape, under names that differ a little: an
//! agent is a table of its events, and one reader understands them all.

use std::borrow::Cow;
use std::collections::HashMap;

use model::event::{Happening, HookEvent};
use serde_json::value::RawValue;

/// An agent's hooks.
#[derive(Debug)]
pub struct Hooks {
    /// The events that ostler asks for, and what they mean.
    pub events: &'static [(&'static str, Meaning)],
    /// Environment variables in which the agent names its own pid.
    pub pid_variables: &'static [&'static str],
}

/// What an event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Always this.
    Is(Happening),
    /// It depends on what the notification is about.
    Notification,
    /// A turn starts, or the same turn goes on if there is no new prompt.
    Prompt,
}

/// Longest text that is taken from a payload; the payload itself may be spilled whole.
const MOST_TEXT: usize = 16 << 10;

/// Names under which agents give one thing.
const SESSION: &[&str] = &["session_id", "sessionId", "thread-id", "conversation_id"];
const SUBAGENT: &[&str] = &["agent_id", "agentId"];
const TRANSCRIPT: &[&str] = &["transcript_path", "transcriptPath"];
const PROMPT: &[&str] = &["prompt", "initialPrompt"];
const MESSAGE: &[&str] =
    &["last_assistant_message", "last-assistant-message", "prompt_response", "message"];
const DETAIL: &[&str] = &["reason", "tool_name", "toolName", "source", "trigger", "stopReason"];

type Fields<'a> = HashMap<Cow<'a, str>, &'a RawValue>;

/// What a payload says. An event that is not in the table, or a payload that names no session, says
/// nothing.
pub fn read(hooks: &Hooks, event: &str, payload: &[u8]) -> Option<HookEvent> {
    let &(_, meaning) = hooks.events.iter().find(|(name, _)| *name == event)?;
    let fields: Fields<'_> = serde_json::from_slice(payload).ok()?;
    let session = text(&fields, SESSION).filter(|id| is_plausible_id(id))?;
    let prompt = text(&fields, PROMPT).or_else(|| blocks(&fields, PROMPT));
    let happening = match meaning {
        Meaning::Is(happening) => happening,
        Meaning::Prompt if prompt.is_some() => Happening::TurnStart,
        Meaning::Prompt => Happening::Progress,
        Meaning::Notification => about(text(&fields, &["notification_type"]).as_deref()),
    };
    Some(HookEvent {
        happening,
        subagent: text(&fields, SUBAGENT),
        cwd: text(&fields, &["cwd"]),
        transcript: text(&fields, TRANSCRIPT),
        prompt: prompt.filter(|_| happening == Happening::TurnStart),
        message: text(&fields, MESSAGE),
        detail: text(&fields, DETAIL),
        model: text(&fields, &["model"]),
        session,
    })
}

/// The pid that the payload gives as the agent's own.
pub fn claimed_pid(payload: &[u8]) -> Option<u32> {
    let fields: Fields<'_> = serde_json::from_slice(payload).ok()?;
    fields.get("pid")?.get().parse().ok()
}

/// What a notification tells about the session.
fn about(kind: Option<&str>) -> Happening {
    match kind {
        Some("permission_prompt" | "elicitation_dialog" | "agent_needs_input") => {
            Happening::Waiting
        }
        _ => Happening::Sign,
    }
}

/// An id becomes part of file names and lines of text.
fn is_plausible_id(id: &str) -> bool {
    (1..=200).contains(&id.len()) && !id.chars().any(char::is_control)
}

/// The first of these fields that is a text with something in it.
fn text(fields: &Fields<'_>, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| {
        let text: Cow<'_, str> = serde_json::from_str(fields.get(*name)?.get()).ok()?;
        cut(&text)
    })
}

/// A prompt that is a list of blocks: their texts.
fn blocks(fields: &Fields<'_>, names: &[&str]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Block<'a> {
        #[serde(borrow)]
        text: Option<Cow<'a, str>>,
    }
    let raw = names.iter().find_map(|name| fields.get(*name))?;
    let blocks: Vec<Block<'_>> = serde_json::from_str(raw.get()).ok()?;
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block.text.as_deref()).collect();
    cut(&texts.join("\n"))
}

fn cut(text: &str) -> Option<String> {
    let end = text.floor_char_boundary(MOST_TEXT);
    Some(text[..end].to_owned()).filter(|text| !text.is_empty())
}
