//! `ostler access prune`

use std::process::ExitCode;
use std::time::Duration;

use access::log::{Expired, expire};
use access::prune::{Item, Outcome, prune};
use access::rules::escape;
use access::rules::presence::Presence;
use access::wire::{AccessPruneResult, PruneView};
use access::{AccessError, World};
use clap::Args;
use model::liveness::Death;
use model::time::Time;

use crate::cli::Context;
use crate::error::{self, Error};
use crate::render::{duration, output};

/// Remove the directories of access sessions that are provably finished.
///
/// Candidates are expired or stopped, keep every rule, and their agent is proven gone. Each entry
/// gets one line: `PRUNED`, or the `SKIP_` code that keeps it. A skip is not a failure. What was done
/// with the keys stays in the session's log until `--logs` removes that, too.
#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Change nothing; say what would be done.
    #[arg(long)]
    dry_run: bool,
    /// Also remove the logs of sessions that are gone, if their last line is older, e.g. 30d.
    #[arg(long, value_name = "AGE", value_parser = duration::from_argument)]
    logs: Option<Duration>,
}

impl Prune {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let home = context.home()?;
        let report = prune(&home, &World::here(), self.dry_run).map_err(AccessError::from)?;
        let (mut pruned, mut failed) = (report.pruned(), report.failed());
        let skipped = report.skipped();
        let mut items: Vec<PruneView> =
            report.items.into_iter().map(|item| view(item, self.dry_run)).collect();
        if let Some(age) = self.logs {
            let now = context.now;
            let logs = expire(&home, now.minus(age), self.dry_run).map_err(AccessError::from)?;
            let removed = logs.iter().filter(|log| log.removed.is_ok()).count();
            pruned += removed;
            failed += logs.len() - removed;
            items.extend(logs.into_iter().map(|log| log_view(log, now, self.dry_run)));
        }
        if context.json {
            context.answer(AccessPruneResult {
                dry_run: self.dry_run,
                items,
                pruned,
                skipped,
                failed,
            })?;
        } else {
            let mut out = String::new();
            for item in &items {
                let line = format!("{} {} {}", item.code, escape(&item.id), escape(&item.reason));
                out.push_str(line.trim_end());
                out.push('\n');
            }
            let would = if self.dry_run { "would be " } else { "" };
            out.push_str(&format!("{pruned} {would}pruned, {skipped} {would}skipped"));
            if failed > 0 {
                out.push_str(&format!(", {failed} failed"));
            }
            out.push('\n');
            output::text(&out)?;
        }
        Ok(if failed > 0 { error::exit_code_of("ACCESS_FAILED") } else { ExitCode::SUCCESS })
    }
}

fn log_view(log: Expired, now: Time, dry_run: bool) -> PruneView {
    let (code, reason) = match log.removed {
        Ok(()) => ("PRUNED_LOG", format!("last line {}", duration::ago(now.since(log.last)))),
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

fn view(item: Item, dry_run: bool) -> PruneView {
    let (action, code, reason) = match item.outcome {
        Outcome::Pruned { state, death: Death::Gone } => {
            ("remove", "PRUNED", state.word().to_owned())
        }
        Outcome::Pruned { state, death } => {
            let reason = Presence::Absent(death).reason();
            ("remove", "PRUNED", format!("{} ({reason})", state.word()))
        }
        Outcome::Kept(skip) => ("skip", skip.code.word(), skip.detail),
        Outcome::Failed(what) => ("remove", "FAIL_REMOVE", what),
    };
    PruneView { action, kind: "access", id: item.name, code: code_word(code, dry_run), reason }
}
