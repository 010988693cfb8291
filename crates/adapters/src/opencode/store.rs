//! OpenCode's databases: sessions, messages and parts are rows, their content is JSON.

use std::collections::HashMap;
use std::path::Path;

use model::conversation::ConversationRole;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState, shorten_title};
use model::time::Time;
use rusqlite::{Connection, Row};

use super::telling::OpenCodeConversation;
use super::{DATABASE, Message, Prompt, Reading};
use crate::files::ReadError;
use crate::skim::JsonValue;
use crate::{TranscriptSource, database, files};

/// Every session of a database, with when it was last changed.
pub(super) fn read_database(
    root: &std::sync::Arc<Path>,
    path: &Path,
) -> Result<Vec<(TranscriptSource, TranscriptDigest, i64)>, ReadError> {
    let connection = database::open_read_only(root, path)?;
    // One snapshot for all queries: a session must not change between its row and its messages.
    let snapshot = connection.unchecked_transaction()?;
    let stamp = files::stamp_path(path).unwrap_or_default();
    let store = OpenCodeDatabase::new(&snapshot)?;
    let shares = Shares::new(&snapshot)?;
    let mut statement = store.select_sessions("order by time_created, id")?;
    let mut rows = statement.query([])?;
    let mut sessions = Vec::new();
    while let Some(row) = rows.next()? {
        let session = OpenCodeSessionRow::new(row)?;
        let digest = store.read_session(&session)?;
        let source = TranscriptSource {
            parent: session.parent.clone(),
            bytes: Some(shares.share_of(&session.id)),
            ..TranscriptSource::from_file(
                session.id.clone(),
                root,
                path.to_owned(),
                stamp,
                DATABASE,
            )
        };
        sessions.push((source, digest, session.updated));
    }
    Ok(sessions)
}

/// How much of the database each session takes, by its share of the parts: an index knows their
/// number, while measuring each of them doubled the time of the whole survey.
struct Shares {
    bytes: u64,
    all: u64,
    parts: HashMap<String, u64>,
}

impl Shares {
    fn new(connection: &Connection) -> Result<Self, ReadError> {
        // Not the size of the file: all of it may still be in the write-ahead log.
        let size = "select page_count * page_size from pragma_page_count, pragma_page_size";
        let bytes: i64 = connection.query_row(size, [], |row| row.get(0))?;
        let count = "select session_id, count(*) from part group by session_id";
        let mut statement = connection.prepare(count)?;
        let mut rows = statement.query([])?;
        let mut parts = HashMap::new();
        while let Some(row) = rows.next()? {
            parts.insert(row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs());
        }
        let all = parts.values().sum();
        Ok(Self { bytes: bytes.unsigned_abs(), all, parts })
    }

    fn share_of(&self, session: &str) -> u64 {
        let parts = u128::from(self.parts.get(session).copied().unwrap_or(0));
        let share = u128::from(self.bytes) * parts / u128::from(self.all.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

/// A database whose schema is known.
pub(super) struct OpenCodeDatabase<'a> {
    connection: &'a Connection,
    columns: Vec<String>,
}

/// A row of `session`.
pub(super) struct OpenCodeSessionRow {
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) directory: Option<String>,
    pub(super) title: Option<String>,
    pub(super) version: Option<String>,
    pub(super) created: i64,
    pub(super) updated: i64,
    pub(super) cost: Option<f64>,
    pub(super) tokens: TokenUsage,
}

impl OpenCodeSessionRow {
    const COLUMNS: &str = "id parent_id directory title version time_created time_updated cost \
        tokens_input tokens_output tokens_reasoning tokens_cache_read tokens_cache_write";

    pub(super) fn new(row: &Row<'_>) -> Result<Self, ReadError> {
        let text = |index| database::text_at(row, index);
        let number = |index| row.get::<_, i64>(index).ok();
        let count = |index| database::count_at(row, index).unwrap_or(0);
        Ok(Self {
            id: row.get(0)?,
            parent: text(1),
            directory: text(2),
            title: text(3),
            version: text(4),
            created: number(5).unwrap_or(0),
            updated: number(6).unwrap_or(0),
            cost: row.get(7).ok(),
            tokens: TokenUsage {
                input: count(8),
                output: count(9).saturating_add(count(10)),
                cache_read: count(11),
                cache_write: count(12),
            },
        })
    }
}

impl<'a> OpenCodeDatabase<'a> {
    pub(super) fn new(connection: &'a Connection) -> Result<Self, ReadError> {
        let required = ["id", "directory", "title", "time_created", "time_updated"];
        let columns = database::table_columns(connection, "session", &required)?;
        database::table_columns(
            connection,
            "message",
            &["id", "session_id", "time_created", "data"],
        )?;
        database::table_columns(connection, "part", &["id", "message_id", "session_id", "data"])?;
        Ok(Self { connection, columns })
    }

    pub(super) fn select_sessions(
        &self,
        which: &str,
    ) -> Result<rusqlite::Statement<'a>, ReadError> {
        let list = database::select_list(&self.columns, OpenCodeSessionRow::COLUMNS);
        Ok(self.connection.prepare(&format!("select {list} from session {which}"))?)
    }

