//! What agents' hooks say. Most agents tell it in one shape, under names that differ a little: an
//! agent is a table of its events, and one reader understands them all.

use std::path::{Path, PathBuf};

use model::event::{HookEvent, HookHappening};
use model::session::is_safe_id;

use crate::skim::{self, JsonValue};

use crate::EnvLookup;
use crate::control::PermissionChannel;

/// An agent's hooks.
#[derive(Debug)]
pub struct AgentHooks {
    /// The events that ostler asks for, and what they mean.
    pub events: &'static [(&'static str, HookMeaning)],
    /// Environment variables in which the agent names its own pid.
    pub pid_variables: &'static [&'static str],
    /// How the agent is told to run them.
    pub wiring: HookWiring,
}

/// How an agent is told to run hooks. What is not here is the same for every agent.
#[derive(Debug)]
pub struct HookWiring {
    /// The file for all of the user's work.
    pub user: fn(&EnvLookup<'_>) -> Option<PathBuf>,
    /// The file for one project, below its directory, if the agent has one.
    pub project: Option<fn(&Path) -> PathBuf>,
    /// How the file is written.
    pub shape: HookFileShape,
    /// Another way in, for as long as the agent does not trust the hooks.
    pub notify: Option<NotifyProgram>,
}

/// How hooks are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookFileShape {
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
pub struct NotifyProgram {
    /// The TOML file whose key `notify` names the program.
    pub user: fn(&EnvLookup<'_>) -> Option<PathBuf>,
    /// The event that it reports.
    pub event: &'static str,
}

impl AgentHooks {
    /// The events to write into the agent's hooks file.
    pub fn wired_events(&self) -> impl Iterator<Item = (&'static str, HookMeaning)> + '_ {
        let apart = self.wiring.notify.as_ref().map(|notify| notify.event);
        self.events.iter().copied().filter(move |(event, _)| Some(*event) != apart)
    }
}

/// What an event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookMeaning {
    /// The event always means this.
    Is(HookHappening),
    /// It depends on what the notification is about.
    Notification,
    /// A turn starts, or the same turn goes on if there is no new prompt.
    Prompt,
    /// The turn is over, and ended in an error.
    FailedTurn,
}

/// Longest text that is taken from a payload; the payload itself may be spilled whole.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// Longest text of a tool's input that stands for the whole of it: it is read at a glance.
const MAX_QUESTION_CHARS: usize = 300;

/// Names under which agents give one thing.
const SESSION_FIELDS: &[&str] = &["session_id", "sessionId", "thread-id", "conversation_id"];
const SUBAGENT_FIELDS: &[&str] = &["agent_id", "agentId"];
const TRANSCRIPT_FIELDS: &[&str] = &["transcript_path", "transcriptPath"];
const PROMPT_FIELDS: &[&str] = &["prompt", "initialPrompt"];
const MESSAGE_FIELDS: &[&str] =
    &["last_assistant_message", "last-assistant-message", "prompt_response", "message"];
const DETAIL_FIELDS: &[&str] =
    &["reason", "tool_name", "toolName", "source", "trigger", "stopReason"];
/// What a person has to know of a tool's input before anything else of it.
const QUESTION_FIELDS: &[&str] = &[
    "command",
    "cmd",
    "file_path",
    "path",
    "notebook_path",
    "url",
    "query",
    "pattern",
    "question",
    "description",
];

/// The fields of a payload. One that was cut off still has those before the cut.
struct Fields<'a>(Vec<(&'a [u8], JsonValue<'a>)>);

impl<'a> Fields<'a> {
    fn parse_fields(payload: &'a [u8]) -> Option<Self> {
        let object = skim::parse_object(payload).ok()?;
        Some(Self(object.map_while(Result::ok).collect()))
    }

    fn get(&self, name: &str) -> Option<JsonValue<'a>> {
        self.0.iter().find(|(key, _)| *key == name.as_bytes()).map(|(_, value)| *value)
    }

    /// The first of these fields that is a text with something in it.
    fn first_text(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| truncate_text(&self.get(name)?.as_str()?))
    }

    /// A prompt that is a list of blocks: their texts.
    fn first_blocks(&self, names: &[&str]) -> Option<String> {
        let blocks = names.iter().find_map(|name| self.get(name))?;
        let text = |block: JsonValue<'a>| block.get("text")?.to_owned_string();
        let texts: Vec<String> = blocks.iter_elements().filter_map(text).collect();
        truncate_text(&texts.join("\n"))
    }

    /// What a question is about: the command, the file or the question itself of a tool's input.
    fn asked_text(&self) -> Option<String> {
        let input = self.get("tool_input").or_else(|| self.get("toolInput"))?;
        let glance = |text: &str| match text.char_indices().nth(MAX_QUESTION_CHARS) {
            Some((end, _)) => Some(format!("{}…", &text[..end])),
            None => truncate_text(text),
        };
        let of_object = |object: JsonValue<'a>| {
            QUESTION_FIELDS.iter().find_map(|name| glance(&object.get(name)?.as_str()?))
        };
        let first_question = || of_object(input.get("questions")?.iter_elements().next()?);
        of_object(input).or_else(first_question)
    }
}

