//! `ostler doctor`

use std::process::ExitCode;

use clap::Args;
use flows::daemon::AskLimits;
use flows::observe::Scope;
use model::wire::{DoctorResult, Finding, Grade};

use crate::cli::{Context, daemon, finalize, hooks};
use crate::env;
use crate::error::Error;
use crate::render::colour::{Colour, Paint};
use crate::render::{output, text};

/// Check ostler itself: its directories, hooks, spool and store, and sessions that are stuck.
///
/// It sweeps first and says so. Every finding has a reason and a remedy. The exit code is 1 when
/// something is wrong.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Do what the findings marked as fixable name, and nothing else.
    #[arg(long)]
    fix: bool,
    /// Look only: end and condense nothing.
    #[arg(long, conflicts_with = "fix")]
    no_sweep: bool,
}

impl Doctor {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let dirs = context.dirs()?;
        let mut findings = Vec::new();
        let config = match context.config() {
            Ok(loaded) => {
                findings.push(Finding::ok("configuration", "valid"));
                loaded.config
            }
            Err(error) => {
                let remedy = error.hint().unwrap_or_default();
                findings.push(Finding::problem("configuration", error.to_string(), remedy));
                model::config::Config::default()
            }
        };
        // First: one that does not answer is not asked to sweep either.
        let daemon = daemon::status(&dirs);
        let may_ask = daemon.is_ok();
        findings.push(match daemon {
            Ok(status) if status.running => {
                let pid = status.pid.unwrap_or_default();
                Finding::ok("daemon", format!("runs (pid {pid})"))
            }
            Ok(_) => Finding::note(
                "daemon",
                "does not run; sessions are finalized by the next `ostler status`",
                "`ostler daemon start` finalizes them at once",
            ),
            Err(error) => {
                let remedy = error.hint().unwrap_or_default();
                Finding::problem("daemon", error.to_string(), remedy)
            }
        });
        let known = flows::finalize::is_anything_known(&dirs.home);
        let swept = match known && may_ask && !self.no_sweep {
            true => finalize::sweep(context, &[], false, AskLimits::SHORT).map(Some),
            false => Ok(None),
        };
        let swept = swept.unwrap_or_else(|error| {
            let remedy = error.hint().unwrap_or_default();
            findings.push(Finding::problem("sweep", error.to_string(), remedy));
            None
        });
        if let Ok(program) = hooks::program() {
            findings.extend(flows::doctor::hooks(flows::Env::new(&env::lookup), &program));
        }
        findings.extend(flows::doctor::examine(&dirs, &config, context.now));
        if let Ok(observation) = context.observe(Scope::Active, &[]) {
            findings.extend(flows::doctor::sources(&observation));
        }
        let fixed = self.fix.then(|| flows::doctor::fix(&dirs)).transpose()?;
        let result = DoctorResult {
            healthy: !findings.iter().any(|finding| finding.grade == Grade::Problem),
            findings,
            swept,
            fixed,
        };
        if context.json {
            context.answer(&result)?;
        } else {
            output::text(&page(&result))?;
        }
        Ok(if result.healthy { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

fn page(result: &DoctorResult) -> String {
    let paint = Paint::for_stdout();
    let mut page = String::new();
    if let Some(swept) = result.swept.as_ref().filter(|swept| !swept.ended.is_empty()) {
        page.push_str(&finalize::tell(swept));
    }
    for finding in &result.findings {
        let (mark, colour) = match finding.grade {
            Grade::Ok => ("ok     ", Colour::Green),
            Grade::Note => ("note   ", Colour::Yellow),
            Grade::Problem => ("problem", Colour::Red),
        };
        let line = text::one_line(&format!("{}: {}", finding.check, finding.found));
        page.push_str(&format!("{} {line}\n", paint.paint(colour, mark)));
        if let Some(remedy) = &finding.remedy {
            let fixable = if finding.fixable { " (`--fix` does it)" } else { "" };
            page.push_str(&text::one_line(&format!("        {remedy}{fixable}")));
            page.push('\n');
        }
    }
    for done in result.fixed.iter().flatten() {
        page.push_str(&format!("fixed   {done}\n"));
    }
    page
}
