//! `ostler destroy`

use std::process::ExitCode;

use clap::Args;
use flows::terminal::destroy::destroy;

use crate::cli::Context;
use crate::error::Error;
use crate::render::output;

/// End a terminal and the programs on it. Its files stay until they are collected.
///
/// The programs are hung up, terminated, killed, each a moment after the other. This always ends.
#[derive(Debug, Args)]
pub(crate) struct Destroy {
    /// The session.
    #[arg(value_name = "SESSION")]
    id: String,
    /// Kill at once.
    #[arg(long)]
    force: bool,
}

impl Destroy {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let result = destroy(context.session(&self.id)?, self.force)?;
        if context.json {
            context.answer(result)?;
        } else {
            output::text(&format!("Session destroyed: {}\n", result.session_id))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
