//! The refusal: why something stays. One enum for every removal of the product, worded in one place, with
//! the codes that `access prune` prints.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    Unproven { why: String },
    /// Agents run that could have it open.
    CouldBeOpen {
        /// Which: their pids and directories.
        runs: String,
    },
    /// It was written within the last ten minutes.
    JustWritten,
    /// Only another command may take it.
    OnlyThrough { command: String },
    /// Not everything beside it could be read.
    ListedInPart {
        /// What could not, and why.
        why: String,
    },
    /// It is in use: its lock is held.
    Busy { who: String },
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
    Pinned { session: String },
    /// It is too young.
    Young,
    /// It leads out of the directory it should be in.
    OutOfBounds,
    /// It is no file, directory or link.
    Special,
    /// A file of it has another name elsewhere, and would be two files afterwards.
    HardLinked { path: String },
    /// Something of it has extended attributes or an access list, and would lose them.
    Attributed { path: String },
    /// Something else is mounted there.
    Mounted,
    /// A process works there.
    WorkedIn { who: String },
    /// The worktree has changes that are not committed.
    Dirty,
    /// The worktree's branch is not merged.
    Unmerged { branch: String },
    /// The worktree's commits are nowhere else.
    Unpushed { branch: String },
    /// The worktree's repository has no remote, so that nothing is kept elsewhere.
    NoRemote { branch: String },
    /// The worktree is locked.
    Locked,
    /// It cannot be told whether it may go.
    Unreadable { why: String },
    /// Something else has its name now.
    NameTaken { path: String },
    /// The system does not let go of it.
    Undeletable { why: String },
    /// There is no room to keep it in the trash.
    NoSpace,
    /// It lies on something that cannot be written to.
    ReadOnly,
    /// The trash has been emptied of it.
    Emptied,
    /// It was removed for good, and no copy was kept.
    Discarded,
    /// What it was to replace is missing or broken: it may be all that there is.
    OnlyCopy,
    /// A copy of it could not be kept first.
    NotCopied { why: String },
    /// A rule of access sessions keeps it.
    Access {
        code: SkipCode,
        /// In words: names of files and rules, never what a file says.
        detail: String,
    },
}

impl Refusal {
    /// A rule of access sessions keeps it; with the words for it.
    pub fn skip(code: SkipCode, detail: impl Into<String>) -> Self {
        Self::Access { code, detail: detail.into() }
    }

    /// The code that `access prune` prints. What the reaper saw at the last moment is a change.
    pub const fn skip_code(&self) -> SkipCode {
        match self {
            Self::Access { code, .. } => *code,
            Self::Alive { .. } | Self::CouldBeOpen { .. } | Self::WorkedIn { .. } => {
                SkipCode::AgentAlive
            }
            Self::Active { .. } | Self::Young | Self::JustWritten => SkipCode::Active,
            Self::Busy { .. } | Self::Locked => SkipCode::Locked,
            Self::Changed | Self::Gone | Self::NameTaken { .. } => SkipCode::Changed,
            Self::NotOurs { .. }
            | Self::Special
            | Self::HardLinked { .. }
            | Self::Attributed { .. }
            | Self::Mounted => SkipCode::Unsafe,
            Self::Unproven { .. } => SkipCode::PresenceUnknown,
            _ => SkipCode::Unknown,
        }
    }

    /// Whether the system stood in the way of something that might have gone.
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::Undeletable { .. } | Self::NoSpace | Self::ReadOnly)
    }

    /// The reason, for people.
    pub fn reason_text(&self) -> String {
        match self {
            Self::Alive { who } => format!("{who} is alive"),
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
            Self::Attributed { path } => {
                format!("{path} has extended attributes or an access list, which a copy would lose")
            }
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
            Self::Discarded => "it was discarded: removed for good, with no copy kept".to_owned(),
            Self::OnlyCopy => {
                "what it was to replace is missing or broken, so it may be the only copy".to_owned()
            }
            Self::NotCopied { why } => format!("no copy could be kept first: {why}"),
            Self::Access { detail, .. } => detail.clone(),
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
            Self::Attributed { .. } => "keep it, or have ostler's home on the same device",
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
            Self::Discarded => "make a new one: `ostler access open` lends a credential again",
            Self::OnlyCopy => "look into it, and put the other file right first",
            Self::NotCopied { .. } => "put right what is in the way, then try again",
            Self::Access { code, .. } => code.remedy(),
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
            Self::Attributed { path: text() },
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
            Self::Discarded,
            Self::OnlyCopy,
            Self::NotCopied { why: text() },
            Self::Access { code: SkipCode::Active, detail: text() },
        ]
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.skip_code().as_str(), self.reason_text())
    }
}

