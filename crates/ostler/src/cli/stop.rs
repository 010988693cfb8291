//! `ostler stop`

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use flows::address;
use flows::control::deliveries::ControlLedger;
use flows::observe::{ObserveScope, Observed};
use flows::process_list::{OrphanProcess, find_orphans};
use flows::stop::{SessionGlance, StopError, StopOptions, plan_stop};
use flows::terminal::TerminalHome;
use model::control::note::ControlEvent;
use model::control::wire::{ProcessEnding, StopResult, StoppedSession};
use model::rules::judge::proven_owners;
use model::session::{SessionKind, SessionName};
use model::status::Activity;
use model::wire::OwnerView;
use sys::dropped::NoteDropped;

use crate::cli::groups::live_terminals;
use crate::cli::{CliContext, complete, ls};
use crate::error::{self, Error};
use crate::render::{duration, output, text};

declare_commands![CommandEntry {
    place: HelpPlace(Drive, 6),
    effect: WritesState,
    answers: &[answer::<::model::control::wire::StopResult>()],
    examples: &[
        example("stop build --dry-run", "What would end, process by process.").on(Terminal),
        example("stop build --grace 2s", "Ask, and insist after two seconds.").on(Terminal)
    ],
    cases: &[
        empty("stop 666e4f9b"),
        usual("stop build --dry-run").on(Terminal),
        also("stop --orphans"),
        refused("stop 666e4f9b").on(Worked),
        refused("stop -")
    ],
    uncased: &[(
        Incomplete,
        "what is not proven is refused, and whatever else cannot be read does not matter"
    )],
    ..entry!("stop", StopArgs, run_stop)
}];

/// Stop an agent with everything it started: ask it, then end the whole tree of its processes.
///
/// In one of ostler's terminals a turn is interrupted and the agent asked to quit by its own keys;
/// elsewhere it gets SIGTERM. What is left after `--grace` gets SIGTERM, then SIGKILL. Only processes
/// that are proven to be the session's are signalled. Nothing is deleted.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The sessions: ids, unambiguous prefixes, names or `.`.
    #[arg(value_name = "SESSION", required_unless_present_any = ["group", "orphans"],
          add = ArgValueCandidates::new(complete::complete_sessions))]
    ids: Vec<String>,
    /// Every agent that was launched as this group and is there.
    #[arg(long, value_name = "GROUP", add = complete::groups())]
    group: Option<String>,
    /// How long the agent has to end by itself.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::from_argument)]
    grace: Duration,
    /// Do not ask the agent: signal the whole tree at once.
    #[arg(long, conflicts_with = "turn")]
    now: bool,
    /// Interrupt the turn only; the agent stays.
    #[arg(long)]
    turn: bool,
    /// Show what would be signalled.
    #[arg(long)]
    dry_run: bool,
    /// Only if its process is still this one: `PID:START`, as `owner` of `ostler show --json` says.
    #[arg(long, value_name = "PID:START", value_parser = parse_identity)]
    identity: Option<(u32, u64)>,
    /// Also what a dead agent of the session left behind; without a session, of every agent that is proven dead.
    #[arg(long, conflicts_with = "turn")]
    orphans: bool,
}

impl StopArgs {
    pub(crate) fn run_stop(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let observation = context.observe_now(ObserveScope::All, &[])?;
        let here = context.current_dir();
        let terminals = context.terminals_home()?;
        let orphans =
            if self.orphans { find_orphans(&observation, &terminals) } else { Vec::new() };
        // All are planned before one is signalled: a refusal of one leaves all alone.
        let mut plans = Vec::new();
        let mut names: Vec<SessionName> = Vec::new();
        let mut ids = self.ids.clone();
        if ids.iter().any(|id| id == "-") {
            return Err(Error::usage_error(
                "`-` is whichever session is newest, and what is stopped must be meant",
                "name the session by its id, a prefix or its name",
            ));
        }
        if let Some(group) = &self.group {
            ids.extend(live_terminals(context, group)?);
        }
        let mut targets = Vec::new();
        for id in &ids {
            targets.push(address::resolve_session(&observation, id, &here)?);
        }
        if ids.is_empty() && self.group.is_none() {
            let is_left = |one: &&Observed| {
                orphans.iter().any(|orphan| orphan.session == one.session.session_name())
            };
            targets.extend(observation.sessions.iter().filter(is_left));
        }
        for one in targets {
            let name = one.session.session_name();
            if names.contains(&name) {
                continue;
            }
            check_kind(one)?;
            self.check_identity(one)?;
            let its_own: Vec<OrphanProcess> =
                orphans.iter().filter(|orphan| orphan.session == name).cloned().collect();
            plans.push(plan_stop(&observation, one, &terminals, &its_own)?);
            names.push(name);
        }
        let mut result =
            StopResult { stopped: Vec::new(), dry_run: self.dry_run, incomplete: Vec::new() };
        let options = StopOptions { grace: self.grace, now: self.now, turn_only: self.turn };
        let mut ledger = ControlLedger::new(context.machine()?).for_caller(&observation);
        for (plan, name) in plans.into_iter().zip(&names) {
            if self.dry_run {
                result.stopped.push(plan.preview());
                continue;
            }
            let watched = plan.watched_agent().cloned();
            let look_again = || glance_at(context, &terminals, name, watched.as_ref());
            let stopped = plan.carry_out(&options, &terminals, &look_again)?;
            let detail = serde_json::json!({
                "processes": stopped.processes.len(),
                "left": stopped.left.len(),
                "turnOnly": stopped.turn_only,
                "respawned": stopped.respawned,
                "exitCode": stopped.exit_code,
            });
            ledger.keep_event(ControlEvent::Stopped, name, detail);
            result.stopped.push(stopped);
        }
        result.incomplete = ledger.incomplete;
        if context.json {
            context.print_json(&result)?;
        } else {
            output::print_text(&render_stopped(&result))?;
        }
        ls::report_incomplete(&result.incomplete);
        Ok(exit_code_of_stop(&result))
    }
}

