//! Factory Droid.
//!
//! A session is `sessions/<slug>/<id>.jsonl` with `<id>.settings.json` beside it; old sessions lie
//! directly in `sessions/`. Nothing on disk names the process, and the transcript is not kept open.
//!
//! Traps: token usage stands only in the settings, as totals (input without cached tokens, output
//! with reasoning); hooks and the environment are written as messages of the user; the version in
//! the first line is that of the format; a turn ends with a line that has no time.

use std::path::{Path, PathBuf};

use model::conversation::{ConversationEntry, ConversationRole};
use model::event::HookHappening;
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState, shorten_title};

use crate::blocks::{self, has_block};
use crate::control::{AgentControl, HeadlessControl, PromptInput};
use crate::files::{EntryKind, ReadError};
use crate::hooks::{AgentHooks, HookFileShape, HookMeaning, HookWiring};
use crate::skim::{self, JsonValue};
use crate::{
    Adapter, AgentProfile, EnvLookup, ExtraFileKind, LineConversation, Opening, Survey,
    TranscriptSource, files,
};

#[derive(Debug)]
pub(crate) struct Droid;

static DROID_PROFILE: AgentProfile = AgentProfile {
    id: "droid",
    name: "Factory Droid",
    version: 2,
    certainty: FormatCertainty::Lab,
    program: AgentProgram {
        names: &["droid"],
        packages: &["droid/bin", "@factory/cli"],
        servers: &[],
        helpers: &["help", "mcp", "plugin", "update"],
    },
    resume_options: &["--resume", "-r", "--session-id", "-s"],
    continue_options: &[],
    session_variables: &[],
    opening: Opening::ANYWHERE,
    hooks: Some(&AgentHooks {
        events: &[
            ("SessionStart", HookMeaning::Is(HookHappening::SessionStart)),
            ("UserPromptSubmit", HookMeaning::Prompt),
            ("Notification", HookMeaning::Notification),
            ("PreToolUse", HookMeaning::Is(HookHappening::Progress)),
            ("PostToolUse", HookMeaning::Is(HookHappening::Progress)),
            ("PreCompact", HookMeaning::Is(HookHappening::Compaction)),
            ("SubagentStop", HookMeaning::Is(HookHappening::Sign)),
            ("Stop", HookMeaning::Is(HookHappening::TurnEnd)),
            ("SessionEnd", HookMeaning::Is(HookHappening::SessionEnd)),
        ],
        pid_variables: &[],
        wiring: HookWiring {
            user: |env| Some(hooks_file(&droid_home(env)?.join(".factory"))),
            project: Some(|project| hooks_file(&project.join(".factory"))),
            shape: HookFileShape::Groups { per_second: 1 },
            notify: None,
        },
    }),
    note: "headless sessions of 0.215.0; its terminal interface could not be run",
};

const FORMAT: &str = "droid-jsonl";

fn droid_home(env: &EnvLookup<'_>) -> Option<PathBuf> {
    env.path_of("FACTORY_HOME_OVERRIDE").or_else(|| env.home_dir())
}

/// Hooks stand in a file of their own, or else among the settings. The former would hide the
/// latter, so it is used only where it is there already.
fn hooks_file(directory: &Path) -> PathBuf {
    let own = directory.join("hooks.json");
    if own.exists() { own } else { directory.join("settings.json") }
}

static DROID_CONTROL: AgentControl = AgentControl {
    measured: "0.215.0",
    // Its terminal interface asks its own server first, and could not be run.
    interactive: None,
    headless: Some(HeadlessControl {
        start: &["exec", "-o", "stream-json", "-f", "{file}"],
        resume: None,
        input: PromptInput::File,
        id_field: "session_id",
    }),
    ..AgentControl::TERMINAL_ONLY
};

impl Adapter for Droid {
    fn agent_profile(&self) -> &'static AgentProfile {
        &DROID_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "~/.factory/mcp.json",
            shape: crate::McpSettingsShape::TypedMcpServers("stdio"),
        })
    }

    fn control_table(&self) -> Option<&'static AgentControl> {
        Some(&DROID_CONTROL)
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        droid_home(env).map(|home| home.join(".factory")).into_iter().collect()
    }

    fn survey_root(&self, survey: &mut Survey) {
        let sessions = survey.root_path().join("sessions");
        survey_directory(survey, &sessions, 2);
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        let mut reading = Reading::default();
        let end = source.each_line(0, |line| reading.read_line(line))?;
        reading.digest.damage.oversized = end.oversized;
        let mut digest = reading.into_digest();
        for (path, _) in &source.beside {
            let settings = files::read_small(&source.root, path).map(|(bytes, _)| bytes);
            let whole = settings.as_deref().is_ok_and(|bytes| {
                skim::parse_object(bytes).is_ok_and(|mut fields| fields.all(|field| field.is_ok()))
            });
            if let (true, Ok(bytes)) = (whole, &settings) {
                // Until the first answer is complete the totals are zero.
                let tokens = JsonValue::new(bytes).get("tokenUsage").map(tokens_of);
                digest.tokens = tokens.filter(|&tokens| tokens != TokenUsage::default());
            } else {
                digest.damage.broken += 1;
            }
        }
        Ok(digest)
    }

    fn line_conversation(&self) -> Option<LineConversation> {
        Some(converse_line)
    }
}

