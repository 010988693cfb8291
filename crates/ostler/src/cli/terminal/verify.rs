//! `ostler verify`

use std::process::ExitCode;

use clap::Args;
use flows::terminal::verify::verify_log;

use crate::cli::CliContext;
use crate::error::{self, Error};
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(Terminals, 16),
    agent_tty: 17,
    answers: &[answer::<hosted_wire::VerifyResult>()],
    examples: &[example("verify build", "Whether its log is whole and unchanged.").on(Terminal)],
    cases: &[empty("verify build"), usual("verify build").on(Terminal), refused("verify ../x")],
    uncased: &[ONE_FILE],
    ..entry!("verify", VerifyArgs, run_verify)
}];

/// Check a terminal's log: that it is whole, and that it is as it was written.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
}

impl VerifyArgs {
    pub(crate) fn run_verify(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let result = verify_log(&context.find_terminal(&self.id)?)?;
        let sound = result.sound;
        if context.json {
            context.print_json(&result)?;
        } else if sound {
            let covered = match result.chain_holds {
                Some(_) => format!("{} of them covered by hashes", result.chained_bytes),
                None => "no hashes beside it".to_owned(),
            };
            let (events, bytes) = (result.events, result.bytes);
            output::print_text(&format!("Sound: {events} events, {bytes} bytes, {covered}.\n"))?;
        } else {
            let problems: Vec<String> = result.problems.iter().map(|p| text::one_line(p)).collect();
            output::print_text(&format!("Not sound:\n  {}\n", problems.join("\n  ")))?;
        }
        Ok(if sound { ExitCode::SUCCESS } else { error::exit_code_of("REPLAY_ERROR") })
    }
}
