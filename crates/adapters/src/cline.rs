//! The adapter of Cline: reads its sessions.
//!
//! A session is a directory of the same name: `<id>.json` says who runs it and how it stands,
//! `<id>.messages.json` is the conversation as one document, written anew after each answer (so it
//! is empty during the first turn). Teammates write `<agent>__<task>.messages.json` beside it.
//!
//! Traps: the pid may be that of the hub daemon, which outlives its sessions, so it counts only
//! until the session says that it ended; a pid is all that is recorded, but the process that runs a session
//! keeps the session database open; input tokens include cached ones; prompts are wrapped in a tag.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use model::conversation::{ConversationEntry, ConversationRole};
use model::identity::Identity;
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{
    FileStamp, ProcessRegistration, RegistrationProof, RegistrationScope, TokenUsage,
    TranscriptDigest, TurnState, shorten_title,
};
use model::status::Activity;
use model::time::Time;
use model::usage::micro_usd;

use crate::blocks::{self, has_block, text_of};
use crate::files::{EntryKind, ReadError};
use crate::skim::{self, JsonValue};
use crate::{
    Adapter, AgentProfile, EnvLookup, ExtraFileKind, Opening, Survey, TranscriptSource, files,
};

#[derive(Debug)]
pub(crate) struct Cline;

static CLINE_PROFILE: AgentProfile = AgentProfile {
    id: "cline",
    name: "Cline",
    version: 2,
    certainty: FormatCertainty::Lab,
    program: AgentProgram {
        names: &["cline"],
        packages: &["cline/bin", "@cline/cli"],
        // The hub registers every session it runs.
        servers: &[],
        helpers: &[
            "--cline-hub-daemon",
            "auth",
            "config",
            "connect",
            "doctor",
            "history",
            "hook",
            "mcp",
            "plugin",
            "schedule",
            "skill",
        ],
    },
    resume_options: &["--id"],
    continue_options: &[],
    session_variables: &[],
    opening: Opening::ANYWHERE,
    hooks: None,
    note: "headless sessions of 3.0.65, run by the command or by its hub",
};

const MESSAGES: &str = "cline-messages";
/// A session whose conversation is not there.
const MANIFEST: &str = "cline-manifest";

impl Adapter for Cline {
    fn agent_profile(&self) -> &'static AgentProfile {
        &CLINE_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "~/.cline/data/settings/cline_mcp_settings.json",
            shape: crate::McpSettingsShape::McpServers,
        })
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        let data = || {
            let home = || env.path_of("CLINE_DIR").or_else(|| env.in_home(".cline"));
            env.path_of("CLINE_DATA_DIR").or_else(|| Some(home()?.join("data")))
        };
        let sessions = env.path_of("CLINE_SESSION_DATA_DIR");
        sessions.or_else(|| Some(data()?.join("sessions"))).into_iter().collect()
    }

    fn survey_root(&self, survey: &mut Survey) {
        let root = survey.root_path();
        let database = root.parent().map(|data| data.join("db/sessions.db"));
        let database = database.as_deref().and_then(files::stamp_path);
        for session in survey.list_wanted(&root, |name| !name.starts_with('.')) {
            if let (EntryKind::Directory, Some(id)) = (session.kind, session.name.to_str()) {
                survey_session(survey, &root.join(id), id, database);
            }
        }
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        let manifest = source.beside.first().map_or(&source.path, |(path, _)| path);
        let is_lead = source.parent.is_none();
        let manifest = is_lead.then(|| Manifest::read_manifest(&source.root, manifest)).transpose();
        let mut reading = Reading::default();
        if source.format == MESSAGES {
            match read_messages(source, |message| reading.read_message(message)) {
                Ok(()) => {}
                // Half a session is better than none, as long as it says so.
                Err(ReadError::Format(_) | ReadError::Empty) if manifest.is_ok() => {
                    reading.digest.damage.broken += 1;
                }
                Err(error) => return Err(error),
            }
        }
        match manifest {
            Ok(Some(manifest)) => manifest.describe_session(&mut reading),
            Ok(None) => {}
            Err(_) if source.format == MESSAGES => reading.digest.damage.broken += 1,
            Err(error) => return Err(error),
        }
        Ok(reading.digest)
    }

    /// Positions count messages.
    fn read_conversation(
        &self,
        source: &TranscriptSource,
        from: u64,
        say: &mut dyn FnMut(ConversationEntry),
    ) -> Result<u64, ReadError> {
        let mut position = 0;
        if source.format == MESSAGES {
            read_messages(source, |message| {
                if position >= from {
                    converse_message(message, say);
                }
                position += 1;
            })?;
        }
        Ok(position)
    }
}

