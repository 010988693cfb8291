//! `ostler setup`

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use flows::service::ServiceRequest;
use flows::setup::{self, SetupError, SetupOutcome, SetupRequest, ShellScript};
use model::wire::{FileChange, HookProblem, ServiceResult, SetupResult};
use sys::machine::Machine;

use crate::cli::completions::CompletionShell;
use crate::cli::{CliContext, hooks, version};
use crate::env;
use crate::error::Error;
use crate::render::colour::{Colour, Painter};
use crate::render::table::{ColumnGive, TableCell, TableColumn, render_table};
use crate::render::{consent, output, text};

declare_commands![CommandEntry {
    place: HelpPlace(SetUp, 0),
    effect: WritesFiles,
    answers: &[answer::<wire::SetupResult>()],
    examples: &[
        example("setup --dry-run", "What would be changed, file by file."),
        example("setup --yes", "Do it without a question."),
        example("setup --undo --yes", "Take back what it did.")
    ],
    cases: &[
        empty("setup --dry-run"),
        usual("setup --dry-run --without hooks").harmless(),
        refused("setup").on(Worked),
        refused("setup --without fish"),
        also("setup --dry-run").harmless(),
        also("setup --undo").harmless(),
        also("setup --undo --dry-run").after(&["setup --yes"]),
        also("setup --undo --yes").after(&["setup --yes"])
    ],
    uncased: &[ONE_FILE],
    ..entry!("setup", SetupArgs, run_setup)
}];

/// Set this machine up in one go: agents' hooks, completions of your shells, the daemon as a service.
///
/// Shows one plan with every change, asks once, and does it. What is there already stays as it is, so
/// that a second run changes nothing. `ostler setup --undo` takes back what setup did, to the byte, and
/// keeps what others have changed meanwhile.
#[derive(Debug, Args)]
pub(crate) struct SetupArgs {
    /// Only show the plan.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do it without asking.
    #[arg(short, long)]
    yes: bool,
    /// Take back what setup did.
    #[arg(long)]
    undo: bool,
    /// Leave these parts out.
    #[arg(long, value_name = "PART", value_delimiter = ',', conflicts_with = "undo")]
    without: Vec<SetupPart>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SetupPart {
    /// What agents report.
    Hooks,
    /// What shells complete.
    Completions,
    /// The daemon, started with your session.
    Service,
}

/// How much of a diff a terminal is given: what one hook looks like.
const DIFF_LINES: usize = 16;

const SETUP_COLUMNS: [TableColumn; 4] = [
    TableColumn { head: "PART", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "FOR", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "CHANGE", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "FILE", give: ColumnGive::CutMiddle(20), right: false },
];

impl SetupArgs {
    pub(crate) fn run_setup(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let machine = context.machine()?;
        let wants = |part: SetupPart| !self.without.contains(&part);
        let is_started_later = wants(SetupPart::Hooks) || wants(SetupPart::Service);
        let program = match !self.undo && is_started_later {
            true => hooks::lasting_program_path()?,
            false => hooks::stable_program_path()?,
        };
        let scripts = match wants(SetupPart::Completions) {
            true => shell_scripts(machine)?,
            false => Vec::new(),
        };
        let request = SetupRequest {
            machine,
            completions: &scripts,
            service: service_request(machine, &program),
            with_hooks: wants(SetupPart::Hooks),
            with_service: wants(SetupPart::Service),
        };
        let remove = hooks::settings_remover(machine);
        let preview = match self.undo {
            true => setup::undo_setup(&request, true, &remove)?,
            false => setup::preview_setup(&request),
        };
        let has_changes = preview.has_changes() || self.has_record_to_clear(machine)?;
        if self.dry_run || !has_changes {
            return self.report(context, &request, preview, true);
        }
        if !self.yes && !self.ask_consent(context, &request, &preview)? {
            return Ok(ExitCode::SUCCESS);
        }
        let outcome = match self.undo {
            true => setup::undo_setup(&request, false, &remove)?,
            false => setup::carry_out_setup(&request, &remove)?,
        };
        self.report(context, &request, outcome, false)
    }

