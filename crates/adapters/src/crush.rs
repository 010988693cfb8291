//! The adapter of Crush: reads its sessions.
//!
//! Each project has its own database, `<data directory>/crush.db`; `projects.json` in the global
//! data directory lists them. A process with the project open holds a lock on `crush.lock` beside the
//! database; the file stays for ever, so only the lock itself proves something. A message is
//! rewritten in place until it has a `finish` part. `prompt_tokens` and `completion_tokens` are
//! those of the last request, not of the session, and a session's cost includes its sub-agents'.
//!
//! Read from its source. The program was never run here (its package downloads the binary from a place
//! that cannot be reached), so that no state of a live session was ever seen.

use std::path::{Path, PathBuf};

use model::conversation::{ConversationEntry, ConversationRole};
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{
    ProcessRegistration, RegistrationProof, RegistrationScope, TranscriptDigest, TurnState,
    shorten_title,
};
use model::time::Time;
use model::usage::micro_usd;
use rusqlite::{Connection, Row};

use crate::database::{SessionRow, SessionRows};
use crate::files::ReadError;
use crate::skim::{BrokenJson, JsonValue};
use crate::{
    Adapter, AgentProfile, EnvLookup, Opening, Survey, SurveyProblem, TranscriptSource, database,
    files,
};

#[derive(Debug)]
pub(crate) struct Crush;

static CRUSH_PROFILE: AgentProfile = AgentProfile {
    id: "crush",
    name: "Crush",
    version: 1,
    certainty: FormatCertainty::Documented,
    program: AgentProgram {
        names: &["crush"],
        packages: &["@charmland/crush"],
        servers: &[],
        helpers: &[
            "completion",
            "dirs",
            "login",
            "logs",
            "models",
            "projects",
            "schema",
            "session",
            "stats",
            "update-providers",
        ],
    },
    resume_options: &["--session", "-s"],
    continue_options: &["--continue", "-C"],
    session_variables: &[],
    opening: Opening { from_below: true, ..Opening::IN_DIRECTORY },
    hooks: None,
    note: "project databases and their locks, from source; never run",
};

const FORMAT: &str = "crush-sqlite";

impl Adapter for Crush {
    fn agent_profile(&self) -> &'static AgentProfile {
        &CRUSH_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "crush.json",
            shape: crate::McpSettingsShape::StdioCommand,
        })
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        let named = env.path_of("CRUSH_GLOBAL_DATA");
        named.or_else(|| Some(env.xdg_data()?.join("crush"))).into_iter().collect()
    }

    fn survey_root(&self, survey: &mut Survey) {
        let root = survey.root_path();
        let list = root.join("projects.json");
        let projects = match files::read_json::<serde_json::Value>(&root, &list) {
            Ok((json, _)) => json,
            Err(error) => return survey.note_problem(&list, &error),
        };
        let Some(projects) = projects.get("projects").and_then(|list| list.as_array()) else {
            let reason = "unknown format: no list of projects".to_owned();
            survey.problems.push(SurveyProblem { path: list, reason });
            return;
        };
        let mut seen = Vec::new();
        for project in projects {
            let text = |name| project.get(name).and_then(|value| value.as_str());
            let Some(directory) = text("path").filter(|path| Path::new(path).is_absolute()) else {
                continue;
            };
            let data = Path::new(directory).join(text("data_dir").unwrap_or(".crush"));
            let data = std::fs::canonicalize(&data).unwrap_or(data);
            if !seen.contains(&data) {
                survey_project(survey, directory, &data);
                seen.push(data);
            }
        }
    }

    /// Without the directory: only the list of projects knows that.
    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        database::read_session_row::<CrushDatabase>(source)
    }

    /// Positions are the rows' own numbers; a message that is not complete yet is told only to
    /// those who read from the start.
    fn read_conversation(
        &self,
        source: &TranscriptSource,
        from: u64,
        say: &mut dyn FnMut(ConversationEntry),
    ) -> Result<u64, ReadError> {
        let connection = database::open_read_only(&source.root, &source.path)?;
        let (mut position, mut held) = (from, false);
        let store = CrushDatabase::check_schema(&connection)?;
        store.each_message(&connection, &source.id, from, |number, last, message| {
            let Some(Ok(message)) = message else { return };
            held |= last && !message.is_complete();
            if !held {
                position = number;
            }
            if !held || from == 0 {
                message.emit_entries(say);
            }
        })?;
        Ok(position)
    }
}

