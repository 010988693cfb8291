//! `ostler _commands`: the registry as JSON, for the suites that run over all commands.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::cli::registry::{CommandEntry, all_entries};
use crate::cli::{CliContext, command_tree};
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(Internal, 2),
    cases: &[also("_commands")],
    uncased: &[
        ONE_HOME,
        ONE_PROGRAM,
        (Usual, "it prints what the suites run, and they fail with it"),
        (Refused, "it takes no argument"),
    ],
    ..entry!("_commands", CommandListArgs, run_command_list)
}];

/// Print what is known of every command.
#[derive(Debug, Args)]
pub(crate) struct CommandListArgs {}

#[derive(Serialize)]
struct CommandList {
    commands: Vec<&'static CommandEntry>,
    /// What clap would read, down to the last word.
    leaves: Vec<String>,
}

impl CommandListArgs {
    pub(crate) fn run_command_list(&self, _: &CliContext) -> Result<ExitCode, Error> {
        let mut leaves = Vec::new();
        list_leaves(&command_tree(), "", &mut leaves);
        let list = CommandList { commands: all_entries().collect(), leaves };
        output::print_text(&(serde_json::to_string_pretty(&list)? + "\n"))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn list_leaves(command: &clap::Command, path: &str, leaves: &mut Vec<String>) {
    if !command.has_subcommands() {
        leaves.push(path.to_owned());
    }
    for inner in command.get_subcommands() {
        let path = format!("{path} {}", inner.get_name());
        list_leaves(inner, path.trim_start(), leaves);
    }
}
