//! What can go wrong with a hosted terminal, as it is said over the socket and to programs.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

macro_rules! codes {
    ($($name:ident = $word:literal),+ $(,)?) => {
        /// A stable code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum FaultCode {
            $(
                #[doc = $word]
                #[serde(rename = $word)]
                $name,
            )+
        }

        impl FaultCode {
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The word of the JSON contract.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

codes! {
    InternalError = "INTERNAL_ERROR",
    SkillNotFound = "SKILL_NOT_FOUND",
    InvalidSessionId = "INVALID_SESSION_ID",
    InvalidDimensions = "INVALID_DIMENSIONS",
    InvalidSignal = "INVALID_SIGNAL",
    InvalidKeys = "INVALID_KEYS",
    InvalidDuration = "INVALID_DURATION",
    InvalidInput = "INVALID_INPUT",
    SessionNotFound = "SESSION_NOT_FOUND",
    SessionNotRunning = "SESSION_NOT_RUNNING",
    SessionAlreadyDestroyed = "SESSION_ALREADY_DESTROYED",
    HostTimeout = "HOST_TIMEOUT",
    HostUnreachable = "HOST_UNREACHABLE",
    ExportError = "EXPORT_ERROR",
    StorageReadError = "STORAGE_READ_ERROR",
    StorageWriteError = "STORAGE_WRITE_ERROR",
    ManifestValidationError = "MANIFEST_VALIDATION_ERROR",
    ProtocolError = "PROTOCOL_ERROR",
    RpcError = "RPC_ERROR",
    ReplayError = "REPLAY_ERROR",
    WaitTimeout = "WAIT_TIMEOUT",
}

impl FaultCode {
    /// Whether the same call may succeed later.
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::HostUnreachable | Self::HostTimeout | Self::RpcError)
    }
}

/// One thing that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFault {
    pub code: FaultCode,
    /// The thing and the reason.
    pub message: String,
    /// The offending values by name, for programs. They do not go over a host's socket.
    #[serde(default, skip_serializing)]
    pub details: Map<String, Value>,
}

impl HostFault {
    /// A fault of that kind.
    pub fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Map::new() }
    }

    /// The same, with a value that a program may want to know.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    pub fn invalid_input(message: impl Into<String>) -> Self {
        Self::new(FaultCode::InvalidInput, message)
    }
}

impl fmt::Display for HostFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for HostFault {}
