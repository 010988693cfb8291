//! `ostler service`

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use flows::service::{self, ServiceError, ServiceRequest};
use model::wire::{FileChange, ServiceLogLine, ServiceLogsResult, ServiceResult};
use sys::service::ServiceManagerError;

use crate::cli::{CliContext, hooks, setup};
use crate::error::Error;
use crate::render::{output, text};

/// Why there is no usual case.
const NEEDS_MANAGER: &str = "it needs a service manager: tests/cli/service.rs runs a real one";

declare_commands![
    CommandEntry {
        place: HelpPlace(SetUp, 4),
        usual_member: "status",
        ..entry!("service", ServiceArgs, run_service)
    },
    CommandEntry {
        place: HelpPlace(SetUp, 1),
        effect: WritesFiles,
        answers: &[answer::<wire::ServiceResult>()],
        examples: &[example("service install --dry-run", "The unit that would be written.")],
        cases: &[empty("service install --dry-run"), refused("service install --no-such-option")],
        uncased: &[(Usual, NEEDS_MANAGER), ONE_PROGRAM],
        ..entry!("service install")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 2),
        answers: &[answer::<wire::ServiceResult>()],
        examples: &[example("service status", "Whether the daemon is a service, and runs.")],
        cases: &[
            empty("service status"),
            refused("service status --no-such-option"),
            also("service status")
        ],
        uncased: &[(Usual, NEEDS_MANAGER), ONE_PROGRAM],
        ..entry!("service status")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 3),
        answers: &[
            answer::<wire::ServiceLogsResult>(),
            stream::<wire::ServiceLogLine>(" --follow")
        ],
        examples: &[example("service logs -n 20", "What it said last.")],
        cases: &[
            empty("service logs"),
            refused("service logs --no-such-option"),
            also("service logs")
        ],
        uncased: &[(Usual, NEEDS_MANAGER), ONE_PROGRAM],
        ..entry!("service logs")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 4),
        effect: WritesFiles,
        answers: &[answer::<wire::ServiceResult>()],
        examples: &[example("service uninstall --dry-run", "What would go.")],
        cases: &[
            empty("service uninstall --dry-run"),
            refused("service uninstall --no-such-option")
        ],
        uncased: &[(Usual, NEEDS_MANAGER), ONE_PROGRAM],
        ..entry!("service uninstall")
    }
];

/// Run the daemon as a service of yours (systemd user unit, launchd agent), from login on.
///
/// A stop or a restart of the service ends the daemon alone: hosted terminals are in scopes of their
/// own, and nothing else that was started from it is touched. Everything works without the daemon.
#[derive(Debug, Args)]
pub(crate) struct ServiceArgs {
    #[command(subcommand)]
    action: ServiceCommand,
}

#[derive(Debug, Subcommand)]
enum ServiceCommand {
    /// Write the unit, start it, and start it with every session of yours.
    Install(ServiceInstallArgs),
    /// Tell whether it is installed and runs, and what happens at logout.
    Status,
    /// Show what it said.
    Logs(ServiceLogsArgs),
    /// Stop it and take the unit away; an edited one goes to the trash as it is.
    Uninstall(ServiceChangeArgs),
}

