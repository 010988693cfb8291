//! Qwen Code.
//!
//! Transcripts are `projects/<slug>/chats/<session>.jsonl`, append-only; sub-agents write to
//! `projects/<slug>/subagents/<session>/agent-<id>.jsonl`, and those that keep no transcript still
//! leave their usage as telemetry in the session's. An interactive process registers itself in
//! `sessions/<pid>.json` with boot, start and namespace, and removes it on exit; beside the
//! transcript it also leaves `<session>.runtime.json` with nothing but a pid, and never removes
//! that. A registration holds a token of its message socket: it is a secret and is not read.

use std::path::{Path, PathBuf};

use model::conversation::{Entry, Role};
use model::event::Happening;
use model::program::Program;
use model::session::FormatCertainty;
use model::sighting::{Digest, Tokens, Turn, shorten};

use crate::files::{EntryKind, ReadError};
use crate::hooks::{Hooks, Meaning, Shape, Wiring};
use crate::skim::{self, Value};
use crate::{About, Adapter, Env, ExtraKind, Opening, Source, Survey};

mod registrations;

/// Qwen Code.
#[derive(Debug)]
pub(crate) struct Qwen;

static ABOUT: About = About {
    id: "qwen",
    name: "Qwen Code",
    version: 1,
    certainty: FormatCertainty::Lab,
    program: Program {
        names: &["qwen"],
        packages: &["@qwen-code/qwen-code"],
        servers: &[],
        helpers: &["mcp", "extensions", "auth", "hooks", "channel", "serve", "sessions", "review"],
    },
    resume_options: &["--resume", "-r", "--session-id"],
    continue_options: &["--continue", "-c"],
    session_variables: &[],
    opening: Opening::IN_DIRECTORY,
    hooks: Some(&Hooks {
        events: &[
            ("SessionStart", Meaning::Is(Happening::SessionStart)),
            ("UserPromptSubmit", Meaning::Prompt),
            ("PermissionRequest", Meaning::Is(Happening::Waiting)),
            ("Notification", Meaning::Notification),
            ("PostToolUse", Meaning::Is(Happening::Progress)),
            ("PostToolUseFailure", Meaning::Is(Happening::Progress)),
            ("PreCompact", Meaning::Is(Happening::Compaction)),
            ("SubagentStart", Meaning::Is(Happening::Sign)),
            ("SubagentStop", Meaning::Is(Happening::Sign)),
            ("Stop", Meaning::Is(Happening::TurnEnd)),
            ("StopFailure", Meaning::Is(Happening::TurnEnd)),
            ("SessionEnd", Meaning::Is(Happening::SessionEnd)),
        ],
        pid_variables: &[],
        wiring: Wiring {
            user: |env| Some(env.root("QWEN_HOME", ".qwen").pop()?.join("settings.json")),
            project: Some(|project| project.join(".qwen/settings.json")),
            shape: Shape::Groups { per_second: 1 },
            notify: None,
        },
    }),
    note: "transcripts and registrations of 0.24.4; sub-agents and newer fields from its source",
};

const FORMAT: &str = "qwen-jsonl";

impl Adapter for Qwen {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn roots(&self, env: &Env<'_>) -> Vec<PathBuf> {
        // Registrations stay in the home; transcripts go to the runtime directory if there is one.
        let mut roots = env.root("QWEN_HOME", ".qwen");
        if let Some(runtime) = env.path("QWEN_RUNTIME_DIR")
            && !roots.contains(&runtime)
        {
            roots.push(runtime);
        }
        roots
    }

    fn survey(&self, survey: &mut Survey) {
        let root = survey.root();
        registrations::survey(survey, &root.join("sessions"));
        // Old versions kept their projects below `tmp`.
        for place in ["projects", "tmp"] {
            let projects = root.join(place);
            for project in survey.list(&projects, |_| true) {
                if project.kind == EntryKind::Directory {
                    survey_project(survey, &projects.join(&project.name));
                }
            }
        }
    }

