//! `ostler batch`

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use flows::terminal::{batch, source};
use model::hosted::wire::BatchResult;
use sys::proc::Signal;

use crate::cli::CliContext;
use crate::error::{self, Error};
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(Terminals, 8),
    effect: WritesState,
    agent_tty: 6,
    answers: &[answer::<hosted_wire::BatchResult>()],
    examples: &[example(
        "batch build '[{\"run\":\"true\"},{\"sendKeys\":[\"Ctrl+L\"]}]'",
        "Two steps in one call."
    )
    .on(Terminal)],
    cases: &[
        empty("batch build '[{\"run\":\"true\"}]'"),
        usual("batch build '[{\"run\":\"true\"}]'").on(Terminal),
        refused("batch build nonsense").on(Terminal)
    ],
    uncased: &[ONE_FILE],
    ..entry!("batch", BatchArgs, run_batch)
}];

/// Do several things in a terminal, one after the other, in one call.
///
/// The steps are a JSON array: `{"type": TEXT}`, `{"paste": TEXT}`, `{"sendKeys": [KEY, …]}`,
/// `{"run": COMMAND, "noWait"?, "timeout"?}`, `{"wait": {"text"?, "regex"?, "gone"?,
/// "screenStableMs"?, "cursorRow"?, "cursorCol"?, "timeout"?}}`. All are checked before any is done.
#[derive(Debug, Args)]
pub(crate) struct BatchArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
    /// The steps; `-` reads standard input.
    steps: Option<String>,
    /// Take the steps from a file.
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Go on after a step that failed.
    #[arg(long)]
    keep_going: bool,
}

impl BatchArgs {
    pub(crate) fn run_batch(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let personality = context.personality;
        let plan =
            source::read_text("steps", self.steps.as_deref(), self.file.as_deref(), personality)?;
        let steps = batch::parse_batch(&plan, personality)?;
        let session = context.find_terminal(&self.id)?;
        session.check_can_receive()?;
        let _watch = sys::signals::watch_signals(&[Signal::Interrupt, Signal::Terminate])?;
        let result = batch::run_batch(
            &context.terminals_home()?,
            &session,
            &steps,
            self.keep_going,
            &|| sys::signals::received_interruption().is_some(),
            None,
        );
        if context.json {
            context.print_json(&result)?;
        } else {
            output::print_text(&render_batch_text(&result))?;
        }
        if let Some(signal) = sys::signals::received_interruption() {
            return Ok(ExitCode::from(128 + signal));
        }
        let first =
            result.failed_indices.first().and_then(|index| result.steps[*index].error.as_ref());
        Ok(match first {
            None => ExitCode::SUCCESS,
            Some(_) if self.keep_going => error::exit_code_of("INTERNAL_ERROR"),
            Some(error) => error::exit_code_of(error.code),
        })
    }
}

fn render_batch_text(result: &BatchResult) -> String {
    let mut out = String::new();
    for step in &result.steps {
        let _ = writeln!(
            out,
            "[{}] {} {} ({}ms)",
            step.index, step.kind, step.status, step.duration_ms
        );
    }
    let _ = writeln!(out, "{}/{} steps completed", result.completed_count, result.steps.len());
    for index in &result.failed_indices {
        if let Some(error) = &result.steps[*index].error {
            let _ = writeln!(
                out,
                "step {index} failed: {}: {}",
                error.code,
                text::one_line(&error.message)
            );
        }
    }
    out
}
