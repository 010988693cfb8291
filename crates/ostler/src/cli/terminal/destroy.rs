//! `ostler destroy`

use std::process::ExitCode;

use clap::Args;
use flows::terminal::destroy::destroy_terminal;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(Terminals, 17),
    effect: WritesState,
    agent_tty: 16,
    answers: &[answer::<hosted_wire::DestroyResult>()],
    examples: &[
        example("destroy build", "End it. Its files stay until they are collected.").on(Terminal)
    ],
    cases: &[
        empty("destroy build"),
        usual("destroy build --force").on(Terminal),
        refused("destroy ../x")
    ],
    uncased: &[ONE_FILE],
    ..entry!("destroy", DestroyArgs, run_destroy)
}];

/// End a terminal and the programs on it. Its files stay until they are collected.
///
/// The programs are hung up, terminated, killed, each a moment after the other. This always ends.
#[derive(Debug, Args)]
pub(crate) struct DestroyArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
    /// Kill at once.
    #[arg(long)]
    force: bool,
}

impl DestroyArgs {
    pub(crate) fn run_destroy(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let result = destroy_terminal(context.find_terminal(&self.id)?, self.force)?;
        if context.json {
            context.print_json(result)?;
        } else {
            output::print_text(&format!("Session destroyed: {}\n", result.session_id))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
