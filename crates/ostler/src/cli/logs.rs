//! `ostler logs`

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use flows::address;
use flows::converse::{TalkPart, TalkWindow, read_conversation};
use flows::markdown::{TalkSecrets, to_talk_entry};
use flows::observe::{ObserveScope, Observed};
use flows::terminal::tell;
use model::conversation::{ConversationEntry, ConversationRole};
use model::session::SessionKind;
use model::wire::{LogsResult, TalkResult};
use sys::watch::DirectoryWatch;

use crate::cli::registry::AnswerSchema;
use crate::cli::{CliContext, complete};
use crate::error::Error;
use crate::render::colour::{Colour, Painter};
use crate::render::{duration, output, text};
use crate::timeouts::STORE_SETTLE_DELAY;

declare_commands![CommandEntry {
    place: HelpPlace(See, 1),
    answers: &[
        answer::<wire::LogsResult<'static>>(),
        stream::<model::conversation::ConversationEntry>(" -f"),
        AnswerSchema { suffix: " --blocks", ..answer::<wire::TalkResult<'static>>() }
    ],
    examples: &[
        example("logs 666e4f9b", "The whole conversation."),
        example("logs 666e4f9b -n 5", "Its last five entries.")
    ],
    cases: &[
        empty("logs 666e4f9b"),
        usual("logs 666e4f9b -n 2"),
        refused("logs no-such-session").on(Worked),
        also("logs 666e4f9b"),
        also("logs 666e4f9b --limit 2")
    ],
    uncased: &[ONE_FILE],
    ..entry!("logs", LogsArgs, run_logs)
}];

/// Print the conversation of a session, whichever agent held it.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The session: an id, an unambiguous prefix, a name, `.` or `-`.
    #[arg(add = ArgValueCandidates::new(complete::complete_sessions))]
    id: String,
    /// Only the last N entries.
    #[arg(short = 'n', long = "lines", value_name = "N")]
    last: Option<usize>,
    /// Begin with the entry of this number, counted from 1, as `ostler search` gives it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    from: Option<u64>,
    /// Print at most so many entries.
    #[arg(long, value_name = "N", conflicts_with_all = ["follow", "last"])]
    limit: Option<usize>,
    /// With `--json`: Markdown as blocks, secrets masked, for pages that show it.
    #[arg(long, conflicts_with = "follow")]
    blocks: bool,
    /// With `--blocks`: secrets as they are.
    #[arg(long, requires = "blocks")]
    reveal: bool,
    /// Go on as the conversation goes on.
    #[arg(short, long)]
    follow: bool,
    /// Print tool input and results whole.
    #[arg(long)]
    full: bool,
    /// With what the agent put in for itself: instructions, reminders, notes.
    #[arg(long)]
    all: bool,
}

/// How much of a tool's input or result is shown.
const MAX_TOOL_CHARS: usize = 400;
const MAX_TOOL_LINES: usize = 6;