    /// Whether an undo has something to forget, though nothing of it is there any more.
    fn has_record_to_clear(&self, machine: &Machine) -> Result<bool, Error> {
        Ok(self.undo && setup::has_anything_to_undo(machine.home())?)
    }

    fn ask_consent(
        &self,
        context: &CliContext,
        request: &SetupRequest<'_>,
        preview: &SetupOutcome,
    ) -> Result<bool, Error> {
        if context.json || !consent::can_ask() {
            return Err(Error::Refused {
                what: "nobody can be asked; nothing was changed".to_owned(),
                hint: "`--dry-run` shows the plan, `--yes` carries it out".to_owned(),
            });
        }
        output::print_text(&render_diffs(preview, self.undo))?;
        output::print_text(&render_outcome(request, preview, true))?;
        Ok(consent::ask_yes_no(match self.undo {
            true => "Take this back?",
            false => "Do this? (`ostler setup --undo` takes it back)",
        }))
    }

    /// Prints what was or would be done; the exit code is that of the first part that was refused.
    fn report(
        &self,
        context: &CliContext,
        request: &SetupRequest<'_>,
        outcome: SetupOutcome,
        is_preview: bool,
    ) -> Result<ExitCode, Error> {
        let changes = outcome.has_changes();
        let dry_run = self.dry_run && is_preview;
        if !context.json {
            if dry_run {
                output::print_text(&render_diffs(&outcome, self.undo))?;
            }
            output::print_text(&render_outcome(request, &outcome, dry_run))?;
        }
        let (result, worst) = self.to_result(request, outcome, dry_run, changes);
        if context.json {
            context.print_json(&result)?;
        } else {
            print_notes(&result);
            let is_empty = result.hooks.is_empty() && result.completions.is_empty();
            let is_whole = self.without.is_empty();
            output::print_notice(match (self.undo, dry_run, changes) {
                (false, _, false) if is_empty && is_whole => {
                    "no agent was ever run here, and no shell was found: nothing was changed"
                }
                (false, _, false) if is_empty => {
                    "of what is not left out there is nothing to set up: nothing was changed"
                }
                (false, false, true) => {
                    "set up; `ostler setup --undo` takes it back, `ostler hooks uninstall` and \
                     `ostler service uninstall` each its part"
                }
                (false, _, false) => "everything is set up already; nothing was changed",
                (false, true, true) => "nothing was changed; `ostler setup` asks and does it",
                (true, false, true) => "taken back",
                (true, _, false) => "there is nothing to take back; nothing was changed",
                (true, true, true) => "nothing was changed; `ostler setup --undo` does it",
            });
        }
        Ok(worst.unwrap_or(ExitCode::SUCCESS))
    }

