//! The adapter of Pi: reads its sessions.
//!
//! Transcripts are `sessions/--<directory>--/<time>_<id>.jsonl`: a header, then entries that form
//! a tree through `parentId`, so one file may hold several branches. What was asked and paid for
//! on a branch that was left still happened; where the session stands is what was written last.
//! A file appears with the first answer or a little before, is not kept open, and no process is
//! written down: the program overwrites even its own arguments.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::control::delivery::{DeliveryTurn, TurnEnd};
use model::conversation::{ConversationEntry, ConversationRole};
use model::event::HookHappening;
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState, shorten_title};
use model::time::Time;
use model::usage::{MessageUsage, micro_usd};

use crate::blocks::text_of;
use crate::control::{AgentControl, HeadlessControl, IdRule, PermissionChannel, PromptInput};
use crate::files::{EntryKind, ReadError};
use crate::hooks::{AgentHooks, HookFileShape, HookMeaning, HookWiring};
use crate::skim::{self, JsonValue};
use crate::turn_ends::{end_by_status, read_turn_end_by_line};
use crate::usage::UsageGrowth;
use crate::{
    Adapter, AgentProfile, EnvLookup, LineConversation, Opening, Removable, Survey,
    TranscriptSource, TurnEndReader,
};

#[derive(Debug)]
pub(crate) struct Pi;

static PI_PROFILE: AgentProfile = AgentProfile {
    id: "pi",
    name: "Pi",
    version: 1,
    certainty: FormatCertainty::Lab,
    program: AgentProgram {
        names: &["pi", "omp"],
        packages: &[
            "@mariozechner/pi-coding-agent",
            "@earendil-works/pi-coding-agent",
            "@oh-my-pi/pi-coding-agent",
        ],
        servers: &[],
        helpers: &["install", "remove", "uninstall", "update", "list", "config"],
    },
    resume_options: &["--session", "--session-id", "--resume", "-r"],
    continue_options: &["--continue", "-c"],
    session_variables: &[],
    opening: Opening { tells_of_switches: true, ..Opening::ANYWHERE },
    hooks: Some(&AgentHooks {
        events: &[
            ("session-start", HookMeaning::Is(HookHappening::SessionStart)),
            ("turn-start", HookMeaning::Prompt),
            ("progress", HookMeaning::Is(HookHappening::Progress)),
            ("turn-end", HookMeaning::Is(HookHappening::TurnEnd)),
            ("session-end", HookMeaning::Is(HookHappening::SessionEnd)),
        ],
        pid_variables: &[],
        wiring: HookWiring {
            user: |env| {
                Some(
                    env.root_or_home("PI_CODING_AGENT_DIR", ".pi/agent")
                        .pop()?
                        .join("extensions/ostler.ts"),
                )
            },
            project: Some(|project| project.join(".pi/extensions/ostler.ts")),
            shape: HookFileShape::Script { template: include_str!("../scripts/pi.ts") },
            notify: None,
        },
    }),
    note: "transcripts of 0.73.1 and 0.87.1; forks, compaction and names from its documentation; \
           oh-my-pi (~/.omp) as the same format, never run",
};

const FORMAT: &str = "pi-jsonl";

/// Where oh-my-pi keeps the same format.
const FORK: &str = ".omp/agent";
static PI_CONTROL: AgentControl = AgentControl {
    measured: "0.73.1",
    interactive: Some(&["--session", "{path}"]),
    resume: Some(&["--session", "{id}"]),
    headless: Some(HeadlessControl {
        start: &["-p", "--mode", "json", "--session", "{path}"],
        resume: Some(&["-p", "--mode", "json", "--session", "{id}"]),
        input: PromptInput::Stdin,
        id_field: "id",
    }),
    id_rule: IdRule::ChosenPath,
    quit_keys: &["Ctrl+c", "Ctrl+c"],
    // After 2, 4 and 8 s.
    retries_within: Some(Duration::from_secs(12)),
    permission_channel: PermissionChannel::AsksNothing,
    ..AgentControl::TERMINAL_ONLY
};

