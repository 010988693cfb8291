//! Mistral Vibe.
//!
//! A session is a directory, `logs/session/unified/<id>/`. `meta.json` says where it works and what it
//! is called; `CURRENT` names a generation, whose `projection-state.json` is the session as people see
//! it (its entries are in `chunks/`, named by what they hold), and whose journal has everything since.
//! A checkpoint folds the journal into a new generation: an empty journal is what a session at rest has.
//!
//! The process that runs a session holds a lock on `logs/session/active/<id>.lock`, and `<id>.lock.json` beside
//! it has the pid of the interface's server process. Both go with the session's end.
//!
//! A question to a person is a `callback_registered` without its `callback_resolved`.

use std::path::{Path, PathBuf};

use model::conversation::{ConversationEntry, ConversationRole};
use model::identity::Identity;
use model::program::AgentProgram;
use model::session::{FormatCertainty, is_safe_id};
use model::sighting::{
    ProcessRegistration, RegistrationProof, RegistrationScope, TokenUsage, TranscriptDigest,
    TurnState, shorten_title,
};
use model::time::Time;
use serde_json::Value;

use crate::blocks::text_of;
use crate::files::{EntryKind, ReadError};
use crate::skim::JsonValue;
use crate::{Adapter, AgentProfile, EnvLookup, Opening, Survey, TranscriptSource, files};

#[derive(Debug)]
pub(crate) struct Vibe;

static VIBE_PROFILE: AgentProfile = AgentProfile {
    id: "vibe",
    name: "Mistral Vibe",
    version: 1,
    certainty: FormatCertainty::Lab,
    program: AgentProgram {
        names: &["vibe", "vibe-rs", "vibe-app-server"],
        packages: &["vibe/_bin"],
        servers: &[],
        helpers: &["--setup", "--version", "--help"],
    },
    resume_options: &["--resume"],
    continue_options: &["--continue", "-c"],
    session_variables: &[],
    opening: Opening::ANYWHERE,
    hooks: None,
    note: "the unified session store and leases of 3.0.2; the older one file per session is not read",
};

const FORMAT: &str = "vibe-unified";

impl Adapter for Vibe {
    fn agent_profile(&self) -> &'static AgentProfile {
        &VIBE_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "~/.vibe/config.toml",
            shape: crate::McpSettingsShape::TomlList,
        })
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        env.root_or_home("VIBE_HOME", ".vibe")
    }

    fn survey_root(&self, survey: &mut Survey) {
        let sessions = survey.root_path().join("logs/session");
        let unified = sessions.join("unified");
        for entry in survey.list_wanted(&unified, |name| !name.starts_with('.')) {
            if let (EntryKind::Directory, Some(id)) = (entry.kind, entry.name.to_str()) {
                survey_session(survey, &unified.join(id), id);
            }
        }
        survey_leases(survey, &sessions.join("active"));
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        let projection = Projection::read_projection(source)?;
        let meta =
            file_of(source, META).ok_or_else(|| ReadError::unknown_format("no meta.json"))?;
        let meta = files::read_json::<Value>(&source.root, meta).map(|(meta, _)| meta);
        let broken = u32::from(meta.is_err());
        let meta = meta.unwrap_or_default();
        let text = |pointer: &str| meta.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let mut digest = TranscriptDigest {
            cwd: text("/environment/working_directory").or_else(|| text("/origin_directory")),
            branch: text("/git_branch"),
            parent: text("/parent_session_id"),
            title: text("/title").map(|title| shorten_title(title.trim())),
            ..TranscriptDigest::default()
        };
        let start = text("/start_time").and_then(|time| Time::parse(&time));
        start.into_iter().for_each(|at| digest.widen_span(at));
        digest.damage.broken += broken;
        projection.describe_session(&mut digest);
        if let Some(model) = text("/config/model_name").filter(|_| digest.turns > 0) {
            digest.note_model(&model);
        }
        Ok(digest)
    }

    /// Positions count entries; one that is being written is told only to those who read from the
    /// start.
    fn read_conversation(
        &self,
        source: &TranscriptSource,
        from: u64,
        say: &mut dyn FnMut(ConversationEntry),
    ) -> Result<u64, ReadError> {
        let (mut position, mut held) = (from, false);
        for (index, entry) in Projection::read_projection(source)?.entries.iter().enumerate() {
            let number = index as u64 + 1;
            held |= string_at(entry, "/generationStatus") == Some("in_progress");
            if number > from && (!held || from == 0) {
                converse_entry(entry, say);
            }
            if !held && number > position {
                position = number;
            }
        }
        Ok(position)
    }
}

