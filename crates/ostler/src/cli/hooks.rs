//! `ostler hooks`

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use flows::hooks::{self, HookAction, HooksError, HooksRequest};
use flows::work::carry_out_work;
use flows::writer::{Work, WorkDone};
use model::plan::Refusal;
use model::wire::{FileChange, HookAgent, HookProblem, HookScope, HookState, HooksResult};
use sys::machine::Machine;

use crate::cli::CliContext;
use crate::env;
use crate::error::{self, Error};
use crate::render::colour::{Colour, Painter};
use crate::render::table::{ColumnGive, TableCell, TableColumn, render_table};
use crate::render::{output, text};

declare_commands![
    CommandEntry {
        place: HelpPlace(SetUp, 1),
        usual_member: "status",
        ..entry!("hooks", HooksArgs, run_hooks)
    },
    CommandEntry {
        place: HelpPlace(SetUp, 1),
        effect: WritesFiles,
        answers: &[answer::<wire::HooksResult>()],
        examples: &[
            example("hooks install --dry-run", "What would change in the settings of which agent."),
            example("hooks install claude-code", "Let one agent report.")
        ],
        cases: &[
            empty("hooks install --dry-run"),
            usual("hooks install claude-code --dry-run").harmless(),
            refused("hooks install clod"),
            also("hooks install --dry-run").harmless(),
            also("hooks install --dry-run --scope project").harmless()
        ],
        uncased: &[ONE_FILE],
        ..entry!("hooks install")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 2),
        effect: WritesFiles,
        answers: &[answer::<wire::HooksResult>()],
        examples: &[example("hooks uninstall", "Take them all out again.")],
        cases: &[
            empty("hooks uninstall"),
            usual("hooks uninstall claude-code").harmless(),
            refused("hooks uninstall clod"),
            also("hooks uninstall").harmless()
        ],
        uncased: &[ONE_FILE],
        ..entry!("hooks uninstall")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 3),
        answers: &[answer::<wire::HooksResult>()],
        examples: &[example("hooks status", "How far the hooks are, agent by agent.")],
        cases: &[
            empty("hooks status"),
            usual("hooks status claude-code"),
            refused("hooks status clod"),
            also("hooks status")
        ],
        uncased: &[ONE_FILE],
        ..entry!("hooks status")
    }
];

/// Let agents report turns and ends to ostler at once, or stop them from doing so.
///
/// A hook costs an agent a few milliseconds, prints nothing and never fails. Agents' settings
/// keep every comment, blank and line of others; a file that cannot be parsed is not touched.
#[derive(Debug, Args)]
pub(crate) struct HooksArgs {
    #[command(subcommand)]
    what: HooksCommand,
}

#[derive(Debug, Subcommand)]
enum HooksCommand {
    /// Put the hooks into the settings of every agent that was ever run here, or of those named.
    Install(HookChangeArgs),
    /// Take the hooks out again; a file that nobody else has changed gets its old bytes back.
    Uninstall(HookChangeArgs),
    /// Say how far the hooks are: installed, not-trusted, outdated, foreign-edited, not-installed.
    Status(HookSelectionArgs),
}

#[derive(Debug, Args)]
struct HookSelectionArgs {
    /// The agents, as `ostler adapters` names them.
    #[arg(add = crate::cli::complete::hooked_agents())]
    agents: Vec<String>,
    /// For all of your work, or for the project in this directory.
    #[arg(long, value_enum, default_value = "user")]
    scope: HookScopeArg,
}