    fn to_result(
        &self,
        request: &SetupRequest<'_>,
        outcome: SetupOutcome,
        dry_run: bool,
        changes: bool,
    ) -> (SetupResult, Option<ExitCode>) {
        let mut worst = None;
        let mut note_failure = |error: &Error| worst = worst.or(Some(error.exit_code()));
        let mut agents = Vec::new();
        for (agent, one) in outcome.hooks {
            agents.push(one.unwrap_or_else(|error| {
                let error = Error::from(error);
                note_failure(&error);
                hooks::failed_agent(&agent, request.machine, &error)
            }));
        }
        let service = outcome.service.unwrap_or_else(|error| {
            let error = Error::from(error);
            note_failure(&error);
            let body = error.to_body();
            let problem = HookProblem { code: body.code, message: body.message, hint: body.hint };
            ServiceResult {
                manager: request.service.manager.map(|manager| manager.as_str()),
                problem: Some(problem),
                ..ServiceResult::default()
            }
        });
        for one in outcome.completions.iter().filter(|one| one.problem.is_some()) {
            let reason = one.problem.clone().unwrap_or_default();
            note_failure(&Error::Write { path: one.path.clone(), reason });
        }
        let completions = outcome.completions;
        let undo = self.undo;
        (SetupResult { undo, dry_run, changes, hooks: agents, completions, service }, worst)
    }
}

/// The service, for the user's manager that answers.
pub(crate) fn service_request<'a>(machine: &'a Machine, program: &'a Path) -> ServiceRequest<'a> {
    ServiceRequest {
        manager: sys::service::detect_manager(env::runtime_dir().as_deref()),
        program,
        version: version::OSTLER_VERSION,
        machine,
    }
}

/// On a terminal, names `ostler setup` below the first listing of a home that was not set up.
pub(crate) fn mention_setup_once(machine: &Machine) {
    if !output::is_terminal() || !consent::can_ask() {
        return;
    }
    let Some(cache) = machine.cache() else { return };
    if setup::is_set_up(machine.home()) {
        return;
    }
    let mark = cache.join("setup-mentioned");
    if sys::private::create_private_dir(cache).is_err() {
        return;
    }
    // What cannot be noted would be said every time: then it is not said at all.
    if fs::File::options().write(true).create_new(true).open(&mark).is_ok() {
        output::print_notice(
            "`ostler setup` lets agents report at once, completes ids in your shell and runs the daemon",
        );
    }
}

/// The completions of the shells that this user has files of, or has been given.
fn shell_scripts(machine: &Machine) -> Result<Vec<ShellScript>, Error> {
    let login_shell = env::user_shell().unwrap_or_default();
    let is_login = |name: &str| Path::new(&login_shell).file_name().is_some_and(|own| own == name);
    let packaged = |below: &[&str]| -> Vec<PathBuf> {
        let dirs = env::data_dirs();
        dirs.iter().flat_map(|dir| below.iter().map(|name| dir.join(name))).collect()
    };
    let mut scripts = Vec::new();
    let home = env::home_dir().unwrap_or_default();
    if let Some(data) = env::data_home()
        && (is_login("bash") || home.join(".bashrc").exists())
    {
        scripts.push(ShellScript {
            shell: "bash",
            path: data.join("bash-completion/completions/ostler"),
            packaged: packaged(&["bash-completion/completions/ostler"]),
            text: CompletionShell::Bash.render_script()?,
            note: None,
        });
    }
    if let Some(directory) = env::zsh_directory()
        && (is_login("zsh") || directory.join(".zshrc").exists())
    {
        let settings = fs::read_to_string(directory.join(".zshrc")).unwrap_or_default();
        let note = "zsh reads it once `fpath+=~/.zfunc` stands in .zshrc, before `compinit`";
        scripts.push(ShellScript {
            shell: "zsh",
            path: directory.join(".zfunc/_ostler"),
            packaged: packaged(&["zsh/site-functions/_ostler", "zsh/vendor-completions/_ostler"]),
            text: CompletionShell::Zsh.render_script()?,
            note: (!settings.contains(".zfunc")).then(|| note.to_owned()),
        });
    }
    let config = machine.config().and_then(Path::parent).map(|config| config.join("fish"));
    if let Some(config) = config.filter(|config| is_login("fish") || config.exists()) {
        scripts.push(ShellScript {
            shell: "fish",
            path: config.join("completions/ostler.fish"),
            packaged: packaged(&["fish/vendor_completions.d/ostler.fish"]),
            text: CompletionShell::Fish.render_script()?,
            note: None,
        });
    }
    Ok(scripts)
}

/// The diffs of what others read too; on a terminal the beginning of each, so that the plan below stays in sight.
fn render_diffs(outcome: &SetupOutcome, undo: bool) -> String {
    let diffs = collect_diffs(outcome);
    if !output::is_terminal() {
        return text::many_lines(&diffs.concat());
    }
    let mut shown = String::new();
    let mut left_out = 0;
    for diff in diffs {
        let lines: Vec<&str> = diff.lines().collect();
        // A few lines more are shorter than the note that they are missing.
        let kept = if lines.len() > DIFF_LINES + 4 { DIFF_LINES } else { lines.len() };
        lines[..kept].iter().for_each(|line| shown.extend([*line, "\n"]));
        if kept < lines.len() {
            left_out += lines.len() - kept;
            shown.push_str(&format!("… {} more lines like these\n", lines.len() - kept));
        }
    }
    if left_out > 0 {
        let undo = if undo { " --undo" } else { "" };
        shown.push_str(&format!("`ostler setup{undo} --dry-run | less` shows every line\n"));
    }
    text::many_lines(&shown)
}

fn collect_diffs(outcome: &SetupOutcome) -> Vec<&str> {
    let hooks = outcome.hooks.iter().filter_map(|(_, one)| one.as_ref().ok());
    let hooks = hooks.flat_map(|agent| &agent.files).filter_map(|file| file.diff.as_deref());
    // A completion script is ours alone and long: its name is enough.
    let service = outcome.service.as_ref().ok().and_then(|service| service.diff.as_deref());
    hooks.chain(service).collect()
}

fn render_outcome(request: &SetupRequest<'_>, outcome: &SetupOutcome, would: bool) -> String {
    let mut rows: Vec<Vec<TableCell>> = Vec::new();
    let mut add_row = |part: &str, what: &str, change: Option<FileChange>, path: &str| {
        let (word, colour) = change_word(change, would);
        rows.push(vec![
            (part.to_owned(), None),
            (text::one_line(what), None),
            (word.to_owned(), colour),
            (text::one_line(&text::home_as_tilde(path)), Some(Colour::Dim)),
        ]);
    };
    for (agent, one) in &outcome.hooks {
        match one {
            Ok(view) => {
                for file in &view.files {
                    add_row("hooks", agent, Some(file.change), &file.path);
                }
            }
            Err(_) => add_row("hooks", agent, None, ""),
        }
    }
    for one in &outcome.completions {
        let change = one.problem.is_none().then_some(one.change);
        add_row("completions", &one.shell, change, &one.path);
    }
    if let Some(manager) = request.service.manager {
        let manager = manager.as_str();
        match &outcome.service {
            Ok(ServiceResult { change: None, .. }) => {}
            Ok(view) => {
                add_row("service", manager, view.change, view.unit.as_deref().unwrap_or(""));
            }
            Err(_) => add_row("service", manager, None, ""),
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    render_table(&SETUP_COLUMNS, &rows, output::output_columns(), Painter::for_stdout())
}

fn change_word(change: Option<FileChange>, would: bool) -> (&'static str, Option<Colour>) {
    match (change, would) {
        (None, _) => ("refused", Some(Colour::Yellow)),
        (Some(FileChange::Unchanged), _) => ("-", None),
        (Some(FileChange::Created), true) => ("create", Some(Colour::Green)),
        (Some(FileChange::Changed), true) => ("change", Some(Colour::Green)),
        (Some(FileChange::Removed), true) => ("remove", Some(Colour::Green)),
        (Some(FileChange::Created), false) => ("created", Some(Colour::Green)),
        (Some(FileChange::Changed), false) => ("changed", Some(Colour::Green)),
        (Some(FileChange::Removed), false) => ("removed", Some(Colour::Green)),
    }
}

/// What a person should know or do, part by part.
fn print_notes(result: &SetupResult) {
    let tell = |what: &str, note: &str| {
        output::print_notice(&text::one_line(&format!("{what}: {note}")));
    };
    let tell_problem = |what: &str, problem: &HookProblem| {
        tell(&format!("error: {what}"), &problem.message);
        if let Some(hint) = &problem.hint {
            tell("hint", hint);
        }
    };
    for agent in &result.hooks {
        let notes = agent.notes.iter().filter(|_| !result.undo);
        notes.for_each(|note| tell(&agent.agent, note));
        agent.problem.iter().for_each(|problem| tell_problem(&agent.agent, problem));
    }
    for one in &result.completions {
        one.note.iter().for_each(|note| tell(&one.shell, note));
        one.problem.iter().for_each(|problem| tell(&format!("error: {}", one.shell), problem));
    }
    result.service.notes.iter().for_each(|note| tell("service", note));
    result.service.problem.iter().for_each(|problem| tell_problem("service", problem));
}

impl From<SetupError> for Error {
    fn from(error: SetupError) -> Self {
        let hint = match &error {
            SetupError::Record { .. } => "`ostler doctor` tells what is wrong with ostler's home",
            SetupError::Busy => "wait for it to end, then try again",
        };
        Self::Refused { what: error.to_string(), hint: hint.to_owned() }
    }
}
