//! Qwen Code.
//!
//! Transcripts are `projects/<slug>/chats/<session>.jsonl`, append-only; sub-agents write to
//! `projects/<slug>/subagents/<session>/agent-<id>.jsonl`, and those that keep no transcript still
//! leave their usage as telemetry in the session's. An interactive process registers itself in
//! `sessions/<pid>.json` with boot, start and namespace, and removes it on exit; beside the
//! transcript it also leaves `<session>.runtime.json` with nothing but a pid, and never removes
//! that. A registration holds a token of its message socket: it is a secret and is not read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::control::delivery::{DeliveryTurn, TurnEnd};
use model::conversation::{ConversationEntry, ConversationRole};
use model::event::HookHappening;
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState, shorten_title};
use model::time::Time;
use model::usage::MessageUsage;

use crate::control::{AgentControl, HeadlessControl, IdRule, PermissionChannel, PromptInput};
use crate::files::{EntryKind, ReadError};
use crate::hooks::{AgentHooks, HookFileShape, HookMeaning, HookWiring};
use crate::skim::{self, JsonValue};
use crate::turn_ends::read_turn_end_by_line;
use crate::usage::UsageGrowth;
use crate::{
    Adapter, AgentProfile, EnvLookup, ExtraFileKind, LineConversation, Opening, Survey,
    TranscriptSource, TurnEndReader, files,
};

mod registrations;

#[derive(Debug)]
pub(crate) struct Qwen;

static QWEN_PROFILE: AgentProfile = AgentProfile {
    id: "qwen",
    name: "Qwen Code",
    version: 2,
    certainty: FormatCertainty::Lab,
    program: AgentProgram {
        names: &["qwen"],
        packages: &["@qwen-code/qwen-code"],
        servers: &[],
        helpers: &["mcp", "extensions", "auth", "hooks", "channel", "serve", "sessions", "review"],
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
        pid_variables: &[],
        wiring: HookWiring {
            user: |env| Some(env.root_or_home("QWEN_HOME", ".qwen").pop()?.join("settings.json")),
            project: Some(|project| project.join(".qwen/settings.json")),
            shape: HookFileShape::Groups { per_second: 1 },
            notify: None,
        },
    }),
    note: "transcripts and registrations of 0.24.4; sub-agents and newer fields from its source",
};

const FORMAT: &str = "qwen-jsonl";

static QWEN_CONTROL: AgentControl = AgentControl {
    measured: "0.24.4",
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
    permission_channel: PermissionChannel::FilePair,
    composer_words: Some("Type your message"),
    question_words: &["Allow execution"],
    ..AgentControl::TERMINAL_ONLY
};

impl Adapter for Qwen {
    fn agent_profile(&self) -> &'static AgentProfile {
        &QWEN_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "~/.qwen/settings.json",
            shape: crate::McpSettingsShape::McpServers,
        })
    }

    fn control_table(&self) -> Option<&'static AgentControl> {
        Some(&QWEN_CONTROL)
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        // Registrations stay in the home; transcripts go to the runtime directory if there is one.
        let mut roots = env.root_or_home("QWEN_HOME", ".qwen");
        if let Some(runtime) = env.path_of("QWEN_RUNTIME_DIR")
            && !roots.contains(&runtime)
        {
            roots.push(runtime);
        }
        roots
    }

    fn survey_root(&self, survey: &mut Survey) {
        let root = survey.root_path();
        registrations::survey_pid_files(survey, &root.join("sessions"));
        // Old versions kept their projects below `tmp`.
        for place in ["projects", "tmp"] {
            let projects = root.join(place);
            for project in survey.list_wanted(&projects, |_| true) {
                if project.kind == EntryKind::Directory {
                    survey_project(survey, &projects.join(&project.name));
                }
            }
        }
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        let mut reading = Reading { own_files: subagent_files(source), ..Reading::default() };
        let end = source.each_line(0, |line| reading.read_line(line))?;
        reading.digest.damage.oversized = end.oversized;
        if reading.was_taken_back(source) {
            reading.digest.turn = TurnState::Closed;
        }
        Ok(reading.digest)
    }

    fn read_usage(
        &self,
        source: &TranscriptSource,
        say: &mut dyn FnMut(MessageUsage),
    ) -> Result<bool, ReadError> {
        let mut reading = Reading { own_files: subagent_files(source), ..Reading::default() };
        let mut growth = UsageGrowth::default();
        source.each_line(0, |line| {
            reading.read_line(line);
            growth.tell_growth(&reading.digest, None, reading.digest.last_activity_at, say);
        })?;
        Ok(true)
    }

    fn turn_end_reader(&self) -> Option<TurnEndReader> {
        Some(TurnEndReader {
            read: |source, from, prompt_at| {
                read_turn_end_by_line(source, from, prompt_at, converse_line, end_of_turn)
            },
            tells_all: false,
        })
    }

    fn line_conversation(&self) -> Option<LineConversation> {
        Some(converse_line)
    }
}

