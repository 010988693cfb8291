//! `ostler status`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use flows::observe::{Observation, ObserveScope, Observed};
use flows::repository;
use flows::writer::AskLimits;
use model::session::{ClaimBasis, SessionKind};
use model::wire::{StatusResult, SweepResult, SweptSession};

use crate::cli::{CliContext, finalize, ls};
use crate::error::{self, Error};
use crate::render::colour::Painter;
use crate::render::session_table::{self, SessionTable};
use crate::render::{duration, output, text};
use crate::timeouts::RECENTLY_ENDED_SPAN;

declare_commands![CommandEntry {
    place: HelpPlace(Everyday, 4),
    effect: WritesState,
    answers: &[answer::<wire::StatusResult<'static>>()],
    examples: &[
        example("status", "What agents do in this repository."),
        example("status --all --no-sweep", "Everywhere, and end nothing.")
    ],
    cases: &[
        empty("status"),
        usual("status --all").on(Told),
        refused("status --no-such-option"),
        incomplete("status --all"),
        also("status --all")
    ],
    ..entry!("status", StatusArgs, run_status)
}];

/// Tell what agents are doing in this repository, after finalizing those that are gone.
///
/// Looks at the git repository of this directory with its worktrees, or at the directory itself. It
/// sweeps first: sessions whose agent is proven to be gone are ended and condensed, and it says so.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Look at every directory.
    #[arg(short, long)]
    all: bool,
    /// Look only: end and condense nothing.
    #[arg(long)]
    no_sweep: bool,
}

/// How many of them.
const MAX_ENDED_SHOWN: usize = 10;

impl StatusArgs {
    pub(crate) fn run_status(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let directories = if self.all { Vec::new() } else { repository_directories()? };
        let (swept, not_swept) = self.sweep_or_reason(context)?;
        let observation = context.observe_now(ObserveScope::Active, &[])?;
        let here = |cwd: Option<&str>| {
            let is_below = |cwd| directories.iter().any(|one| Path::new(cwd).starts_with(one));
            self.all || cwd.is_some_and(is_below)
        };
        let shown: Vec<&Observed> = observation
            .sessions
            .iter()
            .filter(|one| one.verdict.status.is_active() || is_unfinalized(one))
            .filter(|one| here(one.session.digest.cwd.as_deref()))
            .collect();
        let since = context.now.minus(RECENTLY_ENDED_SPAN);
        let home = context.machine()?.home();
        let places = match self.all {
            true => vec![None],
            false => directories.iter().map(|one| Some(one.as_path())).collect(),
        };
        let mut ended: Vec<SweptSession> = Vec::new();
        for place in places {
            let there = flows::finalize::ended_since(home, since, place, MAX_ENDED_SHOWN);
            let there = there.map_err(|error| Error::Order(error.into()))?;
            // A worktree below another one is looked at twice.
            let is_new = |one: &SweptSession| {
                !ended.iter().any(|known| known.agent == one.agent && known.session == one.session)
            };
            let there: Vec<SweptSession> = there.into_iter().filter(is_new).collect();
            ended.extend(there);
        }
        ended.sort_by_key(|one| std::cmp::Reverse(one.at));
        ended.truncate(MAX_ENDED_SHOWN);
        if context.json {
            let mut directories =
                directories.iter().map(|path| path.to_string_lossy().into_owned());
            context.print_json(StatusResult {
                directory: directories.next(),
                worktrees: directories.collect(),
                sessions: shown.iter().map(|one| one.session_view()).collect(),
                ended,
                swept,
                not_swept,
                incomplete: &observation.incomplete,
            })?;
        } else {
            if let Some(swept) = swept.as_ref().filter(|swept| !swept.ended.is_empty()) {
                output::print_notice(finalize::render_sweep_text(swept).trim_end());
            }
            for one in shown.iter().filter(|one| is_unfinalized(one)) {
                let reason = why_not_finalized(one, swept.as_ref(), not_swept.as_deref());
                let id = &one.session.id;
                output::print_notice(&text::one_line(&format!(
                    "{id} has exited; not finalized: {reason}"
                )));
            }
            if let Some(reason) = not_swept.filter(|_| !self.no_sweep) {
                output::print_notice(&format!("not swept: {reason}"));
            }
            output::print_text(&render_status_text(context, &observation, &shown, &ended))?;
            ls::report_incomplete(&observation.incomplete);
        }
        Ok(error::exit_code_for(&observation.incomplete))
    }

    /// What the sweep did, or why there was none. A sweep that cannot be made is no reason not to
    /// answer.
    fn sweep_or_reason(
        &self,
        context: &CliContext,
    ) -> Result<(Option<SweepResult>, Option<String>), Error> {
        if !flows::finalize::is_anything_known(context.machine()?.home()) {
            return Ok((None, None));
        }
        if self.no_sweep {
            return Ok((None, Some("`--no-sweep` was given".to_owned())));
        }
        match finalize::run_sweep(context, &[], false, AskLimits::SHORT) {
            Ok(swept) => Ok((Some(swept), None)),
            Err(error) => Ok((None, Some(error.to_string()))),
        }
    }
}

/// Whether a session's owner is proven to be gone, and its end is not recorded yet.
fn is_unfinalized(one: &Observed) -> bool {
    let told_open = one.session.claims.iter().any(|claim| claim.how == ClaimBasis::Hook);
    one.session.kind == SessionKind::Native && one.verdict.status.is_terminal() && told_open
}

/// Why its end could not be recorded.
fn why_not_finalized(
    one: &Observed,
    swept: Option<&SweepResult>,
    not_swept: Option<&str>,
) -> String {
    let is_it =
        |kept: &&SweptSession| kept.agent == one.session.agent && kept.session == one.session.id;
    let kept = swept.and_then(|swept| swept.kept.iter().find(is_it));
    let reason = kept.map(|kept| kept.reason.as_str()).or(not_swept);
    reason.unwrap_or("the next sweep does it").to_owned()
}

fn render_status_text(
    context: &CliContext,
    observation: &Observation,
    shown: &[&Observed],
    ended: &[SweptSession],
) -> String {
    let mut page = String::new();
    if shown.is_empty() {
        page.push_str("No active agent sessions here.\n");
    } else {
        let table = SessionTable {
            ids: &observation.short_ids(),
            observation,
            now: context.now,
            paint: Painter::for_stdout(),
            watched: false,
            by_urgency: true,
        };
        page.push_str(&table.render(&session_table::fold_terminals(shown)));
    }
    for one in ended {
        let ago = one.at.map(|at| duration::age_phrase(context.now.since(at))).unwrap_or_default();
        let line = format!("{} {ago}: {}:{}", one.reason, one.agent, one.session);
        page.push_str(&text::one_line(&line));
        page.push('\n');
    }
    page
}

/// The worktrees of the git repository that this directory is in, its own first; else the directory.
fn repository_directories() -> Result<Vec<PathBuf>, Error> {
    let here = std::env::current_dir()?;
    Ok(match repository::worktree_root(&here) {
        Some(root) => repository::worktrees_of(&root),
        None => vec![here],
    })
}