fn survey_session(survey: &mut Survey, directory: &Path, id: &str, database: Option<FileStamp>) {
    let root = survey.root_path();
    let manifest = directory.join(format!("{id}.json"));
    let mut has_messages = false;
    for entry in survey.list_wanted(directory, |name| name.ends_with(".json")) {
        if entry.kind != EntryKind::File {
            continue;
        }
        let path = directory.join(&entry.name);
        match entry.strip_suffix(".messages.json") {
            Some(stem) if stem == id => {
                has_messages = true;
                let source = TranscriptSource::from_file(id, &root, path, entry.stamp, MESSAGES);
                survey.note_source(source.with_side_file(manifest.clone()));
            }
            Some(teammate) => {
                let name = format!("{id}/{teammate}");
                let source = TranscriptSource::from_file(name, &root, path, entry.stamp, MESSAGES);
                survey.note_source(TranscriptSource { parent: Some(id.to_owned()), ..source });
            }
            None if path == manifest => {}
            None => survey.note_extra(ExtraFileKind::Attachment, &entry, path, Some(id.to_owned())),
        }
    }
    let Some(stamp) = files::stamp_path(&manifest) else {
        return;
    };
    if !has_messages {
        survey.note_file(id, manifest.clone(), stamp, MANIFEST);
    }
    let registration = match Manifest::read_manifest(&root, &manifest) {
        Ok(read) => read.to_registration(id, manifest, stamp, database),
        Err(error) => {
            survey.note_problem(&manifest, &error);
            Some(ProcessRegistration {
                scope: RegistrationScope::Session(id.to_owned()),
                proof: RegistrationProof::Process {
                    identity: Identity::recorded_by_agent(None),
                    holds: None,
                },
                source: manifest,
                activity: None,
                waiting_for: None,
                digest: TranscriptDigest::default(),
            })
        }
    };
    survey.registrations.extend(registration);
}

/// `<id>.json`.
struct Manifest(serde_json::Value);

impl Manifest {
    fn read_manifest(root: &Path, path: &Path) -> Result<Self, ReadError> {
        let (value, _) = files::read_json::<serde_json::Value>(root, path)?;
        match value.get("session_id") {
            Some(_) => Ok(Self(value)),
            None => Err(ReadError::unknown_format("no session id in it")),
        }
    }

    fn text_at(&self, pointer: &str) -> Option<&str> {
        self.0.pointer(pointer)?.as_str().filter(|text| !text.trim().is_empty())
    }

    fn time_at(&self, pointer: &str) -> Option<Time> {
        Time::parse(self.text_at(pointer)?)
    }

    /// When the session ended, if it says that it has.
    fn ended_at(&self) -> Option<Time> {
        let goes_on = matches!(self.text_at("/status"), Some("idle" | "running" | "pending"));
        self.time_at("/ended_at").filter(|_| !goes_on)
    }

    fn is_interactive(&self) -> bool {
        self.0.get("interactive") != Some(&serde_json::Value::Bool(false))
    }

    fn to_registration(
        &self,
        id: &str,
        source: PathBuf,
        stamp: FileStamp,
        database: Option<FileStamp>,
    ) -> Option<ProcessRegistration> {
        if self.ended_at().is_some() {
            return None;
        }
        let pid = self.0.get("pid").and_then(serde_json::Value::as_u64);
        let started_at = self.time_at("/started_at");
        let identity = Identity {
            recorded_at: started_at.or(Some(stamp.modified_at())),
            comm: Some("cline".to_owned()),
            ..Identity::recorded_by_agent(pid.and_then(|pid| u32::try_from(pid).ok()))
        };
        let activity = match self.text_at("/status") {
            Some("running") if !self.is_interactive() => Some(Activity::Working),
            Some("idle") => Some(Activity::Idle),
            _ => None,
        };
        Some(ProcessRegistration {
            scope: RegistrationScope::Session(id.to_owned()),
            proof: RegistrationProof::Process { identity, holds: database },
            source,
            activity,
            waiting_for: None,
            digest: TranscriptDigest {
                cwd: self.text_at("/cwd").map(str::to_owned),
                version: self.cli_version(),
                started_at,
                ..TranscriptDigest::default()
            },
        })
    }

