//! Installs ostler's hooks into agents' settings, takes them out again, and says how far they are.
//!
//! The files belong to others. They are changed by insertions and removals, never written anew; what
//! cannot be parsed is refused; a change that somebody else makes meanwhile is seen and taken into
//! account; and removing the hooks from a file that nobody else has changed gives back its bytes.

mod command;
mod files;
mod json;
mod script;
mod toml;
mod trust;

use std::path::{Path, PathBuf};

use adapters::Adapter;
use adapters::hooks::{Hooks, Meaning, Shape};
pub use model::edit::Wrong;
use model::event::Happening;
pub use model::wire::HookState as State;
use model::wire::{FileChange, HookAgent, HookFile};

use command::Ours;
use files::{Plan, Seen, backup_at_home, backup_beside, resolve_beneath};

/// How long an agent may wait for a hook, in seconds. The hook takes milliseconds; this is for a
/// machine that stands still. Ends are short: agents give all of their hooks little time.
const SECONDS: u32 = 5;
const SECONDS_AT_THE_END: u32 = 1;

/// How often a change is tried again after somebody else was quicker.
const ATTEMPTS: usize = 5;

/// Where, and which ostler.
#[derive(Debug)]
pub struct Request<'a> {
    /// The environment that says where agents keep their settings.
    pub env: adapters::Env<'a>,
    /// The ostler that agents are to run.
    pub program: &'a Path,
    /// The project, or `None` for all of the user's work.
    pub project: Option<&'a Path>,
    /// ostler's home, where a project's settings are kept as they were. Only a project needs it.
    pub home: Option<&'a Path>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put the hooks in.
    Install,
    /// Take them out.
    Uninstall,
}

/// Why an agent's hooks are left as they are.
#[derive(Debug, thiserror::Error)]
pub enum HooksError {
    /// Nothing is known about hooks of this agent.
    #[error("`{0}` has no hooks that ostler could use")]
    NoHooks(String),
    /// The agent has none for a project.
    #[error("`{0}` has no hooks for a project")]
    NoProject(&'static str),
    /// No home, no settings.
    #[error("it is not known where `{0}` keeps its settings: `HOME` is not set")]
    NoHome(&'static str),
    /// A link in the project leads out of it.
    #[error("{} leads out of the project, to {}", path.display(), target.display())]
    LeavesProject {
        /// The settings file.
        path: PathBuf,
        /// Where it, or a directory above it, really is.
        target: PathBuf,
    },
    /// The path of the program cannot be written down.
    #[error("the path of ostler is not valid text: {}", .0.display())]
    Program(PathBuf),
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file's content is not what it should be.
    #[error("{} was left as it is: {wrong}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What and where.
        wrong: Wrong,
    },
    /// Somebody else changes the file again and again.
    #[error("{} is being changed by somebody else", .0.display())]
    Busy(PathBuf),
}

/// The agents whose hooks are known.
pub fn supported() -> impl Iterator<Item = &'static str> {
    adapters::ALL.iter().map(|one| one.about()).filter(|one| one.hooks.is_some()).map(|one| one.id)
}

/// Whether the agent was ever run here.
pub fn is_present(agent: &str, env: &adapters::Env<'_>) -> bool {
    adapters::by_id(agent).is_some_and(|one| one.roots(env).iter().any(|root| root.exists()))
}

/// How far the hooks of an agent are.
pub fn status(agent: &str, request: &Request<'_>) -> Result<HookAgent, HooksError> {
    let (adapter, hooks) = known(agent)?;
    let wiring = Wiring::of(adapter, hooks, request)?;
    let mut files = Vec::new();
    for part in parts(adapter, hooks, request)? {
        let seen = part.read()?;
        let backup = seen.has_backup().then(|| seen.backup_path());
        files.push(file_view(&part.path, FileChange::Unchanged, backup, None));
    }
    let (state, notes) = overall(adapter, hooks, &wiring, request)?;
    let id = adapter.about().id;
    let present = is_present(id, &request.env);
    Ok(HookAgent { agent: id, present, state: Some(state), files, notes, problem: None })
}

