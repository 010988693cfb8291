//! Claude Code.
//!
//! Transcripts are `projects/<slug>/<session>.jsonl`, append-only and not kept open; sub-agents
//! write to `<session>/subagents/agent-<id>.jsonl` beside them. A running process registers itself
//! in `sessions/<pid>.json` with its start time; the file stays behind after a kill, and its
//! session changes on `/clear`. One API message is written as several lines, one per content block,
//! each repeating the message's usage.

mod registrations;
mod survey;
mod turns;
mod usage;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use memchr::memmem::Finder;
use model::conversation::{ConversationEntry, ConversationRole};
use model::event::HookHappening;
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState, shorten_title};
use model::time::Time;
use model::usage::{MessageUsage, micro_usd};

use self::usage::{hash_message_id, tell_usage, usage_of};
use crate::blocks::{self, text_of};
use crate::control::{AgentControl, HeadlessControl, IdRule, PermissionChannel, PromptInput};
use crate::files::{EntryKind, ReadError};
use crate::hooks::{AgentHooks, HookFileShape, HookMeaning, HookWiring};
use crate::skim::{self, FieldPlace, JsonValue};
use crate::{
    Adapter, AgentProfile, EnvLookup, LineConversation, Opening, Removable, Survey,
    TranscriptSource, TurnEndReader, files,
};

#[derive(Debug)]
pub(crate) struct ClaudeCode;

static CLAUDE_CODE_PROFILE: AgentProfile = AgentProfile {
    id: "claude-code",
    name: "Claude Code",
    version: 3,
    certainty: FormatCertainty::Lab,
    program: AgentProgram {
        names: &["claude", "openclaude"],
        packages: &["@anthropic-ai/claude-code", "claude/versions", "@gitlawb/openclaude"],
        servers: &[],
        helpers: &["bg-spare", "bg-pty-host", "daemon", "mcp", "install", "update", "doctor"],
    },
    resume_options: &["--resume", "-r", "--session-id"],
    continue_options: &["--continue", "-c"],
    session_variables: &[],
    opening: Opening { tells_of_switches: true, ..Opening::IN_DIRECTORY },
    hooks: Some(&AgentHooks {
        events: &[
            ("SessionStart", HookMeaning::Is(HookHappening::SessionStart)),
            ("UserPromptSubmit", HookMeaning::Prompt),
            ("PermissionRequest", HookMeaning::Is(HookHappening::Waiting)),
            ("Notification", HookMeaning::Notification),
            ("PostToolUse", HookMeaning::Is(HookHappening::Progress)),
            ("PostToolUseFailure", HookMeaning::Is(HookHappening::Progress)),
            ("PreCompact", HookMeaning::Is(HookHappening::Compaction)),
            ("SubagentStart", HookMeaning::Is(HookHappening::Sign)),
            ("SubagentStop", HookMeaning::Is(HookHappening::Sign)),
            ("Stop", HookMeaning::Is(HookHappening::TurnEnd)),
            ("StopFailure", HookMeaning::FailedTurn),
            ("SessionEnd", HookMeaning::Is(HookHappening::SessionEnd)),
        ],
        pid_variables: &["CLAUDE_PID"],
        wiring: HookWiring {
            user: |env| {
                Some(env.root_or_home("CLAUDE_CONFIG_DIR", ".claude").pop()?.join("settings.json"))
            },
            // The one for a person: it holds a path of this machine.
            project: Some(|project| project.join(".claude/settings.local.json")),
            shape: HookFileShape::Groups { per_second: 1 },
            notify: None,
        },
    }),
    note: "transcripts, registrations and sub-agents of 2.1.197 and 2.1.325; \
           OpenClaude (~/.openclaude) as the same format, never run",
};

const FORMAT: &str = "claude-jsonl";

