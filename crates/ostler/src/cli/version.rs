//! `ostler version`

use std::process::ExitCode;

use clap::Args;
use model::wire::VersionResult;

use crate::cli::Context;
use crate::error::Error;
use crate::render::output;

/// Print the version.
#[derive(Debug, Args)]
pub(crate) struct Version {}

/// The version of this build.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Version {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        if !context.json {
            return Ok(plain());
        }
        context.answer(VersionResult {
            name: "ostler",
            version: VERSION,
            target: concat!(env!("OSTLER_TARGET")),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints the version without anything else happening.
pub(crate) fn plain() -> ExitCode {
    match output::text(concat!("ostler ", env!("CARGO_PKG_VERSION"), "\n")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => error.exit_code(),
    }
}
