//! Goose.
//!
//! Sessions and messages are rows of `sessions/sessions.db`; versions before 1.10 wrote one
//! `sessions/<id>.jsonl` each, whose first line is about the session, and an upgrade copies those
//! into the database under the same ids. A message is written when it is complete. What tools gave
//! back is a message of the user. The session's input tokens include those read from a cache, and
//! only newer schemas say how many those were. No process is registered anywhere.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::conversation::{Entry, Role};
use model::program::Program;
use model::session::FormatCertainty;
use model::sighting::{Digest, Tokens, Turn, shorten};
use model::time::Time;
use rusqlite::{Connection, Row};

use crate::files::{EntryKind, ReadError};
use crate::skim::{self, Broken, Value};
use crate::{About, Adapter, Env, ExtraKind, Opening, Source, Survey, database};

/// Goose.
#[derive(Debug)]
pub(crate) struct Goose;

static ABOUT: About = About {
    id: "goose",
    name: "Goose",
    version: 1,
    certainty: FormatCertainty::Documented,
    program: Program {
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
    note: "sessions.db up to schema 16 and the older files, from source and documentation",
};

const DATABASE: &str = "goose-sqlite";
const TRANSCRIPT: &str = "goose-jsonl";

impl Adapter for Goose {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn roots(&self, env: &Env<'_>) -> Vec<PathBuf> {
        let named = env.path("GOOSE_PATH_ROOT").map(|root| root.join("data"));
        named.or_else(|| Some(env.xdg_data()?.join("goose"))).into_iter().collect()
    }

    fn survey(&self, survey: &mut Survey) {
        let root = survey.root();
        let directory = root.join("sessions");
        let path = directory.join("sessions.db");
        match read_database(&root, &path) {
            Ok(sessions) => survey.ready.extend(sessions),
            Err(error) => survey.failed(&path, &error),
        }
        let imported: HashSet<String> =
            survey.ready.iter().map(|(source, _)| source.id.clone()).collect();
        for entry in survey.list(&directory, |name| name.ends_with(".jsonl")) {
            let Some(id) = entry.stem(".jsonl").filter(|_| entry.kind == EntryKind::File) else {
                continue;
            };
            let path = directory.join(&entry.name);
            if imported.contains(id) {
                survey.extra(ExtraKind::Attachment, &entry, path, Some(id.to_owned()));
            } else {
                survey.found(Source::file(id, &root, path, entry.stamp, TRANSCRIPT));
            }
        }
    }

    fn digest(&self, source: &Source) -> Result<Digest, ReadError> {
        if source.format == TRANSCRIPT {
            let mut reading = Reading::default();
            let end = source.lines(0, |line| reading.line(line))?;
            reading.digest.damage.oversized = end.oversized;
            return Ok(reading.digest);
        }
        let connection = database::open(&source.root, &source.path)?;
        let store = Store::new(&connection)?;
        let mut statement = store.sessions("where id = ?1")?;
        let mut rows = statement.query([&source.id])?;
        let row = rows.next()?.ok_or_else(|| ReadError::format("no such session"))?;
        Ok(store.read(row)?.1)
    }

    /// Positions in the database are the messages' own numbers.
    fn converse(
        &self,
        source: &Source,
        from: u64,
        say: &mut dyn FnMut(Entry),
    ) -> Result<u64, ReadError> {
        if source.format == TRANSCRIPT {
            let end = source.lines(from, |line| {
                if let Ok(message) = Message::read(line) {
                    message.converse(say);
                }
            })?;
            return Ok(end.offset);
        }
        let connection = database::open(&source.root, &source.path)?;
        let mut position = from;
        Store::new(&connection)?.messages(&source.id, from, |number, message| {
            position = number;
            if let Some(Ok(message)) = message {
                message.converse(say);
            }
        })?;
        Ok(position)
    }
}

fn read_database(root: &Arc<Path>, path: &Path) -> Result<Vec<(Source, Digest)>, ReadError> {
    database::sessions(root, path, DATABASE, |connection| {
        let store = Store::new(connection)?;
        let mut statement = store.sessions("order by created_at, id")?;
        let mut rows = statement.query([])?;
        let mut sessions = Vec::new();
        while let Some(row) = rows.next()? {
            sessions.push(store.read(row)?);
        }
        Ok(sessions)
    })
}

/// A database whose schema is known.
struct Store<'a> {
    connection: &'a Connection,
    sessions: Vec<String>,
    messages: Vec<String>,
}