#[derive(Debug, Args)]
struct ServiceInstallArgs {
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the unit for a program at this place, as packages have it, and change nothing.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "dry_run")]
    print: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ServiceChangeArgs {
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
struct ServiceLogsArgs {
    /// How many lines.
    #[arg(short = 'n', long, default_value_t = 50)]
    lines: usize,
    /// Go on with what it says from now on.
    #[arg(short, long)]
    follow: bool,
}

impl ServiceArgs {
    pub(crate) fn run_service(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let machine = context.machine()?;
        let is_install =
            matches!(&self.action, ServiceCommand::Install(install) if install.print.is_none());
        let program = match is_install {
            true => hooks::lasting_program_path()?,
            false => hooks::stable_program_path()?,
        };
        let request = setup::service_request(machine, &program);
        let remove = hooks::settings_remover(machine);
        let view = match &self.action {
            ServiceCommand::Status => service::service_status(&request)?,
            ServiceCommand::Logs(logs) => return logs.show_logs(context, &request),
            ServiceCommand::Install(ServiceInstallArgs { print: Some(program), .. }) => {
                if context.json {
                    return Err(Error::usage_error(
                        "`--print` writes the unit itself to standard output",
                        "leave out `--json`, or use `--dry-run`",
                    ));
                }
                output::print_text(&service::render_packaged_unit(program)?)?;
                return Ok(ExitCode::SUCCESS);
            }
            ServiceCommand::Install(change) if change.dry_run => preview_install(&request)?,
            ServiceCommand::Install(_) => service::install_service(&request, &remove)?,
            ServiceCommand::Uninstall(change) if change.dry_run => {
                let mut view = service::service_status(&request)?;
                view.change = view.installed.then_some(FileChange::Removed);
                view
            }
            ServiceCommand::Uninstall(_) => service::uninstall_service(&request, &remove)?,
        };
        if context.json {
            context.print_json(&view)?;
        } else {
            print_service(&view)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn preview_install(request: &ServiceRequest<'_>) -> Result<ServiceResult, ServiceError> {
    match request.manager {
        Some(_) => service::preview_service(request),
        None => service::service_status(request),
    }
}

fn print_service(view: &ServiceResult) -> Result<(), Error> {
    if let Some(diff) = &view.diff {
        output::print_text(&text::many_lines(diff))?;
    }
    let word = |is: bool, yes: &'static str, no: &'static str| if is { yes } else { no };
    let unit = view.unit.as_deref().map(text::home_as_tilde).unwrap_or_default();
    let change = match view.change {
        Some(FileChange::Created) => "created",
        Some(FileChange::Changed) => "changed",
        Some(FileChange::Removed) => "removed",
        Some(FileChange::Unchanged) => "unchanged",
        None => word(view.installed, "installed", "not installed"),
    };
    let mut line = change.to_owned();
    if view.manager.is_some() {
        line.push_str(word(view.enabled, ", starts with your session", ""));
        line.push_str(word(view.active, ", runs", ", does not run"));
    }
    if let Some(pid) = view.pid {
        line.push_str(&format!(" (pid {pid})"));
    }
    if !unit.is_empty() {
        line.push_str(&format!(": {unit}"));
    }
    output::print_text(&format!("{}\n", text::one_line(&line)))?;
    for note in &view.notes {
        output::print_notice(note);
    }
    Ok(())
}

impl ServiceLogsArgs {
    fn show_logs(
        &self,
        context: &CliContext,
        request: &ServiceRequest<'_>,
    ) -> Result<ExitCode, Error> {
        let journal = request.manager.and_then(|one| one.journal_command(self.lines, self.follow));
        let mut source = "journal".to_owned();
        let mut lines = Vec::new();
        if let Some(mut child) = journal.and_then(|mut command| command.spawn().ok()) {
            let printed = child.stdout.take().into_iter();
            for line in printed.flat_map(|out| BufReader::new(out).lines()) {
                let line = line?;
                if self.follow && context.json {
                    output::print_json_line(ServiceLogLine { line })?;
                } else if self.follow {
                    output::print_text(&format!("{}\n", text::one_line(&line)))?;
                } else {
                    lines.push(line);
                }
            }
            child.wait()?;
        }
        if lines.is_empty() && !self.follow {
            (source, lines) = last_own_lines(request.machine.home(), self.lines);
        }
        if context.json && !self.follow {
            context.print_json(ServiceLogsResult { source, lines })?;
        } else {
            let page: String = lines.iter().map(|line| text::one_line(line) + "\n").collect();
            output::print_text(&page)?;
            if lines.is_empty() && !self.follow {
                output::print_notice(
                    "the daemon has said nothing here: `ostler service status` tells whether it runs",
                );
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What the daemon has written down itself, where no journal has it.
fn last_own_lines(home: &Path, count: usize) -> (String, Vec<String>) {
    let log = home.join(sys::log::LOG_DIRECTORY).join("daemon.log");
    let talk = home.join("daemon.log");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let path = if log.exists() { log } else { talk };
    let text = read(&path);
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let from = lines.len().saturating_sub(count);
    (path.to_string_lossy().into_owned(), lines[from..].to_vec())
}

impl From<ServiceManagerError> for Error {
    fn from(error: ServiceManagerError) -> Self {
        ServiceError::from(error).into()
    }
}

impl From<ServiceError> for Error {
    fn from(error: ServiceError) -> Self {
        let hint = match &error {
            ServiceError::File { path, source } => {
                return Self::Write {
                    path: path.to_string_lossy().into_owned(),
                    reason: source.to_string(),
                };
            }
            ServiceError::NoManager => {
                "`ostler daemon start` runs it until the machine stops; in a login session of its own \
                 there is a manager"
            }
            ServiceError::NoHome => "set `HOME` to an absolute path",
            ServiceError::Foreign(_) => {
                "move it away first, or keep it: `ostler daemon status` says whether it does its work"
            }
            ServiceError::NewerDaemon { .. } => {
                "use that version's ostler, or `ostler daemon stop` first"
            }
            ServiceError::DaemonStays(_) => "`ostler daemon stop` says why",
            ServiceError::EndsOthers(_) => {
                "end what runs there first, or set `KillMode=process` with `systemctl --user edit ostler`"
            }
            ServiceError::Manager(_) => "`ostler service logs` may say why",
            ServiceError::Silent => "`ostler service logs` may say why",
        };
        Self::Refused { what: error.to_string(), hint: hint.to_owned() }
    }
}
