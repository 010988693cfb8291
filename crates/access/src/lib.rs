//! Access sessions: lend an ssh-agent to a piece of work, and take it back safely.
//!
//! ```text
//! <home>/access/                 0700, ours
//!   sessions/<id>/               0700
//!     meta.json agent.env        0600, written by open; meta.json last
//!     agent.sock                 the lent socket, served by the session's keeper
//!     keys.sock                  the ssh-agent's own socket
//!     stop.json                  0600, written by stop
//!   locks/<id>.lock              0600
//!   log/<id>.jsonl               0600, outlives the session
//! ```
//!
//! Everything below `access/` is reached through directory descriptors ([`root`], [`check`]); every
//! rule and every code is in `crate::rules`. Clocks and the process table are those of a [`Machine`], so that
//! a test can have another one.

use std::io;

use crate::rules::state::AccessClocks;
use model::refusal::Refusal;
use sys::machine::Machine;

use model::address::AddressError;

pub(crate) use crate::timeouts::SOCKET_CONNECT_TIMEOUT;

pub mod check;
pub mod client;
mod connections;
pub mod findings;
pub mod keeper;
pub mod list;
pub mod log;
pub mod open;
pub mod protocol;
mod proxy;
pub mod prune;
pub mod root;
pub mod rules;
pub mod sight;
pub mod stop;
mod timeouts;
pub mod wire;

pub use root::{AccessRoot, RootFault};

/// The clocks when the command began, as the rules read them.
pub(crate) fn access_clocks(machine: &Machine) -> AccessClocks {
    AccessClocks {
        now: machine.now(),
        boottime_s: machine.began().since_boot.as_secs(),
        boot: machine.observer().boot_identity().as_ref().map(crate::rules::meta::boot_text),
    }
}

/// Why something about an access session did not work.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The directories cannot be trusted.
    #[error(transparent)]
    Root(#[from] RootFault),
    /// No such session, or several.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The session breaks a rule.
    #[error("access session `{id}` cannot be used: {}", .skip.reason_text())]
    Unusable { id: String, skip: Refusal },
    /// The session is over, or its agent is not there.
    #[error("access session `{id}` is {what}")]
    NotActive {
        id: String,
        /// What it is instead.
        what: String,
    },
    /// A program of OpenSSH could not be started.
    #[error("`{program}` cannot be started: {source}")]
    Program {
        program: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A program of OpenSSH, or the keeper, failed.
    #[error("{what}")]
    Failed {
        /// What, in words.
        what: String,
    },
    /// A key was not added to the agent.
    #[error("ssh-add could not add the key: {words}")]
    Key {
        /// What ssh-add said.
        words: String,
    },
    /// Something that was asked for is not possible.
    #[error("{what}")]
    Refused {
        /// What and why.
        what: String,
        hint: String,
    },
    /// A file could not be read or written.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl AccessError {
    /// An error of the system while something was tried.
    pub(crate) fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// A few characters that are unlikely to be chosen twice.
pub(crate) fn random_word() -> io::Result<String> {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let bytes: [u8; 10] = sys::random::random_bytes()?;
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect())
}
