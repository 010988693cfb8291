//! `ostler signal`

use std::process::ExitCode;

use clap::Args;
use flows::terminal::ask;

use crate::cli::Context;
use crate::error::Error;
use crate::render::output;

/// Send a signal to the program on a terminal.
#[derive(Debug, Args)]
pub(crate) struct Signal {
    /// The session.
    #[arg(value_name = "SESSION")]
    id: String,
    /// SIGTERM, SIGINT, SIGKILL, SIGHUP, SIGUSR1 or SIGUSR2.
    signal: String,
    /// To its whole process group and to whatever is in the foreground.
    #[arg(long)]
    group: bool,
}

impl Signal {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let session = context.session(&self.id)?;
        let result = ask::signal(&session, self.signal.clone(), self.group)?;
        if context.json {
            context.answer(result)?;
        } else {
            output::text(&format!("Signal {} delivered to session.\n", result.signal))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
