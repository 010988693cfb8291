//! What `ostler` says to its network helper, the program `ostler-net`, and hears from it.
//!
//! One request as JSON on its standard input, one answer on its standard output: nothing secret stands
//! in an argument list, and the helper needs no command line of its own.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::webhook::WebhookRecord;

/// The version of what is said between the two; another one is refused.
pub const HELPER_PROTOCOL: u32 = 1;

/// One request to the helper.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HelperRequest {
    /// The version of what is said between the two.
    pub protocol: u32,
    /// ostler's state.
    pub home: PathBuf,
    /// ostler's caches.
    pub cache: PathBuf,
    /// What is wanted.
    pub ask: HelperAsk,
}

/// What the helper can be asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "ask")]
pub enum HelperAsk {
    /// To send a test event to a webhook.
    WebhookTest(Box<WebhookRecord>),
    /// To send events to webhooks until the input ends.
    WebhookSender(DaemonPlace),
}

/// Where the daemon listens that started the helper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonPlace {
    /// Its socket.
    pub socket: PathBuf,
    /// Which home it serves.
    pub home_id: String,
    /// The version of ostler.
    pub version: String,
    /// The program that started the helper.
    pub program: PathBuf,
}

/// How the helper failed: it decides how the command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HelperFailureKind {
    /// What was asked for makes no sense here.
    Input,
    /// There is no such member, operator or webhook.
    NotFound,
    /// A name could mean several.
    Ambiguous,
    /// Policy said no; nothing was changed.
    Refused,
    /// The other machine cannot be reached; nothing was done there.
    Unreachable,
    /// The other machine did not answer in time.
    Timeout,
    /// The other machine has too much to do; nothing was done there.
    Busy,
    /// A file could not be read.
    Read,
    /// A file could not be written.
    Write,
    /// The other side broke the protocol.
    Protocol,
    /// It was sent, and its outcome is not known.
    MayHaveApplied,
}

/// Why the helper did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct HelperFailure {
    /// What kind.
    pub kind: HelperFailureKind,
    /// The thing and the reason.
    pub message: String,
    /// The remedy.
    pub hint: String,
}

impl HelperFailure {
    /// A failure with its remedy.
    pub fn new(
        kind: HelperFailureKind,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { kind, message: message.into(), hint: hint.into() }
    }
}

/// What the helper answers: the result of what was asked, or why there is none.
pub type HelperAnswer<T> = Result<T, HelperFailure>;
