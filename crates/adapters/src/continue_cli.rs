//! Continue's command line, `cn`.
//!
//! A session is one document, `sessions/<id>.json`, written anew at every step; `sessions.json` lists
//! them with the time each was begun. The document has no times of its own, so that its last change is
//! that of the file. No process is written down. A prompt is saved together with the answer's first
//! step, so the first seconds of a turn are not on the disk.
//!
//! Traps: a tool call whose state is `generated` waits for a person's consent; the title is
//! `Untitled Session` until the agent has thought of one; input tokens include cached ones.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use model::conversation::{ConversationEntry, ConversationRole};
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState, shorten_title};
use model::time::Time;
use model::usage::micro_usd;

use crate::blocks::text_of;
use crate::files::{EntryKind, ReadError};
use crate::skim::{self, JsonValue};
use crate::{Adapter, AgentProfile, EnvLookup, Opening, Survey, TranscriptSource, files};

/// Continue's command line.
#[derive(Debug)]
pub(crate) struct ContinueCli;

static CONTINUE_PROFILE: AgentProfile = AgentProfile {
    id: "continue",
    name: "Continue",
    version: 1,
    certainty: FormatCertainty::Lab,
    program: AgentProgram {
        names: &["cn"],
        packages: &["@continuedev/cli"],
        servers: &["serve"],
        helpers: &["checks", "login", "logout", "ls", "remote", "review", "update"],
    },
    resume_options: &[],
    continue_options: &["--resume"],
    session_variables: &[],
    opening: Opening::ANYWHERE,
    hooks: None,
    note: "sessions of 1.5.47; those of its editor extensions have the same shape and were not tried",
};

const FORMAT: &str = "continue-json";

/// The list of sessions.
const INDEX: &str = "sessions.json";

impl Adapter for ContinueCli {
    fn agent_profile(&self) -> &'static AgentProfile {
        &CONTINUE_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "~/.continue/config.yaml",
            shape: crate::McpSettingsShape::YamlList,
        })
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        env.root_or_home("CONTINUE_GLOBAL_DIR", ".continue")
    }

    fn survey_root(&self, survey: &mut Survey) {
        let root = survey.root_path();
        let sessions = root.join("sessions");
        let begun = read_index(survey, &sessions.join(INDEX));
        for entry in survey.list_wanted(&sessions, |name| name.ends_with(".json")) {
            let Some(id) = entry.strip_suffix(".json").filter(|_| entry.kind == EntryKind::File)
            else {
                continue;
            };
            if entry.name == INDEX {
                continue;
            }
            let path = sessions.join(&entry.name);
            let source = TranscriptSource::from_file(id, &root, path, entry.stamp, FORMAT);
            let started_at = begun.get(id).copied();
            survey.note_source(TranscriptSource { started_at, ..source });
        }
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        let (bytes, _) = files::read_document(&source.root, &source.path)?;
        let document = Document::parse_document(&bytes)?;
        let mut digest = TranscriptDigest {
            cwd: document.text("workspaceDirectory"),
            title: document
                .text("title")
                .filter(|title| title != "Untitled Session")
                .map(|title| shorten_title(title.trim())),
            ..TranscriptDigest::default()
        };
        for item in document.history()? {
            read_item(&mut digest, item.map_err(|skim::BrokenJson| broken())?);
        }
        if let Some(usage) = document.field("usage") {
            let number = |path: &[&str]| usage.value_at(path).and_then(JsonValue::as_u64);
            let cached = number(&["promptTokensDetails", "cachedTokens"]).unwrap_or(0);
            let written = number(&["promptTokensDetails", "cacheWriteTokens"]).unwrap_or(0);
            if let Some(prompt) = number(&["promptTokens"]).filter(|_| digest.model.is_some()) {
                digest.tokens = Some(TokenUsage {
                    input: prompt.saturating_sub(cached).saturating_sub(written),
                    output: number(&["completionTokens"]).unwrap_or(0),
                    cache_read: cached,
                    cache_write: written,
                });
            }
            let cost = usage.get("totalCost").and_then(JsonValue::as_f64);
            let cost = cost.filter(|&usd| usd > 0.0);
            digest.cost_micro_usd = cost.map(micro_usd);
        }
        Ok(digest)
    }

    /// Positions count items of the history; the last one may still change, and is told only to
    /// those who read from the start.
    fn read_conversation(
        &self,
        source: &TranscriptSource,
        from: u64,
        say: &mut dyn FnMut(ConversationEntry),
    ) -> Result<u64, ReadError> {
        let (bytes, _) = files::read_document(&source.root, &source.path)?;
        let document = Document::parse_document(&bytes)?;
        let items: Vec<JsonValue<'_>> = document.history()?.flatten().collect();
        let mut position = from;
        for (index, item) in items.iter().enumerate() {
            let number = index as u64 + 1;
            let settled = !is_open(*item) || number < items.len() as u64;
            if number > from && (settled || from == 0) {
                converse_item(*item, say);
            }
            if settled && number > position {
                position = number;
            }
        }
        Ok(position)
    }
}

