//! `ostler signal`

use std::process::ExitCode;

use clap::Args;
use flows::terminal::ask;
use flows::terminal::screen::Personality;
use sys::proc::Signal;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(Terminals, 9),
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
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
    /// Its name or number: TERM, INT, KILL, HUP, USR1, USR2, QUIT, STOP, CONT or WINCH.
    signal: String,
    /// To its whole process group and to whatever is in the foreground.
    #[arg(long)]
    group: bool,
}

impl SignalArgs {
    pub(crate) fn run_signal(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let session = context.find_terminal(&self.id)?;
        let signal = match context.personality {
            Personality::Ostler => full_signal_name(&self.signal),
            Personality::AgentTty => self.signal.clone(),
        };
        let result = ask::send_signal(&session, signal, self.group)?;
        if context.json {
            context.print_json(result)?;
        } else {
            output::print_text(&format!("Signal {} delivered to session.\n", result.signal))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A signal as its host knows it, from the ways people write it: `TERM`, `term`, `15`.
fn full_signal_name(text: &str) -> String {
    let by_number = |number: i32| Signal::NAMED.iter().find(|(_, one)| one.number() == number);
    if let Some((name, _)) = text.parse().ok().and_then(by_number) {
        return (*name).to_owned();
    }
    let upper = text.to_ascii_uppercase();
    if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") }
}
