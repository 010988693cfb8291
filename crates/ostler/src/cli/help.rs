//! `ostler help [TOPIC]`

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use clap_complete::{ArgValueCandidates, CompletionCandidate};
use model::refusal::SkipCode;

use crate::cli::{CliContext, command_tree};
use crate::error::{EXIT_TABLE, Error};
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(SetUp, 10),
    examples: &[
        example("help access open", "A command of a family."),
        example("help exit-codes", "What the exit codes mean.")
    ],
    cases: &[refused("help nothing"), also("help")],
    uncased: &[(Usual, "tests/cli/help.rs keeps the whole reference"), ONE_HOME, ONE_PROGRAM],
    ..entry!("help", HelpArgs, run_help)
}];

/// Explain a command, or a topic such as `exit-codes` or `access-codes`.
#[derive(Debug, Args)]
pub(crate) struct HelpArgs {
    /// A command, `exit-codes` or `access-codes`.
    #[arg(add = ArgValueCandidates::new(complete_topics))]
    topic: Vec<String>,
}

fn complete_topics() -> Vec<CompletionCandidate> {
    let tree = command_tree();
    let commands = tree.get_subcommands().filter(|command| !command.is_hide_set());
    let names = commands.map(|command| CompletionCandidate::new(command.get_name()));
    names.chain(["exit-codes", "access-codes"].map(CompletionCandidate::new)).collect()
}

impl HelpArgs {
    pub(crate) fn run_help(&self, _: &CliContext) -> Result<ExitCode, Error> {
        let text = match self.topic.join(" ").as_str() {
            "" => command_tree().render_long_help().to_string(),
            "exit-codes" => exit_codes(),
            "access-codes" => access_codes(),
            topic => {
                let tree = command_tree();
                let found = topic.split(' ').try_fold(&tree, |at, word| at.find_subcommand(word));
                let found = found.ok_or_else(|| {
                    Error::usage_error(
                        format!("there is no command or topic `{topic}`"),
                        "`ostler help` lists the commands; `exit-codes` and `access-codes` are topics",
                    )
                })?;
                found.clone().bin_name(format!("ostler {topic}")).render_long_help().to_string()
            }
        };
        output::print_text(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The legend of `access prune`.
fn access_codes() -> String {
    let mut out = String::from("Codes of `ostler access prune`\n\n");
    let mut line = |code: &str, meaning: &str, remedy: &str| {
        let _ = writeln!(out, "{code}\n     {meaning}");
        if !remedy.is_empty() {
            let _ = writeln!(out, "     {remedy}");
        }
    };
    line("PRUNED, PRUNED_LOG", "removed; before that, WOULD_PRUNE and WOULD_PRUNE_LOG", "");
    for code in SkipCode::ALL {
        line(code.as_str(), code.meaning(), code.remedy());
    }
    line("FAIL_REMOVE", "the system refused the removal; the reason says why", "");
    out
}

fn exit_codes() -> String {
    let mut out = String::from("Exit codes of ostler\n\n");
    for exit in EXIT_TABLE {
        let _ = writeln!(out, "{:>3}  {}", exit.code, exit.meaning);
        if !exit.codes.is_empty() {
            let _ = writeln!(out, "     {}", exit.codes);
        }
    }
    out
}