impl Adapter for Pi {
    fn agent_profile(&self) -> &'static AgentProfile {
        &PI_PROFILE
    }

    fn control_table(&self) -> Option<&'static AgentControl> {
        Some(&PI_CONTROL)
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        let mut roots = env.root_or_home("PI_CODING_AGENT_DIR", ".pi/agent");
        // Sessions alone may live elsewhere.
        if let Some(sessions) = env.path_of("PI_CODING_AGENT_SESSION_DIR")
            && !roots.iter().any(|root| sessions.starts_with(root))
        {
            roots.push(sessions);
        }
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

    fn new_transcript_path(&self, env: &EnvLookup<'_>, cwd: &str, id: &str) -> Option<PathBuf> {
        let root = self.session_roots(env).into_iter().next()?;
        let directory = format!("--{}--", cwd.trim_matches('/').replace(['/', ':'], "-"));
        // The name's second part is what the listing takes for the id until the file says it.
        Some(root.join("sessions").join(directory).join(format!("ostler_{id}.jsonl")))
    }

    fn survey_root(&self, survey: &mut Survey) {
        let root = survey.root_path();
        // A directory for sessions alone holds files, or directories of files.
        survey_sessions(survey, &root, |name| name == "sessions" || name.starts_with("--"));
        survey_sessions(survey, &root.join("sessions"), |_| true);
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        let mut reading = Reading::default();
        let end = source.each_line(0, |line| reading.read_line(line))?;
        reading.digest.damage.oversized = end.oversized;
        Ok(reading.into_digest())
    }

    fn read_usage(
        &self,
        source: &TranscriptSource,
        say: &mut dyn FnMut(MessageUsage),
    ) -> Result<bool, ReadError> {
        let (mut reading, mut growth) = (Reading::default(), UsageGrowth::default());
        source.each_line(0, |line| {
            reading.read_line(line);
            let at = JsonValue::new(line).get("timestamp").and_then(JsonValue::as_time);
            growth.tell_growth(&reading.digest, reading.dollars, at, say);
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

/// Transcripts in a directory and in those of its directories that `holds_sessions`.
fn survey_sessions(survey: &mut Survey, directory: &Path, holds_sessions: fn(&str) -> bool) {
    let is_transcript = |name: &str| name.ends_with(".jsonl");
    for entry in survey.list_wanted(directory, |name| is_transcript(name) || holds_sessions(name)) {
        let path = directory.join(&entry.name);
        if entry.kind == EntryKind::Directory
            && entry.name != "sessions"
            && entry.name.to_str().is_none_or(holds_sessions)
        {
            for inner in survey.list_wanted(&path, is_transcript) {
                note_session(survey, path.join(&inner.name), &inner);
            }
        } else {
            note_session(survey, path, &entry);
        }
    }
}

fn note_session(survey: &mut Survey, path: PathBuf, entry: &crate::files::DirEntry) {
    if let Some(stem) = entry.strip_suffix(".jsonl").filter(|_| entry.kind == EntryKind::File) {
        survey.note_file(id_of(stem), path, entry.stamp, FORMAT);
    }
}

/// The id in `<time>_<id>`.
fn id_of(stem: &str) -> &str {
    stem.rsplit_once('_').map_or(stem, |(_, id)| id)
}

/// The fields of a line that matter.
#[derive(Default)]
struct Line<'a> {
    kind: &'a [u8],
    timestamp: Option<JsonValue<'a>>,
    message: Option<JsonValue<'a>>,
    cwd: Option<JsonValue<'a>>,
    parent: Option<JsonValue<'a>>,
    name: Option<JsonValue<'a>>,
    model: Option<JsonValue<'a>>,
    usage: Option<JsonValue<'a>>,
    summary: Option<JsonValue<'a>>,
    content: Option<JsonValue<'a>>,
}

impl<'a> Line<'a> {
    fn parse_line(line: &'a [u8]) -> Result<Self, skim::BrokenJson> {
        let mut found = Self::default();
        for field in skim::parse_object(line)? {
            let (key, value) = field?;
            match key {
                b"type" => found.kind = value.raw(),
                b"timestamp" => found.timestamp = Some(value),
                b"message" => found.message = Some(value),
                b"cwd" => found.cwd = Some(value),
                b"parentSession" | b"branchedFrom" => found.parent = Some(value),
                b"name" => found.name = Some(value),
                b"modelId" => found.model = Some(value),
                b"usage" => found.usage = Some(value),
                b"summary" => found.summary = Some(value),
                b"content" => found.content = Some(value),
                _ => {}
            }
        }
        Ok(found)
    }
}

/// What has been read of a transcript so far.
#[derive(Default)]
struct Reading {
    digest: TranscriptDigest,
    dollars: Option<f64>,
    /// The model that was chosen, which answers only once it is asked.
    chosen: Option<String>,
}

impl Reading {
    fn read_line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match Line::parse_line(line) {
            Ok(line) => self.read_entry(&line),
            Err(skim::BrokenJson) => self.digest.damage.broken += 1,
        }
    }

    fn read_entry(&mut self, line: &Line<'_>) {
        if let Some(time) = line.timestamp.and_then(JsonValue::as_time) {
            self.digest.widen_span(time);
        }
        match line.kind {
            br#""session""# => {
                self.digest.cwd = line.cwd.and_then(JsonValue::to_owned_string);
                let parent = line.parent.and_then(JsonValue::to_owned_string);
                self.digest.parent = parent.as_deref().and_then(|path| {
                    let stem = Path::new(path).file_stem()?.to_str()?;
                    Some(id_of(stem).to_owned())
                });
                self.chosen = line.model.and_then(JsonValue::to_owned_string);
            }
            br#""message""# => {
                if let Some(message) = line.message {
                    self.read_message(message);
                }
            }
            br#""model_change""# => self.chosen = line.model.and_then(JsonValue::to_owned_string),
            br#""session_info""# => {
                let name = line.name.and_then(JsonValue::to_owned_string);
                self.digest.title =
                    name.filter(|name| !name.trim().is_empty()).map(|n| shorten_title(&n));
            }
            _ => {}
        }
        // Summaries of a branch or of old context cost a request of their own.
        if let Some(usage) = line.usage {
            self.add_usage(usage);
        }
    }

    fn read_message(&mut self, message: JsonValue<'_>) {
        let Some(fields) = message.as_object() else {
            return;
        };
        let (mut role, mut content, mut model, mut usage, mut stop) =
            (None, None, None, None, None);
        for (key, value) in fields.flatten() {
            match key {
                b"role" => role = Some(value),
                b"content" => content = Some(value),
                b"model" => model = Some(value),
                b"usage" => usage = Some(value),
                b"stopReason" => stop = Some(value),
                _ => {}
            }
        }
        if let Some(usage) = usage {
            self.add_usage(usage);
        }
        match role.map_or(&b""[..], JsonValue::raw) {
            br#""user""# => {
                let text = content.map(text_of).unwrap_or_default();
                self.digest.count_prompt(&text);
            }
            br#""toolResult""# => self.digest.turn = TurnState::Open,
            br#""assistant""# => {
                if let Some(model) = model.and_then(JsonValue::as_str) {
                    self.digest.note_model(&model);
                }
                let goes_on =
                    stop.is_none_or(|stop| stop.is_string("toolUse") || stop.is_string("pending"));
                self.digest.turn = if goes_on { TurnState::Open } else { TurnState::Closed };
            }
            _ => {}
        }
    }

    fn add_usage(&mut self, usage: JsonValue<'_>) {
        let Some(fields) = usage.as_object() else { return };
        let mut tokens = TokenUsage::default();
        for (key, value) in fields.flatten() {
            let slot = match key {
                b"input" => &mut tokens.input,
                b"output" => &mut tokens.output,
                b"cacheRead" => &mut tokens.cache_read,
                b"cacheWrite" => &mut tokens.cache_write,
                b"cost" => {
                    if let Some(total) = value.get("total").and_then(JsonValue::as_f64) {
                        *self.dollars.get_or_insert(0.0) += total;
                    }
                    continue;
                }
                _ => continue,
            };
            *slot = value.as_u64().unwrap_or(0);
        }
        self.digest.add_usage(tokens);
    }

    fn into_digest(mut self) -> TranscriptDigest {
        self.digest.cost_micro_usd = self.dollars.map(micro_usd);
        if self.digest.model.is_none() {
            self.digest.model = self.chosen;
        }
        self.digest
    }
}

