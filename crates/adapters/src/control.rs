//! Control tables: how an agent is started, resumed, prompted and stopped. Data only, measured with the
//! real program; an agent without a table is not driven.
//!
//! Templates are argv words, never a shell's. `{id}` stands for the conversation's full id, `{path}` for
//! the path of its transcript, `{text}` for the prompt, `{file}` for a file that holds the prompt.

use std::time::Duration;

/// How one agent is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentControl {
    /// The newest version these facts were measured with.
    pub measured: &'static str,
    /// Arguments of a new conversation in a terminal; `None` if it cannot be driven there.
    pub interactive: Option<&'static [&'static str]>,
    /// Arguments that go on with a conversation in a terminal.
    pub resume: Option<&'static [&'static str]>,
    /// Without a terminal.
    pub headless: Option<HeadlessControl>,
    /// Further arguments that make of a resumed conversation a new one.
    pub fork: Option<&'static [&'static str]>,
    /// How the conversation's id becomes known.
    pub id_rule: IdRule,
    /// First characters that make a prompt in a terminal a command of the agent.
    pub command_characters: &'static str,
    /// The option that names a model.
    pub model_option: Option<&'static str>,
    /// Keys that interrupt a turn.
    pub interrupt_keys: &'static [&'static str],
    /// Keys that empty the composer of an agent which puts an interrupted prompt back there.
    pub clear_keys: &'static [&'static str],
    /// Keys that end an idle agent with an empty composer; none where only a signal does.
    pub quit_keys: &'static [&'static str],
    /// How long after an error of the model's it may try again by itself, where it records each of them: until then its
    /// turn goes on.
    pub retries_within: Option<Duration>,
    /// Whether prompts were raced with questions of it as they opened, through its terminal, and none was answered.
    pub takes_prompts_at_work: bool,
    /// Whether a resumed conversation can work in another directory than its own.
    pub resumes_elsewhere: bool,
    /// A command of the agent's that puts a prompt into a live conversation's queue; `{id}` and `{text}`.
    pub queue: Option<&'static [&'static str]>,
    /// How a request for permission can reach ostler.
    pub permission_channel: PermissionChannel,
    /// Words on the screen of a start-up dialog that asks whether to trust the directory.
    pub trust_words: &'static [&'static str],
    /// Words on the screen of a question about a tool: while they show more often than before, Enter might answer it.
    pub question_words: &'static [&'static str],
    /// What an empty composer shows, of an agent that takes pastes before it has one: such a text is lost.
    pub composer_words: Option<&'static str>,
    /// What stands before and behind the path, of an agent that records a long paste as a file of its own.
    pub paste_reference: Option<(&'static str, &'static str)>,
    /// The agent's own command that lets go of a conversation which a server or supervisor holds; `{short}` is the
    /// beginning of the conversation's id, up to its first dash.
    pub supervisor_command: Option<&'static str>,
}

/// How an agent is driven without a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadlessControl {
    /// Arguments of a new conversation.
    pub start: &'static [&'static str],
    /// Arguments that go on with one.
    pub resume: Option<&'static [&'static str]>,
    /// How it reads the prompt.
    pub input: PromptInput,
    /// The field that names the conversation in the lines of JSON it prints.
    pub id_field: &'static str,
}

/// How a headless agent reads its prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptInput {
    /// From standard input.
    Stdin,
    /// From its `{text}` argument: visible to every process of the machine.
    Argument,
    /// From the file that `{file}` names.
    File,
}

/// How the id of a new conversation becomes known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdRule {
    /// ostler chooses a UUID and passes it as `{id}`.
    ChosenUuid,
    /// ostler chooses the transcript's path and passes it as `{path}`; the id is in its first line.
    ChosenPath,
    /// The agent registers or locks its id under the process.
    Registered,
    /// The agent makes it with the first prompt.
    AtFirstPrompt,
}

/// How an agent can ask ostler for a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionChannel {
    /// Only on its own screen.
    Screen,
    /// By a hook whose answer decides, given to this process alone by a settings option.
    Hook,
    /// By a hook that the user must have trusted.
    TrustedHook,
    /// By a pair of files: requests out, answers in.
    FilePair,
    /// By its loopback server.
    Server(PermissionServer),
    /// It asks nothing.
    AsksNothing,
}

/// How an agent's own server is started, and how it is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermissionServer {
    /// The option that names the port.
    pub port_option: &'static str,
    /// The variable that holds the password.
    pub password_variable: &'static str,
    /// The user that is expected with it.
    pub user: &'static str,
}

impl AgentControl {
    /// Words by which whatever it may ask a person is known.
    pub fn words_of_questions(&self) -> Vec<String> {
        let all = self.question_words.iter().chain(self.trust_words);
        all.map(|words| (*words).to_owned()).collect()
    }

