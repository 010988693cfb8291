//! Hermes Agent.
//!
//! Every session is a row of `state.db` with its directory, branch, model, tokens and end; its
//! messages are rows of their own. No process is registered for a session. Times are seconds with a
//! fraction. A compression ends one session and begins another that names it as its parent.
//!
//! Traps: a cost of zero means that no price is known (`cost_status` says `unknown`); messages that
//! were rewound stay, with `active` 0.

use std::path::PathBuf;

use model::conversation::{ConversationEntry, ConversationRole};
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState, shorten_title};
use model::time::Time;
use model::usage::micro_usd;
use rusqlite::{Connection, Row};

use crate::database::{SessionRow, SessionRows};
use crate::files::ReadError;
use crate::skim::JsonValue;
use crate::{Adapter, AgentProfile, EnvLookup, Opening, Survey, TranscriptSource, database};

#[derive(Debug)]
pub(crate) struct Hermes;

static HERMES_PROFILE: AgentProfile = AgentProfile {
    id: "hermes",
    name: "Hermes Agent",
    version: 1,
    certainty: FormatCertainty::Lab,
    program: AgentProgram {
        names: &["hermes"],
        packages: &["hermes_cli"],
        servers: &["gateway", "serve", "acp", "dashboard"],
        helpers: &[
            "auth",
            "backup",
            "bundles",
            "checkpoints",
            "claw",
            "completion",
            "computer-use",
            "config",
            "console",
            "cron",
            "curator",
            "debug",
            "doctor",
            "dump",
            "fallback",
            "hooks",
            "import",
            "insights",
            "journey",
            "kanban",
            "login",
            "logout",
            "logs",
            "lsp",
            "mcp",
            "memory",
            "migrate",
            "moa",
            "model",
            "pairing",
            "pets",
            "plugins",
            "portal",
            "postinstall",
            "profile",
            "project",
            "prompt-size",
            "proxy",
            "secrets",
            "security",
            "send",
            "sessions",
            "setup",
            "skills",
            "slack",
            "status",
            "tools",
            "uninstall",
            "update",
            "version",
            "webhook",
            "whatsapp",
            "whatsapp-cloud",
        ],
    },
    resume_options: &["--resume", "-r"],
    continue_options: &["--continue", "-c"],
    session_variables: &[],
    opening: Opening::ANYWHERE,
    hooks: None,
    note: "the database of 0.19.0, one-shot runs; its interface and gateway were not tried",
};

const FORMAT: &str = "hermes-sqlite";

impl Adapter for Hermes {
    fn agent_profile(&self) -> &'static AgentProfile {
        &HERMES_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "~/.hermes/config.yaml",
            shape: crate::McpSettingsShape::YamlMap,
        })
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        env.root_or_home("HERMES_HOME", ".hermes")
    }

    fn survey_root(&self, survey: &mut Survey) {
        let path = survey.root_path().join("state.db");
        database::survey_session_rows::<HermesDatabase>(survey, &path, FORMAT);
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        database::read_session_row::<HermesDatabase>(source)
    }

    /// Positions are the numbers of the messages' rows.
    fn read_conversation(
        &self,
        source: &TranscriptSource,
        from: u64,
        say: &mut dyn FnMut(ConversationEntry),
    ) -> Result<u64, ReadError> {
        let connection = database::open_read_only(&source.root, &source.path)?;
        let mut position = from;
        let store = HermesDatabase::check_schema(&connection)?;
        store.each_message(&connection, &source.id, from, |message| {
            position = message.number;
            message.emit_entries(say);
        })?;
        Ok(position)
    }
}

/// A database whose schema is known.
struct HermesDatabase {
    columns: Vec<String>,
    messages: Vec<String>,
}

impl SessionRows for HermesDatabase {
    const ORDER: &'static str = "order by started_at, id";

    fn check_schema(connection: &Connection) -> Result<Self, ReadError> {
        let required = ["id", "started_at", "ended_at", "model", "cwd"];
        let columns = database::table_columns(connection, "sessions", &required)?;
        let required = ["id", "session_id", "role", "content", "timestamp"];
        let messages = database::table_columns(connection, "messages", &required)?;
        Ok(Self { columns, messages })
    }

    fn session_columns(&self) -> String {
        let wanted = "id parent_session_id title cwd git_branch model started_at ended_at \
            input_tokens output_tokens cache_read_tokens cache_write_tokens \
            actual_cost_usd estimated_cost_usd display_name";
        database::select_list(&self.columns, wanted)
    }

