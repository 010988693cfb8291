//! `ostler signal`

use std::process::ExitCode;

use clap::Args;
use flows::terminal::ask;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(Drive, 7),
    effect: WritesState,
    agent_tty: 13,
    answers: &[answer::<hosted_wire::SignalResult>()],
    examples: &[example("signal build SIGINT", "To the program on the terminal.").on(Terminal)],
    cases: &[
        empty("signal build SIGINT"),
        usual("signal build SIGINT").on(Terminal),
        refused("signal build SIGWHAT").on(Terminal)
    ],
    uncased: &[ONE_FILE],
    ..entry!("signal", SignalArgs, run_signal)
}];

/// Send a signal to the program on a terminal.
#[derive(Debug, Args)]
pub(crate) struct SignalArgs {
    /// The session.
    #[arg(value_name = "SESSION")]
    id: String,
    /// SIGTERM, SIGINT, SIGKILL, SIGHUP, SIGUSR1 or SIGUSR2.
    signal: String,
    /// To its whole process group and to whatever is in the foreground.
    #[arg(long)]
    group: bool,
}

impl SignalArgs {
    pub(crate) fn run_signal(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let session = context.find_terminal(&self.id)?;
        let result = ask::send_signal(&session, self.signal.clone(), self.group)?;
        if context.json {
            context.print_json(result)?;
        } else {
            output::print_text(&format!("Signal {} delivered to session.\n", result.signal))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
