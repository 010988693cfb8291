//! GitHub Copilot CLI.
//!
//! A session is a directory, `session-state/<id>/`: `workspace.yaml` from the start, `events.jsonl`
//! from the first prompt on (a session that is killed early never has one). Older versions wrote
//! `session-state/<id>.jsonl`. A running process leaves `inuse.<pid>.lock`, which holds its pid,
//! and keeps `inuse.<pid>.hold` open; both stay behind after a kill.
//!
//! Traps: an agentic loop is several `assistant.turn_*` pairs, so the end of one ends nothing while
//! tools were asked for; input tokens include cached ones; the `cost` of a request is counted in
//! premium requests, not in money; a resumed session goes on after its `session.shutdown`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use model::conversation::{ConversationEntry, ConversationRole};
use model::event::HookHappening;
use model::identity::Identity;
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{
    FileStamp, ProcessRegistration, RegistrationProof, RegistrationScope, TokenUsage,
    TranscriptDigest, TurnState, shorten_title,
};
use model::time::Time;

use crate::control::{AgentControl, HeadlessControl, IdRule, PromptInput};
use crate::files::{DirEntry, EntryKind, ReadError};
use crate::hooks::{AgentHooks, HookFileShape, HookMeaning, HookWiring};
use crate::skim::{self, JsonValue};
use crate::turn_ends::read_turn_end_by_line;
use crate::{
    Adapter, AgentProfile, EnvLookup, ExtraFileKind, LineConversation, Opening, Survey,
    TranscriptSource, TurnEndReader, files,
};

mod turns;

/// GitHub Copilot CLI.
#[derive(Debug)]
pub(crate) struct Copilot;

static COPILOT_PROFILE: AgentProfile = AgentProfile {
    id: "copilot",
    name: "GitHub Copilot CLI",
    version: 2,
    certainty: FormatCertainty::Lab,
    program: AgentProgram {
        names: &["copilot"],
        packages: &["@github/copilot"],
        servers: &[],
        helpers: &[
            "completion",
            "help",
            "init",
            "login",
            "logout",
            "mcp",
            "plugin",
            "update",
            "version",
        ],
    },
    resume_options: &["--resume"],
    continue_options: &["--continue"],
    session_variables: &[],
    opening: Opening { leaves_lock_behind: true, ..Opening::ANYWHERE },
    hooks: Some(&AgentHooks {
        events: &[
            ("sessionStart", HookMeaning::Is(HookHappening::SessionStart)),
            ("userPromptSubmitted", HookMeaning::Prompt),
            ("permissionRequest", HookMeaning::Is(HookHappening::Progress)),
            ("postToolUse", HookMeaning::Is(HookHappening::Progress)),
            ("preCompact", HookMeaning::Is(HookHappening::Compaction)),
            ("agentStop", HookMeaning::Is(HookHappening::TurnEnd)),
            ("sessionEnd", HookMeaning::Is(HookHappening::SessionEnd)),
        ],
        pid_variables: &[],
        wiring: HookWiring {
            user: |env| {
                Some(env.root_or_home("COPILOT_HOME", ".copilot").pop()?.join("hooks/ostler.json"))
            },
            project: Some(|project| project.join(".github/hooks/ostler.json")),
            shape: HookFileShape::Flat { command: "bash", timeout: "timeoutSec", typed: true },
            notify: None,
        },
    }),
    note: "events, workspaces and in-use locks of 1.0.102",
};

const EVENTS: &str = "copilot-events";
/// A session that has no events yet.
const WORKSPACE: &str = "copilot-workspace";

static COPILOT_CONTROL: AgentControl = AgentControl {
    measured: "1.0.102",
    interactive: Some(&["--session-id", "{id}"]),
    resume: Some(&["--resume={id}"]),
    headless: Some(HeadlessControl {
        start: &["-s", "--output-format", "json", "--session-id", "{id}"],
        resume: Some(&["-s", "--output-format", "json", "--resume={id}"]),
        input: PromptInput::Stdin,
        id_field: "sessionId",
    }),
    id_rule: IdRule::ChosenUuid,
    composer_words: Some("/ commands"),
    // From about 30 KB on: `<pasted_content file="…" size="57.1 KB" lines="901" />`.
    paste_reference: Some(("<pasted_content file=\"", "\"")),
    question_words: &["Do you want to"],
    takes_prompts_at_work: false,
    ..AgentControl::TERMINAL_ONLY
};

