//! `ostler vault` and `ostler summary`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use model::address::{AddressError, SessionHandle, pick_session};
use model::summary::{KeptFile, KeptSession, SessionSummary as Boiled};
use model::wire::{
    IncompleteSource, RedactionView, SecretKindCount, VaultLsResult, VaultVerifyResult,
    VaultWrittenResult,
};

use crate::cli::{CliContext, complete};
use crate::error::Error;
use crate::render::colour::{Colour, Painter};
use crate::render::fields::FieldPage;
use crate::render::table::{ColumnGive, TableCell, TableColumn, render_table};
use crate::render::{duration, output, text};

declare_commands![
    CommandEntry {
        place: HelpPlace(See, 4),
        answers: &[answer::<model::summary::SessionSummary>()],
        examples: &[example("summary 666e4f9b", "What a session came to.")],
        cases: &[
            empty("summary 666e4f9b"),
            usual("summary 666e4f9b"),
            refused("summary no-such-session").on(Worked),
            also("summary 1111").on(Kept)
        ],
        uncased: &[ONE_FILE],
        ..entry!("summary", SummaryArgs, run_summary)
    },
    CommandEntry {
        place: HelpPlace(CleanUp, 6),
        usual_member: "ls",
        ..entry!("vault", VaultArgs, run_vault)
    },
    CommandEntry {
        place: HelpPlace(CleanUp, 1),
        answers: &[answer::<wire::VaultLsResult>()],
        examples: &[example("vault ls", "Which sessions a copy is kept of.")],
        cases: &[
            empty("vault ls"),
            usual("vault ls").on(Kept),
            refused("vault ls --no-such-option"),
            also("vault ls")
        ],
        uncased: &[ONE_PROGRAM],
        ..entry!("vault ls")
    },
    CommandEntry {
        place: HelpPlace(CleanUp, 2),
        answers: &[answer::<model::summary::KeptSession>()],
        examples: &[example("vault show ID", "What is kept of one session.").on(Kept)],
        cases: &[
            empty("vault show 1111"),
            usual("vault show 1111").on(Kept),
            refused("vault show nothing").on(Kept)
        ],
        uncased: &[ONE_FILE],
        ..entry!("vault show")
    },
    CommandEntry {
        place: HelpPlace(CleanUp, 3),
        examples: &[example("vault cat ID", "Its transcript, as it was.").on(Kept)],
        cases: &[
            empty("vault cat 1111"),
            usual("vault cat 1111").on(Kept),
            refused("vault cat nothing").on(Kept)
        ],
        uncased: &[ONE_FILE],
        ..entry!("vault cat")
    },
    CommandEntry {
        place: HelpPlace(CleanUp, 4),
        effect: WritesFiles,
        answers: &[answer::<wire::VaultWrittenResult>()],
        examples: &[
            example("vault restore ID --to back", "Its files, below another directory.").on(Kept)
        ],
        cases: &[
            empty("vault restore 1111"),
            usual("vault restore 1111 --to back").on(Kept),
            refused("vault restore nothing").on(Kept)
        ],
        uncased: &[ONE_FILE],
        ..entry!("vault restore")
    },
    CommandEntry {
        place: HelpPlace(CleanUp, 5),
        answers: &[answer::<wire::VaultVerifyResult>()],
        examples: &[example("vault verify", "Whether every copy is what it was.")],
        cases: &[
            empty("vault verify"),
            usual("vault verify").on(Kept),
            refused("vault verify --no-such-option"),
            also("vault verify")
        ],
        uncased: &[ONE_PROGRAM],
        ..entry!("vault verify")
    },
    CommandEntry {
        place: HelpPlace(CleanUp, 6),
        effect: WritesFiles,
        answers: &[answer::<wire::VaultWrittenResult>()],
        examples: &[example(
            "vault export ID --out shared.jsonl",
            "A transcript for others, without secrets."
        )
        .on(Kept)],
        cases: &[
            empty("vault export 1111"),
            usual("vault export 1111 --out exported").on(Kept),
            refused("vault export nothing").on(Kept)
        ],
        uncased: &[ONE_FILE],
        ..entry!("vault export")
    }
];

