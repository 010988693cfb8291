//! `ostler doctor`

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use flows::bundle::{ReportBundle, own_logs};
use flows::observe::{AgentReport, Observation, ObserveScope};
use flows::writer::AskLimits;
use model::wire::{BundleView, BundledFile, CheckGrade, DoctorFinding, DoctorResult};
use sys::machine::Machine;

use crate::cli::{CliContext, daemon, finalize, hooks, version};
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
    /// Write a tarball for a bug report, redacted, and say what is in it [default: ostler-bundle.tar.zst].
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = BUNDLE_FILE)]
    bundle: Option<PathBuf>,
}

/// What the tarball is called by default.
const BUNDLE_FILE: &str = "ostler-bundle.tar.zst";

impl DoctorArgs {
    pub(crate) fn run_doctor(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let machine = context.machine()?;
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
        let daemon = daemon::daemon_status(machine);
        let may_ask = daemon.is_ok();
        findings.push(match daemon {
            Ok(status) if status.running => {
                let runs = format!("runs (pid {})", status.pid.unwrap_or_default());
                match daemon::name_other_release(&status) {
                    Some((what, remedy)) => {
                        DoctorFinding::note("daemon", format!("{runs}, {what}"), remedy)
                    }
                    None => DoctorFinding::ok("daemon", runs),
                }
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
        let known = flows::finalize::is_anything_known(machine.home());
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
            findings.extend(flows::doctor::examine_hooks(machine, &program));
        }
        findings.extend(flows::doctor::examine_home(machine, &config));
        if let Ok(observation) = context.observe_now(ObserveScope::Active, &[]) {
            findings.extend(flows::doctor::examine_sources(&observation));
            findings.extend(flows::doctor::examine_versions(&observation));
        }
        let fixed = self.fix.then(|| flows::doctor::fix_problem_logs(machine)).transpose()?;
        let mut result = DoctorResult {
            healthy: !findings.iter().any(|finding| finding.grade == CheckGrade::Problem),
            findings,
            swept,
            fixed,
            bundle: None,
        };
        if let Some(path) = &self.bundle {
            result.bundle = Some(write_bundle(context, machine, path, &result)?);
        }
        if context.json {
            context.print_json(&result)?;
        } else {
            output::print_text(&render_findings_text(&result))?;
        }
        Ok(if result.healthy { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

/// Writes what is known about ostler itself into a tarball. No transcript is read for it.
fn write_bundle(
    context: &CliContext,
    machine: &Machine,
    path: &Path,
    result: &DoctorResult,
) -> Result<BundleView, Error> {
    let path = std::path::absolute(path)?;
    let mut bundle = ReportBundle::new(env::home_dir().as_deref(), env::secret_values());
    let system = (std::env::consts::OS, std::env::consts::ARCH);
    let about = format!("ostler {}\n{} {}\n", version::OSTLER_VERSION, system.0, system.1);
    bundle.add_text("version.txt", &about);
    bundle.add_text("doctor.json", &pretty_json(&told_of(result)));
    bundle.add_text("config.txt", &config_text(context));
    let daemon = match daemon::daemon_status(machine) {
        Ok(status) => pretty_json(&status),
        Err(error) => format!("{error}\n"),
    };
    bundle.add_text("daemon.json", &daemon);
    if let Ok(observation) = context.observe_now(ObserveScope::All, &[]) {
        bundle.add_text("adapters.txt", &adapters_text(&observation));
    }
    bundle.add_logs(&own_logs(machine, sys::log::LOG_DIRECTORY));
    bundle.add_listing(machine.home());
    bundle.write_to(&path, context.now).map_err(|source| {
        let message = format!("`{}` cannot be written: {source}", path.display());
        Error::usage_error(message, bundle_hint(source.kind()))
    })?;
    let file = |(name, bytes): (&str, usize)| BundledFile { name: name.to_owned(), bytes };
    Ok(BundleView {
        path: path.to_string_lossy().into_owned(),
        files: bundle.contents().map(file).collect(),
    })
}

fn bundle_hint(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::AlreadyExists => {
            "name a file that is not there yet: `ostler doctor --bundle FILE`"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "name a file on a disk with room: `ostler doctor --bundle FILE`"
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            "name a file in a directory that exists: `ostler doctor --bundle FILE`"
        }
        _ => "name a file where you may write: `ostler doctor --bundle FILE`",
    }
}

/// The findings without what an invalid configuration says: its error quotes the line.
fn told_of(result: &DoctorResult) -> Vec<DoctorFinding> {
    let mut findings = result.findings.clone();
    for finding in &mut findings {
        if finding.check == "configuration" && finding.grade == CheckGrade::Problem {
            (finding.found, finding.remedy) = ("invalid".to_owned(), None);
        }
    }
    findings
}

/// The settings: where each comes from, and its value only if that is the default, a number or a choice.
fn config_text(context: &CliContext) -> String {
    let Ok(loaded) = context.load_config() else { return "invalid\n".to_owned() };
    let line = |setting: &model::wire::ConfigSetting| {
        let is_plain = setting.origin == "default"
            || ["true", "false"].contains(&setting.value.as_str())
            || setting.value.parse::<u64>().is_ok();
        let value = if is_plain { setting.value.as_str() } else { "[left out]" };
        format!("{} = {value}  # {}\n", setting.key, setting.origin)
    };
    loaded.settings.iter().map(line).collect()
}

/// Which agents are known and how many sessions of each were found; no name of a session.
fn adapters_text(observation: &Observation) -> String {
    let line = |report: &AgentReport| {
        let id = report.adapter.agent_profile().id;
        let found = observation.sessions.iter().filter(|one| one.session.agent == id).count();
        let problems = observation.incomplete.iter().filter(|one| one.source == id).count();
        format!("{id}: {found} sessions, {} processes, {problems} problems\n", report.processes)
    };
    observation.agents.iter().map(line).collect()
}

fn pretty_json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// The findings, with agents whose hooks are the same on one line: a new user has ten of them.
fn fold_hooks(findings: &[DoctorFinding]) -> Vec<DoctorFinding> {
    const OF_HOOKS: &str = "hooks of ";
    let mut folded: Vec<DoctorFinding> = Vec::new();
    for finding in findings {
        let agent = finding.check.strip_prefix(OF_HOOKS);
        let same = folded.iter_mut().find(|one| {
            let is_same = one.grade == finding.grade && one.found == finding.found;
            is_same && one.check.starts_with(OF_HOOKS)
        });
        match (agent, same) {
            (Some(agent), Some(one)) if finding.grade != CheckGrade::Problem => {
                one.check = format!("{}, {agent}", one.check);
                let installs =
                    one.remedy.as_deref().is_some_and(|remedy| remedy.contains("hooks install"));
                if installs {
                    one.remedy = Some("`ostler hooks install` does it for all of them".to_owned());
                }
            }
            _ => folded.push(finding.clone()),
        }
    }
    folded
}

fn render_findings_text(result: &DoctorResult) -> String {
    let paint = Painter::for_stdout();
    let mut page = String::new();
    if let Some(swept) = result.swept.as_ref().filter(|swept| !swept.ended.is_empty()) {
        page.push_str(&finalize::render_sweep_text(swept));
    }
    for finding in &fold_hooks(&result.findings) {
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
    if let Some(bundle) = &result.bundle {
        page.push_str(&text::one_line(&format!("written {}, with", bundle.path)));
        page.push('\n');
        for file in &bundle.files {
            page.push_str(&text::one_line(&format!(
                "        {} ({} bytes)",
                file.name, file.bytes
            )));
            page.push('\n');
        }
        page.push_str("        no transcripts, prompts, titles or values of the environment\n");
    }
    page
}