impl LogsArgs {
    pub(crate) fn run_logs(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let observation = context.observe_now(ObserveScope::All, &[])?;
        let here = context.current_dir();
        let one = address::resolve_session(&observation, &self.id, &here)?;
        // Before reading: what is added from now on is told.
        let watch = if self.follow { watch_transcript(one)? } else { None };
        // Programs are given everything; people came for the talk.
        let hide_system = !self.all && !context.json && one.session.kind == SessionKind::Native;
        let first = self.from.map_or(0, |from| usize::try_from(from - 1).unwrap_or(usize::MAX));
        let mut window = TalkWindow::new(first, self.last, self.limit).without_system(hide_system);
        let mut position = read_entries(one, 0, &mut |entry| window.add_entry(entry))?;
        let TalkPart { mut entries, omitted, total, hidden } = window.into_part();
        if hidden > 0 {
            let records = text::format_plural(hidden as u64, "record");
            let words = format!("{records} of the agent's own hidden; `--all` shows them");
            output::print_notice(&words);
        }
        if self.blocks && !context.json {
            return Err(Error::usage_error("`--blocks` is for programs", "add `--json`"));
        }
        if self.blocks {
            let secrets = if self.reveal { TalkSecrets::Shown } else { TalkSecrets::Masked };
            let numbered = entries.iter().enumerate();
            let entries = numbered
                .map(|(at, entry)| to_talk_entry(omitted + at + 1, entry, secrets))
                .collect();
            let (id, agent) = (&one.session.id, one.session.agent);
            context.print_json(TalkResult { id, agent, entries, total })?;
            return Ok(ExitCode::SUCCESS);
        }
        if context.json && !self.follow {
            context.print_json(LogsResult {
                id: &one.session.id,
                agent: one.session.agent,
                entries,
                omitted,
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        let paint = Painter::for_stdout();
        if omitted > 0 && !context.json {
            output::print_notice(&format!("{omitted} earlier entries left out"));
        }
        self.print_entries(context, &entries, paint)?;
        let Some(watch) = watch else { return Ok(ExitCode::SUCCESS) };
        let mut moment = None;
        loop {
            let told = watch.wait_for(moment)?;
            moment = told.then_some(STORE_SETTLE_DELAY);
            entries.clear();
            position = read_entries(one, position, &mut |entry| entries.push(entry))?;
            if hide_system {
                entries.retain(is_talk);
            }
            self.print_entries(context, &entries, paint)?;
        }
    }

    fn print_entries(
        &self,
        context: &CliContext,
        entries: &[ConversationEntry],
        paint: Painter,
    ) -> Result<(), Error> {
        for entry in entries {
            if context.json {
                output::print_json_line(entry)?;
            } else {
                output::print_text(&self.render_entry_text(entry, paint))?;
            }
        }
        Ok(())
    }

    fn render_entry_text(&self, entry: &ConversationEntry, paint: Painter) -> String {
        let (mark, colour) = match entry.role {
            ConversationRole::User => ("user", Colour::Cyan),
            ConversationRole::Assistant => ("assistant", Colour::Green),
            ConversationRole::Tool => ("tool", Colour::Yellow),
            ConversationRole::Result => ("result", Colour::Dim),
            ConversationRole::System => ("system", Colour::Dim),
        };
        let mut head = paint.paint(colour, mark);
        if let Some(tool) = &entry.tool {
            let _ = write!(head, " {}", text::one_line(tool));
        }
        if let Some(at) = entry.at {
            let at = duration::local_time(at);
            let _ = write!(head, " {}", paint.paint(Colour::Dim, &at));
        }
        let short = matches!(
            entry.role,
            ConversationRole::Tool | ConversationRole::Result | ConversationRole::System
        ) && !self.full;
        let body = if short { shorten_tool_text(&entry.text) } else { entry.text.clone() };
        let mut out = head + "\n";
        let is_talk = matches!(entry.role, ConversationRole::User | ConversationRole::Assistant);
        let columns = output::output_columns();
        for line in text::many_lines(&body).lines() {
            let line = text::wrap_words(&format!("  {line}"), columns, "  ");
            let line = if is_talk { line } else { paint.paint(Colour::Dim, &line) };
            let _ = writeln!(out, "{line}");
        }
        out.push('\n');
        text::for_locale(out)
    }
}

/// Whether an entry is not one that the agent put in for itself.
fn is_talk(entry: &ConversationEntry) -> bool {
    entry.role != ConversationRole::System
}

/// Follows the directory that the session is written in.
fn watch_transcript(one: &Observed) -> Result<Option<DirectoryWatch>, Error> {
    let written = one.session.transcript.as_ref().and_then(|found| found.path.parent());
    let unreadable = |path: &Path, error: std::io::Error| Error::Read {
        path: path.display().to_string(),
        reason: error.to_string(),
    };
    written
        .map(|path| DirectoryWatch::watch_directory(path).map_err(|error| unreadable(path, error)))
        .transpose()
}

/// Reads the conversation from a position on; gives the position after it.
pub(crate) fn read_entries(
    one: &Observed,
    position: u64,
    say: &mut dyn FnMut(ConversationEntry),
) -> Result<u64, Error> {
    let session = &one.session;
    if let (SessionKind::Hosted, Some(log)) = (session.kind, &session.transcript) {
        let directory = log.path.parent().unwrap_or(&log.path);
        return tell::read_log_conversation(directory, position, say).map_err(|error| {
            Error::Read { path: log.path.display().to_string(), reason: error.to_string() }
        });
    }
    let source =
        one.source.as_ref().ok_or_else(|| Error::NoTranscript { id: session.id.clone() })?;
    read_conversation(session.agent, source, position, say).map_err(|error| Error::Read {
        path: source.path.display().to_string(),
        reason: error.to_string(),
    })
}

/// The beginning of a long text, and how much more there is.
fn shorten_tool_text(text: &str) -> String {
    let by_lines: usize = text.split_inclusive('\n').take(MAX_TOOL_LINES).map(str::len).sum();
    let by_chars = text.char_indices().nth(MAX_TOOL_CHARS).map_or(text.len(), |(end, _)| end);
    let end = by_lines.min(by_chars);
    if end == text.len() {
        return text.to_owned();
    }
    format!("{}\n… {} more", text[..end].trim_end(), text::format_bytes((text.len() - end) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_results_are_shortened_and_say_so() {
        assert_eq!(shorten_tool_text("short"), "short");
        assert_eq!(
            shorten_tool_text(&"é".repeat(500)),
            format!("{}\n… 200 B more", "é".repeat(400))
        );
        assert_eq!(
            shorten_tool_text(&"x\n".repeat(10)),
            format!("{}x\n… 8 B more", "x\n".repeat(5))
        );
    }
}