impl Adapter for Copilot {
    fn agent_profile(&self) -> &'static AgentProfile {
        &COPILOT_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "~/.copilot/mcp-config.json",
            shape: crate::McpSettingsShape::TypedMcpServers("local"),
        })
    }

    fn control_table(&self) -> Option<&'static AgentControl> {
        Some(&COPILOT_CONTROL)
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        env.root_or_home("COPILOT_HOME", ".copilot")
    }

    fn survey_root(&self, survey: &mut Survey) {
        let root = survey.root_path();
        let sessions = root.join("session-state");
        for entry in survey.list_wanted(&sessions, |name| !name.starts_with('.')) {
            let Some(name) = entry.name.to_str().filter(|name| !name.starts_with('.')) else {
                continue;
            };
            let path = sessions.join(name);
            match entry.kind {
                EntryKind::Directory => survey_session(survey, &path, name),
                EntryKind::File => {
                    if let Some(id) = entry.strip_suffix(".jsonl") {
                        survey.note_file(id, path, entry.stamp, EVENTS);
                    }
                }
                EntryKind::Escape | EntryKind::Other => {}
            }
        }
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        if source.format == WORKSPACE {
            let mut digest = TranscriptDigest::default();
            read_workspace(source, &source.path)?.describe_session(&mut digest);
            return Ok(digest);
        }
        let mut reading = Reading::default();
        let end = source.each_line(0, |line| reading.read_line(line))?;
        reading.digest.damage.oversized = end.oversized;
        let mut digest = reading.into_digest();
        for (path, _) in &source.beside {
            match read_workspace(source, path) {
                Ok(workspace) => workspace.describe_session(&mut digest),
                Err(_) => digest.damage.broken += 1,
            }
        }
        Ok(digest)
    }

    fn turn_end_reader(&self) -> Option<TurnEndReader> {
        Some(TurnEndReader {
            read: |source, from, prompt_at| {
                let end_of_line = turns::CopilotTurn::default().reader();
                read_turn_end_by_line(source, from, prompt_at, converse_line, end_of_line)
            },
            tells_all: true,
        })
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
        if source.format == WORKSPACE {
            return Ok(0);
        }
        Ok(source.each_line(from, |line| converse_line(line, say))?.offset)
    }
}

/// `session-state/<id>/`.
fn survey_session(survey: &mut Survey, directory: &Path, id: &str) {
    let root = survey.root_path();
    let wanted = |name: &str| name == "events.jsonl" || name.starts_with("inuse.");
    let entries = survey.list_wanted(directory, wanted);
    let find = |name: &str| {
        entries.iter().find(|entry| entry.kind == EntryKind::File && entry.name == name)
    };
    let workspace = directory.join("workspace.yaml");
    if let Some(events) = find("events.jsonl") {
        let path = directory.join("events.jsonl");
        survey.note_source(
            TranscriptSource::from_file(id, &root, path, events.stamp, EVENTS)
                .with_side_file(workspace),
        );
    } else if let Some(found) = find("workspace.yaml") {
        survey.note_file(id, workspace, found.stamp, WORKSPACE);
    }
    survey_locks(survey, directory, id, &entries);
    for entry in &entries {
        let path = directory.join(&entry.name);
        if entry.kind == EntryKind::Directory {
            for inner in survey.list_wanted(&path, |_| false) {
                survey_attachments(survey, &path, &inner, id);
            }
        } else if entry.name != "events.jsonl" && entry.name != "workspace.yaml" {
            survey_attachments(survey, directory, entry, id);
        }
    }
}

fn survey_attachments(survey: &mut Survey, directory: &Path, entry: &DirEntry, id: &str) {
    if entry.kind == EntryKind::File && entry.stamp.bytes > 0 {
        survey.note_extra(
            ExtraFileKind::Attachment,
            entry,
            directory.join(&entry.name),
            Some(id.to_owned()),
        );
    }
}

