//! The content of a message as most model APIs write it: one string, or blocks of text, tool calls
//! and tool results.

use model::conversation::{ConversationEntry, ConversationRole};
use model::time::Time;

use crate::skim::JsonValue;

/// All text of a content, its blocks joined by line breaks.
pub(crate) fn text_of(content: JsonValue<'_>) -> String {
    if let Some(text) = content.to_owned_string() {
        return text;
    }
    let texts = content.iter_elements().filter_map(|block| block.get("text")?.to_owned_string());
    texts.collect::<Vec<_>>().join("\n")
}

/// Whether a content has a block of that type.
pub(crate) fn has_block(content: JsonValue<'_>, kind: &str) -> bool {
    content
        .iter_elements()
        .any(|block| block.get("type").is_some_and(|found| found.is_string(kind)))
}

/// Tells a content block by block; `spoken` says who speaks a text.
pub(crate) fn emit_blocks(
    content: JsonValue<'_>,
    at: Option<Time>,
    spoken: impl Fn(String) -> ConversationEntry,
    say: &mut dyn FnMut(ConversationEntry),
) {
    if let Some(text) = content.to_owned_string() {
        say(spoken(text));
        return;
    }
    for block in content.iter_elements() {
        let text = |name| block.get(name).and_then(JsonValue::to_owned_string).unwrap_or_default();
        match text("type").as_str() {
            "text" => say(spoken(text("text"))),
            "tool_use" => {
                let input = block.get("input").map_or(&b""[..], JsonValue::raw);
                say(ConversationEntry::tool_call(at, text("name"), String::from_utf8_lossy(input)));
            }
            "tool_result" => {
                let result = block.get("content").map(text_of).unwrap_or_default();
                let failed = block.get("is_error").and_then(JsonValue::as_bool) == Some(true);
                let entry = ConversationEntry::new(at, ConversationRole::Result, result);
                say(ConversationEntry { failed, ..entry });
            }
            _ => {}
        }
    }
}
