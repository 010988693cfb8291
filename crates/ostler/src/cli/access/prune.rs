//! `ostler access prune`

use std::process::ExitCode;
use std::time::Duration;

use access::AccessError;
use access::log::ExpiredLog;
use access::prune::{PruneOutcome, PrunedEntry, plan_prune};
use access::rules::escape_untrusted;
use access::rules::presence::AgentPresence;
use access::wire::{AccessPruneResult, PruneView};
use clap::Args;
use flows::work::carry_out_work;
use flows::writer::{Work, WorkDone};
use model::liveness::Death;
use model::time::Time;

use crate::cli::CliContext;
use crate::error::{self, Error};
use crate::render::{duration, output};

declare_commands![CommandEntry {
    place: HelpPlace(Credentials, 8),
    effect: WritesState,
    answers: &[answer::<access_wire::AccessPruneResult>()],
    examples: &[
        example("access prune --dry-run", "What is provably finished, and why the rest stays."),
        example("access prune --logs 30d", "Remove it, and old logs, too.")
    ],
    cases: &[
        empty("access prune"),
        usual("access prune").on(Access).after(&["access stop ID"]),
        refused("access prune --logs soon"),
        also("access prune"),
        also("access prune --dry-run"),
        also("access prune").on(Access)
    ],
    uncased: &[(
        Incomplete,
        "entries that are skipped are rows in tests/cli/access/rows_directories.rs"
    )],
    ..entry!("access prune", AccessPruneArgs, run_access_prune)
}];

/// Remove the directories of access sessions that are provably finished.
///
/// Candidates are expired or stopped, keep every rule, and their agent is proven gone. Each entry
/// gets one line: `PRUNED`, or the `SKIP_` code that keeps it. A skip is not a failure. A credential that
/// was lent is discarded: it cannot be brought back. What was done with the keys stays in the session's
/// log until `--logs` moves that to the trash.
#[derive(Debug, Args)]
pub(crate) struct AccessPruneArgs {
    /// Change nothing; say what would be done.
    #[arg(long)]
    dry_run: bool,
    /// Also remove the logs of sessions that are gone, if their last line is older, e.g. 30d.
    #[arg(long, value_name = "AGE", value_parser = duration::from_argument)]
    logs: Option<Duration>,
}

impl AccessPruneArgs {
    pub(crate) fn run_access_prune(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let machine = context.machine()?;
        let now = context.now;
        let logs_before = self.logs.map(|age| now.minus(age));
        let mut report = plan_prune(machine, logs_before).map_err(AccessError::from)?;
        if !self.dry_run && report.has_work() {
            let work = Work::PruneAccess { logs_before };
            let done = carry_out_work(&work, machine, &mut |_, _| {});
            report = match done.map_err(Error::Order)? {
                (WorkDone::PruneAccess(report), _) => *report,
                _ => return Err(error::unexpected_answer()),
            };
        }
        let (pruned, failed) = (report.pruned_count(), report.failed_count());
        let (skipped, receipt) = (report.skipped_count(), report.receipt);
        let mut items: Vec<PruneView> =
            report.items.into_iter().map(|item| prune_view(item, self.dry_run)).collect();
        items.extend(report.logs.into_iter().map(|log| log_view(log, now, self.dry_run)));
        if context.json {
            context.print_json(AccessPruneResult {
                dry_run: self.dry_run,
                items,
                pruned,
                skipped,
                failed,
                receipt,
            })?;
        } else {
            let mut out = String::new();
            for item in &items {
                let line = format!(
                    "{} {} {}",
                    item.code,
                    escape_untrusted(&item.id),
                    escape_untrusted(&item.reason)
                );
                out.push_str(line.trim_end());
                out.push('\n');
            }
            let would = if self.dry_run { "would be " } else { "" };
            out.push_str(&format!("{pruned} {would}pruned, {skipped} {would}skipped"));
            if failed > 0 {
                out.push_str(&format!(", {failed} failed"));
            }
            out.push('\n');
            output::print_text(&out)?;
        }
        Ok(if failed > 0 { error::exit_code_of("ACCESS_FAILED") } else { ExitCode::SUCCESS })
    }
}

fn log_view(log: ExpiredLog, now: Time, dry_run: bool) -> PruneView {
    let (code, reason) = match log.removed {
        Ok(()) => {
            ("PRUNED_LOG", format!("last line {}", duration::age_phrase(now.since(log.last))))
        }
        Err(reason) => ("FAIL_REMOVE", reason),
    };
    let code = code_word(code, dry_run);
    PruneView { action: "remove", kind: "access-log", id: log.id, code, reason }
}

/// What was done, or would be.
fn code_word(code: &str, dry_run: bool) -> String {
    match code {
        _ if !dry_run => code.to_owned(),
        "PRUNED" => "WOULD_PRUNE".to_owned(),
        "PRUNED_LOG" => "WOULD_PRUNE_LOG".to_owned(),
        code => format!("WOULD_{code}"),
    }
}

fn prune_view(item: PrunedEntry, dry_run: bool) -> PruneView {
    let (action, code, reason) = match item.outcome {
        PruneOutcome::Pruned { state, death: Death::Gone } => {
            ("remove", "PRUNED", state.as_str().to_owned())
        }
        PruneOutcome::Pruned { state, death } => {
            let reason = AgentPresence::Absent(death).reason_code();
            ("remove", "PRUNED", format!("{} ({reason})", state.as_str()))
        }
        PruneOutcome::Kept(skip) => ("skip", skip.skip_code().as_str(), skip.reason_text()),
        PruneOutcome::Failed(what) => ("remove", "FAIL_REMOVE", what),
    };
    PruneView { action, kind: "access", id: item.name, code: code_word(code, dry_run), reason }
}
