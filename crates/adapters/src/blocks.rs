//! The content of a message as most model APIs write it: one string, or blocks of text, tool calls
//! and tool results.

use model::conversation::{Entry, Role};
use model::time::Time;

use crate::skim::Value;

/// All text of a content, its blocks joined by line breaks.
pub(crate) fn text_of(content: Value<'_>) -> String {
    if let Some(text) = content.string() {
        return text;
    }
    let texts = content.elements().filter_map(|block| block.get("text")?.string());
    texts.collect::<Vec<_>>().join("\n")
}

/// Whether a content has a block of that type.
pub(crate) fn has_block(content: Value<'_>, kind: &str) -> bool {
    content.elements().any(|block| block.get("type").is_some_and(|found| found.is(kind)))
}

/// Tells a content block by block; `spoken` says who speaks a text.
pub(crate) fn tell(
    content: Value<'_>,
    at: Option<Time>,
    spoken: impl Fn(String) -> Entry,
    say: &mut dyn FnMut(Entry),
) {
    if let Some(text) = content.string() {
        say(spoken(text));
        return;
    }
    for block in content.elements() {
        let text = |name| block.get(name).and_then(Value::string).unwrap_or_default();
        match text("type").as_str() {
            "text" => say(spoken(text("text"))),
            "tool_use" => {
                let input = block.get("input").map_or(&b""[..], Value::raw);
                say(Entry::tool(at, text("name"), String::from_utf8_lossy(input)));
            }
            "tool_result" => {
                let result = block.get("content").map(text_of).unwrap_or_default();
                say(Entry::new(at, Role::Result, result));
            }
            _ => {}
        }
    }
}
