//! `agent-tty gc`

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use flows::terminal::TerminalHome;
use flows::terminal::remove::{self, size_of};
use flows::work::carry_out_work;
use flows::writer::{RemovedTerminal, Work, WorkDone};
use model::hosted::{FaultCode, HostFault};
use serde::Serialize;

use super::homes;
use crate::cli::CliContext;
use crate::error::{Error, unexpected_answer};
use crate::render::{output, text};

/// Remove sessions that are over.
#[derive(Debug, Args)]
pub(crate) struct AgentTtyGcArgs {
    /// Only say what would go.
    #[arg(long)]
    dry_run: bool,
    /// Only sessions that are found dead by this very run.
    #[arg(long)]
    stale_only: bool,
    /// Only sessions made longer ago, e.g. 30m, 2h or 1d.
    #[arg(long, value_name = "AGE", allow_hyphen_values = true)]
    older_than: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Collected {
    dry_run: bool,
    homes: Vec<HomeRow>,
    removed_session_count: usize,
    total_bytes_freed: u64,
    deregistered_homes: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HomeRow {
    home: String,
    existed: bool,
    removed_sessions: Vec<String>,
    skipped_sessions: Vec<Skipped>,
    total_bytes_freed: u64,
    deregistered: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Skipped {
    session_id: String,
    reason: String,
}

impl AgentTtyGcArgs {
    pub(crate) fn run_agent_tty_gc(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let age = self.older_than.as_deref().map(parse_age).transpose()?;
        let Some(globals) = &context.agent_tty else { return Ok(ExitCode::FAILURE) };
        let mut roots: Vec<PathBuf> = vec![globals.home.clone()];
        if !globals.explicit {
            let others = homes::list_known_homes().into_iter().map(|known| known.path);
            roots.extend(others.filter(|path| *path != globals.home));
        }
        let homes: Vec<HomeRow> = roots
            .iter()
            .map(|root| self.collect_home(context, root, age))
            .collect::<Result<_, _>>()?;
        let gone = |row: &HomeRow| Path::new(&row.home).to_owned();
        let deregistered: Vec<PathBuf> =
            homes.iter().filter(|row| row.deregistered).map(gone).collect();
        if !self.dry_run && !deregistered.is_empty() {
            let mut known = homes::list_known_homes();
            known.retain(|one| !deregistered.contains(&one.path));
            homes::write_registry(known);
        }
        let result = Collected {
            dry_run: self.dry_run,
            removed_session_count: homes.iter().map(|row| row.removed_sessions.len()).sum(),
            total_bytes_freed: homes.iter().map(|row| row.total_bytes_freed).sum(),
            deregistered_homes: homes
                .iter()
                .filter(|r| r.deregistered)
                .map(|r| r.home.clone())
                .collect(),
            homes,
        };
        if context.json {
            context.print_json(&result)?;
        } else {
            output::print_text(&render_collected_text(&result))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn collect_home(
        &self,
        context: &CliContext,
        root: &Path,
        age: Option<Duration>,
    ) -> Result<HomeRow, Error> {
        let Some(globals) = &context.agent_tty else {
            return Err(HostFault::invalid_input("no home").into());
        };
        let home = globals.terminals_in(root, &context.machine);
        let mut row = HomeRow {
            home: root.to_string_lossy().into_owned(),
            existed: root.is_dir(),
            removed_sessions: Vec::new(),
            skipped_sessions: Vec::new(),
            total_bytes_freed: 0,
            deregistered: false,
        };
        let ids = match home.session_ids() {
            Ok(ids) => ids,
            // One bad home of many does not keep the others from being collected.
            Err(fault) if !globals.explicit => {
                output::print_notice(&text::one_line(&fault.message));
                return Ok(row);
            }
            Err(fault) => return Err(fault.into()),
        };
        let mut going = Vec::new();
        for id in &ids {
            let mut skip = |reason: &str| {
                row.skipped_sessions
                    .push(Skipped { session_id: id.clone(), reason: reason.to_owned() });
            };
            if !home.sessions_directory().join(id).is_dir() {
                skip("not a directory");
                continue;
            }
            let Ok(session) = home.open_session(id) else {
                skip("session manifest is missing");
                continue;
            };
            let was_over = session.manifest.status.is_terminal();
            let session = if self.dry_run { session.as_settled() } else { session.reconcile()? };
            let old = context.now.since(session.manifest.created_at);
            if !session.manifest.status.is_collectable() {
                skip("session host is still alive");
            } else if self.stale_only && was_over {
                skip("session is not stale");
            } else if age.is_some_and(|age| old < age) {
                skip("session is newer than the requested age threshold");
            } else {
                going.push(id.clone());
            }
        }
        for (id, outcome) in self.remove_sessions(context, &home, going)? {
            match outcome {
                Ok(bytes) => {
                    row.removed_sessions.push(id);
                    row.total_bytes_freed += bytes;
                }
                Err(refusal) => {
                    let reason = refusal.reason_text();
                    row.skipped_sessions.push(Skipped { session_id: id, reason });
                }
            }
        }
        let emptied = row.removed_sessions.len() == ids.len();
        // The default home is looked at whether or not it is on the list.
        let listed = || homes::list_known_homes().iter().any(|known| known.path == root);
        row.deregistered = !globals.explicit && (!row.existed || emptied) && listed();
        Ok(row)
    }
}

impl AgentTtyGcArgs {
    /// Moves sessions to the trash, or says what they take.
    fn remove_sessions(
        &self,
        context: &CliContext,
        home: &TerminalHome,
        ids: Vec<String>,
    ) -> Result<Vec<RemovedTerminal>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let machine = context.machine()?;
        if self.dry_run {
            let pins = store::state::read_pins(machine.home());
            let size = |id: &str| size_of(&home.sessions_directory().join(id));
            let outcome = |id: String| {
                let allowed = pins.allow(&[remove::terminal_name(&id)]);
                (id.clone(), allowed.map(|()| size(&id)))
            };
            return Ok(ids.into_iter().map(outcome).collect());
        }
        let (root, command) = (home.root.clone(), "agent-tty gc".to_owned());
        let work = Work::RemoveTerminals { root, ids, command };
        let done = carry_out_work(&work, machine, &mut |_, _| {});
        match done.map_err(Error::Order)? {
            (WorkDone::RemoveTerminals(outcomes), _) => Ok(outcomes),
            _ => Err(unexpected_answer()),
        }
    }
}

fn parse_age(text: &str) -> Result<Duration, HostFault> {
    let wrong = || {
        let message = format!("--older-than `{text}` must be a number of m, h or d, like 30m.");
        let fault = HostFault::new(FaultCode::InvalidDuration, message);
        fault.with("value", text).with("expectedFormat", "<number>m, <number>h or <number>d")
    };
    let unit = match text.chars().last() {
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    if number == 0 {
        return Err(wrong());
    }
    Ok(Duration::from_secs(number.saturating_mul(unit)))
}

fn render_collected_text(result: &Collected) -> String {
    let mut out = String::new();
    let verb = if result.dry_run { "Would remove" } else { "Removed" };
    for row in &result.homes {
        for id in &row.removed_sessions {
            let _ = writeln!(out, "{verb} {}", text::one_line(id));
        }
        for skipped in &row.skipped_sessions {
            let _ = writeln!(
                out,
                "Skipped {}: {}",
                text::one_line(&skipped.session_id),
                skipped.reason
            );
        }
    }
    let _ = writeln!(
        out,
        "{verb} {} session(s), {} bytes freed.",
        result.removed_session_count, result.total_bytes_freed
    );
    out
}
