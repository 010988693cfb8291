//! `ostler access`

use std::ffi::OsString;
use std::process::ExitCode;

use access::keeper::{self, Order};
use clap::{Args, Subcommand};

use crate::cli::Context;
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
pub(crate) struct Access {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Open(open::Open),
    List(list::List),
    Show(list::Show),
    Env(lend::Env),
    Exec(lend::Exec),
    Log(log::Log),
    Stop(stop::Stop),
    Prune(prune::Prune),
}

impl Access {
    /// The name in the envelope.
    pub(crate) fn name(&self) -> &'static str {
        match &self.what {
            What::Open(_) => "access open",
            What::List(_) => "access list",
            What::Show(_) => "access show",
            What::Env(_) => "access env",
            What::Exec(_) => "access exec",
            What::Log(_) => "access log",
            What::Stop(_) => "access stop",
            What::Prune(_) => "access prune",
        }
    }

    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        match &self.what {
            What::Open(command) => command.run(context),
            What::List(command) => command.run(context),
            What::Show(command) => command.run(context),
            What::Env(command) => command.run(context),
            What::Exec(command) => command.run(context),
            What::Log(command) => command.run(context),
            What::Stop(command) => command.run(context),
            What::Prune(command) => command.run(context),
        }
    }
}

/// The role of a session's keeper, which `access open` starts: nobody reads what it says.
pub(crate) fn keep(args: impl Iterator<Item = OsString>) -> ExitCode {
    let kept = Order::from_args(args).map(keeper::keep);
    if matches!(kept, Some(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