fn survey_directory(survey: &mut Survey, directory: &Path, depth: usize) {
    let root = survey.root_path();
    for entry in survey.list_wanted(directory, |name| depth > 0 || name.ends_with(".jsonl")) {
        let path = directory.join(&entry.name);
        match entry.kind {
            EntryKind::Directory if depth > 0 => survey_directory(survey, &path, depth - 1),
            EntryKind::File => {
                if let Some(id) = entry.strip_suffix(".jsonl") {
                    let settings = directory.join(format!("{id}.settings.json"));
                    let source = TranscriptSource::from_file(id, &root, path, entry.stamp, FORMAT);
                    survey.note_source(source.with_side_file(settings));
                } else if let Some((id, _)) = entry.name.to_str().and_then(|n| n.split_once('.')) {
                    survey.note_extra(ExtraFileKind::Attachment, &entry, path, Some(id.to_owned()));
                }
            }
            _ => {}
        }
    }
}

/// What has been read of a transcript so far.
#[derive(Default)]
struct Reading {
    digest: TranscriptDigest,
    title: Option<String>,
    titled_by_hand: bool,
    last_time: Vec<u8>,
}

impl Reading {
    fn read_line(&mut self, line: &[u8]) {
        if !line.trim_ascii().is_empty() && self.try_line(line).is_err() {
            self.digest.damage.broken += 1;
        }
    }

    fn try_line(&mut self, raw: &[u8]) -> Result<(), skim::BrokenJson> {
        let (mut kind, mut timestamp, mut message) = (None, None, None);
        for field in skim::parse_object(raw)? {
            let (key, value) = field?;
            match key {
                b"type" => kind = Some(value),
                b"timestamp" => timestamp = Some(value),
                b"message" => message = Some(value),
                _ => {}
            }
        }
        // Parsed only at the end, so what is no time stamp must not take the place of one.
        if let Some(timestamp) = timestamp.filter(|value| value.is_text()) {
            if self.digest.started_at.is_none()
                && let Some(time) = timestamp.as_time()
            {
                self.digest.widen_span(time);
            }
            self.last_time.clear();
            self.last_time.extend_from_slice(timestamp.raw());
        }
        let kind = kind.ok_or(skim::BrokenJson)?;
        if kind.is_string("session_start") {
            self.read_start(JsonValue::new(raw));
        } else if kind.is_string("agent_turn_outcome") {
            self.digest.turn = TurnState::Closed;
        } else if let (true, Some(message)) = (kind.is_string("message"), message) {
            self.read_message(message, timestamp);
        }
        Ok(())
    }

    fn read_start(&mut self, line: JsonValue<'_>) {
        let text = |field| line.get(field).and_then(JsonValue::to_owned_string);
        self.digest.cwd = text("cwd");
        // A fork (`parent`) is a session of its own; what a session called belongs to it.
        self.digest.parent = text("callingSessionId");
        self.titled_by_hand =
            line.get("isSessionTitleManuallySet").and_then(JsonValue::as_bool) == Some(true);
        self.title = text("sessionTitle").or_else(|| text("title"));
    }

