//! Reads a request of any of the four wire formats into one neutral form, and decides from the
//! markers in the user's text what the fake model is to do.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

/// The wire format of a request, and so of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Messages,
    Responses,
    Chat,
    Gemini,
}

impl Wire {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Wire::Messages => "anthropic-messages",
            Wire::Responses => "openai-responses",
            Wire::Chat => "openai-chat",
            Wire::Gemini => "gemini",
        }
    }
}

/// A model request of any agent.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) wire: Wire,
    pub(super) model: String,
    /// Tool name to the JSON schema of its arguments.
    pub(super) tools: BTreeMap<String, Value>,
    pub(super) stream: bool,
    /// The user text that decides the answer.
    pub(super) steering: String,
    /// A tool has answered since that text.
    pub(super) tool_answered: bool,
    /// The answer must be a value of this schema.
    pub(super) schema: Option<Value>,
    /// Everything the user side said, to find out which session a request belongs to.
    pub(super) user_text: String,
    /// Everything that tools answered, as it came.
    pub(super) tool_text: String,
    /// Tools that are called by the name of their group and their own.
    pub(super) grouped: BTreeMap<String, (String, String)>,
}

/// What the fake model does about an [`Ask`].
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) delay: Duration,
    pub(super) reply: Reply,
}

#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    Text(String),
    Tool { name: String, arguments: Value },
    Error(u16),
}

pub(super) const DEFAULT_TEXT: &str = "hello from the fake model";
const MAX_DELAY: f64 = 120.0;

/// Names under which agents offer a shell, in the order they are tried.
const SHELL_TOOLS: [&str; 12] = [
    "Bash",
    "bash",
    "exec_command",
    "shell_command",
    "shell",
    "local_shell",
    "run_shell_command",
    "execute_command",
    "run_commands",
    "exec",
    "Execute",
    "run_terminal_cmd",
];

/// The `[[kind:value]]` markers of a text, in order.
pub(super) fn markers(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("[[") {
        rest = &rest[start + 2..];
        let Some(end) = rest.find("]]") else { break };
        if let Some((kind, value)) = rest[..end].split_once(':')
            && ["delay", "say", "tool", "call", "error"].contains(&kind)
        {
            found.push((kind, value));
            rest = &rest[end + 2..];
        }
    }
    found
}

/// Follows a conversation. Agents put reminders of their own after the user's text, so a text
/// without a marker replaces one with a marker only after the model gave a final answer.
#[derive(Default)]
struct Conversation {
    steering: String,
    tool_answered: bool,
    answered: bool,
    user_text: String,
    tool_text: String,
}

impl Conversation {
    fn user(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        self.user_text.push_str(text);
        self.user_text.push('\n');
        let keeps = !self.answered && !markers(&self.steering).is_empty();
        if !markers(text).is_empty() || !keeps {
            text.clone_into(&mut self.steering);
            self.tool_answered = false;
            self.answered = false;
        }
    }

    fn model(&mut self, called_a_tool: bool) {
        self.answered |= !called_a_tool;
    }

    fn tool_result(&mut self, answer: &Value) {
        self.tool_answered = true;
        self.tool_text.push_str(&answer.to_string());
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The text of any vendor's content value.
fn flat(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(flat).collect::<Vec<_>>().join("\n"),
        Value::Object(part) => part.get("text").map(flat).unwrap_or_default(),
        _ => String::new(),
    }
}

impl Ask {
    fn new(wire: Wire, body: &Value, model: &str) -> Ask {
        Ask {
            wire,
            model: if model.is_empty() { "fake-model" } else { model }.to_owned(),
            tools: BTreeMap::new(),
            stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
            steering: String::new(),
            tool_answered: false,
            schema: None,
            user_text: String::new(),
            tool_text: String::new(),
            grouped: BTreeMap::new(),
        }
    }

    fn offer(&mut self, name: &str, schema: Option<&Value>) {
        if !name.is_empty() {
            self.tools.insert(name.to_owned(), schema.cloned().unwrap_or(Value::Null));
        }
    }

