//! `ostler agents`

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use flows::observe::ObserveScope;
use flows::work::{OrderError, carry_out_work};
use flows::writer::{Work, WorkDone};
use model::wire::{
    AgentChange, AgentDeleteResult, AgentItem, AgentOutcome, AgentsLsResult, OpenClawAgentView,
};
use openclaw::agents::{self, AgentDeleteRequest, AgentsError, DeleteTarget};
use openclaw::config::OpenClawConfig;
use sys::machine::Machine;

use crate::cli::{CliContext, ls};
use crate::error::{self, Error};
use crate::render::colour::{Colour, Painter};
use crate::render::table::{ColumnGive, TableCell, TableColumn, render_table};
use crate::render::{consent, duration, output, text};

declare_commands![
    CommandEntry {
        place: HelpPlace(OpenClaw, 1),
        usual_member: "ls",
        ..entry!("agents", AgentsArgs, run_agents)
    },
    CommandEntry {
        place: HelpPlace(OpenClaw, 1),
        answers: &[answer::<wire::AgentsLsResult>()],
        examples: &[example("agents ls", "OpenClaw's agents, and what each keeps.")],
        cases: &[
            empty("agents ls"),
            usual("agents ls"),
            refused("agents ls --no-such-option"),
            incomplete("agents ls")
        ],
        ..entry!("agents ls")
    },
    CommandEntry {
        place: HelpPlace(OpenClaw, 2),
        effect: WritesFiles,
        answers: &[answer::<wire::AgentDeleteResult>()],
        examples: &[
            example("agents delete helper --dry-run", "What would go with an agent.").on(Store)
        ],
        cases: &[
            empty("agents delete helper --dry-run"),
            usual("agents delete helper --dry-run").on(Store).harmless(),
            refused("agents delete main --force").on(Worked).harmless()
        ],
        uncased: &[ONE_FILE],
        ..entry!("agents delete")
    }
];

/// List OpenClaw's agents, and delete one with everything that is its own.
#[derive(Debug, Args)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    action: AgentsCommand,
}

#[derive(Debug, Subcommand)]
enum AgentsCommand {
    /// List OpenClaw's agents: where they work, what they take, whether somebody works on them.
    Ls,
    Delete(AgentsDeleteArgs),
}

/// Delete an agent: its configuration, its rows in a store that it shares, its directories.
///
/// OpenClaw's gateway does it if it runs. Otherwise everything goes to the trash, and `ostler undo`
/// brings it back; that happens only if the gateway is proven not to run. A workspace that another
/// agent works in is kept. What could not be moved is named, and the same command goes on with it.
#[derive(Debug, Args)]
struct AgentsDeleteArgs {
    /// The agent's id.
    id: String,
    /// Do not ask.
    #[arg(long, short, alias = "yes", short_alias = 'y')]
    force: bool,
    /// Say what would be done, and do nothing. The gateway is not asked.
    #[arg(long, conflicts_with = "force")]
    dry_run: bool,
    /// How long OpenClaw's gateway may take to answer.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::from_argument)]
    timeout: Duration,
}

impl AgentsArgs {
    pub(crate) fn run_agents(&self, context: &CliContext) -> Result<ExitCode, Error> {
        match &self.action {
            AgentsCommand::Ls => list_agents(context),
            AgentsCommand::Delete(delete) => delete.run_agents_delete(context),
        }
    }
}

const AGENT_COLUMNS: [TableColumn; 7] = [
    TableColumn { head: "AGENT", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "DEFAULT", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "LIVE", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "SESSIONS", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "SIZE", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "WORKSPACE", give: ColumnGive::CutMiddle(16), right: false },
    TableColumn { head: "DIRECTORY", give: ColumnGive::Drop(1), right: false },
];

fn list_agents(context: &CliContext) -> Result<ExitCode, Error> {
    let machine = context.machine()?;
    let config =
        OpenClawConfig::load(&machine.env()).map_err(|error| agents_error(error.into()))?;
    let observation = context.observe_now(ObserveScope::All, &["openclaw".to_owned()])?;
    let known: Vec<agents::KnownSession<'_>> = observation
        .sessions
        .iter()
        .filter(|one| one.session.agent == "openclaw")
        .filter_map(|one| {
            let path = &one.source.as_ref()?.path;
            Some(agents::KnownSession { path, liveness: one.verdict.liveness })
        })
        .collect();
    let result = agents::list_agents(&config, &known, observation.incomplete.clone(), machine);
    if context.json {
        context.print_json(&result)?;
    } else {
        output::print_text(&render_agents_text(&result))?;
        ls::report_incomplete(&result.incomplete);
    }
    Ok(error::exit_code_for(&result.incomplete))
}

