//! The adapter of Amp: reads its sessions.
//!
//! Threads were kept whole, one JSON document each, in `threads/T-<uuid>.json`: title, time of
//! creation, the workspace as a URL, and messages with their usage. Since spring 2026 new threads
//! live on Amp's servers and only those from before are here; what is in `~/.cache/amp` are logs.
//! Known from other people's readers, not from files of the real program: it needs its own servers, and
//! was never run here. Activity, waiting and resuming of a live thread are therefore guesses by directory.

use std::path::PathBuf;

use model::conversation::{ConversationEntry, ConversationRole};
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState, shorten_title};

use crate::files::{self, EntryKind, ReadError};
use crate::skim::{self, JsonValue};
use crate::{Adapter, AgentProfile, EnvLookup, Opening, Survey, TranscriptSource};

#[derive(Debug)]
pub(crate) struct Amp;

static AMP_PROFILE: AgentProfile = AgentProfile {
    id: "amp",
    name: "Amp",
    version: 1,
    certainty: FormatCertainty::Documented,
    program: AgentProgram {
        names: &["amp"],
        packages: &["@sourcegraph/amp"],
        servers: &[],
        helpers: &["login", "logout", "mcp", "update", "doctor", "permissions", "tools", "usage"],
    },
    resume_options: &["continue"],
    continue_options: &[],
    session_variables: &[],
    opening: Opening::ANYWHERE,
    hooks: None,
    note: "threads stored before spring 2026, as other readers describe them; later ones are on Amp's servers; never run",
};

const FORMAT: &str = "amp-thread";

impl Adapter for Amp {
    fn agent_profile(&self) -> &'static AgentProfile {
        &AMP_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "~/.config/amp/settings.json",
            shape: crate::McpSettingsShape::AmpServers,
        })
    }

    fn resume_words(&self) -> Vec<&'static str> {
        vec!["amp", "threads", "continue"]
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        env.xdg_data().map(|data| data.join("amp")).into_iter().collect()
    }

    fn survey_root(&self, survey: &mut Survey) {
        let root = survey.root_path();
        let threads = root.join("threads");
        for entry in survey.list_wanted(&threads, |name| name.ends_with(".json")) {
            if let (Some(id), EntryKind::File) = (entry.strip_suffix(".json"), entry.kind) {
                let path = threads.join(&entry.name);
                survey.note_file(id, path, entry.stamp, FORMAT);
            }
        }
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        let (document, _) = files::read_document(&source.root, &source.path)?;
        read_thread(&document)
    }

    /// Positions are numbers of messages. One that is still being written is told when it is done.
    fn read_conversation(
        &self,
        source: &TranscriptSource,
        from: u64,
        say: &mut dyn FnMut(ConversationEntry),
    ) -> Result<u64, ReadError> {
        let (document, _) = files::read_document(&source.root, &source.path)?;
        let messages = JsonValue::new(&document).get("messages");
        let mut position = 0;
        for message in messages.into_iter().flat_map(JsonValue::iter_elements) {
            if is_streaming(message) {
                break;
            }
            position += 1;
            if position > from {
                converse_message(message, say);
            }
        }
        Ok(position.max(from))
    }
}

fn read_thread(document: &[u8]) -> Result<TranscriptDigest, ReadError> {
    let mut digest = TranscriptDigest::default();
    let mut messages = None;
    let mut ledger = None;
    if document.trim_ascii().is_empty() {
        return Err(ReadError::Empty);
    }
    let fields =
        skim::parse_object(document).map_err(|_| ReadError::unknown_format("not a JSON object"))?;
    for field in fields {
        let Ok((key, value)) = field else {
            digest.damage.broken += 1;
            continue;
        };
        match key {
            b"title" => {
                let title = value.to_owned_string().filter(|title| !title.trim().is_empty());
                digest.title = title.map(|title| shorten_title(&title));
            }
            b"created" => {
                if let Some(time) = value.as_time() {
                    digest.widen_span(time);
                }
            }
            b"env" => read_workspace(value, &mut digest),
            b"messages" => messages = Some(value),
            b"usageLedger" => ledger = value.get("events"),
            _ => {}
        }
    }
    if messages.is_none() && digest.started_at.is_none() {
        return Err(ReadError::unknown_format(
            "no thread in it: cut off, or of an unknown version",
        ));
    }
    for message in messages.into_iter().flat_map(JsonValue::iter_elements) {
        read_message(message, &mut digest);
    }
    // Older threads have usage only in a ledger, without what came from the cache.
    if digest.tokens.is_none() {
        for event in ledger.into_iter().flat_map(JsonValue::iter_elements) {
            let count = |name| event.value_at(&["tokens", name]).and_then(JsonValue::as_u64);
            if let (Some(input), Some(output)) = (count("input"), count("output")) {
                digest.add_usage(TokenUsage { input, output, ..TokenUsage::default() });
            }
        }
    }
    Ok(digest)
}

