//! `ostler agents`

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use flows::daemon::OrderError;
use flows::observe::Scope;
use flows::work::{Done, Work, carry_out};
use model::wire::{
    AgentChange, AgentDeleteResult, AgentItem, AgentOutcome, AgentView, AgentsLsResult,
};
use openclaw::agents::{self, AgentsError, Ask, Target};
use openclaw::config::Config;

use crate::cli::{Context, ls};
use crate::env;
use crate::error::{self, Error};
use crate::render::colour::{Colour, Paint};
use crate::render::table::{Cell, Column, Give, draw};
use crate::render::{consent, duration, output, text};

/// List OpenClaw's agents, and delete one with everything that is its own.
#[derive(Debug, Args)]
pub(crate) struct Agents {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List OpenClaw's agents: where they work, what they take, whether somebody works on them.
    Ls,
    Delete(Delete),
}

/// Delete an agent: its configuration, its rows in a store that it shares, its directories.
///
/// OpenClaw's gateway does it if it runs. Otherwise everything goes to the trash, and `ostler undo`
/// brings it back; that happens only if the gateway is proven not to run. A workspace that another
/// agent works in is kept. What could not be moved is named, and the same command goes on with it.
#[derive(Debug, Args)]
struct Delete {
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

impl Agents {
    pub(crate) fn name(&self) -> &'static str {
        match self.action {
            Action::Ls => "agents ls",
            Action::Delete(_) => "agents delete",
        }
    }

    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        match &self.action {
            Action::Ls => list(context),
            Action::Delete(delete) => delete.run(context),
        }
    }
}

const AGENTS: [Column; 7] = [
    Column { head: "AGENT", give: Give::Rigid, right: false },
    Column { head: "DEFAULT", give: Give::Rigid, right: false },
    Column { head: "LIVE", give: Give::Rigid, right: false },
    Column { head: "SESSIONS", give: Give::Rigid, right: true },
    Column { head: "SIZE", give: Give::Rigid, right: true },
    Column { head: "WORKSPACE", give: Give::CutLeft(16), right: false },
    Column { head: "DIRECTORY", give: Give::Drop(1), right: false },
];

fn list(context: &Context) -> Result<ExitCode, Error> {
    let environment = flows::Env::new(&env::lookup);
    let config = Config::read(&environment).map_err(|error| failed(error.into()))?;
    let observation = context.observe(Scope::All, &["openclaw".to_owned()])?;
    let known: Vec<agents::KnownSession<'_>> = observation
        .sessions
        .iter()
        .filter(|one| one.session.agent == "openclaw")
        .filter_map(|one| {
            let path = &one.source.as_ref()?.path;
            Some(agents::KnownSession { path, liveness: one.verdict.liveness })
        })
        .collect();
    let result = agents::list(&config, &known, observation.incomplete.clone());
    if context.json {
        context.answer(&result)?;
    } else {
        output::text(&listed(&result))?;
        ls::report_incomplete(&result.incomplete);
    }
    Ok(error::exit_code_for(&result.incomplete))
}

fn listed(result: &AgentsLsResult) -> String {
    if result.agents.is_empty() {
        return text::one_line(&format!("OpenClaw has nothing in {}", result.state)) + "\n";
    }
    let rows: Vec<Vec<Cell>> = result.agents.iter().map(agent_row).collect();
    let mut page = draw(&AGENTS, &rows, output::columns(), Paint::for_stdout());
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

fn agent_row(agent: &AgentView) -> Vec<Cell> {
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
        (agent.sessions.map_or_else(|| "?".to_owned(), text::count), None),
        (text::bytes(agent.bytes), None),
        (text::one_line(&format!("{}{shared}", agent.workspace)), None),
        (text::one_line(&agent.agent_dir), Some(Colour::Dim)),
    ]
}

impl Delete {
    fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let dirs = context.dirs()?;
        let environment = flows::Env::new(&env::lookup);
        let (ask, target) =
            Ask::here(&self.id, &environment, |env| Target::find(&dirs.home, &self.id, env));
        let target = target.map_err(failed)?;
        if target.agent.id != self.id {
            let id = text::one_line(&self.id);
            output::talk(&format!("`{id}` is written `{}` by OpenClaw", target.agent.id));
        }
        agents::refuse_pinned(&target, &dirs.home).map_err(failed)?;
        let plan = agents::plan(&target, &dirs.home);
        if self.dry_run {
            return tell(context, &preview(&target, plan)?);
        }
        if !self.force {
            let preview = plan.as_ref().ok().map(|plan| plan.preview(&target));
            if !self.consents(&target, preview.as_ref())? {
                output::talk("nothing was changed");
                return Ok(ExitCode::SUCCESS);
            }
        }
        if let Some(result) = agents::through_gateway(&target, self.timeout).map_err(failed)? {
            return tell(context, &result);
        }
        plan.map_err(failed)?;
        let work = Work::DeleteAgent { ask };
        let done = carry_out(&dirs.home, &dirs.runtime, &work, context.now, &mut |_, _| {});
        match done.map_err(Error::Order)? {
            (Done::DeleteAgent(result), transport) => {
                let transport = Some(transport.word().to_owned());
                tell(context, &AgentDeleteResult { transport, ..*result })
            }
            _ => Err(error::unexpected_answer()),
        }
    }

    /// Shows the plan and asks. Without a terminal nobody can be asked.
    fn consents(
        &self,
        target: &Target,
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
            output::talk(words(preview).trim_end());
        }
        Ok(consent::ask(&format!("Delete the agent `{id}`?")))
    }
}

/// What would be done. A database is only the gateway's to change: if that runs, it would do it.
fn preview(
    target: &Target,
    plan: Result<agents::DeletePlan, AgentsError>,
) -> Result<AgentDeleteResult, Error> {
    match plan {
        Ok(plan) => Ok(plan.preview(target)),
        Err(AgentsError::Database { .. }) if agents::is_gateways(target) => {
            agents::preview_by_gateway(target).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// The error as everything that is carried out reports it.
fn failed(error: AgentsError) -> Error {
    Error::Order(OrderError::NotDone(error.into()))
}

const ITEMS: [Column; 4] = [
    Column { head: "ACTION", give: Give::Rigid, right: false },
    Column { head: "WHAT", give: Give::Rigid, right: false },
    Column { head: "BYTES", give: Give::Rigid, right: true },
    Column { head: "WHERE AND WHY", give: Give::Cut(40), right: false },
];

fn tell(context: &Context, result: &AgentDeleteResult) -> Result<ExitCode, Error> {
    if context.json {
        context.answer(result)?;
    } else {
        output::text(&words(result))?;
    }
    let all_done = result.failed == 0;
    Ok(if all_done { ExitCode::SUCCESS } else { error::exit_code_of("STORAGE_WRITE_ERROR") })
}

fn words(result: &AgentDeleteResult) -> String {
    let mut page = String::new();
    if !result.items.is_empty() {
        let rows: Vec<Vec<Cell>> = result.items.iter().map(item_row).collect();
        page = draw(&ITEMS, &rows, output::columns(), Paint::for_stdout());
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
        let things = text::plural(result.failed, "thing");
        lines.push(format!("{things} could not be done; the same command goes on with that"));
    }
    for line in lines {
        page.push_str(&text::one_line(&line));
        page.push('\n');
    }
    page
}

fn item_row(item: &AgentItem) -> Vec<Cell> {
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
        (item.kind.word().to_owned(), None),
        (text::bytes(item.bytes), None),
        (text::one_line(&format!("{}: {why}", item.path)), None),
    ]
}