    fn read_message(&mut self, message: JsonValue<'_>, timestamp: Option<JsonValue<'_>>) {
        let is = |field, text| {
            message.get(field).is_some_and(|value: JsonValue<'_>| value.is_string(text))
        };
        if let Some(hook) = message.get("hookEventName") {
            let ended = hook.is_string("SessionEnd");
            self.digest.ended_at = timestamp.and_then(JsonValue::as_time).filter(|_| ended);
            return;
        }
        self.digest.ended_at = None;
        let content = message.get("content");
        if is("role", "assistant") {
            if let Some(model) = message.get("modelId").and_then(JsonValue::as_str) {
                self.digest.note_model(&model);
            }
            // Versions without `agent_turn_outcome` do not say which answer is the last one.
            let asks = content.is_some_and(|content| has_block(content, "tool_use"));
            self.digest.turn = if asks { TurnState::Open } else { TurnState::Unknown };
        } else if is("role", "user") {
            let Some(content) = content else { return };
            if has_block(content, "tool_result") {
                self.digest.turn = TurnState::Open;
                return;
            }
            let prompt = prompt_of(content);
            if !prompt.is_empty() {
                self.digest.count_prompt(&prompt);
            }
        }
    }

    fn into_digest(mut self) -> TranscriptDigest {
        if let Some(last) = JsonValue::new(&self.last_time).as_time() {
            self.digest.widen_span(last);
        }
        let title = self.title.map(|title| shorten_title(title.trim()));
        // Until it is given a title, a session is called by its first prompt.
        self.digest.title = title.filter(|title| {
            let is_prompt = self.digest.first_prompt.as_ref() == Some(title);
            let is_placeholder = title.is_empty() || title == "New Session";
            self.titled_by_hand || !(is_prompt || is_placeholder)
        });
        self.digest
    }
}

/// Totals of the session without its sub-agents. Reasoning is part of the output.
fn tokens_of(usage: JsonValue<'_>) -> TokenUsage {
    let number = |field| usage.get(field).and_then(JsonValue::as_u64).unwrap_or(0);
    TokenUsage {
        input: number("inputTokens"),
        output: number("outputTokens"),
        cache_read: number("cacheReadTokens"),
        cache_write: number("cacheCreationTokens"),
    }
}

fn is_reminder(text: &str) -> bool {
    text.trim_start().starts_with("<system-reminder>")
}

/// What a person wrote: the texts that are not reminders.
fn prompt_of(content: JsonValue<'_>) -> String {
    if let Some(text) = content.to_owned_string() {
        return if is_reminder(&text) { String::new() } else { text };
    }
    let texts = content.iter_elements().filter_map(|block| block.get("text")?.to_owned_string());
    texts.filter(|text| !is_reminder(text)).collect::<Vec<_>>().join("\n")
}

fn converse_line(raw: &[u8], say: &mut dyn FnMut(ConversationEntry)) {
    let line = JsonValue::new(raw);
    let Some(message) = line.get("message") else {
        return;
    };
    let at = line.get("timestamp").and_then(JsonValue::as_time);
    let speaker = match message.get("role") {
        Some(role) if role.is_string("assistant") => ConversationRole::Assistant,
        Some(role) if role.is_string("user") => ConversationRole::User,
        _ => ConversationRole::System,
    };
    let spoken = |text: String| {
        let role = if is_reminder(&text) { ConversationRole::System } else { speaker };
        ConversationEntry::new(at, role, text)
    };
    let Some(content) = message.get("content") else {
        return;
    };
    blocks::emit_blocks(content, at, spoken, say);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(lines: &[&str]) -> TranscriptDigest {
        let mut reading = Reading::default();
        for line in lines {
            reading.read_line(line.as_bytes());
        }
        reading.into_digest()
    }

    fn start(more: &str) -> String {
        format!(r#"{{"type":"session_start","id":"s","title":"fix it"{more}}}"#)
    }

    const PROMPT: &str = r#"{"type":"message","message":{"role":"user","content":[{"type":"text","text":"<system-reminder>x"},{"type":"text","text":"fix it"}]}}"#;

    #[test]
    fn a_prompt_is_what_is_left_without_reminders_and_is_no_title() {
        let read = digest(&[&start(""), PROMPT]);
        assert_eq!((read.first_prompt.as_deref(), read.title), (Some("fix it"), None));
        assert_eq!((read.turns, read.turn), (1, TurnState::Open));
        let by_hand = start(r#","isSessionTitleManuallySet":true"#);
        assert_eq!(digest(&[&by_hand, PROMPT]).title.as_deref(), Some("fix it"));
        let generated = start(r#","sessionTitle":"Parser fix""#);
        assert_eq!(digest(&[&generated, PROMPT]).title.as_deref(), Some("Parser fix"));
        assert_eq!(digest(&[r#"{"type":"session_start","title":"New Session"}"#]).title, None);
    }

    #[test]
    fn a_called_session_names_its_caller_and_a_fork_stands_alone() {
        assert_eq!(digest(&[&start(r#","callingSessionId":"p""#)]).parent.as_deref(), Some("p"));
        assert_eq!(digest(&[&start(r#","parent":"p""#)]).parent, None);
    }

    #[test]
    fn only_an_outcome_closes_a_turn() {
        let answer = r#"{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"done"}]}}"#;
        let outcome = r#"{"type":"agent_turn_outcome","reason":"completed"}"#;
        assert_eq!(digest(&[PROMPT, answer]).turn, TurnState::Unknown);
        assert_eq!(digest(&[PROMPT, answer, outcome]).turn, TurnState::Closed);
        assert_eq!(digest(&[PROMPT, answer, outcome, PROMPT]).turn, TurnState::Open);
    }
}