/// When each session was begun. A list that cannot be read hides no session.
fn read_index(survey: &mut Survey, index: &Path) -> HashMap<String, Time> {
    let list = match files::read_json::<serde_json::Value>(&survey.root_path(), index) {
        Ok((list, _)) => list,
        Err(error) => {
            survey.note_problem(index, &error);
            return HashMap::new();
        }
    };
    let begun = |entry: &serde_json::Value| {
        let id = entry.get("sessionId")?.as_str()?.to_owned();
        let millis = entry.get("dateCreated")?;
        let millis = millis.as_i64().or_else(|| millis.as_str()?.parse().ok())?;
        Some((id, Time::from_millis(millis)))
    };
    list.as_array().into_iter().flatten().filter_map(begun).collect()
}

fn broken() -> ReadError {
    ReadError::unknown_format("not the JSON it should be")
}

/// The fields of the whole document.
struct Document<'a>(Vec<(&'a [u8], JsonValue<'a>)>);

impl<'a> Document<'a> {
    fn parse_document(bytes: &'a [u8]) -> Result<Self, ReadError> {
        if bytes.trim_ascii().is_empty() {
            return Err(ReadError::Empty);
        }
        let fields = skim::parse_object(bytes).map_err(|skim::BrokenJson| broken())?;
        let fields: Result<Vec<_>, skim::BrokenJson> = fields.collect();
        Ok(Self(fields.map_err(|skim::BrokenJson| broken())?))
    }

    fn field(&self, name: &str) -> Option<JsonValue<'a>> {
        self.0.iter().find(|(key, _)| *key == name.as_bytes()).map(|(_, value)| *value)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.field(name)?.to_owned_string().filter(|text| !text.trim().is_empty())
    }

    fn history(&self) -> Result<skim::JsonArray<'a>, ReadError> {
        let history = self.field("history").and_then(JsonValue::as_array);
        history.ok_or_else(|| ReadError::unknown_format("no history in it"))
    }
}

fn read_item(digest: &mut TranscriptDigest, item: JsonValue<'_>) {
    let Some(message) = item.get("message") else { return };
    let is = |role: &str| message.get("role").is_some_and(|said| said.is_string(role));
    if is("user") {
        let text = message.get("content").map(text_of).unwrap_or_default();
        digest.count_prompt(&text);
    } else if is("assistant") {
        if let Some(model) = message.value_at(&["usage", "model"]).and_then(JsonValue::as_str) {
            digest.note_model(&model);
        }
        digest.turn = turn_after(item);
    } else if is("tool") {
        digest.turn = TurnState::Open;
    }
}

/// Where a turn stands after an answer: its tool calls say what became of each.
fn turn_after(item: JsonValue<'_>) -> TurnState {
    let calls = item.get("toolCallStates");
    let mut refused = false;
    for call in calls.into_iter().flat_map(JsonValue::iter_elements) {
        let status = call.get("status").and_then(JsonValue::to_owned_string).unwrap_or_default();
        match status.as_str() {
            "generated" => {
                let name = call.value_at(&["toolCall", "function", "name"]);
                return TurnState::Waiting(name.and_then(JsonValue::to_owned_string));
            }
            "canceled" => refused = true,
            _ => {}
        }
    }
    let asks = calls.is_some_and(|calls| calls.first_element().is_some());
    if asks && !refused { TurnState::Open } else { TurnState::Closed }
}

/// Whether an item may still change.
fn is_open(item: JsonValue<'_>) -> bool {
    let role = item.value_at(&["message", "role"]);
    role.is_some_and(|role| role.is_string("assistant")) && turn_after(item) != TurnState::Closed
}

fn converse_item(item: JsonValue<'_>, say: &mut dyn FnMut(ConversationEntry)) {
    let Some(message) = item.get("message") else { return };
    let text = message.get("content").map(text_of).unwrap_or_default();
    let role = match message.get("role").and_then(JsonValue::to_owned_string).as_deref() {
        Some("user") => ConversationRole::User,
        Some("assistant") => ConversationRole::Assistant,
        Some("tool") => ConversationRole::Result,
        _ => ConversationRole::System,
    };
    if !text.is_empty() {
        say(ConversationEntry::new(None, role, text));
    }
    for call in item.get("toolCallStates").into_iter().flat_map(JsonValue::iter_elements) {
        let part = |name| call.value_at(&["toolCall", "function", name]).map(text_of);
        let (name, input) = (part("name").unwrap_or_default(), part("arguments"));
        say(ConversationEntry::tool_call(None, name, input.unwrap_or_default()));
        for output in call.get("output").into_iter().flat_map(JsonValue::iter_elements) {
            let result = output.get("content").map(text_of).unwrap_or_default();
            say(ConversationEntry::new(None, ConversationRole::Result, result));
        }
    }
}
