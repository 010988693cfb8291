//! `ostler fuse`

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCandidates;
use flows::caller::find_calling_party;
use flows::fuses::{
    self, FuseSettlement, TargetFinding, due_after, fuse_view, judge_target, read_fuse_clock,
};
use flows::observe::{Observation, ObserveScope, Observed};
use flows::stop::{StopError, StopOptions, plan_stop};
use flows::work::{OrderError, carry_out_work};
use flows::writer::{FuseOrder, Work, WorkDone};
use model::control::fuse_wire::{FuseView, FusesResult};
use model::control::fuses::{
    FuseAction, FuseClock, FuseDue, FuseRecord, FuseState, FuseTarget, LatePolicy,
};
use model::time::{Time, whole_millis};
use sys::bounded_run::{RunLimits, run_bounded};
use sys::dropped::NoteDropped;

use crate::cli::daemon::daemon_status;
use crate::cli::fuse_resume::{self, ResumptionArgs};
use crate::cli::stop::glance_at;
use crate::cli::{CliContext, complete};
use crate::env;
use crate::error::{self, Error};
use crate::render::{duration, output, text};
use crate::timeouts::{AGENT_STOP_GRACE, FUSE_PROGRAM_TIMEOUT};

declare_commands![
    CommandEntry {
        place: HelpPlace(Drive, 15),
        usual_member: "ls",
        ..entry!("fuse", FuseArgs, run_fuse)
    },
    CommandEntry {
        place: HelpPlace(Drive, 1),
        effect: WritesState,
        answers: &[answer::<::model::control::fuse_wire::FusesResult>()],
        examples: &[
            example("fuse set build --after 4h --do stop", "Stop it four hours from now.")
                .on(Terminal),
            example("fuse set --dir . --idle 30m --do event", "Tell when nothing happens here.")
        ],
        cases: &[
            empty("fuse set 666e4f9b --after 1h --do stop"),
            usual("fuse set --dir . --after 1h --do exec -- make report"),
            refused("fuse set --dir . --do stop"),
            refused("fuse set --dir . --after 1h --do exec")
        ],
        uncased: &[ONE_FILE],
        ..entry!("fuse set")
    },
    CommandEntry {
        place: HelpPlace(Drive, 2),
        answers: &[answer::<::model::control::fuse_wire::FusesResult>()],
        examples: &[example("fuse ls -a", "Every fuse, and what became of it.")],
        cases: &[
            empty("fuse ls"),
            usual("fuse ls").after(&["fuse set --dir . --after 1h --do event"]),
            refused("fuse ls --no-such-option")
        ],
        uncased: &[ONE_FILE],
        ..entry!("fuse ls")
    },
    CommandEntry {
        place: HelpPlace(Drive, 3),
        effect: WritesState,
        answers: &[answer::<::model::control::fuse_wire::FusesResult>()],
        cases: &[
            empty("fuse extend f0 --by 1h"),
            usual("fuse extend ID --by 1h").after(&["fuse set --dir . --after 1h --do event"]),
            refused("fuse extend f0")
        ],
        uncased: &[ONE_FILE],
        examples: &[example("fuse extend ID --by 2h", "Give it two hours more.").on(Fused)],
        ..entry!("fuse extend")
    },
    CommandEntry {
        place: HelpPlace(Drive, 4),
        effect: WritesState,
        answers: &[answer::<::model::control::fuse_wire::FusesResult>()],
        cases: &[
            empty("fuse cancel f0"),
            usual("fuse cancel ID").after(&["fuse set --dir . --after 1h --do event"]),
            refused("fuse cancel")
        ],
        uncased: &[ONE_FILE],
        examples: &[example("fuse cancel ID", "Take it back.").on(Fused)],
        ..entry!("fuse cancel")
    },
    CommandEntry {
        place: HelpPlace(Internal, 5),
        effect: WritesState,
        cases: &[empty("fuse carry-out f0"), refused("fuse carry-out")],
        uncased: &[(Usual, "the daemon runs it: tests/cli/fuses.rs"), ONE_FILE],
        ..entry!("fuse carry-out")
    }
];

/// How a program that a fuse runs is limited.
const EXEC_LIMITS: RunLimits = RunLimits { time: FUSE_PROGRAM_TIMEOUT, output_bytes: 1 << 20 };

/// Timers on sessions and directories: stop an agent, run a program or tell, when the time has come.
///
/// The daemon fires them, each at most once. When one is due its target is judged anew: if it is over, or another process
/// has it, nothing is done (`moot`); if nothing certain is known, nothing is done either (`held-back`).
#[derive(Debug, Args)]
pub(crate) struct FuseArgs {
    #[command(subcommand)]
    action: FuseCommand,
}