    fn follow(mut self, talk: Conversation) -> Ask {
        self.steering = talk.steering;
        self.tool_answered = talk.tool_answered;
        self.user_text = talk.user_text;
        self.tool_text = talk.tool_text;
        self
    }

    pub(super) fn messages(body: &Value) -> Ask {
        let mut ask = Ask::new(Wire::Messages, body, text(body, "model"));
        for tool in list(body, "tools") {
            ask.offer(text(tool, "name"), tool.get("input_schema"));
        }
        ask.schema = body.pointer("/output_config/format/schema").cloned();
        let mut talk = Conversation::default();
        for message in list(body, "messages") {
            let has = |kind| list(message, "content").iter().any(|b| text(b, "type") == kind);
            if text(message, "role") == "assistant" {
                talk.model(has("tool_use"));
            } else if has("tool_result") {
                talk.tool_result(message);
            } else {
                talk.user(&message.get("content").map(flat).unwrap_or_default());
            }
        }
        ask.follow(talk)
    }

    pub(super) fn responses(body: &Value) -> Ask {
        let mut ask = Ask::new(Wire::Responses, body, text(body, "model"));
        for tool in list(body, "tools") {
            let name = text(tool, "name");
            for member in list(tool, "tools") {
                let whole = format!("{name}{}", text(member, "name"));
                ask.offer(&whole, member.get("parameters"));
                let parts = (name.to_owned(), text(member, "name").to_owned());
                ask.grouped.insert(whole, parts);
            }
            let name = if name.is_empty() { text(tool, "type") } else { name };
            ask.offer(name, tool.get("parameters"));
        }
        ask.schema = body.pointer("/text/format/schema").cloned();
        let mut talk = Conversation::default();
        if let Some(input) = body.get("input").and_then(Value::as_str) {
            talk.user(input);
        }
        for item in list(body, "input") {
            if text(item, "type").ends_with("_output") {
                talk.tool_result(item);
            } else {
                match text(item, "role") {
                    "user" => talk.user(&item.get("content").map(flat).unwrap_or_default()),
                    "assistant" => talk.model(false),
                    _ => {}
                }
            }
        }
        ask.follow(talk)
    }

    pub(super) fn chat(body: &Value) -> Ask {
        let mut ask = Ask::new(Wire::Chat, body, text(body, "model"));
        for tool in list(body, "tools") {
            if let Some(function) = tool.get("function") {
                ask.offer(text(function, "name"), function.get("parameters"));
            }
        }
        ask.schema = body.pointer("/response_format/json_schema/schema").cloned();
        let mut talk = Conversation::default();
        for message in list(body, "messages") {
            match text(message, "role") {
                "tool" => talk.tool_result(message),
                "user" => talk.user(&message.get("content").map(flat).unwrap_or_default()),
                "assistant" => talk.model(!list(message, "tool_calls").is_empty()),
                _ => {}
            }
        }
        ask.follow(talk)
    }

    pub(super) fn gemini(body: &Value, model: &str, stream: bool) -> Ask {
        let mut ask = Ask::new(Wire::Gemini, body, model);
        ask.stream = stream;
        for function in list(body, "tools").iter().flat_map(|t| list(t, "functionDeclarations")) {
            let schema =
                function.get("parametersJsonSchema").or_else(|| function.get("parameters"));
            ask.offer(text(function, "name"), schema);
        }
        let config = body.get("generationConfig");
        ask.schema = config
            .and_then(|c| c.get("responseJsonSchema").or_else(|| c.get("responseSchema")))
            .cloned();
        let mut talk = Conversation::default();
        for content in list(body, "contents") {
            let parts = list(content, "parts");
            let has = |key| parts.iter().any(|part| part.get(key).is_some());
            if text(content, "role") == "model" {
                talk.model(has("functionCall"));
            } else if has("functionResponse") {
                talk.tool_result(content);
            } else {
                talk.user(&content.get("parts").map(flat).unwrap_or_default());
            }
        }
        ask.follow(talk)
    }

