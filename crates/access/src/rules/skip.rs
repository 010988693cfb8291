//! Why an entry is kept: one code each, and a few words that never quote a file.

use std::fmt;

/// The codes of `access prune`. They are expected safety behaviour, not failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Somebody holds the session's lock.
    Locked,
    /// Something changed between check and removal.
    Changed,
    /// The directory holds a name that ostler did not create.
    UnexpectedFiles,
}

impl SkipCode {
    /// Every code.
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

/// Why one entry is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkipReason {
    /// The code.
    pub code: SkipCode,
    /// In words: names of files and rules, never what a file says.
    pub detail: String,
}

impl SkipReason {
    /// A reason with its words.
    pub fn new(code: SkipCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.detail)
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
