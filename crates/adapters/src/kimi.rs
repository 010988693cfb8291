//! Kimi Code.
//!
//! A session is a directory, `sessions/wd_<name>_<hash>/session_<uuid>/`: `state.json` with the
//! directory and the title, and one `agents/<agent>/wire.jsonl` for the main agent and each
//! sub-agent. Nothing on disk names the process, and no file is kept open.
//!
//! Traps: one step's usage is written three times (`usage.record`, `step.end`, and again with the
//! message); reminders are appended as messages of the user; a title may be the prompt until a
//! better one replaces it.

use std::path::{Path, PathBuf};

use model::control::delivery::{DeliveryTurn, TurnEnd};
use model::conversation::{ConversationEntry, ConversationRole};
use model::event::HookHappening;
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState, shorten_title};

use crate::blocks::text_of;
use crate::control::{AgentControl, HeadlessControl, PromptInput};
use crate::files::{EntryKind, ReadError};
use crate::hooks::{AgentHooks, HookFileShape, HookMeaning, HookWiring};
use crate::skim::{self, JsonValue};
use crate::turn_ends::{end_by_status, read_turn_end_by_line};
use crate::{
    Adapter, AgentProfile, EnvLookup, ExtraFileKind, LineConversation, Opening, Survey,
    TranscriptSource, TurnEndReader, files,
};

#[derive(Debug)]
pub(crate) struct Kimi;

static KIMI_PROFILE: AgentProfile = AgentProfile {
    id: "kimi",
    name: "Kimi Code",
    version: 2,
    certainty: FormatCertainty::Lab,
    program: AgentProgram {
        names: &["kimi", "kimi-code"],
        packages: &["@moonshot-ai/kimi-code"],
        servers: &[],
        helpers: &[
            "doctor",
            "export",
            "install-desktop",
            "login",
            "migrate",
            "provider",
            "session",
            "update",
            "upgrade",
            "vis",
        ],
    },
    resume_options: &["--session", "-S"],
    continue_options: &["--continue", "-c"],
    session_variables: &[],
    opening: Opening::ANYWHERE,
    hooks: Some(&AgentHooks {
        events: &[
            ("SessionStart", HookMeaning::Is(HookHappening::SessionStart)),
            ("UserPromptSubmit", HookMeaning::Prompt),
            ("PreToolUse", HookMeaning::Is(HookHappening::Progress)),
            ("PostToolUse", HookMeaning::Is(HookHappening::Progress)),
            ("Stop", HookMeaning::Is(HookHappening::TurnEnd)),
            ("SessionEnd", HookMeaning::Is(HookHappening::SessionEnd)),
        ],
        pid_variables: &[],
        wiring: HookWiring {
            user: |env| {
                Some(env.root_or_home("KIMI_CODE_HOME", ".kimi-code").pop()?.join("config.toml"))
            },
            project: None,
            shape: HookFileShape::Tables,
            notify: None,
        },
    }),
    note: "sessions of 2.1.0; those of the older kimi-cli (~/.kimi) are not read",
};

const WIRE: &str = "kimi-wire";
/// A session that has said nothing yet.
const STATE: &str = "kimi-state";

static KIMI_CONTROL: AgentControl = AgentControl {
    measured: "2.1.0",
    resume: Some(&["--session", "{id}"]),
    headless: Some(HeadlessControl {
        start: &["-p", "{text}", "--output-format", "stream-json"],
        resume: Some(&["--session", "{id}", "-p", "{text}", "--output-format", "stream-json"]),
        // It reads no standard input, and takes `-` for the prompt.
        input: PromptInput::Argument,
        id_field: "session_id",
    }),
    quit_keys: &["Ctrl+c", "Ctrl+c"],
    question_words: &["Run this command?"],
    takes_prompts_at_work: false,
    ..AgentControl::TERMINAL_ONLY
};