#[derive(Debug, Args)]
struct HookChangeArgs {
    #[command(flatten)]
    which: HookSelectionArgs,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HookScopeArg {
    User,
    Project,
}

const HOOK_COLUMNS: [TableColumn; 4] = [
    TableColumn { head: "AGENT", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "HOOKS", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "CHANGE", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "FILE", give: ColumnGive::Cut(20), right: false },
];

impl HooksArgs {
    pub(crate) fn run_hooks(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let (which, action, dry_run) = match &self.what {
            HooksCommand::Install(change) => {
                (&change.which, Some(HookAction::Install), change.dry_run)
            }
            HooksCommand::Uninstall(change) => {
                (&change.which, Some(HookAction::Uninstall), change.dry_run)
            }
            HooksCommand::Status(which) => (which, None, false),
        };
        let here = std::env::current_dir()?;
        let program = match action {
            Some(HookAction::Install) => lasting_program_path()?,
            _ => stable_program_path()?,
        };
        let machine = context.machine()?;
        let remove = settings_remover(machine);
        let request = HooksRequest {
            machine,
            program: &program,
            project: (which.scope == HookScopeArg::Project).then_some(here.as_path()),
        };
        let chosen = which.chosen_agents(&request, action)?;
        let mut agents = Vec::new();
        let mut worst = None;
        for agent in &chosen {
            let outcome = match action {
                Some(action) => hooks::change_hooks(agent, &request, action, dry_run, &remove),
                None => hooks::hooks_status(agent, &request),
            };
            match outcome {
                Ok(view) => agents.push(view),
                // One agent that was asked for by name is the whole answer.
                Err(error) if chosen.len() == 1 => return Err(error.into()),
                Err(HooksError::NoProject(_)) if which.agents.is_empty() => {}
                Err(error) => {
                    let error = Error::from(error);
                    agents.push(failed_agent(agent, machine, &error));
                    // To look, a file that cannot be understood is a gap in the answer.
                    let code = match action {
                        Some(_) => error.exit_code(),
                        None => error::exit_code_of("INCOMPLETE"),
                    };
                    worst = worst.or(Some(code));
                }
            }
        }
        let scope = match which.scope {
            HookScopeArg::User => HookScope::User,
            HookScopeArg::Project => HookScope::Project,
        };
        if context.json {
            context.print_json(HooksResult { scope, dry_run, agents })?;
        } else {
            print_agents(&agents, action, dry_run)?;
        }
        Ok(worst.unwrap_or(ExitCode::SUCCESS))
    }
}

impl HookSelectionArgs {
    /// The agents that were named, or those that matter here.
    fn chosen_agents(
        &self,
        request: &HooksRequest<'_>,
        action: Option<HookAction>,
    ) -> Result<Vec<String>, Error> {
        let asked = self.agents.iter().map(|one| match flows::agent_named(one) {
            Some(id) if hooks::supported_agents().any(|supported| supported == id) => {
                Ok(id.to_owned())
            }
            _ => Err(Error::usage_error(
                format!("`{one}` is no agent with hooks that ostler knows"),
                format!("there are: {}", hooks::supported_agents().collect::<Vec<_>>().join(", ")),
            )),
        });
        let mut chosen = asked.collect::<Result<Vec<String>, _>>()?;
        if chosen.is_empty() {
            let matters = |id: &&str| {
                action != Some(HookAction::Install) || hooks::is_present(id, request.machine)
            };
            chosen.extend(hooks::supported_agents().filter(matters).map(str::to_owned));
        }
        let mut seen = std::collections::BTreeSet::new();
        chosen.retain(|agent| seen.insert(agent.clone()));
        if chosen.is_empty() {
            return Err(Error::usage_error(
                "no agent with hooks was ever run here",
                "name the agents, e.g. `ostler hooks install claude-code`",
            ));
        }
        Ok(chosen)
    }
}

/// This ostler, by a name that outlives an update: the one in `PATH` if it leads here.
pub(crate) fn stable_program_path() -> Result<PathBuf, Error> {
    let this = std::env::current_exe()?;
    let real = this.canonicalize()?;
    let path = env::lookup_variable("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("ostler"))
        .find(|candidate| candidate.canonicalize().is_ok_and(|candidate| candidate == real));
    Ok(found.unwrap_or(real))
}

/// The same for what others start later, from their settings and units. A program that is kept in a cache would
/// be gone after it is cleaned, and everything would be silent.
pub(crate) fn lasting_program_path() -> Result<PathBuf, Error> {
    let program = stable_program_path()?;
    let real = program.canonicalize()?;
    let Some(remedy) = [&program, &real].into_iter().find_map(|path| find_runner_cache(path))
    else {
        return Ok(program);
    };
    Err(Error::Refused {
        what: format!("{} is a copy in a cache, which is cleaned some day", program.display()),
        hint: format!("install it first, say with `{remedy}`, then try again"),
    })
}

/// How a program is installed to stay that `uvx`, `npx` and their like, which install nothing, keep in a cache.
fn find_runner_cache(program: &Path) -> Option<&'static str> {
    let names: Vec<&str> = program.iter().filter_map(|name| name.to_str()).collect();
    let has_numbered = |start: &str| {
        let numbers = names.iter().filter_map(|name| name.strip_prefix(start));
        numbers.into_iter().any(|number| number.starts_with(|c: char| c.is_ascii_digit()))
    };
    if has_numbered("archive-v") || has_numbered("environments-v") {
        Some("uv tool install ostler")
    } else if names.contains(&"_npx") {
        Some("npm install -g ostler")
    } else if names.contains(&"dlx") || has_numbered("dlx-") {
        Some("pnpm add -g ostler")
    } else if has_numbered("bunx-") {
        Some("bun add -g ostler")
    } else if names.windows(2).any(|pair| pair == [".cache", "pipx"]) {
        Some("pipx install ostler")
    } else {
        None
    }
}

/// Has the reaper take files that ostler alone has written, wherever the writer is.
pub(crate) fn settings_remover(machine: &Machine) -> impl Fn(&Path, &[u8]) -> io::Result<()> + '_ {
    move |path, before| {
        let content_hash = sys::hash::sha256(before);
        let work = Work::TrashSettings { path: path.to_owned(), content_hash };
        let done = carry_out_work(&work, machine, &mut |_, _| {});
        match done.map_err(io::Error::other)? {
            (WorkDone::TrashSettings(None), _) => Ok(()),
            (WorkDone::TrashSettings(Some(Refusal::Changed)), _) => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            (WorkDone::TrashSettings(Some(refusal)), _) => {
                Err(io::Error::other(refusal.reason_text()))
            }
            _ => Err(io::Error::other("an unexpected answer")),
        }
    }
}

