//! `ostler inspect`

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use flows::terminal::inspect::inspect_session;
use flows::terminal::screen::Personality;
use model::hosted::wire::InspectResult;
use model::time::Time;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::fields::FieldPage;
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
            output::print_text(&render_inspect_text(&result, context.personality))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn render_inspect_text(result: &InspectResult, personality: Personality) -> String {
    let session = &result.session;
    let number = |number: Option<u32>| number.map_or_else(|| "none".to_owned(), |n| n.to_string());
    let is_ours = personality == Personality::Ostler;
    let time = |time: Time| if is_ours { duration::local_time(time) } else { time.to_string() };
    let uptime = match Duration::from_millis(result.uptime) {
        span if is_ours && span > Duration::from_secs(2) => duration::short_age(span),
        span => format!("{}ms", span.as_millis()),
    };
    let mut lines: Vec<(&str, String)> = vec![
        ("Session", session.session_id.clone()),
        ("Status", session.status.as_str().to_owned()),
        ("Termination", result.termination_category.as_str().to_owned()),
        ("Command", text::one_line(&session.command.join(" "))),
        ("Cwd", text::one_line(&session.cwd)),
        ("Size", format!("{}x{}", session.cols, session.rows)),
        ("Created", time(session.created_at)),
        ("Updated", time(session.updated_at)),
        ("Uptime", uptime),
        ("Host pid", number(session.host_pid)),
        ("Child pid", number(session.child_pid)),
        ("Events", result.event_count.to_string()),
        ("Artifacts", format!("{} ({})", result.artifacts.total, result.artifacts.health)),
        (
            "Renderer",
            format!("{} ({})", result.renderer_runtime.backend, result.renderer_runtime.mode),
        ),
        ("Offline replay", result.used_offline_replay.to_string()),
    ];
    let mut maybe = |label, value: Option<String>| lines.extend(value.map(|value| (label, value)));
    maybe("Name", session.name.as_deref().map(text::one_line));
    maybe("Last event", result.last_event_seq.map(|seq| seq.to_string()));
    maybe("Log bytes", result.event_log_bytes.map(|bytes| bytes.to_string()));
    maybe("Exit code", session.exit_code.map(|code| code.to_string()));
    maybe("Exit signal", session.exit_signal.clone());
    maybe("Failure", session.failure_reason.as_deref().map(text::one_line));
    maybe("Viewers", result.viewers.map(|count| count.to_string()));
    maybe("Socket", result.host.as_ref().map(|host| text::one_line(&host.rpc_socket_path)));
    maybe(
        "Log paused",
        result.log_paused.as_ref().map(|paused| {
            format!("{} ({} bytes missing)", text::one_line(&paused.reason), paused.lost_bytes)
        }),
    );
    let mut page = FieldPage::for_personality(personality);
    for (label, value) in &lines {
        page.push_field(label, value);
    }
    page.into_text()
}
