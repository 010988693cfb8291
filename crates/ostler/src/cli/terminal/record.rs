//! `ostler record export`

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use flows::terminal::export::{self, ExportFormat, ExportLook, FilmTiming};
use flows::terminal::screen::Personality;
use flows::terminal::screen::png::Profile;
use model::hosted::HostFault;
use model::time::parse_duration;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::fields::FieldPage;
use crate::render::output;

declare_commands![
    CommandEntry {
        place: HelpPlace(Terminals, 11),
        agent_tty: 10,
        ..entry!("record", RecordArgs, run_record)
    },
    CommandEntry {
        place: HelpPlace(Terminals, 1),
        effect: WritesFiles,
        answers: &[answer::<hosted_wire::ExportResult>()],
        examples: &[
            example("record export build --format asciicast", "A recording that asciinema plays.")
                .on(Terminal),
            example("record export build --format gif --speed 2", "Pictures that move.")
                .on(Terminal)
        ],
        cases: &[
            empty("record export build --format txt"),
            usual("record export build --format txt").on(Terminal),
            refused("record export build --format flv").on(Terminal)
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
    /// `asciicast`, `cast-v3`, `txt`, `html`, `gif`, or with `ffmpeg` `webm` and `mp4`; else what the ending of
    /// `--out` says, else `asciicast`.
    #[arg(long)]
    format: Option<String>,
    /// Where to write it; its directory must exist, and a file that is there is replaced.
    #[arg(short, long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// The colours of a page or picture.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// How fast moving pictures play: 2 is twice as fast.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = parse_speed)]
    speed: u32,
    /// Shorten longer pauses of moving pictures to this; 0 keeps them.
    #[arg(long, value_name = "SPAN", default_value = "3s", value_parser = parse_moment)]
    idle_limit: Duration,
    /// Begin moving pictures here, counted from the start.
    #[arg(long, value_name = "SPAN", default_value = "0", value_parser = parse_moment)]
    from: Duration,
    /// End moving pictures here.
    #[arg(long, value_name = "SPAN", value_parser = parse_moment)]
    to: Option<Duration>,
    /// How time passes in a video.
    #[arg(long, hide = true)]
    timing: Option<String>,
}

/// How time may pass in a video, as agent-tty has it.
const TIMINGS: [&str; 3] = ["recorded", "accelerated", "max-speed"];

/// A factor in hundredths.
fn parse_speed(text: &str) -> Result<u32, String> {
    let factor: f64 = text.parse().map_err(|_| "write it like 2 or 0.5".to_owned())?;
    match factor {
        0.01..=1000.0 => Ok((factor * 100.0).round() as u32),
        _ => Err("it is between 0.01 and 1000".to_owned()),
    }
}

fn parse_moment(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::ZERO),
        text => parse_duration(text).ok_or_else(|| "write it like 90s or 5m".to_owned()),
    }
}

impl RecordArgs {
    pub(crate) fn run_record(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let RecordCommand::Export(export) = &self.what;
        export.run_record_export(context)
    }
}

impl RecordExportArgs {
    /// What the file is to be by its ending, if it says so.
    fn format_of_out(&self) -> ExportFormat {
        let ending = self.out.as_deref().and_then(|out| out.extension()?.to_str());
        let named = ending.and_then(|ending| ExportFormat::parse(ending).ok());
        named.unwrap_or(ExportFormat::Asciicast)
    }

    fn run_record_export(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let format = match &self.format {
            Some(format) => ExportFormat::parse(format)?,
            None if context.personality == Personality::AgentTty => {
                return Err(HostFault::invalid_input(
                    "required option '--format <format>' not specified",
                )
                .into());
            }
            None => self.format_of_out(),
        };
        let home = context.terminals_home()?;
        let session = context.find_terminal(&self.id)?;
        if let Some(timing) = self.timing.as_deref().filter(|one| !TIMINGS.contains(one)) {
            let message = format!("--timing `{timing}` must be one of {}", TIMINGS.join(", "));
            return Err(HostFault::invalid_input(message).with("timing", timing).into());
        }
        let is_text =
            matches!(format, ExportFormat::Asciicast | ExportFormat::CastV3 | ExportFormat::Txt);
        // agent-tty has no use for one where nothing is drawn, and does not look at it.
        let profile = match is_text && context.personality == Personality::AgentTty {
            true => Profile::reference_dark(),
            false => context.render_profile(self.profile.as_deref())?,
        };
        if self.to.is_some_and(|to| to <= self.from) {
            return Err(Error::usage_error("`--to` is not after `--from`", "give a later end"));
        }
        let timing = FilmTiming {
            speed_percent: Some(self.speed),
            idle_limit: Some(self.idle_limit).filter(|limit| !limit.is_zero()),
            from: self.from,
            to: self.to,
        };
        let look = ExportLook { profile, timing };
        let result = export::export_recording(&home, &session, format, self.out.as_deref(), &look)?;
        if context.json {
            context.print_json(&result)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut page = FieldPage::for_personality(context.personality);
        page.push_field("Session", &result.session_id);
        page.push_field("Format", result.format);
        page.push_field("Path", &result.artifact_path);
        page.push_field("Bytes", &result.bytes.to_string());
        page.push_field("SHA-256", &result.sha256);
        page.push_field("Captured at seq", &result.captured_at_seq.to_string());
        page.push_field("Duration", &format!("{}ms", result.duration_ms.unwrap_or(0)));
        output::print_text(&page.into_text())?;
        Ok(ExitCode::SUCCESS)
    }
}
