//! `ostler paste`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use flows::terminal::screen::Personality;
use flows::terminal::{ask, source};

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(Terminals, 6),
    effect: WritesState,
    agent_tty: 4,
    answers: &[answer::<hosted_wire::SeqResult>()],
    examples: &[example("paste build 'two words'", "Paste, as a person would.").on(Terminal)],
    cases: &[
        empty("paste build hello"),
        usual("paste build hello").on(Terminal),
        refused("paste build")
    ],
    uncased: &[ONE_FILE],
    ..entry!("paste", PasteArgs, run_paste)
}];

/// Paste text into a terminal, in brackets if the program asked for them.
#[derive(Debug, Args)]
pub(crate) struct PasteArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
    /// The text; `-` reads standard input.
    text: Option<String>,
    /// Take the text from a file.
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Put brackets around it whether or not the program asked for them.
    #[arg(long)]
    bracketed: bool,
}

impl PasteArgs {
    pub(crate) fn run_paste(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let personality = context.personality;
        let text =
            source::read_text("text", self.text.as_deref(), self.file.as_deref(), personality)?;
        let bracketed = self.bracketed || personality == Personality::AgentTty;
        let result = ask::paste_text(&context.find_terminal(&self.id)?, text, bracketed)?;
        if context.json {
            context.print_json(result)?;
        } else {
            output::print_text(&format!("Pasted text into session at seq {}.\n", result.seq))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