    fn digest(&self, source: &Source) -> Result<Digest, ReadError> {
        let mut reading = Reading { own_files: subagent_files(source), ..Reading::default() };
        let end = source.lines(0, |line| reading.line(line))?;
        reading.digest.damage.oversized = end.oversized;
        Ok(reading.digest)
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

fn survey_project(survey: &mut Survey, project: &Path) {
    let root = survey.root();
    let subagents = survey_subagents(survey, &project.join("subagents"));
    let chats = project.join("chats");
    let wanted = |name: &str| name.ends_with(".jsonl") || name.ends_with(".runtime.json");
    for entry in survey.list(&chats, wanted) {
        if entry.kind != EntryKind::File {
            continue;
        }
        let path = chats.join(&entry.name);
        if let Some(id) = entry.stem(".jsonl") {
            let mut source = Source::file(id, &root, path, entry.stamp, FORMAT);
            for subagent in subagents.iter().filter(|s| s.parent.as_deref() == Some(id)) {
                source.beside.push((subagent.path.clone(), subagent.stamp));
            }
            survey.found(source);
        } else if let Some(id) = entry.stem(".runtime.json") {
            survey.extra(ExtraKind::Attachment, &entry, path.clone(), Some(id.to_owned()));
            registrations::survey_runtime(survey, path);
        }
    }
    survey.sources.extend(subagents.into_iter().map(Box::new));
}

/// `subagents/<session>/agent-<id>.jsonl`.
fn survey_subagents(survey: &mut Survey, directory: &Path) -> Vec<Source> {
    let root = survey.root();
    let mut found = Vec::new();
    for session in survey.list(directory, |_| true) {
        let (Some(parent), EntryKind::Directory) = (session.name.to_str(), session.kind) else {
            continue;
        };
        let inside = directory.join(&session.name);
        for entry in survey.list(&inside, |name| name.ends_with(".jsonl")) {
            let id = entry.stem(".jsonl").and_then(|stem| stem.strip_prefix("agent-"));
            if let (Some(id), EntryKind::File) = (id, entry.kind) {
                let path = inside.join(&entry.name);
                let source = Source::file(id, &root, path, entry.stamp, FORMAT);
                found.push(Source { parent: Some(parent.to_owned()), ..source });
            }
        }
    }
    found
}

/// The ids of the sub-agents that have a transcript of their own.
fn subagent_files(source: &Source) -> Vec<String> {
    let ids = source.beside.iter().filter_map(|(path, _)| {
        let stem = path.file_stem()?.to_str()?;
        stem.strip_prefix("agent-").map(str::to_owned)
    });
    ids.collect()
}

/// The fields of a line that matter.
#[derive(Default)]
struct Line<'a> {
    kind: &'a [u8],
    subtype: Option<Value<'a>>,
    provenance: Option<Value<'a>>,
    timestamp: Option<Value<'a>>,
    cwd: Option<Value<'a>>,
    version: Option<Value<'a>>,
    branch: Option<Value<'a>>,
    model: Option<Value<'a>>,
    message: Option<Value<'a>>,
    usage: Option<Value<'a>>,
    payload: Option<Value<'a>>,
    forked_from: Option<Value<'a>>,
}

impl<'a> Line<'a> {
    fn read(line: &'a [u8]) -> Result<Self, skim::Broken> {
        let mut found = Self::default();
        for field in skim::object(line)? {
            let (key, value) = field?;
            match key {
                b"type" => found.kind = value.raw(),
                b"subtype" => found.subtype = Some(value),
                b"provenance" => found.provenance = Some(value),
                b"timestamp" => found.timestamp = Some(value),
                b"cwd" => found.cwd = Some(value),
                b"version" => found.version = Some(value),
                b"gitBranch" => found.branch = Some(value),
                b"model" => found.model = Some(value),
                b"message" => found.message = Some(value),
                b"usageMetadata" => found.usage = Some(value),
                b"systemPayload" => found.payload = Some(value),
                b"forkedFrom" => found.forked_from = Some(value),
                _ => {}
            }
        }
        Ok(found)
    }