/// Installs or uninstalls the hooks of an agent; a dry run only says what would change.
pub fn change(
    agent: &str,
    request: &Request<'_>,
    action: Action,
    dry_run: bool,
) -> Result<HookAgent, HooksError> {
    let (adapter, hooks) = known(agent)?;
    let wiring = Wiring::of(adapter, hooks, request)?;
    let parts = parts(adapter, hooks, request)?;
    let plan = |part: &Part| part.plan(&wiring, action);
    // All or nothing, as far as that can be known beforehand.
    let mut plans = parts.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
    if !dry_run {
        for (part, plan) in parts.iter().zip(&mut plans) {
            let mut attempts = 0;
            while let Err(error) = plan.apply(boundary(request).as_deref()) {
                attempts += 1;
                if !matches!(error, HooksError::Busy(_)) || attempts == ATTEMPTS {
                    return Err(error);
                }
                *plan = part.plan(&wiring, action)?;
            }
        }
    }
    let view = |plan: &Plan| {
        let backup = plan.backup_afterwards().then(|| plan.seen.backup_path());
        file_view(&plan.seen.path, plan.change(), backup, dry_run.then(|| plan.diff()))
    };
    let files = plans.iter().map(view).collect();
    let (state, notes) = overall(adapter, hooks, &wiring, request)?;
    let id = adapter.about().id;
    let present = is_present(id, &request.env);
    Ok(HookAgent { agent: id, present, state: Some(state), files, notes, problem: None })
}

fn file_view(
    path: &Path,
    change: FileChange,
    backup: Option<PathBuf>,
    diff: Option<String>,
) -> HookFile {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let diff = diff.filter(|diff| !diff.is_empty());
    HookFile { path: text(path), change, backup: backup.as_deref().map(text), diff }
}

fn known(agent: &str) -> Result<(&'static dyn Adapter, &'static Hooks), HooksError> {
    let none = || HooksError::NoHooks(agent.to_owned());
    let adapter = adapters::by_id(agent).ok_or_else(none)?;
    Ok((adapter, adapter.about().hooks.ok_or_else(none)?))
}

/// One hook to be written.
#[derive(Debug)]
struct Entry {
    event: &'static str,
    command: String,
    seconds: u32,
}

/// What is to be written for an agent.
#[derive(Debug)]
struct Wiring<'a> {
    agent: &'static str,
    program: &'a str,
    shape: Shape,
    entries: Vec<Entry>,
}

impl<'a> Wiring<'a> {
    fn of(adapter: &dyn Adapter, hooks: &Hooks, request: &Request<'a>) -> Result<Self, HooksError> {
        let agent = adapter.about().id;
        let program = request.program.to_str();
        let program = program.ok_or_else(|| HooksError::Program(request.program.to_owned()))?;
        let entry = |(event, meaning): (&'static str, Meaning)| {
            let ends = meaning == Meaning::Is(Happening::SessionEnd);
            let seconds = if ends { SECONDS_AT_THE_END } else { SECONDS };
            Entry { event, command: command::line(program, agent, event), seconds }
        };
        let entries = hooks.wired().map(entry).collect();
        Ok(Self { agent, program, shape: hooks.wiring.shape, entries })
    }
}

/// One file and what ostler has in it.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    backup: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Hooks,
    Notify { event: &'static str },
}