#[derive(Debug, Subcommand)]
enum FuseCommand {
    /// Set a fuse.
    Set(Box<FuseSetArgs>),
    /// List fuses that are pending.
    Ls {
        /// Those that are over, too.
        #[arg(short, long)]
        all: bool,
    },
    /// Put a fuse off.
    Extend {
        /// The fuse, or the beginning of its id.
        #[arg(value_name = "FUSE")]
        id: String,
        /// By how long.
        #[arg(long, value_name = "TIME", value_parser = duration::from_argument)]
        by: Duration,
    },
    /// Take fuses back.
    Cancel {
        /// The fuses, or the beginnings of their ids.
        #[arg(value_name = "FUSE", required = true)]
        ids: Vec<String>,
    },
    /// Carry out a fuse that came due (the daemon runs this).
    CarryOut {
        /// The fuse.
        #[arg(value_name = "FUSE")]
        id: String,
    },
}

/// Set a fuse.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("due").required(true).args(["after", "at", "idle", "at_reset"]))]
#[command(group = ArgGroup::new("target").required(true).args(["session", "dir"]))]
struct FuseSetArgs {
    /// The session: an id, an unambiguous prefix, a name or `.`.
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(complete::complete_sessions))]
    session: Option<String>,
    /// Whatever works in this directory then, instead of a session.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// After so much time, time asleep included.
    #[arg(long, value_name = "TIME", value_parser = duration::from_argument)]
    after: Option<Duration>,
    /// At this time, by the clock: RFC 3339, such as 2026-11-18T17:00:00+01:00.
    #[arg(long, value_name = "WHEN", value_parser = parse_time)]
    at: Option<Time>,
    /// After so long without a sign of life.
    #[arg(long, value_name = "TIME", value_parser = duration::from_argument)]
    idle: Option<Duration>,
    /// When the usage limit is over that ended its last turn, by the agent's own record; with `--do resume`.
    #[arg(long)]
    at_reset: bool,
    /// What is done then.
    #[arg(long = "do", value_enum, value_name = "ACTION")]
    action: ActionWord,
    /// What is done if its time is missed: fire (usual for stop and event) or skip (usual for exec and resume).
    #[arg(long, value_enum, value_name = "POLICY")]
    late: Option<LateWord>,
    #[command(flatten)]
    resume: ResumptionArgs,
    /// The program for `--do exec` and its arguments, after `--`. No shell reads them.
    #[arg(last = true, value_name = "ARGV")]
    argv: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ActionWord {
    /// Stop the session, with all it started.
    Stop,
    /// Leave an event and nothing else.
    Event,
    /// Run a program: two minutes, in the target's directory, without variables that look secret.
    Exec,
    /// Go on with a conversation that a usage limit ended, with the prompt of `--file`. A prompt of anybody's takes it back,
    /// and a conversation that somebody has open is left alone.
    Resume,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LateWord {
    Fire,
    Skip,
}

pub(super) fn parse_time(text: &str) -> Result<Time, String> {
    Time::parse(text).ok_or_else(|| "not an RFC 3339 time".to_owned())
}

impl FuseArgs {
    pub(crate) fn run_fuse(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let clock = read_fuse_clock(context.machine()?);
        match &self.action {
            FuseCommand::Set(set) => {
                let fuse = set.make_fuse(context, &clock)?;
                change_fuses(context, &clock, FuseOrder::Set(Box::new(fuse)))
            }
            FuseCommand::Ls { all } => {
                let home = context.ostler_home()?;
                let listed = fuses::list_fuses(&home, *all);
                let fuses = listed.map_err(|error| Error::Events(error.into()))?;
                let fires = print_fuses(context, &clock, &fuses)?;
                Ok(if fires { ExitCode::SUCCESS } else { error::exit_code_of("INCOMPLETE") })
            }
            FuseCommand::Extend { id, by } => {
                let order = FuseOrder::Extend { id: id.clone(), by_ms: whole_millis(*by) };
                change_fuses(context, &clock, order)
            }
            FuseCommand::Cancel { ids } => {
                let by = find_calling_party(context.machine()?, &env::user_name()).name;
                change_fuses(context, &clock, FuseOrder::Cancel { ids: ids.clone(), by })
            }
            FuseCommand::CarryOut { id } => carry_out(context, id),
        }
    }
}

impl FuseSetArgs {
    fn make_fuse(&self, context: &CliContext, clock: &FuseClock) -> Result<FuseRecord, Error> {
        self.check_action()?;
        let observation = context.observe_now(ObserveScope::All, &[])?;
        let one = self.find_session(context, &observation)?;
        let (target, last_sign_at) = self.find_target(one)?;
        let (action, due_at) = self.make_action(one, clock)?;
        // One whose time is over already goes on at once.
        let is_resume = self.action == ActionWord::Resume;
        let at = self.at.or(due_at).map(|at| if is_resume { at.max(clock.wall) } else { at });
        let due = match (self.after, at, self.idle) {
            (Some(span), _, _) => due_after(span, clock),
            (_, Some(at), _) => FuseDue::At { at },
            (_, _, span) => FuseDue::Idle {
                span_ms: whole_millis(span.unwrap_or_default()),
                last_sign_at: last_sign_at.unwrap_or(clock.wall),
            },
        };
        let late = match self.late {
            Some(LateWord::Fire) => LatePolicy::Fire,
            Some(LateWord::Skip) => LatePolicy::Skip,
            None => action.usual_late_policy(),
        };
        Ok(FuseRecord {
            id: sys::random::new_ulid()?,
            target,
            due,
            action,
            late,
            created_at: clock.wall,
            created_by: find_calling_party(context.machine()?, &env::user_name()).name,
            state: FuseState::Armed,
            fired_at: None,
            carrier: None,
            outcome: None,
        })
    }

    /// What can be told to be wrong before anything is looked at.
    fn check_action(&self) -> Result<(), Error> {
        let wrong = |message: &str, hint: &str| Err(Error::usage_error(message, hint));
        let exec = "`--do exec -- program argument …` runs a program";
        let resume = "`ostler fuse set SESSION --at-reset --do resume --file TEXT`";
        let is_resume = self.action == ActionWord::Resume;
        match (self.action, self.argv.is_empty()) {
            (ActionWord::Exec, true) => wrong("`--do exec` needs a program", exec),
            (ActionWord::Exec, false) => Ok(()),
            (_, false) => wrong("a program is only run by `--do exec`", exec),
            _ if is_resume && self.session.is_none() => {
                wrong("only a session goes on, not whatever works in a directory", resume)
            }
            _ if is_resume && !self.at_reset && self.at.is_none() => {
                wrong("`--do resume` goes with `--at-reset`, or with `--at`", resume)
            }
            _ if !is_resume && (self.at_reset || self.resume.is_given()) => {
                wrong("`--at-reset`, `--file`, `--max` and `--until` go with `--do resume`", resume)
            }
            _ if is_resume && self.resume.file.is_none() => {
                wrong("`--do resume` needs the prompt it goes on with: `--file`", resume)
            }
            _ => Ok(()),
        }
    }

    /// What is done, and when if the session's own record says so.
    fn make_action(
        &self,
        one: Option<&Observed>,
        clock: &FuseClock,
    ) -> Result<(FuseAction, Option<Time>), Error> {
        match (self.action, one) {
            (ActionWord::Stop, _) => Ok((FuseAction::Stop, None)),
            (ActionWord::Event, _) => Ok((FuseAction::Event, None)),
            (ActionWord::Exec, _) => Ok((FuseAction::Exec { argv: self.argv.clone() }, None)),
            (ActionWord::Resume, Some(one)) => {
                let (plan, due_at) = self.resume.make_plan(one, self.at_reset, clock)?;
                Ok((FuseAction::Resume(plan), due_at))
            }
            (ActionWord::Resume, None) => Err(error::unexpected_answer()),
        }
    }

    fn find_session<'a>(
        &self,
        context: &CliContext,
        observation: &'a Observation,
    ) -> Result<Option<&'a Observed>, Error> {
        let Some(text) = self.session.as_deref() else { return Ok(None) };
        if text == "-" {
            return Err(Error::usage_error(
                "`-` may mean another session by the time it is due",
                "name the session by its id",
            ));
        }
        let here = context.current_dir();
        let one = flows::address::resolve_session(observation, text, &here)?;
        if self.action != ActionWord::Resume {
            return Ok(Some(one));
        }
        // A conversation goes on, not the terminal it was in.
        let within = flows::control::who::agents_within(observation, one);
        Ok(Some(within.first().copied().unwrap_or(one)))
    }

    /// The target, and the last sign of life that is known of it.
    fn find_target(&self, one: Option<&Observed>) -> Result<(FuseTarget, Option<Time>), Error> {
        if let Some(one) = one {
            return Ok((fuses::target_session(one), one.session.last_activity_at()));
        }
        let dir = self.dir.clone().unwrap_or_default();
        let real = std::fs::canonicalize(&dir).map_err(|error| Error::Read {
            path: dir.display().to_string(),
            reason: error.to_string(),
        })?;
        let path = real.to_string_lossy().into_owned();
        Ok((FuseTarget::Directory { path }, None))
    }
}

