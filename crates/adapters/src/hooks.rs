//! What agents' hooks say. Most agents tell it in one shape, under names that differ a little: an
//! agent is a table of its events, and one reader understands them all.

use std::path::{Path, PathBuf};

use model::event::{Happening, HookEvent};
use model::session::is_safe_id;

use crate::skim::{self, Value};

use crate::Env;

/// An agent's hooks.
#[derive(Debug)]
pub struct Hooks {
    /// The events that ostler asks for, and what they mean.
    pub events: &'static [(&'static str, Meaning)],
    /// Environment variables in which the agent names its own pid.
    pub pid_variables: &'static [&'static str],
    /// How the agent is told to run them.
    pub wiring: Wiring,
}

/// How an agent is told to run hooks. What is not here is the same for every agent.
#[derive(Debug)]
pub struct Wiring {
    /// The file for all of the user's work.
    pub user: fn(&Env<'_>) -> Option<PathBuf>,
    /// The file for one project, below its directory, if the agent has one.
    pub project: Option<fn(&Path) -> PathBuf>,
    /// How the file is written.
    pub shape: Shape,
    /// Another way in, for as long as the agent does not trust the hooks.
    pub notify: Option<Notify>,
}

/// How hooks are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// JSON: `hooks.<event>[].hooks[]`, each with `type`, `command` and `timeout`.
    Groups {
        /// How many of the timeout's units make a second.
        per_second: u32,
    },
    /// JSON with `version: 1`: `hooks.<event>[]`.
    Flat {
        /// The key of the command.
        command: &'static str,
        /// The key of the timeout, in seconds.
        timeout: &'static str,
        /// Whether an entry says that it is a command.
        typed: bool,
    },
    /// TOML: `[[hooks]]` with `event`, `command` and `timeout` in seconds.
    Tables,
    /// A program in the agent's own language, in a file that is ostler's alone.
    Script {
        /// The text; `@PROGRAM@` stands for ostler's path as a string literal, `@VERSION@` for the
        /// version of the wiring.
        template: &'static str,
    },
}

/// A program that the agent runs at the end of each turn without having been asked to trust it.
#[derive(Debug)]
pub struct Notify {
    /// The TOML file whose key `notify` names the program.
    pub user: fn(&Env<'_>) -> Option<PathBuf>,
    /// The event that it reports.
    pub event: &'static str,
}

impl Hooks {
    /// The events to write into the agent's hooks file.
    pub fn wired(&self) -> impl Iterator<Item = (&'static str, Meaning)> + '_ {
        let apart = self.wiring.notify.as_ref().map(|notify| notify.event);
        self.events.iter().copied().filter(move |(event, _)| Some(*event) != apart)
    }
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

/// The fields of a payload. One that was cut off still has those before the cut.
struct Fields<'a>(Vec<(&'a [u8], Value<'a>)>);

impl<'a> Fields<'a> {
    fn of(payload: &'a [u8]) -> Option<Self> {
        let object = skim::object(payload).ok()?;
        Some(Self(object.map_while(Result::ok).collect()))
    }

    fn get(&self, name: &str) -> Option<Value<'a>> {
        self.0.iter().find(|(key, _)| *key == name.as_bytes()).map(|(_, value)| *value)
    }

    /// The first of these fields that is a text with something in it.
    fn text(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| cut(&self.get(name)?.str()?))
    }

    /// A prompt that is a list of blocks: their texts.
    fn blocks(&self, names: &[&str]) -> Option<String> {
        let blocks = names.iter().find_map(|name| self.get(name))?;
        let text = |block: Value<'a>| block.get("text")?.string();
        let texts: Vec<String> = blocks.elements().filter_map(text).collect();
        cut(&texts.join("\n"))
    }
}

/// What a payload says. An event that is not in the table, or a payload that names no session, says
/// nothing.
pub fn read(hooks: &Hooks, event: &str, payload: &[u8]) -> Option<HookEvent> {
    let &(_, meaning) = hooks.events.iter().find(|(name, _)| *name == event)?;
    let fields = Fields::of(payload)?;
    let session = fields.text(SESSION).filter(|id| is_safe_id(id))?;
    let prompt = fields.text(PROMPT).or_else(|| fields.blocks(PROMPT));
    let happening = match meaning {
        Meaning::Is(happening) => happening,
        Meaning::Prompt if prompt.is_some() => Happening::TurnStart,
        Meaning::Prompt => Happening::Progress,
        Meaning::Notification => about(fields.text(&["notification_type"]).as_deref()),
    };
    Some(HookEvent {
        happening,
        subagent: fields.text(SUBAGENT),
        cwd: fields.text(&["cwd"]),
        transcript: fields.text(TRANSCRIPT),
        prompt: prompt.filter(|_| happening == Happening::TurnStart),
        message: fields.text(MESSAGE),
        detail: fields.text(DETAIL),
        model: fields.text(&["model"]),
        session,
    })
}

/// The pid that the payload gives as the agent's own.
pub fn claimed_pid(payload: &[u8]) -> Option<u32> {
    u32::try_from(Fields::of(payload)?.get("pid")?.u64()?).ok()
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

fn cut(text: &str) -> Option<String> {
    let end = text.floor_char_boundary(MOST_TEXT);
    Some(text[..end].to_owned()).filter(|text| !text.is_empty())
}
