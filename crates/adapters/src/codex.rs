//! Codex CLI.
//!
//! A thread is one rollout, `sessions/YYYY/MM/DD/rollout-<local time>-<thread>.jsonl`, kept open by
//! its writer; archived threads move to `archived_sessions/`, cold ones may become `.jsonl.zst`.
//! The writer holds a flock on `thread-writer-locks/<thread>.lock` before there is a rollout. That
//! writer may be the app-server daemon, which outlives the terminal that started the thread.
//!
//! Traps: prompts are `item_completed` events since the paginated format and `user_message` events
//! before it; usage is repeated as running totals (`token_count` comes again without any new
//! response); the copied history of a fork brings the parent's `session_meta` and usage along.

mod conversation;
mod survey;
mod turns;

use std::collections::HashSet;
use std::io::{self, Read};
use std::path::PathBuf;

use model::conversation::ConversationEntry;
use model::event::HookHappening;
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState, shorten_title};
use model::usage::MessageUsage;

use self::conversation::{converse_line, is_injected, text_of};
use crate::control::{AgentControl, HeadlessControl, IdRule, PermissionChannel, PromptInput};
use crate::files::{EntryKind, LinesEnd, ReadError};
use crate::hooks::{AgentHooks, HookFileShape, HookMeaning, HookWiring, NotifyProgram};
use crate::skim::{self, JsonValue};
use crate::usage::UsageGrowth;
use crate::{
    Adapter, AgentProfile, EnvLookup, ExtraFileKind, LineConversation, Opening, Survey,
    TranscriptSource, TurnEndReader, files,
};

#[derive(Debug)]
pub(crate) struct Codex;

static CODEX_PROFILE: AgentProfile = AgentProfile {
    id: "codex",
    name: "Codex",
    version: 2,
    certainty: FormatCertainty::Lab,
    program: AgentProgram {
        names: &["codex"],
        packages: &["@openai/codex"],
        servers: &["app-server"],
        helpers: &[
            "app-server daemon",
            "mcp",
            "login",
            "logout",
            "sandbox",
            "completion",
            "debug",
            "apply",
            "cloud",
            "features",
            "update",
            "exec-server",
            "responses-api-proxy",
            "stdio-to-uds",
        ],
    },
    resume_options: &["resume"],
    continue_options: &["--last"],
    session_variables: &[],
    opening: Opening {
        holds_what_it_writes: true,
        tells_of_switches: true,
        ..Opening::IN_DIRECTORY
    },
    hooks: Some(&AgentHooks {
        events: &[
            ("SessionStart", HookMeaning::Is(HookHappening::SessionStart)),
            ("UserPromptSubmit", HookMeaning::Prompt),
            ("PermissionRequest", HookMeaning::Is(HookHappening::Waiting)),
            ("PostToolUse", HookMeaning::Is(HookHappening::Progress)),
            ("PreCompact", HookMeaning::Is(HookHappening::Compaction)),
            ("SubagentStart", HookMeaning::Is(HookHappening::Sign)),
            ("SubagentStop", HookMeaning::Is(HookHappening::Sign)),
            ("Stop", HookMeaning::Is(HookHappening::TurnEnd)),
            ("SessionEnd", HookMeaning::Is(HookHappening::SessionEnd)),
            ("notify", HookMeaning::Is(HookHappening::TurnEnd)),
        ],
        pid_variables: &[],
        wiring: HookWiring {
            user: |env| Some(env.root_or_home("CODEX_HOME", ".codex").pop()?.join("hooks.json")),
            project: Some(|project| project.join(".codex/hooks.json")),
            shape: HookFileShape::Groups { per_second: 1 },
            notify: Some(NotifyProgram {
                user: |env| {
                    Some(env.root_or_home("CODEX_HOME", ".codex").pop()?.join("config.toml"))
                },
                event: "notify",
            }),
        },
    }),
    note: "rollouts and writer locks of 0.166.0; events of older rollouts from its source",
};

const PLAIN: &str = "codex-rollout";
const COMPRESSED: &str = "codex-rollout-zst";