    fn read_session(
        &self,
        connection: &Connection,
        row: &Row<'_>,
    ) -> Result<SessionRow, ReadError> {
        let text = |index| database::text_at(row, index);
        let count = |index| database::count_at(row, index).unwrap_or(0);
        let cost = |index| row.get::<_, f64>(index).ok().filter(|&usd| usd > 0.0);
        let id: String = row.get(0)?;
        let mut digest = TranscriptDigest {
            title: text(2).map(|title| shorten_title(title.trim())),
            name: text(14),
            cwd: text(3),
            branch: text(4),
            parent: text(1),
            cost_micro_usd: cost(12).or_else(|| cost(13)).map(micro_usd),
            ..TranscriptDigest::default()
        };
        seconds_at(row, 6).into_iter().for_each(|at| digest.widen_span(at));
        let bytes = self.each_message(connection, &id, 0, |message| message.add_to(&mut digest))?;
        // The model that was asked is known before the first answer.
        if let Some(model) = text(5).filter(|_| digest.turns > 0) {
            digest.note_model(&model);
        }
        let tokens = TokenUsage {
            input: count(8),
            output: count(9),
            cache_read: count(10),
            cache_write: count(11),
        };
        digest.tokens = Some(tokens).filter(|&tokens| tokens != TokenUsage::default());
        if let Some(ended) = seconds_at(row, 7) {
            digest.widen_span(ended);
            digest.ended_at = Some(ended);
            digest.turn = TurnState::Closed;
        }
        Ok((id, digest, bytes))
    }
}

impl HermesDatabase {
    /// Hands out the messages of a session after row `after`; one that is too large has no text.
    fn each_message(
        &self,
        connection: &Connection,
        session: &str,
        after: u64,
        mut each: impl FnMut(HermesMessage),
    ) -> Result<u64, ReadError> {
        let has = |name: &str| self.messages.iter().any(|column| column == name);
        let active = if has("active") { "and active <> 0" } else { "" };
        let wanted = |name: &str| match has(name) {
            true => database::bounded_column(name),
            false => "null".to_owned(),
        };
        let query = format!(
            "select id, role, timestamp, {}, {}, {}, octet_length(content) > 0 and {} is null \
             from messages where session_id = ?1 and id > ?2 {active} order by id",
            wanted("finish_reason"),
            wanted("tool_calls"),
            database::bounded_column("content"),
            database::bounded_column("content"),
        );
        database::each_message_row(connection, &query, session, after, |number, row| {
            let lossy = |index| -> Result<Option<String>, ReadError> {
                let bytes = database::column_bytes(row, index)?;
                Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
            };
            let content = lossy(5)?.unwrap_or_default();
            let bytes = content.len();
            each(HermesMessage {
                number,
                role: lossy(1)?.unwrap_or_default(),
                at: seconds_at(row, 2),
                finish: lossy(3)?,
                calls: lossy(4)?,
                oversized: row.get::<_, Option<bool>>(6)?.unwrap_or(false),
                content,
            });
            Ok(bytes)
        })
    }
}

/// A time in seconds since the epoch.
fn seconds_at(row: &Row<'_>, index: usize) -> Option<Time> {
    let seconds = row.get::<_, f64>(index).ok().filter(|seconds| seconds.is_finite())?;
    (seconds > 0.0 && seconds < 1e11).then(|| Time::from_millis((seconds * 1e3).round() as i64))
}

/// A row of `messages`.
struct HermesMessage {
    number: u64,
    role: String,
    at: Option<Time>,
    finish: Option<String>,
    calls: Option<String>,
    content: String,
    oversized: bool,
}

impl HermesMessage {
    fn add_to(&self, digest: &mut TranscriptDigest) {
        self.at.into_iter().for_each(|at| digest.widen_span(at));
        digest.damage.oversized += u32::from(self.oversized);
        match self.role.as_str() {
            "user" => digest.count_prompt(&self.content),
            "assistant" => {
                let asks = self.finish.as_deref() == Some("tool_calls") || self.calls.is_some();
                digest.turn = if asks { TurnState::Open } else { TurnState::Closed };
            }
            "tool" => digest.turn = TurnState::Open,
            _ => {}
        }
    }

    fn emit_entries(self, say: &mut dyn FnMut(ConversationEntry)) {
        let role = match self.role.as_str() {
            "user" => ConversationRole::User,
            "assistant" => ConversationRole::Assistant,
            "tool" => ConversationRole::Result,
            _ => ConversationRole::System,
        };
        if !self.content.is_empty() {
            say(ConversationEntry::new(self.at, role, self.content));
        }
        let calls = self.calls.unwrap_or_default();
        for call in JsonValue::new(calls.as_bytes()).iter_elements() {
            let text = |name| {
                let value = call.value_at(&["function", name]);
                value.and_then(JsonValue::to_owned_string).unwrap_or_default()
            };
            say(ConversationEntry::tool_call(self.at, text("name"), text("arguments")));
        }
    }
}