fn survey_session(survey: &mut Survey, directory: &Path, id: &str) {
    let root = survey.root_path();
    let (meta, current) = (directory.join(META), directory.join("CURRENT"));
    let (found, stamp) = match read_generation(&root, &current) {
        Ok(generation) => {
            let generation = directory.join("generations").join(generation);
            let entries = survey.list_wanted(&generation, |name| name == PROJECTION);
            let is_it = |entry: &&files::DirEntry| {
                entry.kind == EntryKind::File && entry.name == PROJECTION
            };
            let Some(entry) = entries.iter().find(is_it) else { return };
            (generation.join(PROJECTION), entry.stamp)
        }
        // The interface makes the directory when it starts, and fills it at the first prompt.
        Err(error) => {
            survey.note_problem(&current, &error);
            let Some(stamp) = files::stamp_path(&meta) else { return };
            (meta.clone(), stamp)
        }
    };
    let mut bytes = stamp.bytes;
    let mut journal = None;
    for below in ["chunks", "journal"] {
        let below = directory.join(below);
        for entry in survey.list_wanted(&below, |name| name.ends_with(".jsonl")) {
            if entry.kind == EntryKind::File {
                bytes = bytes.saturating_add(entry.stamp.bytes);
                let path = below.join(&entry.name);
                if entry.strip_suffix(".jsonl").is_some() {
                    journal = journal.max(Some(path));
                }
            }
        }
    }
    let mut source = TranscriptSource::from_file(id, &root, found, stamp, FORMAT);
    for beside in [Some(meta), Some(current), journal].into_iter().flatten() {
        source = source.with_side_file(beside);
    }
    // One of many files that belong together: never collected by itself.
    source.bytes = Some(bytes);
    survey.note_source(source);
}

/// The generation that `CURRENT` names.
fn read_generation(root: &Path, current: &Path) -> Result<String, ReadError> {
    let (said, _) = files::read_json::<Value>(root, current)?;
    let name = string_at(&said, "/generation").filter(|name| is_safe_id(name));
    name.map(str::to_owned).ok_or_else(|| ReadError::unknown_format("no generation in it"))
}

/// `active/<id>.lock.json`, and the lock beside it that its process holds.
fn survey_leases(survey: &mut Survey, active: &Path) {
    let root = survey.root_path();
    for entry in survey.list_all(active) {
        let Some(id) = entry.strip_suffix(".lock.json") else {
            continue;
        };
        let path = active.join(&entry.name);
        let holds = files::stamp_path(&active.join(format!("{id}.lock")));
        let (pid, at) = match files::read_json::<Value>(&root, &path) {
            Ok((lease, _)) => {
                let pid = lease.get("process_id").and_then(Value::as_u64);
                let at = string_at(&lease, "/acquired_at").and_then(Time::parse);
                (pid.and_then(|pid| u32::try_from(pid).ok()), at)
            }
            Err(error) if error.is_absent() => continue,
            Err(error) => {
                survey.note_problem(&path, &error);
                (None, None)
            }
        };
        let identity = Identity {
            recorded_at: at.or(Some(entry.stamp.modified_at())),
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

const PROJECTION: &str = "projection-state.json";
const META: &str = "meta.json";

/// The file of a session whose name ends so.
fn file_of<'a>(source: &'a TranscriptSource, ending: &str) -> Option<&'a Path> {
    let beside = source.beside.iter().map(|(path, _)| path);
    let mut all = std::iter::once(&source.path).chain(beside).map(PathBuf::as_path);
    all.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ending)))
}

