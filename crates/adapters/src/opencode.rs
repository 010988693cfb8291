//! The adapter of OpenCode: reads its sessions.
//!
//! Sessions, messages and parts are rows of `opencode.db` (`opencode-<channel>.db` for builds of
//! another channel), their content is JSON. Versions before 1.2 kept the same JSON as one file per
//! session, message and part below `storage/`, and an upgrade copies those into the database under
//! the same ids, so a session may be there twice. No process is registered anywhere. A message is
//! rewritten in place while it is being answered; it is complete when it has `time.completed`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use model::conversation::{ConversationEntry, ConversationRole};
use model::event::HookHappening;
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState, shorten_title};
use model::time::Time;
use model::usage::micro_usd;

use crate::control::{
    AgentControl, HeadlessControl, PermissionChannel, PermissionServer, PromptInput,
};
use crate::files::{EntryKind, ReadError};
use crate::hooks::{AgentHooks, HookFileShape, HookMeaning, HookWiring};
use crate::skim::{BrokenJson, JsonValue};
use crate::{Adapter, AgentProfile, EnvLookup, Opening, Survey, TranscriptSource, database};

mod storage;
mod store;
mod telling;

use store::{OpenCodeDatabase, OpenCodeSessionRow};
use telling::OpenCodeConversation;

#[derive(Debug)]
pub(crate) struct OpenCode;

static OPENCODE_PROFILE: AgentProfile = AgentProfile {
    id: "opencode",
    name: "OpenCode",
    version: 2,
    certainty: FormatCertainty::Lab,
    program: AgentProgram {
        names: &["opencode"],
        packages: &["opencode-ai"],
        servers: &[],
        helpers: &[
            "agent", "attach", "auth", "db", "debug", "export", "github", "import", "mcp",
            "models", "pr", "session", "stats", "upgrade",
        ],
    },
    resume_options: &["--session", "-s"],
    continue_options: &["--continue", "-c"],
    session_variables: &[],
    opening: Opening::ANYWHERE,
    hooks: Some(&AgentHooks {
        events: &[
            ("session-start", HookMeaning::Is(HookHappening::SessionStart)),
            ("turn-start", HookMeaning::Prompt),
            ("waiting", HookMeaning::Is(HookHappening::Waiting)),
            ("progress", HookMeaning::Is(HookHappening::Progress)),
            ("turn-end", HookMeaning::Is(HookHappening::TurnEnd)),
            ("session-end", HookMeaning::Is(HookHappening::SessionEnd)),
        ],
        pid_variables: &["OPENCODE_PID"],
        wiring: HookWiring {
            user: |env| Some(env.xdg_config()?.join("opencode/plugin/ostler.js")),
            project: Some(|project| project.join(".opencode/plugin/ostler.js")),
            shape: HookFileShape::Script { template: include_str!("../scripts/opencode.js") },
            notify: None,
        },
    }),
    note: "the database of 1.18.33; the JSON files of versions before 1.2 from their source",
};

const PROGRAM: &str = "opencode";
const DATABASE: &str = "opencode-sqlite";
const STORAGE: &str = "opencode-json";

static OPENCODE_CONTROL: AgentControl = AgentControl {
    measured: "1.18.33",
    resume: Some(&["-s", "{id}"]),
    headless: Some(HeadlessControl {
        start: &["run", "--format", "json"],
        resume: Some(&["run", "--format", "json", "-s", "{id}"]),
        input: PromptInput::Stdin,
        id_field: "sessionID",
    }),
    command_characters: "/",
    // The first one asks whether it is meant.
    interrupt_keys: &["Escape", "Escape"],
    quit_keys: &["Ctrl+c"],
    composer_words: Some("Ask anything"),
    permission_channel: PermissionChannel::Server(PermissionServer {
        port_option: "--port",
        password_variable: "OPENCODE_SERVER_PASSWORD",
        user: "opencode",
    }),
    question_words: &["Permission required"],
    ..AgentControl::TERMINAL_ONLY
};