/// The codes of `access prune`. They are expected safety behaviour, not failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SkipCode {
    /// The agent is there, by any evidence.
    AgentAlive,
    /// `agent.env` is missing.
    NoAgentEnv,
    /// Neither expired nor stopped.
    Active,
    /// No or unusable metadata.
    Unknown,
    /// `meta.json` or `stop.json` cannot be parsed.
    Malformed,
    /// A rule of the metadata is broken.
    Invalid,
    /// A link, a special file, another owner, a second name, an open mode, a bad name.
    Unsafe,
    /// `agent.env` is not a regular file of ours with mode 0600.
    AgentEnvNotPrivate,
    /// `agent.env` breaks its grammar, a value rule, or disagrees with the metadata.
    AgentEnvBad,
    /// Whether the agent is there could not be established.
    PresenceUnknown,
    /// Recorded on another machine.
    ForeignHost,
    /// Recorded in another pid namespace.
    ForeignNamespace,
    /// The clocks disagree, or a time lies in the future.
    Clock,
    /// The session's lock is held.
    Locked,
    /// Something changed between check and removal.
    Changed,
    /// The directory holds a name that ostler did not create.
    UnexpectedFiles,
}

impl SkipCode {
    pub const ALL: [Self; 16] = [
        Self::AgentAlive,
        Self::NoAgentEnv,
        Self::Active,
        Self::Unknown,
        Self::Malformed,
        Self::Invalid,
        Self::Unsafe,
        Self::AgentEnvNotPrivate,
        Self::AgentEnvBad,
        Self::PresenceUnknown,
        Self::ForeignHost,
        Self::ForeignNamespace,
        Self::Clock,
        Self::Locked,
        Self::Changed,
        Self::UnexpectedFiles,
    ];

    /// The code as it is printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AgentAlive => "SKIP_AGENT_ALIVE",
            Self::NoAgentEnv => "SKIP_NO_AGENT_ENV",
            Self::Active => "SKIP_ACTIVE",
            Self::Unknown => "SKIP_UNKNOWN",
            Self::Malformed => "SKIP_MALFORMED",
            Self::Invalid => "SKIP_INVALID",
            Self::Unsafe => "SKIP_UNSAFE",
            Self::AgentEnvNotPrivate => "SKIP_AGENT_ENV_NOT_PRIVATE",
            Self::AgentEnvBad => "SKIP_AGENT_ENV_BAD",
            Self::PresenceUnknown => "SKIP_PRESENCE_UNKNOWN",
            Self::ForeignHost => "SKIP_FOREIGN_HOST",
            Self::ForeignNamespace => "SKIP_FOREIGN_NAMESPACE",
            Self::Clock => "SKIP_CLOCK",
            Self::Locked => "SKIP_LOCKED",
            Self::Changed => "SKIP_CHANGED",
            Self::UnexpectedFiles => "SKIP_UNEXPECTED_FILES",
        }
    }

    /// What it says, for the legend.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::AgentAlive => "its ssh-agent is there, by any evidence",
            Self::NoAgentEnv => "`agent.env` is missing, so that the agent cannot be looked for",
            Self::Active => "it has neither expired nor been stopped",
            Self::Unknown => "it has no metadata that could be used",
            Self::Malformed => "`meta.json` or `stop.json` cannot be parsed",
            Self::Invalid => "a rule of the metadata is broken",
            Self::Unsafe => {
                "a link, a special file, another owner, a second name, an open mode or a bad name"
            }
            Self::AgentEnvNotPrivate => "`agent.env` is not a regular file of ours with mode 0600",
            Self::AgentEnvBad => "`agent.env` breaks its grammar, or disagrees with the metadata",
            Self::PresenceUnknown => "whether its agent is there cannot be established",
            Self::ForeignHost => "it was recorded on another machine",
            Self::ForeignNamespace => "it was recorded in another pid namespace",
            Self::Clock => "the clocks disagree, or a time lies in the future",
            Self::Locked => "somebody holds its lock",
            Self::Changed => "something changed between check and removal",
            Self::UnexpectedFiles => "its directory holds a name that ostler did not create",
        }
    }

    /// What a person can do about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::AgentAlive => "`ostler access stop ID` ends it",
            Self::Active => "it ends by itself; `ostler access stop ID` ends it now",
            Self::Locked => "another command works on it; try again",
            Self::Changed => "look at what changes it, then try again",
            Self::PresenceUnknown | Self::ForeignHost | Self::ForeignNamespace => {
                "look again from the host, namespace or user that it was opened under"
            }
            Self::Clock => "set the clock right, then try again",
            Self::NoAgentEnv
            | Self::Unknown
            | Self::Malformed
            | Self::Invalid
            | Self::Unsafe
            | Self::AgentEnvNotPrivate
            | Self::AgentEnvBad
            | Self::UnexpectedFiles => "look at the directory yourself; ostler will not touch it",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_one_word_of_its_own() {
        let mut words: Vec<&str> = SkipCode::ALL.iter().map(|code| code.as_str()).collect();
        assert!(words.iter().all(|word| word.starts_with("SKIP_")));
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), SkipCode::ALL.len());
    }
}
