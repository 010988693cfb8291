//! Gemini CLI.
//!
//! Transcripts are `tmp/<slug>/chats/session-<time>-<first 8 of the id>.jsonl`: a header, one line
//! per message, and patches (`$set`, `$rewindTo`). A message is written again under the same id
//! when its tool calls are done, and `$set.messages` may list the history anew, so usage is kept
//! per message id and the last writing wins. Older versions wrote one JSON document (`.json`), in
//! directories named by a hash of the path; one that was resumed lives on as `.jsonl`. Neither
//! holds the directory: `.project_root` and `projects.json` do. Sub-agents write to
//! `chats/<parent>/<id>.jsonl`. Nothing on disk tells whether a process is there.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use model::conversation::ConversationEntry;
use model::event::HookHappening;
use model::hex::to_hex;
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState, shorten_title};
use model::time::Time;
use sha2::{Digest as _, Sha256};

use crate::blocks::text_of;
use crate::control::{AgentControl, HeadlessControl, IdRule, PromptInput};
use crate::files::{self, DirEntry, EntryKind, ReadError};
use crate::hooks::{AgentHooks, HookFileShape, HookMeaning, HookWiring};
use crate::skim::{self, JsonValue};
use crate::{Adapter, AgentProfile, EnvLookup, ExtraFileKind, Opening, Survey, TranscriptSource};

mod telling;

use telling::GeminiConversation;

#[derive(Debug)]
pub(crate) struct Gemini;

static GEMINI_PROFILE: AgentProfile = AgentProfile {
    id: "gemini",
    name: "Gemini CLI",
    version: 2,
    certainty: FormatCertainty::Lab,
    program: AgentProgram {
        names: &["gemini"],
        packages: &["@google/gemini-cli"],
        servers: &[],
        helpers: &["mcp", "extensions", "extension", "skills", "skill", "hooks", "hook", "gemma"],
    },
    resume_options: &["--resume", "-r", "--session-id"],
    continue_options: &[],
    session_variables: &[],
    // At its start it writes a summary into the file of the session before.
    opening: Opening { writes_others_files: true, ..Opening::IN_DIRECTORY },
    hooks: Some(&AgentHooks {
        events: &[
            ("SessionStart", HookMeaning::Is(HookHappening::SessionStart)),
            ("BeforeAgent", HookMeaning::Prompt),
            ("Notification", HookMeaning::Notification),
            ("AfterTool", HookMeaning::Is(HookHappening::Progress)),
            ("PreCompress", HookMeaning::Is(HookHappening::Compaction)),
            ("AfterAgent", HookMeaning::Is(HookHappening::TurnEnd)),
            ("SessionEnd", HookMeaning::Is(HookHappening::SessionEnd)),
        ],
        pid_variables: &[],
        wiring: HookWiring {
            user: |env| Some(gemini_home(env)?.join(".gemini/settings.json")),
            project: Some(|project| project.join(".gemini/settings.json")),
            shape: HookFileShape::Groups { per_second: 1000 },
            notify: None,
        },
    }),
    note: "transcripts of 0.61.0; the older single documents and sub-agents from its source",
};

const FORMAT: &str = "gemini-jsonl";
const OLD_FORMAT: &str = "gemini-json";

/// The variable stands for the home directory, not for `.gemini` in it.
fn gemini_home(env: &EnvLookup<'_>) -> Option<PathBuf> {
    env.path_of("GEMINI_CLI_HOME").or_else(|| env.home_dir())
}

static GEMINI_CONTROL: AgentControl = AgentControl {
    measured: "0.61.0",
    interactive: Some(&["--session-id", "{id}"]),
    resume: Some(&["--resume", "{id}"]),
    headless: Some(HeadlessControl {
        start: &["--session-id", "{id}", "--output-format", "stream-json"],
        resume: Some(&["--resume", "{id}", "--output-format", "stream-json"]),
        input: PromptInput::Stdin,
        id_field: "session_id",
    }),
    id_rule: IdRule::ChosenUuid,
    command_characters: "/",
    quit_keys: &["Ctrl+c", "Ctrl+c"],
    composer_words: Some("Type your message"),
    question_words: &["Allow execution"],
    ..AgentControl::TERMINAL_ONLY
};