fn render_agents_text(result: &AgentsLsResult) -> String {
    if result.agents.is_empty() {
        return text::one_line(&format!("OpenClaw has nothing in {}", result.state)) + "\n";
    }
    let rows: Vec<Vec<TableCell>> = result.agents.iter().map(agent_row).collect();
    let mut page =
        render_table(&AGENT_COLUMNS, &rows, output::output_columns(), Painter::for_stdout());
    let gateway = match (&result.gateway.state[..], &result.gateway.reason) {
        ("alive", Some(reason)) => format!("OpenClaw's gateway runs: {reason}"),
        ("dead", _) => "OpenClaw's gateway does not run".to_owned(),
        (_, reason) => {
            let reason = reason.as_deref().unwrap_or("it cannot be told");
            format!("OpenClaw's gateway may run: {reason}")
        }
    };
    page.push_str(&text::one_line(&gateway));
    page.push('\n');
    page
}

fn agent_row(agent: &OpenClawAgentView) -> Vec<TableCell> {
    let colour = match &agent.live[..] {
        "alive" => Some(Colour::Green),
        "unknown" => Some(Colour::Yellow),
        _ => Some(Colour::Dim),
    };
    let shared = match &agent.workspace_shared_with[..] {
        [] => String::new(),
        others => format!(" (shared with {})", others.join(", ")),
    };
    vec![
        (text::one_line(&agent.id), None),
        (if agent.default { "default".to_owned() } else { String::new() }, None),
        (agent.live.clone(), colour),
        (agent.sessions.map_or_else(|| "?".to_owned(), text::format_count), None),
        (text::format_bytes(agent.bytes), None),
        (text::one_line(&format!("{}{shared}", agent.workspace)), None),
        (text::one_line(&agent.agent_dir), Some(Colour::Dim)),
    ]
}

impl AgentsDeleteArgs {
    fn run_agents_delete(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let machine = context.machine()?;
        let (ask, target) = AgentDeleteRequest::from_machine(&self.id, machine, |machine| {
            DeleteTarget::find_agent(&self.id, machine)
        });
        let target = target.map_err(agents_error)?;
        if target.agent.id != self.id {
            let id = text::one_line(&self.id);
            output::print_notice(&format!("`{id}` is written `{}` by OpenClaw", target.agent.id));
        }
        agents::refuse_pinned(&target, machine.home()).map_err(agents_error)?;
        let plan = agents::plan_delete(&target, machine);
        if self.dry_run {
            return print_deletion(context, &preview_deletion(&target, plan, machine)?);
        }
        if !self.force {
            let preview = plan.as_ref().ok().map(|plan| plan.preview(&target));
            if !self.ask_consent(&target, preview.as_ref())? {
                output::print_notice("nothing was changed");
                return Ok(ExitCode::SUCCESS);
            }
        }
        if let Some(result) =
            agents::delete_through_gateway(&target, self.timeout, machine).map_err(agents_error)?
        {
            return print_deletion(context, &result);
        }
        plan.map_err(agents_error)?;
        let work = Work::DeleteAgent { ask };
        let done = carry_out_work(&work, machine, &mut |_, _| {});
        match done.map_err(Error::Order)? {
            (WorkDone::DeleteAgent(result), transport) => {
                let transport = Some(transport.as_str().to_owned());
                print_deletion(context, &AgentDeleteResult { transport, ..*result })
            }
            _ => Err(error::unexpected_answer()),
        }
    }

    /// Shows the plan and asks. Without a terminal there is no one to ask.
    fn ask_consent(
        &self,
        target: &DeleteTarget,
        preview: Option<&AgentDeleteResult>,
    ) -> Result<bool, Error> {
        let id = &target.agent.id;
        if !consent::can_ask() {
            return Err(Error::Refused {
                what: format!("nobody can be asked whether `{id}` is to be deleted"),
                hint: "add `--force`, or look with `--dry-run` first".to_owned(),
            });
        }
        if let Some(preview) = preview {
            output::print_notice(render_deletion_text(preview).trim_end());
        }
        Ok(consent::ask_yes_no(&format!("Delete the agent `{id}`?")))
    }
}

