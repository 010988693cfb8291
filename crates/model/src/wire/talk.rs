//! A conversation for pages: Markdown parsed into blocks, so that no client makes HTML of foreign text.

use schemars::JsonSchema;
use serde::Serialize;

use crate::conversation::ConversationRole;
use crate::time::Time;

/// The result of `logs --blocks`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TalkResult<'a> {
    pub id: &'a str,
    /// The adapter id.
    pub agent: &'a str,
    /// The conversation, oldest first.
    pub entries: Vec<BlockTalkEntry>,
    /// How many entries there are in all.
    pub total: usize,
}

/// One thing that was said or done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockTalkEntry {
    /// Its number, from 1, as `logs --from` takes it.
    pub number: usize,
    /// When, where the transcript says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    pub role: ConversationRole,
    /// The name of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The sub-agent that spoke.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
    /// The text, with secrets masked.
    pub blocks: Vec<TextBlock>,
    /// How many characters were left out of a very long text.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut: usize,
    /// How many secrets were masked.
    #[serde(skip_serializing_if = "is_none_masked")]
    pub masked: u64,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn is_none_masked(count: &u64) -> bool {
    *count == 0
}

/// A block of text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TextBlock {
    /// Text as it is, line breaks included.
    Plain {
        text: String,
    },
    Paragraph {
        spans: Vec<TextSpan>,
    },
    Heading {
        /// From 1 to 6.
        level: u8,
        spans: Vec<TextSpan>,
    },
    Code {
        /// The language, where it is said.
        #[serde(skip_serializing_if = "Option::is_none")]
        language: Option<String>,
        text: String,
    },
    List {
        /// The number of the first item, if they are numbered.
        #[serde(skip_serializing_if = "Option::is_none")]
        start: Option<u64>,
        items: Vec<Vec<TextBlock>>,
    },
    Quote {
        /// What is quoted.
        blocks: Vec<TextBlock>,
    },
    /// A table; the first row is its head.
    Table {
        /// Rows of cells.
        rows: Vec<Vec<Vec<TextSpan>>>,
    },
    /// A line across.
    Rule,
}

/// A stretch of text in one style.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TextSpan {
    pub text: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bold: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub italic: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub strike: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub code: bool,
    /// Where it leads: `http` and `https` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}