fn survey_project(survey: &mut Survey, project: &Path) {
    let root = survey.root_path();
    let subagents = survey_subagents(survey, &project.join("subagents"));
    let chats = project.join("chats");
    let wanted = |name: &str| name.ends_with(".jsonl") || name.ends_with(".runtime.json");
    for entry in survey.list_wanted(&chats, wanted) {
        if entry.kind != EntryKind::File {
            continue;
        }
        let path = chats.join(&entry.name);
        if let Some(id) = entry.strip_suffix(".jsonl") {
            let mut source = TranscriptSource::from_file(id, &root, path, entry.stamp, FORMAT);
            for subagent in subagents.iter().filter(|s| s.parent.as_deref() == Some(id)) {
                source.beside.push((subagent.path.clone(), subagent.stamp));
            }
            if let Some(typed) = registrations::typed_prompts(survey, id) {
                source = source.with_side_file(typed);
            }
            survey.note_source(source);
        } else if let Some(id) = entry.strip_suffix(".runtime.json") {
            survey.note_extra(ExtraFileKind::Attachment, &entry, path.clone(), Some(id.to_owned()));
            registrations::survey_runtime(survey, path);
        }
    }
    survey.sources.extend(subagents.into_iter().map(Box::new));
}

/// `subagents/<session>/agent-<id>.jsonl`.
fn survey_subagents(survey: &mut Survey, directory: &Path) -> Vec<TranscriptSource> {
    let root = survey.root_path();
    let mut found = Vec::new();
    for session in survey.list_wanted(directory, |_| true) {
        let (Some(parent), EntryKind::Directory) = (session.name.to_str(), session.kind) else {
            continue;
        };
        let inside = directory.join(&session.name);
        for entry in survey.list_wanted(&inside, |name| name.ends_with(".jsonl")) {
            let id = entry.strip_suffix(".jsonl").and_then(|stem| stem.strip_prefix("agent-"));
            if let (Some(id), EntryKind::File) = (id, entry.kind) {
                let path = inside.join(&entry.name);
                let source = TranscriptSource::from_file(id, &root, path, entry.stamp, FORMAT);
                found.push(TranscriptSource { parent: Some(parent.to_owned()), ..source });
            }
        }
    }
    found
}

/// The ids of the sub-agents that have a transcript of their own.
fn subagent_files(source: &TranscriptSource) -> Vec<String> {
    let ids = source.beside.iter().filter_map(|(path, _)| {
        let stem = path.file_stem()?.to_str()?;
        stem.strip_prefix("agent-").map(str::to_owned)
    });
    ids.collect()
}

/// The fields of a line that matter.
#[derive(Default)]
struct Line<'a> {
    kind: &'a [u8],
    subtype: Option<JsonValue<'a>>,
    provenance: Option<JsonValue<'a>>,
    timestamp: Option<JsonValue<'a>>,
    cwd: Option<JsonValue<'a>>,
    version: Option<JsonValue<'a>>,
    branch: Option<JsonValue<'a>>,
    model: Option<JsonValue<'a>>,
    message: Option<JsonValue<'a>>,
    usage: Option<JsonValue<'a>>,
    payload: Option<JsonValue<'a>>,
    forked_from: Option<JsonValue<'a>>,
    /// A person did not allow the call.
    refused: bool,
}

impl<'a> Line<'a> {
    fn parse_line(line: &'a [u8]) -> Result<Self, skim::BrokenJson> {
        let mut found = Self::default();
        for field in skim::parse_object(line)? {
            let (key, value) = field?;
            match key {
                b"type" => found.kind = value.raw(),
                b"subtype" => found.subtype = Some(value),
                b"provenance" => found.provenance = Some(value),
                b"timestamp" => found.timestamp = Some(value),
                b"cwd" => found.cwd = Some(value),
                b"version" => found.version = Some(value),
                b"gitBranch" => found.branch = Some(value),
                b"model" => found.model = Some(value),
                b"message" => found.message = Some(value),
                b"usageMetadata" => found.usage = Some(value),
                b"systemPayload" => found.payload = Some(value),
                b"toolCallResult" => {
                    let status = value.get("status");
                    found.refused = status.is_some_and(|status| status.is_string("cancelled"));
                }
                b"forkedFrom" => found.forked_from = Some(value),
                _ => {}
            }
        }
        Ok(found)
    }