/// `inuse.<pid>.lock` and `inuse.<pid>.hold`. The directory names the session, so that even a lock
/// that cannot be read speaks about it.
fn survey_locks(survey: &mut Survey, directory: &Path, id: &str, entries: &[DirEntry]) {
    let root = survey.root_path();
    let pid_of = |entry: &DirEntry, ending| {
        entry.strip_suffix(ending)?.strip_prefix("inuse.")?.parse::<u32>().ok()
    };
    for entry in entries.iter().filter(|entry| entry.kind == EntryKind::File) {
        let Some(named) = pid_of(entry, ".lock") else {
            continue;
        };
        let path = directory.join(&entry.name);
        let holds: Option<FileStamp> = entries
            .iter()
            .find(|entry| pid_of(entry, ".hold") == Some(named))
            .map(|entry| entry.stamp);
        let pid = match files::read_small(&root, &path) {
            Ok((content, _)) => {
                let written = std::str::from_utf8(&content).ok();
                let written = written.and_then(|text| text.trim().parse::<u32>().ok());
                if written != Some(named) {
                    let error =
                        ReadError::unknown_format("does not hold the pid it is named after");
                    survey.note_problem(&path, &error);
                }
                // Two numbers that disagree name no process.
                written.is_none_or(|pid| pid == named).then_some(named)
            }
            Err(error) if error.is_absent() => continue,
            Err(error) => {
                survey.note_problem(&path, &error);
                Some(named)
            }
        };
        let identity = Identity {
            recorded_at: Some(entry.stamp.modified_at()),
            comm: Some("copilot".to_owned()),
            ..Identity::recorded_by_agent(pid)
        };
        survey.registrations.push(ProcessRegistration {
            scope: RegistrationScope::Session(id.to_owned()),
            proof: RegistrationProof::Process { identity, holds },
            source: path,
            activity: None,
            waiting_for: None,
            digest: TranscriptDigest::default(),
        });
    }
}

/// `workspace.yaml`: a flat list of scalars.
#[derive(Debug, Default, PartialEq, Eq)]
struct Workspace {
    cwd: Option<String>,
    branch: Option<String>,
    name: Option<String>,
    user_named: bool,
    created_at: Option<Time>,
    updated_at: Option<Time>,
}

fn read_workspace(source: &TranscriptSource, path: &Path) -> Result<Workspace, ReadError> {
    let (bytes, _) = files::read_small(&source.root, path)?;
    let workspace = Workspace::parse(&String::from_utf8_lossy(&bytes));
    match workspace {
        Workspace { cwd: None, created_at: None, .. } => {
            Err(ReadError::unknown_format("no working directory and no time in it"))
        }
        known => Ok(known),
    }
}

impl Workspace {
    fn parse(text: &str) -> Self {
        let mut workspace = Self::default();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            let value = if value.starts_with(['|', '>']) {
                let mut block = Vec::new();
                while let Some(line) =
                    lines.next_if(|line| line.starts_with(' ') || line.is_empty())
                {
                    block.push(line.trim());
                }
                block.join("\n")
            } else {
                unquote_yaml(value)
            };
            let known = Some(value.trim()).filter(|value| !value.is_empty() && *value != "null");
            let known = known.map(str::to_owned);
            match key {
                "cwd" => workspace.cwd = known,
                "branch" => workspace.branch = known,
                "name" => workspace.name = known,
                "user_named" => workspace.user_named = value == "true",
                "created_at" => workspace.created_at = Time::parse(&value),
                "updated_at" => workspace.updated_at = Time::parse(&value),
                _ => {}
            }
        }
        workspace
    }

    /// Adds to a digest what the events did not say.
    fn describe_session(self, digest: &mut TranscriptDigest) {
        digest.cwd = digest.cwd.take().or(self.cwd);
        digest.branch = digest.branch.take().or(self.branch);
        let name = self.name.as_deref().map(shorten_title);
        // Until it is given a name, a session is called by its first prompt.
        digest.title =
            name.filter(|name| self.user_named || digest.first_prompt.as_ref() != Some(name));
        for time in [self.created_at, self.updated_at].into_iter().flatten() {
            digest.widen_span(time);
        }
    }
}

/// A YAML scalar on one line.
fn unquote_yaml(value: &str) -> String {
    if let Some(inner) = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return inner.replace("''", "'");
    }
    if value.starts_with('"')
        && let Some(text) = JsonValue::new(value.as_bytes()).to_owned_string()
    {
        return text;
    }
    value.to_owned()
}

/// What has been read of the events so far.
#[derive(Default)]
struct Reading {
    digest: TranscriptDigest,
    calls: HashSet<Vec<u8>>,
    /// Requests recorded since the session was last started or resumed.
    recorded: u32,
    /// Requests for a person's consent without an answer.
    permissions: Vec<String>,
    /// Whether the last answer asked for tools.
    asks_for_tools: bool,
    last_time: Vec<u8>,
}

