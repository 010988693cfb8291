//! `ostler access prune`

use std::process::ExitCode;

use clap::Args;
use flows::access::prune::{Item, Outcome, prune};
use flows::access::{AccessError, World};
use model::access::escape;
use model::access::presence::Presence;
use model::access::wire::{AccessPruneResult, PruneView};
use model::liveness::Death;

use crate::cli::Context;
use crate::error::{self, Error};
use crate::render::output;

/// Remove the directories of access sessions that are provably finished.
///
/// Candidates are expired or stopped, keep every rule, and their agent is proven gone. Each entry
/// gets one line: `PRUNED`, or the `SKIP_` code that keeps it. A skip is not a failure.
#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Change nothing; say what would be done.
    #[arg(long)]
    dry_run: bool,
}

impl Prune {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let report =
            prune(&context.home()?, &World::here(), self.dry_run).map_err(AccessError::from)?;
        let (pruned, skipped, failed) = (report.pruned(), report.skipped(), report.failed());
        let items: Vec<PruneView> =
            report.items.into_iter().map(|item| view(item, self.dry_run)).collect();
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
            out.push_str(&format!("{pruned} pruned, {skipped} skipped"));
            if failed > 0 {
                out.push_str(&format!(", {failed} failed"));
            }
            out.push('\n');
            output::text(&out)?;
        }
        Ok(if failed > 0 { error::exit_code_of("ACCESS_FAILED") } else { ExitCode::SUCCESS })
    }
}

fn view(item: Item, dry_run: bool) -> PruneView {
    let would = if dry_run { "WOULD_" } else { "" };
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
    PruneView { action, kind: "access", id: item.name, code: format!("{would}{code}"), reason }
}
