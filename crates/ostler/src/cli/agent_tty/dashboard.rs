//! `agent-tty dashboard`

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Args;
use model::hosted::{FaultCode, HostFault};

use crate::cli::CliContext;
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
}

impl DashboardArgs {
    pub(crate) fn run_dashboard(&self, _: &CliContext) -> Result<ExitCode, Error> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return Err(HostFault::invalid_input(
                "dashboard needs a terminal on stdin and stdout.",
            )
            .into());
        }
        let _ = (self.all, &self.session);
        let message =
            "this version has no dashboard; `ostler ls --watch` lists sessions as they change";
        Err(HostFault::new(FaultCode::InternalError, message).into())
    }
}