/// The fields of an event that matter.
struct Event<'a> {
    kind: JsonValue<'a>,
    data: JsonValue<'a>,
    timestamp: Option<JsonValue<'a>>,
    /// Set on events of sub-agents, which run inside the session.
    agent: bool,
}

impl<'a> Event<'a> {
    fn parse_event(raw: &'a [u8]) -> Result<Self, skim::BrokenJson> {
        let (mut kind, mut data, mut timestamp, mut agent) = (None, None, None, false);
        for field in skim::parse_object(raw)? {
            let (key, value) = field?;
            match key {
                b"type" => kind = Some(value),
                b"data" => data = Some(value),
                b"timestamp" => timestamp = Some(value),
                b"agentId" => agent = value.raw() != b"null",
                _ => {}
            }
        }
        let kind = kind.ok_or(skim::BrokenJson)?;
        Ok(Self { kind, data: data.unwrap_or(JsonValue::new(b"{}")), timestamp, agent })
    }
}

impl Reading {
    fn read_line(&mut self, line: &[u8]) {
        if !line.trim_ascii().is_empty() && self.try_line(line).is_err() {
            self.digest.damage.broken += 1;
        }
    }

    fn try_line(&mut self, raw: &[u8]) -> Result<(), skim::BrokenJson> {
        let event = Event::parse_event(raw)?;
        // Parsed only at the end, so what is no time stamp must not take the place of one.
        if let Some(timestamp) = event.timestamp.filter(|value| value.is_text()) {
            if self.digest.started_at.is_none() {
                self.note_time(timestamp);
            }
            self.last_time.clear();
            self.last_time.extend_from_slice(timestamp.raw());
        }
        let data = event.data;
        match event.kind.raw() {
            br#""session.start""# | br#""session.resume""# => self.read_start(data),
            br#""session.context_changed""# => self.read_context(data),
            br#""session.usage_record""# => self.read_usage(data),
            br#""session.shutdown""# => self.shut_down(&event),
            _ if event.agent => {}
            br#""user.message""# if is_typed(data) => {
                self.digest.ended_at = None;
                let text =
                    data.get("content").and_then(JsonValue::to_owned_string).unwrap_or_default();
                self.digest.count_prompt(&text);
            }
            br#""assistant.turn_start""# => {
                self.digest.ended_at = None;
                self.digest.turn = TurnState::Open;
            }
            br#""assistant.message""# => {
                if let Some(model) = data.get("model").and_then(JsonValue::as_str) {
                    self.digest.note_model(&model);
                }
                let tools = data.get("toolRequests").and_then(JsonValue::as_array);
                self.asks_for_tools = tools.is_some_and(|mut tools| tools.next().is_some());
            }
            br#""assistant.turn_end""# if !self.asks_for_tools => {
                self.digest.turn = TurnState::Closed
            }
            br#""abort""# => self.digest.turn = TurnState::Closed,
            br#""permission.requested""# => {
                let text = |path: &[&str]| data.value_at(path).and_then(JsonValue::to_owned_string);
                self.permissions.extend(text(&["requestId"]));
                let asked = |field| text(&["permissionRequest", field]);
                let command = || asked("fullCommandText").or_else(|| asked("intention"));
                let what = match (asked("kind"), command()) {
                    (Some(kind), Some(command)) => Some(format!("{kind} {command}")),
                    (kind, command) => kind.or(command),
                };
                self.digest.turn = TurnState::Waiting(what.as_deref().map(shorten_title));
            }
            br#""permission.completed""# => {
                let id = data.get("requestId").and_then(JsonValue::to_owned_string);
                self.permissions.retain(|open| Some(open) != id.as_ref());
                let waits = matches!(self.digest.turn, TurnState::Waiting(_));
                if waits && self.permissions.is_empty() {
                    self.digest.turn = TurnState::Open;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn note_time(&mut self, time: JsonValue<'_>) {
        if let Some(time) = time.as_time() {
            self.digest.widen_span(time);
        }
    }

    fn read_start(&mut self, data: JsonValue<'_>) {
        self.digest.ended_at = None;
        self.recorded = 0;
        if let Some(time) = data.get("startTime") {
            self.note_time(time);
        }
        if let Some(version) = data.get("copilotVersion").and_then(JsonValue::to_owned_string) {
            self.digest.version = Some(version);
        }
        if let Some(context) = data.get("context") {
            self.read_context(context);
        }
    }

    fn read_context(&mut self, context: JsonValue<'_>) {
        let text = |field| context.get(field).and_then(JsonValue::to_owned_string);
        self.digest.cwd = self.digest.cwd.take().or_else(|| text("cwd"));
        self.digest.branch = text("branch").or_else(|| self.digest.branch.take());
    }

    fn read_usage(&mut self, data: JsonValue<'_>) {
        let Some(usage) = data.get("usage") else {
            return;
        };
        self.recorded += 1;
        let call = usage.get("apiCallId").filter(|call| call.raw() != b"null");
        if call.is_none_or(|call| self.calls.insert(call.raw().to_vec())) {
            self.digest.add_usage(tokens_of(usage));
        }
    }

    /// Versions that recorded no single request at least summed them up at the end.
    fn shut_down(&mut self, event: &Event<'_>) {
        self.digest.ended_at = event.timestamp.and_then(JsonValue::as_time);
        self.digest.turn = TurnState::Closed;
        if self.recorded > 0 {
            return;
        }
        let models = event.data.get("modelMetrics").and_then(JsonValue::as_object);
        for (_, metrics) in models.into_iter().flatten().flatten() {
            if let Some(usage) = metrics.get("usage") {
                self.digest.add_usage(tokens_of(usage));
            }
        }
    }

    fn into_digest(mut self) -> TranscriptDigest {
        if let Some(last) = JsonValue::new(&self.last_time).as_time() {
            self.digest.widen_span(last);
        }
        self.digest
    }
}

