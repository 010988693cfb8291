//! What is kept of a session that is over: its summary, and where the copy of its files is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conversation::{ConversationEntry, ConversationRole};
use crate::sighting::{TokenUsage, TranscriptDigest};
use crate::time::Time;

/// A session boiled down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionSummary {
    /// The title, or the first prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Where it worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The git branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Every model that answered.
    pub models: Vec<String>,
    /// What people asked, shortened, at most [`MAX_PROMPTS`] of them.
    pub prompts: Vec<String>,
    /// How many prompts there were.
    pub turns: u32,
    /// Files that tools wrote to.
    pub files: Vec<String>,
    /// Tokens, each API message counted once, sub-agents included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenUsage>,
    /// Cost where the agent states it, in millionths of a dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// The first sign of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// The last evidence of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// How it ended.
    pub reason: String,
    /// The last thing the agent said, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message: Option<String>,
}

/// How many prompts a summary holds.
pub const MAX_PROMPTS: usize = 50;

/// How many files a summary holds.
pub const MAX_FILES: usize = 200;

/// How long a text in a summary is, in characters.
const MAX_TEXT_CHARS: usize = 500;

impl SessionSummary {
    /// What a transcript's digest says.
    pub fn from_digest(digest: &TranscriptDigest) -> Self {
        Self {
            title: digest.title.clone().or_else(|| digest.first_prompt.clone()),
            cwd: digest.cwd.clone(),
            branch: digest.branch.clone(),
            models: digest.model.iter().chain(&digest.other_models).cloned().collect(),
            turns: digest.turns,
            tokens: digest.tokens,
            cost_micro_usd: digest.cost_micro_usd,
            started_at: digest.started_at,
            ended_at: digest.last_activity_at,
            ..Self::default()
        }
    }

    /// Takes one entry of the conversation in.
    pub fn add_entry(&mut self, entry: &ConversationEntry) {
        match entry.role {
            ConversationRole::User if entry.subagent.is_none() => {
                if self.prompts.len() < MAX_PROMPTS {
                    self.prompts.push(shorten_text(&entry.text));
                }
            }
            ConversationRole::Assistant
                if entry.subagent.is_none() && !entry.text.trim().is_empty() =>
            {
                self.last_message = Some(shorten_text(&entry.text));
            }
            ConversationRole::Tool => {
                let tool = entry.tool.as_deref().unwrap_or("");
                for file in files_written(tool, &entry.text) {
                    if self.files.len() < MAX_FILES && !self.files.contains(&file) {
                        self.files.push(file);
                    }
                }
            }
            ConversationRole::User
            | ConversationRole::Assistant
            | ConversationRole::Result
            | ConversationRole::System => {}
        }
    }

    /// Adds what a sub-agent used.
    pub fn add_subagent(&mut self, digest: &TranscriptDigest, parent_cost_covers: bool) {
        if let Some(tokens) = digest.tokens {
            self.tokens.get_or_insert_default().add_usage(tokens);
        }
        if let Some(cost) = digest.cost_micro_usd.filter(|_| !parent_cost_covers) {
            *self.cost_micro_usd.get_or_insert_default() += cost;
        }
    }
}

fn shorten_text(text: &str) -> String {
    text.trim().chars().take(MAX_TEXT_CHARS).collect()
}

/// The files that a call of a tool writes to, as far as its input says.
fn files_written(tool: &str, input: &str) -> Vec<String> {
    let tool = tool.to_ascii_lowercase();
    let writes = ["write", "edit", "replace", "create", "patch", "insert"];
    if !writes.iter().any(|word| tool.contains(word)) {
        return Vec::new();
    }
    let named = serde_json::from_str::<serde_json::Value>(input).ok().and_then(|input| {
        let names = ["file_path", "filePath", "path", "filename", "target_file", "notebook_path"];
        names.iter().find_map(|name| Some(input.get(name)?.as_str()?.to_owned()))
    });
    named.map_or_else(|| files_patched(input), |file| vec![file])
}

/// The files that a patch in the style of `*** Update File: name` changes.
fn files_patched(text: &str) -> Vec<String> {
    let heads = ["*** Update File: ", "*** Add File: ", "*** Delete File: "];
    let name = |rest: &str| {
        let end = rest.find(['\n', '\r', '"']).unwrap_or(rest.len());
        let end = rest[..end].find("\\n").unwrap_or(end);
        rest[..end].trim().to_owned()
    };
    let found = heads.iter().flat_map(|head| text.split(head).skip(1).map(name));
    found.filter(|file| !file.is_empty()).collect()
}

/// A file of a session, as it is kept: content-addressed and compressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptFile {
    /// Where it was; for a conversation the store, and the session after a `#`.
    pub path: String,
    /// The SHA-256 of its bytes, which is also the name of the copy.
    pub sha256: String,
    pub bytes: u64,
    /// The size of the copy.
    pub kept_bytes: u64,
    /// What the copy is of. Manifests of older versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<KeptForm>,
}

/// What a copy in the vault was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeptForm {
    /// The bytes of one file, which can be written back to its place.
    File,
    /// A conversation taken out of a store of many: there is no place to write it back to.
    Conversation,
}

impl KeptFile {
    /// Whether the copy is the bytes of a file that stood at `path`. Older versions wrote
    /// `<store>#<session>` for a conversation and said nothing more: such a path is no place.
    pub fn is_of_file(&self) -> bool {
        match self.form {
            Some(form) => form == KeptForm::File,
            None => !self.path.contains('#'),
        }
    }
}

/// What the vault holds of one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptSession {
    pub agent: String,
    /// The agent's own session id.
    pub session: String,
    /// When it was condensed.
    pub kept_at: Time,
    pub summary: SessionSummary,
    /// Its files, the transcript first. None if it never wrote any.
    pub files: Vec<KeptFile>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_from_the_input_of_tools_that_write() {
        let mut summary = SessionSummary::default();
        for (tool, input) in [
            ("Edit", r#"{"file_path":"/a.rs","old_string":"x"}"#),
            ("Write", r#"{"file_path":"/b.rs","content":"y"}"#),
            ("Edit", r#"{"file_path":"/a.rs","old_string":"z"}"#),
            ("Read", r#"{"file_path":"/secret"}"#),
            ("apply_patch", "*** Begin Patch\n*** Update File: src/c.rs\n@@\n*** Add File: d\n"),
            ("apply_patch", r#"{"input":"*** Begin Patch\n*** Delete File: e.rs\n"}"#),
            ("write_file", "not json"),
        ] {
            summary.add_entry(&ConversationEntry::tool_call(None, tool, input));
        }
        assert_eq!(summary.files, ["/a.rs", "/b.rs", "src/c.rs", "d", "e.rs"]);
    }

    #[test]
    fn the_last_word_is_the_agents_own() {
        let mut summary = SessionSummary::default();
        summary.add_entry(&ConversationEntry::new(None, ConversationRole::User, "do it"));
        summary.add_entry(&ConversationEntry::new(None, ConversationRole::Assistant, "done"));
        let aside = ConversationEntry::new(None, ConversationRole::Assistant, "sub done");
        summary.add_entry(&ConversationEntry { subagent: Some("s".into()), ..aside });
        assert_eq!(summary.last_message.as_deref(), Some("done"));
        assert_eq!(summary.prompts, ["do it"]);
    }
}
