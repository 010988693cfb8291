//! The log of an access session: one line for each thing that happened to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::meta::LentKey;
use model::time::Time;

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessLogEntry {
    pub at: Time,
    #[serde(flatten)]
    pub event: AccessEvent,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum AccessEvent {
    /// The session was opened.
    Opened {
        /// With these keys.
        keys: Vec<String>,
        expires_at: Time,
    },
    /// A signature was requested.
    Sign {
        /// Of this key.
        fingerprint: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peer: Option<SocketPeer>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        destination: Option<LoginDestination>,
        /// Whether a signature was given.
        granted: bool,
    },
    /// A request that this session does not allow.
    Refused {
        request: String,
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
    pub uid: u32,
    /// Kernel start time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
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