/// Whether a person wrote the message: what the program injects carries its source.
fn is_typed(data: JsonValue<'_>) -> bool {
    data.get("source").is_none_or(|source| source.raw() == b"null" || source.is_string("user"))
}

/// Input includes what was cached; output includes reasoning.
fn tokens_of(usage: JsonValue<'_>) -> TokenUsage {
    let number = |field| usage.get(field).and_then(JsonValue::as_u64).unwrap_or(0);
    let (cache_read, cache_write) = (number("cacheReadTokens"), number("cacheWriteTokens"));
    TokenUsage {
        input: number("inputTokens").saturating_sub(cache_read).saturating_sub(cache_write),
        output: number("outputTokens"),
        cache_read,
        cache_write,
    }
}

fn converse_line(raw: &[u8], say: &mut dyn FnMut(ConversationEntry)) {
    let Ok(event) = Event::parse_event(raw) else { return };
    let at = event.timestamp.and_then(JsonValue::as_time);
    let data = event.data;
    let text = |path: &[&str]| {
        data.value_at(path).and_then(JsonValue::to_owned_string).unwrap_or_default()
    };
    let entry = match event.kind.raw() {
        br#""user.message""# if is_typed(data) => {
            ConversationEntry::new(at, ConversationRole::User, text(&["content"]))
        }
        br#""user.message""# | br#""system.message""# => {
            ConversationEntry::new(at, ConversationRole::System, text(&["content"]))
        }
        br#""assistant.message""# => {
            ConversationEntry::new(at, ConversationRole::Assistant, text(&["content"]))
        }
        br#""tool.execution_start""# => {
            let input = data.get("arguments").map_or(&b""[..], JsonValue::raw);
            ConversationEntry::tool_call(at, text(&["toolName"]), String::from_utf8_lossy(input))
        }
        br#""tool.execution_complete""# => {
            let result = text(&["result", "content"]);
            let result = if result.is_empty() { text(&["error", "message"]) } else { result };
            ConversationEntry::new(at, ConversationRole::Result, result)
        }
        br#""session.error""# | br#""session.info""# | br#""session.warning""# => {
            ConversationEntry::new(at, ConversationRole::System, text(&["message"]))
        }
        _ => return,
    };
    // An answer may be nothing but a request for tools, which follows.
    if entry.role != ConversationRole::Assistant || !entry.text.is_empty() {
        let agent = JsonValue::new(raw).get("agentId").filter(|_| event.agent);
        say(ConversationEntry { subagent: agent.and_then(JsonValue::to_owned_string), ..entry });
    }
}

#[cfg(test)]
mod tests;
