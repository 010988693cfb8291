//! `ostler resize`

use std::process::ExitCode;

use clap::Args;
use flows::terminal::ask;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(Terminals, 14),
    effect: WritesState,
    agent_tty: 12,
    answers: &[answer::<hosted_wire::Dimensions>()],
    examples: &[example("resize build --cols 120 --rows 40", "Give it another size.").on(Terminal)],
    cases: &[
        empty("resize build --cols 100 --rows 30"),
        usual("resize build --cols 100 --rows 30").on(Terminal),
        refused("resize build --cols 0 --rows 30").on(Terminal)
    ],
    uncased: &[ONE_FILE],
    ..entry!("resize", ResizeArgs, run_resize)
}];

/// Change the size of a terminal.
#[derive(Debug, Args)]
pub(crate) struct ResizeArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
    /// Columns.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    cols: String,
    /// Rows.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    rows: String,
}

impl ResizeArgs {
    pub(crate) fn run_resize(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let session = context.find_terminal(&self.id)?;
        session.check_can_receive()?;
        let (cols, rows) =
            (super::parse_cells("--cols", &self.cols)?, super::parse_cells("--rows", &self.rows)?);
        let result = ask::resize_terminal(&session, cols.into(), rows.into())?;
        if context.json {
            context.print_json(result)?;
        } else {
            output::print_text(&format!("Resized session to {}x{}.\n", result.cols, result.rows))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