impl Adapter for OpenCode {
    fn agent_profile(&self) -> &'static AgentProfile {
        &OPENCODE_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "opencode.json",
            shape: crate::McpSettingsShape::LocalCommand,
        })
    }

    fn control_table(&self) -> Option<&'static AgentControl> {
        Some(&OPENCODE_CONTROL)
    }

    /// A database that `OPENCODE_DB` puts elsewhere is a root of its own: the file itself.
    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        let data = env.xdg_data().map(|data| data.join("opencode"));
        let named = env.path_of("OPENCODE_DB").filter(|named| named.as_os_str() != ":memory:");
        let elsewhere = named.and_then(|named| match &data {
            _ if named.is_absolute() => Some(named),
            Some(data) => Some(data.join(named)),
            None => None,
        });
        let listed_anyway = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            let known = name.is_some_and(|name| is_database(name, PROGRAM));
            path.parent() == data.as_deref() && known
        };
        data.clone().into_iter().chain(elsewhere.filter(|path| !listed_anyway(path))).collect()
    }

    fn survey_root(&self, survey: &mut Survey) {
        let newest = survey_databases(survey, PROGRAM);
        let storage = survey.root_path().join("storage");
        storage::survey_storage(survey, &storage, &newest);
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        if source.format == STORAGE {
            return storage::digest_session(source);
        }
        let connection = database::open_read_only(&source.root, &source.path)?;
        let store = OpenCodeDatabase::new(&connection)?;
        let mut statement = store.select_sessions("where id = ?1")?;
        let mut rows = statement.query([&source.id])?;
        let row = rows.next()?.ok_or_else(|| ReadError::unknown_format("no such session"))?;
        store.read_session(&OpenCodeSessionRow::new(row)?)
    }

    fn is_plain_text(&self, _: &TranscriptSource) -> bool {
        // A session of the older store is many files, of the newer one rows.
        false
    }

    fn read_conversation(
        &self,
        source: &TranscriptSource,
        from: u64,
        say: &mut dyn FnMut(ConversationEntry),
    ) -> Result<u64, ReadError> {
        let mut telling = OpenCodeConversation::new(from, say);
        if source.format == STORAGE {
            storage::converse_session(source, &mut telling);
        } else {
            telling.skip_to(from);
            let connection = database::open_read_only(&source.root, &source.path)?;
            OpenCodeDatabase::new(&connection)?.converse_session(&source.id, &mut telling)?;
        }
        Ok(telling.position())
    }
}

/// `<program>.db`, or `<program>-<channel>.db`.
fn is_database(name: &str, program: &str) -> bool {
    let stem = name.strip_suffix(".db").and_then(|stem| stem.strip_prefix(program));
    stem.is_some_and(|channel| channel.is_empty() || channel.starts_with('-'))
}

/// Surveys the databases of `program` in the root, or the root itself where that is one. Forks keep
/// this schema under names of their own.
pub(crate) fn survey_databases(survey: &mut Survey, program: &str) -> Newest {
    let root = survey.root_path();
    let mut newest = HashMap::new();
    if !root.is_dir() {
        survey_database(survey, &root, &mut newest);
        return newest;
    }
    let is_wanted = |name: &str| is_database(name, program);
    for entry in survey.list_wanted(&root, is_wanted) {
        if entry.kind == EntryKind::File && entry.name.to_str().is_some_and(is_wanted) {
            survey_database(survey, &root.join(&entry.name), &mut newest);
        }
    }
    newest
}

/// Where the newest copy of a session is, and when that was last changed.
pub(crate) type Newest = HashMap<String, (usize, i64)>;

fn survey_database(survey: &mut Survey, path: &Path, newest: &mut Newest) {
    let root = survey.root_path();
    let sessions = match store::read_database(&root, path) {
        Ok(sessions) => sessions,
        Err(error) => return survey.note_problem(path, &error),
    };
    for (source, digest, updated) in sessions {
        match newest.get_mut(&source.id) {
            Some((_, known)) if *known >= updated => {}
            Some((index, known)) => {
                *known = updated;
                survey.ready[*index] = (source, digest);
            }
            None => {
                newest.insert(source.id.clone(), (survey.ready.len(), updated));
                survey.ready.push((source, digest));
            }
        }
    }
}

/// The fields of a message that matter.
#[derive(Default)]
struct Message<'a> {
    role: Option<ConversationRole>,
    created: Option<Time>,
    completed: Option<Time>,
    failed: bool,
    error: Option<JsonValue<'a>>,
    goes_on: bool,
    model: Option<JsonValue<'a>>,
    tokens: Option<TokenUsage>,
    cost: Option<f64>,
}

