//! `ostler finalize`

use std::process::ExitCode;

use clap::Args;
use flows::writer::AskLimits;
use model::address::{SessionHandle, pick_session};
use model::wire::{SweepResult, SweptSession};

use crate::cli::CliContext;
use crate::cli::stop::parse_identity;
use crate::error::Error;
use crate::render::{output, text};

pub(crate) use crate::timeouts::CONDENSE_TIME_BUDGET;

declare_commands![CommandEntry {
    place: HelpPlace(CleanUp, 1),
    effect: WritesState,
    answers: &[answer::<wire::SweepResult>()],
    examples: &[
        example("finalize --dry-run", "What would be ended, and why."),
        example("finalize", "End what is over, and keep a copy of it.")
    ],
    cases: &[
        empty("finalize"),
        usual("finalize").on(Told),
        refused("finalize no-such-session").on(Told),
        also("finalize")
    ],
    uncased: &[(Incomplete, "it ends what hooks told of, and reads no list of sessions")],
    ..entry!("finalize", FinalizeArgs, run_finalize)
}];

/// End sessions whose agent is gone, and keep a summary and a copy of each.
///
/// A session is ended only if its owner's process is proven to be gone. Nothing is deleted: the
/// transcript stays where it is.
#[derive(Debug, Args)]
pub(crate) struct FinalizeArgs {
    /// Only these sessions: ids as hooks report them, `agent:id`, or prefixes.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Only if this process was the one that had it, as `finalize --dry-run --json` names it.
    #[arg(long, value_name = "PID:START", value_parser = parse_identity, requires = "ids")]
    identity: Option<(u32, u64)>,
}

impl FinalizeArgs {
    pub(crate) fn run_finalize(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let only = self.resolve_sessions(context)?;
        self.check_identity(context, &only)?;
        let swept = run_sweep(context, &only, self.dry_run, AskLimits::LONG)?;
        if context.json {
            context.print_json(&swept)?;
        } else {
            output::print_text(&render_sweep_text(&swept))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What was shown is what is meant: another process may have had the session since. That it is gone is proven anew
    /// by the sweep itself.
    fn check_identity(&self, context: &CliContext, only: &[String]) -> Result<(), Error> {
        let Some((pid, start)) = self.identity else { return Ok(()) };
        let wanted = format!("{pid}:{start}");
        let planned = run_sweep(context, only, true, AskLimits::LONG)?;
        let is_meant = |one: &SweptSession| one.identity.as_ref() == Some(&wanted);
        if planned.ended.len() == only.len() && planned.ended.iter().all(is_meant) {
            return Ok(());
        }
        Err(Error::Refused {
            what: format!("`{}` is not what process {pid} left behind", self.ids.join("`, `")),
            hint: "look at it again: `ostler finalize --dry-run`".to_owned(),
        })
    }

    /// The full names of the sessions that were asked for.
    fn resolve_sessions(&self, context: &CliContext) -> Result<Vec<String>, Error> {
        if self.ids.is_empty() {
            return Ok(Vec::new());
        }
        let machine = context.machine()?;
        let open = flows::tracks::open_in(machine.home())
            .map_err(|error| Error::Order(flows::finalize::SweepError::from(error).into()))?;
        let all: Vec<&String> = open.iter().collect();
        let ids = self.ids.iter();
        Ok(ids
            .map(|id| pick_session(&all, id, |name| handle_of(name)).cloned())
            .collect::<Result<_, _>>()?)
    }
}

fn handle_of(name: &str) -> SessionHandle<'_> {
    let (agent, id) = name.split_once(':').unwrap_or(("", name));
    SessionHandle { agent, id, ..SessionHandle::default() }
}

/// Sweeps, through the daemon if there is one.
pub(crate) fn run_sweep(
    context: &CliContext,
    only: &[String],
    dry_run: bool,
    limits: AskLimits,
) -> Result<SweepResult, Error> {
    let machine = context.machine()?;
    let request = flows::finalize::SweepRequest { machine, only, budget: CONDENSE_TIME_BUDGET };
    if dry_run {
        let swept = flows::finalize::preview_sweep(&request);
        return swept.map_err(|error| Error::Order(error.into()));
    }
    flows::work::sweep_as_writer(&request, limits).map_err(Error::Order)
}

/// A sweep in words, one line for each session.
pub(crate) fn render_sweep_text(swept: &SweepResult) -> String {
    let mut page = String::new();
    let mut list = |verb: &str, sessions: &[SweptSession], with_reason: bool| {
        for one in sessions {
            let place = one.cwd.as_deref().unwrap_or("");
            let reason = if with_reason { format!(" ({})", one.reason) } else { String::new() };
            let line = format!("{verb} {}:{}  {place}{reason}", one.agent, one.session);
            page.push_str(&text::one_line(line.trim_end()));
            page.push('\n');
        }
    };
    let would = swept.dry_run;
    list(if would { "would end" } else { "ended" }, &swept.ended, false);
    list("condensed", &swept.condensed, false);
    list("left alone", &swept.kept, true);
    if swept.launches > 0 {
        let would = if swept.dry_run { "would go" } else { "went" };
        let count = swept.launches;
        page.push_str(&format!(
            "{count} notes of agents that are long gone {would} to the trash\n"
        ));
    }
    if page.is_empty() {
        page.push_str("nothing to finalize\n");
    }
    if swept.pending > 0 {
        page.push_str(&format!("{} still to be condensed\n", swept.pending));
    }
    page
}
