//! `ostler snapshot`

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use flows::terminal::look;
use flows::terminal::screen::Personality;
use model::hosted::HostFault;
use model::hosted::wire::{SnapshotFormat, SnapshotParams, SnapshotResult};

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::fields::FieldPage;
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(Terminals, 3),
    effect: WritesState,
    agent_tty: 8,
    answers: &[answer::<hosted_wire::SnapshotResult>()],
    examples: &[
        example("snapshot build --format text", "What is on the screen, as text.").on(Terminal)
    ],
    cases: &[
        empty("snapshot build"),
        usual("snapshot build --format text").on(Terminal),
        refused("snapshot build --format gif").on(Terminal)
    ],
    uncased: &[ONE_FILE],
    ..entry!("snapshot", SnapshotArgs, run_snapshot)
}];

/// Show what is on a terminal's screen.
///
/// Works on every session: a running one is asked, one that is over is replayed from its log.
#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
    /// `structured` or `text`.
    #[arg(long, default_value = "structured")]
    format: String,
    /// With the lines that scrolled away.
    #[arg(long)]
    include_scrollback: bool,
    /// With every cell and its colours.
    #[arg(long)]
    include_cells: bool,
}

impl SnapshotArgs {
    pub(crate) fn run_snapshot(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let format = match self.format.as_str() {
            "structured" => SnapshotFormat::Structured,
            "text" => SnapshotFormat::Text,
            other => {
                let message = format!("--format `{other}` must be structured or text.");
                return Err(HostFault::invalid_input(message).into());
            }
        };
        let params = SnapshotParams {
            format,
            include_scrollback: self.include_scrollback,
            include_cells: self.include_cells,
            renderer_name: None,
        };
        let home = context.terminals_home()?;
        let session = context.find_terminal(&self.id)?;
        let result = look::take_snapshot(&session, &params)?;
        look::keep_snapshot(&home, &session, &result)?;
        if context.json {
            context.print_json(&result)?;
        } else {
            // Who asks for the text wants the text.
            let headed = context.personality == Personality::AgentTty
                || format == SnapshotFormat::Structured;
            let page = render_snapshot_text(&result, context.personality);
            let page = match page.split_once("\n\n").filter(|_| !headed) {
                Some((_, text)) => text,
                None => &page,
            };
            output::print_text(page)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn render_snapshot_text(result: &SnapshotResult, personality: Personality) -> String {
    let mut head = FieldPage::for_personality(personality);
    head.push_field("Session", &result.session_id);
    head.push_field("Captured at seq", &result.captured_at_seq.to_string());
    head.push_field("Size", &format!("{}x{}", result.cols, result.rows));
    head.push_field("Cursor", &format!("row {}, col {}", result.cursor_row, result.cursor_col));
    head.push_field("Screen hash", &result.screen_hash);
    let mut out = head.into_text();
    out.push('\n');
    if let Some(all) = &result.text {
        let _ = writeln!(out, "{}", text::many_lines(all));
    }
    let lines =
        result.scrollback_lines.iter().flatten().chain(result.visible_lines.iter().flatten());
    for line in lines {
        let _ = writeln!(out, "{}", text::one_line(&line.text));
    }
    out
}