fn parts(
    adapter: &dyn Adapter,
    hooks: &Hooks,
    request: &Request<'_>,
) -> Result<Vec<Part>, HooksError> {
    let id = adapter.about().id;
    if let Some(project) = request.project {
        let path = hooks.wiring.project.ok_or(HooksError::NoProject(id))?(project);
        let path = resolve_beneath(project, &path)?;
        let backup = backup_at_home(request.home.ok_or(HooksError::NoHome(id))?, &path);
        return Ok(vec![Part { path, backup, kind: Kind::Hooks }]);
    }
    let no_home = || HooksError::NoHome(id);
    let path = (hooks.wiring.user)(&request.env).ok_or_else(no_home)?;
    let backup = backup_beside(&path);
    let mut parts = vec![Part { path, backup, kind: Kind::Hooks }];
    if let Some(notify) = &hooks.wiring.notify {
        let path = (notify.user)(&request.env).ok_or_else(no_home)?;
        let backup = backup_beside(&path);
        parts.push(Part { path, backup, kind: Kind::Notify { event: notify.event } });
    }
    Ok(parts)
}

impl Part {
    fn read(&self) -> Result<Seen, HooksError> {
        Seen::read(&self.path, self.backup.clone())
    }

    fn wrong(&self, wrong: Wrong) -> HooksError {
        HooksError::Wrong { path: self.path.clone(), wrong }
    }

    /// How far a text is; `None` if what is there is somebody else's and stays.
    fn state(&self, wiring: &Wiring<'_>, text: &str) -> Result<Option<State>, Wrong> {
        match (self.kind, wiring.shape) {
            (Kind::Notify { .. }, _) => toml::notify_state(wiring, text),
            (Kind::Hooks, Shape::Tables) => toml::state(wiring, text).map(Some),
            (Kind::Hooks, Shape::Script { template }) => {
                Ok(Some(script::state(wiring, template, text)))
            }
            (Kind::Hooks, _) => json::state(wiring, text).map(Some),
        }
    }

    /// A text without ostler's hooks together with them.
    fn with(&self, wiring: &Wiring<'_>, text: &str) -> Result<String, Wrong> {
        match (self.kind, wiring.shape) {
            (Kind::Notify { event }, _) => toml::with_notify(wiring, event, text),
            (Kind::Hooks, Shape::Tables) => toml::with(wiring, text),
            (Kind::Hooks, Shape::Script { template }) => script::with(wiring, template, text),
            (Kind::Hooks, _) => json::with(wiring, text),
        }
    }

    fn without(
        &self,
        wiring: &Wiring<'_>,
        text: &str,
        original: Option<&str>,
    ) -> Result<String, Wrong> {
        match (self.kind, wiring.shape) {
            (Kind::Notify { .. }, _) => toml::without_notify(wiring, text),
            (Kind::Hooks, Shape::Tables) => toml::without(wiring, text),
            (Kind::Hooks, Shape::Script { .. }) => Ok(String::new()),
            (Kind::Hooks, _) => json::without(wiring, text, original),
        }
    }

    /// What is to happen to the file.
    fn plan(&self, wiring: &Wiring<'_>, action: Action) -> Result<Plan, HooksError> {
        let seen = self.read()?;
        let text = seen.text()?;
        let state = self.state(wiring, text).map_err(|wrong| self.wrong(wrong))?;
        let Some(state) = state else { return Ok(Plan::nothing(seen)) };
        let (plan, wanted) = match action {
            Action::Install => (self.plan_install(wiring, seen, state), State::Installed),
            Action::Uninstall => (self.plan_uninstall(wiring, seen, state), State::NotInstalled),
        };
        let plan = plan.map_err(|wrong| self.wrong(wrong))?;
        // What would not do what it is for is not written.
        let after = self.state(wiring, plan.text_afterwards());
        if after.map_err(|wrong| self.wrong(wrong))? != Some(wanted) {
            let reason = "its layout is one that ostler cannot change without breaking it";
            return Err(self.wrong(Wrong::shape(reason)));
        }
        Ok(plan)
    }

