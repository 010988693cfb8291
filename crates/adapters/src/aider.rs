//! The adapter of Aider: reads its sessions.
//!
//! Everything said in a repository is appended to one file there, `.aider.chat.history.md`:
//! `# aider chat started at …` opens each run, `#### ` marks what a person typed, `> ` what the
//! program itself prints, the rest is the model's answer. There is no session id. The file is one
//! session: runs have no other name, cannot be resumed apart and cannot be removed apart. Its id is
//! a hash of the directory's path, which stays the same as long as the repository stays where it
//! is, and tells two repositories apart. Times are local and without a zone, so none is taken.

use std::path::{Path, PathBuf};

use model::conversation::{ConversationEntry, ConversationRole};
use model::hex::to_hex;
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{TranscriptDigest, TurnState};
use model::usage::micro_usd;
use sha2::{Digest as _, Sha256};

use crate::files::{self, EntryKind, ReadError};
use crate::{Adapter, AgentProfile, EnvLookup, Opening, Survey, TranscriptSource};

#[derive(Debug)]
pub(crate) struct Aider;

static AIDER_PROFILE: AgentProfile = AgentProfile {
    id: "aider",
    name: "Aider",
    version: 1,
    certainty: FormatCertainty::Documented,
    program: AgentProgram { names: &["aider"], packages: &["aider"], servers: &[], helpers: &[] },
    resume_options: &[],
    continue_options: &["--restore-chat-history"],
    session_variables: &[],
    opening: Opening { from_below: true, ..Opening::IN_DIRECTORY },
    hooks: None,
    note: "the chat history of the current directory; no ids, no tokens, no times",
};

const FORMAT: &str = "aider-markdown";
const HISTORY: &str = ".aider.chat.history.md";

impl Adapter for Aider {
    fn agent_profile(&self) -> &'static AgentProfile {
        &AIDER_PROFILE
    }

    /// Repositories are not listed anywhere: the current one is all that can be known.
    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        let here = env.path_of("PWD").filter(|here| here.is_absolute());
        here.filter(|here| files::stamp_path(&here.join(HISTORY)).is_some()).into_iter().collect()
    }

    fn survey_root(&self, survey: &mut Survey) {
        let root = survey.root_path();
        let wanted = |name: &str| name == HISTORY;
        let entries = survey.list_wanted(&root, wanted);
        for entry in entries.iter().filter(|entry| entry.name == HISTORY) {
            if entry.kind == EntryKind::File {
                let path = root.join(HISTORY);
                survey.note_file(id_of(&root), path, entry.stamp, FORMAT);
            }
        }
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        let mut reading = Reading::default();
        let end = source.each_line(0, |line| reading.read_line(&String::from_utf8_lossy(line)))?;
        let mut digest = reading.into_digest();
        digest.damage.oversized = end.oversized;
        digest.cwd = source.path.parent().map(files::display_path);
        Ok(digest)
    }

    fn read_conversation(
        &self,
        source: &TranscriptSource,
        from: u64,
        say: &mut dyn FnMut(ConversationEntry),
    ) -> Result<u64, ReadError> {
        let mut paragraph = Paragraph::default();
        let end = source
            .each_line(from, |line| paragraph.add_line(&String::from_utf8_lossy(line), say))?;
        paragraph.emit_entry(say);
        Ok(end.offset)
    }
}

fn id_of(directory: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;

    let hash = Sha256::digest(directory.as_os_str().as_bytes());
    to_hex(&hash[..8])
}

