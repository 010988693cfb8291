//! Sightings: facts read from one source at one time, before anything is merged or judged.
//!
//! Adapters produce them from agents' files, the process table adds to them. A [`TranscriptDigest`] is what
//! one transcript says; it depends on nothing but the bytes of its files, so it can be cached. A
//! [`ProcessRegistration`] is what an agent wrote down about a live process; it is never cached.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::status::Activity;
use crate::time::Time;

/// What one transcript says about its session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptDigest {
    /// Where the agent worked.
    pub cwd: Option<String>,
    /// A title that a person or the agent gave.
    pub title: Option<String>,
    /// The first thing a person really asked.
    pub first_prompt: Option<String>,
    /// A short name, where the agent has one beside the title.
    pub name: Option<String>,
    /// The model that answered last.
    pub model: Option<String>,
    /// Every other model that answered.
    pub other_models: Vec<String>,
    /// The git branch that was last checked out.
    pub branch: Option<String>,
    /// The version of the agent that wrote last.
    pub version: Option<String>,
    /// The first time stamp.
    pub started_at: Option<Time>,
    /// The last time stamp of the conversation.
    pub last_activity_at: Option<Time>,
    /// When the transcript itself says that the session ended.
    pub ended_at: Option<Time>,
    /// Token usage, each API message counted once.
    pub tokens: Option<TokenUsage>,
    /// Cost, where the agent states it, in millionths of a dollar.
    pub cost_micro_usd: Option<u64>,
    /// Whether `cost_micro_usd` already covers the sub-agents of this session.
    pub cost_covers_subagents: bool,
    pub turns: u32,
    /// Where the last turn stands.
    pub turn: TurnState,
    /// The session this one belongs to (sub-agent, fork), where the transcript says.
    pub parent: Option<String>,
    /// How many records could not be understood as far as they had to be.
    pub damage: TranscriptDamage,
}

impl TranscriptDigest {
    /// Widens the time span to include `time`.
    pub fn widen_span(&mut self, time: Time) {
        self.started_at = Some(self.started_at.map_or(time, |first| first.min(time)));
        self.last_activity_at = Some(self.last_activity_at.map_or(time, |last| last.max(time)));
    }

    /// Notes that `model` answered.
    pub fn note_model(&mut self, model: &str) {
        if model.is_empty() || self.model.as_deref() == Some(model) {
            return;
        }
        self.other_models.retain(|other| other != model);
        if let Some(before) = self.model.replace(model.to_owned()) {
            self.other_models.push(before);
        }
    }

    /// Counts one user prompt; the first one is kept for the title.
    pub fn count_prompt(&mut self, text: &str) {
        self.turns += 1;
        self.turn = TurnState::Open;
        if self.first_prompt.is_none() && !text.trim().is_empty() {
            self.first_prompt = Some(shorten_title(text.trim()));
        }
    }

    /// Adds the usage of one API message.
    pub fn add_usage(&mut self, tokens: TokenUsage) {
        self.tokens.get_or_insert_default().add_usage(tokens);
    }
}

/// The longest title, in characters.
const MAX_TITLE_CHARS: usize = 200;

/// Cuts a title or prompt to what lists show, on a character boundary.
pub fn shorten_title(text: &str) -> String {
    match text.char_indices().nth(MAX_TITLE_CHARS) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.to_owned(),
    }
}

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Input that was not read from a cache.
    pub input: u64,
    /// Output, including hidden reasoning.
    pub output: u64,
    /// Input read from a cache.
    pub cache_read: u64,
    /// Input written to a cache.
    pub cache_write: u64,
}

impl TokenUsage {
    /// All kinds together.
    pub const fn total(self) -> u64 {
        let (read, written) = (self.cache_read, self.cache_write);
        self.input.saturating_add(self.output).saturating_add(read).saturating_add(written)
    }

    /// Adds other usage to this.
    pub fn add_usage(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }
}

/// Where the last turn of a transcript stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnState {
    /// The transcript does not say.
    #[default]
    Unknown,
    /// Started and not ended.
    Open,
    /// Waiting for a person; what for, when known.
    Waiting(Option<String>),
    /// Asked for consent, and nothing says whether that was given: waiting, unless a command that
    /// was begun since then runs.
    Asking(Option<String>),
    Closed,
}

impl TurnState {
    /// The activity of a live session whose transcript stands here.
    pub const fn activity(&self) -> Activity {
        match self {
            Self::Unknown => Activity::Unknown,
            Self::Open => Activity::Working,
            Self::Waiting(_) | Self::Asking(_) => Activity::Waiting,
            Self::Closed => Activity::Idle,
        }
    }

    /// Whether the record itself says so. That a turn was begun and has not ended is also true of one
    /// that waits for a person, or that was given up without a word.
    pub const fn is_recorded(&self) -> bool {
        matches!(self, Self::Waiting(_) | Self::Closed)
    }
}

/// What was wrong with a transcript, short of being unreadable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptDamage {
    /// Complete lines or rows that are not what the format promises.
    pub broken: u32,
    /// Records too large to be read whole.
    pub oversized: u32,
}

impl TranscriptDamage {
    /// Whether anything was lost.
    pub const fn is_none(self) -> bool {
        self.broken == 0 && self.oversized == 0
    }
}

/// Device, inode, size and time of one file: if they are the same, so is the content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileStamp {
    pub dev: u64,
    pub ino: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Modification time in nanoseconds since the epoch.
    pub mtime_ns: i64,
}

impl FileStamp {
    /// The modification time.
    pub const fn modified_at(&self) -> Time {
        Time::from_millis(self.mtime_ns.div_euclid(1_000_000))
    }
}

/// What an agent wrote down about a process that is (or was) working on a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRegistration {
    /// What it speaks about.
    pub scope: RegistrationScope,
    /// What would prove it.
    pub proof: RegistrationProof,
    /// The file it was read from.
    pub source: PathBuf,
    /// What the agent says it is doing.
    pub activity: Option<Activity>,
    /// What it waits for.
    pub waiting_for: Option<String>,
    /// Further facts about the session that no transcript may hold yet.
    pub digest: TranscriptDigest,
}

/// What a registration speaks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationScope {
    Session(String),
    /// The newest session among those of one store (a database or directory).
    Store(PathBuf),
    /// Unreadable: the newest session in the directory of this process.
    Unreadable,
}

/// What proves that a registered process is there.
#[expect(
    clippy::large_enum_variant,
    reason = "there are few registrations, and most are processes"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationProof {
    /// A recorded identity; `holds` is a file that the very process keeps open.
    Process {
        identity: Identity,
        /// A file only that process holds open.
        holds: Option<FileStamp>,
    },
    /// An advisory lock on a file, held by the session's writer.
    Lock(FileStamp),
}
