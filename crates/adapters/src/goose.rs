//! The adapter of Goose: reads its sessions.
//!
//! Sessions and messages are rows of `sessions/sessions.db`; versions before 1.10 wrote one
//! `sessions/<id>.jsonl` each, whose first line is about the session, and an upgrade copies those
//! into the database under the same ids. A message is written when it is complete. What tools gave
//! back is a message of the user. The session's input tokens include those read from a cache, and
//! only newer schemas say how many those were. No process is registered anywhere.
//!
//! Read from its source and documentation. The program was never run here: it is in no package registry, so
//! that no state of a live session was ever seen.

use std::collections::HashSet;
use std::path::PathBuf;

use model::conversation::{ConversationEntry, ConversationRole};
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState, shorten_title};
use model::time::Time;
use model::usage::micro_usd;
use rusqlite::{Connection, Row};

use crate::database::{SessionRow, SessionRows};
use crate::files::{EntryKind, ReadError};
use crate::skim::{self, BrokenJson, JsonValue};
use crate::{
    Adapter, AgentProfile, EnvLookup, ExtraFileKind, Opening, Survey, TranscriptSource, database,
};

#[derive(Debug)]
pub(crate) struct Goose;

static GOOSE_PROFILE: AgentProfile = AgentProfile {
    id: "goose",
    name: "Goose",
    version: 1,
    certainty: FormatCertainty::Documented,
    program: AgentProgram {
        names: &["goose", "goosed"],
        packages: &[],
        servers: &[],
        helpers: &[
            "completion",
            "configure",
            "doctor",
            "info",
            "mcp",
            "recipe",
            "schedule",
            "update",
        ],
    },
    resume_options: &["--session-id", "--id"],
    continue_options: &["--resume", "-r"],
    session_variables: &[],
    opening: Opening::ANYWHERE,
    hooks: None,
    note: "sessions.db up to schema 16 and the older files, from source and documentation; never run",
};

const DATABASE: &str = "goose-sqlite";
const TRANSCRIPT: &str = "goose-jsonl";

impl Adapter for Goose {
    fn agent_profile(&self) -> &'static AgentProfile {
        &GOOSE_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "~/.config/goose/config.yaml",
            shape: crate::McpSettingsShape::GooseExtension,
        })
    }

    fn resume_words(&self) -> Vec<&'static str> {
        vec!["goose", "session", "--resume", "--session-id"]
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        let named = env.path_of("GOOSE_PATH_ROOT").map(|root| root.join("data"));
        named.or_else(|| Some(env.xdg_data()?.join("goose"))).into_iter().collect()
    }

    fn survey_root(&self, survey: &mut Survey) {
        let root = survey.root_path();
        let directory = root.join("sessions");
        let path = directory.join("sessions.db");
        database::survey_session_rows::<GooseDatabase>(survey, &path, DATABASE);
        let imported: HashSet<String> =
            survey.ready.iter().map(|(source, _)| source.id.clone()).collect();
        for entry in survey.list_wanted(&directory, |name| name.ends_with(".jsonl")) {
            let Some(id) = entry.strip_suffix(".jsonl").filter(|_| entry.kind == EntryKind::File)
            else {
                continue;
            };
            let path = directory.join(&entry.name);
            if imported.contains(id) {
                survey.note_extra(ExtraFileKind::Attachment, &entry, path, Some(id.to_owned()));
            } else {
                survey.note_file(id, path, entry.stamp, TRANSCRIPT);
            }
        }
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        if source.format == TRANSCRIPT {
            let mut reading = Reading::default();
            let end = source.each_line(0, |line| reading.read_line(line))?;
            reading.digest.damage.oversized = end.oversized;
            return Ok(reading.digest);
        }
        database::read_session_row::<GooseDatabase>(source)
    }

    /// Positions in the database are the messages' own numbers.
    fn read_conversation(
        &self,
        source: &TranscriptSource,
        from: u64,
        say: &mut dyn FnMut(ConversationEntry),
    ) -> Result<u64, ReadError> {
        if source.format == TRANSCRIPT {
            let end = source.each_line(from, |line| {
                if let Ok(message) = Message::parse_line(line) {
                    message.emit_entries(say);
                }
            })?;
            return Ok(end.offset);
        }
        let connection = database::open_read_only(&source.root, &source.path)?;
        let mut position = from;
        let store = GooseDatabase::check_schema(&connection)?;
        store.each_message(&connection, &source.id, from, |number, message| {
            position = number;
            if let Some(Ok(message)) = message {
                message.emit_entries(say);
            }
        })?;
        Ok(position)
    }
}

/// A database whose schema is known.
struct GooseDatabase {
    sessions: Vec<String>,
    messages: Vec<String>,
}

