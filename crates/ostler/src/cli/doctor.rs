//! `ostler doctor`

use std::process::ExitCode;

use clap::Args;
use flows::daemon::AskLimits;
use flows::observe::ObserveScope;
use model::wire::{CheckGrade, DoctorFinding, DoctorResult};

use crate::cli::{CliContext, daemon, finalize, hooks};
use crate::env;
use crate::error::Error;
use crate::render::colour::{Colour, Painter};
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(SetUp, 2),
    effect: WritesState,
    answers: &[answer::<wire::DoctorResult>()],
    examples: &[
        example("doctor", "Everything that ostler depends on, with remedies."),
        example("doctor --no-sweep", "Look only.")
    ],
    cases: &[
        empty("doctor"),
        usual("doctor --no-sweep"),
        refused("doctor --fix --no-sweep"),
        incomplete("doctor --no-sweep"),
        also("doctor")
    ],
    ..entry!("doctor", DoctorArgs, run_doctor)
}];

/// Check ostler itself: its directories, hooks, spool and store, and sessions that are stuck.
///
/// It sweeps first and says so. Every finding has a reason and a remedy. The exit code is 1 when
/// something is wrong.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Do what the findings marked as fixable name, and nothing else.
    #[arg(long)]
    fix: bool,
    /// Look only: end and condense nothing.
    #[arg(long, conflicts_with = "fix")]
    no_sweep: bool,
}

impl DoctorArgs {
    pub(crate) fn run_doctor(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let dirs = context.ostler_dirs()?;
        let mut findings = Vec::new();
        let config = match context.load_config() {
            Ok(loaded) => {
                findings.push(DoctorFinding::ok("configuration", "valid"));
                loaded.config
            }
            Err(error) => {
                let remedy = error.remedy_hint().unwrap_or_default();
                findings.push(DoctorFinding::problem("configuration", error.to_string(), remedy));
                model::config::OstlerConfig::default()
            }
        };
        // First: one that does not answer is not asked to sweep either.
        let daemon = daemon::daemon_status(&dirs);
        let may_ask = daemon.is_ok();
        findings.push(match daemon {
            Ok(status) if status.running => {
                let pid = status.pid.unwrap_or_default();
                DoctorFinding::ok("daemon", format!("runs (pid {pid})"))
            }
            Ok(_) => DoctorFinding::note(
                "daemon",
                "does not run; sessions are finalized by the next `ostler status`",
                "`ostler daemon start` finalizes them at once",
            ),
            Err(error) => {
                let remedy = error.remedy_hint().unwrap_or_default();
                DoctorFinding::problem("daemon", error.to_string(), remedy)
            }
        });
        let known = flows::finalize::is_anything_known(&dirs.home);
        let swept = match known && may_ask && !self.no_sweep {
            true => finalize::run_sweep(context, &[], false, AskLimits::SHORT).map(Some),
            false => Ok(None),
        };
        let swept = swept.unwrap_or_else(|error| {
            let remedy = error.remedy_hint().unwrap_or_default();
            findings.push(DoctorFinding::problem("sweep", error.to_string(), remedy));
            None
        });
        if let Ok(program) = hooks::stable_program_path() {
            findings.extend(flows::doctor::examine_hooks(
                flows::EnvLookup::new(&env::lookup_variable),
                &program,
            ));
        }
        findings.extend(flows::doctor::examine_home(&dirs, &config, context.now));
        if let Ok(observation) = context.observe_now(ObserveScope::Active, &[]) {
            findings.extend(flows::doctor::examine_sources(&observation));
        }
        let fixed = self.fix.then(|| flows::doctor::fix_problem_logs(&dirs)).transpose()?;
        let result = DoctorResult {
            healthy: !findings.iter().any(|finding| finding.grade == CheckGrade::Problem),
            findings,
            swept,
            fixed,
        };
        if context.json {
            context.print_json(&result)?;
        } else {
            output::print_text(&render_findings_text(&result))?;
        }
        Ok(if result.healthy { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

fn render_findings_text(result: &DoctorResult) -> String {
    let paint = Painter::for_stdout();
    let mut page = String::new();
    if let Some(swept) = result.swept.as_ref().filter(|swept| !swept.ended.is_empty()) {
        page.push_str(&finalize::render_sweep_text(swept));
    }
    for finding in &result.findings {
        let (mark, colour) = match finding.grade {
            CheckGrade::Ok => ("ok     ", Colour::Green),
            CheckGrade::Note => ("note   ", Colour::Yellow),
            CheckGrade::Problem => ("problem", Colour::Red),
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
