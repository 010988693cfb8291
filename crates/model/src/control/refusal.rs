//! Refusals of control: reason codes (`details.reason` of exit code 13), texts and remedies.

use std::fmt;

/// Why an agent is not driven. Nothing was written, started or signalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveRefusal {
    /// No control table was measured for this agent.
    NotDriven { agent: String },
    /// The agent cannot be driven in that way.
    NoSuchMode { agent: String, mode: String },
    /// The session's process is not proven alive.
    NotAlive { why: String },
    /// The process that had the conversation has another one now.
    MovedOn { now: Option<String> },
    /// The same key was used for another text.
    KeyReused { delivery: String },
    /// Without the store it cannot be told whether a key was used before.
    KeyUnknown { why: String },
    /// A question is open; Enter would answer it.
    AgentWaits { question: Option<String> },
    /// It is not known whether the agent is idle.
    ActivityUnknown,
    /// Several processes hold the conversation.
    SeveralHolders { pids: Vec<u32> },
    /// A live session that ostler has no way to write to.
    NotReachable { how: String },
    /// The terminal has input that was not sent.
    ComposerNotEmpty,
    /// A person typed into the terminal a moment ago.
    PersonTypes,
    /// The prompt's text must not be sent.
    Text(PromptFault),
    /// The directory that the conversation worked in is not there.
    DirectoryMissing { path: String, why: String },
    /// Only the vault still has the transcript.
    OnlyInVault { id: String },
    /// The holder does not release the conversation now.
    NotTaken { why: String },
    /// A live process holds the conversation.
    Held { pids: Vec<u32>, terminal: Option<String> },
    /// A process may hold the conversation, and that cannot be told from here.
    MaybeHeld { why: String },
    /// One process serves several conversations; a signal would end all of them.
    Shared { command: String },
    /// A supervisor would start it again; its own command ends it.
    Supervised { command: String },
    /// The caller runs below the process that would be signalled.
    IsCalling,
    /// The process belongs to another user.
    OtherUser { uid: u32 },
    /// The directory is locked, or one above it.
    DirectoryLocked { path: String, by: String, reason: Option<String> },
    /// Somebody else works in the same worktree or directory, or is being started there.
    DirectoryBusy { path: String, by: Vec<String> },
    /// The agent has no way to ask ostler for a permission.
    CannotAsk { agent: String },
}

/// What is wrong with the text of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptFault {
    /// Nothing, or nothing but blanks.
    Empty,
    /// A control character other than line feed and tab: it could leave the paste.
    ControlCharacter(char),
    /// It begins with a character that makes the agent run a command.
    CommandCharacter(char),
    /// More bytes than the channel takes.
    TooLong { bytes: usize, limit: usize },
}

impl DriveRefusal {
    /// The code in `details.reason`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotDriven { .. } => "not-driven",
            Self::NoSuchMode { .. } => "no-such-mode",
            Self::NotAlive { .. } => "not-alive",
            Self::MovedOn { .. } => "moved-on",
            Self::KeyReused { .. } => "key-reused",
            Self::KeyUnknown { .. } => "key-unknown",
            Self::AgentWaits { .. } => "agent-waits",
            Self::ActivityUnknown => "activity-unknown",
            Self::SeveralHolders { .. } => "several-holders",
            Self::NotReachable { .. } => "not-reachable",
            Self::ComposerNotEmpty => "composer-not-empty",
            Self::PersonTypes => "person-types",
            Self::Text(fault) => fault.code(),
            Self::DirectoryMissing { .. } => "directory-missing",
            Self::OnlyInVault { .. } => "only-in-vault",
            Self::NotTaken { .. } => "not-taken",
            Self::Held { .. } => "held",
            Self::MaybeHeld { .. } => "maybe-held",
            Self::Shared { .. } => "shared",
            Self::Supervised { .. } => "supervised",
            Self::IsCalling => "is-calling",
            Self::OtherUser { .. } => "other-user",
            Self::DirectoryLocked { .. } => "locked",
            Self::DirectoryBusy { .. } => "busy",
            Self::CannotAsk { .. } => "cannot-ask",
        }
    }

    /// What a person can do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::NotDriven { .. } => {
                "`ostler create --agent` and `ostler attach` still work".to_owned()
            }
            Self::NoSuchMode { .. } => {
                "`ostler adapters` shows how each agent can be driven; `ostler create --agent` starts it as it is".to_owned()
            }
            Self::NotAlive { .. } => {
                "`ostler why` shows the evidence, `ostler show` the command that opens it again"
                    .to_owned()
            }
            Self::MovedOn { now: Some(id) } => format!("`ostler prompt {id}` reaches what it has now"),
            Self::MovedOn { now: None } => "`ostler who` shows what it has now".to_owned(),
            Self::KeyReused { .. } => "use another key for another text".to_owned(),
            Self::KeyUnknown { .. } => "`ostler doctor` tells what is wrong; without `--key` it is sent".to_owned(),
            Self::AgentWaits { .. } => "answer the question first: `ostler attach`".to_owned(),
            Self::ActivityUnknown => "`--now` sends it all the same".to_owned(),
            Self::SeveralHolders { .. } => "name the terminal instead of the session".to_owned(),
            Self::NotReachable { how } => how.clone(),
            Self::ComposerNotEmpty => {
                "send or clear what is typed there: `ostler attach`".to_owned()
            }
            Self::PersonTypes => "wait two seconds, or say `--over-person`".to_owned(),
            Self::Text(fault) => fault.remedy().to_owned(),
            Self::DirectoryMissing { .. } => {
                "bring it back (it may be unmounted), or say `--cwd` where the agent honours that".to_owned()
            }
            Self::OnlyInVault { id } => format!("`ostler vault restore {id}` brings it back"),
            Self::NotTaken { .. } => {
                "`--when-idle` waits for the end of a turn; `ostler who` shows who holds it".to_owned()
            }
            Self::Held { terminal: Some(id), .. } => format!("`ostler attach {id}`"),
            Self::Held { terminal: None, .. } => {
                "`ostler who` shows who holds it, and how to get it".to_owned()
            }
            Self::MaybeHeld { .. } => {
                "look again from the host, namespace or user that it may run under".to_owned()
            }
            Self::Shared { command } | Self::Supervised { command } => format!("`{command}`"),
            Self::IsCalling => "run it from a terminal that is not below that agent".to_owned(),
            Self::OtherUser { .. } => "run ostler as that user".to_owned(),
            Self::DirectoryLocked { path, .. } => {
                format!("ask them, or `ostler unlock --steal {path}`; `--force` starts it all the same")
            }
            Self::DirectoryBusy { .. } => {
                "wait for them, leave `--exclusive` out, or give it a place of its own: `ostler launch --worktree`".to_owned()
            }
            Self::CannotAsk { .. } => {
                "leave `--permissions` out: it asks on its own screen, and `ostler attach` answers"
                    .to_owned()
            }
        }
    }
}

