//! `ostler man`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::cli::{CliContext, command_tree, version};
use crate::env;
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(SetUp, 8),
    effect: WritesFiles,
    examples: &[
        example("man ls", "The manual page of one command."),
        example("man --out .", "All of them, as files.")
    ],
    cases: &[usual("man skills path").harmless(), refused("man nothing"), also("man").harmless()],
    uncased: &[ONE_HOME, ONE_PROGRAM],
    ..entry!("man", ManArgs, run_man)
}];

/// Print the manual page, or write one page per command.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Print the page of this command.
    command: Vec<String>,
    /// Write every page into this directory instead.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
}

impl ManArgs {
    pub(crate) fn run_man(&self, _: &CliContext) -> Result<ExitCode, Error> {
        let mut tree = command_tree().disable_help_subcommand(true);
        tree.build();
        if let Some(directory) = &self.out {
            write_pages(&tree, directory)?;
            return Ok(ExitCode::SUCCESS);
        }
        let page = self.command.iter().try_fold(&tree, |at, word| at.find_subcommand(word));
        let page = page.ok_or_else(|| {
            Error::usage_error(
                format!("there is no command `{}`", self.command.join(" ")),
                "`ostler help` lists the commands",
            )
        })?;
        output::print_text(&render_page(page)?)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes the page of a command and those of its own commands.
fn write_pages(command: &clap::Command, directory: &Path) -> Result<(), Error> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write_pages(inner, directory)?;
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = directory.join(format!("{name}.1"));
    std::fs::write(&path, render_page(command)?).map_err(|error| Error::Write {
        path: path.display().to_string(),
        reason: error.to_string(),
    })
}

/// One page. The synopsis is the usage of the help, which names what options take.
fn render_page(command: &clap::Command) -> Result<String, Error> {
    const SYNOPSIS: &str = ".SH SYNOPSIS\n";
    const DESCRIPTION: &str = ".SH DESCRIPTION\n";
    let man = clap_mangen::Man::new(command.clone())
        .date(env::source_date().unwrap_or_default())
        .source(format!("ostler {}", version::OSTLER_VERSION))
        .manual("ostler");
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = String::from_utf8_lossy(&page).replace(".SH EXTRA\n", ".SH NOTES\n");
    let usage = command.clone().render_usage().to_string();
    let lines = usage.trim_start_matches("Usage:").lines().map(|line| escape_roff(line.trim()));
    let synopsis = lines.collect::<Vec<_>>().join("\n.br\n");
    let parts = page.split_once(SYNOPSIS).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(DESCRIPTION)?;
        Some(format!("{before}{SYNOPSIS}{synopsis}\n{DESCRIPTION}{after}"))
    });
    Ok(parts.unwrap_or(page))
}

/// A line as it is, to a program that draws manual pages.
fn escape_roff(line: &str) -> String {
    line.replace('\\', "\\\\").replace('-', "\\-")
}
