//! `ostler man`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::cli::{CliContext, command_tree, version};
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(SetUp, 8),
    effect: WritesFiles,
    examples: &[
        example("man ls", "The manual page of one command."),
        example("man --out .", "All of them, as files.")
    ],
    cases: &[refused("man nothing"), also("man").harmless()],
    uncased: &[
        (Usual, "it is the text of the help, which tests/cli/help.rs keeps whole"),
        ONE_HOME,
        ONE_PROGRAM
    ],
    ..entry!("man", ManArgs, run_man)
}];

/// Print the manual page, or write one page per command.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Print the page of this command.
    command: Option<String>,
    /// Write every page into this directory instead.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
}

impl ManArgs {
    pub(crate) fn run_man(&self, _: &CliContext) -> Result<ExitCode, Error> {
        let tree = command_tree();
        if let Some(directory) = &self.out {
            clap_mangen::generate_to(tree, directory).map_err(|error| Error::Write {
                path: directory.display().to_string(),
                reason: error.to_string(),
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        let page = match &self.command {
            None => tree,
            Some(name) => tree
                .find_subcommand(name)
                .ok_or_else(|| {
                    Error::usage_error(
                        format!("there is no command `{name}`"),
                        "`ostler help` lists the commands",
                    )
                })?
                .clone()
                .display_name(format!("ostler-{name}")),
        };
        let mut out = Vec::new();
        clap_mangen::Man::new(page.version(version::OSTLER_VERSION)).render(&mut out)?;
        output::print_text(&String::from_utf8_lossy(&out))?;
        Ok(ExitCode::SUCCESS)
    }
}