const SESSION_COLUMNS: &str = "id working_dir name description user_set_name created_at updated_at \
    model_config_json parent_session_id accumulated_cost accumulated_input_tokens \
    accumulated_output_tokens accumulated_cache_read_tokens accumulated_cache_write_tokens";

impl<'a> Store<'a> {
    fn new(connection: &'a Connection) -> Result<Self, ReadError> {
        let required = ["id", "working_dir", "created_at", "updated_at"];
        let sessions = database::columns(connection, "sessions", &required)?;
        let required = ["id", "session_id", "role", "content_json", "created_timestamp"];
        let messages = database::columns(connection, "messages", &required)?;
        Ok(Self { connection, sessions, messages })
    }

    fn sessions(&self, which: &str) -> Result<rusqlite::Statement<'a>, ReadError> {
        let list = database::select_list(&self.sessions, SESSION_COLUMNS);
        Ok(self.connection.prepare(&format!("select {list} from sessions {which}"))?)
    }

    /// The id of a session, what its rows say, and how many bytes its messages have.
    fn read(&self, row: &Row<'_>) -> Result<(String, Digest, u64), ReadError> {
        // Columns of an unexpected type are read as absent: the rest of the row still counts.
        let text = |index| row.get::<_, String>(index).ok().filter(|text| !text.is_empty());
        let count = |index| row.get::<_, i64>(index).ok().and_then(|n| u64::try_from(n).ok());
        let id: String = row.get(0)?;
        let mut reading = Reading::default();
        let digest = &mut reading.digest;
        digest.cwd = text(1);
        let named_by_person = row.get(4).unwrap_or(false);
        let title = text(2).or_else(|| text(3));
        digest.title =
            title.filter(|title| named_by_person || !is_placeholder(title)).as_deref().map(shorten);
        digest.model = text(7).and_then(|config| {
            Value::new(config.as_bytes()).get("model_name").and_then(Value::string)
        });
        digest.parent = text(8);
        let dollars: Option<f64> = row.get(9).unwrap_or(None);
        digest.cost_micro_usd = dollars.map(|dollars| (dollars * 1e6).round() as u64);
        if let (Some(input), Some(output), Some(cache_read)) = (count(10), count(11), count(12)) {
            let cache_write = count(13).unwrap_or(0);
            digest.spend(Tokens {
                input: input.saturating_sub(cache_read).saturating_sub(cache_write),
                output,
                cache_read,
                cache_write,
            });
        }
        text(5).and_then(|created| parse_time(&created)).into_iter().for_each(|at| digest.saw(at));
        let bytes = self.messages(&id, 0, |_, message| match message {
            Some(Ok(message)) => reading.message(&message),
            Some(Err(Broken)) => reading.digest.damage.broken += 1,
            None => reading.digest.damage.oversized += 1,
        })?;
        if bytes == 0 {
            let updated = text(6).and_then(|updated| parse_time(&updated));
            updated.into_iter().for_each(|at| reading.digest.saw(at));
        }
        Ok((id, reading.digest, bytes))
    }

    /// Hands out the messages of a session after number `after`; `None` is one that is too large.
    fn messages(
        &self,
        session: &str,
        after: u64,
        mut each: impl FnMut(u64, Option<Result<Message<'_>, Broken>>),
    ) -> Result<u64, ReadError> {
        let metadata = database::select_list(&self.messages, "metadata_json");
        let mut statement = self.connection.prepare_cached(&format!(
            "select id, role, created_timestamp, {}, {metadata} from messages \
             where session_id = ?1 and id > ?2 order by id",
            database::bounded("content_json"),
        ))?;
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let mut rows = statement.query(rusqlite::params![session, after])?;
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            let number = u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0);
            let Some(content) = database::content(row, 3)? else {
                each(number, None);
                continue;
            };
            bytes += content.len() as u64;
            let visible = database::content(row, 4)?
                .and_then(|metadata| Value::new(metadata).get("userVisible").and_then(Value::bool));
            let role: String = row.get(1)?;
            let at = row.get::<_, i64>(2).ok().map(database::epoch);
            each(number, Some(Message::new(&role, at, Value::new(content), visible)));
        }
        Ok(bytes)
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
    content: Value<'a>,
    /// Written for the model's eyes only.
    hidden: bool,
}

