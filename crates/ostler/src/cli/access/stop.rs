//! `ostler access stop`

use std::path::Path;
use std::process::ExitCode;

use access::rules::escape;
use access::stop::{Choice, Outcome, Reason, choose, stop};
use access::wire::{AccessStopResult, StoppedView};
use access::{AccessError, Root, World};
use clap::{ArgGroup, Args};
use clap_complete::ArgValueCandidates;
use model::address::AddressError;

use crate::cli::{Context, complete};
use crate::error::{self, Error};
use crate::render::output;

/// Take an access back: its keys are removed and its agent is ended.
///
/// Only the very process that was recorded is ever signalled, and only asked to end. What cannot be
/// proved is left alone.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["id", "all_expired", "orphaned"])))]
pub(crate) struct Stop {
    /// The access session: an id or an unambiguous prefix.
    #[arg(add = ArgValueCandidates::new(complete::access_sessions))]
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

impl Stop {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let home = context.home()?;
        match &self.id {
            Some(text) => self.one(context, &home, text),
            None => self.many(context, &home),
        }
    }

    fn one(&self, context: &Context, home: &Path, text: &str) -> Result<ExitCode, Error> {
        let not_found = || AccessError::from(AddressError::NotFound(text.to_owned()));
        let root = Root::find(home).map_err(AccessError::from)?.ok_or_else(not_found)?;
        let id = root.resolve(text)?;
        let outcome = stop(home, &World::here(), &id, Reason::Asked, self.kill)?;
        match outcome {
            Outcome::Stopped(_) => answer(context, vec![view(id, outcome)])?,
            Outcome::Refused(skip) => {
                return Err(Error::AccessRefused { id, why: skip.to_string() });
            }
            Outcome::Unproven(why) => return Err(Error::AccessRefused { id, why }),
            Outcome::StillRunning(why) => return Err(Error::AccessStillRunning { id, why }),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn many(&self, context: &Context, home: &Path) -> Result<ExitCode, Error> {
        let (choice, reason) = if self.orphaned {
            (Choice::Orphaned, Reason::Orphaned)
        } else {
            (Choice::Expired, Reason::Expired)
        };
        let ids = choose(home, &World::here(), choice).map_err(AccessError::from)?;
        if self.all_expired && !self.yes {
            let would = |id| StoppedView {
                id,
                outcome: "would-stop",
                detail: "its time is over; `--yes` stops it".to_owned(),
            };
            answer(context, ids.into_iter().map(would).collect())?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut views = Vec::new();
        for id in ids {
            let outcome = stop(home, &World::here(), &id, reason, self.kill)?;
            views.push(view(id, outcome));
        }
        let worst = |outcome: &str| views.iter().any(|one| one.outcome == outcome);
        let code = if worst("still-running") {
            error::exit_code_of("ACCESS_STILL_RUNNING")
        } else if worst("refused") || worst("unproven") {
            error::exit_code_of("ACCESS_REFUSED")
        } else {
            ExitCode::SUCCESS
        };
        answer(context, views)?;
        Ok(code)
    }
}

fn view(id: String, outcome: Outcome) -> StoppedView {
    let (outcome, detail) = match outcome {
        Outcome::Stopped(found) => ("stopped", found),
        Outcome::Refused(skip) => ("refused", skip.to_string()),
        Outcome::Unproven(why) => ("unproven", why),
        Outcome::StillRunning(why) => ("still-running", why),
    };
    StoppedView { id, outcome, detail }
}

fn answer(context: &Context, sessions: Vec<StoppedView>) -> Result<(), Error> {
    if context.json {
        return context.answer(AccessStopResult { sessions });
    }
    if sessions.is_empty() {
        return output::text("Nothing to stop.\n");
    }
    let line = |one: &StoppedView| {
        format!("{} {}: {}\n", one.outcome, escape(&one.id), escape(&one.detail))
    };
    output::text(&sessions.iter().map(line).collect::<String>())
}
