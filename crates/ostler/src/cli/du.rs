//! `ostler du`

use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use flows::disk_use::disk_use;
use flows::observe::Scope;
use model::wire::{AgentUse, DuResult};

use crate::cli::{Context, complete, ls};
use crate::error::{self, Error};
use crate::render::colour::{Colour, Paint};
use crate::render::table::{Cell, Column, Give, draw};
use crate::render::{output, text};

/// Show what agents' sessions cost in bytes, biggest first.
#[derive(Debug, Args)]
pub(crate) struct Du {
    /// Only these agents.
    #[arg(long, value_name = "AGENT", value_delimiter = ',', value_parser = ls::parse_agent,
          add = ArgValueCandidates::new(complete::agents))]
    agent: Vec<String>,
    /// Show this many projects and sessions of each agent.
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
}

const COLUMNS: [Column; 3] = [
    Column { head: "BYTES", give: Give::Rigid, right: true },
    Column { head: "SESSIONS", give: Give::Rigid, right: true },
    Column { head: "WHAT", give: Give::Cut(30), right: false },
];

impl Du {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let observation = context.observe(Scope::All, &self.agent)?;
        let result = disk_use(&observation);
        if context.json {
            context.answer(&result)?;
        } else {
            output::text(&self.draw(&result))?;
            ls::report_incomplete(&result.incomplete);
        }
        Ok(error::exit_code_for(&result.incomplete))
    }

    fn draw(&self, result: &DuResult) -> String {
        let mut rows: Vec<Vec<Cell>> = Vec::new();
        for agent in &result.agents {
            self.add(agent, &mut rows);
        }
        let total = text::bytes(result.total_bytes);
        rows.push(vec![(total, Some(Colour::Bold)), (String::new(), None), ("total".into(), None)]);
        draw(&COLUMNS, &rows, output::columns(), Paint::for_stdout())
    }

    fn add(&self, agent: &AgentUse, rows: &mut Vec<Vec<Cell>>) {
        let mut line = |bytes: u64, sessions: Option<u64>, what: String, colour| {
            let sessions = sessions.map(|count| count.to_string()).unwrap_or_default();
            rows.push(vec![
                (text::bytes(bytes), None),
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