/// Where OpenClaude keeps the same format.
const FORK: &str = ".openclaude";
static CLAUDE_CODE_CONTROL: AgentControl = AgentControl {
    measured: "2.1.325",
    interactive: Some(&["--session-id", "{id}"]),
    resume: Some(&["--resume", "{id}"]),
    headless: Some(HeadlessControl {
        start: &["-p", "--session-id", "{id}", "--output-format", "stream-json", "--verbose"],
        resume: Some(&["-p", "--resume", "{id}", "--output-format", "stream-json", "--verbose"]),
        input: PromptInput::Stdin,
        id_field: "session_id",
    }),
    fork: Some(&["--fork-session"]),
    id_rule: IdRule::ChosenUuid,
    clear_keys: &["Ctrl+c"],
    quit_keys: &["Ctrl+d", "Ctrl+d"],
    resumes_elsewhere: true,
    permission_channel: PermissionChannel::Hook,
    // The full id is not known to it.
    supervisor_command: Some("claude stop {short}"),
    question_words: &["Do you want to"],
    ..AgentControl::TERMINAL_ONLY
};

impl Adapter for ClaudeCode {
    fn agent_profile(&self) -> &'static AgentProfile {
        &CLAUDE_CODE_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: ".mcp.json of the project, or `claude mcp add-json`",
            shape: crate::McpSettingsShape::McpServers,
        })
    }

    fn control_table(&self) -> Option<&'static AgentControl> {
        Some(&CLAUDE_CODE_CONTROL)
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        let mut roots = env.root_or_home("CLAUDE_CONFIG_DIR", ".claude");
        roots.extend(env.fork_root(FORK));
        roots
    }

    /// The fork was never run: how its processes look is not known well enough.
    fn check_removable(&self, source: &TranscriptSource) -> Removable {
        match source.root.ends_with(FORK) {
            true => Removable::Never,
            false => Removable::WholeFile,
        }
    }

    fn survey_root(&self, survey: &mut Survey) {
        let root = survey.root_path();
        registrations::survey_pid_files(survey, &root.join("sessions"));
        let projects: Vec<PathBuf> = survey
            .list_wanted(&root.join("projects"), |_| true)
            .into_iter()
            .filter(|project| project.kind == EntryKind::Directory)
            .map(|project| root.join("projects").join(project.name))
            .collect();
        survey
            .survey_parallel(&projects, |survey, project| survey::survey_project(survey, project));
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        let mut reading = Reading::default();
        let end = source.each_line(0, |line| reading.read_line(line))?;
        reading.digest.damage.oversized = end.oversized;
        let mut digest = reading.into_digest(source.parent.is_some());
        for (meta, _) in &source.beside {
            if is_finished(source, meta) {
                digest.ended_at = digest.last_activity_at;
            }
        }
        Ok(digest)
    }

    fn read_usage(
        &self,
        source: &TranscriptSource,
        say: &mut dyn FnMut(MessageUsage),
    ) -> Result<bool, ReadError> {
        source.each_line(0, |line| tell_usage(line, say))?;
        Ok(true)
    }

    fn turn_end_reader(&self) -> Option<TurnEndReader> {
        Some(TurnEndReader { read: turns::read_turn_end, tells_all: true })
    }

    fn line_conversation(&self) -> Option<LineConversation> {
        Some(converse_line)
    }
}

/// Whether `agent-<id>.meta.json` says that the sub-agent has finished. One that cannot be read says
/// nothing.
fn is_finished(source: &TranscriptSource, meta: &Path) -> bool {
    let said = files::read_json::<serde_json::Value>(&source.root, meta);
    said.is_ok_and(|(said, _)| said.get("finished") == Some(&serde_json::Value::Bool(true)))
}

