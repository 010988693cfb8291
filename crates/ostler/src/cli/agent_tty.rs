//! The agent-tty personality.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;

use flows::terminal::Home;
use flows::terminal::screen::Personality;

/// Its global options, resolved.
#[derive(Clone, Debug)]
pub(crate) struct Globals {
    pub(super) home: PathBuf,
    pub(super) idle_timeout_ms: u64,
}

impl Globals {
    pub(super) fn terminals(&self) -> Home {
        Home {
            root: self.home.clone(),
            sockets: PathBuf::from("/tmp/agent-tty"),
            personality: Personality::AgentTty,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

pub(crate) fn is_meant(_called: &OsStr, _first: Option<&OsStr>) -> bool {
    false
}

pub(crate) fn main() -> ExitCode {
    ExitCode::SUCCESS
}