fn string_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

/// The session as people see it: the last checkpoint with the journal since.
struct Projection {
    entries: Vec<Value>,
    /// The session's state, turn and usage.
    envelope: Value,
    /// Questions to a person without an answer: their ids and titles.
    questions: Vec<(String, Option<String>)>,
    broken: u32,
    oversized: u32,
}

impl Projection {
    fn read_projection(source: &TranscriptSource) -> Result<Self, ReadError> {
        let mut found = Self {
            entries: Vec::new(),
            envelope: Value::Null,
            questions: Vec::new(),
            broken: 0,
            oversized: 0,
        };
        let mut folded = 0;
        if let Some(projection) = file_of(source, PROJECTION) {
            let (bytes, _) = files::read_document(&source.root, projection)?;
            if bytes.trim_ascii().is_empty() {
                return Err(ReadError::Empty);
            }
            let state: Value = serde_json::from_slice(&bytes).map_err(|error| {
                ReadError::unknown_format(format!("not the JSON it should be: {error}"))
            })?;
            folded = state.get("snapshot_sequence").and_then(Value::as_u64).unwrap_or(0);
            found.envelope = state.get("snapshot").cloned().unwrap_or_default();
            found.read_chunks(source, projection)?;
        }
        if let Some(journal) = file_of(source, ".jsonl") {
            found.read_journal(source, journal, folded)?;
        }
        Ok(found)
    }

    /// The entries that the generation of this projection keeps in chunks.
    fn read_chunks(&mut self, source: &TranscriptSource, of: &Path) -> Result<(), ReadError> {
        let Some(directory) = file_of(source, META).and_then(Path::parent) else { return Ok(()) };
        let (manifest, _) =
            files::read_json::<Value>(&source.root, &of.with_file_name("manifest.json"))?;
        let chunks = manifest.pointer("/projection_state/chunks").and_then(Value::as_array);
        for chunk in chunks.into_iter().flatten().filter_map(Value::as_str) {
            if !is_safe_id(chunk) {
                continue;
            }
            let path = directory.join("chunks").join(format!("{chunk}.json"));
            match files::read_json::<Value>(&source.root, &path) {
                Ok((Value::Array(entries), _)) => self.entries.extend(entries),
                Ok(_) | Err(_) => self.broken += 1,
            }
        }
        Ok(())
    }

    /// What happened after the checkpoint, which folded everything up to number `folded`.
    fn read_journal(
        &mut self,
        source: &TranscriptSource,
        journal: &Path,
        folded: u64,
    ) -> Result<(), ReadError> {
        let (file, stamp) = files::open_file(&source.root, journal)?;
        let end = files::each_line(file, stamp.bytes, 0, |line| {
            if line.trim_ascii().is_empty() {
                return;
            }
            // Most records hold the model's whole input: only those that matter are unpacked.
            let record = JsonValue::new(line);
            let number = record.get("sequence").and_then(JsonValue::as_u64);
            let kind = record.get("type").and_then(JsonValue::to_owned_string);
            match (number, kind) {
                (Some(number), _) if number <= folded => {}
                (_, Some(kind)) => self.read_record(&kind, record),
                (_, None) => self.broken += 1,
            }
        })?;
        self.oversized += end.oversized;
        Ok(())
    }

    fn read_record(&mut self, kind: &str, record: JsonValue<'_>) {
        let Some(payload) = record.get("payload") else { return };
        let text = |path: &[&str]| payload.value_at(path).and_then(JsonValue::to_owned_string);
        match kind {
            "projection_delta" => {
                for change in payload.get("delta").into_iter().flat_map(JsonValue::iter_elements) {
                    let parse = |name| {
                        let part: Option<JsonValue<'_>> = change.get(name);
                        part.and_then(|part| serde_json::from_slice::<Value>(part.raw()).ok())
                    };
                    if let Some(entry) = parse("entry") {
                        self.put_entry(entry);
                    } else if let Some(state) = parse("state") {
                        self.envelope = state;
                    }
                }
            }
            "callback_registered" => {
                let id = text(&["callback_id"]).unwrap_or_default();
                let title = text(&["routing", "title"]).or_else(|| text(&["kind"]));
                self.questions.push((id, title));
            }
            // Resolved, cancelled, expired: in each case it is no longer open.
            other if other.starts_with("callback_") => {
                let id = text(&["callback_id"]).unwrap_or_default();
                self.questions.retain(|(open, _)| *open != id);
            }
            _ => {}
        }
    }

