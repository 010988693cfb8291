//! `agent-tty dashboard`

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Args;
use model::hosted::HostFault;

use crate::cli::CliContext;
use crate::cli::top::TopArgs;
use crate::error::Error;

/// Watch what your agents are doing in their shells.
#[derive(Debug, Args)]
pub(crate) struct DashboardArgs {
    /// Sessions that are over, too.
    #[arg(long)]
    all: bool,
    /// Begin with this session.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The line to the process that gives the terminal back if this one cannot.
    #[arg(long, hide = true, value_name = "NUMBER")]
    below_guard: Option<i32>,
}

impl DashboardArgs {
    pub(crate) fn run_dashboard(&self, context: &CliContext) -> Result<ExitCode, Error> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return Err(HostFault::invalid_input(
                "dashboard needs a terminal on stdin and stdout.",
            )
            .into());
        }
        let session = self.session.as_deref().map(|id| context.find_terminal(id)).transpose()?;
        let session = session.map(|session| session.id);
        TopArgs::of_terminals(self.all, session, self.below_guard).run_top(context)
    }
}
