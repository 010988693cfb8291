//! `ostler send-keys`

use std::process::ExitCode;

use clap::Args;
use flows::terminal::ask;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(Terminals, 7),
    effect: WritesState,
    agent_tty: 5,
    answers: &[answer::<hosted_wire::KeysResult>()],
    examples: &[
        example("send-keys build Ctrl+C", "Interrupt what runs.").on(Terminal),
        example("send-keys build Up Enter", "The last command again.").on(Terminal)
    ],
    cases: &[
        empty("send-keys build Enter"),
        usual("send-keys build Enter").on(Terminal),
        refused("send-keys build NoSuchKey").on(Terminal)
    ],
    uncased: &[ONE_FILE],
    ..entry!("send-keys", SendKeysArgs, run_send_keys)
}];

/// Press keys in a terminal: `Enter`, `Ctrl+C`, `C-c`, `Alt+x`, `F5`, `Up`, `é`.
///
/// The bytes follow what the program asked its terminal for. All keys are checked before any is
/// pressed.
#[derive(Debug, Args)]
pub(crate) struct SendKeysArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
    /// The keys, in order.
    #[arg(required = true)]
    keys: Vec<String>,
}

impl SendKeysArgs {
    pub(crate) fn run_send_keys(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let session = context.find_terminal(&self.id)?;
        let result = ask::send_keys(&context.terminals_home()?, &session, self.keys.clone())?;
        if context.json {
            context.print_json(result)?;
        } else {
            let (keys, bytes, seq) = (result.accepted.len(), result.bytes_written, result.seq);
            output::print_text(&format!("Sent {keys} key(s) ({bytes} byte(s), seq {seq}).\n"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
