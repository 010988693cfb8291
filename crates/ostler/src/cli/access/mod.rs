//! `ostler access`

use std::ffi::OsString;
use std::process::ExitCode;

use access::keeper::{self, KeeperOrder};
use clap::Args;

pub(super) mod lend;
pub(super) mod list;
pub(super) mod log;
pub(super) mod open;
pub(super) mod prune;
pub(super) mod stop;

declare_commands![CommandEntry {
    place: HelpPlace(Credentials, 1),
    usual_member: "list",
    ..entry!("access", AccessArgs)
}];

/// Lend an ssh-agent to a piece of work, and take it back.
///
/// A session is a directory of its own with an ssh-agent whose keys expire. `active` means that its
/// time is not over, not that its agent was seen. Clean-up removes what is provably finished and says
/// of every other entry, in one line, why it stays.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 3 the directories are not ours alone (nothing was touched), \
                        4 refused or unproven, 5 the agent has not ended, 6 a removal failed.")]
pub(crate) struct AccessArgs {}

/// The role of a session's keeper, which `access open` starts: its output has no reader.
pub(crate) fn run_keeper(args: impl Iterator<Item = OsString>) -> ExitCode {
    let kept = KeeperOrder::from_args(args).map(|order| {
        keeper::run_keeper(order).inspect_err(|error| tracing::debug!(%error, "the keeper failed"))
    });
    if matches!(kept, Some(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