    fn cli_version(&self) -> Option<String> {
        self.text_at("/metadata/sessionHistoryOrigin/version").map(str::to_owned)
    }

    /// Adds to what was read of the messages.
    fn describe_session(&self, reading: &mut Reading) {
        let digest = &mut reading.digest;
        digest.cwd = self.text_at("/cwd").map(str::to_owned);
        digest.branch = self.text_at("/metadata/git/branch").map(str::to_owned);
        digest.version = self.cli_version();
        digest.ended_at = self.ended_at();
        for time in [self.time_at("/started_at"), self.ended_at()].into_iter().flatten() {
            digest.widen_span(time);
        }
        // The first answer is still to come: the prompt stands only here.
        if digest.turns == 0
            && let Some(prompt) = self.text_at("/prompt")
        {
            digest.count_prompt(unwrap_input(prompt));
        }
        let title =
            self.text_at("/metadata/title").map(|title| shorten_title(unwrap_input(title).trim()));
        digest.title = title.filter(|title| digest.first_prompt.as_ref() != Some(title));
        digest.turn = match self.text_at("/status") {
            Some("running" | "pending") if self.is_interactive() => digest.turn.clone(),
            Some("running" | "pending") => TurnState::Open,
            Some(_) => TurnState::Closed,
            None => TurnState::Unknown,
        };
        let usage = self.0.pointer("/metadata/usage");
        let cost = usage.and_then(|usage| usage.get("totalCost")?.as_f64());
        // Nothing is what it says of a model whose price it does not know.
        let cost = cost.filter(|&usd| usd > 0.0);
        digest.cost_micro_usd = cost.map(micro_usd);
        // Compaction drops messages from the document; the total keeps what they used.
        let total = usage.map(|usage| {
            let number = |field: &str| usage.get(field).and_then(serde_json::Value::as_u64);
            token_usage(&|field| number(field))
        });
        let told = digest.tokens.unwrap_or_default();
        digest.tokens = total.filter(|total| total.output >= told.output).or(digest.tokens);
    }
}