    fn is_subtype(&self, subtype: &str) -> bool {
        self.subtype.is_some_and(|value| value.is_string(subtype))
    }

    fn message_parts(&self) -> impl Iterator<Item = JsonValue<'a>> + use<'a> {
        let parts = self.message.and_then(|message| message.get("parts"));
        parts.into_iter().flat_map(JsonValue::iter_elements)
    }

    /// The texts of the message, without the model's thoughts.
    fn joined_text(&self) -> String {
        let spoken = self
            .message_parts()
            .filter(|part| part.get("thought").and_then(JsonValue::as_bool) != Some(true));
        spoken.filter_map(|part| part.get("text")?.to_owned_string()).collect::<Vec<_>>().join("\n")
    }

    /// Whether a person wrote it. Older versions do not say who did; notices and scheduled tasks
    /// are marked by their subtype.
    fn is_prompt(&self) -> bool {
        let by_person = match self.provenance {
            Some(provenance) => provenance.is_string("real_user"),
            None => self.subtype.is_none() || self.is_subtype("mid_turn_user_message"),
        };
        self.kind == br#""user""# && by_person
    }
}

/// What has been read of a transcript so far.
#[derive(Default)]
struct Reading {
    digest: TranscriptDigest,
    /// Sub-agents whose usage is counted in their own transcripts.
    own_files: Vec<String>,
    /// The last prompt, as long as nothing has answered it.
    unanswered: Option<(Time, String)>,
}

impl Reading {
    /// Whether the last prompt was interrupted before there was an answer: then it is given back to
    /// the person, and taken out of the list of what was typed. The list has it before the transcript.
    fn was_taken_back(&mut self, source: &TranscriptSource) -> bool {
        const LISTED_BEFORE: Duration = Duration::from_secs(10);
        let Some((at, prompt)) = &self.unanswered else { return false };
        let typed = source.beside.iter().find(|(path, _)| path.ends_with(registrations::TYPED));
        let Some((path, stamp)) = typed else { return false };
        let Ok((list, _)) = files::read_json::<serde_json::Value>(&source.root, path) else {
            return false;
        };
        let is_it = |entry: &serde_json::Value| {
            let text = |field| entry.get(field).and_then(|value| value.as_str());
            let then = text("timestamp").and_then(Time::parse);
            text("sessionId") == Some(source.id.as_str())
                && then.is_some_and(|then| then.plus(LISTED_BEFORE) >= *at)
                // What `@file` stands for is only in the transcript.
                && (text("message").map(str::trim) == Some(prompt.trim()) || prompt.contains('@'))
        };
        if list.as_array().is_none_or(|list| list.iter().any(is_it)) {
            return false;
        }
        self.digest.widen_span(stamp.modified_at());
        true
    }

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
        match line.kind {
            br#""user""# if line.is_prompt() => {
                let shown =
                    line.payload.and_then(|payload| payload.get("displayText")?.to_owned_string());
                let text = shown.unwrap_or_else(|| line.joined_text());
                if !text.trim().is_empty() {
                    self.digest.count_prompt(&text);
                    let at = line.timestamp.and_then(JsonValue::as_time);
                    self.unanswered = at.map(|at| (at, line.joined_text()));
                }
            }
            // Refusing a call ends the turn.
            br#""tool_result""# if line.refused => self.digest.turn = TurnState::Closed,
            br#""tool_result""# => self.digest.turn = TurnState::Open,
            br#""assistant""# => {
                self.unanswered = None;
                if let Some(model) = line.model.and_then(JsonValue::as_str) {
                    self.digest.note_model(&model);
                }
                if let Some(tokens) = line.usage.and_then(usage_of) {
                    self.digest.add_usage(tokens);
                }
                self.digest.turn = turn_after(line);
            }
            br#""system""# => self.read_system(line),
            _ => {}
        }
        if let Some(time) = line.timestamp.and_then(JsonValue::as_time) {
            self.digest.widen_span(time);
        }
        if self.digest.cwd.is_none() {
            self.digest.cwd = line.cwd.and_then(JsonValue::to_owned_string);
        }
        keep_last(&mut self.digest.version, line.version);
        keep_last(&mut self.digest.branch, line.branch);
        if self.digest.parent.is_none() {
            let parent = line.forked_from.and_then(|from| from.get("sessionId")?.to_owned_string());
            self.digest.parent = parent;
        }
    }

    fn read_system(&mut self, line: &Line<'_>) {
        let Some(payload) = line.payload else { return };
        if line.is_subtype("custom_title") {
            let title = payload.get("customTitle").and_then(JsonValue::to_owned_string);
            self.digest.title = title.filter(|t| !t.trim().is_empty()).map(|t| shorten_title(&t));
        } else if line.is_subtype("rewind") {
            self.digest.turn = TurnState::Closed;
        } else if line.is_subtype("ui_telemetry")
            && let Some(event) = payload.get("uiEvent")
            && event.get("event.name").is_some_and(|name| name.is_string("qwen-code.api_response"))
            && let Some(subagent) = event.get("subagent_id").and_then(JsonValue::to_owned_string)
            && !self.own_files.contains(&subagent)
            && let Some(tokens) = usage_of(event)
        {
            self.digest.add_usage(tokens);
        }
    }
}

