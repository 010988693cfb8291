//! Cline.
//!
//! A session is a directory of the same name: `<id>.json` says who runs it and how it stands,
//! `<id>.messages.json` is the conversation as one document, written anew after each answer (so it
//! is empty during the first turn). Teammates write `<agent>__<task>.messages.json` beside it.
//!
//! Traps: the pid may be that of the hub daemon, which outlives its sessions, so it counts only
//! until the session says that it ended; a pid is all that is recorded, but whoever runs a session
//! keeps the session database open; input tokens include cached ones; prompts are wrapped in a tag.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use model::conversation::{Entry, Role};
use model::identity::Identity;
use model::program::Program;
use model::session::FormatCertainty;
use model::sighting::{Digest, Proof, Registration, Scope, Stamp, Tokens, Turn, shorten};
use model::status::Activity;
use model::time::Time;

use crate::blocks::{self, has_block, text_of};
use crate::files::{EntryKind, ReadError};
use crate::skim::{self, Value};
use crate::{About, Adapter, Env, ExtraKind, Opening, Source, Survey, files};

/// Cline.
#[derive(Debug)]
pub(crate) struct Cline;

static ABOUT: About = About {
    id: "cline",
    name: "Cline",
    version: 1,
    certainty: FormatCertainty::Lab,
    program: Program {
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
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn roots(&self, env: &Env<'_>) -> Vec<PathBuf> {
        let data = || {
            let home = || env.path("CLINE_DIR").or_else(|| env.in_home(".cline"));
            env.path("CLINE_DATA_DIR").or_else(|| Some(home()?.join("data")))
        };
        let sessions = env.path("CLINE_SESSION_DATA_DIR");
        sessions.or_else(|| Some(data()?.join("sessions"))).into_iter().collect()
    }

    fn survey(&self, survey: &mut Survey) {
        let root = survey.root();
        let database = root.parent().map(|data| data.join("db/sessions.db"));
        let database = database.as_deref().and_then(files::stamp);
        for session in survey.list(&root, |name| !name.starts_with('.')) {
            if let (EntryKind::Directory, Some(id)) = (session.kind, session.name.to_str()) {
                survey_session(survey, &root.join(id), id, database);
            }
        }
    }

    fn digest(&self, source: &Source) -> Result<Digest, ReadError> {
        let manifest = source.beside.first().map_or(&source.path, |(path, _)| path);
        let is_lead = source.parent.is_none();
        let manifest = is_lead.then(|| Manifest::read(&source.root, manifest)).transpose();
        let mut reading = Reading::default();
        if source.format == MESSAGES {
            match read_messages(source, |message| reading.message(message)) {
                Ok(()) => {}
                // Half a session is better than none, as long as it says so.
                Err(ReadError::Format(_) | ReadError::Empty) if manifest.is_ok() => {
                    reading.digest.damage.broken += 1;
                }
                Err(error) => return Err(error),
            }
        }
        match manifest {
            Ok(Some(manifest)) => manifest.describe(&mut reading),
            Ok(None) => {}
            Err(_) if source.format == MESSAGES => reading.digest.damage.broken += 1,
            Err(error) => return Err(error),
        }
        Ok(reading.digest)
    }

    /// Positions count messages.
    fn converse(
        &self,
        source: &Source,
        from: u64,
        say: &mut dyn FnMut(Entry),
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

fn survey_session(survey: &mut Survey, directory: &Path, id: &str, database: Option<Stamp>) {
    let root = survey.root();
    let manifest = directory.join(format!("{id}.json"));
    let mut has_messages = false;
    for entry in survey.list(directory, |name| name.ends_with(".json")) {
        if entry.kind != EntryKind::File {
            continue;
        }
        let path = directory.join(&entry.name);
        match entry.stem(".messages.json") {
            Some(stem) if stem == id => {
                has_messages = true;
                let source = Source::file(id, &root, path, entry.stamp, MESSAGES);
                survey.found(source.beside(manifest.clone()));
            }
            Some(teammate) => {
                let name = format!("{id}/{teammate}");
                let source = Source::file(name, &root, path, entry.stamp, MESSAGES);
                survey.found(Source { parent: Some(id.to_owned()), ..source });
            }
            None if path == manifest => {}
            None => survey.extra(ExtraKind::Attachment, &entry, path, Some(id.to_owned())),
        }
    }
    let Some(stamp) = files::stamp(&manifest) else {
        return;
    };
    if !has_messages {
        survey.found(Source::file(id, &root, manifest.clone(), stamp, MANIFEST));
    }
    let registration = match Manifest::read(&root, &manifest) {
        Ok(read) => read.register(id, manifest, stamp, database),
        Err(error) => {
            survey.failed(&manifest, &error);
            Some(Registration {
                scope: Scope::Session(id.to_owned()),
                proof: Proof::Process { identity: Identity::recorded_by_agent(None), holds: None },
                source: manifest,
                activity: None,
                waiting_for: None,
                digest: Digest::default(),
            })
        }
    };
    survey.registrations.extend(registration);
}

/// `<id>.json`.
struct Manifest(serde_json::Value);

impl Manifest {
    fn read(root: &Path, path: &Path) -> Result<Self, ReadError> {
        let (value, _) = files::read_json::<serde_json::Value>(root, path)?;
        match value.get("session_id") {
            Some(_) => Ok(Self(value)),
            None => Err(ReadError::format("no session id in it")),
        }
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.0.pointer(pointer)?.as_str().filter(|text| !text.trim().is_empty())
    }

    fn time(&self, pointer: &str) -> Option<Time> {
        Time::parse(self.text(pointer)?)
    }

    /// When the session ended, if it says that it has.
    fn ended_at(&self) -> Option<Time> {
        let goes_on = matches!(self.text("/status"), Some("idle" | "running" | "pending"));
        self.time("/ended_at").filter(|_| !goes_on)
    }

    fn is_interactive(&self) -> bool {
        self.0.get("interactive") != Some(&serde_json::Value::Bool(false))
    }

    fn register(
        &self,
        id: &str,
        source: PathBuf,
        stamp: Stamp,
        database: Option<Stamp>,
    ) -> Option<Registration> {
        if self.ended_at().is_some() {
            return None;
        }
        let pid = self.0.get("pid").and_then(serde_json::Value::as_u64);
        let started_at = self.time("/started_at");
        let identity = Identity {
            recorded_at: started_at.or(Some(stamp.modified_at())),
            comm: Some("cline".to_owned()),
            ..Identity::recorded_by_agent(pid.and_then(|pid| u32::try_from(pid).ok()))
        };
        let activity = match self.text("/status") {
            Some("running") if !self.is_interactive() => Some(Activity::Working),
            Some("idle") => Some(Activity::Idle),
            _ => None,
        };
        Some(Registration {
            scope: Scope::Session(id.to_owned()),
            proof: Proof::Process { identity, holds: database },
            source,
            activity,
            waiting_for: None,
            digest: Digest {
                cwd: self.text("/cwd").map(str::to_owned),
                version: self.version(),
                started_at,
                ..Digest::default()
            },
        })
    }

    fn version(&self) -> Option<String> {
        self.text("/metadata/sessionHistoryOrigin/version").map(str::to_owned)
    }

    /// Adds to what was read of the messages.
    fn describe(&self, reading: &mut Reading) {
        let digest = &mut reading.digest;
        digest.cwd = self.text("/cwd").map(str::to_owned);
        digest.branch = self.text("/metadata/git/branch").map(str::to_owned);
        digest.version = self.version();
        digest.ended_at = self.ended_at();
        for time in [self.time("/started_at"), self.ended_at()].into_iter().flatten() {
            digest.saw(time);
        }
        // The first answer is still to come: the prompt stands only here.
        if digest.turns == 0
            && let Some(prompt) = self.text("/prompt")
        {
            digest.prompted(unwrap_input(prompt));
        }
        let title = self.text("/metadata/title").map(|title| shorten(unwrap_input(title).trim()));
        digest.title = title.filter(|title| digest.first_prompt.as_ref() != Some(title));
        digest.turn = match self.text("/status") {
            Some("running" | "pending") if self.is_interactive() => digest.turn.clone(),
            Some("running" | "pending") => Turn::Open,
            Some(_) => Turn::Closed,
            None => Turn::Unknown,
        };
        let usage = self.0.pointer("/metadata/usage");
        let cost = usage.and_then(|usage| usage.get("totalCost")?.as_f64());
        digest.cost_micro_usd = cost.map(|usd| (usd * 1e6).round() as u64);
        // Compaction drops messages from the document; the total keeps what they used.
        let total = usage.map(|usage| {
            let number = |field: &str| usage.get(field).and_then(serde_json::Value::as_u64);
            tokens(&|field| number(field))
        });
        let told = digest.tokens.unwrap_or_default();
        digest.tokens = total.filter(|total| total.output >= told.output).or(digest.tokens);
    }
}

/// Hands every message of the document to `each`.
fn read_messages(source: &Source, mut each: impl FnMut(Value<'_>)) -> Result<(), ReadError> {
    let (bytes, _) = files::read_document(&source.root, &source.path)?;
    if bytes.trim_ascii().is_empty() {
        return Err(ReadError::Empty);
    }
    let broken = |_: skim::Broken| ReadError::format("not the JSON it should be");
    let mut messages = None;
    for field in skim::object(&bytes).map_err(broken)? {
        let (key, value) = field.map_err(broken)?;
        if key == b"messages" {
            messages = value.array();
        }
    }
    let messages = messages.ok_or_else(|| ReadError::format("no messages in it"))?;
    for message in messages {
        each(message.map_err(broken)?);
    }
    Ok(())
}

/// What has been read of the messages so far.
#[derive(Default)]
struct Reading {
    digest: Digest,
    counted: HashSet<Vec<u8>>,
}

impl Reading {
    fn message(&mut self, message: Value<'_>) {
        if let Some(time) = message.get("ts").and_then(Value::time) {
            self.digest.saw(time);
        }
        let content = message.get("content");
        let has = |kind: &str| content.is_some_and(|content| has_block(content, kind));
        match message.get("role") {
            Some(role) if role.is("user") => {
                if has("tool_result") {
                    self.digest.turn = Turn::Open;
                    return;
                }
                let text = content.map(text_of).unwrap_or_default();
                self.digest.prompted(unwrap_input(&text));
            }
            Some(role) if role.is("assistant") => {
                if let Some(model) = message.at(&["modelInfo", "id"]).and_then(Value::str) {
                    self.digest.answered_by(&model);
                }
                let id = message.get("id").map_or(&b""[..], Value::raw);
                let is_new = id.is_empty() || self.counted.insert(id.to_vec());
                if let (true, Some(metrics)) = (is_new, message.get("metrics")) {
                    let number = |field: &str| metrics.get(field).and_then(Value::u64);
                    self.digest.spend(tokens(&number));
                }
                self.digest.turn = if has("tool_use") { Turn::Open } else { Turn::Closed };
            }
            _ => {}
        }
    }
}

/// Input includes what was cached.
fn tokens(number: &dyn Fn(&str) -> Option<u64>) -> Tokens {
    let number = |field| number(field).unwrap_or(0);
    let (cache_read, cache_write) = (number("cacheReadTokens"), number("cacheWriteTokens"));
    Tokens {
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

fn converse_message(message: Value<'_>, say: &mut dyn FnMut(Entry)) {
    let at = message.get("ts").and_then(Value::time);
    let speaker = match message.get("role") {
        Some(role) if role.is("assistant") => Role::Assistant,
        Some(role) if role.is("user") => Role::User,
        _ => Role::System,
    };
    let Some(content) = message.get("content") else {
        return;
    };
    let spoken = |text: String| Entry::new(at, speaker, unwrap_input(&text));
    blocks::tell(content, at, spoken, say);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(manifest: &str) -> Option<Option<u32>> {
        let manifest = Manifest(serde_json::from_str(manifest).unwrap());
        let registration = manifest.register("s", "/m".into(), Stamp::default(), None)?;
        let Proof::Process { identity, .. } = registration.proof else { panic!() };
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
        let answer = Value::new(br#"{"id":"m","role":"assistant","content":[],"metrics":{"inputTokens":100,"outputTokens":5,"cacheReadTokens":70,"cacheWriteTokens":20}}"#);
        let mut reading = Reading::default();
        reading.message(answer);
        reading.message(answer);
        let tokens = Tokens { input: 10, output: 5, cache_read: 70, cache_write: 20 };
        assert_eq!(reading.digest.tokens, Some(tokens));
    }

    #[test]
    fn a_prompt_is_taken_out_of_its_tag() {
        assert_eq!(unwrap_input(r#"<user_input mode="act">hi <b></user_input>"#), "hi <b>");
        assert_eq!(unwrap_input("<user_input"), "<user_input");
        assert_eq!(unwrap_input("plain"), "plain");
    }
}
