//! `ostler inspect`

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use flows::terminal::inspect::inspect_session;
use model::hosted::wire::InspectResult;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::colour::Painter;
use crate::render::facts::FactSheet;
use crate::render::{duration, output, text};

declare_commands![CommandEntry {
    place: HelpPlace(Terminals, 13),
    agent_tty: 11,
    answers: &[answer::<hosted_wire::InspectResult>()],
    examples: &[example("inspect build", "Its record, its host, its log.").on(Terminal)],
    cases: &[empty("inspect build"), usual("inspect build").on(Terminal), refused("inspect ../x")],
    uncased: &[ONE_FILE],
    ..entry!("inspect", InspectArgs, run_inspect)
}];

/// Show everything about a hosted terminal: its record, its host, its log, what was made of it.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// The session.
    #[arg(value_name = "SESSION", add = crate::cli::complete::terminals())]
    id: String,
}

impl InspectArgs {
    pub(crate) fn run_inspect(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let result = inspect_session(&context.terminals_home()?, context.find_terminal(&self.id)?)?;
        if context.json {
            context.print_json(&result)?;
        } else {
            output::print_text(&render_inspect_text(&result))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn render_inspect_text(result: &InspectResult) -> String {
    let session = &result.session;
    let mut facts = FactSheet::new(Painter::for_stdout());
    let mut fact = |name: &str, value: String| facts.add_fact(name, value);
    fact("id", session.session_id.clone());
    fact("name", session.name.clone().unwrap_or_default());
    fact("status", session.status.as_str().to_owned());
    fact("end", result.termination_category.as_str().to_owned());
    fact("command", session.command.join(" "));
    fact("directory", session.cwd.clone());
    fact("size", format!("{}x{}", session.cols, session.rows));
    fact("created", duration::local_time(session.created_at));
    fact("updated", duration::local_time(session.updated_at));
    fact("up", duration::short_age(Duration::from_millis(result.uptime)));
    let number = |number: Option<u32>| number.map(|number| number.to_string());
    fact("host pid", number(session.host_pid).unwrap_or_else(|| "none".to_owned()));
    fact("child pid", number(session.child_pid).unwrap_or_else(|| "none".to_owned()));
    let mut fact = |name: &str, value: Option<String>| facts.add_fact(name, value);
    fact("exit code", session.exit_code.map(|code| code.to_string()));
    fact("exit signal", session.exit_signal.clone());
    fact("failure", session.failure_reason.clone());
    fact("events", Some(result.event_count.to_string()));
    fact("last event", result.last_event_seq.map(|seq| seq.to_string()));
    fact("log", result.event_log_bytes.map(text::format_bytes));
    fact(
        "log paused",
        result
            .log_paused
            .as_ref()
            .map(|paused| format!("{} ({} bytes missing)", paused.reason, paused.lost_bytes)),
    );
    let artifacts = &result.artifacts;
    fact("artifacts", Some(format!("{} ({})", artifacts.total, artifacts.health)));
    fact("viewers", result.viewers.map(|count| count.to_string()));
    let renderer = &result.renderer_runtime;
    fact("renderer", Some(format!("{} ({})", renderer.backend, renderer.mode)));
    fact("replayed", result.used_offline_replay.then(|| "from its log".to_owned()));
    fact("socket", result.host.as_ref().map(|host| host.rpc_socket_path.clone()));
    facts.into_page()
}