impl Adapter for Kimi {
    fn agent_profile(&self) -> &'static AgentProfile {
        &KIMI_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "~/.kimi/mcp.json",
            shape: crate::McpSettingsShape::McpServers,
        })
    }

    fn control_table(&self) -> Option<&'static AgentControl> {
        Some(&KIMI_CONTROL)
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        env.root_or_home("KIMI_CODE_HOME", ".kimi-code")
    }

    fn survey_root(&self, survey: &mut Survey) {
        let sessions = survey.root_path().join("sessions");
        for workspace in survey.list_wanted(&sessions, |name| name.starts_with("wd_")) {
            if workspace.kind != EntryKind::Directory || !starts_with(&workspace, "wd_") {
                continue;
            }
            let workspace = sessions.join(&workspace.name);
            for session in survey.list_wanted(&workspace, |name| name.starts_with("session_")) {
                let path = workspace.join(&session.name);
                if let (EntryKind::Directory, Some(id)) = (session.kind, session.name.to_str()) {
                    survey_session(survey, &path, id);
                }
            }
        }
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        if source.format == STATE {
            let mut digest = TranscriptDigest::default();
            describe_session(&mut digest, source, &source.path)?;
            return Ok(digest);
        }
        let mut reading = Reading::default();
        let end = source.each_line(0, |line| reading.read_line(line))?;
        reading.digest.damage.oversized = end.oversized;
        let mut digest = reading.digest;
        for (path, _) in &source.beside {
            if describe_session(&mut digest, source, path).is_err() {
                digest.damage.broken += 1;
            }
        }
        Ok(digest)
    }

    fn turn_end_reader(&self) -> Option<TurnEndReader> {
        Some(TurnEndReader {
            read: |source, from, prompt_at| {
                read_turn_end_by_line(source, from, prompt_at, converse_line, end_of_turn)
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
        if source.format == STATE {
            return Ok(0);
        }
        Ok(source.each_line(from, |line| converse_line(line, say))?.offset)
    }
}

fn starts_with(entry: &files::DirEntry, prefix: &str) -> bool {
    entry.name.to_str().is_some_and(|name| name.starts_with(prefix))
}

/// `session_<uuid>/`.
fn survey_session(survey: &mut Survey, directory: &Path, id: &str) {
    let root = survey.root_path();
    let state = directory.join("state.json");
    let mut has_wire = false;
    let agents = directory.join("agents");
    for agent in survey.list_wanted(&agents, |_| true) {
        let Some(name) = agent.name.to_str().filter(|_| agent.kind == EntryKind::Directory) else {
            continue;
        };
        let path = agents.join(name).join("wire.jsonl");
        let Some(stamp) = files::stamp_path(&path) else {
            continue;
        };
        if name == "main" {
            has_wire = true;
            let source = TranscriptSource::from_file(id, &root, path, stamp, WIRE);
            survey.note_source(source.with_side_file(state.clone()));
        } else {
            // Names of sub-agents are numbers within their session.
            let source =
                TranscriptSource::from_file(format!("{id}/{name}"), &root, path, stamp, WIRE);
            survey.note_source(TranscriptSource { parent: Some(id.to_owned()), ..source });
        }
    }
    if let (false, Some(stamp)) = (has_wire, files::stamp_path(&state)) {
        survey.note_file(id, state, stamp, STATE);
    }
    let logs = directory.join("logs");
    for log in survey.list_wanted(&logs, |_| false) {
        if log.kind == EntryKind::File {
            survey.note_extra(
                ExtraFileKind::Attachment,
                &log,
                logs.join(&log.name),
                Some(id.to_owned()),
            );
        }
    }
}

/// Adds what `state.json` says to a digest.
fn describe_session(
    digest: &mut TranscriptDigest,
    source: &TranscriptSource,
    path: &Path,
) -> Result<(), ReadError> {
    let (state, _) = files::read_json::<serde_json::Value>(&source.root, path)?;
    let text = |field: &str| state.get(field).and_then(serde_json::Value::as_str);
    digest.cwd = text("cwd").map(str::to_owned);
    let by_hand = state.get("isCustomTitle") == Some(&serde_json::Value::Bool(true));
    let title = text("title").map(|title| shorten_title(title.trim()));
    digest.title = title.filter(|title| {
        let is_prompt = digest.first_prompt.as_ref() == Some(title);
        !title.is_empty() && (by_hand || !is_prompt)
    });
    for field in ["createdAt", "updatedAt"] {
        if let Some(millis) = state.get(field).and_then(serde_json::Value::as_i64) {
            digest.widen_span(model::time::Time::from_millis(millis));
        }
    }
    Ok(())
}

/// What has been read of a wire so far.
#[derive(Default)]
struct Reading {
    digest: TranscriptDigest,
    /// The model of the request under way; usage names only its alias.
    asked: Option<String>,
    /// Questions to a person that are not answered yet.
    questions: Vec<String>,
}

/// The kind of a line and when it was written.
fn line_head(line: &[u8]) -> Result<(JsonValue<'_>, Option<JsonValue<'_>>), skim::BrokenJson> {
    let (mut kind, mut time) = (None, None);
    for field in skim::parse_object(line)? {
        let (key, value) = field?;
        match key {
            b"type" => kind = Some(value),
            b"time" | b"created_at" => time = Some(value),
            _ => {}
        }
    }
    Ok((kind.ok_or(skim::BrokenJson)?, time))
}

/// Whether a person is the origin of a prompt or message.
fn is_typed(line: JsonValue<'_>) -> bool {
    line.value_at(&["origin", "kind"]).is_none_or(|kind| kind.is_string("user"))
}

impl Reading {
    fn read_line(&mut self, line: &[u8]) {
        if !line.trim_ascii().is_empty() && self.try_line(line).is_err() {
            self.digest.damage.broken += 1;
        }
    }

    fn try_line(&mut self, raw: &[u8]) -> Result<(), skim::BrokenJson> {
        let (kind, time) = line_head(raw)?;
        if let Some(time) = time.and_then(JsonValue::as_time) {
            self.digest.widen_span(time);
        }
        let line = JsonValue::new(raw);
        match kind.raw() {
            br#""turn.prompt""# => {
                let text = line.get("input").map(text_of).unwrap_or_default();
                if is_typed(line) {
                    self.digest.count_prompt(&text);
                } else {
                    self.digest.turn = TurnState::Open;
                }
            }
            br#""agent.turn.started""# => self.digest.turn = TurnState::Open,
            br#""interaction.request""# => {
                let text = |path: &[&str]| line.value_at(path).and_then(JsonValue::to_owned_string);
                let tool = text(&["request", "toolName"]);
                let command = text(&["request", "display", "command"]);
                let what = match (tool, command) {
                    (Some(tool), Some(command)) => Some(format!("{tool} {command}")),
                    (tool, _) => tool.or_else(|| text(&["kind"])),
                };
                self.questions.extend(text(&["id"]));
                self.digest.turn = TurnState::Waiting(what.as_deref().map(shorten_title));
            }
            br#""interaction.resolved""# => {
                let id = line.get("id").and_then(JsonValue::to_owned_string);
                self.questions.retain(|open| Some(open) != id.as_ref());
                let waits = matches!(self.digest.turn, TurnState::Waiting(_));
                if waits && self.questions.is_empty() {
                    self.digest.turn = TurnState::Open;
                }
            }
            br#""agent.turn.ended""# | br#""turn.ended""# => self.digest.turn = TurnState::Closed,
            br#""llm.request""# => {
                self.asked = line.get("model").and_then(JsonValue::to_owned_string)
            }
            br#""usage.record""# => {
                if let Some(usage) = line.get("usage") {
                    self.digest.add_usage(tokens_of(usage));
                }
                let alias = || line.get("model").and_then(JsonValue::to_owned_string);
                if let Some(model) = self.asked.take().or_else(alias) {
                    self.digest.note_model(&model);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Input is counted without what was cached.
fn tokens_of(usage: JsonValue<'_>) -> TokenUsage {
    let number = |field| usage.get(field).and_then(JsonValue::as_u64).unwrap_or(0);
    TokenUsage {
        input: number("inputOther"),
        output: number("output"),
        cache_read: number("inputCacheRead"),
        cache_write: number("inputCacheCreation"),
    }
}

/// How a turn ended. What the agent's loop says of it (`agent.turn.ended`) comes before that, and says less.
fn end_of_turn(line: JsonValue<'_>) -> Option<DeliveryTurn> {
    if !line.get("type")?.is_string("turn.ended") {
        return None;
    }
    let end = match &*line.get("reason")?.as_str()? {
        "completed" => TurnEnd::Answered,
        "failed" => {
            let status = line.value_at(&["error", "details", "statusCode"]);
            end_by_status(status.and_then(JsonValue::as_u64))
        }
        _ => TurnEnd::Interrupted,
    };
    let ended_at = line.get("time").and_then(JsonValue::as_time);
    Some(DeliveryTurn { end, resets_at: None, ended_at })
}

fn converse_line(raw: &[u8], say: &mut dyn FnMut(ConversationEntry)) {
    let Ok((kind, time)) = line_head(raw) else { return };
    let at = time.and_then(JsonValue::as_time);
    let line = JsonValue::new(raw);
    if kind.is_string("context.append_message") {
        let Some(message) = line.get("message") else {
            return;
        };
        let role = match message.get("role") {
            Some(role) if role.is_string("assistant") => ConversationRole::Assistant,
            Some(role) if role.is_string("user") && is_typed(message) => ConversationRole::User,
            _ => ConversationRole::System,
        };
        let text = message.get("content").map(text_of).unwrap_or_default();
        say(ConversationEntry::new(at, role, text));
    } else if kind.is_string("context.append_loop_event") {
        let Some(event) = line.get("event") else {
            return;
        };
        let text = |path: &[&str]| event.value_at(path).map(text_of).unwrap_or_default();
        match text(&["type"]).as_str() {
            "content.part" if text(&["part", "type"]) == "text" => {
                say(ConversationEntry::new(
                    at,
                    ConversationRole::Assistant,
                    text(&["part", "text"]),
                ));
            }
            "tool.call" => {
                let input = event.get("args").map_or(&b""[..], JsonValue::raw);
                say(ConversationEntry::tool_call(
                    at,
                    text(&["name"]),
                    String::from_utf8_lossy(input),
                ));
            }
            "tool.result" => say(ConversationEntry::new(
                at,
                ConversationRole::Result,
                text(&["result", "output"]),
            )),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(lines: &[&str]) -> TranscriptDigest {
        let mut reading = Reading::default();
        for line in lines {
            reading.read_line(line.as_bytes());
        }
        reading.digest
    }

    #[test]
    fn usage_counts_once_although_it_is_written_again_with_the_step() {
        let read = digest(&[
            r#"{"type":"llm.request","model":"k3","modelAlias":"x/k3"}"#,
            r#"{"type":"usage.record","model":"x/k3","usage":{"inputOther":5,"output":2,"inputCacheRead":7,"inputCacheCreation":1}}"#,
            r#"{"type":"context.append_loop_event","event":{"type":"step.end","usage":{"inputOther":5,"output":2}}}"#,
            r#"{"type":"agent.message.appended","message":{"meta":{"usage":{"inputOther":5,"output":2}}}}"#,
        ]);
        let tokens = TokenUsage { input: 5, output: 2, cache_read: 7, cache_write: 1 };
        assert_eq!((read.tokens, read.model.as_deref()), (Some(tokens), Some("k3")));
    }

    #[test]
    fn b3_an_approval_that_is_not_resolved_is_waiting() {
        let asked = r#"{"type":"interaction.request","agentId":"main","id":"a1","kind":"approval","request":{"toolName":"Bash","display":{"kind":"command","command":"touch x"}}}"#;
        let prompt = r#"{"type":"turn.prompt","input":[{"type":"text","text":"do"}]}"#;
        let resolved = r#"{"type":"interaction.resolved","agentId":"main","id":"a1"}"#;
        let ended = r#"{"type":"turn.ended","agentId":"main"}"#;
        let waiting = TurnState::Waiting(Some("Bash touch x".into()));
        assert_eq!(digest(&[prompt, asked]).turn, waiting);
        assert_eq!(digest(&[prompt, asked, resolved]).turn, TurnState::Open);
        assert_eq!(digest(&[prompt, asked, resolved, ended]).turn, TurnState::Closed);
    }

    #[test]
    fn a_turn_that_nobody_asked_for_is_open_but_no_prompt() {
        let read = digest(&[
            r#"{"type":"turn.prompt","input":[{"type":"text","text":"go on"}],"origin":{"kind":"hook"}}"#,
        ]);
        assert_eq!((read.turns, read.turn, read.first_prompt), (0, TurnState::Open, None));
    }

    #[test]
    fn row_28_a_turn_ends_as_its_record_says() {
        let prompt = r#"{"type":"context.append_message","message":{"role":"user","content":[{"type":"text","text":"mend it"}],"origin":{"kind":"user"}},"time":1}"#;
        let end = |lines: &[&str]| {
            crate::turn_ends::turn_end_of(prompt, lines, converse_line, end_of_turn)
        };
        let ended = |reason: &str, more: &str| {
            format!(
                r#"{{"type":"turn.ended","agentId":"main","turnId":0,"reason":"{reason}"{more},"time":2}}"#
            )
        };
        let error = |status: u16| format!(r#","error":{{"details":{{"statusCode":{status}}}}}"#);
        let before = r#"{"turnId":0,"outcome":"failed","type":"agent.turn.ended","time":1}"#;
        assert_eq!(end(&[before]), None, "it does not say how");
        assert_eq!(end(&[before, &ended("failed", &error(400))]), Some(TurnEnd::Failed));
        assert_eq!(end(&[&ended("failed", &error(429))]), Some(TurnEnd::Limited));
        assert_eq!(end(&[&ended("completed", "")]), Some(TurnEnd::Answered));
        assert_eq!(end(&[&ended("cancelled", "")]), Some(TurnEnd::Interrupted));
    }
}
