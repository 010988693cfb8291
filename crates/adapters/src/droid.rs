//! Factory Droid.
//!
//! A session is `sessions/<slug>/<id>.jsonl` with `<id>.settings.json` beside it; old sessions lie
//! directly in `sessions/`. Nothing on disk names the process, and the transcript is not kept open.
//!
//! Traps: token usage stands only in the settings, as totals (input without cached tokens, output
//! with reasoning); hooks and the environment are written as messages of the user; the version in
//! the first line is that of the format; a turn ends with a line that has no time.

use std::path::{Path, PathBuf};

use model::conversation::{Entry, Role};
use model::event::Happening;
use model::program::Program;
use model::session::FormatCertainty;
use model::sighting::{Digest, Tokens, Turn, shorten};

use crate::blocks::{self, has_block};
use crate::files::{EntryKind, ReadError};
use crate::hooks::{Hooks, Meaning, Shape, Wiring};
use crate::skim::{self, Value};
use crate::{About, Adapter, Env, ExtraKind, Opening, Source, Survey, files};

/// Factory Droid.
#[derive(Debug)]
pub(crate) struct Droid;

static ABOUT: About = About {
    id: "droid",
    name: "Factory Droid",
    version: 1,
    certainty: FormatCertainty::Lab,
    program: Program {
        names: &["droid"],
        packages: &["droid/bin", "@factory/cli"],
        servers: &[],
        helpers: &["help", "mcp", "plugin", "update"],
    },
    resume_options: &["--resume", "-r", "--session-id", "-s"],
    continue_options: &[],
    session_variables: &[],
    opening: Opening::ANYWHERE,
    hooks: Some(&Hooks {
        events: &[
            ("SessionStart", Meaning::Is(Happening::SessionStart)),
            ("UserPromptSubmit", Meaning::Prompt),
            ("Notification", Meaning::Notification),
            ("PreToolUse", Meaning::Is(Happening::Progress)),
            ("PostToolUse", Meaning::Is(Happening::Progress)),
            ("PreCompact", Meaning::Is(Happening::Compaction)),
            ("SubagentStop", Meaning::Is(Happening::Sign)),
            ("Stop", Meaning::Is(Happening::TurnEnd)),
            ("SessionEnd", Meaning::Is(Happening::SessionEnd)),
        ],
        pid_variables: &[],
        wiring: Wiring {
            user: |env| Some(hooks_file(&home(env)?.join(".factory"))),
            project: Some(|project| hooks_file(&project.join(".factory"))),
            shape: Shape::Groups { per_second: 1 },
            notify: None,
        },
    }),
    note: "headless sessions of 0.215.0; its terminal interface could not be run",
};

const FORMAT: &str = "droid-jsonl";

fn home(env: &Env<'_>) -> Option<PathBuf> {
    env.path("FACTORY_HOME_OVERRIDE").or_else(|| env.home())
}

/// Hooks stand in a file of their own, or else among the settings. The former would hide the
/// latter, so it is used only where it is there already.
fn hooks_file(directory: &Path) -> PathBuf {
    let own = directory.join("hooks.json");
    if own.exists() { own } else { directory.join("settings.json") }
}

impl Adapter for Droid {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn roots(&self, env: &Env<'_>) -> Vec<PathBuf> {
        home(env).map(|home| home.join(".factory")).into_iter().collect()
    }

    fn survey(&self, survey: &mut Survey) {
        let sessions = survey.root().join("sessions");
        survey_directory(survey, &sessions, 2);
    }

    fn digest(&self, source: &Source) -> Result<Digest, ReadError> {
        let mut reading = Reading::default();
        let end = source.lines(0, |line| reading.line(line))?;
        reading.digest.damage.oversized = end.oversized;
        let mut digest = reading.finish();
        for (path, _) in &source.beside {
            let settings = files::read_small(&source.root, path).map(|(bytes, _)| bytes);
            let whole = settings.as_deref().is_ok_and(|bytes| {
                skim::object(bytes).is_ok_and(|mut fields| fields.all(|field| field.is_ok()))
            });
            if let (true, Ok(bytes)) = (whole, &settings) {
                digest.tokens = Value::new(bytes).get("tokenUsage").map(tokens_of);
            } else {
                digest.damage.broken += 1;
            }
        }
        Ok(digest)
    }

    fn converse(
        &self,
        source: &Source,
        from: u64,
        say: &mut dyn FnMut(Entry),
    ) -> Result<u64, ReadError> {
        Ok(source.lines(from, |line| converse_line(line, say))?.offset)
    }
}

fn survey_directory(survey: &mut Survey, directory: &Path, depth: usize) {
    let root = survey.root();
    for entry in survey.list(directory, |name| depth > 0 || name.ends_with(".jsonl")) {
        let path = directory.join(&entry.name);
        match entry.kind {
            EntryKind::Directory if depth > 0 => survey_directory(survey, &path, depth - 1),
            EntryKind::File => {
                if let Some(id) = entry.stem(".jsonl") {
                    let settings = directory.join(format!("{id}.settings.json"));
                    let source = Source::file(id, &root, path, entry.stamp, FORMAT);
                    survey.found(source.beside(settings));
                } else if let Some((id, _)) = entry.name.to_str().and_then(|n| n.split_once('.')) {
                    survey.extra(ExtraKind::Attachment, &entry, path, Some(id.to_owned()));
                }
            }
            _ => {}
        }
    }
}

