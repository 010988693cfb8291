//! `ostler screenshot`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use flows::terminal::picture;
use flows::terminal::screen::png::ShowCursor;
use model::hosted::HostFault;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::fields::FieldPage;
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(Terminals, 4),
    effect: WritesState,
    agent_tty: 9,
    answers: &[answer::<hosted_wire::ScreenshotResult>()],
    examples: &[example("screenshot build", "The screen as a picture.").on(Terminal)],
    cases: &[
        empty("screenshot build"),
        usual("screenshot build").on(Terminal),
        refused("screenshot build --profile none").on(Terminal)
    ],
    uncased: &[ONE_FILE],
    ..entry!("screenshot", ScreenshotArgs, run_screenshot)
}];

/// Draw a terminal's screen as a PNG, the same to the byte on every machine.
#[derive(Debug, Args)]
pub(crate) struct ScreenshotArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
    /// How to draw it: `reference-dark`, `reference-light` or one of your own.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// With the cursor.
    #[arg(long)]
    show_cursor: bool,
    /// Without the cursor, as usual.
    #[arg(long)]
    hide_cursor: bool,
    /// Write the picture there too; `-` is standard output, and then nothing else is printed.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl ScreenshotArgs {
    pub(crate) fn run_screenshot(&self, context: &CliContext) -> Result<ExitCode, Error> {
        if self.show_cursor && self.hide_cursor {
            return Err(HostFault::invalid_input(
                "--show-cursor and --hide-cursor are mutually exclusive.",
            )
            .into());
        }
        let cursor = if self.show_cursor { ShowCursor::Yes } else { ShowCursor::No };
        let home = context.terminals_home()?;
        let session = context.find_terminal(&self.id)?;
        let profile = context.render_profile(self.profile.as_deref())?;
        let result = picture::take_screenshot(&home, &session, &profile, cursor)?;
        if let Some(out) = &self.out {
            let to_stdout = out.as_os_str() == "-";
            write_picture(Path::new(&result.artifact_path), out, to_stdout && !context.json)?;
            if to_stdout && !context.json {
                return Ok(ExitCode::SUCCESS);
            }
        }
        if context.json {
            context.print_json(&result)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut page = FieldPage::for_personality(context.personality);
        page.push_field("Session", &result.session_id);
        page.push_field("Captured at seq", &result.captured_at_seq.to_string());
        page.push_field("Profile", &result.profile_name);
        page.push_field("Size", &format!("{}x{}", result.pixel_width, result.pixel_height));
        page.push_field("Bytes", &result.png_size_bytes.to_string());
        page.push_field("SHA-256", &result.sha256);
        page.push_field("Path", &result.artifact_path);
        output::print_text(&page.into_text())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes a picture that was taken to a file, or as it is to standard output.
fn write_picture(picture: &Path, out: &Path, to_stdout: bool) -> Result<(), Error> {
    let bytes = std::fs::read(picture).map_err(|error| Error::Read {
        path: picture.to_string_lossy().into_owned(),
        reason: error.to_string(),
    })?;
    if to_stdout {
        if output::is_terminal() {
            return Err(Error::usage_error(
                "`-o -` would write a picture to the terminal",
                "send it to a program or a file, or name a file",
            ));
        }
        return output::print_foreign(&bytes);
    }
    if out.as_os_str() == "-" {
        return Err(Error::usage_error(
            "`-o -` and `--json` both want standard output",
            "leave one of them out, or name a file",
        ));
    }
    sys::atomic::write_synced(out, &bytes).map_err(|error| Error::Write {
        path: out.to_string_lossy().into_owned(),
        reason: error.to_string(),
    })
}
