//! `ostler mark`

use std::process::ExitCode;

use clap::Args;
use flows::terminal::ask;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(Terminals, 15),
    effect: WritesState,
    agent_tty: 14,
    answers: &[answer::<hosted_wire::SeqResult>()],
    examples: &[example("mark build 'tests begin'", "A chapter of its recording.").on(Terminal)],
    cases: &[
        empty("mark build here"),
        usual("mark build here").on(Terminal),
        refused("mark ../x here")
    ],
    uncased: &[ONE_FILE],
    ..entry!("mark", MarkArgs, run_mark)
}];

/// Set a mark in a terminal's log; recordings have it as a chapter.
#[derive(Debug, Args)]
pub(crate) struct MarkArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
    /// What it says.
    label: String,
}

impl MarkArgs {
    pub(crate) fn run_mark(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let result = ask::set_mark(&context.find_terminal(&self.id)?, self.label.clone())?;
        if context.json {
            context.print_json(result)?;
        } else {
            output::print_text(&format!("Marker set at seq {}.\n", result.seq))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
