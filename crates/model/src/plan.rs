//! Removal plans and their results. Why something may not be removed: [`Refusal`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::refusal::Refusal;
use crate::time::Time;

/// How the names begin that only the reaper uses, for things between their place and the trash. A process that
/// looks for sessions passes them over.
pub const PRIVATE_PREFIX: &str = ".ostler-";

/// What kind of thing goes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum RemovableKind {
    /// A hosted terminal: its log and everything made from it.
    HostedSession,
    /// A record of something that ostler started.
    LaunchRecord,
    /// A large payload that a hook put beside the spool.
    Spill,
    /// A copy in the vault.
    VaultCopy,
    /// A socket without a listener.
    Socket,
    /// A file that was being written when its writer died.
    Temporary,
    /// Something that an agent itself set aside.
    Archive,
    /// An agent's own account of a session.
    Transcript,
    /// A git worktree.
    Worktree,
    /// The index of an agent's sessions.
    StoreIndex,
    /// Directories of an agent.
    AgentDirectory,
    /// Where an agent worked.
    Workspace,
    /// An agent's configuration.
    Configuration,
    /// A lent credential: the directory of an access session.
    AccessSession,
    /// What was done with a lent credential.
    AccessLog,
}

impl RemovableKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HostedSession => "terminal",
            Self::LaunchRecord => "launch record",
            Self::Spill => "spilled payload",
            Self::VaultCopy => "vault copy",
            Self::Socket => "dead socket",
            Self::Temporary => "temporary file",
            Self::Archive => "archive",
            Self::Transcript => "transcript",
            Self::Worktree => "git worktree",
            Self::StoreIndex => "session index",
            Self::AgentDirectory => "agent directory",
            Self::Workspace => "workspace",
            Self::Configuration => "configuration",
            Self::AccessSession => "access session",
            Self::AccessLog => "access log",
        }
    }
}

/// What a file was when it was looked at: anything else that is there later is not the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fingerprint {
    pub dev: u64,
    /// The number of the file on it.
    pub ino: u64,
    /// File, directory or link.
    pub form: FileForm,
    pub mode: u32,
    /// Whose it is.
    pub uid: u32,
    /// Bytes; nothing for a directory, whose size says nothing.
    pub size: u64,
    /// When it was last changed, seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// When it came into being, where the file system says so: the number of what is gone is given to what is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born: Option<(i64, u32)>,
}

impl Fingerprint {
    /// When it was last changed.
    pub const fn modified_at(&self) -> Time {
        Time::from_secs_nanos(self.mtime.0, self.mtime.1 as i64)
    }

    /// Whether it is the same file with the same content, as far as the system can tell. A directory
    /// is the same while it is the same one: what is in it is asked of the planner.
    pub fn is_same(&self, now: &Self) -> bool {
        match self.form {
            FileForm::Directory => (self.dev, self.ino, self.form) == (now.dev, now.ino, now.form),
            // Whoever looked through a descriptor may not have been told when it came into being.
            _ => *self == Self { born: self.born, ..*now },
        }
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FileForm {
    /// A regular file.
    File,
    Directory,
    /// A symbolic link.
    Link,
    /// A socket, a pipe, a device.
    Special,
}

/// One thing that would go, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanItem {
    /// What it is.
    pub kind: RemovableKind,
    /// Where it is.
    pub path: String,
    /// Whose: an agent's id, or `ostler`.
    pub owner: String,
    /// The session it belongs to, if one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What that session was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Why it may go.
    pub why: String,
    /// How long it has been left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// How many bytes it takes.
    pub bytes: u64,
    /// What was looked at to know that.
    pub evidence: Vec<String>,
}
