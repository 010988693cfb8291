//! `ostler hooks`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use flows::hooks::{self, Action, HooksError, Request};
use model::wire::{FileChange, HookAgent, HookProblem, HookScope, HookState, HooksResult};

use crate::cli::Context;
use crate::env;
use crate::error::{self, Error};
use crate::render::colour::{Colour, Paint};
use crate::render::table::{Cell, Column, Give, draw};
use crate::render::{output, text};

/// Let agents report turns and ends to ostler at once, or stop them from doing so.
///
/// A hook costs an agent a few milliseconds, prints nothing and never fails. Agents' settings
/// keep every comment, blank and line of others; a file that cannot be parsed is not touched.
#[derive(Debug, Args)]
pub(crate) struct Hooks {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Put the hooks into the settings of every agent that was ever run here, or of those named.
    Install(Change),
    /// Take the hooks out again; a file that nobody else has changed gets its old bytes back.
    Uninstall(Change),
    /// Say how far the hooks are: installed, not-trusted, outdated, foreign-edited, not-installed.
    Status(Which),
}

#[derive(Debug, Args)]
struct Which {
    /// The agents, as `ostler adapters` names them.
    agents: Vec<String>,
    /// For all of your work, or for the project in this directory.
    #[arg(long, value_enum, default_value = "user")]
    scope: Scope,
}

#[derive(Debug, Args)]
struct Change {
    #[command(flatten)]
    which: Which,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scope {
    User,
    Project,
}

const COLUMNS: [Column; 4] = [
    Column { head: "AGENT", give: Give::Rigid, right: false },
    Column { head: "HOOKS", give: Give::Rigid, right: false },
    Column { head: "CHANGE", give: Give::Rigid, right: false },
    Column { head: "FILE", give: Give::Cut(20), right: false },
];

impl Hooks {
    /// The name in the envelope.
    pub(crate) fn name(&self) -> &'static str {
        match self.what {
            What::Install(_) => "hooks install",
            What::Uninstall(_) => "hooks uninstall",
            What::Status(_) => "hooks status",
        }
    }

    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let (which, action, dry_run) = match &self.what {
            What::Install(change) => (&change.which, Some(Action::Install), change.dry_run),
            What::Uninstall(change) => (&change.which, Some(Action::Uninstall), change.dry_run),
            What::Status(which) => (which, None, false),
        };
        let here = std::env::current_dir()?;
        let program = program()?;
        let home = context.dirs().ok().map(|dirs| dirs.home);
        let request = Request {
            env: flows::Env::new(&env::lookup),
            program: &program,
            project: (which.scope == Scope::Project).then_some(here.as_path()),
            home: home.as_deref(),
        };
        let chosen = which.chosen(&request, action)?;
        let mut agents = Vec::new();
        let mut worst = None;
        for agent in &chosen {
            let outcome = match action {
                Some(action) => hooks::change(agent, &request, action, dry_run),
                None => hooks::status(agent, &request),
            };
            match outcome {
                Ok(view) => agents.push(view),
                // One agent that was asked for by name is the whole answer.
                Err(error) if chosen.len() == 1 => return Err(error.into()),
                Err(HooksError::NoProject(_)) if which.agents.is_empty() => {}
                Err(error) => {
                    let error = Error::from(error);
                    agents.push(failed(agent, &request, &error));
                    worst = worst.or(Some(error.exit_code()));
                }
            }
        }
        let scope = match which.scope {
            Scope::User => HookScope::User,
            Scope::Project => HookScope::Project,
        };
        if context.json {
            context.answer(HooksResult { scope, dry_run, agents })?;
        } else {
            show(&agents, action, dry_run)?;
        }
        Ok(worst.unwrap_or(ExitCode::SUCCESS))
    }
}

impl Which {
    /// The agents that were named, or those that matter here.
    fn chosen(&self, request: &Request<'_>, action: Option<Action>) -> Result<Vec<String>, Error> {
        if let Some(unknown) =
            self.agents.iter().find(|one| !hooks::supported().any(|id| id == *one))
        {
            return Err(Error::usage(
                format!("`{unknown}` is no agent with hooks that ostler knows"),
                format!("there are: {}", hooks::supported().collect::<Vec<_>>().join(", ")),
            ));
        }
        let mut chosen = self.agents.clone();
        if chosen.is_empty() {
            let matters =
                |id: &&str| action != Some(Action::Install) || hooks::is_present(id, &request.env);
            chosen.extend(hooks::supported().filter(matters).map(str::to_owned));
        }
        let mut seen = std::collections::BTreeSet::new();
        chosen.retain(|agent| seen.insert(agent.clone()));
        if chosen.is_empty() {
            return Err(Error::usage(
                "no agent with hooks was ever run here",
                "name the agents, e.g. `ostler hooks install claude-code`",
            ));
        }
        Ok(chosen)
    }
}

/// This ostler, by a name that outlives an update: the one in `PATH` if it leads here.
pub(crate) fn program() -> Result<PathBuf, Error> {
    let this = std::env::current_exe()?;
    let real = this.canonicalize()?;
    let path = env::lookup("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("ostler"))
        .find(|candidate| candidate.canonicalize().is_ok_and(|candidate| candidate == real));
    Ok(found.unwrap_or(real))
}

fn failed(agent: &str, request: &Request<'_>, error: &Error) -> HookAgent {
    let body = error.body();
    let agent = hooks::supported().find(|id| *id == agent).unwrap_or_default();
    HookAgent {
        agent,
        present: hooks::is_present(agent, &request.env),
        state: None,
        files: Vec::new(),
        notes: Vec::new(),
        problem: Some(HookProblem { code: body.code, message: body.message, hint: body.hint }),
    }
}

fn show(agents: &[HookAgent], action: Option<Action>, dry_run: bool) -> Result<(), Error> {
    if dry_run {
        let files = agents.iter().flat_map(|agent| &agent.files);
        let diffs: String = files.filter_map(|file| file.diff.as_deref()).collect();
        output::text(&text::many_lines(&diffs))?;
    } else {
        let rows: Vec<Vec<Cell>> = agents.iter().flat_map(|agent| rows(agent, action)).collect();
        output::text(&draw(&COLUMNS, &rows, output::columns(), Paint::for_stdout()))?;
    }
    for agent in agents {
        for note in agent.notes.iter().filter(|_| action != Some(Action::Uninstall)) {
            output::talk(&text::one_line(&format!("{}: {note}", agent.agent)));
        }
        if let Some(problem) = &agent.problem {
            output::talk(&text::one_line(&format!("error: {}: {}", agent.agent, problem.message)));
            if let Some(hint) = &problem.hint {
                output::talk(&text::one_line(&format!("hint: {hint}")));
            }
        }
    }
    Ok(())
}

fn rows(agent: &HookAgent, action: Option<Action>) -> Vec<Vec<Cell>> {
    let state = agent.state.map_or("failed", HookState::word);
    let colour = match agent.state {
        Some(HookState::Installed) => Some(Colour::Green),
        Some(HookState::NotInstalled) => Some(Colour::Dim),
        _ => Some(Colour::Yellow),
    };
    let row = |first: bool, change: &str, path: &str| {
        let only_first = |text: &str| if first { text.to_owned() } else { String::new() };
        vec![
            (only_first(agent.agent), (!agent.present).then_some(Colour::Dim)),
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