    fn plan_install(&self, wiring: &Wiring<'_>, seen: Seen, state: State) -> Result<Plan, Wrong> {
        let text = seen.text_or_empty();
        match state {
            State::Installed => Ok(Plan::nothing(seen)),
            State::NotInstalled => {
                let after = self.with(wiring, text)?;
                Ok(Plan::write(seen, after).keeping_original())
            }
            _ => {
                let original = seen.original();
                let bare = self.without(wiring, text, original.as_deref())?;
                // Whoever has edited a file of ostler's alone gets to keep it.
                let keep =
                    matches!(wiring.shape, Shape::Script { .. }) && state == State::ForeignEdited;
                let plan = Plan::write(seen, self.with(wiring, &bare)?);
                Ok(if keep { plan.keeping_original() } else { plan })
            }
        }
    }

    fn plan_uninstall(&self, wiring: &Wiring<'_>, seen: Seen, state: State) -> Result<Plan, Wrong> {
        if state == State::NotInstalled {
            return Ok(Plan::nothing(seen));
        }
        let text = seen.text_or_empty();
        let original = seen.original();
        let made_of = |text: &str| self.with(wiring, text).ok();
        if let Some(original) = &original
            && made_of(original).as_deref() == Some(text)
        {
            let original = original.clone();
            return Ok(Plan::write(seen, original).dropping_original());
        }
        if made_of("").as_deref() == Some(text) {
            return Ok(Plan::remove(seen));
        }
        if matches!(wiring.shape, Shape::Script { .. }) && matches!(self.kind, Kind::Hooks) {
            let edited = state == State::ForeignEdited;
            let plan = Plan::remove(seen);
            return Ok(if edited { plan.keeping_original() } else { plan });
        }
        let after = self.without(wiring, text, original.as_deref())?;
        let blank = match wiring.shape {
            Shape::Tables => after.trim().is_empty(),
            _ => json::is_blank(&after),
        };
        let nothing_before = original.is_none() && blank && matches!(self.kind, Kind::Hooks);
        Ok(if nothing_before { Plan::remove(seen) } else { Plan::write(seen, after) })
    }
}

/// The state of all the files of an agent, and what a person should know about it.
fn overall(
    adapter: &dyn Adapter,
    hooks: &Hooks,
    wiring: &Wiring<'_>,
    request: &Request<'_>,
) -> Result<(State, Vec<String>), HooksError> {
    let mut notes = Vec::new();
    let mut state = State::NotInstalled;
    let mut here = String::new();
    for part in parts(adapter, hooks, request)? {
        let seen = part.read()?;
        let text = seen.text()?.to_owned();
        let found = part.state(wiring, &text).map_err(|wrong| part.wrong(wrong))?;
        match (part.kind, found) {
            (Kind::Hooks, found) => {
                state = found.unwrap_or(State::NotInstalled);
                here = text;
            }
            (Kind::Notify { .. }, None) => {
                notes.push("`notify` names another program, which was left in place".to_owned());
            }
            (Kind::Notify { .. }, Some(State::NotInstalled)) => {}
            (Kind::Notify { .. }, Some(found)) => {
                state = if state == State::Installed { found } else { state };
            }
        }
    }
    if state == State::Installed && !trust::is_given(hooks, wiring, request, &here) {
        state = State::NotTrusted;
        notes.push(
            "the agent runs these hooks only after you have reviewed them: type `/hooks` in it; \
             until then only the end of each turn is reported, through `notify`"
                .to_owned(),
        );
    }
    Ok((state, notes))
}

/// What the commands that were found mean together.
fn judge<'o>(found: impl Iterator<Item = &'o Ours>, program: &str, as_expected: bool) -> State {
    let found: Vec<&Ours> = found.collect();
    let other = |ours: &&Ours| {
        ours.program != program || ours.version.is_some_and(|one| one != command::VERSION)
    };
    if found.is_empty() {
        State::NotInstalled
    } else if found.iter().any(other) {
        State::Outdated
    } else if as_expected {
        State::Installed
    } else {
        State::ForeignEdited
    }
}

/// Directories from here up are never removed.
fn boundary(request: &Request<'_>) -> Option<PathBuf> {
    request.project.map(Path::to_owned).or_else(|| request.env.home())
}
