//! The log of an access session: one line for each thing that happened to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::meta::LentKey;
use model::time::Time;

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessLogEntry {
    /// When.
    pub at: Time,
    /// What.
    #[serde(flatten)]
    pub event: AccessEvent,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum AccessEvent {
    /// The session was opened.
    Opened {
        /// With these keys.
        keys: Vec<String>,
        /// Until then.
        expires_at: Time,
    },
    /// Somebody asked for a signature.
    Sign {
        /// Of this key.
        fingerprint: String,
        /// Who asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peer: Option<SocketPeer>,
        /// For where.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        destination: Option<LoginDestination>,
        /// Whether a signature was given.
        granted: bool,
    },
    /// Somebody asked for something that this session does not allow.
    Refused {
        /// What.
        request: String,
        /// Who asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peer: Option<SocketPeer>,
        /// How often it was refused so far; lines are written at the first, the second, the fourth and
        /// so on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        times: Option<u64>,
    },
    /// The session's time was over and its keeper ended the agent.
    Expired,
    /// The agent ended.
    AgentEnded,
    /// The session was stopped.
    Stopped {
        /// Why: `asked`, `expired`, `orphaned`, `command-ended`.
        reason: String,
        /// What was found or done about the agent.
        agent: String,
    },
    /// The session's directory was removed.
    Pruned {
        /// Its state.
        state: String,
        /// The proof that the agent was gone.
        agent: String,
    },
    /// The log is full; later requests are not in it.
    Full,
}

/// The process that connected the socket. It may have passed the connection on to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SocketPeer {
    /// Its pid when it connected.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Kernel start time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// Short name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
}

/// Where a signature logs in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginDestination {
    /// The user there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The host, by its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_key: Option<String>,
    /// Whether the agent was forwarded there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forwarded: bool,
}

impl AccessEvent {
    /// The fingerprints that an opened session shows.
    pub fn from_opening(keys: &[LentKey], expires_at: Time) -> Self {
        let keys = keys.iter().map(|key| key.fingerprint.clone()).collect();
        Self::Opened { keys, expires_at }
    }
}
