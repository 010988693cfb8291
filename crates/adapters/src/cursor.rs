//! Cursor's command line agent.
//!
//! Transcripts are `projects/<slug>/agent-transcripts/<id>/<id>.jsonl`, with sub-agents in
//! `<id>/subagents/`; older ones lie flat in `agent-transcripts/`. A line has a role and content
//! and neither time, model nor tokens. What there is of that stands in `chats/<hash>/<id>/`:
//! `meta.json` has the directory, and `store.db` a hex-encoded description (name, model, time of
//! creation) beside blobs in a private format. A chat without a transcript is still a
//! session. All of this is known from other people's readers, not from files of the real program.
//!
//! The program was never run here: it is in no package registry. Nothing is known of how a prompt, an
//! interrupt or a resume shows in its files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use model::conversation::{ConversationEntry, ConversationRole};
use model::event::HookHappening;
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{TranscriptDigest, TurnState, shorten_title};

use crate::files::{self, EntryKind, ReadError};
use crate::hooks::{AgentHooks, HookFileShape, HookMeaning, HookWiring};
use crate::skim::{self, JsonValue};
use crate::{
    Adapter, AgentProfile, EnvLookup, LineConversation, Opening, Survey, TranscriptSource, database,
};

/// Cursor's command line agent.
#[derive(Debug)]
pub(crate) struct CursorCli;

static CURSOR_PROFILE: AgentProfile = AgentProfile {
    id: "cursor",
    name: "Cursor CLI",
    version: 1,
    certainty: FormatCertainty::Documented,
    program: AgentProgram {
        names: &["cursor-agent"],
        packages: &["cursor-agent/versions"],
        servers: &[],
        helpers: &["login", "logout", "mcp", "status", "update", "upgrade", "worker"],
    },
    resume_options: &["--resume"],
    continue_options: &["--continue"],
    session_variables: &[],
    opening: Opening::ANYWHERE,
    hooks: Some(&AgentHooks {
        events: &[
            ("sessionStart", HookMeaning::Is(HookHappening::SessionStart)),
            ("beforeSubmitPrompt", HookMeaning::Prompt),
            ("postToolUse", HookMeaning::Is(HookHappening::Progress)),
            ("stop", HookMeaning::Is(HookHappening::TurnEnd)),
            ("sessionEnd", HookMeaning::Is(HookHappening::SessionEnd)),
        ],
        pid_variables: &[],
        wiring: HookWiring {
            user: |env| {
                Some(env.root_or_home("CURSOR_CONFIG_DIR", ".cursor").pop()?.join("hooks.json"))
            },
            project: Some(|project| project.join(".cursor/hooks.json")),
            shape: HookFileShape::Flat { command: "command", timeout: "timeout", typed: false },
            notify: None,
        },
    }),
    note: "transcripts and chat descriptions as other readers describe them; no tokens; never run",
};

const TRANSCRIPT: &str = "cursor-jsonl";
const STORE: &str = "cursor-store";

impl Adapter for CursorCli {
    fn agent_profile(&self) -> &'static AgentProfile {
        &CURSOR_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "~/.cursor/mcp.json",
            shape: crate::McpSettingsShape::McpServers,
        })
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        if let Some(root) = env.path_of("CURSOR_CONFIG_DIR") {
            return vec![root];
        }
        let xdg = env.path_of("XDG_CONFIG_HOME").map(|config| config.join("cursor"));
        env.in_home(".cursor").into_iter().chain(xdg).collect()
    }

    fn survey_root(&self, survey: &mut Survey) {
        let mut chats = list_chats(survey);
        let projects = survey.root_path().join("projects");
        for project in survey.list_wanted(&projects, |_| true) {
            if project.kind == EntryKind::Directory {
                let transcripts = projects.join(&project.name).join("agent-transcripts");
                survey_transcripts(survey, &transcripts, &mut chats);
            }
        }
        let root = survey.root_path();
        for (id, chat) in chats {
            let store = chat.join("store.db");
            if let Some(stamp) = files::stamp_path(&store) {
                let source = TranscriptSource::from_file(id, &root, store, stamp, STORE);
                survey.note_source(
                    source
                        .with_side_file(chat.join("meta.json"))
                        .with_side_file(chat.join("store.db-wal")),
                );
            }
        }
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        let mut reading = Reading::default();
        if source.format == STORE {
            describe_chat(source, &source.path, &mut reading.digest)?;
        } else {
            let end = source.each_line(0, |line| reading.read_line(line))?;
            reading.digest.damage.oversized = end.oversized;
        }
        for (path, _) in &source.beside {
            let read = match path.file_name().and_then(|name| name.to_str()) {
                Some("meta.json") => read_meta(source, path, &mut reading.digest),
                Some("store.db") => describe_chat(source, path, &mut reading.digest),
                _ => continue,
            };
            // The conversation is there; only what describes it is not.
            reading.digest.damage.broken += u32::from(read.is_err());
        }
        Ok(reading.digest)
    }

    fn line_conversation(&self) -> Option<LineConversation> {
        Some(converse_line)
    }

    fn read_conversation(
        &self,
        source: &TranscriptSource,
        from: u64,
        say: &mut dyn FnMut(ConversationEntry),
    ) -> Result<u64, ReadError> {
        if source.format == STORE {
            return Ok(from);
        }
        Ok(source.each_line(from, |line| converse_line(line, say))?.offset)
    }
}

