//! Why something that the writer was asked for was not done: kind, message and remedy, as they cross the
//! daemon's socket.

use serde::{Deserialize, Serialize};

/// What kind of failure it was: it decides how the command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureKind {
    /// What was asked for makes no sense here.
    Input,
    /// There is no such thing.
    NotFound,
    /// Policy said no; nothing was changed.
    Refused,
    /// A file could not be read.
    Read,
    /// A file could not be written.
    Write,
    /// It was passed on to another process, whose answer is not known.
    MayHaveApplied,
}

/// Why it was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub kind: FailureKind,
    /// The thing and the reason.
    pub message: String,
    pub hint: String,
}
