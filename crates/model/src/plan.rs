//! The reaper's words: what may go and why, why something may not, and what came of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// How the names begin that only the reaper uses, for things between their place and the trash. Whoever
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
    /// A socket that nobody listens on.
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
}

impl RemovableKind {
    /// In words.
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
        }
    }
}

/// What a file was when it was looked at: anything else that is there later is not the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fingerprint {
    /// The device.
    pub dev: u64,
    /// The number of the file on it.
    pub ino: u64,
    /// File, directory or link.
    pub form: FileForm,
    /// Permission bits.
    pub mode: u32,
    /// Whose it is.
    pub uid: u32,
    /// Bytes; nothing for a directory, whose size says nothing.
    pub size: u64,
    /// When it was last changed, seconds and nanoseconds.
    pub mtime: (i64, u32),
}

impl Fingerprint {
    /// When it was last changed.
    pub const fn modified_at(&self) -> Time {
        Time::from_secs_nanos(self.mtime.0, self.mtime.1 as i64)
    }

    /// Whether it is the same file with the same content, as far as the system can tell. A directory
    /// is the same while it is the same one: what is in it is asked of whoever planned.
    pub fn is_same(&self, now: &Self) -> bool {
        match self.form {
            FileForm::Directory => (self.dev, self.ino, self.form) == (now.dev, now.ino, now.form),
            _ => self == now,
        }
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FileForm {
    /// A regular file.
    File,
    /// A directory.
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

/// Why something stays. Every removal in the product says no with one of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "refusal")]
pub enum Refusal {
    /// Its process is there.
    Alive {
        /// Who that is.
        who: String,
    },
    /// It cannot be proved dead from here.
    Unproven {
        /// Why not.
        why: String,
    },
    /// Agents run that could have it open.
    CouldBeOpen {
        /// Which: their pids and directories.
        runs: String,
    },
    /// It was written within the last ten minutes.
    JustWritten,
    /// Only another command may take it.
    OnlyThrough {
        /// Which.
        command: String,
    },
    /// Not everything beside it could be read.
    ListedInPart {
        /// What could not, and why.
        why: String,
    },
    /// It is in use: its lock is held.
    Busy {
        /// By whom.
        who: String,
    },
    /// It is not over.
    Active {
        /// What it is.
        status: String,
    },
    /// It is not what was looked at any more.
    Changed,
    /// It is not there any more.
    Gone,
    /// It belongs to another user.
    NotOurs {
        /// Whose it is.
        uid: u32,
    },
    /// It was asked to be kept.
    Kept,
    /// A person said that it is never to be collected.
    Pinned {
        /// Which session.
        session: String,
    },
    /// It is too young.
    Young,
    /// It leads out of the directory it should be in.
    OutOfBounds,
    /// It is no file, directory or link.
    Special,
    /// A file of it has another name elsewhere, and would be two files afterwards.
    HardLinked {
        /// Which.
        path: String,
    },
    /// Something else is mounted there.
    Mounted,
    /// A process works there.
    WorkedIn {
        /// Which.
        who: String,
    },
    /// The worktree has changes that are not committed.
    Dirty,
    /// The worktree's branch is not merged.
    Unmerged {
        /// The branch.
        branch: String,
    },
    /// The worktree's commits are nowhere else.
    Unpushed {
        /// The branch.
        branch: String,
    },
    /// The worktree's repository has no remote, so that nothing is kept elsewhere.
    NoRemote {
        /// The branch.
        branch: String,
    },
    /// Somebody locked the worktree.
    Locked,
    /// It cannot be told whether it may go.
    Unreadable {
        /// Why.
        why: String,
    },
    /// Something else has its name now.
    NameTaken {
        /// The name.
        path: String,
    },
    /// The system does not let go of it.
    Undeletable {
        /// Why.
        why: String,
    },
    /// There is no room to keep it in the trash.
    NoSpace,
    /// It lies on something that cannot be written to.
    ReadOnly,
    /// The trash has been emptied of it.
    Emptied,
    /// What it was to replace is missing or broken: it may be all that there is.
    OnlyCopy,
    /// A copy of it could not be kept first.
    NotCopied {
        /// Why.
        why: String,
    },
}

impl Refusal {
    /// The reason, for people.
    pub fn reason_text(&self) -> String {
        match self {
            Self::Alive { who } => format!("it is alive: {who}"),
            Self::Unproven { why } => format!("it cannot be proved dead from here ({why})"),
            Self::CouldBeOpen { runs } => format!("{runs} could have it open"),
            Self::JustWritten => "it was written within the last ten minutes".to_owned(),
            Self::OnlyThrough { command } => format!("only `{command}` may take it"),
            Self::ListedInPart { why } => {
                format!("not everything beside it could be read ({why})")
            }
            Self::Busy { who } => format!("it is in use by {who}"),
            Self::Active { status } => format!("it is not over ({status})"),
            Self::Changed => "it has changed since it was looked at".to_owned(),
            Self::Gone => "it is gone already".to_owned(),
            Self::NotOurs { uid } => format!("it belongs to another user ({uid})"),
            Self::Kept => "it was asked to be kept".to_owned(),
            Self::Pinned { session } => format!("{session} is pinned"),
            Self::Young => "it is too young".to_owned(),
            Self::OutOfBounds => "it leads out of the directory it should be in".to_owned(),
            Self::Special => "it is a socket, a pipe or a device".to_owned(),
            Self::HardLinked { path } => format!("{path} is a hard link, and has another name"),
            Self::Mounted => "something else is mounted there".to_owned(),
            Self::WorkedIn { who } => format!("{who} works there"),
            Self::Dirty => "it has changes that are not committed".to_owned(),
            Self::Unmerged { branch } => format!("its branch {branch} is not merged"),
            Self::Unpushed { branch } => format!("commits of {branch} are on no remote"),
            Self::NoRemote { branch } => {
                format!("the repository has no remote, so that {branch} is on this machine only")
            }
            Self::Locked => "it was locked with `git worktree lock`".to_owned(),
            Self::Unreadable { why } => format!("it cannot be told whether it may go: {why}"),
            Self::NameTaken { path } => format!("something else is at {path} now"),
            Self::Undeletable { why } => format!("the system does not let go of it: {why}"),
            Self::NoSpace => "there is no room to keep it in the trash".to_owned(),
            Self::ReadOnly => "it lies where nothing can be written".to_owned(),
            Self::Emptied => "the trash has been emptied of it".to_owned(),
            Self::OnlyCopy => {
                "what it was to replace is missing or broken, so it may be the only copy".to_owned()
            }
            Self::NotCopied { why } => format!("no copy could be kept first: {why}"),
        }
    }

    /// What a person can do about it.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Alive { .. } => "end it first; nothing that runs is ever removed",
            Self::Unproven { .. } => {
                "look again from the host, namespace or user that it runs under"
            }
            Self::CouldBeOpen { .. } => "end that agent first; it may have resumed the session",
            Self::JustWritten => "try again later",
            Self::OnlyThrough { .. } => "use that command: it knows the agent's own index",
            Self::ListedInPart { .. } => "put right what cannot be read, then look again",
            Self::Busy { .. } => "wait until it is finished, then try again",
            Self::Active { .. } => "wait until it has ended",
            Self::Changed => "look at the plan again; it is made anew each time",
            Self::Gone => "nothing needs to be done",
            Self::NotOurs { .. } => "run ostler as that user",
            Self::Kept => "leave `--keep` away",
            Self::Pinned { .. } => "`ostler pin --remove` lets go of it",
            Self::Young => "lower `--older-than`",
            Self::OutOfBounds => "look at where its links lead",
            Self::Special => "remove it by hand if nothing uses it",
            Self::HardLinked { .. } => "keep it, or have ostler's home on the same device",
            Self::Mounted => "unmount it first",
            Self::WorkedIn { .. } => "end that process, or let it leave the directory",
            Self::Dirty => "commit or discard the changes",
            Self::Unmerged { .. } => "merge the branch first",
            Self::Unpushed { .. } => "push the branch first",
            Self::NoRemote { .. } => "`git worktree remove` removes it, if this is enough",
            Self::Locked => "`git worktree unlock` unlocks it",
            Self::Unreadable { .. } => "put right what is in the way, then look again",
            Self::NameTaken { .. } => "move that away, then try again",
            Self::Undeletable { .. } => "check the permissions of it and of its directory",
            Self::NoSpace => "make room, or `ostler trash empty`",
            Self::ReadOnly => "mount it for writing first",
            Self::Emptied => "look for it in a backup",
            Self::OnlyCopy => "look into it, and put the other file right first",
            Self::NotCopied { .. } => "put right what is in the way, then try again",
        }
    }

    /// One of each, for tests and documentation.
    pub fn one_of_each() -> Vec<Self> {
        let text = || "…".to_owned();
        vec![
            Self::Alive { who: text() },
            Self::Unproven { why: text() },
            Self::CouldBeOpen { runs: text() },
            Self::JustWritten,
            Self::OnlyThrough { command: text() },
            Self::ListedInPart { why: text() },
            Self::Busy { who: text() },
            Self::Active { status: text() },
            Self::Changed,
            Self::Gone,
            Self::NotOurs { uid: 1000 },
            Self::Kept,
            Self::Pinned { session: text() },
            Self::Young,
            Self::OutOfBounds,
            Self::Special,
            Self::HardLinked { path: text() },
            Self::Mounted,
            Self::WorkedIn { who: text() },
            Self::Dirty,
            Self::Unmerged { branch: text() },
            Self::Unpushed { branch: text() },
            Self::NoRemote { branch: text() },
            Self::Locked,
            Self::Unreadable { why: text() },
            Self::NameTaken { path: text() },
            Self::Undeletable { why: text() },
            Self::NoSpace,
            Self::ReadOnly,
            Self::Emptied,
            Self::OnlyCopy,
            Self::NotCopied { why: text() },
        ]
    }
}