impl Adapter for Gemini {
    fn agent_profile(&self) -> &'static AgentProfile {
        &GEMINI_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "~/.gemini/settings.json",
            shape: crate::McpSettingsShape::McpServers,
        })
    }

    fn control_table(&self) -> Option<&'static AgentControl> {
        Some(&GEMINI_CONTROL)
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        gemini_home(env).map(|home| home.join(".gemini")).into_iter().collect()
    }

    fn survey_root(&self, survey: &mut Survey) {
        let projects = survey.root_path().join("tmp");
        for project in survey.list_wanted(&projects, |_| true) {
            if project.kind == EntryKind::Directory {
                survey_project(survey, &projects.join(&project.name));
            }
        }
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        let mut reading = Reading::default();
        if source.format == OLD_FORMAT {
            let (document, _) = files::read_document(&source.root, &source.path)?;
            reading.read_document(&document)?;
        } else {
            let end = source.each_line(0, |line| reading.read_line(line))?;
            reading.digest.damage.oversized = end.oversized;
        }
        let mut digest = reading.into_digest(working_directory(source));
        note_typed(source, &mut digest);
        Ok(digest)
    }

    fn read_conversation(
        &self,
        source: &TranscriptSource,
        from: u64,
        say: &mut dyn FnMut(ConversationEntry),
    ) -> Result<u64, ReadError> {
        let mut telling = GeminiConversation::default();
        if source.format == OLD_FORMAT {
            let (document, _) = files::read_document(&source.root, &source.path)?;
            let messages = JsonValue::new(&document).get("messages").and_then(JsonValue::as_array);
            let mut count = 0;
            for message in messages.into_iter().flatten().flatten() {
                count += 1;
                if count > from
                    && let Ok(message) = Message::parse_message(message.raw())
                {
                    telling.tell_message(&message, say);
                }
            }
            return Ok(count);
        }
        if from > 0 {
            telling.remember_until(source, from)?;
        }
        Ok(source.each_line(from, |line| telling.tell_line(line, say))?.offset)
    }
}

fn survey_project(survey: &mut Survey, project: &Path) {
    let root = survey.root_path();
    let chats = project.join("chats");
    let wanted = |name: &str| name.ends_with(".jsonl") || name.ends_with(".json");
    let entries = survey.list_wanted(&chats, wanted);
    let typed = project.join(TYPED);
    let last_typed = files::stamp_path(&typed).map(|stamp| stamp.mtime_ns);
    for entry in &entries {
        let path = chats.join(&entry.name);
        match entry.kind {
            EntryKind::Directory => survey_subagents(survey, &path, entry),
            EntryKind::File => {
                let format = match (entry.strip_suffix(".jsonl"), entry.strip_suffix(".json")) {
                    (Some(_), _) => FORMAT,
                    (_, Some(stem)) if is_continued(&entries, stem) => {
                        let id = session_id(&root, &path, entry);
                        survey.note_extra(ExtraFileKind::Attachment, entry, path, Some(id));
                        continue;
                    }
                    (_, Some(_)) => OLD_FORMAT,
                    _ => continue,
                };
                let id = session_id(&root, &path, entry);
                let source = with_directory(TranscriptSource::from_file(
                    id,
                    &root,
                    path,
                    entry.stamp,
                    format,
                ));
                // Every prompt of the project changes that file: older chats do not depend on it.
                let is_recent = last_typed
                    .is_some_and(|last| entry.stamp.mtime_ns.saturating_add(TYPED_SPAN_NS) >= last);
                survey.note_source(match is_recent {
                    true => source.with_side_file(typed.clone()),
                    false => source,
                });
            }
            EntryKind::Escape | EntryKind::Other => {}
        }
    }
}

/// `chats/<parent>/<id>.jsonl`.
fn survey_subagents(survey: &mut Survey, directory: &Path, parent: &DirEntry) {
    let root = survey.root_path();
    let Some(parent) = parent.name.to_str() else {
        return;
    };
    for entry in survey.list_wanted(directory, |name| name.ends_with(".jsonl")) {
        let Some(id) = entry.strip_suffix(".jsonl").filter(|_| entry.kind == EntryKind::File)
        else {
            continue;
        };
        let path = directory.join(&entry.name);
        let source =
            with_directory(TranscriptSource::from_file(id, &root, path, entry.stamp, FORMAT));
        survey.note_source(TranscriptSource { parent: Some(parent.to_owned()), ..source });
    }
}

/// What was typed in a project, session by session. A prompt is there before the model is asked; the
/// chat gets it only when the agent's router has chosen a model.
const TYPED: &str = "logs.json";

/// How much older than the last prompt of its project a chat may be to have got that prompt.
const TYPED_SPAN_NS: i64 = 7 * 86_400 * 1_000_000_000;