/// The most that is unpacked of one compressed rollout: a small file can unpack to anything.
const MAX_UNPACKED_BYTES: u64 = 256 << 20;

static CODEX_CONTROL: AgentControl = AgentControl {
    measured: "0.166.0",
    // A plain `codex` is a client of one server that holds every conversation of its home.
    interactive: Some(&["--no-daemon"]),
    resume: Some(&["resume", "--no-daemon", "{id}"]),
    headless: Some(HeadlessControl {
        start: &["exec", "--json", "-"],
        resume: Some(&["exec", "resume", "--json", "{id}", "-"]),
        input: PromptInput::Stdin,
        id_field: "thread_id",
    }),
    id_rule: IdRule::Registered,
    quit_keys: &["Ctrl+c", "Ctrl+c"],
    resumes_elsewhere: true,
    queue: Some(&["queue", "--thread", "{id}", "--message={text}"]),
    permission_channel: PermissionChannel::TrustedHook,
    supervisor_command: Some("codex app-server daemon stop"),
    question_words: &["Would you like to"],
    ..AgentControl::TERMINAL_ONLY
};

impl Adapter for Codex {
    fn agent_profile(&self) -> &'static AgentProfile {
        &CODEX_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "~/.codex/config.toml",
            shape: crate::McpSettingsShape::TomlTable,
        })
    }

    fn control_table(&self) -> Option<&'static AgentControl> {
        Some(&CODEX_CONTROL)
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        env.root_or_home("CODEX_HOME", ".codex")
    }

    fn survey_root(&self, survey: &mut Survey) {
        let root = survey.root_path();
        survey::survey_locks(survey, &root.join("thread-writer-locks"));
        survey::survey_rollouts(survey, &root.join("sessions"), 3);
        survey::survey_rollouts(survey, &root.join("archived_sessions"), 3);
        let names = survey::read_names(survey, &root.join("session_index.jsonl"));
        for source in &mut survey.sources {
            let name = names.get(&source.id).map(|name| name.trim());
            source.name = name.filter(|name| !name.is_empty()).map(shorten_title);
        }
        let snapshots = root.join("shell_snapshots");
        for entry in survey.list_wanted(&snapshots, |_| false) {
            let thread = entry.name.to_str().and_then(|name| name.split_once('.'));
            if let (EntryKind::File, Some((thread, _))) = (entry.kind, thread) {
                survey.note_extra(
                    ExtraFileKind::Attachment,
                    &entry,
                    snapshots.join(&entry.name),
                    Some(thread.to_owned()),
                );
            }
        }
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        let mut reading = Reading { thread: &source.id, ..Reading::default() };
        let end = each_line(source, 0, |line| reading.read_line(line))?;
        reading.digest.damage.oversized = end.oversized;
        Ok(reading.into_digest())
    }

    fn read_usage(
        &self,
        source: &TranscriptSource,
        say: &mut dyn FnMut(MessageUsage),
    ) -> Result<bool, ReadError> {
        let mut reading = Reading { thread: &source.id, ..Reading::default() };
        let (mut records, mut totals) = (UsageGrowth::default(), UsageGrowth::default());
        let (mut by_record, mut by_total) = (Vec::new(), Vec::new());
        each_line(source, 0, |line| {
            reading.read_line(line);
            let at = JsonValue::new(&reading.last_time).as_time();
            // Which of the two counts is known only in the end.
            let mut seen = TranscriptDigest {
                model: reading.digest.model.clone(),
                tokens: Some(reading.recorded),
                ..TranscriptDigest::default()
            };
            records.tell_growth(&seen, None, at, &mut |usage| by_record.push(usage));
            seen.tokens = reading.counted;
            totals.tell_growth(&seen, None, at, &mut |usage| by_total.push(usage));
        })?;
        let counts = if reading.responses.is_empty() { by_total } else { by_record };
        counts.into_iter().for_each(say);
        Ok(true)
    }

    fn line_conversation(&self) -> Option<LineConversation> {
        Some(converse_line)
    }

    fn turn_end_reader(&self) -> Option<TurnEndReader> {
        Some(TurnEndReader { read: turns::read_turn_end, tells_all: true })
    }

    fn read_conversation(
        &self,
        source: &TranscriptSource,
        from: u64,
        say: &mut dyn FnMut(ConversationEntry),
    ) -> Result<u64, ReadError> {
        Ok(each_line(source, from, |line| converse_line(line, say))?.offset)
    }
}