const SESSION_COLUMNS: &str = "id working_dir name description user_set_name created_at updated_at \
    model_config_json parent_session_id accumulated_cost accumulated_input_tokens \
    accumulated_output_tokens accumulated_cache_read_tokens accumulated_cache_write_tokens";

impl SessionRows for GooseDatabase {
    const ORDER: &'static str = "order by created_at, id";

    fn check_schema(connection: &Connection) -> Result<Self, ReadError> {
        let required = ["id", "working_dir", "created_at", "updated_at"];
        let sessions = database::table_columns(connection, "sessions", &required)?;
        let required = ["id", "session_id", "role", "content_json", "created_timestamp"];
        let messages = database::table_columns(connection, "messages", &required)?;
        Ok(Self { sessions, messages })
    }

    fn session_columns(&self) -> String {
        database::select_list(&self.sessions, SESSION_COLUMNS)
    }

    fn read_session(
        &self,
        connection: &Connection,
        row: &Row<'_>,
    ) -> Result<SessionRow, ReadError> {
        let text = |index| database::text_at(row, index);
        let count = |index| database::count_at(row, index);
        let id: String = row.get(0)?;
        let mut reading = Reading::default();
        let digest = &mut reading.digest;
        digest.cwd = text(1);
        let named_by_person = row.get(4).unwrap_or(false);
        let title = text(2).or_else(|| text(3));
        digest.title = title
            .filter(|title| named_by_person || !is_placeholder(title))
            .as_deref()
            .map(shorten_title);
        digest.model = text(7).and_then(|config| {
            JsonValue::new(config.as_bytes()).get("model_name").and_then(JsonValue::to_owned_string)
        });
        digest.parent = text(8);
        let dollars: Option<f64> = row.get(9).unwrap_or(None);
        digest.cost_micro_usd = dollars.map(micro_usd);
        if let (Some(input), Some(output), Some(cache_read)) = (count(10), count(11), count(12)) {
            let cache_write = count(13).unwrap_or(0);
            digest.add_usage(TokenUsage {
                input: input.saturating_sub(cache_read).saturating_sub(cache_write),
                output,
                cache_read,
                cache_write,
            });
        }
        text(5)
            .and_then(|created| parse_time(&created))
            .into_iter()
            .for_each(|at| digest.widen_span(at));
        let bytes = self.each_message(connection, &id, 0, |_, message| match message {
            Some(Ok(message)) => reading.read_message(&message),
            Some(Err(BrokenJson)) => reading.digest.damage.broken += 1,
            None => reading.digest.damage.oversized += 1,
        })?;
        if bytes == 0 {
            let updated = text(6).and_then(|updated| parse_time(&updated));
            updated.into_iter().for_each(|at| reading.digest.widen_span(at));
        }
        Ok((id, reading.digest, bytes))
    }
}

impl GooseDatabase {
    /// Hands out the messages of a session after number `after`; `None` is one that is too large.
    fn each_message(
        &self,
        connection: &Connection,
        session: &str,
        after: u64,
        mut each: impl FnMut(u64, Option<Result<Message<'_>, BrokenJson>>),
    ) -> Result<u64, ReadError> {
        let metadata = database::select_list(&self.messages, "metadata_json");
        let query = format!(
            "select id, role, created_timestamp, {}, {metadata} from messages \
             where session_id = ?1 and id > ?2 order by id",
            database::bounded_column("content_json"),
        );
        database::each_message_row(connection, &query, session, after, |number, row| {
            let Some(content) = database::column_bytes(row, 3)? else {
                each(number, None);
                return Ok(0);
            };
            let visible = database::column_bytes(row, 4)?.and_then(|metadata| {
                JsonValue::new(metadata).get("userVisible").and_then(JsonValue::as_bool)
            });
            let role: String = row.get(1)?;
            let at = row.get::<_, i64>(2).ok().map(database::time_from_epoch);
            each(number, Some(Message::new(&role, at, JsonValue::new(content), visible)));
            Ok(content.len())
        })
    }
}

/// `2026-04-18 12:34:56`, in UTC, or RFC 3339.
fn parse_time(text: &str) -> Option<Time> {
    Time::parse(text).or_else(|| Time::parse(&format!("{}Z", text.replacen(' ', "T", 1))))
}

/// What a session is called until the agent has thought of something.
fn is_placeholder(name: &str) -> bool {
    ["ACP Session", "CLI Session", "New Chat", "New Session", "New session"].contains(&name)
}

/// A message, from a row or a line.
struct Message<'a> {
    is_user: bool,
    at: Option<Time>,
    content: JsonValue<'a>,
    /// Written for the model's eyes only.
    hidden: bool,
}

impl<'a> Message<'a> {
    fn new(
        role: &str,
        at: Option<Time>,
        content: JsonValue<'a>,
        visible: Option<bool>,
    ) -> Result<Self, BrokenJson> {
        let is_whole =
            content.as_array().is_some_and(|mut blocks| blocks.all(|block| block.is_ok()));
        if !is_whole || !matches!(role, "user" | "assistant") {
            return Err(BrokenJson);
        }
        Ok(Self { is_user: role == "user", at, content, hidden: visible == Some(false) })
    }