/// Replaces what is known by what was written last.
/// Where a turn stands after an answer. A call is written before anybody is asked about it and its result
/// when it is done; those that run a command or change a file are the ones that are asked about, and a file
/// is changed in no time.
fn turn_after(line: &Line<'_>) -> TurnState {
    const ASKED_ABOUT: [&str; 4] = ["run_shell_command", "edit", "write_file", "notebook_edit"];
    let mut turn = TurnState::Closed;
    for call in line.message_parts().filter_map(|part| part.get("functionCall")) {
        let name = call.get("name").and_then(JsonValue::to_owned_string).unwrap_or_default();
        if ASKED_ABOUT.contains(&name.as_str()) {
            let command = call.value_at(&["args", "command"]);
            let command = command.and_then(JsonValue::to_owned_string);
            return TurnState::Asking(Some(shorten_title(&command.unwrap_or(name))));
        }
        turn = TurnState::Open;
    }
    turn
}

fn keep_last(known: &mut Option<String>, value: Option<JsonValue<'_>>) {
    if let Some(value) = value
        && !known.as_deref().is_some_and(|known| value.is_string(known))
        && let Some(text) = value.to_owned_string().filter(|text| !text.is_empty())
    {
        *known = Some(text);
    }
}

/// Usage of an answer, or of a telemetry event. The prompt includes what came from the cache.
/// Thoughts are part of the output for some providers and apart from it for others; only the
/// total tells.
fn usage_of(usage: JsonValue<'_>) -> Option<TokenUsage> {
    let (mut input, mut output, mut cached, mut thoughts, mut total) = (0, 0, 0, 0, None);
    for (key, value) in usage.as_object()?.flatten() {
        let count = value.as_u64();
        match key {
            b"promptTokenCount" | b"input_token_count" => input = count?,
            b"candidatesTokenCount" | b"output_token_count" => output = count.unwrap_or(0),
            b"cachedContentTokenCount" | b"cached_content_token_count" => {
                cached = count.unwrap_or(0);
            }
            b"thoughtsTokenCount" | b"thoughts_token_count" => thoughts = count.unwrap_or(0),
            b"totalTokenCount" | b"total_token_count" => total = count,
            _ => {}
        }
    }
    let with_thoughts = output.saturating_add(thoughts);
    let apart = total.is_none_or(|total| total >= input.saturating_add(with_thoughts));
    Some(TokenUsage {
        input: input.saturating_sub(cached),
        output: if apart { with_thoughts } else { output },
        cache_read: cached,
        cache_write: 0,
    })
}

/// How a turn ended: by an answer that calls nothing, or by an error after which it does not try again.
fn end_of_turn(line: JsonValue<'_>) -> Option<DeliveryTurn> {
    let kind = line.get("type")?;
    let end = if kind.is_string("assistant") {
        let parts = line.value_at(&["message", "parts"])?;
        let calls = parts.iter_elements().any(|part| part.get("functionCall").is_some());
        (!calls).then_some(TurnEnd::Answered)?
    } else if kind.is_string("system") && line.get("subtype")?.is_string("ui_telemetry") {
        let event = line.value_at(&["systemPayload", "uiEvent"])?;
        let is_error = event.get("event.name")?.is_string("qwen-code.api_error");
        let is_own = event.get("subagent_id").is_none();
        let status = event.get("status_code").and_then(JsonValue::as_u64);
        let is_final = status.is_some_and(|status| (400..500).contains(&status) && status != 429);
        (is_error && is_own && is_final).then_some(TurnEnd::Failed)?
    } else {
        return None;
    };
    let ended_at = line.get("timestamp").and_then(JsonValue::as_time);
    Some(DeliveryTurn { end, resets_at: None, ended_at })
}