/// The lines of a rollout; positions in a compressed one are those of its unpacked text.
fn each_line(
    source: &TranscriptSource,
    from: u64,
    each: impl FnMut(&[u8]),
) -> Result<LinesEnd, ReadError> {
    if source.format == PLAIN {
        return source.each_line(from, each);
    }
    let (file, stamp) = files::open_file(&source.root, &source.path)?;
    if stamp.bytes == 0 {
        return Err(ReadError::Empty);
    }
    let mut unpacked = zstd::stream::read::Decoder::new(file)?.take(MAX_UNPACKED_BYTES);
    io::copy(&mut (&mut unpacked).take(from), &mut io::sink())?;
    let mut end = files::lines_from(&mut unpacked, from, each)?;
    // What was read stays true, and is remembered: an error would unpack it again at every listing.
    end.oversized += u32::from(unpacked.limit() == 0);
    Ok(end)
}

/// What has been read of a rollout so far.
#[derive(Default)]
struct Reading<'a> {
    thread: &'a str,
    digest: TranscriptDigest,
    has_meta: bool,
    /// Prompts as each generation of the format writes them; one prompt may be written twice.
    prompts: [Prompts; 3],
    /// Whether turns are marked: the oldest rollouts do not mark them.
    marked: bool,
    responses: HashSet<Vec<u8>>,
    /// Calls that need a person and have no output yet.
    calls: Vec<(Vec<u8>, TurnState)>,
    recorded: TokenUsage,
    /// The running total of the last `token_count`.
    total: Vec<u8>,
    counted: Option<TokenUsage>,
    last_time: Vec<u8>,
}

/// Prompts written in one way.
#[derive(Default)]
struct Prompts {
    count: u32,
    first: Option<String>,
}

impl Prompts {
    const ITEM: usize = 0;
    const EVENT: usize = 1;
    const RESPONSE_ITEM: usize = 2;
}

/// The fields every line has. Before September 2025 the payload stood on the line itself.
struct Line<'a> {
    kind: JsonValue<'a>,
    timestamp: Option<JsonValue<'a>>,
    payload: JsonValue<'a>,
}