fn survey_project(survey: &mut Survey, directory: &str, data: &Path) {
    let root = survey.root_path();
    let path = data.join("crush.db");
    match database::list_session_rows::<CrushDatabase>(&root, &path, FORMAT) {
        Ok(sessions) => survey.ready.extend(sessions.into_iter().map(|(source, mut digest)| {
            digest.cwd = Some(directory.to_owned());
            (source, digest)
        })),
        Err(error) if error.is_absent() => return,
        Err(error) => survey.note_problem(&path, &error),
    }
    let lock = data.join("crush.lock");
    if let Some(stamp) = files::stamp_path(&lock) {
        survey.registrations.push(ProcessRegistration {
            scope: RegistrationScope::Store(path),
            proof: RegistrationProof::Lock(stamp),
            source: lock,
            activity: None,
            waiting_for: None,
            digest: TranscriptDigest::default(),
        });
    }
}

/// A database whose schema is known.
struct CrushDatabase {
    columns: Vec<String>,
}

impl SessionRows for CrushDatabase {
    const ORDER: &'static str = "order by created_at, id";

    fn check_schema(connection: &Connection) -> Result<Self, ReadError> {
        let required = ["id", "title", "created_at", "updated_at"];
        let columns = database::table_columns(connection, "sessions", &required)?;
        let required = ["session_id", "role", "parts", "model", "created_at"];
        database::table_columns(connection, "messages", &required)?;
        Ok(Self { columns })
    }

    fn session_columns(&self) -> String {
        let wanted = "id parent_session_id title cost created_at updated_at";
        database::select_list(&self.columns, wanted)
    }

    fn read_session(
        &self,
        connection: &Connection,
        row: &Row<'_>,
    ) -> Result<SessionRow, ReadError> {
        let text = |index| database::text_at(row, index);
        let time = |index| {
            row.get::<_, i64>(index).ok().filter(|&at| at > 0).map(database::time_from_epoch)
        };
        let id: String = row.get(0)?;
        let parent = text(1);
        let dollars: Option<f64> = row.get(3).unwrap_or(None);
        let mut digest = TranscriptDigest {
            title: text(2).filter(|title| !is_placeholder(title)).as_deref().map(shorten_title),
            cost_micro_usd: dollars.map(micro_usd),
            cost_covers_subagents: parent.is_none(),
            parent,
            ..TranscriptDigest::default()
        };
        time(4).into_iter().for_each(|at| digest.widen_span(at));
        let bytes = self.each_message(connection, &id, 0, |_, _, message| match message {
            Some(Ok(message)) => message.add_to(&mut digest),
            Some(Err(BrokenJson)) => digest.damage.broken += 1,
            None => digest.damage.oversized += 1,
        })?;
        if bytes == 0 {
            time(5).into_iter().for_each(|at| digest.widen_span(at));
        }
        Ok((id, digest, bytes))
    }
}

