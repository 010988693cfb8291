//! A conversation in one format, whichever agent held it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConversationRole {
    User,
    Assistant,
    /// The agent calls a tool.
    Tool,
    /// What the tool gave back.
    Result,
    /// The agent's program itself (errors, compaction, notices).
    System,
}

/// One thing that was said or done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationEntry {
    /// When, where the transcript says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    pub role: ConversationRole,
    /// The name of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The text, or the tool's input as one line.
    pub text: String,
    /// The sub-agent that spoke.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
    /// Of a tool's result: it failed, or was denied, where the agent says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

impl ConversationEntry {
    /// An entry with nothing but a speaker and a text.
    pub fn new(at: Option<Time>, role: ConversationRole, text: impl Into<String>) -> Self {
        let text = strip_escape_sequences(text.into());
        Self { at, role, tool: None, text, subagent: None, failed: false }
    }

    /// Whether it is a prompt of the conversation itself that was recorded no earlier than that.
    pub fn is_prompt_since(&self, earliest: Option<Time>) -> bool {
        let early = self.at.zip(earliest).is_some_and(|(at, earliest)| at < earliest);
        self.role == ConversationRole::User && self.subagent.is_none() && !early
    }

    /// A tool call.
    pub fn tool_call(at: Option<Time>, tool: impl Into<String>, input: impl Into<String>) -> Self {
        Self { tool: Some(tool.into()), ..Self::new(at, ConversationRole::Tool, input) }
    }
}

/// A text without the escape sequences that colour it or move a cursor: in a conversation they are
/// noise. Other control characters stay, and are escaped where the text is printed.
fn strip_escape_sequences(text: String) -> String {
    if !text.contains('\u{1b}') {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find("\u{1b}[") {
        plain.push_str(&rest[..at]);
        let sequence = &rest[at + 2..];
        let is_final = |c: char| ('@'..='~').contains(&c);
        let inside = |c: char| (' '..='?').contains(&c);
        match sequence.find(|c| !inside(c)) {
            Some(end) if sequence[end..].starts_with(is_final) => rest = &sequence[end + 1..],
            _ => {
                // Not a sequence after all: it stays as it is.
                plain.push_str(&rest[at..at + 2]);
                rest = sequence;
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b18_colours_of_a_terminal_are_not_part_of_what_was_said() {
        let said = |text: &str| ConversationEntry::new(None, ConversationRole::System, text).text;
        assert_eq!(said("\u{1b}[2mdim\u{1b}[22m and \u{1b}[38;5;1mred\u{1b}[m"), "dim and red");
        assert_eq!(said("\u{1b}[2"), "\u{1b}[2");
        assert_eq!(said("\u{1b}[\u{e9}x\u{1b}"), "\u{1b}[\u{e9}x\u{1b}");
        assert_eq!(said("plain"), "plain");
    }
}
