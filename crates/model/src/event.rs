//! Hook events, in words that all agents share, and the spool line (JSON) that one becomes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HookHappening {
    /// The agent opened the session.
    SessionStart,
    /// A prompt was given.
    TurnStart,
    /// The agent is getting on: it used a tool, or got an answer.
    Progress,
    /// It asked for permission or input.
    Waiting,
    /// The turn is over.
    TurnEnd,
    /// It shortened its memory of the conversation.
    Compaction,
    /// The agent closed the session.
    SessionEnd,
    /// Anything else that shows it was there.
    Sign,
}

impl HookHappening {
    /// Everything that can happen.
    pub const ALL: [Self; 8] = [
        Self::SessionStart,
        Self::TurnStart,
        Self::Progress,
        Self::Waiting,
        Self::TurnEnd,
        Self::Compaction,
        Self::SessionEnd,
        Self::Sign,
    ];

    /// The word used in JSON and on screen.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "session-start",
            Self::TurnStart => "turn-start",
            Self::Progress => "progress",
            Self::Waiting => "waiting",
            Self::TurnEnd => "turn-end",
            Self::Compaction => "compaction",
            Self::SessionEnd => "session-end",
            Self::Sign => "sign",
        }
    }
}

/// One report of a hook, as its adapter understood it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookEvent {
    /// The agent's own session id.
    pub session: String,
    pub happening: HookHappening,
    /// The sub-agent it happened to, if it was not the session itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
    /// The agent's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    /// What was asked, at the start of a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// What was said: the last answer, or what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Why: the reason of an end, the tool, the source of a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl HookEvent {
    /// A report without any detail.
    pub fn new(session: impl Into<String>, happening: HookHappening) -> Self {
        Self {
            session: session.into(),
            happening,
            subagent: None,
            cwd: None,
            transcript: None,
            prompt: None,
            message: None,
            detail: None,
            model: None,
        }
    }
}

/// One line of the spool: a report, when it came, and whose process it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookReport {
    /// Unique: a line that is read twice counts once.
    pub id: String,
    /// When the hook ran.
    pub at: Time,
    /// The adapter's id.
    pub agent: String,
    /// What the agent calls the event.
    pub event: String,
    /// What it means.
    #[serde(flatten)]
    pub hook: HookEvent,
    /// Where the agent keeps its sessions, by the environment of the hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The agent's process, if it could be found for certain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Identity>,
    /// The file that holds the whole payload, where the texts here had to be cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill: Option<String>,
    /// Whether the payload itself was longer than a hook reads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The permission request that this hook waits for an answer to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permit: Option<String>,
}

impl HookReport {
    /// The longest line.
    pub const MAX_LINE_BYTES: usize = 4096;

    /// Reads one line of the spool.
    pub fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    /// The line, between two line breaks: one before it keeps a torn line of another writer apart
    /// from this one. Texts are shortened until it is no longer than [`Self::MAX_LINE_BYTES`].
    pub fn to_line(&self) -> Option<Vec<u8>> {
        let mut report = self.clone();
        for room in [usize::MAX, 600, 100, 0] {
            let hook = &mut report.hook;
            for text in [&mut hook.prompt, &mut hook.message, &mut hook.detail] {
                truncate_text(text, room);
            }
            if room == 0 {
                for text in [&mut hook.transcript, &mut hook.cwd, &mut hook.model] {
                    if text.as_ref().is_some_and(|text| text.len() > 700) {
                        *text = None;
                    }
                }
            }
            let mut line = Vec::with_capacity(1024);
            line.push(b'\n');
            serde_json::to_writer(&mut line, &report).ok()?;
            line.push(b'\n');
            if line.len() <= Self::MAX_LINE_BYTES {
                return Some(line);
            }
        }
        None
    }

    /// Whether the line leaves out some of the texts.
    pub fn is_shortened(&self) -> bool {
        // Every escape may take six bytes for one; near the limit the file is made to be sure.
        let hook = &self.hook;
        let texts = [&hook.prompt, &hook.message, &hook.detail];
        let bytes: usize = texts.iter().filter_map(|text| text.as_ref()).map(String::len).sum();
        bytes > 256 && self.to_line().is_some_and(|line| Self::parse(&line).as_ref() != Some(self))
    }
}

/// Cuts a text to at most so many bytes, at the end of a character.
fn truncate_text(text: &mut Option<String>, room: usize) {
    if let Some(text) = text {
        let mut end = room.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    if text.as_ref().is_some_and(String::is_empty) {
        *text = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn report(prompt: &str) -> HookReport {
        let mut hook = HookEvent::new("s", HookHappening::TurnStart);
        hook.prompt = Some(prompt.to_owned()).filter(|prompt| !prompt.is_empty());
        HookReport {
            id: "1.2.3".into(),
            at: Time::from_millis(1_794_765_081_031),
            agent: "claude-code".into(),
            event: "UserPromptSubmit".into(),
            hook,
            root: None,
            owner: None,
            spill: None,
            cut: false,
            permit: None,
        }
    }

    #[test]
    fn words_are_what_json_says() {
        for happening in HookHappening::ALL {
            let json = serde_json::to_string(&happening).unwrap();
            assert_eq!(json, format!("\"{}\"", happening.as_str()));
        }
    }

    #[test]
    fn a_session_id_longer_than_a_line_is_no_line() {
        let mut report = report("");
        report.hook.session = "x".repeat(5000);
        assert_eq!(report.to_line(), None);
    }

    proptest! {
        #[test]
        fn every_line_is_short_and_reads_back(prompt in "\\PC{0,3000}") {
            let report = report(&prompt);
            let line = report.to_line().unwrap();
            prop_assert!(line.len() <= HookReport::MAX_LINE_BYTES);
            prop_assert_eq!(line.first(), Some(&b'\n'));
            prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 2);
            let back = HookReport::parse(&line).unwrap();
            prop_assert_eq!(report.is_shortened(), back != report);
            let (long, short) = (report.hook.prompt, back.hook.prompt.unwrap_or_default());
            prop_assert!(long.unwrap_or_default().starts_with(&short));
        }

        #[test]
        fn any_bytes_are_a_line_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = HookReport::parse(&bytes);
        }
    }
}