/// How a turn ended, by its last answer. Pi tries again after some errors, and writes each of them.
fn end_of_turn(line: JsonValue<'_>) -> Option<DeliveryTurn> {
    let message = line.get("message")?;
    if !message.get("role")?.is_string("assistant") {
        return None;
    }
    let end = match &*message.get("stopReason")?.as_str()? {
        "stop" | "length" => TurnEnd::Answered,
        "aborted" => TurnEnd::Interrupted,
        "error" => {
            let said = message.get("errorMessage").and_then(JsonValue::as_str);
            let status = said.and_then(|said| said.split_whitespace().next()?.parse().ok());
            end_by_status(status)
        }
        _ => return None,
    };
    let ended_at = line.get("timestamp").and_then(JsonValue::as_time);
    Some(DeliveryTurn { end, resets_at: None, ended_at })
}

fn converse_line(line: &[u8], say: &mut dyn FnMut(ConversationEntry)) {
    let Ok(line) = Line::parse_line(line) else { return };
    let at = line.timestamp.and_then(JsonValue::as_time);
    match (line.kind, line.message) {
        (br#""message""#, Some(message)) => converse_message(message, at, say),
        (br#""custom_message""#, _) => {
            let text = line.content.map(text_of).unwrap_or_default();
            say(ConversationEntry::new(at, ConversationRole::System, text));
        }
        (br#""compaction""# | br#""branch_summary""#, _) => {
            let text = line.summary.and_then(JsonValue::to_owned_string).unwrap_or_default();
            say(ConversationEntry::new(at, ConversationRole::System, text));
        }
        _ => {}
    }
}

fn converse_message(
    message: JsonValue<'_>,
    at: Option<Time>,
    say: &mut dyn FnMut(ConversationEntry),
) {
    let text = |name| message.get(name).and_then(JsonValue::to_owned_string).unwrap_or_default();
    let content = message.get("content");
    match text("role").as_str() {
        "user" => say(ConversationEntry::new(
            at,
            ConversationRole::User,
            content.map(text_of).unwrap_or_default(),
        )),
        "toolResult" => say(ConversationEntry::new(
            at,
            ConversationRole::Result,
            content.map(text_of).unwrap_or_default(),
        )),
        "bashExecution" => {
            say(ConversationEntry::tool_call(at, "bash", text("command")));
            say(ConversationEntry::new(at, ConversationRole::Result, text("output")));
        }
        "assistant" => {
            for block in content.into_iter().flat_map(JsonValue::iter_elements) {
                let field =
                    |name| block.get(name).and_then(JsonValue::to_owned_string).unwrap_or_default();
                match field("type").as_str() {
                    "text" => {
                        say(ConversationEntry::new(at, ConversationRole::Assistant, field("text")))
                    }
                    "toolCall" => {
                        let input = block.get("arguments").map_or(&b""[..], JsonValue::raw);
                        say(ConversationEntry::tool_call(
                            at,
                            field("name"),
                            String::from_utf8_lossy(input),
                        ));
                    }
                    _ => {}
                }
            }
            let error = text("errorMessage");
            if !error.is_empty() {
                say(ConversationEntry::new(at, ConversationRole::System, error));
            }
        }
        _ => {}
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
        reading.into_digest()
    }

    const ANSWER: &str = r#"{"type":"message","id":"2","parentId":"1","timestamp":"2026-01-02T03:04:05.000Z","message":{"role":"assistant","content":[{"type":"text","text":"hi"}],"model":"m","usage":{"input":10,"output":2,"cacheRead":5,"cacheWrite":1,"cost":{"total":0.0000015}},"stopReason":"stop"}}"#;

    #[test]
    fn every_branch_and_summary_is_paid_for() {
        let summary = r#"{"type":"branch_summary","id":"3","parentId":"1","summary":"s","usage":{"input":3,"output":4,"cost":{"total":0.000001}}}"#;
        let other = ANSWER.replace(r#""id":"2""#, r#""id":"4""#);
        let read = digest(&[ANSWER, summary, &other]);
        let tokens = TokenUsage { input: 23, output: 8, cache_read: 10, cache_write: 2 };
        assert_eq!(read.tokens, Some(tokens));
        assert_eq!(read.cost_micro_usd, Some(4));
    }

    #[test]
    fn a_fork_names_its_parent_by_file() {
        let header = r#"{"type":"session","version":3,"id":"n","cwd":"/w","parentSession":"/h/.pi/agent/sessions/--w--/2026-01-02T03-04-05-000Z_abc-1.jsonl"}"#;
        assert_eq!(digest(&[header]).parent.as_deref(), Some("abc-1"));
    }

    #[test]
    fn the_last_name_is_the_title_and_an_empty_one_takes_it_back() {
        let name = |name: &str| format!(r#"{{"type":"session_info","id":"1","name":"{name}"}}"#);
        assert_eq!(digest(&[&name("a"), &name("b")]).title.as_deref(), Some("b"));
        assert_eq!(digest(&[&name("a"), &name("")]).title, None);
    }

    #[test]
    fn a_turn_ends_with_its_stop_reason() {
        let stop = |reason: &str| digest(&[&ANSWER.replace(r#""stop""#, reason)]).turn;
        assert_eq!(stop(r#""stop""#), TurnState::Closed);
        assert_eq!(stop(r#""aborted""#), TurnState::Closed);
        assert_eq!(stop(r#""toolUse""#), TurnState::Open);
        let shell = r#"{"type":"message","id":"9","message":{"role":"bashExecution","command":"ls","output":"x"}}"#;
        let read = digest(&[ANSWER, shell]);
        assert_eq!((read.turn, read.turns), (TurnState::Closed, 0));
    }

    #[test]
    fn row_28_a_turn_ends_as_its_last_answer_says() {
        let prompt = r#"{"type":"message","message":{"role":"user","content":[{"type":"text","text":"mend it"}]}}"#;
        let answer = |stop: &str, error: &str| {
            format!(
                r#"{{"type":"message","message":{{"role":"assistant","content":[],"stopReason":"{stop}","errorMessage":"{error}"}}}}"#
            )
        };
        let end = |lines: &[&str]| {
            crate::turn_ends::turn_end_of(prompt, lines, converse_line, end_of_turn)
        };
        let failed = answer("error", "400 fake-model-server error 400");
        let limited = answer("error", "429 fake-model-server error 429");
        assert_eq!(end(&[&failed]), Some(TurnEnd::Failed));
        assert_eq!(end(&[&limited]), Some(TurnEnd::Limited));
        assert_eq!(end(&[&failed, &answer("stop", "")]), Some(TurnEnd::Answered), "tried again");
        assert_eq!(end(&[&answer("aborted", "")]), Some(TurnEnd::Interrupted));
        assert_eq!(end(&[&answer("toolUse", "")]), None);
        assert_eq!(
            end(&[&failed, prompt, &answer("stop", "")]),
            Some(TurnEnd::Failed),
            "another's"
        );
    }
}