static MESSAGE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(r#""message":{"id":""#));
static USAGE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(r#""usage":"#));
static USER: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(r#""type":"user""#));
static TOOL_RESULT: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(r#""type":"tool_result""#));

/// What has been read of a transcript so far.
#[derive(Default)]
struct Reading {
    digest: TranscriptDigest,
    /// Usage of each API message, by the hash of its id.
    counted: HashMap<u64, TokenUsage>,
    last_id: Vec<u8>,
    last_usage: Vec<u8>,
    first_time: Option<Time>,
    last_time: Vec<u8>,
    /// Who and where, as the line before wrote it.
    repeated: Vec<u8>,
    /// The last line, if it was passed over and may hold a newer time, branch or version.
    passed_over: Vec<u8>,
    /// Whether that line must be read before what follows it.
    owed: bool,
    custom_title: Option<String>,
    summary: Option<String>,
    ai_title: Option<String>,
}

/// The fields of a line that matter, found in any order.
#[derive(Default)]
struct Line<'a> {
    kind: &'a [u8],
    timestamp: Option<JsonValue<'a>>,
    cwd: Option<JsonValue<'a>>,
    branch: Option<JsonValue<'a>>,
    version: Option<JsonValue<'a>>,
    subtype: Option<JsonValue<'a>>,
    tool_result: bool,
    meta: bool,
    sidechain: bool,
    text: Option<JsonValue<'a>>,
    cost: Option<JsonValue<'a>>,
    /// Of the message: its API id, content, model, reason to stop and usage.
    id: &'a [u8],
    content: Option<JsonValue<'a>>,
    model: Option<JsonValue<'a>>,
    stop: Option<JsonValue<'a>>,
    usage: Option<JsonValue<'a>>,
}

impl<'a> Line<'a> {
    fn parse_line(line: &'a [u8]) -> Result<Self, skim::BrokenJson> {
        Self::read_after(line, &mut Vec::new())
    }

    /// Reads a line. Every line repeats, in the same bytes, who wrote it and where: `repeated` is
    /// that run of fields as the line before had it, and is stepped over when it is still the same.
    fn read_after(line: &'a [u8], repeated: &mut Vec<u8>) -> Result<Self, skim::BrokenJson> {
        let mut found = Self::default();
        let mut fields = skim::nested_fields(line, "message")?;
        let mut run = None;
        while let Some(field) = fields.next() {
            let (place, key, value) = field?;
            match (place, key) {
                (FieldPlace::Outer, b"userType")
                    if repeated.is_empty() || !fields.step_over(repeated) =>
                {
                    run = Some(fields.unread_bytes());
                }
                (FieldPlace::Outer, b"type") => found.kind = value.raw(),
                (FieldPlace::Outer, b"timestamp") => found.timestamp = Some(value),
                (FieldPlace::Outer, b"cwd") => found.cwd = Some(value),
                (FieldPlace::Outer, b"gitBranch") => {
                    found.branch = Some(value);
                    if let Some(run) = run.take() {
                        repeated.clear();
                        repeated.extend_from_slice(&run[..run.len() - fields.unread_bytes().len()]);
                    }
                }
                (FieldPlace::Outer, b"version") => found.version = Some(value),
                (FieldPlace::Outer, b"subtype") => found.subtype = Some(value),
                (FieldPlace::Outer, b"toolUseResult") => found.tool_result = true,
                (FieldPlace::Outer, b"isMeta" | b"isCompactSummary") => {
                    found.meta |= value.as_bool() == Some(true);
                }
                (FieldPlace::Outer, b"isSidechain") => {
                    found.sidechain = value.as_bool() == Some(true)
                }
                (FieldPlace::Outer, b"customTitle" | b"summary" | b"aiTitle" | b"title") => {
                    found.text = Some(value);
                }
                (FieldPlace::Outer, b"totalCostUSD") => found.cost = Some(value),
                (FieldPlace::Inner, b"id") => found.id = value.raw(),
                (FieldPlace::Inner, b"content") => found.content = Some(value),
                (FieldPlace::Inner, b"model") => found.model = Some(value),
                (FieldPlace::Inner, b"stop_reason") => found.stop = Some(value),
                (FieldPlace::Inner, b"usage") => found.usage = Some(value),
                _ => {}
            }
        }
        Ok(found)
    }
}

impl Reading {
    fn read_line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() || self.passes_over(line) {
            return;
        }
        self.read_passed_over();
        match self.try_line(line) {
            Ok(()) => self.passed_over.clear(),
            Err(skim::BrokenJson) => self.digest.damage.broken += 1,
        }
    }

    /// Whether a line can say nothing new unless it is the last one, in which case it is read in
    /// the end. A quote inside a JSON string is escaped, so that the marks looked for can only be
    /// keys and values; where they stand elsewhere than usual, a line is read like any other.
    fn passes_over(&mut self, line: &[u8]) -> bool {
        let begun = self.first_time.is_some() && self.digest.cwd.is_some();
        if !begun || !line.ends_with(b"}") {
            return false;
        }
        if is_plain_tool_result(line) {
            // Most of a transcript's bytes: no more than that the turn goes on.
            self.digest.turn = TurnState::Open;
            self.owed = false;
        } else if self.repeats_the_last_message(line) {
            self.owed = true;
        } else {
            return false;
        }
        self.passed_over.clear();
        self.passed_over.extend_from_slice(line);
        true
    }

    /// Whether a line is a further block of the message counted last, with the same usage.
    fn repeats_the_last_message(&self, line: &[u8]) -> bool {
        let Some(id) = self.last_id.strip_prefix(b"\"") else { return false };
        let Some(at) = MESSAGE.find(line) else { return false };
        let message = &line[at + MESSAGE.needle().len()..];
        message.starts_with(id)
            && USAGE.find(message).is_some_and(|at| {
                message[at + USAGE.needle().len()..].starts_with(&self.last_usage)
            })
    }

    /// Reads a block that was passed over: how it ended its message still counts.
    fn read_passed_over(&mut self) {
        if std::mem::take(&mut self.owed) {
            let owed = std::mem::take(&mut self.passed_over);
            // It was whole and like the one before; anything odd about it is no news.
            let _ = self.try_line(&owed);
            self.passed_over = owed;
            self.passed_over.clear();
        }
    }

    fn try_line(&mut self, raw: &[u8]) -> Result<(), skim::BrokenJson> {
        let line = Line::read_after(raw, &mut self.repeated)?;
        match line.kind {
            br#""user""# => self.read_user(&line),
            br#""assistant""# => self.read_assistant(&line)?,
            br#""system""# => {
                let ended = line.subtype.is_some_and(|subtype| {
                    subtype.is_string("turn_duration") || subtype.is_string("stop_hook_summary")
                });
                if ended {
                    self.digest.turn = TurnState::Closed;
                }
            }
            br#""custom-title""# => {
                self.custom_title = line.text.and_then(JsonValue::to_owned_string)
            }
            br#""summary""# => self.summary = line.text.and_then(JsonValue::to_owned_string),
            br#""ai-title""# => self.ai_title = line.text.and_then(JsonValue::to_owned_string),
            br#""cost-state""# => {
                let dollars = line.cost.and_then(JsonValue::as_f64);
                self.digest.cost_micro_usd = dollars.map(micro_usd);
                return Ok(());
            }
            _ => {}
        }
        self.note_circumstances(&line);
        Ok(())
    }

    /// When and where a line was written.
    fn note_circumstances(&mut self, line: &Line<'_>) {
        // Parsed only at the end, so what is no time stamp must not take the place of one.
        if let Some(timestamp) = line.timestamp.filter(|value| value.is_text()) {
            if self.first_time.is_none() {
                self.first_time = timestamp.as_time();
            }
            self.last_time.clear();
            self.last_time.extend_from_slice(timestamp.raw());
        }
        if self.digest.cwd.is_none() {
            self.digest.cwd = line.cwd.and_then(JsonValue::to_owned_string);
        }
        keep_last(&mut self.digest.branch, line.branch);
        keep_last(&mut self.digest.version, line.version);
    }

    fn read_user(&mut self, line: &Line<'_>) {
        let Some(content) = line.content else { return };
        if line.tool_result || is_tool_result(content) {
            self.digest.turn = TurnState::Open;
            return;
        }
        if line.meta {
            return;
        }
        let text = text_of(content);
        if text.starts_with("[Request interrupted") {
            self.digest.turn = TurnState::Closed;
        } else if is_real_prompt(&text) {
            self.digest.count_prompt(&text);
        }
    }

    fn read_assistant(&mut self, line: &Line<'_>) -> Result<(), skim::BrokenJson> {
        if let Some(model) = line.model.filter(|model| !model.is_string("<synthetic>"))
            && !self.digest.model.as_deref().is_some_and(|known| model.is_string(known))
        {
            self.digest.note_model(&model.as_str().unwrap_or_default());
        }
        if let Some(usage) = line.usage {
            // The blocks of a message repeat its usage, mostly byte for byte.
            let repeats =
                !line.id.is_empty() && self.last_id == line.id && self.last_usage == usage.raw();
            if !repeats {
                self.count_usage(line.id, usage)?;
            }
        }
        if !line.sidechain || self.digest.turn != TurnState::Closed {
            let ended = line
                .stop
                .is_some_and(|stop| stop.is_string("end_turn") || stop.is_string("stop_sequence"));
            self.digest.turn = if ended { TurnState::Closed } else { TurnState::Open };
        }
        Ok(())
    }

    /// Counts the usage of a message once; what is still streaming grows.
    fn count_usage(&mut self, id: &[u8], usage: JsonValue<'_>) -> Result<(), skim::BrokenJson> {
        let tokens = usage_of(usage)?;
        // A cost is written when the session is left; what is asked after that is not in it.
        self.digest.cost_micro_usd = None;
        if id.is_empty() {
            self.digest.add_usage(tokens);
            return Ok(());
        }
        let counted = self.counted.entry(hash_message_id(id)).or_default();
        if tokens.output >= counted.output {
            *counted = tokens;
        }
        self.last_id.clear();
        self.last_id.extend_from_slice(id);
        self.last_usage.clear();
        self.last_usage.extend_from_slice(usage.raw());
        Ok(())
    }

    fn into_digest(mut self, is_subagent: bool) -> TranscriptDigest {
        self.read_passed_over();
        let passed_over = std::mem::take(&mut self.passed_over);
        if let Ok(line) = Line::parse_line(&passed_over) {
            self.note_circumstances(&line);
        }
        for usage in self.counted.values() {
            self.digest.add_usage(*usage);
        }
        if let Some(first) = self.first_time {
            self.digest.widen_span(first);
        }
        if let Some(last) = JsonValue::new(&self.last_time).as_time() {
            self.digest.widen_span(last);
        }
        let title = self.custom_title.or(self.ai_title).or(self.summary);
        self.digest.title = title.as_deref().map(shorten_title);
        self.digest.cost_covers_subagents = !is_subagent && self.digest.cost_micro_usd.is_some();
        self.digest
    }
}

