//! `agent-tty dashboard`

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Args;
use model::hosted::{Code, Fault};

use crate::cli::Context;
use crate::error::Error;

/// Watch sessions on one screen.
#[derive(Debug, Args)]
pub(crate) struct Dashboard {
    /// Sessions that are over, too.
    #[arg(long)]
    all: bool,
    /// Begin with this session.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

impl Dashboard {
    pub(crate) fn run(&self, _: &Context) -> Result<ExitCode, Error> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return Err(Fault::input("dashboard needs a terminal on stdin and stdout.").into());
        }
        let _ = (self.all, &self.session);
        let message =
            "this version has no dashboard; `ostler ls --watch` lists sessions as they change";
        Err(Fault::new(Code::InternalError, message).into())
    }
}