impl<'a> Message<'a> {
    fn new(
        role: &str,
        at: Option<Time>,
        content: Value<'a>,
        visible: Option<bool>,
    ) -> Result<Self, Broken> {
        let is_whole = content.array().is_some_and(|mut blocks| blocks.all(|block| block.is_ok()));
        if !is_whole || !matches!(role, "user" | "assistant") {
            return Err(Broken);
        }
        Ok(Self { is_user: role == "user", at, content, hidden: visible == Some(false) })
    }

    /// A line of an older file.
    fn read(line: &'a [u8]) -> Result<Self, Broken> {
        let (mut role, mut at, mut content, mut visible) = (None, None, None, None);
        for field in skim::object(line)? {
            let (key, value) = field?;
            match key {
                b"role" => role = value.string(),
                b"created" => at = value.i64().map(database::epoch),
                b"content" => content = Some(value),
                b"metadata" => visible = value.get("userVisible").and_then(Value::bool),
                _ => {}
            }
        }
        Self::new(&role.ok_or(Broken)?, at, content.ok_or(Broken)?, visible)
    }

    fn blocks(&self) -> impl Iterator<Item = Value<'a>> {
        self.content.array().into_iter().flatten().filter_map(Result::ok)
    }

    fn has(&self, kind: &str) -> bool {
        self.blocks().any(|block| block.get("type").is_some_and(|found| found.is(kind)))
    }

    fn text(&self) -> String {
        let texts = self.blocks().filter_map(|block| block.get("text")?.string());
        texts.collect::<Vec<_>>().join("\n")
    }

    fn converse(&self, say: &mut dyn FnMut(Entry)) {
        let speaker = match (self.hidden, self.is_user) {
            (true, _) => Role::System,
            (false, true) => Role::User,
            (false, false) => Role::Assistant,
        };
        for block in self.blocks() {
            let text = |name| block.get(name).and_then(Value::string).unwrap_or_default();
            match text("type").as_str() {
                "text" => say(Entry::new(self.at, speaker, text("text"))),
                "toolRequest" => {
                    let call = block.get("toolCall").and_then(succeeded);
                    let name = call.and_then(|call| call.get("name")?.string());
                    let input = call.and_then(|call| call.get("arguments"));
                    let input = String::from_utf8_lossy(input.map_or(&b""[..], Value::raw));
                    say(Entry::tool(self.at, name.unwrap_or_default(), input));
                }
                "toolResponse" => {
                    let result = block.get("toolResult").map(result_text).unwrap_or_default();
                    say(Entry::new(self.at, Role::Result, result));
                }
                _ => {}
            }
        }
    }
}

/// The value of a call or result that worked; older versions wrote `Ok` around it.
fn succeeded(outcome: Value<'_>) -> Option<Value<'_>> {
    outcome.get("value").or_else(|| outcome.get("Ok"))
}

fn result_text(outcome: Value<'_>) -> String {
    let Some(value) = succeeded(outcome) else {
        return outcome.get("error").and_then(Value::string).unwrap_or_default();
    };
    let blocks = value.array().or_else(|| value.get("content")?.array());
    let texts = blocks.into_iter().flatten().filter_map(|block| block.ok()?.get("text")?.string());
    texts.collect::<Vec<_>>().join("\n")
}

/// What has been read of a session so far.
#[derive(Default)]
struct Reading {
    digest: Digest,
    begun: bool,
}

impl Reading {
    fn message(&mut self, message: &Message<'_>) {
        if let Some(at) = message.at {
            self.digest.saw(at);
        }
        let waits = message.has("toolConfirmationRequest") || message.has("actionRequired");
        if waits {
            self.digest.turn = Turn::Waiting(Some("permission".to_owned()));
        } else if message.is_user && !message.has("toolResponse") && !message.hidden {
            self.digest.prompted(&message.text());
        } else if message.is_user || message.has("toolRequest") {
            self.digest.turn = Turn::Open;
        } else {
            self.digest.turn = Turn::Closed;
        }
    }

    /// A line of an older file; the first is about the session.
    fn line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let value = Value::new(line);
        if !std::mem::replace(&mut self.begun, true) && value.get("role").is_none() {
            let text = |name| value.get(name).and_then(Value::string);
            self.digest.cwd = text("working_dir");
            let title = text("description").filter(|title| !title.is_empty());
            self.digest.title =
                title.filter(|title| !is_placeholder(title)).as_deref().map(shorten);
            return;
        }
        match Message::read(line) {
            Ok(message) => self.message(&message),
            Err(Broken) => self.digest.damage.broken += 1,
        }
    }
}
