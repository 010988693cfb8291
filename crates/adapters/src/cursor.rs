//! Cursor's command line agent.
//!
//! Transcripts are `projects/<slug>/agent-transcripts/<id>/<id>.jsonl`, with sub-agents in
//! `<id>/subagents/`; older ones lie flat in `agent-transcripts/`. A line has a role and content
//! and neither time, model nor tokens. What there is of that stands in `chats/<hash>/<id>/`:
//! `meta.json` has the directory, and `store.db` a hex-encoded description (name, model, time of
//! creation) beside blobs that nobody outside can read. A chat without a transcript is still a
//! session. All of this is known from other people's readers, not from files of the real program.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use model::conversation::{Entry, Role};
use model::event::Happening;
use model::program::Program;
use model::session::FormatCertainty;
use model::sighting::{Digest, Turn, shorten};

use crate::files::{self, EntryKind, ReadError};
use crate::hooks::{Hooks, Meaning, Shape, Wiring};
use crate::skim::{self, Value};
use crate::{About, Adapter, Env, Opening, Source, Survey, database};

/// Cursor's command line agent.
#[derive(Debug)]
pub(crate) struct Cursor;

static ABOUT: About = About {
    id: "cursor",
    name: "Cursor CLI",
    version: 1,
    certainty: FormatCertainty::Documented,
    program: Program {
        names: &["cursor-agent"],
        packages: &["cursor-agent/versions"],
        servers: &[],
        helpers: &["login", "logout", "mcp", "status", "update", "upgrade", "worker"],
    },
    resume_options: &["--resume"],
    continue_options: &["--continue"],
    session_variables: &[],
    opening: Opening::ANYWHERE,
    hooks: Some(&Hooks {
        events: &[
            ("sessionStart", Meaning::Is(Happening::SessionStart)),
            ("beforeSubmitPrompt", Meaning::Prompt),
            ("postToolUse", Meaning::Is(Happening::Progress)),
            ("stop", Meaning::Is(Happening::TurnEnd)),
            ("sessionEnd", Meaning::Is(Happening::SessionEnd)),
        ],
        pid_variables: &[],
        wiring: Wiring {
            user: |env| Some(env.root("CURSOR_CONFIG_DIR", ".cursor").pop()?.join("hooks.json")),
            project: Some(|project| project.join(".cursor/hooks.json")),
            shape: Shape::Flat { command: "command", timeout: "timeout", typed: false },
            notify: None,
        },
    }),
    note: "transcripts and chat descriptions as other readers describe them; no tokens",
};

const TRANSCRIPT: &str = "cursor-jsonl";
const STORE: &str = "cursor-store";

impl Adapter for Cursor {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn roots(&self, env: &Env<'_>) -> Vec<PathBuf> {
        if let Some(root) = env.path("CURSOR_CONFIG_DIR") {
            return vec![root];
        }
        let xdg = env.path("XDG_CONFIG_HOME").map(|config| config.join("cursor"));
        env.in_home(".cursor").into_iter().chain(xdg).collect()
    }

    fn survey(&self, survey: &mut Survey) {
        let mut chats = list_chats(survey);
        let projects = survey.root().join("projects");
        for project in survey.list(&projects, |_| true) {
            if project.kind == EntryKind::Directory {
                let transcripts = projects.join(&project.name).join("agent-transcripts");
                survey_transcripts(survey, &transcripts, &mut chats);
            }
        }
        let root = survey.root();
        for (id, chat) in chats {
            let store = chat.join("store.db");
            if let Some(stamp) = files::stamp(&store) {
                let source = Source::file(id, &root, store, stamp, STORE);
                survey
                    .found(source.beside(chat.join("meta.json")).beside(chat.join("store.db-wal")));
            }
        }
    }