/// `chats/<hash>/<id>`, by id.
fn list_chats(survey: &mut Survey) -> HashMap<String, PathBuf> {
    let chats = survey.root_path().join("chats");
    let mut found = HashMap::new();
    for workspace in survey.list_wanted(&chats, |_| true) {
        if workspace.kind == EntryKind::Directory {
            let workspace = chats.join(&workspace.name);
            for chat in survey.list_wanted(&workspace, |_| true) {
                if let (Some(id), EntryKind::Directory) = (chat.name.to_str(), chat.kind) {
                    found.insert(id.to_owned(), workspace.join(&chat.name));
                }
            }
        }
    }
    found
}

fn survey_transcripts(survey: &mut Survey, directory: &Path, chats: &mut HashMap<String, PathBuf>) {
    let is_transcript = |name: &str| name.ends_with(".jsonl");
    for entry in survey.list_wanted(directory, |_| true) {
        let path = directory.join(&entry.name);
        if entry.kind != EntryKind::Directory {
            note_transcript(survey, path, &entry, None, chats);
            continue;
        }
        let session = entry.name.to_str();
        for inner in survey.list_wanted(&path, is_transcript) {
            note_transcript(survey, path.join(&inner.name), &inner, None, chats);
        }
        let subagents = path.join("subagents");
        for inner in survey.list_wanted(&subagents, is_transcript) {
            note_transcript(survey, subagents.join(&inner.name), &inner, session, chats);
        }
    }
}

fn note_transcript(
    survey: &mut Survey,
    path: PathBuf,
    entry: &files::DirEntry,
    parent: Option<&str>,
    chats: &mut HashMap<String, PathBuf>,
) {
    let Some(id) = entry.strip_suffix(".jsonl").filter(|_| entry.kind == EntryKind::File) else {
        return;
    };
    let mut source =
        TranscriptSource::from_file(id, &survey.root_path(), path, entry.stamp, TRANSCRIPT);
    source.parent = parent.map(str::to_owned);
    if let Some(chat) = chats.remove(id) {
        source = source
            .with_side_file(chat.join("meta.json"))
            .with_side_file(chat.join("store.db"))
            .with_side_file(chat.join("store.db-wal"));
    }
    survey.note_source(source);
}

fn read_meta(
    source: &TranscriptSource,
    path: &Path,
    digest: &mut TranscriptDigest,
) -> Result<(), ReadError> {
    let (meta, _) = files::read_json::<serde_json::Value>(&source.root, path)?;
    digest.cwd = meta.get("cwd").and_then(|cwd| cwd.as_str()).map(str::to_owned);
    Ok(())
}

/// Reads the description of a chat from its store.
fn describe_chat(
    source: &TranscriptSource,
    path: &Path,
    digest: &mut TranscriptDigest,
) -> Result<(), ReadError> {
    let connection = database::open_read_only(&source.root, path)?;
    if !database::has_column(&connection, "meta", "value")? {
        return Err(ReadError::unknown_format(
            "no table meta(key, value): an unknown version of the store",
        ));
    }
    let hex: String =
        connection.query_row("select value from meta where key = '0'", [], |row| row.get(0))?;
    let text = decode_hex(&hex)
        .ok_or_else(|| ReadError::unknown_format("its description is not hexadecimal"))?;
    let description = JsonValue::new(&text);
    let name = description.get("name").and_then(JsonValue::to_owned_string);
    digest.title = name.filter(|name| !is_placeholder(name)).map(|name| shorten_title(&name));
    if let Some(model) = description.get("lastUsedModel").and_then(JsonValue::as_str) {
        digest.note_model(&model);
    }
    digest.started_at = description.get("createdAt").and_then(JsonValue::as_time);
    Ok(())
}

fn is_placeholder(name: &str) -> bool {
    ["", "New Agent", "New Chat"].contains(&name.trim())
}

