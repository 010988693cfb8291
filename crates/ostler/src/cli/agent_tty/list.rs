//! `agent-tty list`

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use model::status::Status;
use model::time::Time;
use serde::Serialize;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::{output, text};

/// List sessions.
#[derive(Debug, Args)]
pub(crate) struct AgentTtyListArgs {
    /// Sessions that are over, too.
    #[arg(long)]
    all: bool,
}

#[derive(Serialize)]
struct Listed {
    sessions: Vec<Row>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    session_id: String,
    status: Status,
    command: Vec<String>,
    created_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    pid: Option<u32>,
}

impl AgentTtyListArgs {
    pub(crate) fn run_agent_tty_list(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let mut sessions = Vec::new();
        for session in context.terminals_home()?.readable_sessions()? {
            let manifest = session.as_settled().manifest;
            if self.all || manifest.status.is_active() {
                sessions.push(Row {
                    session_id: manifest.session_id,
                    status: manifest.status,
                    command: manifest.command,
                    created_at: manifest.created_at,
                    name: manifest.name,
                    pid: manifest.child_pid,
                });
            }
        }
        if context.json {
            context.print_json(Listed { sessions })?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut out = String::new();
        for row in &sessions {
            let command = text::one_line(&row.command.join(" "));
            let _ = writeln!(out, "{}  {}  {command}", row.session_id, row.status.as_str());
        }
        output::print_text(if out.is_empty() { "\n" } else { &out })?;
        Ok(ExitCode::SUCCESS)
    }
}