    fn digest(&self, source: &Source) -> Result<Digest, ReadError> {
        let mut reading = Reading::default();
        if source.format == STORE {
            describe(source, &source.path, &mut reading.digest)?;
        } else {
            let end = source.lines(0, |line| reading.line(line))?;
            reading.digest.damage.oversized = end.oversized;
        }
        for (path, _) in &source.beside {
            let read = match path.file_name().and_then(|name| name.to_str()) {
                Some("meta.json") => read_meta(source, path, &mut reading.digest),
                Some("store.db") => describe(source, path, &mut reading.digest),
                _ => continue,
            };
            // The conversation is there; only what describes it is not.
            reading.digest.damage.broken += u32::from(read.is_err());
        }
        Ok(reading.digest)
    }

    fn converse(
        &self,
        source: &Source,
        from: u64,
        say: &mut dyn FnMut(Entry),
    ) -> Result<u64, ReadError> {
        if source.format == STORE {
            return Ok(from);
        }
        Ok(source.lines(from, |line| converse_line(line, say))?.offset)
    }
}

/// `chats/<hash>/<id>`, by id.
fn list_chats(survey: &mut Survey) -> HashMap<String, PathBuf> {
    let chats = survey.root().join("chats");
    let mut found = HashMap::new();
    for workspace in survey.list(&chats, |_| true) {
        if workspace.kind == EntryKind::Directory {
            let workspace = chats.join(&workspace.name);
            for chat in survey.list(&workspace, |_| true) {
                if let (Some(id), EntryKind::Directory) = (chat.name.to_str(), chat.kind) {
                    found.insert(id.to_owned(), workspace.join(&chat.name));
                }
            }
        }
    }
    found
}

fn survey_transcripts(survey: &mut Survey, directory: &Path, chats: &mut HashMap<String, PathBuf>) {
    let is_transcript = |name: &str| name.ends_with(".jsonl");
    for entry in survey.list(directory, |_| true) {
        let path = directory.join(&entry.name);
        if entry.kind != EntryKind::Directory {
            note(survey, path, &entry, None, chats);
            continue;
        }
        let session = entry.name.to_str();
        for inner in survey.list(&path, is_transcript) {
            note(survey, path.join(&inner.name), &inner, None, chats);
        }
        let subagents = path.join("subagents");
        for inner in survey.list(&subagents, is_transcript) {
            note(survey, subagents.join(&inner.name), &inner, session, chats);
        }
    }
}

fn note(
    survey: &mut Survey,
    path: PathBuf,
    entry: &files::DirEntry,
    parent: Option<&str>,
    chats: &mut HashMap<String, PathBuf>,
) {
    let Some(id) = entry.stem(".jsonl").filter(|_| entry.kind == EntryKind::File) else {
        return;
    };
    let mut source = Source::file(id, &survey.root(), path, entry.stamp, TRANSCRIPT);
    source.parent = parent.map(str::to_owned);
    if let Some(chat) = chats.remove(id) {
        source = source
            .beside(chat.join("meta.json"))
            .beside(chat.join("store.db"))
            .beside(chat.join("store.db-wal"));
    }
    survey.found(source);
}

fn read_meta(source: &Source, path: &Path, digest: &mut Digest) -> Result<(), ReadError> {
    let (meta, _) = files::read_json::<serde_json::Value>(&source.root, path)?;
    digest.cwd = meta.get("cwd").and_then(|cwd| cwd.as_str()).map(str::to_owned);
    Ok(())
}

/// Reads the description of a chat from its store.
fn describe(source: &Source, path: &Path, digest: &mut Digest) -> Result<(), ReadError> {
    let connection = database::open(&source.root, path)?;
    if !database::has_column(&connection, "meta", "value")? {
        return Err(ReadError::format(
            "no table meta(key, value): an unknown version of the store",
        ));
    }
    let hex: String =
        connection.query_row("select value from meta where key = '0'", [], |row| row.get(0))?;
    let text =
        unhex(&hex).ok_or_else(|| ReadError::format("its description is not hexadecimal"))?;
    let description = Value::new(&text);
    let name = description.get("name").and_then(Value::string);
    digest.title = name.filter(|name| !is_placeholder(name)).map(|name| shorten(&name));
    if let Some(model) = description.get("lastUsedModel").and_then(Value::str) {
        digest.answered_by(&model);
    }
    digest.started_at = description.get("createdAt").and_then(Value::time);
    Ok(())
}