/// Hands every message of the document to `each`.
fn read_messages(
    source: &TranscriptSource,
    mut each: impl FnMut(JsonValue<'_>),
) -> Result<(), ReadError> {
    let (bytes, _) = files::read_document(&source.root, &source.path)?;
    if bytes.trim_ascii().is_empty() {
        return Err(ReadError::Empty);
    }
    let broken = |_: skim::BrokenJson| ReadError::unknown_format("not the JSON it should be");
    let mut messages = None;
    for field in skim::parse_object(&bytes).map_err(broken)? {
        let (key, value) = field.map_err(broken)?;
        if key == b"messages" {
            messages = value.as_array();
        }
    }
    let messages = messages.ok_or_else(|| ReadError::unknown_format("no messages in it"))?;
    for message in messages {
        each(message.map_err(broken)?);
    }
    Ok(())
}

/// What has been read of the messages so far.
#[derive(Default)]
struct Reading {
    digest: TranscriptDigest,
    counted: HashSet<Vec<u8>>,
}

impl Reading {
    fn read_message(&mut self, message: JsonValue<'_>) {
        if let Some(time) = message.get("ts").and_then(JsonValue::as_time) {
            self.digest.widen_span(time);
        }
        let content = message.get("content");
        let has = |kind: &str| content.is_some_and(|content| has_block(content, kind));
        match message.get("role") {
            Some(role) if role.is_string("user") => {
                if has("tool_result") {
                    self.digest.turn = TurnState::Open;
                    return;
                }
                let text = content.map(text_of).unwrap_or_default();
                self.digest.count_prompt(unwrap_input(&text));
            }
            Some(role) if role.is_string("assistant") => {
                if let Some(model) =
                    message.value_at(&["modelInfo", "id"]).and_then(JsonValue::as_str)
                {
                    self.digest.note_model(&model);
                }
                let id = message.get("id").map_or(&b""[..], JsonValue::raw);
                let is_new = id.is_empty() || self.counted.insert(id.to_vec());
                if let (true, Some(metrics)) = (is_new, message.get("metrics")) {
                    let number = |field: &str| metrics.get(field).and_then(JsonValue::as_u64);
                    self.digest.add_usage(token_usage(&number));
                }
                self.digest.turn =
                    if has("tool_use") { TurnState::Open } else { TurnState::Closed };
            }
            _ => {}
        }
    }
}

/// Input includes what was cached.
fn token_usage(number: &dyn Fn(&str) -> Option<u64>) -> TokenUsage {
    let number = |field| number(field).unwrap_or(0);
    let (cache_read, cache_write) = (number("cacheReadTokens"), number("cacheWriteTokens"));
    TokenUsage {
        input: number("inputTokens").saturating_sub(cache_read).saturating_sub(cache_write),
        output: number("outputTokens"),
        cache_read,
        cache_write,
    }
}

/// `<user_input mode="act">…</user_input>` without the tag.
fn unwrap_input(text: &str) -> &str {
    let inner = text.trim().strip_prefix("<user_input").and_then(|rest| rest.split_once('>'));
    inner.map_or(text, |(_, inner)| inner.strip_suffix("</user_input>").unwrap_or(inner))
}

fn converse_message(message: JsonValue<'_>, say: &mut dyn FnMut(ConversationEntry)) {
    let at = message.get("ts").and_then(JsonValue::as_time);
    let speaker = match message.get("role") {
        Some(role) if role.is_string("assistant") => ConversationRole::Assistant,
        Some(role) if role.is_string("user") => ConversationRole::User,
        _ => ConversationRole::System,
    };
    let Some(content) = message.get("content") else {
        return;
    };
    let spoken = |text: String| ConversationEntry::new(at, speaker, unwrap_input(&text));
    blocks::emit_blocks(content, at, spoken, say);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(manifest: &str) -> Option<Option<u32>> {
        let manifest = Manifest(serde_json::from_str(manifest).unwrap());
        let registration =
            manifest.to_registration("s", "/m".into(), FileStamp::default(), None)?;
        let RegistrationProof::Process { identity, .. } = registration.proof else { panic!() };
        Some(identity.pid)
    }

    #[test]
    fn a_pid_counts_until_the_session_says_that_it_ended() {
        let ended = r#""ended_at":"2026-11-15T18:11:54.278Z""#;
        assert_eq!(registered(r#"{"pid":7,"status":"running"}"#), Some(Some(7)));
        assert_eq!(
            registered(&format!(r#"{{"pid":7,"status":"running",{ended}}}"#)),
            Some(Some(7))
        );
        assert_eq!(registered(&format!(r#"{{"pid":7,"status":"failed",{ended}}}"#)), None);
        assert_eq!(registered(r#"{"pid":7,"status":"completed"}"#), Some(Some(7)));
        assert_eq!(registered(r#"{"pid":-7}"#), Some(None));
    }

    #[test]
    fn a_message_counts_once_and_cached_input_is_taken_out() {
        let answer = JsonValue::new(br#"{"id":"m","role":"assistant","content":[],"metrics":{"inputTokens":100,"outputTokens":5,"cacheReadTokens":70,"cacheWriteTokens":20}}"#);
        let mut reading = Reading::default();
        reading.read_message(answer);
        reading.read_message(answer);
        let tokens = TokenUsage { input: 10, output: 5, cache_read: 70, cache_write: 20 };
        assert_eq!(reading.digest.tokens, Some(tokens));
    }

    #[test]
    fn a_prompt_is_taken_out_of_its_tag() {
        assert_eq!(unwrap_input(r#"<user_input mode="act">hi <b></user_input>"#), "hi <b>");
        assert_eq!(unwrap_input("<user_input"), "<user_input");
        assert_eq!(unwrap_input("plain"), "plain");
    }
}