    /// A line of an older file.
    fn parse_line(line: &'a [u8]) -> Result<Self, BrokenJson> {
        let (mut role, mut at, mut content, mut visible) = (None, None, None, None);
        for field in skim::parse_object(line)? {
            let (key, value) = field?;
            match key {
                b"role" => role = value.to_owned_string(),
                b"created" => at = value.as_i64().map(database::time_from_epoch),
                b"content" => content = Some(value),
                b"metadata" => visible = value.get("userVisible").and_then(JsonValue::as_bool),
                _ => {}
            }
        }
        Self::new(&role.ok_or(BrokenJson)?, at, content.ok_or(BrokenJson)?, visible)
    }

    fn content_blocks(&self) -> impl Iterator<Item = JsonValue<'a>> {
        self.content.as_array().into_iter().flatten().filter_map(Result::ok)
    }

    fn has_block(&self, kind: &str) -> bool {
        self.content_blocks()
            .any(|block| block.get("type").is_some_and(|found| found.is_string(kind)))
    }

    fn joined_text(&self) -> String {
        let texts = self.content_blocks().filter_map(|block| block.get("text")?.to_owned_string());
        texts.collect::<Vec<_>>().join("\n")
    }

    fn emit_entries(&self, say: &mut dyn FnMut(ConversationEntry)) {
        let speaker = match (self.hidden, self.is_user) {
            (true, _) => ConversationRole::System,
            (false, true) => ConversationRole::User,
            (false, false) => ConversationRole::Assistant,
        };
        for block in self.content_blocks() {
            let text =
                |name| block.get(name).and_then(JsonValue::to_owned_string).unwrap_or_default();
            match text("type").as_str() {
                "text" => say(ConversationEntry::new(self.at, speaker, text("text"))),
                "toolRequest" => {
                    let call = block.get("toolCall").and_then(success_value);
                    let name = call.and_then(|call| call.get("name")?.to_owned_string());
                    let input = call.and_then(|call| call.get("arguments"));
                    let input = String::from_utf8_lossy(input.map_or(&b""[..], JsonValue::raw));
                    say(ConversationEntry::tool_call(self.at, name.unwrap_or_default(), input));
                }
                "toolResponse" => {
                    let result = block.get("toolResult").map(result_text).unwrap_or_default();
                    say(ConversationEntry::new(self.at, ConversationRole::Result, result));
                }
                _ => {}
            }
        }
    }
}

/// The value of a call or result that worked; older versions wrote `Ok` around it.
fn success_value(outcome: JsonValue<'_>) -> Option<JsonValue<'_>> {
    outcome.get("value").or_else(|| outcome.get("Ok"))
}

fn result_text(outcome: JsonValue<'_>) -> String {
    let Some(value) = success_value(outcome) else {
        return outcome.get("error").and_then(JsonValue::to_owned_string).unwrap_or_default();
    };
    let blocks = value.as_array().or_else(|| value.get("content")?.as_array());
    let texts =
        blocks.into_iter().flatten().filter_map(|block| block.ok()?.get("text")?.to_owned_string());
    texts.collect::<Vec<_>>().join("\n")
}

/// What has been read of a session so far.
#[derive(Default)]
struct Reading {
    digest: TranscriptDigest,
    begun: bool,
}

impl Reading {
    fn read_message(&mut self, message: &Message<'_>) {
        if let Some(at) = message.at {
            self.digest.widen_span(at);
        }
        let waits =
            message.has_block("toolConfirmationRequest") || message.has_block("actionRequired");
        if waits {
            self.digest.turn = TurnState::Waiting(Some("permission".to_owned()));
        } else if message.is_user && !message.has_block("toolResponse") && !message.hidden {
            self.digest.count_prompt(&message.joined_text());
        } else if message.is_user || message.has_block("toolRequest") {
            self.digest.turn = TurnState::Open;
        } else {
            self.digest.turn = TurnState::Closed;
        }
    }

    /// A line of an older file; the first is about the session.
    fn read_line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let value = JsonValue::new(line);
        if !std::mem::replace(&mut self.begun, true) && value.get("role").is_none() {
            let text = |name| value.get(name).and_then(JsonValue::to_owned_string);
            self.digest.cwd = text("working_dir");
            let title = text("description").filter(|title| !title.is_empty());
            self.digest.title =
                title.filter(|title| !is_placeholder(title)).as_deref().map(shorten_title);
            return;
        }
        match Message::parse_line(line) {
            Ok(message) => self.read_message(&message),
            Err(BrokenJson) => self.digest.damage.broken += 1,
        }
    }
}