fn is_placeholder(name: &str) -> bool {
    ["", "New Agent", "New Chat"].contains(&name.trim())
}

fn unhex(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    };
    hex.trim().as_bytes().chunks(2).map(pair).collect()
}

#[derive(Default)]
struct Reading {
    digest: Digest,
}

impl Reading {
    fn line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match Line::read(line) {
            Ok(line) => self.record(&line),
            Err(skim::Broken) => self.digest.damage.broken += 1,
        }
    }

    fn record(&mut self, line: &Line<'_>) {
        if line.kind.is_some_and(|kind| kind.is("turn_ended")) {
            self.digest.turn = Turn::Closed;
        } else if line.speaks("user") {
            let text = unwrapped(&line.text());
            if text.is_empty() {
                self.digest.turn = Turn::Open;
            } else {
                self.digest.prompted(&text);
            }
        } else if line.speaks("assistant") {
            let is_call = |kind: Value<'_>| kind.is("tool_use");
            let calls = line.blocks().any(|block| block.get("type").is_some_and(is_call));
            self.digest.turn = if calls { Turn::Open } else { Turn::Closed };
        }
    }
}

/// The fields of a line that matter.
#[derive(Default)]
struct Line<'a> {
    role: Option<Value<'a>>,
    kind: Option<Value<'a>>,
    content: Option<Value<'a>>,
}

impl<'a> Line<'a> {
    fn read(line: &'a [u8]) -> Result<Self, skim::Broken> {
        let mut found = Self::default();
        for field in skim::object(line)? {
            let (key, value) = field?;
            match key {
                b"role" => found.role = Some(value),
                b"type" => found.kind = Some(value),
                b"message" => found.content = value.get("content"),
                _ => {}
            }
        }
        Ok(found)
    }

    fn speaks(&self, role: &str) -> bool {
        self.role.is_some_and(|value| value.is(role))
    }

    fn blocks(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        self.content.into_iter().flat_map(Value::elements)
    }

    fn text(&self) -> String {
        if let Some(text) = self.content.and_then(Value::string) {
            return text;
        }
        let texts = self.blocks().filter_map(|block| block.get("text")?.string());
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// What a person typed: the query, out of the context that the program wraps around it.
fn unwrapped(text: &str) -> String {
    let inside = text.split_once("<user_query>").map(|(_, rest)| rest);
    let query =
        inside.map(|rest| rest.split_once("</user_query>").map_or(rest, |(query, _)| query));
    query.unwrap_or(text).trim().to_owned()
}

fn converse_line(line: &[u8], say: &mut dyn FnMut(Entry)) {
    let Ok(line) = Line::read(line) else { return };
    if line.speaks("user") {
        let text = unwrapped(&line.text());
        if !text.is_empty() {
            say(Entry::new(None, Role::User, text));
        }
    } else if line.speaks("assistant") {
        if let Some(text) = line.content.and_then(Value::string) {
            say(Entry::new(None, Role::Assistant, text));
        }
    } else {
        return;
    }
    for block in line.blocks() {
        let text = |name| block.get(name).and_then(Value::string).unwrap_or_default();
        match text("type").as_str() {
            "text" if line.speaks("assistant") => {
                say(Entry::new(None, Role::Assistant, text("text")));
            }
            "tool_use" => {
                let input = block.get("input").map_or(&b""[..], Value::raw);
                say(Entry::tool(None, text("name"), String::from_utf8_lossy(input)));
            }
            "tool_result" => say(Entry::new(None, Role::Result, text("content"))),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_is_taken_out_of_its_wrapping() {
        let wrapped =
            "<timestamp>Monday</timestamp>\n<user_query>\nfix it\n</user_query>\n<context>x";
        assert_eq!(unwrapped(wrapped), "fix it");
        assert_eq!(unwrapped(" plain "), "plain");
        assert_eq!(unwrapped("<user_query>cut off"), "cut off");
    }

    #[test]
    fn hexadecimal_is_read_or_refused() {
        assert_eq!(unhex("7b7d"), Some(b"{}".to_vec()));
        assert_eq!(unhex("7b7"), None);
        assert_eq!(unhex("zz"), None);
    }
}
