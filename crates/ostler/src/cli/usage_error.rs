//! A command line that cannot be read: what is wrong with it, and what was probably meant.
//!
//! clap lists whatever is similar, the best last, and knows no synonyms; people come with the words of other
//! programs. So suggestions of commands are made here.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use model::time::Time;

use crate::cli::{command_named_in, command_tree, word_of_command};
use crate::error::{self, Error};
use crate::render::output;

/// What people type who know other programs, and what does it here.
const FAMILIAR_WORDS: [(&[&str], &str); 18] = [
    (&["list", "sessions", "live"], "`ostler ls` lists sessions"),
    (
        &["kill", "end", "quit", "terminate"],
        "`ostler stop` ends an agent with everything it started, `ostler destroy` a terminal",
    ),
    (
        &["rm", "remove", "delete", "clean", "cleanup", "prune", "clear"],
        "`ostler gc` shows what may go and why; `ostler destroy` ends a terminal",
    ),
    (
        &["new", "start", "spawn", "open"],
        "`ostler launch` starts an agent, `ostler create` any program on a terminal",
    ),
    (
        &["tail", "log", "history", "transcript", "cat", "messages"],
        "`ostler logs` prints a conversation",
    ),
    (
        &["install", "init", "configure", "enable"],
        "`ostler setup` sets this machine up, with one question",
    ),
    (
        &["uninstall", "disable"],
        "`ostler setup --undo` takes back what setup did; whatever installed ostler removes it",
    ),
    (
        &["update", "upgrade", "self-update"],
        "whatever installed ostler updates it; `ostler version` says which this is",
    ),
    (&["cost", "costs", "tokens", "stats", "spend"], "`ostler usage` shows tokens and cost"),
    (&["info", "describe", "get", "details"], "`ostler show` shows one session"),
    (&["ui", "tui", "monitor", "watch"], "`ostler top` is the dashboard"),
    (&["serve", "server", "browser"], "`ostler web` serves the page"),
    (&["disk", "df", "size", "space"], "`ostler du` shows what takes how much"),
    (&["find", "grep"], "`ostler search` finds words in every conversation"),
    (&["join", "connect", "enter"], "`ostler attach` joins a terminal"),
    (&["restore", "recover"], "`ostler undo` brings back what was removed"),
    (&["ask", "say", "tell"], "`ostler prompt` sends a prompt to an agent"),
    (&["settings", "prefs"], "`ostler config show` shows the settings"),
];

/// How many subcommands of a family are listed; the whole list of commands is what `ostler help` is for.
const MAX_LISTED: usize = 12;

/// The letters from which on the beginning of a word stands for it.
const MIN_BEGINNING: usize = 3;

/// Reports what clap has to say: help is an answer, the rest is an error in the command line.
pub(crate) fn report_usage_error(
    error: &clap::Error,
    args: &[OsString],
    now: Time,
    as_json: bool,
) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let lacks_command = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if lacks_command && !as_json {
        let _ = error.print();
        return error::exit_code_of("INVALID_INPUT");
    }
    let error = match lacks_command {
        true => Error::usage_error(
            "one of the commands of this family is missing",
            told_of_command(error, args),
        ),
        false => in_our_words(error, args),
    };
    output::report_error(command_named_in(args), now, &error, as_json);
    error::exit_code_of("INVALID_INPUT")
}

/// What is wrong, in one line, without clap's usage below it.
pub(crate) fn first_paragraph(text: &str) -> String {
    let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let paragraph = lines.collect::<Vec<_>>().join(" ");
    paragraph.strip_prefix("error: ").unwrap_or(&paragraph).to_owned()
}

