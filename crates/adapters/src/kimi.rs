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

use model::conversation::{Entry, Role};
use model::event::Happening;
use model::program::Program;
use model::session::FormatCertainty;
use model::sighting::{Digest, Tokens, Turn, shorten};

use crate::blocks::text_of;
use crate::files::{EntryKind, ReadError};
use crate::hooks::{Hooks, Meaning, Shape, Wiring};
use crate::skim::{self, Value};
use crate::{About, Adapter, Env, ExtraKind, Opening, Source, Survey, files};

/// Kimi Code.
#[derive(Debug)]
pub(crate) struct Kimi;

static ABOUT: About = About {
    id: "kimi",
    name: "Kimi Code",
    version: 1,
    certainty: FormatCertainty::Lab,
    program: Program {
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
    hooks: Some(&Hooks {
        events: &[
            ("SessionStart", Meaning::Is(Happening::SessionStart)),
            ("UserPromptSubmit", Meaning::Prompt),
            ("PreToolUse", Meaning::Is(Happening::Progress)),
            ("PostToolUse", Meaning::Is(Happening::Progress)),
            ("Stop", Meaning::Is(Happening::TurnEnd)),
            ("SessionEnd", Meaning::Is(Happening::SessionEnd)),
        ],
        pid_variables: &[],
        wiring: Wiring {
            user: |env| Some(env.root("KIMI_CODE_HOME", ".kimi-code").pop()?.join("config.toml")),
            project: None,
            shape: Shape::Tables,
            notify: None,
        },
    }),
    note: "sessions of 2.1.0; those of the older kimi-cli (~/.kimi) are not read",
};

const WIRE: &str = "kimi-wire";
/// A session that has said nothing yet.
const STATE: &str = "kimi-state";

impl Adapter for Kimi {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn roots(&self, env: &Env<'_>) -> Vec<PathBuf> {
        env.root("KIMI_CODE_HOME", ".kimi-code")
    }

    fn survey(&self, survey: &mut Survey) {
        let sessions = survey.root().join("sessions");
        for workspace in survey.list(&sessions, |name| name.starts_with("wd_")) {
            if workspace.kind != EntryKind::Directory || !starts_with(&workspace, "wd_") {
                continue;
            }
            let workspace = sessions.join(&workspace.name);
            for session in survey.list(&workspace, |name| name.starts_with("session_")) {
                let path = workspace.join(&session.name);
                if let (EntryKind::Directory, Some(id)) = (session.kind, session.name.to_str()) {
                    survey_session(survey, &path, id);
                }
            }
        }
    }

    fn digest(&self, source: &Source) -> Result<Digest, ReadError> {
        if source.format == STATE {
            let mut digest = Digest::default();
            describe(&mut digest, source, &source.path)?;
            return Ok(digest);
        }
        let mut reading = Reading::default();
        let end = source.lines(0, |line| reading.line(line))?;
        reading.digest.damage.oversized = end.oversized;
        let mut digest = reading.digest;
        for (path, _) in &source.beside {
            if describe(&mut digest, source, path).is_err() {
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
        if source.format == STATE {
            return Ok(0);
        }
        Ok(source.lines(from, |line| converse_line(line, say))?.offset)
    }
}

fn starts_with(entry: &files::DirEntry, prefix: &str) -> bool {
    entry.name.to_str().is_some_and(|name| name.starts_with(prefix))
}

/// `session_<uuid>/`.
fn survey_session(survey: &mut Survey, directory: &Path, id: &str) {
    let root = survey.root();
    let state = directory.join("state.json");
    let mut has_wire = false;
    let agents = directory.join("agents");
    for agent in survey.list(&agents, |_| true) {
        let Some(name) = agent.name.to_str().filter(|_| agent.kind == EntryKind::Directory) else {
            continue;
        };
        let path = agents.join(name).join("wire.jsonl");
        let Some(stamp) = files::stamp(&path) else {
            continue;
        };
        if name == "main" {
            has_wire = true;
            let source = Source::file(id, &root, path, stamp, WIRE);
            survey.found(source.beside(state.clone()));
        } else {
            // Names of sub-agents are numbers within their session.
            let source = Source::file(format!("{id}/{name}"), &root, path, stamp, WIRE);
            survey.found(Source { parent: Some(id.to_owned()), ..source });
        }
    }
    if let (false, Some(stamp)) = (has_wire, files::stamp(&state)) {
        survey.found(Source::file(id, &root, state, stamp, STATE));
    }
    let logs = directory.join("logs");
    for log in survey.list(&logs, |_| false) {
        if log.kind == EntryKind::File {
            survey.extra(ExtraKind::Attachment, &log, logs.join(&log.name), Some(id.to_owned()));
        }
    }
}

/// Adds what `state.json` says to a digest.
fn describe(digest: &mut Digest, source: &Source, path: &Path) -> Result<(), ReadError> {
    let (state, _) = files::read_json::<serde_json::Value>(&source.root, path)?;
    let text = |field: &str| state.get(field).and_then(serde_json::Value::as_str);
    digest.cwd = text("cwd").map(str::to_owned);
    let by_hand = state.get("isCustomTitle") == Some(&serde_json::Value::Bool(true));
    let title = text("title").map(|title| shorten(title.trim()));
    digest.title = title.filter(|title| {
        let is_prompt = digest.first_prompt.as_ref() == Some(title);
        !title.is_empty() && (by_hand || !is_prompt)
    });
    for field in ["createdAt", "updatedAt"] {
        if let Some(millis) = state.get(field).and_then(serde_json::Value::as_i64) {
            digest.saw(model::time::Time::from_millis(millis));
        }
    }
    Ok(())
}

/// What has been read of a wire so far.
#[derive(Default)]
struct Reading {
    digest: Digest,
    /// The model of the request under way; usage names only its alias.
    asked: Option<String>,
}

/// The kind of a line and when it was written.
fn head(line: &[u8]) -> Result<(Value<'_>, Option<Value<'_>>), skim::Broken> {
    let (mut kind, mut time) = (None, None);
    for field in skim::object(line)? {
        let (key, value) = field?;
        match key {
            b"type" => kind = Some(value),
            b"time" | b"created_at" => time = Some(value),
            _ => {}
        }
    }
    Ok((kind.ok_or(skim::Broken)?, time))
}

/// Whether a person is the origin of a prompt or message.
fn is_typed(line: Value<'_>) -> bool {
    line.at(&["origin", "kind"]).is_none_or(|kind| kind.is("user"))
}

impl Reading {
    fn line(&mut self, line: &[u8]) {
        if !line.trim_ascii().is_empty() && self.try_line(line).is_err() {
            self.digest.damage.broken += 1;
        }
    }

    fn try_line(&mut self, raw: &[u8]) -> Result<(), skim::Broken> {
        let (kind, time) = head(raw)?;
        if let Some(time) = time.and_then(Value::time) {
            self.digest.saw(time);
        }
        let line = Value::new(raw);
        match kind.raw() {
            br#""turn.prompt""# => {
                let text = line.get("input").map(text_of).unwrap_or_default();
                if is_typed(line) {
                    self.digest.prompted(&text);
                } else {
                    self.digest.turn = Turn::Open;
                }
            }
            br#""agent.turn.started""# => self.digest.turn = Turn::Open,
            br#""agent.turn.ended""# | br#""turn.ended""# => self.digest.turn = Turn::Closed,
            br#""llm.request""# => self.asked = line.get("model").and_then(Value::string),
            br#""usage.record""# => {
                if let Some(usage) = line.get("usage") {
                    self.digest.spend(tokens_of(usage));
                }
                let alias = || line.get("model").and_then(Value::string);
                if let Some(model) = self.asked.take().or_else(alias) {
                    self.digest.answered_by(&model);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Input is counted without what was cached.
fn tokens_of(usage: Value<'_>) -> Tokens {
    let number = |field| usage.get(field).and_then(Value::u64).unwrap_or(0);
    Tokens {
        input: number("inputOther"),
        output: number("output"),
        cache_read: number("inputCacheRead"),
        cache_write: number("inputCacheCreation"),
    }
}

fn converse_line(raw: &[u8], say: &mut dyn FnMut(Entry)) {
    let Ok((kind, time)) = head(raw) else { return };
    let at = time.and_then(Value::time);
    let line = Value::new(raw);
    if kind.is("context.append_message") {
        let Some(message) = line.get("message") else {
            return;
        };
        let role = match message.get("role") {
            Some(role) if role.is("assistant") => Role::Assistant,
            Some(role) if role.is("user") && is_typed(message) => Role::User,
            _ => Role::System,
        };
        let text = message.get("content").map(text_of).unwrap_or_default();
        say(Entry::new(at, role, text));
    } else if kind.is("context.append_loop_event") {
        let Some(event) = line.get("event") else {
            return;
        };
        let text = |path: &[&str]| event.at(path).map(text_of).unwrap_or_default();
        match text(&["type"]).as_str() {
            "content.part" if text(&["part", "type"]) == "text" => {
                say(Entry::new(at, Role::Assistant, text(&["part", "text"])));
            }
            "tool.call" => {
                let input = event.get("args").map_or(&b""[..], Value::raw);
                say(Entry::tool(at, text(&["name"]), String::from_utf8_lossy(input)));
            }
            "tool.result" => say(Entry::new(at, Role::Result, text(&["result", "output"]))),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(lines: &[&str]) -> Digest {
        let mut reading = Reading::default();
        for line in lines {
            reading.line(line.as_bytes());
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
        let tokens = Tokens { input: 5, output: 2, cache_read: 7, cache_write: 1 };
        assert_eq!((read.tokens, read.model.as_deref()), (Some(tokens), Some("k3")));
    }

    #[test]
    fn a_turn_that_nobody_asked_for_is_open_but_no_prompt() {
        let read = digest(&[
            r#"{"type":"turn.prompt","input":[{"type":"text","text":"go on"}],"origin":{"kind":"hook"}}"#,
        ]);
        assert_eq!((read.turns, read.turn, read.first_prompt), (0, Turn::Open, None));
    }
}
