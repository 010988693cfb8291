//! `ostler access`

use std::ffi::OsString;
use std::process::ExitCode;

use access::keeper::{self, KeeperOrder};
use clap::{Args, Subcommand};

use crate::cli::CliContext;
use crate::error::Error;

mod lend;
mod list;
mod log;
mod open;
mod prune;
mod stop;

/// Lend an ssh-agent to a piece of work, and take it back.
///
/// A session is a directory of its own with an ssh-agent whose keys expire. `active` means that its
/// time is not over, not that its agent was seen. Clean-up removes what is provably finished and says
/// of every other entry, in one line, why it stays.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 3 the directories are not ours alone (nothing was touched), \
                        4 refused or unproven, 5 the agent has not ended, 6 a removal failed.")]
pub(crate) struct AccessArgs {
    #[command(subcommand)]
    what: AccessCommand,
}

#[derive(Debug, Subcommand)]
enum AccessCommand {
    Open(open::AccessOpenArgs),
    List(list::AccessListArgs),
    Show(list::AccessShowArgs),
    Env(lend::AccessEnvArgs),
    Exec(lend::AccessExecArgs),
    Log(log::AccessLogArgs),
    Stop(stop::AccessStopArgs),
    Prune(prune::AccessPruneArgs),
}

impl AccessArgs {
    /// The name in the envelope.
    pub(crate) fn envelope_name(&self) -> &'static str {
        match &self.what {
            AccessCommand::Open(_) => "access open",
            AccessCommand::List(_) => "access list",
            AccessCommand::Show(_) => "access show",
            AccessCommand::Env(_) => "access env",
            AccessCommand::Exec(_) => "access exec",
            AccessCommand::Log(_) => "access log",
            AccessCommand::Stop(_) => "access stop",
            AccessCommand::Prune(_) => "access prune",
        }
    }

    pub(crate) fn run_access(&self, context: &CliContext) -> Result<ExitCode, Error> {
        match &self.what {
            AccessCommand::Open(command) => command.run_access_open(context),
            AccessCommand::List(command) => command.run_access_list(context),
            AccessCommand::Show(command) => command.run_access_show(context),
            AccessCommand::Env(command) => command.run_access_env(context),
            AccessCommand::Exec(command) => command.run_access_exec(context),
            AccessCommand::Log(command) => command.run_access_log(context),
            AccessCommand::Stop(command) => command.run_access_stop(context),
            AccessCommand::Prune(command) => command.run_access_prune(context),
        }
    }
}

/// The role of a session's keeper, which `access open` starts: nobody reads what it says.
pub(crate) fn run_keeper(args: impl Iterator<Item = OsString>) -> ExitCode {
    let kept = KeeperOrder::from_args(args).map(|order| {
        crate::logging::log_role_in(&order.home, "keeper");
        keeper::run_keeper(order).inspect_err(|error| tracing::debug!(%error, "the keeper failed"))
    });
    if matches!(kept, Some(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