/// What a payload says. An event that is not in the table, or a payload that names no session, says
/// nothing.
pub fn read_hook_event(hooks: &AgentHooks, event: &str, payload: &[u8]) -> Option<HookEvent> {
    let &(_, meaning) = hooks.events.iter().find(|(name, _)| *name == event)?;
    let fields = Fields::parse_fields(payload)?;
    let session = fields.first_text(SESSION_FIELDS).filter(|id| is_safe_id(id))?;
    let prompt = fields.first_text(PROMPT_FIELDS).or_else(|| fields.first_blocks(PROMPT_FIELDS));
    let happening = match meaning {
        HookMeaning::Is(happening) => happening,
        HookMeaning::FailedTurn => HookHappening::TurnEnd,
        HookMeaning::Prompt if prompt.is_some() => HookHappening::TurnStart,
        HookMeaning::Prompt => HookHappening::Progress,
        HookMeaning::Notification => {
            notification_happening(fields.first_text(&["notification_type"]).as_deref())
        }
    };
    Some(HookEvent {
        happening,
        subagent: fields.first_text(SUBAGENT_FIELDS),
        cwd: fields.first_text(&["cwd"]),
        transcript: fields.first_text(TRANSCRIPT_FIELDS),
        prompt: prompt.filter(|_| happening == HookHappening::TurnStart),
        message: fields.first_text(MESSAGE_FIELDS).or_else(|| {
            (happening == HookHappening::Waiting).then(|| fields.asked_text()).flatten()
        }),
        detail: fields.first_text(DETAIL_FIELDS),
        model: fields.first_text(&["model"]),
        session,
    })
}

/// Whether an event of that agent's says that a turn ended in an error.
pub fn is_failed_turn(agent: &str, event: &str) -> bool {
    let hooks = crate::by_id(agent).and_then(|adapter| adapter.agent_profile().hooks);
    hooks.is_some_and(|hooks| hooks.events.contains(&(event, HookMeaning::FailedTurn)))
}

/// What an agent reads as the answer to a permission request; `None` where it would read none.
pub fn render_permission_answer(
    agent: &str,
    event: &str,
    is_allowed: bool,
    message: Option<&str>,
) -> Option<String> {
    let channel = crate::by_id(agent)?.control_table()?.permission_channel;
    let by_hook = matches!(channel, PermissionChannel::Hook | PermissionChannel::TrustedHook);
    if !by_hook || event != PERMISSION_EVENT {
        return None;
    }
    let decision = match (is_allowed, message) {
        (true, _) => serde_json::json!({ "behavior": "allow" }),
        (false, Some(message)) => serde_json::json!({ "behavior": "deny", "message": message }),
        (false, None) => serde_json::json!({ "behavior": "deny" }),
    };
    let output = serde_json::json!({ "hookEventName": PERMISSION_EVENT, "decision": decision });
    Some(serde_json::json!({ "hookSpecificOutput": output }).to_string())
}

/// The event at which agents with a deciding hook ask.
const PERMISSION_EVENT: &str = "PermissionRequest";

/// What a permission request is about: the tool's whole input, and the id of the call.
#[derive(Debug, Default)]
pub struct PermissionQuestion {
    /// What the tool is to be given; none if the payload was cut.
    pub input: serde_json::Value,
    /// What names the call in the transcript.
    pub tool_use: Option<String>,
}

/// Reads what a permission request is about.
pub fn read_permission_question(payload: &[u8]) -> PermissionQuestion {
    let Ok(mut payload) = serde_json::from_slice::<serde_json::Value>(payload) else {
        return PermissionQuestion::default();
    };
    let input = payload.get_mut("tool_input").map(serde_json::Value::take).unwrap_or_default();
    let tool_use = payload.get("tool_use_id").and_then(|id| id.as_str());
    let tool_use = tool_use.filter(|id| is_safe_id(id)).map(str::to_owned);
    PermissionQuestion { input, tool_use }
}

/// The pid that the payload gives as the agent's own.
pub fn claimed_pid(payload: &[u8]) -> Option<u32> {
    u32::try_from(Fields::parse_fields(payload)?.get("pid")?.as_u64()?).ok()
}

/// What a notification tells about the session.
fn notification_happening(kind: Option<&str>) -> HookHappening {
    match kind {
        Some(
            "permission_prompt" | "elicitation_dialog" | "agent_needs_input" | "ToolPermission",
        ) => HookHappening::Waiting,
        _ => HookHappening::Sign,
    }
}

fn truncate_text(text: &str) -> Option<String> {
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    Some(text[..end].to_owned()).filter(|text| !text.is_empty())
}
