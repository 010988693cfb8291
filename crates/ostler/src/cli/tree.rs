//! The command tree: clap's parser, help and examples, built from the registry.

use std::fmt;
use std::fmt::Write;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Subcommand};

use crate::cli::OstlerGlobals;
use crate::cli::registry::{
    CommandEntry, CommandExample, HelpGroup, ReadyCommand, all_entries, find_entry,
};

/// How many examples a family shows of its commands.
const MAX_FAMILY_EXAMPLES: usize = 3;

/// The whole tree, for help, manual pages, completions and errors.
pub(crate) fn command_tree() -> clap::Command {
    let mut tops: Vec<_> = all_entries().filter(|entry| entry.family().is_none()).collect();
    tops.sort_by_key(|entry| entry.place);
    let mut tree = OstlerGlobals::command();
    for entry in tops {
        tree = tree.subcommand(build_command(entry, true));
    }
    let template = help_template(&tree);
    tree.help_template(template)
}

/// As much of the tree as reads one command: what every call pays for. Errors are told with the whole.
pub(crate) fn branch_of(word: &str) -> Option<clap::Command> {
    let entry = find_entry(word)?;
    Some(OstlerGlobals::command().subcommand(build_command(entry, false)))
}

fn build_command(entry: &'static CommandEntry, with_examples: bool) -> clap::Command {
    let mut command = clap::Command::new(entry.last_word());
    if let Some(augment) = entry.augment {
        command = augment(command);
    }
    for member in entry.members() {
        if member.augment.is_some() {
            command = command
                .subcommand(build_command(member, with_examples))
                .subcommand_required(true)
                .arg_required_else_help(true);
        } else if with_examples {
            command = command.mut_subcommand(member.last_word(), |inner| {
                add_examples(inner, member.examples.iter())
            });
        }
    }
    if entry.place.0 == HelpGroup::Internal {
        command = command.hide(true);
    }
    if !with_examples {
        return command;
    }
    if !entry.usual_member.is_empty() {
        let said = command.get_after_help().map(|said| format!("{said}\n\n")).unwrap_or_default();
        let usual = format!("{said}Without a command: `{} {}`.", entry.name, entry.usual_member);
        command = command.after_help(usual);
    }
    let members = entry.members().filter_map(|member| member.examples.first());
    let examples = entry.examples.iter().chain(members.take(MAX_FAMILY_EXAMPLES));
    add_examples(command, examples)
}

/// Puts examples below what the help already says at its end.
fn add_examples(
    command: clap::Command,
    examples: impl Iterator<Item = &'static CommandExample>,
) -> clap::Command {
    let examples: Vec<_> = examples.collect();
    if examples.is_empty() {
        return command;
    }
    let mut text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str("Examples:");
    for one in examples {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  ostler {}\n      {}", one.line, one.meaning);
    }
    command.after_help(text)
}

/// The first page of the help: commands under their headings.
fn help_template(tree: &clap::Command) -> String {
    let mut page = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    let mut heading = None;
    for command in tree.get_subcommands() {
        let Some(entry) = find_entry(command.get_name()) else { continue };
        let group = entry.place.0;
        if group == HelpGroup::Internal {
            continue;
        }
        if heading != Some(group) {
            heading = Some(group);
            let _ = write!(page, "\n{}:\n", group.heading());
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(page, "  {:<12} {about}", command.get_name());
    }
    page.push_str("\nOptions:\n{options}{after-help}");
    page
}

/// A command as it was read from a command line.
pub(crate) struct RegisteredCommand {
    /// The name in the envelope.
    pub(crate) name: &'static str,
    pub(crate) run: ReadyCommand,
}

impl fmt::Debug for RegisteredCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RegisteredCommand").field(&self.name).finish()
    }
}

/// Finds the command that was read, down to its last word. It is run by the innermost entry that has
/// a method for it.
impl FromArgMatches for RegisteredCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut path = String::new();
        let mut found = None;
        let mut reader = None;
        let mut level = matches;
        while let Some((word, below)) = level.subcommand() {
            if !path.is_empty() {
                path.push(' ');
            }
            path.push_str(word);
            level = below;
            if let Some(entry) = find_entry(&path) {
                found = Some(entry.name);
                reader = entry.parse.map(|parse| (parse, below)).or(reader);
            }
        }
        match (found, reader) {
            (Some(name), Some((parse, matches))) => Ok(Self { name, run: parse(matches)? }),
            _ => Err(clap::Error::new(clap::error::ErrorKind::MissingSubcommand)),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The commands that agent-tty has, too.
impl Subcommand for RegisteredCommand {
    fn augment_subcommands(mut tree: clap::Command) -> clap::Command {
        let mut shared: Vec<_> = all_entries().filter(|entry| is_shared(entry)).collect();
        shared.sort_by_key(|entry| entry.agent_tty);
        for entry in shared {
            tree = tree.subcommand(build_command(entry, false));
        }
        tree
    }

    fn augment_subcommands_for_update(tree: clap::Command) -> clap::Command {
        Self::augment_subcommands(tree)
    }

    fn has_subcommand(name: &str) -> bool {
        find_entry(name).is_some_and(is_shared)
    }
}

fn is_shared(entry: &CommandEntry) -> bool {
    entry.agent_tty > 0
}
