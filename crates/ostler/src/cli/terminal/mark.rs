//! `ostler mark`

use std::process::ExitCode;

use clap::Args;
use flows::terminal::ask;

use crate::cli::Context;
use crate::error::Error;
use crate::render::output;

/// Set a mark in a terminal's log; recordings have it as a chapter.
#[derive(Debug, Args)]
pub(crate) struct Mark {
    /// The session.
    #[arg(value_name = "SESSION")]
    id: String,
    /// What it says.
    label: String,
}

impl Mark {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let result = ask::mark(&context.session(&self.id)?, self.label.clone())?;
        if context.json {
            context.answer(result)?;
        } else {
            output::text(&format!("Marker set at seq {}.\n", result.seq))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