    /// An entry is appended, or written again.
    fn put_entry(&mut self, entry: Value) {
        let same = |known: &&mut Value| known.get("id").is_some() && known["id"] == entry["id"];
        match self.entries.iter_mut().find(same) {
            Some(known) => *known = entry,
            None => self.entries.push(entry),
        }
    }

    fn describe_session(self, digest: &mut TranscriptDigest) {
        digest.damage.broken += self.broken;
        digest.damage.oversized += self.oversized;
        for entry in &self.entries {
            for field in ["createdAt", "updatedAt"] {
                if let Some(millis) = entry.get(field).and_then(Value::as_i64) {
                    digest.widen_span(Time::from_millis(millis));
                }
            }
            if is_prompt(entry) {
                digest.count_prompt(&entry_text(entry));
            }
        }
        let session = |below: &str| self.envelope.pointer(&format!("/session/{below}"));
        if digest.title.is_none() {
            let title = session("title").and_then(Value::as_str);
            digest.title = title.map(|title| shorten_title(title.trim()));
        }
        let count = |name: &str| session(&format!("tokenUsage/{name}")).and_then(Value::as_u64);
        if let Some(input) = count("inputTokens") {
            let cached = count("cachedInputTokens").unwrap_or(0);
            digest.tokens = Some(TokenUsage {
                input: input.saturating_sub(cached),
                output: count("outputTokens").unwrap_or(0),
                cache_read: cached,
                cache_write: 0,
            });
        }
        let active = self.envelope.get("activeCallbacks").and_then(Value::as_array);
        let active = active.and_then(|callbacks| callbacks.first());
        let question =
            self.questions.into_iter().next().map(|(_, title)| title).or_else(|| {
                active.map(|callback| string_at(callback, "/title").map(str::to_owned))
            });
        digest.turn = match (question, string_at(&self.envelope, "/session/status/type")) {
            (Some(title), _) => TurnState::Waiting(title),
            (None, Some("running")) => TurnState::Open,
            (None, Some("idle")) => TurnState::Closed,
            (None, _) => TurnState::Unknown,
        };
    }
}

fn is_prompt(entry: &Value) -> bool {
    string_at(entry, "/type") == Some("message") && string_at(entry, "/role") == Some("user")
}

fn entry_text(entry: &Value) -> String {
    let content = entry.get("content").map(Value::to_string).unwrap_or_default();
    text_of(JsonValue::new(content.as_bytes()))
}

fn converse_entry(entry: &Value, say: &mut dyn FnMut(ConversationEntry)) {
    let at = entry.get("createdAt").and_then(Value::as_i64).map(Time::from_millis);
    if string_at(entry, "/type") == Some("effect") {
        let name = string_at(entry, "/detail/toolName").unwrap_or("tool");
        let input = entry.pointer("/detail/input").map(Value::to_string).unwrap_or_default();
        say(ConversationEntry::tool_call(at, name, input));
        let output = string_at(entry, "/state/outputText").filter(|output| !output.is_empty());
        if let Some(output) = output {
            say(ConversationEntry::new(at, ConversationRole::Result, output));
        }
        return;
    }
    let role = match string_at(entry, "/role") {
        Some("user") => ConversationRole::User,
        Some("assistant") => ConversationRole::Assistant,
        _ => ConversationRole::System,
    };
    let text = entry_text(entry);
    if !text.is_empty() {
        say(ConversationEntry::new(at, role, text));
    }
}
