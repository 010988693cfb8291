//! Pi.
//!
//! Transcripts are `sessions/--<directory>--/<time>_<id>.jsonl`: a header, then entries that form
//! a tree through `parentId`, so one file may hold several branches. What was asked and paid for
//! on a branch that was left still happened; where the session stands is what was written last.
//! A file appears with the first answer or a little before, is not kept open, and no process is
//! written down: the program overwrites even its own arguments.

use std::path::{Path, PathBuf};

use model::conversation::{Entry, Role};
use model::event::Happening;
use model::program::Program;
use model::session::FormatCertainty;
use model::sighting::{Digest, Tokens, Turn, shorten};
use model::time::Time;

use crate::blocks::text_of;
use crate::files::{EntryKind, ReadError};
use crate::hooks::{Hooks, Meaning, Shape, Wiring};
use crate::skim::{self, Value};
use crate::{About, Adapter, Env, Opening, Source, Survey};

/// Pi.
#[derive(Debug)]
pub(crate) struct Pi;

static ABOUT: About = About {
    id: "pi",
    name: "Pi",
    version: 1,
    certainty: FormatCertainty::Lab,
    program: Program {
        names: &["pi"],
        packages: &["@mariozechner/pi-coding-agent", "@earendil-works/pi-coding-agent"],
        servers: &[],
        helpers: &["install", "remove", "uninstall", "update", "list", "config"],
    },
    resume_options: &["--session", "--session-id", "--resume", "-r"],
    continue_options: &["--continue", "-c"],
    session_variables: &[],
    opening: Opening::ANYWHERE,
    hooks: Some(&Hooks {
        events: &[
            ("session-start", Meaning::Is(Happening::SessionStart)),
            ("turn-start", Meaning::Prompt),
            ("progress", Meaning::Is(Happening::Progress)),
            ("turn-end", Meaning::Is(Happening::TurnEnd)),
            ("session-end", Meaning::Is(Happening::SessionEnd)),
        ],
        pid_variables: &[],
        wiring: Wiring {
            user: |env| {
                Some(
                    env.root("PI_CODING_AGENT_DIR", ".pi/agent")
                        .pop()?
                        .join("extensions/ostler.ts"),
                )
            },
            project: Some(|project| project.join(".pi/extensions/ostler.ts")),
            shape: Shape::Script { template: include_str!("../scripts/pi.ts") },
            notify: None,
        },
    }),
    note: "transcripts of 0.73.1; forks, compaction and names from its documentation",
};

const FORMAT: &str = "pi-jsonl";

impl Adapter for Pi {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn roots(&self, env: &Env<'_>) -> Vec<PathBuf> {
        let mut roots = env.root("PI_CODING_AGENT_DIR", ".pi/agent");
        // Sessions alone may live elsewhere.
        if let Some(sessions) = env.path("PI_CODING_AGENT_SESSION_DIR")
            && !roots.iter().any(|root| sessions.starts_with(root))
        {
            roots.push(sessions);
        }
        roots
    }

    fn survey(&self, survey: &mut Survey) {
        let root = survey.root();
        // A directory for sessions alone holds files, or directories of files.
        survey_sessions(survey, &root, |name| name == "sessions" || name.starts_with("--"));
        survey_sessions(survey, &root.join("sessions"), |_| true);
    }