    /// What is common to most: a terminal without ids, Escape interrupts, questions on the screen.
    pub const TERMINAL_ONLY: Self = Self {
        measured: "",
        interactive: Some(&[]),
        resume: None,
        headless: None,
        fork: None,
        id_rule: IdRule::AtFirstPrompt,
        command_characters: "!/",
        model_option: Some("--model"),
        interrupt_keys: &["Escape"],
        clear_keys: &[],
        quit_keys: &[],
        retries_within: None,
        takes_prompts_at_work: true,
        resumes_elsewhere: false,
        queue: None,
        permission_channel: PermissionChannel::Screen,
        trust_words: &["Do you trust", "trust this folder", "trust the files"],
        question_words: &[],
        composer_words: None,
        paste_reference: None,
        supervisor_command: None,
    };
}

/// Fills a template. A word that is a placeholder alone or joined by `=` is replaced by value; a value
/// never becomes several words, and never an option of its own.
pub fn fill_template(template: &[&str], values: &TemplateValues<'_>) -> Option<Vec<String>> {
    let fill = |word: &&str| -> Option<String> {
        let placeholders = [
            ("{id}", values.id),
            ("{path}", values.path),
            ("{text}", values.text),
            ("{file}", values.file),
        ];
        match placeholders.into_iter().find(|(placeholder, _)| word.ends_with(placeholder)) {
            Some((placeholder, value)) => {
                let value = value?;
                let front = word.strip_suffix(placeholder).unwrap_or_default();
                Some(format!("{front}{value}"))
            }
            None => Some((*word).to_owned()),
        }
    };
    template.iter().map(fill).collect()
}

/// What the placeholders of a template stand for.
#[derive(Clone, Copy, Debug, Default)]
pub struct TemplateValues<'a> {
    /// `{id}`.
    pub id: Option<&'a str>,
    /// `{path}`.
    pub path: Option<&'a str>,
    /// `{text}`.
    pub text: Option<&'a str>,
    /// `{file}`.
    pub file: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ALL_ADAPTERS;

    #[test]
    fn a_value_is_one_word_whatever_is_in_it() {
        let values = TemplateValues { id: Some("--help x"), ..TemplateValues::default() };
        let words = fill_template(&["-s", "--resume={id}", "{id}"], &values).unwrap();
        assert_eq!(words, ["-s", "--resume=--help x", "--help x"]);
        assert_eq!(
            fill_template(&["{path}"], &values),
            None,
            "a value that is missing starts nothing"
        );
    }

    #[test]
    fn every_control_table_says_what_its_id_rule_needs() {
        let mut driven = 0;
        for adapter in ALL_ADAPTERS {
            let profile = adapter.agent_profile();
            let Some(control) = adapter.control_table() else { continue };
            driven += 1;
            let starts =
                control.interactive.into_iter().chain(control.headless.map(|one| one.start));
            for words in starts {
                let names = |placeholder| words.iter().any(|word| word.ends_with(placeholder));
                match control.id_rule {
                    IdRule::ChosenUuid => assert!(names("{id}"), "{}", profile.id),
                    IdRule::ChosenPath => assert!(names("{path}"), "{}", profile.id),
                    IdRule::Registered | IdRule::AtFirstPrompt => {
                        assert!(!names("{id}") && !names("{path}"), "{}", profile.id);
                    }
                }
            }
            let headless = control.headless;
            let resumes = control.resume.into_iter().chain(headless.and_then(|one| one.resume));
            for words in resumes {
                let full =
                    words.iter().any(|word| word.ends_with("{id}") || word.ends_with("{path}"));
                assert!(full, "{}: a resume names its conversation in full", profile.id);
            }
            if let Some(headless) = headless {
                let needs = match headless.input {
                    PromptInput::Stdin => None,
                    PromptInput::Argument => Some("{text}"),
                    PromptInput::File => Some("{file}"),
                };
                let words = headless.start.iter().chain(headless.resume.unwrap_or_default());
                let named = words.filter(|word| ["{text}", "{file}"].contains(word)).count();
                assert_eq!(named > 0, needs.is_some(), "{}", profile.id);
            }
            assert!(control.command_characters.contains('/'), "{}: `/` is a command", profile.id);
            assert!(!control.measured.is_empty(), "{}: measured with which version?", profile.id);
            let asks = control.interactive.is_some()
                && control.permission_channel != PermissionChannel::AsksNothing;
            assert_eq!(!control.question_words.is_empty(), asks, "{}: how it asks", profile.id);
        }
        assert_eq!(driven, 9, "Claude, Codex, OpenCode, Gemini, Qwen, Copilot, Pi, Kimi, Droid");
    }
}