fn converse_line(line: &[u8], say: &mut dyn FnMut(ConversationEntry)) {
    let Ok(line) = Line::parse_line(line) else { return };
    let at = line.timestamp.and_then(JsonValue::as_time);
    let speaker = match line.kind {
        br#""assistant""# => ConversationRole::Assistant,
        br#""user""# if line.is_prompt() => ConversationRole::User,
        br#""user""# => ConversationRole::System,
        br#""tool_result""# => ConversationRole::Result,
        _ => return,
    };
    let text = line.joined_text();
    if !text.is_empty() {
        say(ConversationEntry::new(at, speaker, text));
    }
    for part in line.message_parts() {
        if let Some(call) = part.get("functionCall") {
            let name = call.get("name").and_then(JsonValue::to_owned_string).unwrap_or_default();
            let input = call.get("args").map_or(&b""[..], JsonValue::raw);
            say(ConversationEntry::tool_call(at, name, String::from_utf8_lossy(input)));
        } else if let Some(response) = part.value_at(&["functionResponse", "response"]) {
            let output = response.get("output").and_then(JsonValue::to_owned_string);
            let raw = || String::from_utf8_lossy(response.raw()).into_owned();
            say(ConversationEntry::new(at, ConversationRole::Result, output.unwrap_or_else(raw)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(lines: &[&str]) -> TranscriptDigest {
        let mut reading = Reading { own_files: vec!["own".into()], ..Reading::default() };
        for line in lines {
            reading.read_line(line.as_bytes());
        }
        reading.digest
    }

    #[test]
    fn thoughts_are_counted_once_whichever_way_they_are_written() {
        let usage = |total| {
            let text = format!(
                r#"{{"promptTokenCount":100,"cachedContentTokenCount":30,"candidatesTokenCount":20,"thoughtsTokenCount":5,"totalTokenCount":{total}}}"#
            );
            usage_of(JsonValue::new(text.as_bytes())).unwrap()
        };
        assert_eq!(usage(120).output, 20);
        assert_eq!(usage(125).output, 25);
        assert_eq!((usage(125).input, usage(125).cache_read), (70, 30));
    }

    #[test]
    fn a_subagent_without_a_transcript_is_counted_here_and_one_with_its_own_is_not() {
        let event = |id: &str| {
            format!(
                r#"{{"type":"system","subtype":"ui_telemetry","systemPayload":{{"uiEvent":{{"event.name":"qwen-code.api_response","input_token_count":10,"output_token_count":2,"total_token_count":12{id}}}}}}}"#
            )
        };
        let read = digest(&[
            &event(""),
            &event(r#","subagent_id":"memory""#),
            &event(r#","subagent_id":"own""#),
        ]);
        assert_eq!(read.tokens.unwrap().input, 10);
    }

    #[test]
    fn notices_and_scheduled_tasks_are_no_prompts() {
        let user = |more: &str| {
            format!(
                r#"{{"type":"user",{more}"message":{{"role":"user","parts":[{{"text":"hi"}}]}}}}"#
            )
        };
        let read = digest(&[
            &user(r#""subtype":"notification","#),
            &user(r#""subtype":"cron","provenance":"scheduled","#),
            &user(""),
            &user(r#""provenance":"real_user","#),
        ]);
        assert_eq!(read.turns, 2);
    }

    #[test]
    fn row_28_an_error_after_which_it_tries_again_is_no_end() {
        let prompt = r#"{"type":"user","message":{"role":"user","parts":[{"text":"mend it"}]}}"#;
        let end = |lines: &[&str]| {
            crate::turn_ends::turn_end_of(prompt, lines, converse_line, end_of_turn)
        };
        let error = |status: u16| {
            format!(
                r#"{{"type":"system","subtype":"ui_telemetry","systemPayload":{{"uiEvent":{{"event.name":"qwen-code.api_error","status_code":{status}}}}}}}"#
            )
        };
        let answer = |part: &str| {
            format!(r#"{{"type":"assistant","message":{{"role":"model","parts":[{part}]}}}}"#)
        };
        assert_eq!(end(&[&error(400)]), Some(TurnEnd::Failed));
        assert_eq!((end(&[&error(429)]), end(&[&error(529)])), (None, None));
        let said = answer(r#"{"text":"done"}"#);
        assert_eq!(end(&[&error(429), &said]), Some(TurnEnd::Answered));
        assert_eq!(end(&[&answer(r#"{"functionCall":{"name":"sh"}}"#)]), None);
    }
}