/// A process: its pid and when it started, in the kernel's own unit.
pub(super) fn parse_identity(text: &str) -> Result<(u32, u64), String> {
    let parsed = text.split_once(':').map(|(pid, start)| (pid.parse(), start.parse()));
    match parsed {
        Some((Ok(pid), Ok(start))) => Ok((pid, start)),
        _ => Err("write it like 4711:123456".to_owned()),
    }
}

impl StopArgs {
    /// A named process is meant itself, not another that has the session open by now.
    fn check_identity(&self, one: &Observed) -> Result<(), Error> {
        let Some((pid, start)) = self.identity else { return Ok(()) };
        let view = one.session_view();
        let is_it = |owner: &OwnerView<'_>| owner.pid == pid && owner.start == start;
        if view.owner.iter().chain(&view.owners).any(is_it) {
            return Ok(());
        }
        Err(Error::Refused {
            what: format!("`{}` is not held by process {pid} any more", one.session.id),
            hint: "look at it again: `ostler who`".to_owned(),
        })
    }
}

/// Lent access has no agent of its own to stop.
fn check_kind(one: &Observed) -> Result<(), Error> {
    if one.session.kind == SessionKind::Access {
        let id = &one.session.id;
        return Err(Error::Refused {
            what: format!("`{id}` is lent access, not an agent"),
            hint: format!("`ostler access stop {id}`"),
        });
    }
    Ok(())
}

/// What is true of a session by now; `None` if that cannot be told. A terminal does what `within` does, the agent
/// in it.
pub(super) fn glance_at(
    context: &CliContext,
    terminals: &TerminalHome,
    name: &SessionName,
    within: Option<&SessionName>,
) -> Option<SessionGlance> {
    if name.agent == "terminal" {
        let hosted = terminals
            .open_session(&name.id)
            .ok_or_note("looking at a terminal that is being stopped")?;
        let held = hosted.as_settled().status().is_active();
        let agent = within.and_then(|agent| glance_at(context, terminals, agent, None));
        let activity = agent.map_or(Activity::Unknown, |agent| agent.activity);
        return Some(SessionGlance { held, activity });
    }
    let agents = [name.agent.clone()];
    let seen = context
        .next_turn()
        .observe_now(ObserveScope::Active, &agents)
        .ok_or_note("looking at a session that is being stopped")?;
    let one = seen.sessions.iter().find(|one| one.session.session_name() == *name)?;
    Some(SessionGlance {
        held: proven_owners(&one.session).next().is_some(),
        activity: one.verdict.activity.unwrap_or(Activity::Unknown),
    })
}

impl From<StopError> for Error {
    fn from(error: StopError) -> Self {
        match error {
            StopError::Refused(refusal) => Self::Drive(refusal),
            StopError::Host(fault) => Self::Terminal(fault),
        }
    }
}

/// What did not end is a time-out; what came back makes the answer incomplete.
fn exit_code_of_stop(result: &StopResult) -> ExitCode {
    if result.stopped.iter().any(|one| !one.left.is_empty()) {
        return error::exit_code_of("HOST_TIMEOUT");
    }
    match result.stopped.iter().any(|one| one.respawned) {
        true => error::exit_code_of("INCOMPLETE"),
        false => error::exit_code_for(&result.incomplete),
    }
}

fn render_stopped(result: &StopResult) -> String {
    let mut page = String::new();
    if result.stopped.is_empty() {
        page.push_str("nothing was left behind\n");
    }
    for one in &result.stopped {
        let id = text::one_line(one.session.as_deref().unwrap_or("(no session)"));
        page.push_str(&format!("{id}: {}\n", describe_outcome(one, result.dry_run)));
        for told in &one.processes {
            let pid = told.process.pid.unwrap_or(0);
            let comm = text::one_line(told.process.comm.as_deref().unwrap_or(""));
            let how = match told.how {
                ProcessEnding::Exited => "ended by itself",
                ProcessEnding::Term => "ended by SIGTERM",
                ProcessEnding::Kill => "ended by SIGKILL",
                ProcessEnding::AlreadyGone => "was gone already",
                ProcessEnding::Survived => "did not end",
                ProcessEnding::WouldEnd => "would end",
            };
            let why = told.not_signalled.as_deref().map(text::one_line);
            let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
            page.push_str(&format!("  pid {pid} {comm}: {how}{why}\n"));
        }
    }
    page
}

fn describe_outcome(one: &StoppedSession, dry_run: bool) -> &'static str {
    match one {
        _ if dry_run => "would be stopped",
        _ if one.turn_only => "its turn is interrupted",
        _ if !one.left.is_empty() => "not stopped",
        _ if one.was_gone_already() => "was gone already; nothing was signalled",
        _ if one.respawned => "stopped, and held again by a new process (`ostler who` names it)",
        _ => "stopped",
    }
}
