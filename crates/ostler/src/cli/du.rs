//! `ostler du`

use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use flows::disk_use::disk_use;
use flows::observe::ObserveScope;
use model::wire::{AgentUse, DuResult};

use crate::cli::{CliContext, complete, ls};
use crate::error::{self, Error};
use crate::render::colour::{Colour, Painter};
use crate::render::table::{ColumnGive, TableCell, TableColumn, render_table};
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(See, 6),
    answers: &[answer::<wire::DuResult>()],
    examples: &[
        example("du", "What every agent keeps, biggest first."),
        example("du --agent codex --top 3", "The three biggest projects and sessions of one.")
    ],
    cases: &[
        empty("du"),
        usual("du --agent crush"),
        refused("du --agent nobody"),
        incomplete("du --agent codex --top 1"),
        also("du")
    ],
    ..entry!("du", DuArgs, run_du)
}];

/// Show what agents' sessions cost in bytes, biggest first.
#[derive(Debug, Args)]
pub(crate) struct DuArgs {
    /// Only these agents.
    #[arg(long, value_name = "AGENT", value_delimiter = ',', value_parser = ls::parse_agent,
          add = ArgValueCandidates::new(complete::complete_agents))]
    agent: Vec<String>,
    /// Show this many projects and sessions of each agent.
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
}

const USAGE_COLUMNS: [TableColumn; 3] = [
    TableColumn { head: "BYTES", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "SESSIONS", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "WHAT", give: ColumnGive::Cut(30), right: false },
];

impl DuArgs {
    pub(crate) fn run_du(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let observation = context.observe_now(ObserveScope::All, &self.agent)?;
        let result = disk_use(&observation);
        if context.json {
            context.print_json(&result)?;
        } else {
            output::print_text(&self.render_usage_text(&result))?;
            ls::report_incomplete(&result.incomplete);
        }
        Ok(error::exit_code_for(&result.incomplete))
    }

    fn render_usage_text(&self, result: &DuResult) -> String {
        let mut rows: Vec<Vec<TableCell>> = Vec::new();
        for agent in &result.agents {
            self.add_agent_rows(agent, &mut rows);
        }
        let total = text::format_bytes(result.total_bytes);
        rows.push(vec![(total, Some(Colour::Bold)), (String::new(), None), ("total".into(), None)]);
        render_table(&USAGE_COLUMNS, &rows, output::output_columns(), Painter::for_stdout())
    }

    fn add_agent_rows(&self, agent: &AgentUse, rows: &mut Vec<Vec<TableCell>>) {
        let mut line = |bytes: u64, sessions: Option<u64>, what: String, colour| {
            let sessions = sessions.map(|count| count.to_string()).unwrap_or_default();
            rows.push(vec![
                (text::format_bytes(bytes), None),
                (sessions, None),
                (text::one_line(&what), colour),
            ]);
        };
        line(agent.bytes, Some(agent.sessions), agent.agent.to_owned(), Some(Colour::Bold));
        for project in agent.projects.iter().take(self.top) {
            let cwd = project.cwd.as_deref().unwrap_or("(no directory known)");
            line(project.bytes, Some(project.sessions), format!("  {cwd}"), None);
        }
        if agent.projects.len() > self.top {
            let rest: u64 = agent.projects[self.top..].iter().map(|project| project.bytes).sum();
            let more = agent.projects.len() - self.top;
            line(rest, None, format!("  {more} more directories"), Some(Colour::Dim));
        }
        for session in agent.biggest.iter().take(self.top) {
            let title = session.title.as_deref().unwrap_or("");
            line(session.bytes, None, format!("    {} {title}", session.id), Some(Colour::Dim));
        }
        for (bytes, what) in [
            (agent.attachment_bytes, "beside transcripts"),
            (agent.archive_bytes, "archives"),
            (agent.temporary_bytes, "temporary files left over"),
        ] {
            if bytes > 0 {
                line(bytes, None, format!("  {what}"), Some(Colour::Dim));
            }
        }
    }
}