    fn digest(&self, source: &Source) -> Result<Digest, ReadError> {
        let mut reading = Reading::default();
        let end = source.lines(0, |line| reading.line(line))?;
        reading.digest.damage.oversized = end.oversized;
        Ok(reading.finish())
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

/// Transcripts in a directory and in those of its directories that `holds_sessions`.
fn survey_sessions(survey: &mut Survey, directory: &Path, holds_sessions: fn(&str) -> bool) {
    let is_transcript = |name: &str| name.ends_with(".jsonl");
    for entry in survey.list(directory, |name| is_transcript(name) || holds_sessions(name)) {
        let path = directory.join(&entry.name);
        if entry.kind == EntryKind::Directory
            && entry.name != "sessions"
            && entry.name.to_str().is_none_or(holds_sessions)
        {
            for inner in survey.list(&path, is_transcript) {
                note(survey, path.join(&inner.name), &inner);
            }
        } else {
            note(survey, path, &entry);
        }
    }
}

fn note(survey: &mut Survey, path: PathBuf, entry: &crate::files::DirEntry) {
    if let Some(stem) = entry.stem(".jsonl").filter(|_| entry.kind == EntryKind::File) {
        let root = survey.root();
        survey.found(Source::file(id_of(stem), &root, path, entry.stamp, FORMAT));
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
    timestamp: Option<Value<'a>>,
    message: Option<Value<'a>>,
    cwd: Option<Value<'a>>,
    parent: Option<Value<'a>>,
    name: Option<Value<'a>>,
    model: Option<Value<'a>>,
    usage: Option<Value<'a>>,
    summary: Option<Value<'a>>,
    content: Option<Value<'a>>,
}

impl<'a> Line<'a> {
    fn read(line: &'a [u8]) -> Result<Self, skim::Broken> {
        let mut found = Self::default();
        for field in skim::object(line)? {
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
    digest: Digest,
    dollars: Option<f64>,
    /// The model that was chosen, which answers only once it is asked.
    chosen: Option<String>,
}

impl Reading {
    fn line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match Line::read(line) {
            Ok(line) => self.entry(&line),
            Err(skim::Broken) => self.digest.damage.broken += 1,
        }
    }

    fn entry(&mut self, line: &Line<'_>) {
        if let Some(time) = line.timestamp.and_then(Value::time) {
            self.digest.saw(time);
        }
        match line.kind {
            br#""session""# => {
                self.digest.cwd = line.cwd.and_then(Value::string);
                let parent = line.parent.and_then(Value::string);
                self.digest.parent = parent.as_deref().and_then(|path| {
                    let stem = Path::new(path).file_stem()?.to_str()?;
                    Some(id_of(stem).to_owned())
                });
                self.chosen = line.model.and_then(Value::string);
            }
            br#""message""# => {
                if let Some(message) = line.message {
                    self.message(message);
                }
            }
            br#""model_change""# => self.chosen = line.model.and_then(Value::string),
            br#""session_info""# => {
                let name = line.name.and_then(Value::string);
                self.digest.title =
                    name.filter(|name| !name.trim().is_empty()).map(|n| shorten(&n));
            }
            _ => {}
        }
        // Summaries of a branch or of old context cost a request of their own.
        if let Some(usage) = line.usage {
            self.spend(usage);
        }
    }

    fn message(&mut self, message: Value<'_>) {
        let Some(fields) = message.object() else {
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
            self.spend(usage);
        }
        match role.map_or(&b""[..], Value::raw) {
            br#""user""# => {
                let text = content.map(text_of).unwrap_or_default();
                self.digest.prompted(&text);
            }
            br#""toolResult""# => self.digest.turn = Turn::Open,
            br#""assistant""# => {
                if let Some(model) = model.and_then(Value::str) {
                    self.digest.answered_by(&model);
                }
                let goes_on = stop.is_none_or(|stop| stop.is("toolUse") || stop.is("pending"));
                self.digest.turn = if goes_on { Turn::Open } else { Turn::Closed };
            }
            _ => {}
        }
    }

    fn spend(&mut self, usage: Value<'_>) {
        let Some(fields) = usage.object() else { return };
        let mut tokens = Tokens::default();
        for (key, value) in fields.flatten() {
            let slot = match key {
                b"input" => &mut tokens.input,
                b"output" => &mut tokens.output,
                b"cacheRead" => &mut tokens.cache_read,
                b"cacheWrite" => &mut tokens.cache_write,
                b"cost" => {
                    if let Some(total) = value.get("total").and_then(Value::f64) {
                        *self.dollars.get_or_insert(0.0) += total;
                    }
                    continue;
                }
                _ => continue,
            };
            *slot = value.u64().unwrap_or(0);
        }
        self.digest.spend(tokens);
    }

    fn finish(mut self) -> Digest {
        self.digest.cost_micro_usd = self.dollars.map(|usd| (usd * 1e6).round() as u64);
        if self.digest.model.is_none() {
            self.digest.model = self.chosen;
        }
        self.digest
    }
}