fn order_fuses(context: &CliContext, order: FuseOrder) -> Result<Vec<FuseRecord>, Error> {
    let work = Work::Fuse(Box::new(order));
    let machine = context.machine()?.next_turn();
    let done = carry_out_work(&work, &machine, &mut |_, _| {});
    match done.map_err(Error::Order)? {
        (WorkDone::Fuses(fuses), _) => Ok(fuses),
        _ => Err(error::unexpected_answer()),
    }
}

fn change_fuses(
    context: &CliContext,
    clock: &FuseClock,
    order: FuseOrder,
) -> Result<ExitCode, Error> {
    let fuses = order_fuses(context, order)?;
    print_fuses(context, clock, &fuses)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows fuses, and says whether those that are armed will fire.
fn print_fuses(
    context: &CliContext,
    clock: &FuseClock,
    fuses: &[FuseRecord],
) -> Result<bool, Error> {
    let daemon = daemon_status(context.machine()?).is_ok_and(|status| status.running);
    let fuses: Vec<FuseView> = fuses.iter().map(|fuse| fuse_view(fuse, clock)).collect();
    let is_waiting = fuses.iter().any(|fuse| fuse.state == FuseState::Armed);
    if context.json {
        context.print_json(&FusesResult { fuses, daemon })?;
    } else {
        let mut page: String = fuses.iter().map(|fuse| fuse_line(clock, fuse)).collect();
        if page.is_empty() {
            page.push_str("no fuse is set\n");
        }
        output::print_text(&page)?;
    }
    if is_waiting && !daemon {
        output::print_notice("nothing will fire: no daemon runs (`ostler daemon start`)");
    }
    Ok(daemon || !is_waiting)
}

fn fuse_line(clock: &FuseClock, fuse: &FuseView) -> String {
    let place = fuse.cwd.as_deref().map(text::home_as_tilde).unwrap_or_default();
    let target = match (&fuse.agent, &fuse.session) {
        (Some(agent), Some(id)) => format!("{agent}:{id}"),
        _ => place,
    };
    let mut line = format!("{}  {}  {} {target}", fuse.id, fuse.state.as_str(), fuse.action);
    if let Some(due) = fuse.due_at {
        let left = duration::short_age(due.since(clock.wall));
        line.push_str(&match fuse.idle_ms {
            Some(_) => format!("  in {left} without a sign of life"),
            None => format!("  in {left}"),
        });
    }
    if let Some(resume) = &fuse.resume {
        line.push_str(&format!("  with {}", text::home_as_tilde(&resume.file)));
    }
    if !fuse.argv.is_empty() {
        line.push_str(&format!("  {}", fuse.argv.join(" ")));
    }
    if let Some(outcome) = &fuse.outcome {
        line.push_str(&format!("  {outcome}"));
    }
    text::one_line(&line) + "\n"
}

/// Carries out a fuse that the daemon has taken up. Only its noted carrier does.
fn carry_out(context: &CliContext, id: &str) -> Result<ExitCode, Error> {
    let carrier = sys::proc::identify_self()
        .map_err(|error| Error::Output(std::io::Error::other(error.to_string())))?;
    sys::pause::pause_at("fuse.carrying");
    let taken =
        order_fuses(context, FuseOrder::Carry { id: id.to_owned(), carrier: Box::new(carrier) })?;
    let Some(fuse) = taken.into_iter().next() else { return Err(error::unexpected_answer()) };
    sys::pause::pause_at("fuse.carried");
    let settlement = act_on_target(context, &fuse)?;
    sys::pause::pause_at("fuse.acted");
    settle_fuse(context, &fuse.id, settlement)?;
    Ok(ExitCode::SUCCESS)
}

/// Says what became of a fuse. No other process knows, so it is reported again when its reader was killed:
/// a fuse is settled once, even if it is reported twice.
fn settle_fuse(context: &CliContext, id: &str, settlement: FuseSettlement) -> Result<(), Error> {
    const MOST_TRIES: usize = 5;
    let order = FuseOrder::Settle { id: id.to_owned(), settlement };
    for _ in 1..MOST_TRIES {
        match order_fuses(context, order.clone()) {
            Ok(_) => return Ok(()),
            Err(Error::Order(OrderError::Call(_) | OrderError::Writer(_))) => {}
            Err(error) => return Err(error),
        }
    }
    order_fuses(context, order).map(drop)
}

pub(super) fn settle_as(state: FuseState, outcome: impl Into<String>) -> FuseSettlement {
    FuseSettlement { state, outcome: Some(outcome.into()), last_sign_at: None, limited: None }
}

fn act_on_target(context: &CliContext, fuse: &FuseRecord) -> Result<FuseSettlement, Error> {
    let observation = context.next_turn().observe_now(ObserveScope::All, &[])?;
    if let FuseAction::Resume(plan) = &fuse.action {
        return fuse_resume::carry_out_resumption(context, &observation, fuse, plan);
    }
    let targets = match judge_target(&observation, fuse) {
        TargetFinding::There(targets) => targets,
        TargetFinding::Moot(why) => return Ok(settle_as(FuseState::Moot, why)),
        TargetFinding::HeldBack(why) => return Ok(settle_as(FuseState::HeldBack, why)),
        TargetFinding::Alive(sign) => {
            let settlement = settle_as(FuseState::Armed, "there was a sign of life");
            return Ok(FuseSettlement { last_sign_at: Some(sign), ..settlement });
        }
    };
    match &fuse.action {
        FuseAction::Event => Ok(settle_as(FuseState::Fired, "told")),
        FuseAction::Exec { argv } => Ok(run_program(context, fuse, argv)?),
        FuseAction::Stop | FuseAction::Resume(_) => {
            Ok(stop_targets(context, &observation, &targets)?)
        }
    }
}

fn stop_targets(
    context: &CliContext,
    observation: &Observation,
    targets: &[&Observed],
) -> Result<FuseSettlement, Error> {
    let terminals = context.terminals_home()?;
    let options = StopOptions { grace: AGENT_STOP_GRACE, now: false, turn_only: false };
    let (mut stopped, mut left) = (0, 0);
    for one in targets {
        let name = one.session.session_name();
        let done = plan_stop(observation, one, &terminals, &[]).and_then(|plan| {
            let watched = plan.watched_agent().cloned();
            let look_again = || glance_at(context, &terminals, &name, watched.as_ref());
            plan.carry_out(&options, &terminals, &look_again)
        });
        match done {
            Ok(result) => {
                stopped += result.processes.len();
                left += result.left.len();
            }
            Err(StopError::Refused(refusal)) => {
                return Ok(settle_as(FuseState::HeldBack, refusal.to_string()));
            }
            Err(StopError::Host(fault)) => {
                return Ok(settle_as(FuseState::Failed, fault.message));
            }
        }
    }
    Ok(match left {
        0 => settle_as(FuseState::Fired, format!("{stopped} processes ended")),
        _ => settle_as(FuseState::Failed, format!("{left} processes did not end")),
    })
}

/// Runs the program of a fuse: as given, without a shell, and without variables that look secret.
fn run_program(
    context: &CliContext,
    fuse: &FuseRecord,
    argv: &[String],
) -> Result<FuseSettlement, Error> {
    let [program, arguments @ ..] = argv else {
        return Ok(settle_as(FuseState::Failed, "no program is named"));
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(env::without_secrets());
    if let Some(directory) = fuse.target.directory() {
        command.current_dir(directory);
    }
    if let Some(name) = fuse.target.session_name() {
        command.env("OSTLER_FUSE_SESSION", name.to_string());
    }
    command.env("OSTLER_FUSE", &fuse.id);
    let run = match run_bounded(&mut command, b"", EXEC_LIMITS) {
        Ok(run) => run,
        Err(error) => {
            return Ok(settle_as(FuseState::Failed, format!("`{program}` cannot be run: {error}")));
        }
    };
    let directory = context.ostler_home()?.join("fuses");
    let log = directory.join(format!("{}.log", fuse.id));
    sys::private::create_private_dir(&directory).note_dropped("a directory for logs of fuses");
    sys::append::append_bytes(&log, &run.output).note_dropped("the log of a fuse");
    let cut = if run.cut { ", output cut" } else { "" };
    Ok(match run.status {
        Some(status) if status.success() => settle_as(FuseState::Fired, format!("{status}{cut}")),
        Some(status) => settle_as(FuseState::Failed, format!("{status}{cut}")),
        None => {
            let seconds = EXEC_LIMITS.time.as_secs();
            settle_as(FuseState::Failed, format!("ended after {seconds} s, with its tree{cut}"))
        }
    })
}