/// `env.initial.trees[0]`: where the thread was started.
fn read_workspace(env: JsonValue<'_>, digest: &mut TranscriptDigest) {
    let trees = env.value_at(&["initial", "trees"]);
    let Some(tree) = trees.and_then(|trees| trees.iter_elements().next()) else {
        return;
    };
    let uri = tree.get("uri").and_then(JsonValue::to_owned_string);
    digest.cwd = uri.and_then(|uri| uri.strip_prefix("file://").map(percent_decode));
    let branch = tree.value_at(&["repository", "ref"]).and_then(JsonValue::to_owned_string);
    digest.branch = branch.map(|name| name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned());
}

/// The path of a URL: `%20` is a space.
fn percent_decode(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| path.get(at + 1..at + 3)).flatten();
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn read_message(message: JsonValue<'_>, digest: &mut TranscriptDigest) {
    if let Some(time) = message.value_at(&["meta", "sentAt"]).and_then(JsonValue::as_time) {
        digest.widen_span(time);
    }
    if message.get("role").is_some_and(|role| role.is_string("user")) {
        let text = text_of(message);
        if text.trim().is_empty() {
            digest.turn = TurnState::Open;
        } else {
            digest.count_prompt(&text);
        }
        return;
    }
    if let Some(usage) = message.get("usage") {
        let count = |name| usage.get(name).and_then(JsonValue::as_u64).unwrap_or(0);
        if let Some(model) = usage.get("model").and_then(JsonValue::as_str) {
            digest.note_model(&model);
        }
        digest.add_usage(TokenUsage {
            input: count("inputTokens"),
            output: count("outputTokens"),
            cache_read: count("cacheReadInputTokens"),
            cache_write: count("cacheCreationInputTokens"),
        });
    }
    let state = message.get("state");
    let is = |name: &str, value: &str| {
        state.and_then(|state| state.get(name)).is_some_and(|found| found.is_string(value))
    };
    digest.turn = if is("type", "streaming") || is("stopReason", "tool_use") {
        TurnState::Open
    } else if is("type", "complete") || is("type", "cancelled") || is("type", "error") {
        TurnState::Closed
    } else {
        TurnState::Unknown
    };
}

fn is_streaming(message: JsonValue<'_>) -> bool {
    message.value_at(&["state", "type"]).is_some_and(|kind| kind.is_string("streaming"))
}

/// The texts of a message.
fn text_of(message: JsonValue<'_>) -> String {
    let blocks = message.get("content").into_iter().flat_map(JsonValue::iter_elements);
    let texts = blocks.filter(|block| block.get("type").is_some_and(|kind| kind.is_string("text")));
    texts.filter_map(|block| block.get("text")?.to_owned_string()).collect::<Vec<_>>().join("\n")
}

fn converse_message(message: JsonValue<'_>, say: &mut dyn FnMut(ConversationEntry)) {
    let at = message.value_at(&["meta", "sentAt"]).and_then(JsonValue::as_time);
    let is_user = message.get("role").is_some_and(|role| role.is_string("user"));
    let speaker = if is_user { ConversationRole::User } else { ConversationRole::Assistant };
    for block in message.get("content").into_iter().flat_map(JsonValue::iter_elements) {
        let text = |name| block.get(name).and_then(JsonValue::to_owned_string).unwrap_or_default();
        match text("type").as_str() {
            "text" => say(ConversationEntry::new(at, speaker, text("text"))),
            "tool_use" => {
                let input = block.get("input").map_or(&b""[..], JsonValue::raw);
                say(ConversationEntry::tool_call(at, text("name"), String::from_utf8_lossy(input)));
            }
            "tool_result" => {
                let result = block.value_at(&["run", "result"]).or(block.get("content"));
                let text = result.map(|value| {
                    value
                        .to_owned_string()
                        .unwrap_or(String::from_utf8_lossy(value.raw()).into_owned())
                });
                say(ConversationEntry::new(at, ConversationRole::Result, text.unwrap_or_default()));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_taken_out_of_its_url() {
        assert_eq!(percent_decode("/home/user/my%20repo"), "/home/user/my repo");
        assert_eq!(percent_decode("/a%2"), "/a%2");
        assert_eq!(percent_decode("/a%zz%C3%A4"), "/a%zzä");
    }

    #[test]
    fn a_thread_that_is_cut_off_keeps_what_it_says_or_is_refused() {
        let cut = br#"{"v":1,"id":"T-1","created":1771449540000,"messages":[{"role":"us"#;
        let read = read_thread(cut).unwrap();
        assert_eq!((read.damage.broken, read.turns), (1, 0));
        assert!(read.started_at.is_some());
        assert!(read_thread(br#"{"v":1,"id":"T-1","cre"#).is_err());
    }

    #[test]
    fn an_older_thread_has_its_usage_in_a_ledger() {
        let old = br#"{"id":"T-1","created":1,"messages":[],"usageLedger":{"events":[{"tokens":{"input":3,"output":2}},{"model":"m"}]}}"#;
        assert_eq!(read_thread(old).unwrap().tokens.unwrap().input, 3);
    }
}