    fn is(&self, subtype: &str) -> bool {
        self.subtype.is_some_and(|value| value.is(subtype))
    }

    fn parts(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let parts = self.message.and_then(|message| message.get("parts"));
        parts.into_iter().flat_map(Value::elements)
    }

    /// The texts of the message, without the model's thoughts.
    fn text(&self) -> String {
        let spoken =
            self.parts().filter(|part| part.get("thought").and_then(Value::bool) != Some(true));
        spoken.filter_map(|part| part.get("text")?.string()).collect::<Vec<_>>().join("\n")
    }

    /// Whether a person wrote it. Older versions do not say who did; notices and scheduled tasks
    /// are marked by their subtype.
    fn is_prompt(&self) -> bool {
        let by_person = match self.provenance {
            Some(provenance) => provenance.is("real_user"),
            None => self.subtype.is_none() || self.is("mid_turn_user_message"),
        };
        self.kind == br#""user""# && by_person
    }
}

/// What has been read of a transcript so far.
#[derive(Default)]
struct Reading {
    digest: Digest,
    /// Sub-agents whose usage is counted in their own transcripts.
    own_files: Vec<String>,
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
        match line.kind {
            br#""user""# if line.is_prompt() => {
                let shown = line.payload.and_then(|payload| payload.get("displayText")?.string());
                let text = shown.unwrap_or_else(|| line.text());
                if !text.trim().is_empty() {
                    self.digest.prompted(&text);
                }
            }
            br#""tool_result""# => self.digest.turn = Turn::Open,
            br#""assistant""# => {
                if let Some(model) = line.model.and_then(Value::str) {
                    self.digest.answered_by(&model);
                }
                if let Some(tokens) = line.usage.and_then(usage_of) {
                    self.digest.spend(tokens);
                }
                let calls = line.parts().any(|part| part.get("functionCall").is_some());
                self.digest.turn = if calls { Turn::Open } else { Turn::Closed };
            }
            br#""system""# => self.system(line),
            _ => {}
        }
        if let Some(time) = line.timestamp.and_then(Value::time) {
            self.digest.saw(time);
        }
        if self.digest.cwd.is_none() {
            self.digest.cwd = line.cwd.and_then(Value::string);
        }
        keep_last(&mut self.digest.version, line.version);
        keep_last(&mut self.digest.branch, line.branch);
        if self.digest.parent.is_none() {
            let parent = line.forked_from.and_then(|from| from.get("sessionId")?.string());
            self.digest.parent = parent;
        }
    }

    fn system(&mut self, line: &Line<'_>) {
        let Some(payload) = line.payload else { return };
        if line.is("custom_title") {
            let title = payload.get("customTitle").and_then(Value::string);
            self.digest.title = title.filter(|t| !t.trim().is_empty()).map(|t| shorten(&t));
        } else if line.is("rewind") {
            self.digest.turn = Turn::Closed;
        } else if line.is("ui_telemetry")
            && let Some(event) = payload.get("uiEvent")
            && event.get("event.name").is_some_and(|name| name.is("qwen-code.api_response"))
            && let Some(subagent) = event.get("subagent_id").and_then(Value::string)
            && !self.own_files.contains(&subagent)
            && let Some(tokens) = usage_of(event)
        {
            self.digest.spend(tokens);
        }
    }
}

/// Replaces what is known by what was written last.
fn keep_last(known: &mut Option<String>, value: Option<Value<'_>>) {
    if let Some(value) = value
        && !known.as_deref().is_some_and(|known| value.is(known))
        && let Some(text) = value.string().filter(|text| !text.is_empty())
    {
        *known = Some(text);
    }
}