/// Opens the turn of a prompt that was typed after everything that is in the chat.
fn note_typed(source: &TranscriptSource, digest: &mut TranscriptDigest) {
    let typed = source.beside.iter().map(|(path, _)| path).find(|path| path.ends_with(TYPED));
    let Some(Ok((list, _))) =
        typed.map(|path| files::read_json::<serde_json::Value>(&source.root, path))
    else {
        return;
    };
    let own = |entry: &&serde_json::Value| {
        entry.get("sessionId").and_then(|id| id.as_str()) == Some(source.id.as_str())
            && entry.get("type").and_then(|kind| kind.as_str()) == Some("user")
    };
    let Some(last) = list.as_array().into_iter().flatten().rev().find(own) else { return };
    let text = |field| last.get(field).and_then(|value| value.as_str());
    let (Some(message), Some(at)) = (text("message"), text("timestamp").and_then(Time::parse))
    else {
        return;
    };
    if !is_command(message) && digest.last_activity_at.is_none_or(|known| at > known) {
        digest.widen_span(at);
        digest.turn = TurnState::Open;
    }
}

/// Whether the single document was resumed: its lines then go on in a file of the same stem.
fn is_continued(entries: &[DirEntry], stem: &str) -> bool {
    entries.iter().any(|other| other.strip_suffix(".jsonl") == Some(stem))
}

/// The header's session id. The file name has only the beginning of it, which still names the
/// session when the header is damaged.
fn session_id(root: &Path, path: &Path, entry: &DirEntry) -> String {
    let head = files::read_head(root, path).unwrap_or_default();
    let written = JsonValue::new(&head).get("sessionId").and_then(JsonValue::to_owned_string);
    written.filter(|id| !id.is_empty()).unwrap_or_else(|| {
        let name = entry.name.to_string_lossy();
        let stem = name.split('.').next().unwrap_or(&name);
        stem.rsplit('-').next().unwrap_or(stem).to_owned()
    })
}

/// Notes the file that says which directory the project is. `projects.json` changes with every
/// new project, so it is asked only where `.project_root` is missing.
fn with_directory(source: TranscriptSource) -> TranscriptSource {
    let Some(project) = project_of(&source) else {
        return source;
    };
    let marker = project.join(".project_root");
    if files::stamp_path(&marker).is_some() {
        return source.with_side_file(marker);
    }
    let map = source.root.join("projects.json");
    source.with_side_file(map)
}

/// `tmp/<slug>`.
fn project_of(source: &TranscriptSource) -> Option<PathBuf> {
    let below = source.path.strip_prefix(source.root.join("tmp")).ok()?;
    Some(source.root.join("tmp").join(below.components().next()?))
}

fn working_directory(source: &TranscriptSource) -> Option<String> {
    let (path, _) = source.beside.iter().find(|(path, _)| !path.ends_with(TYPED))?;
    let (bytes, _) = files::read_small(&source.root, path).ok()?;
    if path.ends_with(".project_root") {
        let text = String::from_utf8_lossy(&bytes);
        return Some(text.trim()).filter(|text| text.starts_with('/')).map(str::to_owned);
    }
    let project = project_of(source)?;
    let slug = project.file_name()?.to_str()?;
    let map: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let projects = map.get("projects")?.as_object()?;
    let named = |(path, name): &(&String, &serde_json::Value)| {
        name.as_str() == Some(slug) || hex_sha256(path) == slug
    };
    projects.iter().find(named).map(|(path, _)| path.clone())
}

fn hex_sha256(text: &str) -> String {
    to_hex(&Sha256::digest(text.as_bytes()))
}

/// A message, or a header or patch with the fields that matter.
#[derive(Default)]
struct Message<'a> {
    id: Option<JsonValue<'a>>,
    kind: &'a [u8],
    timestamp: Option<JsonValue<'a>>,
    content: Option<JsonValue<'a>>,
    shown: Option<JsonValue<'a>>,
    tokens: Option<JsonValue<'a>>,
    model: Option<JsonValue<'a>>,
    calls: Option<JsonValue<'a>>,
    set: Option<JsonValue<'a>>,
    rewound: bool,
    start: Option<JsonValue<'a>>,
    updated: Option<JsonValue<'a>>,
    summary: Option<JsonValue<'a>>,
    messages: Option<JsonValue<'a>>,
}

