//! `ostler adapters`

use std::process::ExitCode;

use clap::Args;
use flows::observe::{AgentReport, Observation, Scope};
use model::session::FormatCertainty;
use model::wire::{AdapterView, AdaptersResult};

use crate::cli::Context;
use crate::error::Error;
use crate::render::colour::{Colour, Paint};
use crate::render::table::{Cell, Column, Give, draw};
use crate::render::{output, text};

/// Show which agents are known, where ostler looks for them, and what it found.
#[derive(Debug, Args)]
pub(crate) struct Adapters {}

const COLUMNS: [Column; 6] = [
    Column { head: "ADAPTER", give: Give::Rigid, right: false },
    Column { head: "FORMAT", give: Give::Rigid, right: false },
    Column { head: "SESSIONS", give: Give::Rigid, right: true },
    Column { head: "PROCESSES", give: Give::Rigid, right: true },
    Column { head: "PROBLEMS", give: Give::Rigid, right: true },
    Column { head: "LOOKS IN", give: Give::Cut(20), right: false },
];

impl Adapters {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let observation = context.observe(Scope::All, &[])?;
        let adapters: Vec<AdapterView> =
            observation.agents.iter().map(|report| view(&observation, report)).collect();
        if context.json {
            context.answer(AdaptersResult { adapters })?;
            return Ok(ExitCode::SUCCESS);
        }
        let rows: Vec<Vec<Cell>> = adapters.iter().map(row).collect();
        let paint = Paint::for_stdout();
        output::text(&draw(&COLUMNS, &rows, output::columns(), paint))?;
        for adapter in &adapters {
            for problem in &adapter.problems {
                let path = problem.path.as_deref().unwrap_or("");
                output::talk(&text::one_line(&format!(
                    "{}: {path}: {}",
                    adapter.id, problem.reason
                )));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn view(observation: &Observation, report: &AgentReport) -> AdapterView {
    let about = report.adapter.about();
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

fn row(adapter: &AdapterView) -> Vec<Cell> {
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
