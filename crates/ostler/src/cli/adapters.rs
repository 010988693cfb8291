//! `ostler adapters`

use std::process::ExitCode;

use clap::Args;
use flows::observe::{AgentReport, Observation, ObserveScope};
use model::session::FormatCertainty;
use model::wire::{AdapterView, AdaptersResult};

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::colour::{Colour, Painter};
use crate::render::table::{ColumnGive, TableCell, TableColumn, render_table};
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(See, 9),
    answers: &[answer::<wire::AdaptersResult>()],
    examples: &[example("adapters", "Which agents are known, and where their files are.")],
    cases: &[
        empty("adapters"),
        usual("adapters"),
        refused("adapters --no-such-option"),
        also("adapters").on(Broken)
    ],
    uncased: &[(
        Incomplete,
        "its table counts the problems of every agent; tests/cli/errors.rs reads them"
    )],
    ..entry!("adapters", AdaptersArgs, run_adapters)
}];

/// Show which agents are known, where ostler looks for them, and what it found.
#[derive(Debug, Args)]
pub(crate) struct AdaptersArgs {}

const ADAPTER_COLUMNS: [TableColumn; 6] = [
    TableColumn { head: "ADAPTER", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "FORMAT", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "SESSIONS", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "PROCESSES", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "PROBLEMS", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "LOOKS IN", give: ColumnGive::Cut(20), right: false },
];

impl AdaptersArgs {
    pub(crate) fn run_adapters(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let observation = context.observe_now(ObserveScope::All, &[])?;
        let adapters: Vec<AdapterView> =
            observation.agents.iter().map(|report| adapter_view(&observation, report)).collect();
        if context.json {
            context.print_json(AdaptersResult { adapters })?;
            return Ok(ExitCode::SUCCESS);
        }
        let rows: Vec<Vec<TableCell>> = adapters.iter().map(adapter_row).collect();
        let paint = Painter::for_stdout();
        output::print_text(&render_table(
            &ADAPTER_COLUMNS,
            &rows,
            output::output_columns(),
            paint,
        ))?;
        for adapter in &adapters {
            for problem in &adapter.problems {
                let path = problem.path.as_deref().unwrap_or("");
                output::print_notice(&text::one_line(&format!(
                    "{}: {path}: {}",
                    adapter.id, problem.reason
                )));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn adapter_view(observation: &Observation, report: &AgentReport) -> AdapterView {
    let about = report.adapter.agent_profile();
    AdapterView {
        id: about.id,
        name: about.name,
        roots: report.roots.iter().map(|root| root.to_string_lossy().into_owned()).collect(),
        present: report.roots.iter().any(|root| root.exists()),
        found: observation.sessions.iter().filter(|one| one.session.agent == about.id).count(),
        processes: report.processes,
        certainty: about.certainty,
        note: about.note,
        disabled: report.disabled,
        problems: observation
            .incomplete
            .iter()
            .filter(|one| one.source == about.id)
            .cloned()
            .collect(),
    }
}

fn adapter_row(adapter: &AdapterView) -> Vec<TableCell> {
    let certainty = match adapter.certainty {
        FormatCertainty::Lab => "seen",
        FormatCertainty::Documented => "documented",
    };
    let state = if adapter.disabled { "disabled" } else { certainty };
    let number = |count: usize| {
        if count == 0 { "-".to_owned() } else { count.to_string() }
    };
    let colour = if adapter.present { None } else { Some(Colour::Dim) };
    vec![
        (adapter.id.to_owned(), colour),
        (state.to_owned(), Some(Colour::Dim)),
        (number(adapter.found), None),
        (number(adapter.processes), None),
        (number(adapter.problems.len()), None),
        (text::one_line(&adapter.roots.join(", ")), Some(Colour::Dim)),
    ]
}
