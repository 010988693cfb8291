//! `ostler version`

use std::process::ExitCode;

use clap::Args;
use model::wire::VersionResult;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(SetUp, 9),
    answers: &[answer::<wire::VersionResult>()],
    examples: &[example("version --json", "With the target that it was built for.")],
    cases: &[usual("version"), refused("version --no-such-option")],
    uncased: &[ONE_HOME, ONE_PROGRAM],
    ..entry!("version", VersionArgs, run_version)
}];

/// Print the version.
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {}

/// The version of this build.
pub(crate) const OSTLER_VERSION: &str = env!("CARGO_PKG_VERSION");

impl VersionArgs {
    pub(crate) fn run_version(&self, context: &CliContext) -> Result<ExitCode, Error> {
        if !context.json {
            return Ok(print_version());
        }
        context.print_json(VersionResult {
            name: "ostler",
            version: OSTLER_VERSION,
            target: concat!(env!("OSTLER_TARGET")),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints the version without anything else happening.
pub(crate) fn print_version() -> ExitCode {
    match output::print_text(concat!("ostler ", env!("CARGO_PKG_VERSION"), "\n")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => error.exit_code(),
    }
}
