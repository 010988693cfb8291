//! `ostler resize`

use std::process::ExitCode;

use clap::Args;
use flows::terminal::ask;

use crate::cli::Context;
use crate::error::Error;
use crate::render::output;

/// Change the size of a terminal.
#[derive(Debug, Args)]
pub(crate) struct Resize {
    /// The session.
    #[arg(value_name = "SESSION")]
    id: String,
    /// Columns.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    cols: String,
    /// Rows.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    rows: String,
}

impl Resize {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let session = context.session(&self.id)?;
        session.target()?;
        let (cols, rows) = (super::cells(&self.cols)?, super::cells(&self.rows)?);
        let result = ask::resize(&session, cols.into(), rows.into())?;
        if context.json {
            context.answer(result)?;
        } else {
            output::text(&format!("Resized session to {}x{}.\n", result.cols, result.rows))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