fn converse_line(line: &[u8], say: &mut dyn FnMut(Entry)) {
    let Ok(line) = Line::read(line) else { return };
    let at = line.timestamp.and_then(Value::time);
    match (line.kind, line.message) {
        (br#""message""#, Some(message)) => converse_message(message, at, say),
        (br#""custom_message""#, _) => {
            let text = line.content.map(text_of).unwrap_or_default();
            say(Entry::new(at, Role::System, text));
        }
        (br#""compaction""# | br#""branch_summary""#, _) => {
            let text = line.summary.and_then(Value::string).unwrap_or_default();
            say(Entry::new(at, Role::System, text));
        }
        _ => {}
    }
}

fn converse_message(message: Value<'_>, at: Option<Time>, say: &mut dyn FnMut(Entry)) {
    let text = |name| message.get(name).and_then(Value::string).unwrap_or_default();
    let content = message.get("content");
    match text("role").as_str() {
        "user" => say(Entry::new(at, Role::User, content.map(text_of).unwrap_or_default())),
        "toolResult" => say(Entry::new(at, Role::Result, content.map(text_of).unwrap_or_default())),
        "bashExecution" => {
            say(Entry::tool(at, "bash", text("command")));
            say(Entry::new(at, Role::Result, text("output")));
        }
        "assistant" => {
            for block in content.into_iter().flat_map(Value::elements) {
                let field = |name| block.get(name).and_then(Value::string).unwrap_or_default();
                match field("type").as_str() {
                    "text" => say(Entry::new(at, Role::Assistant, field("text"))),
                    "toolCall" => {
                        let input = block.get("arguments").map_or(&b""[..], Value::raw);
                        say(Entry::tool(at, field("name"), String::from_utf8_lossy(input)));
                    }
                    _ => {}
                }
            }
            let error = text("errorMessage");
            if !error.is_empty() {
                say(Entry::new(at, Role::System, error));
            }
        }
        _ => {}
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
        reading.finish()
    }

    const ANSWER: &str = r#"{"type":"message","id":"2","parentId":"1","timestamp":"2026-01-02T03:04:05.000Z","message":{"role":"assistant","content":[{"type":"text","text":"hi"}],"model":"m","usage":{"input":10,"output":2,"cacheRead":5,"cacheWrite":1,"cost":{"total":0.0000015}},"stopReason":"stop"}}"#;

    #[test]
    fn every_branch_and_summary_is_paid_for() {
        let summary = r#"{"type":"branch_summary","id":"3","parentId":"1","summary":"s","usage":{"input":3,"output":4,"cost":{"total":0.000001}}}"#;
        let other = ANSWER.replace(r#""id":"2""#, r#""id":"4""#);
        let read = digest(&[ANSWER, summary, &other]);
        let tokens = Tokens { input: 23, output: 8, cache_read: 10, cache_write: 2 };
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
        assert_eq!(stop(r#""stop""#), Turn::Closed);
        assert_eq!(stop(r#""aborted""#), Turn::Closed);
        assert_eq!(stop(r#""toolUse""#), Turn::Open);
        let shell = r#"{"type":"message","id":"9","message":{"role":"bashExecution","command":"ls","output":"x"}}"#;
        let read = digest(&[ANSWER, shell]);
        assert_eq!((read.turn, read.turns), (Turn::Closed, 0));
    }
}