/// Replaces what is known by what was written last, without a copy when it is the same.
fn keep_last(known: &mut Option<String>, value: Option<JsonValue<'_>>) {
    if let Some(value) = value
        && !known.as_deref().is_some_and(|known| value.is_string(known))
        && let Some(text) = value.as_str()
        && !text.is_empty()
    {
        *known = Some(text.into_owned());
    }
}

fn is_tool_result(content: JsonValue<'_>) -> bool {
    let kind = content.first_element().and_then(|block| block.get("type"));
    kind.is_some_and(|kind| kind.is_string("tool_result"))
}

/// A user's line that names its type early and holds a tool's result.
fn is_plain_tool_result(line: &[u8]) -> bool {
    const EARLY_BYTES: usize = 256;
    USER.find(&line[..line.len().min(EARLY_BYTES)]).is_some() && TOOL_RESULT.find(line).is_some()
}

/// Commands, caveats and notifications are written as user messages but are no prompts.
fn is_real_prompt(text: &str) -> bool {
    let markers = [
        "<command-name>",
        "<command-message>",
        "<command-args>",
        "<local-command-caveat>",
        "<local-command-stdout>",
        "<local-command-stderr>",
        "<task-notification>",
        "<system-reminder>",
        "<bash-input>",
        "<bash-stdout>",
        "Caveat: The messages below",
        "[Request interrupted",
    ];
    let text = text.trim_start();
    !text.is_empty() && !markers.iter().any(|marker| text.starts_with(marker))
}

fn converse_line(line: &[u8], say: &mut dyn FnMut(ConversationEntry)) {
    let Ok(line) = Line::parse_line(line) else { return };
    let Some(content) = line.content else { return };
    let at = line.timestamp.and_then(JsonValue::as_time);
    let speaker = match line.kind {
        br#""user""# if line.meta => ConversationRole::System,
        br#""user""# => ConversationRole::User,
        br#""assistant""# => ConversationRole::Assistant,
        _ => return,
    };
    let spoken = |text: String| {
        let injected = speaker == ConversationRole::User && !is_real_prompt(&text);
        ConversationEntry::new(at, if injected { ConversationRole::System } else { speaker }, text)
    };
    blocks::emit_blocks(content, at, spoken, say);
}

#[cfg(test)]
mod tests;