impl CrushDatabase {
    /// Hands out the messages of a session after row `after`, with whether each is the last one;
    /// `None` is one that is too large.
    fn each_message(
        &self,
        connection: &Connection,
        session: &str,
        after: u64,
        mut each: impl FnMut(u64, bool, Option<Result<Message<'_>, BrokenJson>>),
    ) -> Result<u64, ReadError> {
        let query = format!(
            "select rowid, role, model, created_at, {}, \
             rowid = (select max(rowid) from messages where session_id = ?1) \
             from messages where session_id = ?1 and rowid > ?2 order by rowid",
            database::bounded_column("parts"),
        );
        database::each_message_row(connection, &query, session, after, |number, row| {
            let is_last: bool = row.get(5)?;
            let Some(parts) = database::column_bytes(row, 4)? else {
                each(number, is_last, None);
                return Ok(0);
            };
            let bytes = parts.len();
            let parts = JsonValue::new(parts);
            let is_whole = parts.as_array().is_some_and(|mut parts| parts.all(|part| part.is_ok()));
            let message = Message {
                role: row.get(1)?,
                model: row.get::<_, String>(2).unwrap_or_default(),
                at: row.get::<_, i64>(3).ok().map(database::time_from_epoch),
                parts,
            };
            each(number, is_last, Some(if is_whole { Ok(message) } else { Err(BrokenJson) }));
            Ok(bytes)
        })
    }
}

/// What a session is called until the agent has thought of something.
fn is_placeholder(title: &str) -> bool {
    ["New Session", "Untitled Session", "New Agent Session"].contains(&title)
}

/// A row of `messages`.
struct Message<'a> {
    role: String,
    model: String,
    at: Option<Time>,
    parts: JsonValue<'a>,
}

impl<'a> Message<'a> {
    /// The kind of each part, and what it holds.
    fn parts(&self) -> impl Iterator<Item = (String, JsonValue<'a>)> {
        let parts = self.parts.as_array().into_iter().flatten().filter_map(Result::ok);
        parts.filter_map(|part| Some((part.get("type")?.to_owned_string()?, part.get("data")?)))
    }

    fn finish_part(&self) -> Option<JsonValue<'a>> {
        self.parts().find_map(|(kind, data)| (kind == "finish").then_some(data))
    }

    fn is_complete(&self) -> bool {
        self.role != "assistant" || self.finish_part().is_some()
    }

    fn add_to(&self, digest: &mut TranscriptDigest) {
        if let Some(at) = self.at {
            digest.widen_span(at);
        }
        match self.role.as_str() {
            "user" => {
                let texts: Vec<_> = self.parts().filter(|(kind, _)| kind == "text").collect();
                let asked = texts.iter().find(|(_, data)| !is_hidden(*data));
                if let Some((_, data)) = asked {
                    let text = data.get("text").and_then(JsonValue::to_owned_string);
                    digest.count_prompt(&text.unwrap_or_default());
                } else if !texts.is_empty() {
                    digest.turn = TurnState::Open;
                }
            }
            "assistant" => {
                digest.note_model(&self.model);
                let reason = self.finish_part().and_then(|finish| finish.get("reason"));
                let open = reason.is_none_or(|reason| reason.is_string("tool_use"));
                digest.turn = if open { TurnState::Open } else { TurnState::Closed };
            }
            "tool" => digest.turn = TurnState::Open,
            _ => {}
        }
    }

    fn emit_entries(&self, say: &mut dyn FnMut(ConversationEntry)) {
        let speaker = match self.role.as_str() {
            "user" => ConversationRole::User,
            "assistant" => ConversationRole::Assistant,
            _ => ConversationRole::System,
        };
        for (kind, data) in self.parts() {
            let text =
                |name| data.get(name).and_then(JsonValue::to_owned_string).unwrap_or_default();
            match kind.as_str() {
                "text" => {
                    let role = if is_hidden(data) { ConversationRole::System } else { speaker };
                    say(ConversationEntry::new(self.at, role, text("text")));
                }
                "tool_call" => {
                    say(ConversationEntry::tool_call(self.at, text("name"), text("input")))
                }
                "tool_result" => {
                    say(ConversationEntry::new(self.at, ConversationRole::Result, text("content")))
                }
                "shell_command" => {
                    say(ConversationEntry::tool_call(self.at, "shell", text("command")));
                    say(ConversationEntry::new(self.at, ConversationRole::Result, text("output")));
                }
                "finish" if !text("message").is_empty() => {
                    say(ConversationEntry::new(self.at, ConversationRole::System, text("message")));
                }
                _ => {}
            }
        }
    }
}

/// A user's message that the agent wrote to itself.
fn is_hidden(data: JsonValue<'_>) -> bool {
    data.get("hidden").and_then(JsonValue::as_bool) == Some(true)
}