/// What would be done. A database is only the gateway's to change: if that runs, it would do it.
fn preview_deletion(
    target: &DeleteTarget,
    plan: Result<agents::DeletePlan, AgentsError>,
    machine: &Machine,
) -> Result<AgentDeleteResult, Error> {
    match plan {
        Ok(plan) => Ok(plan.preview(target)),
        Err(AgentsError::Database { .. }) if agents::is_gateways(target, machine) => {
            agents::preview_by_gateway(target).map_err(agents_error)
        }
        Err(error) => Err(agents_error(error)),
    }
}

/// The error as everything that is carried out reports it.
fn agents_error(error: AgentsError) -> Error {
    Error::Order(OrderError::NotDone(error.into()))
}

const ITEM_COLUMNS: [TableColumn; 4] = [
    TableColumn { head: "ACTION", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "WHAT", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "BYTES", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "WHERE AND WHY", give: ColumnGive::Cut(40), right: false },
];

fn print_deletion(context: &CliContext, result: &AgentDeleteResult) -> Result<ExitCode, Error> {
    if context.json {
        context.print_json(result)?;
    } else {
        output::print_text(&render_deletion_text(result))?;
    }
    let all_done = result.failed == 0;
    Ok(if all_done { ExitCode::SUCCESS } else { error::exit_code_of("STORAGE_WRITE_ERROR") })
}

fn render_deletion_text(result: &AgentDeleteResult) -> String {
    let mut page = String::new();
    if !result.items.is_empty() {
        let rows: Vec<Vec<TableCell>> = result.items.iter().map(item_row).collect();
        page = render_table(&ITEM_COLUMNS, &rows, output::output_columns(), Painter::for_stdout());
    }
    let counts = [
        (result.removed_bindings, "binding", "bindings"),
        (result.removed_allow, "entry of the allow list", "entries of the allow list"),
        (result.removed_sessions.unwrap_or(0), "row of a shared store", "rows of a shared store"),
    ];
    let with: Vec<String> = counts
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, several)| text::plural_of(count, one, several))
        .collect();
    let with = if with.is_empty() { String::new() } else { format!(", with {}", with.join(", ")) };
    let id = &result.agent_id;
    let mut lines = vec![match (result.applied, result.transport.as_deref()) {
        (false, Some("gateway")) => {
            format!("OpenClaw's gateway would delete the agent `{id}`{with}")
        }
        (false, _) => format!("the agent `{id}` would be deleted{with}"),
        (true, Some("gateway")) => format!("OpenClaw's gateway deleted the agent `{id}`{with}"),
        (true, _) => format!("the agent `{id}` is deleted{with}"),
    }];
    if let Some(others) = &result.workspace_shared_with {
        lines.push(format!(
            "its workspace {} is kept: {} works there too",
            result.workspace,
            others.join(", ")
        ));
    }
    if let Some(receipt) = &result.receipt {
        lines.push(format!("`ostler undo {receipt}` brings it back"));
    }
    if result.failed > 0 {
        let things = text::format_plural(result.failed, "thing");
        lines.push(format!("{things} could not be done; the same command goes on with that"));
    }
    for line in lines {
        page.push_str(&text::one_line(&line));
        page.push('\n');
    }
    page
}

fn item_row(item: &AgentItem) -> Vec<TableCell> {
    let (action, colour) = match (item.action, item.outcome) {
        (AgentChange::Keep, _) => ("stays", Colour::Dim),
        (_, AgentOutcome::Failed) => ("failed", Colour::Red),
        (AgentChange::Trash, AgentOutcome::Planned) => ("would go", Colour::Yellow),
        (AgentChange::Trash, AgentOutcome::Done) => ("trashed", Colour::Green),
        (AgentChange::Rewrite, AgentOutcome::Planned) => ("would change", Colour::Yellow),
        (AgentChange::Rewrite, AgentOutcome::Done) => ("changed", Colour::Green),
    };
    let why = match &item.refused {
        Some(refusal) => format!("{}; {}", refusal.reason, refusal.remedy),
        None => item.reason.clone(),
    };
    vec![
        (action.to_owned(), Some(colour)),
        (item.kind.as_str().to_owned(), None),
        (text::format_bytes(item.bytes), None),
        (text::one_line(&format!("{}: {why}", item.path)), None),
    ]
}
