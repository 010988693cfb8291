//! `ostler ps`

use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use flows::observe::ObserveScope;
use flows::process_list::list_processes;
use model::control::process_list::{AgentProcessRow, ProcessListResult, ProcessRole};

use crate::cli::{CliContext, complete, ls};
use crate::error::{self, Error};
use crate::render::colour::{Colour, Painter};
use crate::render::table::{ColumnGive, TableCell, TableColumn, render_table};
use crate::render::{duration, output, text};

declare_commands![CommandEntry {
    place: HelpPlace(See, 7),
    answers: &[answer::<::model::control::process_list::ProcessListResult>()],
    examples: &[
        example("ps --agent crush", "One agent's processes, with what they started."),
        example("ps --orphans --agent crush", "What dead agents left running.")
    ],
    cases: &[
        empty("ps --orphans --agent crush"),
        usual("ps --orphans --agent crush"),
        refused("ps --agent nobody"),
        incomplete("ps --orphans --agent codex"),
        also("ps")
    ],
    ..entry!("ps", PsArgs, run_ps)
}];

/// List the processes of agents as trees: memory, age, whose session each is, and orphans.
///
/// An orphan is a process that an agent started, and whose agent is proven dead.
#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Only these agents.
    #[arg(long, value_name = "AGENT", value_delimiter = ',', value_parser = ls::parse_agent,
          add = ArgValueCandidates::new(complete::complete_agents))]
    agent: Vec<String>,
    /// Only what dead agents left behind.
    #[arg(long)]
    orphans: bool,
}

const PROCESS_COLUMNS: [TableColumn; 5] = [
    TableColumn { head: "PID", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "MEMORY", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "AGE", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "PROCESS", give: ColumnGive::Cut(20), right: false },
    TableColumn { head: "SESSION", give: ColumnGive::Cut(20), right: false },
];

impl PsArgs {
    pub(crate) fn run_ps(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let observation = context.observe_now(ObserveScope::All, &[])?;
        let mut result = list_processes(&observation, &context.terminals_home()?, self.orphans);
        if !self.agent.is_empty() {
            result.processes.retain(|row| self.wants_row(row));
        }
        if context.json {
            context.print_json(&result)?;
        } else if result.processes.is_empty() {
            output::print_text(if self.orphans {
                "No orphans.\n"
            } else {
                "No processes of agents.\n"
            })?;
            ls::report_incomplete(&result.incomplete);
        } else {
            output::print_text(&render_processes(&result, context))?;
            ls::report_incomplete(&result.incomplete);
        }
        Ok(error::exit_code_for(&result.incomplete))
    }

    fn wants_row(&self, row: &AgentProcessRow) -> bool {
        row.agent.as_ref().is_some_and(|agent| self.agent.contains(agent))
    }
}

fn render_processes(result: &ProcessListResult, context: &CliContext) -> String {
    let cells = |row: &AgentProcessRow| -> Vec<TableCell> {
        let age = row.started_at.map(|at| duration::short_age(context.now.since(at)));
        let owner = row
            .session
            .as_ref()
            .map(|owner| format!("{}:{} {}", owner.agent, owner.id, owner.status));
        let whose = match (row.orphan, owner, &row.agent) {
            (true, owner, _) => format!("orphan of {}", owner.unwrap_or_default()),
            (false, Some(owner), _) => owner,
            (false, None, Some(agent)) => agent.clone(),
            (false, None, None) => String::new(),
        };
        let indent = "  ".repeat(usize::try_from(row.depth).unwrap_or(0).min(20));
        let bold = (row.role == ProcessRole::Agent).then_some(Colour::Bold);
        vec![
            (row.pid.to_string(), None),
            (row.memory_bytes.map(text::format_bytes).unwrap_or_default(), None),
            (age.unwrap_or_default(), None),
            (format!("{indent}{}", text::one_line(&row.comm)), bold),
            (text::one_line(&whose), row.orphan.then_some(Colour::Bold)),
        ]
    };
    let rows: Vec<Vec<TableCell>> = result.processes.iter().map(cells).collect();
    render_table(&PROCESS_COLUMNS, &rows, output::output_columns(), Painter::for_stdout())
}