/// What clap says, in the form of every other error: the thing and the reason, then the remedy.
fn in_our_words(error: &clap::Error, args: &[OsString]) -> Error {
    let text = error.render().to_string();
    let text = text.replace("invalid digit found in string", "it is not a whole number");
    let own_tip = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            context_word(error, ContextKind::InvalidSubcommand).map(|word| suggest(&word, args))
        }
        ErrorKind::MissingRequiredArgument => Some(tip_for_missing(&text, args)),
        ErrorKind::UnknownArgument => {
            context_word(error, ContextKind::InvalidArg).map(|word| tip_for_surplus(&word, args))
        }
        _ => None,
    };
    let tip = own_tip.flatten().or_else(|| tip_of_clap(&text));
    let message = match first_paragraph(&text).split_once(" [possible values: ") {
        Some((message, values)) => format!("{message}: one of {}", values.trim_end_matches(']')),
        None => first_paragraph(&text),
    };
    let told = told_of_command(error, args);
    let hint = match tip {
        // The tip is where the commands are listed.
        Some(tip) if tip.starts_with("`ostler help` ") => tip,
        Some(tip) if tip.ends_with('?') => format!("{tip} {told}"),
        Some(tip) => format!("{tip}; {told}"),
        None => told,
    };
    Error::usage_error(in_backticks(error, message), in_backticks(error, hint))
}

/// What clap suggests, but for the way to pass an option that does not exist as a value.
fn tip_of_clap(text: &str) -> Option<String> {
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "))?;
    match tip.split_once(": ") {
        Some((said, near)) if said.contains("similar") => Some(format!("did you mean {near}?")),
        _ => (!tip.starts_with("to pass ")).then(|| tip.to_owned()),
    }
}

/// Where the command is explained that was meant.
fn told_of_command(error: &clap::Error, args: &[OsString]) -> String {
    let is_no_command = matches!(
        error.kind(),
        ErrorKind::InvalidSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    match find_command(args) {
        Some(name) if !is_no_command => format!("`ostler {name} --help` shows how it is used"),
        Some(name) => format!("`ostler {name} --help` lists its commands"),
        None => "`ostler help` lists the commands and their options".to_owned(),
    }
}

/// The command of a command line, with the family that it is in.
fn find_command(args: &[OsString]) -> Option<String> {
    let tree = command_tree();
    let (mut at, mut names) = (&tree, Vec::new());
    let words = args.iter().skip(1).filter_map(|arg| arg.to_str());
    for word in words.filter(|word| !word.starts_with('-')) {
        let Some(inner) = at.find_subcommand(word) else { break };
        at = inner;
        names.push(at.get_name());
    }
    (!names.is_empty()).then(|| names.join(" "))
}

/// What clap puts between single quotes stands between backticks, as everywhere else.
fn in_backticks(error: &clap::Error, mut text: String) -> String {
    let mut quote = |word: &str| text = text.replace(&format!("'{word}'"), &format!("`{word}`"));
    for (_, value) in error.context() {
        match value {
            ContextValue::String(word) => quote(word),
            ContextValue::Strings(words) => words.iter().for_each(|word| quote(word)),
            _ => {}
        }
    }
    text
}

fn context_word(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(word) => Some(word.clone()),
        _ => None,
    }
}

/// The command that was meant by a word that is none.
fn suggest(word: &str, args: &[OsString]) -> Option<String> {
    let tree = command_tree();
    let mut command = &tree;
    for word in args.iter().filter_map(|arg| arg.to_str()) {
        command = command.find_subcommand(word).unwrap_or(command);
    }
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    let names: Vec<&str> = shown.map(clap::Command::get_name).collect();
    let is_whole_tree = command.get_name() == tree.get_name();
    if let Some(tip) = familiar_tip(word).filter(|_| is_whole_tree) {
        return Some(tip.to_owned());
    }
    if let Some(near) = nearest_word(word, &names) {
        return Some(format!("did you mean `{near}`?"));
    }
    let listed: Vec<&str> = names.into_iter().filter(|name| *name != "help").collect();
    match listed.len() {
        1..=MAX_LISTED => Some(format!("there are: {}", listed.join(", "))),
        _ => Some(
            "`ostler help` lists the commands, `ostler help topics` what they are good for"
                .to_owned(),
        ),
    }
}

fn familiar_tip(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    FAMILIAR_WORDS.iter().find(|(words, _)| words.contains(&word.as_str())).map(|(_, tip)| *tip)
}