impl<'a> Message<'a> {
    fn parse_message(data: &'a [u8]) -> Result<Self, BrokenJson> {
        let mut message = Self::default();
        for field in crate::skim::parse_object(data)? {
            let (key, value) = field?;
            match key {
                b"role" if value.is_string("user") => message.role = Some(ConversationRole::User),
                b"role" if value.is_string("assistant") => {
                    message.role = Some(ConversationRole::Assistant)
                }
                b"time" => {
                    message.created = value.get("created").and_then(JsonValue::as_time);
                    message.completed = value.get("completed").and_then(JsonValue::as_time);
                }
                b"error" if value.as_object().is_some() => {
                    message.failed = true;
                    message.error = value.value_at(&["data", "message"]).or(value.get("name"));
                }
                b"finish" => message.goes_on = value.is_string("tool-calls"),
                b"modelID" => message.model = Some(value),
                b"tokens" => message.tokens = token_usage(value),
                b"cost" => message.cost = value.as_f64(),
                _ => {}
            }
        }
        Ok(message)
    }

    fn is_settled(&self) -> bool {
        self.role != Some(ConversationRole::Assistant) || self.completed.is_some() || self.failed
    }
}

/// Reasoning is counted beside the output, except by versions whose own total shows that the
/// output already holds it.
fn token_usage(tokens: JsonValue<'_>) -> Option<TokenUsage> {
    tokens.as_object()?;
    let count = |path: &[&str]| tokens.value_at(path).and_then(JsonValue::as_u64).unwrap_or(0);
    let mut usage = TokenUsage {
        input: count(&["input"]),
        output: count(&["output"]),
        cache_read: count(&["cache", "read"]),
        cache_write: count(&["cache", "write"]),
    };
    let total = tokens.get("total").and_then(JsonValue::as_u64);
    if total != Some(total_tokens(usage)) {
        usage.output = usage.output.saturating_add(count(&["reasoning"]));
    }
    Some(usage)
}

fn total_tokens(tokens: TokenUsage) -> u64 {
    [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write]
        .into_iter()
        .fold(0, u64::saturating_add)
}

/// What has been read of a session so far.
struct Reading {
    digest: TranscriptDigest,
    /// Totals that the session itself keeps.
    kept: TokenUsage,
    kept_cost: Option<f64>,
    cost: Option<f64>,
}

impl Reading {
    fn new(session: &OpenCodeSessionRow) -> Self {
        let mut digest = TranscriptDigest {
            cwd: session.directory.clone(),
            title: session
                .title
                .as_deref()
                .filter(|title| !is_placeholder(title))
                .map(shorten_title),
            version: session.version.clone(),
            parent: session.parent.clone(),
            ..TranscriptDigest::default()
        };
        if session.created > 0 {
            digest.widen_span(Time::from_millis(session.created));
        }
        Self { digest, kept: session.tokens, kept_cost: session.cost, cost: None }
    }

    /// Reads the next message; says who wrote it.
    fn read_message(&mut self, data: Option<&[u8]>) -> Option<ConversationRole> {
        let Some(data) = data else {
            self.digest.damage.oversized += 1;
            return None;
        };
        let Ok(message) = Message::parse_message(data) else {
            self.digest.damage.broken += 1;
            return None;
        };
        for time in [message.created, message.completed].into_iter().flatten() {
            self.digest.widen_span(time);
        }
        if message.role == Some(ConversationRole::Assistant) {
            if let Some(model) = message.model.and_then(JsonValue::as_str) {
                self.digest.note_model(&model);
            }
            // Until it is complete, a message says that it used nothing and cost nothing.
            let known = message.is_settled();
            if let Some(tokens) = message.tokens.filter(|&tokens| known || total_tokens(tokens) > 0)
            {
                self.digest.add_usage(tokens);
            }
            if let Some(cost) = message.cost.filter(|&cost| known || cost > 0.0) {
                self.cost = Some(self.cost.unwrap_or(0.0) + cost);
            }
            let open = !message.is_settled() || (message.goes_on && !message.failed);
            self.digest.turn = if open { TurnState::Open } else { TurnState::Closed };
        }
        message.role
    }

