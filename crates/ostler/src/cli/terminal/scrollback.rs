//! `ostler scrollback`

use std::process::ExitCode;

use clap::Args;
use flows::terminal::look;
use model::hosted::wire::{ScrollbackResult, SnapshotFormat, SnapshotParams};

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(Terminals, 10),
    answers: &[answer::<hosted_wire::ScrollbackResult>()],
    examples: &[
        example("scrollback build --limit 200", "The first 200 lines that are kept.").on(Terminal)
    ],
    cases: &[
        empty("scrollback build"),
        usual("scrollback build").on(Terminal),
        refused("scrollback build --from first").on(Terminal)
    ],
    uncased: &[ONE_FILE],
    ..entry!("scrollback", ScrollbackArgs, run_scrollback)
}];

/// Print the lines that scrolled off a terminal's screen, the oldest first.
///
/// Works on every session: a running one is asked, one that is over is replayed from its log.
#[derive(Debug, Args)]
pub(crate) struct ScrollbackArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
    /// Begin with this line, counted from 0.
    #[arg(long, value_name = "LINE", default_value_t = 0)]
    from: usize,
    /// At most so many lines.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

impl ScrollbackArgs {
    pub(crate) fn run_scrollback(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let params = SnapshotParams {
            format: SnapshotFormat::Structured,
            include_scrollback: true,
            include_cells: false,
            renderer_name: None,
        };
        let session = context.find_terminal(&self.id)?;
        let shown = look::take_snapshot(&session, &params)?;
        let mut lines = shown.scrollback_lines.unwrap_or_default();
        let total = lines.len();
        lines.drain(..self.from.min(total));
        lines.truncate(self.limit.unwrap_or(usize::MAX));
        if context.json {
            context.print_json(ScrollbackResult { session_id: shown.session_id, total, lines })?;
        } else {
            let page: String = lines.iter().map(|line| text::one_line(&line.text) + "\n").collect();
            output::print_text(&page)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
