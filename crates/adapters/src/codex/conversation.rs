//! What was said in a rollout of Codex's.

use model::conversation::{ConversationEntry, ConversationRole};
use model::time::Time;

use super::Line;
use crate::skim::JsonValue;

/// The texts of a message's content, or of a tool's output.
pub(super) fn text_of(content: JsonValue<'_>) -> String {
    if let Some(text) = content.to_owned_string() {
        return text;
    }
    let Some(blocks) = content.as_array() else {
        // `{"content": …, "success": …}`, or the tool's raw output.
        return match content.get("content").or_else(|| content.get("output")) {
            Some(inner) if inner.as_object().is_none() => text_of(inner),
            _ => String::from_utf8_lossy(content.raw()).into_owned(),
        };
    };
    let texts = blocks.flatten().filter_map(|block| block.get("text")?.to_owned_string());
    texts.collect::<Vec<_>>().join("\n")
}

/// Context that the agent writes as if the user had said it.
pub(super) fn is_injected(text: &str) -> bool {
    let markers = [
        "<environment_context>",
        "<user_instructions>",
        "<turn_aborted>",
        "<permissions instructions>",
        "<skills_instructions>",
        "<skill>",
        "<collaboration_mode>",
        "<subagent_notification>",
        "<user_shell_command>",
        "# AGENTS.md instructions",
    ];
    let text = text.trim_start();
    markers.iter().any(|marker| text.starts_with(marker))
}

pub(super) fn converse_line(raw: &[u8], say: &mut dyn FnMut(ConversationEntry)) {
    let Ok(Line { kind, timestamp, payload }) = Line::parse_line(raw) else {
        return;
    };
    let at = timestamp.and_then(JsonValue::as_time);
    let text = |field| payload.get(field).and_then(JsonValue::to_owned_string).unwrap_or_default();
    if kind.is_string("compacted") {
        say(ConversationEntry::new(at, ConversationRole::System, text("message")));
    } else if kind.is_string("event_msg") {
        match text("type").as_str() {
            "error" => say(ConversationEntry::new(at, ConversationRole::System, text("message"))),
            "turn_aborted" => say(ConversationEntry::new(
                at,
                ConversationRole::System,
                format!("turn {}", text("reason")),
            )),
            _ => {}
        }
    } else if kind.is_string("response_item") {
        converse_item(at, payload, say);
    }
}

pub(super) fn converse_item(
    at: Option<Time>,
    item: JsonValue<'_>,
    say: &mut dyn FnMut(ConversationEntry),
) {
    let text = |field| item.get(field).map(text_of).unwrap_or_default();
    match text("type").as_str() {
        "message" => {
            let content = text("content");
            let role = match text("role").as_str() {
                "assistant" => ConversationRole::Assistant,
                "user" if !is_injected(&content) => ConversationRole::User,
                _ => ConversationRole::System,
            };
            say(ConversationEntry::new(at, role, content));
        }
        "function_call" => say(ConversationEntry::tool_call(at, text("name"), text("arguments"))),
        "custom_tool_call" => say(ConversationEntry::tool_call(at, text("name"), text("input"))),
        kind @ ("local_shell_call" | "web_search_call") => {
            let action = item.get("action").map_or(&b""[..], JsonValue::raw);
            let name = kind.trim_end_matches("_call");
            say(ConversationEntry::tool_call(at, name, String::from_utf8_lossy(action)));
        }
        "function_call_output" | "custom_tool_call_output" => {
            say(ConversationEntry::new(at, ConversationRole::Result, text("output")));
        }
        _ => {}
    }
}