impl fmt::Display for DriveRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDriven { agent } => {
                write!(f, "{agent} is not driven: how is not known well enough")
            }
            Self::NoSuchMode { agent, mode } => write!(f, "{agent} cannot be {mode}"),
            Self::NotAlive { why } => write!(f, "its process is not proven alive ({why})"),
            Self::MovedOn { .. } => f.write_str("its process has gone on to another conversation"),
            Self::KeyReused { delivery } => {
                write!(f, "the key was used for another text (delivery {delivery})")
            }
            Self::KeyUnknown { why } => {
                write!(f, "whether the key was used before cannot be told: {why}")
            }
            Self::AgentWaits { question: Some(question) } => {
                write!(f, "it waits for an answer ({question}); Enter would give one")
            }
            Self::AgentWaits { question: None } => {
                f.write_str("it waits for an answer; Enter would give one")
            }
            Self::ActivityUnknown => f.write_str("it is not known whether it is idle"),
            Self::SeveralHolders { pids } => {
                write!(f, "{} processes hold the conversation: {}", pids.len(), list_pids(pids))
            }
            Self::NotReachable { .. } => f.write_str(
                "it does not run in a terminal of ostler's, and has no channel of its own",
            ),
            Self::ComposerNotEmpty => f.write_str("something is typed there and was not sent"),
            Self::PersonTypes => f.write_str("a person typed there within the last two seconds"),
            Self::Text(fault) => fault.fmt(f),
            Self::DirectoryMissing { path, why } => {
                write!(f, "the directory it worked in is not there: {path}: {why}")
            }
            Self::OnlyInVault { .. } => f.write_str("only the vault still has its transcript"),
            Self::NotTaken { why } => write!(f, "it cannot be taken over now: {why}"),
            Self::Held { pids, .. } if pids.is_empty() => {
                f.write_str("another command is resuming the conversation")
            }
            Self::Held { pids, .. } => write!(f, "the conversation is held by {}", list_pids(pids)),
            Self::MaybeHeld { why } => write!(f, "the conversation may be held ({why})"),
            Self::Shared { .. } => f.write_str("one process serves several conversations"),
            Self::Supervised { .. } => f.write_str("a supervisor would start it again"),
            Self::IsCalling => f.write_str("this command runs below that agent"),
            Self::OtherUser { uid } => write!(f, "the process belongs to another user ({uid})"),
            Self::DirectoryLocked { path, by, reason } => {
                let reason = reason.as_ref().map(|reason| format!(" ({reason})"));
                write!(f, "`{path}` is locked by {by}{}", reason.unwrap_or_default())
            }
            Self::DirectoryBusy { path, by } if by.is_empty() => {
                write!(f, "an agent that wants `{path}` for itself is being started there")
            }
            Self::DirectoryBusy { path, by } => {
                write!(f, "`{path}` is not free: {} works there", by.join(", "))
            }
            Self::CannotAsk { agent } => {
                write!(f, "{agent} has no way to ask ostler for a permission")
            }
        }
    }
}

impl std::error::Error for DriveRefusal {}

impl PromptFault {
    const fn code(self) -> &'static str {
        match self {
            Self::Empty => "empty-text",
            Self::ControlCharacter(_) => "control-character",
            Self::CommandCharacter(_) => "command-character",
            Self::TooLong { .. } => "too-long",
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::Empty => "give a text, `-` for standard input, or `--file`",
            Self::ControlCharacter(_) => "take the character out",
            Self::CommandCharacter(_) => {
                "begin with a word, or say `--command` if a command is meant"
            }
            Self::TooLong { .. } => "put the text in a file and name the file in the prompt",
        }
    }
}

impl fmt::Display for PromptFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the text is empty"),
            Self::ControlCharacter(c) => {
                write!(f, "the text has the control character U+{:04X}", u32::from(*c))
            }
            Self::CommandCharacter(c) => {
                write!(f, "the text begins with `{c}`, which this agent takes for a command")
            }
            Self::TooLong { bytes, limit } => {
                write!(f, "the text has {bytes} bytes, and {limit} are taken at most")
            }
        }
    }
}

fn list_pids(pids: &[u32]) -> String {
    let pids: Vec<String> = pids.iter().map(|pid| format!("pid {pid}")).collect();
    pids.join(", ")
}