    /// What the session's rows say.
    pub(super) fn read_session(
        &self,
        session: &OpenCodeSessionRow,
    ) -> Result<TranscriptDigest, ReadError> {
        let mut reading = Reading::new(session);
        let mut messages = self.connection.prepare_cached(&format!(
            "select id, {} from message where session_id = ?1 order by time_created, id",
            database::bounded_column("data")
        ))?;
        let mut rows = messages.query([&session.id])?;
        let mut last = None;
        while let Some(row) = rows.next()? {
            let role = reading.read_message(database::column_bytes(row, 1)?);
            let message = row.get::<_, String>(0)?;
            if let Some(ConversationRole::User) = role {
                self.read_prompt(&message, &mut reading)?;
            }
            last = Some(message);
        }
        let mut digest = reading.into_digest();
        if let (TurnState::Open, Some(last)) = (&digest.turn, last)
            && let Some(asked) = self.find_asked(&last)?
        {
            digest.turn = TurnState::Asking(Some(asked));
        }
        digest.ended_at = self.end_of_task(session)?;
        Ok(digest)
    }

    /// A call of this message that was made and has not begun: a command that runs has its output written
    /// from the first moment on, and one that waits for consent has none.
    fn find_asked(&self, message: &str) -> Result<Option<String>, ReadError> {
        let mut parts = self.connection.prepare_cached(&format!(
            "select {} from part where message_id = ?1 order by id desc",
            database::bounded_column("data")
        ))?;
        let mut rows = parts.query([message])?;
        while let Some(row) = rows.next()? {
            let Some(part) = database::column_bytes(row, 0)?.map(JsonValue::new) else { continue };
            let is = |path: &[&str], text| part.value_at(path).is_some_and(|v| v.is_string(text));
            let is_command = is(&["tool"], "bash") && is(&["state", "status"], "running");
            if is_command && part.value_at(&["state", "metadata", "output"]).is_none() {
                let command = part.value_at(&["state", "input", "command"]);
                let command = command.and_then(JsonValue::to_owned_string);
                return Ok(Some(shorten_title(&command.unwrap_or_else(|| "bash".to_owned()))));
            }
        }
        Ok(None)
    }

    /// When the task of a sub-agent was done: its parent's call says so, the newest of them if it
    /// was given several.
    fn end_of_task(&self, session: &OpenCodeSessionRow) -> Result<Option<Time>, ReadError> {
        let Some(parent) = &session.parent else { return Ok(None) };
        let mut calls = self.connection.prepare_cached(&format!(
            "select {} from part where session_id = ?1 and instr(data, ?2) > 0 order by id desc",
            database::bounded_column("data")
        ))?;
        let mut rows = calls.query([parent, &session.id])?;
        while let Some(row) = rows.next()? {
            let Some(data) = database::column_bytes(row, 0)? else { continue };
            let part = JsonValue::new(data);
            let names = |name: &str| {
                let child = part.value_at(&["state", "metadata", name]);
                child.is_some_and(|child| child.is_string(&session.id))
            };
            if names("sessionId") || names("sessionID") {
                let status = part.value_at(&["state", "status"]);
                let is = |word| status.is_some_and(|status| status.is_string(word));
                let ended = part.value_at(&["state", "time", "end"]).and_then(JsonValue::as_time);
                return Ok(ended.filter(|_| is("completed") || is("error")));
            }
        }
        Ok(None)
    }

    fn read_prompt(&self, message: &str, reading: &mut Reading) -> Result<(), ReadError> {
        let mut parts = self.connection.prepare_cached(&format!(
            "select {} from part where message_id = ?1 order by id",
            database::bounded_column("data")
        ))?;
        let mut rows = parts.query([message])?;
        let mut prompt = Prompt::default();
        while let Some(row) = rows.next()? {
            prompt.add_part(database::column_bytes(row, 0)?);
        }
        prompt.count_into(&mut reading.digest);
        Ok(())
    }

    pub(super) fn converse_session(
        &self,
        session: &str,
        telling: &mut OpenCodeConversation<'_>,
    ) -> Result<(), ReadError> {
        let last: Option<String> = self.connection.query_row(
            "select (select id from message where session_id = ?1 \
             order by time_created desc, id desc limit 1)",
            [session],
            |row| row.get(0),
        )?;
        let mut statement = self.connection.prepare(&format!(
            "select m.id, {}, {} from message m left join part p on p.message_id = m.id \
             where m.session_id = ?1 order by m.time_created, m.id, p.id limit -1 offset ?2",
            database::bounded_column("m.data"),
            database::bounded_column("p.data"),
        ))?;
        let offset = i64::try_from(telling.parts_told()).unwrap_or(i64::MAX);
        let mut rows = statement.query(rusqlite::params![session, offset])?;
        while let Some(row) = rows.next()? {
            let is_last = row.get::<_, Option<String>>(0)? == last;
            let message = Message::parse_message(database::column_bytes(row, 1)?.unwrap_or(b"{}"))
                .unwrap_or_default();
            telling.tell_part(&message, database::column_bytes(row, 2)?, is_last);
        }
        Ok(())
    }
}
