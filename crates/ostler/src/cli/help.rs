//! `ostler help [TOPIC]`

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use clap_complete::{ArgValueCandidates, CompletionCandidate};
use model::refusal::SkipCode;

use crate::cli::usage_error::nearest_word;
use crate::cli::{CliContext, command_tree};
use crate::error::{EXIT_TABLE, Error};
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(SetUp, 10),
    examples: &[
        example("help access open", "A command of a family."),
        example("help who is waiting", "A task: the commands for it."),
        example("help exit-codes", "What the exit codes mean.")
    ],
    cases: &[
        usual("help access open"),
        refused("help nothing"),
        refused("help sates"),
        also("help"),
        also("help topics")
    ],
    uncased: &[ONE_HOME, ONE_PROGRAM],
    ..entry!("help", HelpArgs, run_help)
}];

/// Explain a command, a task such as `who is waiting`, or a topic such as `states`; `topics` lists them.
#[derive(Debug, Args)]
pub(crate) struct HelpArgs {
    /// A command or a topic.
    #[arg(add = ArgValueCandidates::new(complete_topics))]
    topic: Vec<String>,
}

/// Pages about tasks and things. Every line in them that begins with `$` is run by a test.
const WRITTEN_TOPICS: &[(&str, &str)] = &[
    ("who-is-waiting", include_str!("../../help/who-is-waiting.txt")),
    ("find-a-conversation", include_str!("../../help/find-a-conversation.txt")),
    ("drive-an-agent", include_str!("../../help/drive-an-agent.txt")),
    ("share-a-terminal", include_str!("../../help/share-a-terminal.txt")),
    ("free-disk-space", include_str!("../../help/free-disk-space.txt")),
    ("lend-a-key", include_str!("../../help/lend-a-key.txt")),
    ("undo-something", include_str!("../../help/undo.txt")),
    ("states", include_str!("../../help/states.txt")),
    ("ids", include_str!("../../help/ids.txt")),
    ("files", include_str!("../../help/files.txt")),
    ("environment", include_str!("../../help/environment.txt")),
];

/// Pages that are made from the tables behind them.
const TABLE_TOPICS: [(&str, &str); 3] = [
    ("exit-codes", "Exit codes of ostler"),
    ("access-codes", "Codes of `ostler access prune`"),
    ("topics", "This list"),
];

/// Every topic with its first line.
fn all_topics() -> impl Iterator<Item = (&'static str, &'static str)> {
    let first_line = |text: &'static str| text.lines().next().unwrap_or_default();
    let written = WRITTEN_TOPICS.iter().map(move |(name, text)| (*name, first_line(text)));
    written.chain(TABLE_TOPICS)
}

fn complete_topics() -> Vec<CompletionCandidate> {
    let tree = command_tree();
    let commands = tree.get_subcommands().filter(|command| !command.is_hide_set());
    let names = commands.map(|command| CompletionCandidate::new(command.get_name()));
    let topic = |(name, about): (&'static str, &'static str)| {
        CompletionCandidate::new(name).help(Some(about.into()))
    };
    names.chain(all_topics().map(topic)).collect()
}

impl HelpArgs {
    pub(crate) fn run_help(&self, _: &CliContext) -> Result<ExitCode, Error> {
        let words = self.topic.join(" ");
        let topic = words.trim_end_matches('?').to_lowercase().replace(' ', "-");
        let written = WRITTEN_TOPICS.iter().find(|(name, _)| *name == topic);
        let text = match (topic.as_str(), written) {
            ("", _) => command_tree().render_long_help().to_string(),
            ("exit-codes", _) => exit_codes(),
            ("access-codes", _) => access_codes(),
            ("topics", _) => list_topics(),
            (_, Some((_, text))) => text::for_locale((*text).to_owned()),
            (_, None) => command_help(&words)?,
        };
        output::print_text(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The help of a command, or what was probably meant.
fn command_help(words: &str) -> Result<String, Error> {
    let tree = command_tree();
    if let Some(found) = words.split(' ').try_fold(&tree, |at, word| at.find_subcommand(word)) {
        return Ok(found
            .clone()
            .bin_name(format!("ostler {words}"))
            .render_long_help()
            .to_string());
    }
    let shown = tree.get_subcommands().filter(|command| !command.is_hide_set());
    let names: Vec<&str> =
        shown.map(clap::Command::get_name).chain(all_topics().map(|(name, _)| name)).collect();
    let lists = "`ostler help` lists the commands, `ostler help topics` the topics";
    let hint = match nearest_word(&words.replace(' ', "-"), &names) {
        Some(near) => format!("did you mean `ostler help {near}`? {lists}"),
        None => lists.to_owned(),
    };
    Err(Error::usage_error(format!("there is no command or topic `{words}`"), hint))
}

fn list_topics() -> String {
    let mut out = String::from("Topics: `ostler help TOPIC`\n\n");
    for (name, about) in all_topics() {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  {name:<20} {about}");
    }
    out
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