/// Usage of an answer, or of a telemetry event. The prompt includes what came from the cache.
/// Thoughts are part of the output for some providers and apart from it for others; only the
/// total tells.
fn usage_of(usage: Value<'_>) -> Option<Tokens> {
    let (mut input, mut output, mut cached, mut thoughts, mut total) = (0, 0, 0, 0, None);
    for (key, value) in usage.object()?.flatten() {
        let count = value.u64();
        match key {
            b"promptTokenCount" | b"input_token_count" => input = count?,
            b"candidatesTokenCount" | b"output_token_count" => output = count.unwrap_or(0),
            b"cachedContentTokenCount" | b"cached_content_token_count" => {
                cached = count.unwrap_or(0);
            }
            b"thoughtsTokenCount" | b"thoughts_token_count" => thoughts = count.unwrap_or(0),
            b"totalTokenCount" | b"total_token_count" => total = count,
            _ => {}
        }
    }
    let with_thoughts = output.saturating_add(thoughts);
    let apart = total.is_none_or(|total| total >= input.saturating_add(with_thoughts));
    Some(Tokens {
        input: input.saturating_sub(cached),
        output: if apart { with_thoughts } else { output },
        cache_read: cached,
        cache_write: 0,
    })
}

fn converse_line(line: &[u8], say: &mut dyn FnMut(Entry)) {
    let Ok(line) = Line::read(line) else { return };
    let at = line.timestamp.and_then(Value::time);
    let speaker = match line.kind {
        br#""assistant""# => Role::Assistant,
        br#""user""# if line.is_prompt() => Role::User,
        br#""user""# => Role::System,
        br#""tool_result""# => Role::Result,
        _ => return,
    };
    let text = line.text();
    if !text.is_empty() {
        say(Entry::new(at, speaker, text));
    }
    for part in line.parts() {
        if let Some(call) = part.get("functionCall") {
            let name = call.get("name").and_then(Value::string).unwrap_or_default();
            let input = call.get("args").map_or(&b""[..], Value::raw);
            say(Entry::tool(at, name, String::from_utf8_lossy(input)));
        } else if let Some(response) = part.at(&["functionResponse", "response"]) {
            let output = response.get("output").and_then(Value::string);
            let raw = || String::from_utf8_lossy(response.raw()).into_owned();
            say(Entry::new(at, Role::Result, output.unwrap_or_else(raw)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(lines: &[&str]) -> Digest {
        let mut reading = Reading { own_files: vec!["own".into()], ..Reading::default() };
        for line in lines {
            reading.line(line.as_bytes());
        }
        reading.digest
    }

    #[test]
    fn thoughts_are_counted_once_whichever_way_they_are_written() {
        let usage = |total| {
            let text = format!(
                r#"{{"promptTokenCount":100,"cachedContentTokenCount":30,"candidatesTokenCount":20,"thoughtsTokenCount":5,"totalTokenCount":{total}}}"#
            );
            usage_of(Value::new(text.as_bytes())).unwrap()
        };
        assert_eq!(usage(120).output, 20);
        assert_eq!(usage(125).output, 25);
        assert_eq!((usage(125).input, usage(125).cache_read), (70, 30));
    }

    #[test]
    fn a_subagent_without_a_transcript_is_counted_here_and_one_with_its_own_is_not() {
        let event = |id: &str| {
            format!(
                r#"{{"type":"system","subtype":"ui_telemetry","systemPayload":{{"uiEvent":{{"event.name":"qwen-code.api_response","input_token_count":10,"output_token_count":2,"total_token_count":12{id}}}}}}}"#
            )
        };
        let read = digest(&[
            &event(""),
            &event(r#","subagent_id":"memory""#),
            &event(r#","subagent_id":"own""#),
        ]);
        assert_eq!(read.tokens.unwrap().input, 10);
    }

    #[test]
    fn notices_and_scheduled_tasks_are_no_prompts() {
        let user = |more: &str| {
            format!(
                r#"{{"type":"user",{more}"message":{{"role":"user","parts":[{{"text":"hi"}}]}}}}"#
            )
        };
        let read = digest(&[
            &user(r#""subtype":"notification","#),
            &user(r#""subtype":"cron","provenance":"scheduled","#),
            &user(""),
            &user(r#""provenance":"real_user","#),
        ]);
        assert_eq!(read.turns, 2);
    }
}