impl<'a> Line<'a> {
    fn parse_line(raw: &'a [u8]) -> Result<Self, skim::BrokenJson> {
        let (mut kind, mut timestamp, mut payload) = (None, None, None);
        for field in skim::parse_object(raw)? {
            let (key, value) = field?;
            match key {
                b"type" => kind = Some(value),
                b"timestamp" => timestamp = Some(value),
                b"payload" => payload = Some(value),
                _ => {}
            }
        }
        let (kind, payload) = match (kind, payload) {
            (Some(kind), Some(payload)) => (kind, payload),
            (None, _) => (JsonValue::new(br#""session_meta""#), JsonValue::new(raw)),
            (Some(_), None) => (JsonValue::new(br#""response_item""#), JsonValue::new(raw)),
        };
        Ok(Self { kind, timestamp, payload })
    }
}

impl Reading<'_> {
    fn read_line(&mut self, line: &[u8]) {
        if !line.trim_ascii().is_empty() && self.try_line(line).is_err() {
            self.digest.damage.broken += 1;
        }
    }

    fn try_line(&mut self, raw: &[u8]) -> Result<(), skim::BrokenJson> {
        let Line { kind, timestamp, payload } = Line::parse_line(raw)?;
        match kind.raw() {
            br#""session_meta""# => self.read_meta(payload),
            br#""turn_context""# => self.read_context(payload),
            br#""event_msg""# => self.read_event(payload),
            br#""response_item""# => self.read_item(payload),
            br#""token_usage_record""# => self.read_usage(payload),
            _ => {}
        }
        // Parsed only at the end, so what is no time stamp must not take the place of one.
        if let Some(timestamp) = timestamp.filter(|value| value.is_text()) {
            if self.digest.started_at.is_none() {
                self.note_time(timestamp);
            }
            self.last_time.clear();
            self.last_time.extend_from_slice(timestamp.raw());
        }
        Ok(())
    }

    fn note_time(&mut self, time: JsonValue<'_>) {
        if let Some(time) = time.as_time() {
            self.digest.widen_span(time);
        }
    }

    fn read_meta(&mut self, meta: JsonValue<'_>) {
        if self.has_meta {
            return;
        }
        let text = |path: &[&str]| meta.value_at(path).and_then(JsonValue::to_owned_string);
        self.has_meta = meta.get("id").is_some();
        self.digest.cwd = text(&["cwd"]);
        self.digest.version = text(&["cli_version"]);
        self.digest.branch = text(&["git", "branch"]).filter(|branch| !branch.is_empty());
        let spawn = ["source", "subagent", "thread_spawn"];
        let spawned = |field| text(&[&spawn[..], &[field]].concat());
        self.digest.parent = text(&["parent_thread_id"]).or_else(|| spawned("parent_thread_id"));
        self.digest.name = text(&["agent_nickname"]).or_else(|| spawned("agent_nickname"));
        if let Some(created) = meta.get("timestamp") {
            self.note_time(created);
        }
    }

    fn read_context(&mut self, context: JsonValue<'_>) {
        if let Some(model) = context.get("model").and_then(JsonValue::as_str) {
            self.digest.note_model(&model);
        }
        if self.digest.cwd.is_none() {
            self.digest.cwd = context.get("cwd").and_then(JsonValue::to_owned_string);
        }
    }

    fn read_event(&mut self, event: JsonValue<'_>) {
        let Some(kind) = event.get("type") else {
            return;
        };
        match kind.raw() {
            br#""task_started""# | br#""turn_started""# => {
                self.marked = true;
                self.calls.clear();
                self.digest.turn = TurnState::Open;
            }
            br#""task_complete""# | br#""turn_complete""# | br#""turn_aborted""# => {
                self.marked = true;
                self.digest.turn = TurnState::Closed;
            }
            br#""item_completed""# => {
                let item = event.get("item");
                if item
                    .and_then(|item| item.get("type"))
                    .is_some_and(|kind| kind.is_string("UserMessage"))
                {
                    let text = item.and_then(|item| item.get("content")).map(text_of);
                    self.count_prompt(Prompts::ITEM, text.as_deref().unwrap_or_default());
                }
            }
            br#""user_message""# => {
                let text =
                    event.get("message").and_then(JsonValue::to_owned_string).unwrap_or_default();
                if !is_injected(&text) {
                    self.count_prompt(Prompts::EVENT, &text);
                }
            }
            br#""agent_message""# => self.note_answer(),
            br#""token_count""# => self.running_total(event),
            _ => {}
        }
    }

    fn read_item(&mut self, item: JsonValue<'_>) {
        let is = |field, text| item.get(field).is_some_and(|value| value.is_string(text));
        if is("type", "function_call") {
            return self.read_call(item);
        }
        if is("type", "function_call_output") {
            let id = item.get("call_id").map_or(&b""[..], JsonValue::raw);
            self.calls.retain(|(open, _)| open != id);
            return;
        }
        if !is("type", "message") {
            return;
        }
        if is("role", "assistant") {
            self.note_answer();
        } else if is("role", "user") {
            let text = item.get("content").map(text_of).unwrap_or_default();
            if !is_injected(&text) {
                self.count_prompt(Prompts::RESPONSE_ITEM, &text);
            }
        }
    }

    /// A call that needs a person: a question, or a command that asks to leave the sandbox. Whether
    /// the latter was allowed is not written down until it has ended.
    fn read_call(&mut self, call: JsonValue<'_>) {
        let text = |field| call.get(field).and_then(JsonValue::to_owned_string).unwrap_or_default();
        let arguments = text("arguments");
        let given = JsonValue::new(arguments.as_bytes());
        let escalates = given
            .get("sandbox_permissions")
            .is_some_and(|asked| asked.is_string("require_escalated"))
            || given.get("with_escalated_permissions").and_then(JsonValue::as_bool) == Some(true);
        let what = || {
            let command = given.get("cmd").or_else(|| given.get("command"))?;
            let words = command.iter_elements().filter_map(JsonValue::to_owned_string);
            let joined = || words.collect::<Vec<_>>().join(" ");
            Some(shorten_title(&command.to_owned_string().unwrap_or_else(joined)))
        };
        let open = match text("name").as_str() {
            "request_user_input" => TurnState::Waiting(Some("an answer".to_owned())),
            _ if escalates => TurnState::Asking(what()),
            _ => return,
        };
        let id = call.get("call_id").map_or(&b""[..], JsonValue::raw);
        self.calls.push((id.to_vec(), open));
    }

    fn count_prompt(&mut self, way: usize, text: &str) {
        let prompts = &mut self.prompts[way];
        prompts.count += 1;
        let text = text.trim();
        if prompts.first.is_none() && !text.is_empty() {
            prompts.first = Some(shorten_title(text));
        }
        self.digest.turn = TurnState::Open;
    }

    /// An answer without turn marks may be the last one or not.
    fn note_answer(&mut self) {
        if !self.marked {
            self.digest.turn = TurnState::Unknown;
        }
    }

    /// `token_usage_record`: one per response, with the thread that asked.
    fn read_usage(&mut self, record: JsonValue<'_>) {
        let own = record.get("thread_id").is_none_or(|thread| thread.is_string(self.thread));
        let response = record.get("response_id").map_or(&b""[..], JsonValue::raw);
        let is_new = response.is_empty() || self.responses.insert(response.to_vec());
        if let (true, true, Some(usage)) = (own, is_new, record.get("usage")) {
            self.recorded.add_usage(tokens_of(usage));
        }
    }

    /// `token_count`: repeated whenever limits change, so only a new total is a new response.
    fn running_total(&mut self, event: JsonValue<'_>) {
        let Some(info) = event.get("info") else {
            return;
        };
        let Some(total) = info.get("total_token_usage") else {
            return;
        };
        if self.total == total.raw() {
            return;
        }
        self.total.clear();
        self.total.extend_from_slice(total.raw());
        match info.get("last_token_usage").filter(|last| last.as_object().is_some()) {
            Some(last) => self.counted.get_or_insert_default().add_usage(tokens_of(last)),
            // A total holds everything before it.
            None => self.counted = Some(tokens_of(total)),
        }
    }

    fn into_digest(mut self) -> TranscriptDigest {
        let [item, event, response_item] = self.prompts;
        let written = if item.count > event.count { item } else { event };
        let prompts = if written.count > 0 { written } else { response_item };
        self.digest.turns = prompts.count;
        self.digest.first_prompt = prompts.first;
        self.digest.tokens =
            if self.responses.is_empty() { self.counted } else { Some(self.recorded) };
        if let Some(last) = JsonValue::new(&self.last_time).as_time() {
            self.digest.widen_span(last);
        }
        if self.digest.turn == TurnState::Open
            && let Some((_, open)) = self.calls.pop()
        {
            self.digest.turn = open;
        }
        self.digest
    }
}

/// Input includes what was cached; output includes reasoning.
fn tokens_of(usage: JsonValue<'_>) -> TokenUsage {
    let number = |field| usage.get(field).and_then(JsonValue::as_u64).unwrap_or(0);
    let (cache_read, cache_write) =
        (number("cached_input_tokens"), number("cache_write_input_tokens"));
    TokenUsage {
        input: number("input_tokens").saturating_sub(cache_read).saturating_sub(cache_write),
        output: number("output_tokens"),
        cache_read,
        cache_write,
    }
}

#[cfg(test)]
mod tests;
