//! `ostler type`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use flows::terminal::{ask, source};

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(Terminals, 5),
    effect: WritesState,
    agent_tty: 3,
    answers: &[answer::<hosted_wire::SeqResult>()],
    examples: &[example("type build 'yes' --append-newline", "Answer a question of the program.")
        .on(Terminal)],
    cases: &[
        empty("type build hello"),
        usual("type build hello").on(Terminal),
        refused("type build")
    ],
    uncased: &[ONE_FILE],
    ..entry!("type", TypeArgs, run_type)
}];

/// Type text into a terminal, as it is: nothing is added and no key is meant.
#[derive(Debug, Args)]
pub(crate) struct TypeArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
    /// The text; `-` reads standard input.
    text: Option<String>,
    /// Take the text from a file.
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Type a line break after it.
    #[arg(long)]
    append_newline: bool,
}

impl TypeArgs {
    pub(crate) fn run_type(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let personality = context.personality;
        let mut text =
            source::read_text("text", self.text.as_deref(), self.file.as_deref(), personality)?;
        if self.append_newline {
            text.push('\n');
        }
        let result = ask::type_text(&context.find_terminal(&self.id)?, text)?;
        if context.json {
            context.print_json(result)?;
        } else {
            output::print_text(&format!("Typed text into session at seq {}.\n", result.seq))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