/// What one line is.
enum Line<'a> {
    Prompt(&'a str),
    Program(&'a str),
    Answer(&'a str),
    Start,
}

impl<'a> Line<'a> {
    fn parse_line(line: &'a str) -> Self {
        if line.starts_with("# aider chat started at ") {
            Self::Start
        } else if let Some(text) = line.strip_prefix("#### ") {
            Self::Prompt(text.trim_end())
        } else if let Some(text) = line.strip_prefix("> ") {
            Self::Program(text.trim_end())
        } else {
            Self::Answer(line)
        }
    }
}

#[derive(Default)]
struct Reading {
    digest: TranscriptDigest,
    /// The lines of the prompt being read: each is marked, and together they are one.
    prompt: Vec<String>,
    dollars: Option<f64>,
}

impl Reading {
    fn read_line(&mut self, line: &str) {
        let line = Line::parse_line(line);
        if let Line::Prompt(text) = line {
            self.prompt.push(text.to_owned());
            return;
        }
        self.end_prompt();
        match line {
            Line::Start => self.digest.turn = TurnState::Closed,
            Line::Program(text) => self.read_program_line(text),
            Line::Prompt(_) | Line::Answer(_) => {}
        }
    }

    fn end_prompt(&mut self) {
        let prompt = std::mem::take(&mut self.prompt).join("\n");
        let is_command = prompt.starts_with('/') || prompt.starts_with('!');
        if !prompt.trim().is_empty() && !is_command {
            self.digest.count_prompt(&prompt);
        }
    }

    fn read_program_line(&mut self, text: &str) {
        if let Some(version) = text.strip_prefix("Aider v") {
            self.digest.version = Some(version.trim().to_owned());
        } else if let Some(model) =
            text.strip_prefix("Main model: ").or_else(|| text.strip_prefix("Model: "))
        {
            self.digest.note_model(model.split(" with ").next().unwrap_or(model).trim());
        } else if text.starts_with("Tokens: ") {
            // Printed when an answer is complete.
            self.digest.turn = TurnState::Closed;
            if let Some(dollars) = message_cost(text) {
                *self.dollars.get_or_insert(0.0) += dollars;
            }
        }
    }

    fn into_digest(mut self) -> TranscriptDigest {
        self.end_prompt();
        self.digest.cost_micro_usd = self.dollars.map(micro_usd);
        self.digest
    }
}

/// `… Cost: $0.0012 message, $0.02 session.`
fn message_cost(text: &str) -> Option<f64> {
    let (_, cost) = text.split_once("Cost: $")?;
    let (message, _) = cost.split_once(" message")?;
    message.parse().ok().filter(|dollars| *dollars >= 0.0)
}

/// Lines of one kind, one after the other, are one thing said.
#[derive(Default)]
struct Paragraph {
    role: Option<ConversationRole>,
    lines: Vec<String>,
}

impl Paragraph {
    fn add_line(&mut self, line: &str, say: &mut dyn FnMut(ConversationEntry)) {
        let (role, text) = match Line::parse_line(line) {
            Line::Prompt(text) => (ConversationRole::User, text),
            Line::Program(text) => (ConversationRole::System, text),
            Line::Answer(text) => (ConversationRole::Assistant, text),
            Line::Start => (ConversationRole::System, line.trim_start_matches("# ")),
        };
        let blank = text.trim().is_empty();
        // A blank line ends what a person or the program says and is part of an answer.
        if self.role != Some(role) && !(blank && self.role == Some(ConversationRole::Assistant)) {
            self.emit_entry(say);
        }
        if !blank || self.role == Some(ConversationRole::Assistant) {
            self.role = Some(role);
            self.lines.push(text.to_owned());
        }
    }

    fn emit_entry(&mut self, say: &mut dyn FnMut(ConversationEntry)) {
        let text = std::mem::take(&mut self.lines).join("\n");
        if let Some(role) = self.role.take()
            && !text.trim().is_empty()
        {
            say(ConversationEntry::new(None, role, text.trim()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_prompt_are_one_and_commands_are_none() {
        let mut reading = Reading::default();
        for line in ["#### /add a.py", "", "#### fix", "#### this", "", "done", "#### again"] {
            reading.read_line(line);
        }
        let read = reading.into_digest();
        assert_eq!((read.turns, read.first_prompt.as_deref()), (2, Some("fix\nthis")));
        assert_eq!(read.turn, TurnState::Open);
    }

    #[test]
    fn costs_are_read_where_they_are_stated() {
        let line = "Tokens: 1.2k sent, 56 received. Cost: $0.0012 message, $0.02 session.";
        assert_eq!(message_cost(line), Some(0.0012));
        assert_eq!(message_cost("Tokens: 1.2k sent, 56 received."), None);
    }
}