/// How a session is named, where none is.
fn tip_for_missing(text: &str, args: &[OsString]) -> Option<String> {
    const WITH_SESSION_ID: [&str; 4] = ["show", "why", "logs", "summary"];
    let takes_id = word_of_command(args).is_some_and(|word| WITH_SESSION_ID.contains(&word));
    let is_session = text.contains("\n  <SESSION>") || (takes_id && text.contains("\n  <ID>"));
    is_session.then(|| {
        "an id, its beginning or a name, as `ostler ls -a` lists them; `-` is the newest session, `.` the one \
         of this directory"
            .to_owned()
    })
}

/// `ostler ls WORD`: lists take options, other commands take words.
fn tip_for_surplus(word: &str, args: &[OsString]) -> Option<String> {
    let is_list = word_of_command(args) == Some("ls");
    (is_list && !word.starts_with('-')).then(|| {
        format!(
            "`ostler show {word}` shows one session, `ostler ls --filter {word}` those with a word"
        )
    })
}

/// The word that was probably meant: the one with the fewest letters to change, at most a third, or the only one
/// that begins so.
pub(crate) fn nearest_word<'a>(text: &str, words: &[&'a str]) -> Option<&'a str> {
    let lowered = text.to_lowercase();
    let text: Vec<char> = lowered.chars().take(64).collect();
    let near = words.iter().map(|word| (edit_distance(&text, word), *word)).min()?;
    if near.0 <= near.1.len().max(3) / 3 {
        return Some(near.1);
    }
    let mut begun = words.iter().filter(|word| word.to_lowercase().starts_with(&lowered));
    match (begun.next(), begun.next()) {
        (Some(only), None) if text.len() >= MIN_BEGINNING => Some(only),
        _ => None,
    }
}

/// How many letters to put in, take out, replace or swap with the next one (optimal string alignment).
fn edit_distance(text: &[char], word: &str) -> usize {
    let word: Vec<char> = word.chars().collect();
    let mut rows = vec![(0..=text.len()).collect::<Vec<usize>>()];
    for (above, letter) in word.iter().enumerate() {
        let last = &rows[above];
        let mut row = vec![above + 1];
        for (index, own) in text.iter().enumerate() {
            let replaced = last[index] + usize::from(own != letter);
            let mut least = replaced.min(last[index + 1] + 1).min(row[index] + 1);
            let is_swapped = above > 0 && index > 0;
            if is_swapped && text[index - 1] == *letter && word[above - 1] == *own {
                least = least.min(rows[above - 1][index - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows.last().and_then(|row| row.last()).copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::{FAMILIAR_WORDS, command_tree, nearest_word};

    #[test]
    fn row_17_familiar_words_are_no_commands_and_lead_to_commands() {
        let tree = command_tree();
        for (words, tip) in FAMILIAR_WORDS {
            for word in words {
                assert!(tree.find_subcommand(word).is_none(), "`{word}` is a command itself");
            }
            for line in tip.split('`').skip(1).step_by(2) {
                let mut words = line.split(' ').filter(|word| !word.starts_with('-'));
                assert_eq!(words.next(), Some("ostler"), "{line}");
                let found = words.try_fold(&tree, |at, word| at.find_subcommand(word));
                assert!(found.is_some(), "`{line}` is no command");
            }
        }
    }

    #[test]
    fn row_17_the_nearest_word_is_the_one_with_the_fewest_changes_or_the_only_one_that_begins_so() {
        let words = ["ls", "show", "who", "stop", "completions", "create", "claude-code"];
        for (text, near) in [
            ("sl", Some("ls")),
            ("lst", Some("ls")),
            ("shwo", Some("show")),
            ("Show", Some("show")),
            ("comp", Some("completions")),
            ("claud", Some("claude-code")),
            // Two begin so, or too little was typed.
            ("c", None),
            ("cr", None),
            ("frobnicate", None),
        ] {
            assert_eq!(nearest_word(text, &words), near, "{text}");
        }
    }
}