/// What has been read of a transcript so far.
#[derive(Default)]
struct Reading {
    digest: Digest,
    title: Option<String>,
    titled_by_hand: bool,
    last_time: Vec<u8>,
}

impl Reading {
    fn line(&mut self, line: &[u8]) {
        if !line.trim_ascii().is_empty() && self.try_line(line).is_err() {
            self.digest.damage.broken += 1;
        }
    }

    fn try_line(&mut self, raw: &[u8]) -> Result<(), skim::Broken> {
        let (mut kind, mut timestamp, mut message) = (None, None, None);
        for field in skim::object(raw)? {
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
                && let Some(time) = timestamp.time()
            {
                self.digest.saw(time);
            }
            self.last_time.clear();
            self.last_time.extend_from_slice(timestamp.raw());
        }
        let kind = kind.ok_or(skim::Broken)?;
        if kind.is("session_start") {
            self.start(Value::new(raw));
        } else if kind.is("agent_turn_outcome") {
            self.digest.turn = Turn::Closed;
        } else if let (true, Some(message)) = (kind.is("message"), message) {
            self.message(message, timestamp);
        }
        Ok(())
    }

    fn start(&mut self, line: Value<'_>) {
        let text = |field| line.get(field).and_then(Value::string);
        self.digest.cwd = text("cwd");
        // A fork (`parent`) is a session of its own; what a session called belongs to it.
        self.digest.parent = text("callingSessionId");
        self.titled_by_hand =
            line.get("isSessionTitleManuallySet").and_then(Value::bool) == Some(true);
        self.title = text("sessionTitle").or_else(|| text("title"));
    }

    fn message(&mut self, message: Value<'_>, timestamp: Option<Value<'_>>) {
        let is = |field, text| message.get(field).is_some_and(|value: Value<'_>| value.is(text));
        if let Some(hook) = message.get("hookEventName") {
            let ended = hook.is("SessionEnd");
            self.digest.ended_at = timestamp.and_then(Value::time).filter(|_| ended);
            return;
        }
        self.digest.ended_at = None;
        let content = message.get("content");
        if is("role", "assistant") {
            if let Some(model) = message.get("modelId").and_then(Value::str) {
                self.digest.answered_by(&model);
            }
            // Versions without `agent_turn_outcome` do not say which answer is the last one.
            let asks = content.is_some_and(|content| has_block(content, "tool_use"));
            self.digest.turn = if asks { Turn::Open } else { Turn::Unknown };
        } else if is("role", "user") {
            let Some(content) = content else { return };
            if has_block(content, "tool_result") {
                self.digest.turn = Turn::Open;
                return;
            }
            let prompt = prompt_of(content);
            if !prompt.is_empty() {
                self.digest.prompted(&prompt);
            }
        }
    }

    fn finish(mut self) -> Digest {
        if let Some(last) = Value::new(&self.last_time).time() {
            self.digest.saw(last);
        }
        let title = self.title.map(|title| shorten(title.trim()));
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
fn tokens_of(usage: Value<'_>) -> Tokens {
    let number = |field| usage.get(field).and_then(Value::u64).unwrap_or(0);
    Tokens {
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
fn prompt_of(content: Value<'_>) -> String {
    if let Some(text) = content.string() {
        return if is_reminder(&text) { String::new() } else { text };
    }
    let texts = content.elements().filter_map(|block| block.get("text")?.string());
    texts.filter(|text| !is_reminder(text)).collect::<Vec<_>>().join("\n")
}

fn converse_line(raw: &[u8], say: &mut dyn FnMut(Entry)) {
    let line = Value::new(raw);
    let Some(message) = line.get("message") else {
        return;
    };
    let at = line.get("timestamp").and_then(Value::time);
    let speaker = match message.get("role") {
        Some(role) if role.is("assistant") => Role::Assistant,
        Some(role) if role.is("user") => Role::User,
        _ => Role::System,
    };
    let spoken = |text: String| {
        let role = if is_reminder(&text) { Role::System } else { speaker };
        Entry::new(at, role, text)
    };
    let Some(content) = message.get("content") else {
        return;
    };
    blocks::tell(content, at, spoken, say);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(lines: &[&str]) -> Digest {
        let mut reading = Reading::default();
        for line in lines {
            reading.line(line.as_bytes());
        }
        reading.finish()
    }

    fn start(more: &str) -> String {
        format!(r#"{{"type":"session_start","id":"s","title":"fix it"{more}}}"#)
    }

    const PROMPT: &str = r#"{"type":"message","message":{"role":"user","content":[{"type":"text","text":"<system-reminder>x"},{"type":"text","text":"fix it"}]}}"#;

    #[test]
    fn a_prompt_is_what_is_left_without_reminders_and_is_no_title() {
        let read = digest(&[&start(""), PROMPT]);
        assert_eq!((read.first_prompt.as_deref(), read.title), (Some("fix it"), None));
        assert_eq!((read.turns, read.turn), (1, Turn::Open));
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
        assert_eq!(digest(&[PROMPT, answer]).turn, Turn::Unknown);
        assert_eq!(digest(&[PROMPT, answer, outcome]).turn, Turn::Closed);
        assert_eq!(digest(&[PROMPT, answer, outcome, PROMPT]).turn, Turn::Open);
    }
}
