//! The command that agents run, and how it is recognised again.

use std::path::Path;

/// Raised whenever what is written into agents' files changes.
pub(super) const HOOK_VERSION: u32 = 1;

/// What ends each command: to the shell, nothing.
const MARK: &str = " # ostler-hooks ";

/// A command of ostler's in an agent's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OstlerCommand {
    /// The program as it is written there, without quotes.
    pub(super) program: String,
    /// The version of the wiring; a command that has been edited may have lost it.
    pub(super) version: Option<u32>,
}

/// What stands around the program: some agents take a hook that cannot be found for an order to
/// stop, so that one that is gone must look like one that has nothing to say. The shell is replaced
/// by the program, not kept waiting for it.
const TEST: &str = "[ -x ";
const THEN: &str = " ] && exec ";
const ELSE: &str = "; :";

/// The command for one event.
pub(super) fn render_command(program: &str, agent: &str, event: &str) -> String {
    let program = quote_word(program);
    format!("{TEST}{program}{THEN}{program} hook {agent} {event}{ELSE}{MARK}{HOOK_VERSION}")
}

/// Reads a command as one of ostler's for this agent.
pub(super) fn parse_command(command: &str, agent: &str) -> Option<OstlerCommand> {
    let (words, version) = match command.split_once(MARK) {
        Some((words, version)) => (words, version.trim().parse().ok()),
        None => (command, None),
    };
    let (program, rest) = words.split_once(&format!(" hook {agent} "))?;
    let rest = rest.strip_suffix(ELSE).unwrap_or(rest);
    let program = unquote_word(undouble_program(program.trim()));
    let is_ostler = Path::new(&program).file_name().is_some_and(|name| name == "ostler");
    let is_one_word = !rest.trim().is_empty() && !rest.trim().contains(char::is_whitespace);
    (version.is_some() || (is_ostler && is_one_word)).then_some(OstlerCommand { program, version })
}

/// The program, where it is tested for before it is run.
fn undouble_program(program: &str) -> &str {
    let Some(twice) = program.strip_prefix(TEST) else { return program };
    let length = twice.len().saturating_sub(THEN.len()) / 2;
    let (first, then_second) = twice.split_at_checked(length).unwrap_or((twice, ""));
    if then_second.strip_prefix(THEN) == Some(first) { first } else { program }
}

/// A word that a shell reads as it is.
pub(crate) fn quote_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._+-@%:,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn unquote_word(word: &str) -> String {
    let inner = word.strip_prefix('\'').and_then(|word| word.strip_suffix('\''));
    inner.map_or_else(|| word.to_owned(), |inner| inner.replace(r"'\''", "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_recognised_whatever_the_path() {
        for program in ["/usr/bin/ostler", "/a b/ostler", "/it's/$(x)/`y`/\"z\"/ostler", "/o/ö"] {
            let command = render_command(program, "codex", "Stop");
            let ours = OstlerCommand { program: program.to_owned(), version: Some(HOOK_VERSION) };
            assert_eq!(parse_command(&command, "codex"), Some(ours), "{command}");
            assert_eq!(parse_command(&command, "claude-code"), None);
        }
    }

    #[test]
    fn a_shell_runs_exactly_the_program() {
        let home = tempfile::tempdir().unwrap();
        let odd = home.path().join("it's $(touch x) `y` \"z\" & é");
        std::fs::create_dir(&odd).unwrap();
        let program = odd.join("ostler");
        std::os::unix::fs::symlink("/bin/echo", &program).unwrap();
        let command = render_command(program.to_str().unwrap(), "pi", "turn-end");
        let output = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
        assert_eq!(output.stdout, b"hook pi turn-end\n");
        assert_eq!(output.stderr, b"");
        let gone = odd.join("gone");
        let command = render_command(gone.to_str().unwrap(), "pi", "turn-end");
        let output = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
        assert!(output.status.success(), "a program that is gone says nothing");
        assert_eq!((output.stdout, output.stderr), (Vec::new(), Vec::new()));
    }

    #[test]
    fn other_commands_are_not_ours() {
        for command in ["", "echo hook codex Stop", "ostler ls", "/bin/x hook codex Stop; rm -r ~"]
        {
            assert_eq!(parse_command(command, "codex"), None, "{command}");
        }
        let edited = parse_command("/opt/ostler hook codex Stop", "codex").unwrap();
        assert_eq!(edited.version, None);
    }
}