    /// The session's own totals start at zero when it is taken over from files, and messages go
    /// when they are undone: whichever is more has seen more.
    fn into_digest(mut self) -> TranscriptDigest {
        if total_tokens(self.kept) > self.digest.tokens.map_or(0, total_tokens) {
            self.digest.tokens = Some(self.kept);
        }
        let cost = match (self.cost, self.kept_cost) {
            (Some(spent), Some(kept)) => Some(spent.max(kept)),
            (spent, kept) => spent.or(kept.filter(|&kept| kept > 0.0)),
        };
        self.digest.cost_micro_usd = cost.map(micro_usd);
        self.digest
    }
}

/// `New session - <time>`, until the agent has thought of something.
fn is_placeholder(title: &str) -> bool {
    let time =
        title.strip_prefix("New session - ").or_else(|| title.strip_prefix("Child session - "));
    time.is_some_and(|time| Time::parse(time).is_some())
}

/// The parts of a user's message: was it a person who asked, and what?
#[derive(Default)]
struct Prompt {
    text: String,
    asked: bool,
    injected: bool,
}

impl Prompt {
    fn add_part(&mut self, data: Option<&[u8]>) {
        let Some(part) = data.map(JsonValue::new) else {
            self.asked = true;
            return;
        };
        let kind = part.get("type");
        let is = |name| kind.is_some_and(|kind: JsonValue<'_>| kind.is_string(name));
        if is("compaction") || is_synthetic(part) {
            self.injected = true;
        } else if is("text") {
            self.asked = true;
            if self.text.is_empty() {
                self.text =
                    part.get("text").and_then(JsonValue::to_owned_string).unwrap_or_default();
            }
        } else if is("file") || is("subtask") || is("agent") {
            self.asked = true;
        }
    }

    /// A message without parts has been sent a moment ago: its parts are still to be written.
    fn count_into(self, digest: &mut TranscriptDigest) {
        if self.asked || !self.injected {
            digest.count_prompt(&self.text);
        } else {
            digest.turn = TurnState::Open;
        }
    }
}

fn is_synthetic(part: JsonValue<'_>) -> bool {
    part.get("synthetic").and_then(JsonValue::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(tokens: &str) -> u64 {
        token_usage(JsonValue::new(tokens.as_bytes())).unwrap().output
    }

    #[test]
    fn reasoning_is_counted_once() {
        let apart =
            r#"{"total":118,"input":100,"output":5,"reasoning":10,"cache":{"read":2,"write":1}}"#;
        assert_eq!(output(apart), 15);
        let within =
            r#"{"total":108,"input":100,"output":5,"reasoning":3,"cache":{"read":2,"write":1}}"#;
        assert_eq!(output(within), 5);
        assert_eq!(output(r#"{"input":100,"output":5,"reasoning":3}"#), 8);
        assert_eq!(token_usage(JsonValue::new(b"7")), None);
    }

    fn turn_after(message: &str) -> TurnState {
        let session = OpenCodeSessionRow {
            id: String::new(),
            parent: None,
            directory: None,
            title: None,
            version: None,
            created: 0,
            updated: 0,
            cost: None,
            tokens: TokenUsage::default(),
        };
        let mut reading = Reading::new(&session);
        reading.read_message(Some(message.as_bytes()));
        reading.into_digest().turn
    }

    #[test]
    fn a_turn_is_open_until_an_answer_is_complete_and_asks_for_no_tool() {
        let answer = |rest: &str| format!(r#"{{"role":"assistant","time":{{"created":1{rest}}}"#);
        assert_eq!(turn_after(&answer("}")), TurnState::Open);
        assert_eq!(
            turn_after(&answer(r#","completed":2},"finish":"tool-calls""#)),
            TurnState::Open
        );
        assert_eq!(turn_after(&answer(r#","completed":2},"finish":"stop""#)), TurnState::Closed);
        let aborted = r#"},"error":{"name":"MessageAbortedError","data":{"message":"Aborted"}}"#;
        assert_eq!(turn_after(&answer(aborted)), TurnState::Closed);
        assert_eq!(turn_after(r#"{"role":"narrator"}"#), TurnState::Unknown);
    }

    #[test]
    fn only_generated_titles_with_a_time_are_placeholders() {
        assert!(is_placeholder("New session - 2026-11-15T21:14:01.528Z"));
        assert!(is_placeholder("Child session - 2026-11-15T21:14:01.528Z"));
        assert!(!is_placeholder("New session - the plan"));
    }
}