fn decode_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    };
    hex.trim().as_bytes().chunks(2).map(pair).collect()
}

#[derive(Default)]
struct Reading {
    digest: TranscriptDigest,
}

impl Reading {
    fn read_line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match Line::parse_line(line) {
            Ok(line) => self.read_record(&line),
            Err(skim::BrokenJson) => self.digest.damage.broken += 1,
        }
    }

    fn read_record(&mut self, line: &Line<'_>) {
        if line.kind.is_some_and(|kind| kind.is_string("turn_ended")) {
            self.digest.turn = TurnState::Closed;
        } else if line.is_by("user") {
            let text = unwrap_query(&line.joined_text());
            if text.is_empty() {
                self.digest.turn = TurnState::Open;
            } else {
                self.digest.count_prompt(&text);
            }
        } else if line.is_by("assistant") {
            let is_call = |kind: JsonValue<'_>| kind.is_string("tool_use");
            let calls = line.content_blocks().any(|block| block.get("type").is_some_and(is_call));
            self.digest.turn = if calls { TurnState::Open } else { TurnState::Closed };
        }
    }
}

/// The fields of a line that matter.
#[derive(Default)]
struct Line<'a> {
    role: Option<JsonValue<'a>>,
    kind: Option<JsonValue<'a>>,
    content: Option<JsonValue<'a>>,
}

impl<'a> Line<'a> {
    fn parse_line(line: &'a [u8]) -> Result<Self, skim::BrokenJson> {
        let mut found = Self::default();
        for field in skim::parse_object(line)? {
            let (key, value) = field?;
            match key {
                b"role" => found.role = Some(value),
                b"type" => found.kind = Some(value),
                b"message" => found.content = value.get("content"),
                _ => {}
            }
        }
        Ok(found)
    }

    fn is_by(&self, role: &str) -> bool {
        self.role.is_some_and(|value| value.is_string(role))
    }

    fn content_blocks(&self) -> impl Iterator<Item = JsonValue<'a>> + use<'a> {
        self.content.into_iter().flat_map(JsonValue::iter_elements)
    }

    fn joined_text(&self) -> String {
        if let Some(text) = self.content.and_then(JsonValue::to_owned_string) {
            return text;
        }
        let texts = self.content_blocks().filter_map(|block| block.get("text")?.to_owned_string());
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// What a person typed: the query, out of the context that the program wraps around it.
fn unwrap_query(text: &str) -> String {
    let inside = text.split_once("<user_query>").map(|(_, rest)| rest);
    let query =
        inside.map(|rest| rest.split_once("</user_query>").map_or(rest, |(query, _)| query));
    query.unwrap_or(text).trim().to_owned()
}

fn converse_line(line: &[u8], say: &mut dyn FnMut(ConversationEntry)) {
    let Ok(line) = Line::parse_line(line) else { return };
    if line.is_by("user") {
        let text = unwrap_query(&line.joined_text());
        if !text.is_empty() {
            say(ConversationEntry::new(None, ConversationRole::User, text));
        }
    } else if line.is_by("assistant") {
        if let Some(text) = line.content.and_then(JsonValue::to_owned_string) {
            say(ConversationEntry::new(None, ConversationRole::Assistant, text));
        }
    } else {
        return;
    }
    for block in line.content_blocks() {
        let text = |name| block.get(name).and_then(JsonValue::to_owned_string).unwrap_or_default();
        match text("type").as_str() {
            "text" if line.is_by("assistant") => {
                say(ConversationEntry::new(None, ConversationRole::Assistant, text("text")));
            }
            "tool_use" => {
                let input = block.get("input").map_or(&b""[..], JsonValue::raw);
                say(ConversationEntry::tool_call(
                    None,
                    text("name"),
                    String::from_utf8_lossy(input),
                ));
            }
            "tool_result" => {
                say(ConversationEntry::new(None, ConversationRole::Result, text("content")))
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_is_taken_out_of_its_wrapping() {
        let wrapped =
            "<timestamp>Monday</timestamp>\n<user_query>\nfix it\n</user_query>\n<context>x";
        assert_eq!(unwrap_query(wrapped), "fix it");
        assert_eq!(unwrap_query(" plain "), "plain");
        assert_eq!(unwrap_query("<user_query>cut off"), "cut off");
    }

    #[test]
    fn hexadecimal_is_read_or_refused() {
        assert_eq!(decode_hex("7b7d"), Some(b"{}".to_vec()));
        assert_eq!(decode_hex("7b7"), None);
        assert_eq!(decode_hex("zz"), None);
    }
}
