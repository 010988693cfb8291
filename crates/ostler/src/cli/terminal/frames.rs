//! `ostler frames`

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use flows::terminal::export;
use model::time::parse_duration;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(Terminals, 12),
    answers: &[stream::<hosted_wire::RecordingFrame>("")],
    examples: &[example(
        "frames build --from 5s",
        "What was on the screen after five seconds, and then."
    )
    .on(Terminal)],
    cases: &[
        empty("frames build"),
        also("frames build").on(Terminal),
        refused("frames build --from soon").on(Terminal)
    ],
    uncased: &[(Usual, "its times differ from run to run"), ONE_FILE],
    ..entry!("frames", FramesArgs, run_frames)
}];

/// Print a terminal's recording as frames: what changed on its screen, one JSON object on a line.
///
/// A player needs no terminal emulator: rows are text with numbered styles. The page of `ostler web`
/// plays recordings from it.
#[derive(Debug, Args)]
pub(crate) struct FramesArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
    /// Begin here, counted from the start, with what was on the screen then.
    #[arg(long, value_name = "SPAN", default_value = "0s", value_parser = parse_moment)]
    from: Duration,
    /// The colours.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

fn parse_moment(text: &str) -> Result<Duration, String> {
    match text {
        "0" | "0s" => Ok(Duration::ZERO),
        text => parse_duration(text).ok_or_else(|| "write it like 90s or 5m".to_owned()),
    }
}

impl FramesArgs {
    pub(crate) fn run_frames(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let session = context.find_terminal(&self.id)?;
        let profile = context.render_profile(self.profile.as_deref())?;
        let mut out = output::open_json_stream();
        export::write_frames(&session, &mut out, &profile, self.from)?;
        Ok(ExitCode::SUCCESS)
    }
}