/// An agent whose hooks were left as they are, and why.
pub(crate) fn failed_agent(agent: &str, machine: &Machine, error: &Error) -> HookAgent {
    let body = error.to_body();
    HookAgent {
        agent: agent.to_owned(),
        present: hooks::is_present(agent, machine),
        state: None,
        files: Vec::new(),
        notes: Vec::new(),
        problem: Some(HookProblem { code: body.code, message: body.message, hint: body.hint }),
    }
}

fn print_agents(
    agents: &[HookAgent],
    action: Option<HookAction>,
    dry_run: bool,
) -> Result<(), Error> {
    if dry_run {
        let files = agents.iter().flat_map(|agent| &agent.files);
        let diffs: String = files.filter_map(|file| file.diff.as_deref()).collect();
        output::print_text(&text::many_lines(&diffs))?;
    } else {
        let rows: Vec<Vec<TableCell>> =
            agents.iter().flat_map(|agent| agent_rows(agent, action)).collect();
        output::print_text(&render_table(
            &HOOK_COLUMNS,
            &rows,
            output::output_columns(),
            Painter::for_stdout(),
        ))?;
    }
    for agent in agents {
        for note in agent.notes.iter().filter(|_| action != Some(HookAction::Uninstall)) {
            output::print_notice(&text::one_line(&format!("{}: {note}", agent.agent)));
        }
        if let Some(problem) = &agent.problem {
            output::print_notice(&text::one_line(&format!(
                "error: {}: {}",
                agent.agent, problem.message
            )));
            if let Some(hint) = &problem.hint {
                output::print_notice(&text::one_line(&format!("hint: {hint}")));
            }
        }
    }
    Ok(())
}

fn agent_rows(agent: &HookAgent, action: Option<HookAction>) -> Vec<Vec<TableCell>> {
    let state = agent.state.map_or("failed", HookState::as_str);
    let colour = match agent.state {
        Some(HookState::Installed) => Some(Colour::Green),
        Some(HookState::NotInstalled) => Some(Colour::Dim),
        _ => Some(Colour::Yellow),
    };
    let row = |first: bool, change: &str, path: &str| {
        let only_first = |text: &str| if first { text.to_owned() } else { String::new() };
        vec![
            (only_first(&text::one_line(&agent.agent)), (!agent.present).then_some(Colour::Dim)),
            (only_first(state), colour),
            (change.to_owned(), None),
            (text::one_line(path), Some(Colour::Dim)),
        ]
    };
    if agent.files.is_empty() {
        return vec![row(true, "-", "")];
    }
    let files = agent.files.iter().enumerate();
    let line = |(index, file): (usize, &model::wire::HookFile)| {
        let change = match file.change {
            _ if action.is_none() => "-",
            FileChange::Unchanged => "-",
            FileChange::Created => "created",
            FileChange::Changed => "changed",
            FileChange::Removed => "removed",
        };
        row(index == 0, change, &file.path)
    };
    files.map(line).collect()
}

impl From<HooksError> for Error {
    fn from(error: HooksError) -> Self {
        error::Error::Hooks(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d7_what_lies_in_the_cache_of_a_runner_is_told() {
        for (program, remedy) in [
            ("/h/.cache/uv/archive-v0/x1/bin/ostler", "uv tool install ostler"),
            ("/h/.cache/uv/environments-v2/x1/bin/ostler", "uv tool install ostler"),
            ("/h/.npm/_npx/ab/node_modules/@ostler/linux-x64/bin/ostler", "npm install -g ostler"),
            ("/h/.cache/pnpm/dlx/ab/node_modules/ostler", "pnpm add -g ostler"),
            ("/h/.cache/pnpm/dlx-7/ostler", "pnpm add -g ostler"),
            ("/tmp/bunx-1000-ostler@latest/ostler", "bun add -g ostler"),
            ("/h/.cache/pipx/ab/bin/ostler", "pipx install ostler"),
        ] {
            assert_eq!(find_runner_cache(Path::new(program)), Some(remedy), "{program}");
        }
        for program in [
            "/h/.local/share/uv/tools/ostler/bin/ostler",
            "/h/.local/bin/ostler",
            "/h/archive-vault/ostler",
            "/h/archive-v/old/ostler",
            "/h/dlxx/ostler",
            "/usr/lib/node_modules/@ostler/linux-x64/bin/ostler",
            "/h/.local/pipx/venvs/ostler/bin/ostler",
        ] {
            assert_eq!(find_runner_cache(Path::new(program)), None, "{program}");
        }
    }
}
