//! Prompt text: validation before it is typed, normalisation, and comparison with what an agent recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::refusal::PromptFault;

/// The most that is pasted into a terminal.
pub const TERMINAL_PROMPT_LIMIT: usize = 64 << 10;

/// The most that is given as an argument, for agents that read no standard input.
pub const ARGUMENT_PROMPT_LIMIT: usize = 100 << 10;

/// Where a text goes, as far as its limits are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptRoute {
    /// Pasted into a terminal: command characters matter.
    Terminal,
    /// Read from standard input or a file by a headless program: mere text.
    StandardInput,
    /// An argument of a headless program: mere text.
    Argument,
}

/// How a recorded text equals the one that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PromptMatch {
    /// Byte for byte.
    Exact,
    /// After line ends, tabs and outer blanks were made alike.
    Normalised,
    /// Through a file that the agent itself made of a long paste.
    Indirect,
}

/// Checks a text before a byte of it is written, and gives it with line feeds as line ends.
///
/// `command_characters` are those that make this agent run a command when a prompt begins with one;
/// blanks and line breaks in front do not help, so they are passed over here too.
pub fn check_prompt_text(
    text: &str,
    route: PromptRoute,
    command_characters: &str,
    is_command: bool,
) -> Result<String, PromptFault> {
    let text = text.replace("\r\n", "\n");
    let is_forbidden = |c: &char| c.is_control() && *c != '\n' && *c != '\t';
    if let Some(c) = text.chars().find(is_forbidden) {
        return Err(PromptFault::ControlCharacter(c));
    }
    let Some(first) = text.chars().find(|c| !c.is_whitespace()) else {
        return Err(PromptFault::Empty);
    };
    if route == PromptRoute::Terminal && !is_command && command_characters.contains(first) {
        return Err(PromptFault::CommandCharacter(first));
    }
    let limit = match route {
        PromptRoute::Terminal => Some(TERMINAL_PROMPT_LIMIT),
        PromptRoute::Argument => Some(ARGUMENT_PROMPT_LIMIT),
        PromptRoute::StandardInput => None,
    };
    match limit {
        Some(limit) if text.len() > limit => Err(PromptFault::TooLong { bytes: text.len(), limit }),
        _ => Ok(text),
    }
}

/// Compares a recorded prompt with the one that was sent. A prefix, or one character more or less, is
/// no match: the agent got another text.
pub fn match_prompt(sent: &str, recorded: &str) -> Option<PromptMatch> {
    if sent == recorded {
        return Some(PromptMatch::Exact);
    }
    (normalise_prompt(sent) == normalise_prompt(recorded)).then_some(PromptMatch::Normalised)
}

/// What agents change in a text: line ends, tabs (four blanks), outer blanks.
pub fn normalise_prompt(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\t', "    ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str) -> Result<String, PromptFault> {
        check_prompt_text(text, PromptRoute::Terminal, "!/", false)
    }

    #[test]
    fn row_11_a_command_character_is_refused_whatever_stands_in_front() {
        for text in ["!ls", " !ls", "\n!ls", "\t\n /help", "/clear"] {
            assert!(matches!(check(text), Err(PromptFault::CommandCharacter(_))), "{text:?}");
        }
        assert!(check("first\n!second").is_ok());
        assert!(check_prompt_text("!ls", PromptRoute::StandardInput, "!/", false).is_ok());
        assert!(check_prompt_text("/clear", PromptRoute::Terminal, "!/", true).is_ok());
        assert!(check_prompt_text("!ls", PromptRoute::Terminal, "/", false).is_ok());
    }

    #[test]
    fn row_12_a_control_character_is_refused_before_a_byte_is_written() {
        for text in ["a\x1b[201~b", "a\x03", "a\0b", "a\rb", "a\u{9b}b", "\x7f"] {
            assert!(matches!(check(text), Err(PromptFault::ControlCharacter(_))), "{text:?}");
        }
        assert_eq!(check("a\r\nb\tc").unwrap(), "a\nb\tc");
    }

    #[test]
    fn row_90_what_is_empty_or_too_long_is_refused_and_an_option_is_text() {
        for text in ["", "  \n\t "] {
            assert_eq!(check(text), Err(PromptFault::Empty));
        }
        assert_eq!(check("--help").unwrap(), "--help");
        assert_eq!(check("-").unwrap(), "-");
        let long = "x".repeat(TERMINAL_PROMPT_LIMIT + 1);
        assert!(matches!(check(&long), Err(PromptFault::TooLong { .. })));
        assert!(check(&long[1..]).is_ok());
        assert!(check_prompt_text(&long, PromptRoute::StandardInput, "", false).is_ok());
    }

    #[test]
    fn row_5_a_changed_text_is_no_match() {
        assert_eq!(match_prompt("fix it", "fix it"), Some(PromptMatch::Exact));
        assert_eq!(match_prompt("a\tb \n", "a    b"), Some(PromptMatch::Normalised));
        for recorded in ["fix i", "fix it.", "Fix it", "fix  it", ""] {
            assert_eq!(match_prompt("fix it", recorded), None, "{recorded:?}");
        }
    }

    proptest! {
        #[test]
        fn a_text_that_passes_has_nothing_that_leaves_a_paste(text in ".{0,80}") {
            if let Ok(passed) = check(&text) {
                prop_assert!(!passed.contains('\x1b') && !passed.contains('\r'));
                prop_assert!(match_prompt(&passed, &passed) == Some(PromptMatch::Exact));
            }
        }
    }
}
