//! `ostler run`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use flows::terminal::screen::Personality;
use flows::terminal::{ask, source};
use model::hosted::HostFault;
use model::hosted::wire::{RunParams, RunResult};

use crate::cli::CliContext;
use crate::error::{self, Error};
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(Terminals, 2),
    effect: WritesState,
    agent_tty: 2,
    answers: &[answer::<hosted_wire::RunResult>()],
    examples: &[example(
        "run build 'echo hello' --capture",
        "Give a command to the shell, wait, and print what it printed."
    )
    .on(Terminal)],
    cases: &[
        empty("run build true"),
        usual("run build 'echo hello' --capture").on(Terminal),
        refused("run build true --timeout 0")
    ],
    uncased: &[ONE_FILE],
    ..entry!("run", RunArgs, run_shell_command)
}];

/// Give a command to the shell in a terminal and wait for its end.
///
/// The shell must be at its prompt. Exit codes: 0 when the command ended, whatever its own exit code
/// is (see `exitCode`); 11 when the time was up; 4 when the session ended first.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
    /// The command; `-` reads standard input.
    command: Option<String>,
    /// Take the command from a file.
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// How long to wait for its end.
    #[arg(long, value_name = "MS", default_value = "30000", allow_hyphen_values = true)]
    timeout: String,
    /// Do not wait.
    #[arg(long)]
    no_wait: bool,
    /// Give back what it printed.
    #[arg(long, conflicts_with = "no_wait")]
    capture: bool,
}

impl RunArgs {
    pub(crate) fn run_shell_command(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let personality = context.personality;
        let command = source::read_text(
            // agent-tty calls it so in its messages.
            if personality == Personality::AgentTty { "text" } else { "command" },
            self.command.as_deref(),
            self.file.as_deref(),
            personality,
        )?;
        let timeout = self.timeout.parse::<u64>().ok().filter(|millis| *millis > 0);
        let timeout_ms =
            Some(timeout.ok_or_else(|| {
                HostFault::invalid_input("--timeout must be a positive integer.")
            })?);
        let session = context.find_terminal(&self.id)?;
        let params = RunParams {
            command,
            no_wait: self.no_wait,
            timeout_ms,
            capture: self.capture,
            by: None,
        };
        let result = ask::run_command(&session, params)?;
        if context.json {
            context.print_json(&result)?;
        } else {
            output::print_text(&render_run_text(&result))?;
            let failed = result.exit_code.filter(|code| *code != 0);
            if let (Personality::Ostler, true, Some(code)) = (personality, self.capture, failed) {
                output::print_notice(&format!("exit code {code}"));
            }
        }
        Ok(match (personality, result.completed, result.timed_out) {
            (Personality::AgentTty, ..) | (_, None | Some(true), _) => ExitCode::SUCCESS,
            (_, _, Some(true)) => error::exit_code_of("WAIT_TIMEOUT"),
            _ => error::exit_code_of("SESSION_NOT_RUNNING"),
        })
    }
}

fn render_run_text(result: &RunResult) -> String {
    let (seq, took) = (result.seq, result.duration_ms.unwrap_or(0));
    if let Some(output) = &result.output {
        return text::many_lines(output);
    }
    match (result.completed, result.timed_out) {
        (None, _) => format!("Command injected into session (seq={seq}).\n"),
        (Some(true), _) => match result.exit_code.filter(|code| *code != 0) {
            Some(code) => {
                format!("Command completed with exit code {code} (seq={seq}, {took}ms).\n")
            }
            None => format!("Command completed (seq={seq}, {took}ms).\n"),
        },
        (_, Some(true)) => format!("Command timed out after {took}ms (seq={seq}).\n"),
        _ => format!("Session ended before the command did (seq={seq}, {took}ms).\n"),
    }
}
