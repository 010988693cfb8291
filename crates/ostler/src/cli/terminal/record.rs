//! `ostler record export`

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use flows::terminal::export::{self, ExportFormat};
use flows::terminal::screen::Personality;
use flows::terminal::screen::png::Profile;
use model::hosted::HostFault;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::{output, text};

declare_commands![
    CommandEntry {
        place: HelpPlace(Terminals, 4),
        agent_tty: 10,
        ..entry!("record", RecordArgs, run_record)
    },
    CommandEntry {
        place: HelpPlace(Terminals, 1),
        effect: WritesFiles,
        answers: &[answer::<hosted_wire::ExportResult>()],
        examples: &[example(
            "record export build --format asciicast",
            "A recording that asciinema plays."
        )
        .on(Terminal)],
        cases: &[
            empty("record export build --format txt"),
            usual("record export build --format txt").on(Terminal),
            refused("record export build --format gif").on(Terminal)
        ],
        uncased: &[ONE_FILE],
        ..entry!("record export")
    }
];

/// Write a terminal's log as a recording.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    #[command(subcommand)]
    what: RecordCommand,
}

#[derive(Debug, Subcommand)]
enum RecordCommand {
    Export(RecordExportArgs),
}

/// Write a recording that other programs play: the whole session, as it was.
#[derive(Debug, Args)]
struct RecordExportArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
    /// `asciicast`, `cast-v3`, `txt` or `html`.
    #[arg(long)]
    format: String,
    /// Where to write it; its directory must exist.
    #[arg(short, long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// The colours of a page.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// How time passes in a video.
    #[arg(long, hide = true)]
    timing: Option<String>,
}

/// How time may pass in a video, as agent-tty has it.
const TIMINGS: [&str; 3] = ["recorded", "accelerated", "max-speed"];

impl RecordArgs {
    pub(crate) fn run_record(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let RecordCommand::Export(export) = &self.what;
        export.run_record_export(context)
    }
}

impl RecordExportArgs {
    fn run_record_export(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let format = ExportFormat::parse(&self.format)?;
        let home = context.terminals_home()?;
        let session = context.find_terminal(&self.id)?;
        let theirs = context.personality == Personality::AgentTty;
        if let Some(timing) = self.timing.as_deref().filter(|one| !TIMINGS.contains(one)) {
            let message = format!("--timing `{timing}` must be one of {}", TIMINGS.join(", "));
            return Err(HostFault::invalid_input(message).with("timing", timing).into());
        }
        // agent-tty has no use for one where nothing is drawn, and does not look at it.
        let profile = match theirs && format != ExportFormat::Html {
            true => Profile::reference_dark(),
            false => context.render_profile(self.profile.as_deref())?,
        };
        let result =
            export::export_recording(&home, &session, format, self.out.as_deref(), profile.theme)?;
        if context.json {
            context.print_json(&result)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut out = String::new();
        let _ = writeln!(out, "Session: {}", result.session_id);
        let _ = writeln!(out, "Format: {}", result.format);
        let _ = writeln!(out, "Path: {}", text::one_line(&result.artifact_path));
        let _ = writeln!(out, "Bytes: {}", result.bytes);
        let _ = writeln!(out, "SHA-256: {}", result.sha256);
        let _ = writeln!(out, "Captured at seq: {}", result.captured_at_seq);
        let _ = writeln!(out, "Duration: {}ms", result.duration_ms.unwrap_or(0));
        output::print_text(&out)?;
        Ok(ExitCode::SUCCESS)
    }
}