impl<'a> Message<'a> {
    fn parse_message(line: &'a [u8]) -> Result<Self, skim::BrokenJson> {
        let mut found = Self::default();
        for field in skim::parse_object(line)? {
            found.note_field(field?);
        }
        Ok(found)
    }

    fn note_field(&mut self, (key, value): (&'a [u8], JsonValue<'a>)) {
        match key {
            b"id" => self.id = Some(value),
            b"type" => self.kind = value.raw(),
            b"timestamp" => self.timestamp = Some(value),
            b"content" => self.content = Some(value),
            b"displayContent" => self.shown = Some(value),
            b"tokens" => self.tokens = Some(value),
            b"model" => self.model = Some(value),
            b"toolCalls" => self.calls = Some(value),
            b"$set" => self.set = Some(value),
            b"$rewindTo" => self.rewound = true,
            b"startTime" => self.start = Some(value),
            b"lastUpdated" => self.updated = Some(value),
            b"summary" => self.summary = Some(value),
            b"messages" => self.messages = Some(value),
            _ => {}
        }
    }

    fn id(&self) -> &'a [u8] {
        self.id.map_or(&b""[..], JsonValue::raw)
    }

    fn joined_text(&self) -> String {
        self.content.map(text_of).unwrap_or_default()
    }

    /// What a person typed, if that is what this is: not the context that opens every chat, not a
    /// tool's answer, not a command of the program.
    fn typed_prompt(&self) -> Option<String> {
        let answers = self.content.is_some_and(|content| tool_responses(content).next().is_some());
        if self.kind != br#""user""# || answers {
            return None;
        }
        let text = self.shown.or(self.content).map(text_of).unwrap_or_default();
        let injected = text.trim_start().starts_with("<session_context>");
        (!text.trim().is_empty() && !injected && !is_command(&text)).then_some(text)
    }

    fn tool_calls(&self) -> impl Iterator<Item = JsonValue<'a>> + use<'a> {
        self.calls.into_iter().flat_map(JsonValue::iter_elements)
    }
}

/// `/clear` and `?`, but not `/etc/hosts is wrong`.
fn is_command(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or("");
    match word.strip_prefix(['/', '?']) {
        Some(name) => name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
        None => false,
    }
}

/// The tools' answers among the parts.
fn tool_responses<'a>(content: JsonValue<'a>) -> impl Iterator<Item = JsonValue<'a>> + use<'a> {
    content.iter_elements().filter_map(|part| part.get("functionResponse"))
}

/// What has been read of a transcript so far.
#[derive(Default)]
struct Reading {
    digest: TranscriptDigest,
    /// Usage by message id: the last writing of a message is the one that counts.
    usage: HashMap<Vec<u8>, TokenUsage>,
    prompts: HashSet<Vec<u8>>,
    /// The last prompt, until it is answered.
    unanswered: Option<Vec<u8>>,
    /// A request was cancelled since the last answer.
    cancelled: bool,
}