/// Look into the vault: compressed copies of sessions that are over.
#[derive(Debug, Args)]
pub(crate) struct VaultArgs {
    #[command(subcommand)]
    action: VaultCommand,
}

#[derive(Debug, Subcommand)]
enum VaultCommand {
    /// List what the vault holds.
    Ls,
    /// Show what is kept of one session.
    Show {
        /// The session: its id or an unambiguous prefix.
        #[arg(add = complete::kept_sessions())]
        id: String,
    },
    /// Print the transcript as it was.
    Cat {
        /// The session: its id or an unambiguous prefix.
        #[arg(add = complete::kept_sessions())]
        id: String,
    },
    /// Write a session's files back to where they were, or below a directory. Nothing is replaced.
    ///
    /// A conversation that was kept out of a database was no file: it needs `--to`, and its name is
    /// the hash of its content.
    Restore {
        /// The session: its id or an unambiguous prefix.
        #[arg(add = complete::kept_sessions())]
        id: String,
        /// Write them below this directory instead.
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
    /// Check that every copy is what it was.
    Verify,
    /// Write a transcript to share with others: secrets are taken out.
    Export {
        /// The session: its id or an unambiguous prefix.
        #[arg(add = complete::kept_sessions())]
        id: String,
        /// The file to write; standard output without it.
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Leave secrets in.
        #[arg(long)]
        no_redact: bool,
    },
}

/// Show what a session came to: prompts, files, models, tokens, how it ended.
#[derive(Debug, Args)]
pub(crate) struct SummaryArgs {
    /// The session: an id, an unambiguous prefix, a name, `.` or `-`.
    #[arg(add = complete::sessions())]
    id: String,
}

impl VaultArgs {
    pub(crate) fn run_vault(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let kept = load_kept(context)?;
        match &self.action {
            VaultCommand::Ls => list_kept(context, kept)?,
            VaultCommand::Show { id } => show_kept(context, find_kept(&kept, id)?)?,
            VaultCommand::Cat { id } => print_transcript(context, find_kept(&kept, id)?)?,
            VaultCommand::Restore { id, to } => {
                restore_files(context, find_kept(&kept, id)?, to.as_deref())?
            }
            VaultCommand::Verify => return verify_vault(context, &kept),
            VaultCommand::Export { id, out, no_redact } => {
                export_transcript(context, find_kept(&kept, id)?, out.as_deref(), !no_redact)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn load_kept(context: &CliContext) -> Result<Vec<KeptSession>, Error> {
    let home = context.machine()?.home();
    flows::finalize::list_kept(home).map_err(|error| Error::Order(error.into()))
}

fn find_kept<'a>(kept: &'a [KeptSession], id: &str) -> Result<&'a KeptSession, Error> {
    let all: Vec<&KeptSession> = kept.iter().collect();
    let found = pick_session(&all, id, |one: &KeptSession| SessionHandle {
        agent: &one.agent,
        id: &one.session,
        title: one.summary.title.as_deref(),
        ..SessionHandle::default()
    });
    found.map_err(|error| match error {
        AddressError::NotFound(text) => {
            Error::NotListed { text, kind: "copy of a session", list: "ostler vault ls" }
        }
        several => several.into(),
    })
}

const KEPT_COLUMNS: [TableColumn; 5] = [
    TableColumn { head: "SESSION", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "SIZE", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "ENDED", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "HOW", give: ColumnGive::Drop(1), right: false },
    TableColumn { head: "TITLE", give: ColumnGive::Cut(12), right: false },
];

fn list_kept(context: &CliContext, kept: Vec<KeptSession>) -> Result<(), Error> {
    let files = || kept.iter().flat_map(|one| &one.files);
    let (bytes, kept_bytes) =
        (files().map(|file| file.bytes).sum(), files().map(|file| file.kept_bytes).sum());
    if context.json {
        return context.print_json(VaultLsResult { bytes, kept_bytes, kept });
    }
    if kept.is_empty() {
        return output::print_text(
            "The vault is empty. Sessions that hooks tell of are kept when they end.\n",
        );
    }
    let row = |one: &KeptSession| -> Vec<TableCell> {
        let size: u64 = one.files.iter().map(|file| file.kept_bytes).sum();
        let ago = one.summary.ended_at.map(|at| duration::short_age(context.now.since(at)));
        let name = format!("{}:{}", one.agent, one.session);
        vec![
            (text::one_line(&name), Some(Colour::Cyan)),
            (text::format_bytes(size), None),
            (ago.unwrap_or_default(), None),
            (text::one_line(&one.summary.reason), Some(Colour::Dim)),
            (text::one_line(one.summary.title.as_deref().unwrap_or("")), None),
        ]
    };
    let rows: Vec<Vec<TableCell>> = kept.iter().map(row).collect();
    let columns = output::output_columns();
    output::print_text(&render_table(&KEPT_COLUMNS, &rows, columns, Painter::for_stdout()))
}

fn show_kept(context: &CliContext, kept: &KeptSession) -> Result<(), Error> {
    if context.json {
        return context.print_json(kept);
    }
    let mut page = render_summary_text(&kept.summary);
    for file in &kept.files {
        let line = format!(
            "kept      {} ({} of {})",
            file.path,
            text::format_bytes(file.kept_bytes),
            text::format_bytes(file.bytes)
        );
        page.push_str(&text::one_line(&line));
        page.push('\n');
    }
    output::print_text(&page)
}

fn first_file(kept: &KeptSession) -> Result<&KeptFile, Error> {
    kept.files.first().ok_or_else(|| Error::NoTranscript { id: kept.session.clone() })
}

fn print_transcript(context: &CliContext, kept: &KeptSession) -> Result<(), Error> {
    let home = context.machine()?.home();
    if output::is_terminal() {
        let mut bytes = Vec::new();
        flows::vault::fetch_copy(home, first_file(kept)?, &mut bytes)?;
        return output::print_foreign(&bytes);
    }
    let mut out = std::io::stdout().lock();
    flows::vault::fetch_copy(home, first_file(kept)?, &mut out)?;
    out.flush()?;
    Ok(())
}

fn restore_files(
    context: &CliContext,
    kept: &KeptSession,
    to: Option<&std::path::Path>,
) -> Result<(), Error> {
    let home = context.machine()?.home();
    let mut written = Vec::new();
    let place = |file| flows::vault::place_to_restore(file, to);
    let places = kept.files.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    for (file, path) in kept.files.iter().zip(places) {
        flows::vault::restore_copy(home, file, &path)?;
        written.push(path.to_string_lossy().into_owned());
    }
    print_written(context, VaultWrittenResult { written, redacted: None, redaction: None })
}

fn print_written(context: &CliContext, result: VaultWrittenResult) -> Result<(), Error> {
    if context.json {
        return context.print_json(result);
    }
    let mut page = String::new();
    for path in &result.written {
        page.push_str(&text::one_line(&format!("written {path}")));
        page.push('\n');
    }
    if let Some(redaction) = &result.redaction {
        page.push_str(&redaction_words(redaction));
        page.push('\n');
    }
    output::print_text(&page)
}

/// What was taken out, and that it may not be all.
fn redaction_words(redaction: &RedactionView) -> String {
    let count = redaction.kinds.iter().map(|one| one.count).sum();
    let kinds = redaction.kinds.iter().map(|one| format!("{} {}", one.count, one.kind));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let found = text::format_plural(count, "secret");
    let kinds = if kinds.is_empty() { String::new() } else { format!(" ({kinds})") };
    format!("{found} taken out{kinds}; this is best effort: read it before you share it")
}

fn verify_vault(context: &CliContext, kept: &[KeptSession]) -> Result<ExitCode, Error> {
    let home = context.machine()?.home();
    let mut result = VaultVerifyResult { sound: 0, damaged: Vec::new() };
    for one in kept {
        for file in &one.files {
            match flows::vault::fetch_copy(home, file, &mut std::io::sink()) {
                Ok(()) => result.sound += 1,
                Err(error) => result.damaged.push(IncompleteSource {
                    source: format!("{}:{}", one.agent, one.session),
                    path: Some(file.path.clone()),
                    reason: error.to_string(),
                }),
            }
        }
    }
    let code = crate::error::exit_code_for(&result.damaged);
    if context.json {
        context.print_json(result)?;
    } else {
        let copies = text::plural_of(result.sound, "copy", "copies");
        let sessions = text::format_plural(kept.len() as u64, "session");
        let bare = kept.iter().filter(|one| one.files.is_empty()).count() as u64;
        let without = match bare {
            0 => String::new(),
            bare => format!(", {bare} of which never wrote anything"),
        };
        output::print_text(&format!("sound: {copies} of {sessions}{without}\n"))?;
        for one in &result.damaged {
            output::print_notice(&text::one_line(&format!("{}: {}", one.source, one.reason)));
        }
    }
    Ok(code)
}

fn export_transcript(
    context: &CliContext,
    kept: &KeptSession,
    out: Option<&std::path::Path>,
    redact: bool,
) -> Result<(), Error> {
    let home = context.machine()?.home();
    let mut bytes = Vec::new();
    flows::vault::fetch_copy(home, first_file(kept)?, &mut bytes)?;
    let (bytes, redaction) = match redact {
        true => {
            let (text, found) = flows::redact::redact(&String::from_utf8_lossy(&bytes));
            let count = |(kind, count): (&str, u64)| SecretKindCount { kind: kind.into(), count };
            let kinds = found.into_iter().map(count).collect();
            (text.into_bytes(), Some(RedactionView { best_effort: true, kinds }))
        }
        false => (bytes, None),
    };
    let Some(path) = out else {
        output::print_foreign(&bytes)?;
        if let Some(redaction) = &redaction {
            output::print_notice(&redaction_words(redaction));
        }
        return Ok(());
    };
    sys::atomic::write_synced(path, &bytes).map_err(|error| Error::Write {
        path: path.to_string_lossy().into_owned(),
        reason: error.to_string(),
    })?;
    let written = vec![path.to_string_lossy().into_owned()];
    let redacted = redaction.as_ref().map(|found| found.kinds.iter().map(|one| one.count).sum());
    print_written(context, VaultWrittenResult { written, redacted, redaction })
}

impl SummaryArgs {
    pub(crate) fn run_summary(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let kept = load_kept(context)?;
        let summary = match find_kept(&kept, &self.id) {
            Ok(kept) => kept.summary.clone(),
            Err(_) => {
                let observation = context.observe_now(flows::observe::ObserveScope::All, &[])?;
                let here = context.current_dir();
                let one = flows::address::resolve_session(&observation, &self.id, &here)?;
                flows::finalize::summarize_session(one)
            }
        };
        if context.json {
            context.print_json(summary)?;
        } else {
            output::print_text(&render_summary_text(&summary))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A summary in words.
fn render_summary_text(summary: &Boiled) -> String {
    let mut page = FieldPage::new(Painter::for_stdout());
    let mut line = |name: &str, value: &str| page.push_field(name, value);
    let time = |at: Option<model::time::Time>| at.map(duration::local_time).unwrap_or_default();
    line("title", summary.title.as_deref().unwrap_or(""));
    line("directory", summary.cwd.as_deref().unwrap_or(""));
    line("branch", summary.branch.as_deref().unwrap_or(""));
    line("models", &summary.models.join(", "));
    line("started", &time(summary.started_at));
    line("ended", &time(summary.ended_at));
    line("how", &summary.reason);
    line("turns", &summary.turns.to_string());
    if let Some(tokens) = summary.tokens {
        let (input, output) = (text::format_count(tokens.input), text::format_count(tokens.output));
        line("tokens", &format!("{input} in, {output} out"));
    }
    for prompt in &summary.prompts {
        line("prompt", prompt);
    }
    for file in &summary.files {
        line("file", file);
    }
    line("last word", summary.last_message.as_deref().unwrap_or(""));
    page.into_text()
}
