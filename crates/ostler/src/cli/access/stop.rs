//! `ostler access stop`

use std::process::ExitCode;

use access::rules::escape_untrusted;
use access::stop::{StopOutcome, StopReason, StopSelection, choose_sessions, stop_access};
use access::wire::{AccessStopResult, StoppedView};
use access::{AccessError, AccessRoot};
use clap::{ArgGroup, Args};
use clap_complete::ArgValueCandidates;
use model::address::AddressError;
use sys::machine::Machine;

use crate::cli::{CliContext, complete};
use crate::error::{self, Error};
use crate::render::output;

declare_commands![CommandEntry {
    place: HelpPlace(Credentials, 7),
    effect: WritesState,
    answers: &[answer::<access_wire::AccessStopResult>()],
    examples: &[
        example("access stop ID", "Take it back now.").on(Access),
        example("access stop --orphaned", "What was lent to sessions that are gone.")
    ],
    cases: &[
        empty("access stop --all-expired"),
        usual("access stop ID").on(Access),
        refused("access stop nothing").on(Access),
        also("access stop --orphaned"),
        also("access stop --all-expired")
    ],
    uncased: &[ONE_FILE],
    ..entry!("access stop", AccessStopArgs, run_access_stop)
}];

/// Take an access back: its keys are removed and its agent is ended.
///
/// Only the very process that was recorded is ever signalled, and only asked to end. What cannot be
/// proved is left alone.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["id", "all_expired", "orphaned"])))]
pub(crate) struct AccessStopArgs {
    /// The access session: an id, an unambiguous prefix or a label.
    #[arg(add = ArgValueCandidates::new(complete::complete_access_sessions))]
    id: Option<String>,
    /// Stop every session whose time is over; needs `--yes`.
    #[arg(long)]
    all_expired: bool,
    /// Stop every session that was lent to a session whose process is provably gone.
    #[arg(long)]
    orphaned: bool,
    /// Do it without asking; without it `--all-expired` only says what it would do.
    #[arg(long)]
    yes: bool,
    /// Kill an agent that does not end when asked.
    #[arg(long)]
    kill: bool,
}

impl AccessStopArgs {
    pub(crate) fn run_access_stop(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let machine = context.machine_of_state()?;
        match &self.id {
            Some(text) => self.stop_one(context, &machine, text),
            None => self.stop_many(context, &machine),
        }
    }

    fn stop_one(
        &self,
        context: &CliContext,
        machine: &Machine,
        text: &str,
    ) -> Result<ExitCode, Error> {
        let not_found = || AccessError::from(AddressError::NotFound(text.to_owned()));
        let root =
            AccessRoot::find(machine.home()).map_err(AccessError::from)?.ok_or_else(not_found)?;
        let id = root.resolve_id(text)?;
        let outcome = stop_access(machine, &id, StopReason::Asked, self.kill)?;
        match outcome {
            StopOutcome::Stopped(_) => print_stopped(context, vec![stopped_view(id, outcome)])?,
            StopOutcome::Refused(skip) => {
                return Err(Error::AccessRefused { id, why: skip.to_string() });
            }
            StopOutcome::Unproven(why) => return Err(Error::AccessRefused { id, why }),
            StopOutcome::StillRunning(why) => return Err(Error::AccessStillRunning { id, why }),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn stop_many(&self, context: &CliContext, machine: &Machine) -> Result<ExitCode, Error> {
        let (choice, reason) = if self.orphaned {
            (StopSelection::Orphaned, StopReason::Orphaned)
        } else {
            (StopSelection::Expired, StopReason::Expired)
        };
        let ids = choose_sessions(machine, choice).map_err(AccessError::from)?;
        if self.all_expired && !self.yes {
            let would = |id| StoppedView {
                id,
                outcome: "would-stop",
                detail: "its time is over; `--yes` stops it".to_owned(),
            };
            print_stopped(context, ids.into_iter().map(would).collect())?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut views = Vec::new();
        for id in ids {
            // Each may have taken a while.
            let outcome = stop_access(&machine.next_turn(), &id, reason, self.kill)?;
            views.push(stopped_view(id, outcome));
        }
        let worst = |outcome: &str| views.iter().any(|one| one.outcome == outcome);
        let code = if worst("still-running") {
            error::exit_code_of("ACCESS_STILL_RUNNING")
        } else if worst("refused") || worst("unproven") {
            error::exit_code_of("ACCESS_REFUSED")
        } else {
            ExitCode::SUCCESS
        };
        print_stopped(context, views)?;
        Ok(code)
    }
}

fn stopped_view(id: String, outcome: StopOutcome) -> StoppedView {
    let (outcome, detail) = match outcome {
        StopOutcome::Stopped(found) => ("stopped", found),
        StopOutcome::Refused(skip) => ("refused", skip.to_string()),
        StopOutcome::Unproven(why) => ("unproven", why),
        StopOutcome::StillRunning(why) => ("still-running", why),
    };
    StoppedView { id, outcome, detail }
}

fn print_stopped(context: &CliContext, sessions: Vec<StoppedView>) -> Result<(), Error> {
    if context.json {
        return context.print_json(AccessStopResult { sessions });
    }
    if sessions.is_empty() {
        return output::print_text("Nothing to stop.\n");
    }
    let line = |one: &StoppedView| {
        format!(
            "{} {}: {}\n",
            one.outcome,
            escape_untrusted(&one.id),
            escape_untrusted(&one.detail)
        )
    };
    output::print_text(&sessions.iter().map(line).collect::<String>())
}