impl Reading {
    fn read_line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match Message::parse_message(line) {
            Ok(record) => self.read_record(&record),
            Err(skim::BrokenJson) => self.digest.damage.broken += 1,
        }
    }

    /// The older format: header and messages in one object.
    fn read_document(&mut self, document: &[u8]) -> Result<(), ReadError> {
        let mut whole = Message::default();
        if document.trim_ascii().is_empty() {
            return Err(ReadError::Empty);
        }
        let fields = skim::parse_object(document)
            .map_err(|_| ReadError::unknown_format("not a JSON object"))?;
        for field in fields {
            match field {
                Ok(field) => whole.note_field(field),
                Err(skim::BrokenJson) => self.digest.damage.broken += 1,
            }
        }
        if whole.start.is_none() && whole.messages.is_none() {
            return Err(ReadError::unknown_format(
                "no chat in it: cut off, or of an unknown version",
            ));
        }
        self.read_header(&whole);
        for message in whole.messages.into_iter().flat_map(JsonValue::iter_elements) {
            self.read_line(message.raw());
        }
        Ok(())
    }

    fn read_record(&mut self, record: &Message<'_>) {
        if record.rewound {
            self.digest.turn = TurnState::Closed;
        } else if let Some(set) = record.set {
            if let Ok(patch) = Message::parse_message(set.raw()) {
                self.read_header(&patch);
                // A listing of the history, not something that happens now: no prompts, no turn.
                let (mut ends_with_prompt, mut has_last) = (false, false);
                for message in patch.messages.into_iter().flat_map(JsonValue::iter_elements) {
                    if let Ok(message) = Message::parse_message(message.raw()) {
                        self.add_usage(&message);
                        ends_with_prompt = message.kind == br#""user""#;
                        has_last |= self.unanswered.as_deref() == Some(message.id());
                    }
                }
                // After an interrupt the history is written anew, up to the prompt that has no
                // answer, or without it if the router had not chosen a model yet; a compression ends
                // with the model's own words.
                let taken_back = patch.messages.is_some() && self.cancelled && !has_last;
                if ends_with_prompt || taken_back {
                    self.digest.turn = TurnState::Closed;
                }
            }
        } else if record.id.is_some() {
            self.read_message(record);
        } else {
            self.read_header(record);
        }
    }

    fn read_header(&mut self, header: &Message<'_>) {
        for time in [header.start, header.updated] {
            if let Some(time) = time.and_then(JsonValue::as_time) {
                self.digest.widen_span(time);
            }
        }
        if let Some(summary) = header.summary.and_then(JsonValue::to_owned_string) {
            self.digest.title = Some(summary.trim()).filter(|s| !s.is_empty()).map(shorten_title);
        }
    }

    fn read_message(&mut self, message: &Message<'_>) {
        if let Some(time) = message.timestamp.and_then(JsonValue::as_time) {
            self.digest.widen_span(time);
        }
        self.add_usage(message);
        match message.kind {
            br#""user""# => {
                if let Some(prompt) = message.typed_prompt() {
                    if self.prompts.insert(message.id().to_vec()) {
                        self.digest.count_prompt(&prompt);
                        self.unanswered = Some(message.id().to_vec());
                    }
                } else if message
                    .content
                    .is_some_and(|content| tool_responses(content).next().is_some())
                {
                    self.digest.turn = TurnState::Open;
                }
            }
            br#""gemini""# => {
                if let Some(model) = message.model.and_then(JsonValue::as_str) {
                    self.digest.note_model(&model);
                }
                self.digest.turn = turn_after(message);
                (self.unanswered, self.cancelled) = (None, false);
            }
            br#""error""# => self.digest.turn = TurnState::Closed,
            br#""info""# if message.joined_text().starts_with("Request cancelled") => {
                self.digest.turn = TurnState::Closed;
                self.cancelled = true;
            }
            _ => {}
        }
    }

    fn add_usage(&mut self, message: &Message<'_>) {
        if let Some(tokens) = message.tokens.and_then(usage_of) {
            self.usage.insert(message.id().to_vec(), tokens);
        }
    }

    fn into_digest(mut self, cwd: Option<String>) -> TranscriptDigest {
        for tokens in self.usage.into_values() {
            self.digest.add_usage(tokens);
        }
        self.digest.cwd = cwd;
        self.digest
    }
}

/// An answer is first written with its text; its tool calls follow when they are done and go back
/// to the model. An answer without either is one whose tools run, or wait for consent: which
/// of both, and what they are, is not written down.
fn turn_after(message: &Message<'_>) -> TurnState {
    let mut calls = message.tool_calls().peekable();
    if calls.peek().is_none() {
        return match (message.joined_text().trim().is_empty(), message.tokens) {
            (true, Some(_)) => TurnState::Asking(None),
            (true, None) => TurnState::Open,
            (false, _) => TurnState::Closed,
        };
    }
    let mut cancelled = true;
    for call in calls {
        let status = call.get("status");
        if status.is_some_and(|status| status.is_string("awaiting_approval")) {
            return TurnState::Waiting(call.get("name").and_then(JsonValue::to_owned_string));
        }
        cancelled &= status.is_some_and(|status| status.is_string("cancelled"));
    }
    if cancelled { TurnState::Closed } else { TurnState::Open }
}

/// `input` includes what was read from the cache; thoughts and tool prompts are counted apart.
fn usage_of(tokens: JsonValue<'_>) -> Option<TokenUsage> {
    let mut count = [0; 5];
    for (key, value) in tokens.as_object()?.flatten() {
        let slot = match key {
            b"input" => 0,
            b"output" => 1,
            b"cached" => 2,
            b"thoughts" => 3,
            b"tool" => 4,
            _ => continue,
        };
        count[slot] = value.as_u64().unwrap_or(0);
    }
    let [input, output, cached, thoughts, tool] = count;
    Some(TokenUsage {
        input: input.saturating_sub(cached).saturating_add(tool),
        output: output.saturating_add(thoughts),
        cache_read: cached,
        cache_write: 0,
    })
}

#[cfg(test)]
mod tests;