    /// Does this look like the agent's own turn? Title makers and routers offer no tools.
    pub(super) fn is_turn(&self) -> bool {
        !self.tools.is_empty() && self.schema.is_none()
    }

    pub(super) fn plan(&self) -> Plan {
        let mut delay = Duration::ZERO;
        let mut say = DEFAULT_TEXT.to_owned();
        let mut tool = None;
        // Helpers quote the prompt; only the turn itself obeys it.
        let marks = if self.is_turn() { markers(&self.steering) } else { Vec::new() };
        for (kind, value) in marks {
            match kind {
                "delay" => {
                    let seconds = value.parse::<f64>().unwrap_or(0.0).clamp(0.0, MAX_DELAY);
                    delay = Duration::from_secs_f64(seconds);
                }
                "say" => value.clone_into(&mut say),
                "error" => {
                    let status = value.parse().unwrap_or(500);
                    return Plan { delay, reply: Reply::Error(status) };
                }
                "tool" => tool = self.shell(value),
                _ => tool = self.call(value),
            }
        }
        let reply = match (&self.schema, tool) {
            (Some(schema), _) => Reply::Text(example(schema, 0).to_string()),
            (None, Some((name, arguments))) if !self.tool_answered => {
                Reply::Tool { name, arguments }
            }
            _ => Reply::Text(say),
        };
        Plan { delay, reply }
    }

    fn call(&self, value: &str) -> Option<(String, Value)> {
        let (name, arguments) = value.split_once(':').unwrap_or((value, "{}"));
        let arguments = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
        // Tools of an MCP server have its name before their own.
        let names = || self.tools.keys();
        let exact = names().find(|tool| tool.as_str() == name);
        let tool = exact.or_else(|| names().find(|tool| tool.ends_with(name)))?;
        Some((tool.clone(), arguments))
    }

    fn shell(&self, command: &str) -> Option<(String, Value)> {
        let name = SHELL_TOOLS.into_iter().find(|name| self.tools.contains_key(*name))?;
        let properties = self.tools[name].get("properties").cloned().unwrap_or_default();
        let kind = |key: &str| properties.pointer(&format!("/{key}/type")).and_then(Value::as_str);
        let mut arguments = if properties.get("cmd").is_some() {
            json!({ "cmd": command })
        } else if properties.get("commands").is_some() {
            json!({ "commands": [command] })
        } else if kind("command") == Some("array") {
            json!({ "command": ["bash", "-lc", command] })
        } else {
            json!({ "command": command })
        };
        // Arguments that some agents insist on.
        for (key, value) in [
            ("description", json!("lab command")),
            ("is_background", json!(false)),
            ("summary", json!("lab command")),
            ("riskLevel", json!("low")),
            ("riskLevelReason", json!("lab command")),
            ("requires_approval", json!(false)),
        ] {
            if properties.get(key).is_some() {
                arguments[key] = value;
            }
        }
        Some((name.to_owned(), arguments))
    }
}

/// A small value that fits a JSON schema.
fn example(schema: &Value, depth: usize) -> Value {
    if depth > 6 {
        return Value::Null;
    }
    if let Some(first) = list(schema, "enum").first() {
        return first.clone();
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.to_ascii_lowercase(),
        Some(Value::Array(kinds)) => kinds.first().map(flat).unwrap_or_default(),
        _ => "object".to_owned(),
    };
    match kind.as_str() {
        "object" => {
            let members = schema.get("properties").and_then(Value::as_object);
            let fill = |(key, value): (&String, &Value)| (key.clone(), example(value, depth + 1));
            Value::Object(members.into_iter().flatten().map(fill).collect())
        }
        "array" => json!([]),
        "integer" | "number" => json!(1),
        "boolean" => json!(false),
        _ => json!("lab"),
    }
}
