//! `ostler locks`, `lock` and `unlock`

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use flows::caller::find_calling_party;
use flows::locks;
use flows::observe::ObserveScope;
use flows::work::carry_out_work;
use flows::writer::{LockRequest, Work, WorkDone};
use model::time::whole_millis;
use model::wire::{LockKind, LockView, LocksResult};

use crate::cli::CliContext;
use crate::cli::ls::report_incomplete;
use crate::env;
use crate::error::{self, Error};
use crate::render::{duration, output, text};

declare_commands![
    CommandEntry {
        place: HelpPlace(Drive, 12),
        answers: &[answer::<wire::LocksResult>()],
        examples: &[example("locks", "Where agents work, and what is locked.")],
        cases: &[
            empty("locks"),
            usual("locks").on(Fresh).after(&["lock . --by ada --reason release"]),
            refused("locks --no-such-option"),
            also("locks"),
            incomplete("locks")
        ],
        ..entry!("locks", LocksArgs, run_locks)
    },
    CommandEntry {
        place: HelpPlace(Drive, 13),
        effect: WritesState,
        answers: &[answer::<wire::LocksResult>()],
        examples: &[example(
            "lock . --reason release --ttl 2h",
            "Keep launches out of this directory for two hours."
        )],
        cases: &[
            empty("lock . --by ada --ttl 2h"),
            usual("lock . --by ada --reason release"),
            refused("lock no-such-directory --by ada"),
            refused("lock . --by bob").after(&["lock . --by ada --reason release"])
        ],
        uncased: &[ONE_FILE],
        ..entry!("lock", LockArgs, run_lock)
    },
    CommandEntry {
        place: HelpPlace(Drive, 14),
        effect: WritesState,
        answers: &[answer::<wire::LocksResult>()],
        examples: &[example("unlock .", "Let launches in again.")],
        cases: &[
            empty("unlock . --by ada"),
            usual("unlock . --by bob --steal").after(&["lock . --by ada"]),
            refused("unlock . --by bob").after(&["lock . --by ada"])
        ],
        uncased: &[ONE_FILE],
        ..entry!("unlock", UnlockArgs, run_unlock)
    }
];

/// List directories that are busy, because a live agent works in them, and those that are locked.
///
/// Busy is read from the live sessions; nothing is stored for it. Locks keep `launch` and `resume` out of a directory and
/// everything below it. They do not stop an agent from writing there.
#[derive(Debug, Args)]
pub(crate) struct LocksArgs {}

/// Lock a directory: nothing is launched or resumed in it or below it until it is unlocked.
///
/// The lock follows the directory when it is renamed. Taken from inside an agent it ends with that agent's
/// process. It does not stop an agent that already works there from writing.
#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// The directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// In whose name: yours, or the calling agent's, if it is not given.
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Why, for whoever is kept out.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// For how long.
    #[arg(long, value_name = "TIME", value_parser = duration::from_argument)]
    ttl: Option<Duration>,
    /// The lock ends with this process.
    #[arg(long, value_name = "PID")]
    holder: Option<u32>,
    /// Take it over from whoever has it; leaves an event.
    #[arg(long)]
    steal: bool,
}

/// Unlock a directory.
#[derive(Debug, Args)]
pub(crate) struct UnlockArgs {
    /// The directory; one that is gone by the name it had.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// In whose name.
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Also if somebody else locked it; leaves an event.
    #[arg(long)]
    steal: bool,
}

impl LocksArgs {
    pub(crate) fn run_locks(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let observation = context.observe_now(ObserveScope::Active, &[])?;
        let listed = locks::list_locks(&observation, context.machine()?);
        let result = listed.map_err(|error| Error::Events(error.into()))?;
        if context.json {
            context.print_json(&result)?;
        } else {
            let mut page: String = result.locks.iter().map(|one| lock_line(context, one)).collect();
            if page.is_empty() {
                page.push_str("nothing is busy or locked\n");
            }
            output::print_text(&page)?;
            report_incomplete(&result.incomplete);
        }
        Ok(error::exit_code_for(&result.incomplete))
    }
}

impl LockArgs {
    pub(crate) fn run_lock(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let party = find_calling_party(context.machine()?, &env::user_name());
        let named = self.holder.map(sys::proc::identify_process).transpose();
        let holder = named.map_err(|error| {
            let pid = self.holder.unwrap_or_default();
            Error::usage_error(format!("no lock for pid {pid}: {error}"), "name a live process")
        })?;
        let request = LockRequest {
            path: absolute_directory(&self.directory)?,
            by: self.by.clone().unwrap_or(party.name),
            reason: self.reason.clone(),
            ttl_ms: self.ttl.map(whole_millis),
            steal: self.steal,
            holder: holder.or(party.process),
        };
        change_lock(context, &Work::Lock(Box::new(request)), "locked")
    }
}

impl UnlockArgs {
    pub(crate) fn run_unlock(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let by = match &self.by {
            Some(by) => by.clone(),
            None => find_calling_party(context.machine()?, &env::user_name()).name,
        };
        let request = LockRequest {
            path: absolute_directory(&self.directory)?,
            by,
            reason: None,
            ttl_ms: None,
            steal: self.steal,
            holder: None,
        };
        change_lock(context, &Work::Unlock(Box::new(request)), "unlocked")
    }
}

/// The directory's own name, without links; of one that is gone, as it was typed.
fn absolute_directory(path: &Path) -> Result<PathBuf, Error> {
    match std::fs::canonicalize(path) {
        Ok(real) => Ok(real),
        Err(_) => Ok(std::path::absolute(path)?),
    }
}

fn change_lock(context: &CliContext, work: &Work, done: &str) -> Result<ExitCode, Error> {
    let changed = carry_out_work(work, context.machine()?, &mut |_, _| {});
    let (result, transport) = match changed.map_err(Error::Order)? {
        (WorkDone::Locks(result), transport) => (result, transport),
        _ => return Err(error::unexpected_answer()),
    };
    let result = LocksResult { transport: Some(transport.as_str().to_owned()), ..result };
    if context.json {
        context.print_json(&result)?;
    } else {
        let from = result.stolen_from.as_ref().map(|by| format!(", taken from {by}"));
        let from = from.unwrap_or_default();
        let lines = result.locks.iter().map(|one| format!("{done} {}{from}", one.path));
        let mut page: String = lines.map(|line| text::one_line(&line) + "\n").collect();
        if page.is_empty() {
            page.push_str("it was not locked\n");
        }
        output::print_text(&page)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn lock_line(context: &CliContext, one: &LockView) -> String {
    let path = text::home_as_tilde(&one.path);
    let mut line = match one.kind {
        LockKind::Busy => format!("busy    {path}  {}", one.sessions.join(", ")),
        LockKind::Manual => {
            let word = if one.stale { "stale " } else { "locked" };
            format!("{word}  {path}  by {}", one.by.as_deref().unwrap_or("nobody"))
        }
    };
    if let Some(since) = one.since {
        line.push_str(&format!("  {}", duration::age_phrase(context.now.since(since))));
    }
    if let Some(end) = one.expires_at {
        line.push_str(&format!("  for {}", duration::short_age(end.since(context.now))));
    }
    if one.moved {
        line.push_str("  (moved since)");
    }
    if let Some(reason) = &one.reason {
        line.push_str(&format!("  {reason}"));
    }
    text::one_line(&line) + "\n"
}
