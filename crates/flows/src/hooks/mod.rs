//! Installs ostler's hooks into agents' settings, takes them out again, and says how far they are.
//!
//! The files belong to others. They are changed by insertions and removals, never written anew; what
//! cannot be parsed is refused; a change that another process makes meanwhile is seen and taken into
//! account; and removing the hooks from a file without other changes gives back its bytes.

mod command;
mod files;
mod json;
mod made;
mod rewrite;
mod script;
mod toml;
mod trust;

pub(crate) use command::quote_word;

use std::path::{Path, PathBuf};

use adapters::Adapter;
use adapters::control::PermissionChannel;
use adapters::hooks::{AgentHooks, HookFileShape, HookMeaning};
pub use model::edit::EditError;
use model::event::HookHappening;
pub use model::wire::HookState as State;
use model::wire::{FileChange, HookAgent, HookFile};
use sys::machine::Machine;

use command::OstlerCommand;
pub(crate) use files::remove_empty_directories;
pub use files::{RemoveSettings, trash_settings};
use files::{SettingsFile, SettingsPlan, backup_at_home, backup_beside, resolve_beneath};
use made::SettingsDirectories;
pub(crate) use rewrite::{
    RestoredFile, SettingsRewrite, hash_content, plan_rewrites, restore_settings,
};

/// How long an agent may wait for a hook, in seconds. The hook takes milliseconds; this is for a
/// machine that stands still. Ends are short: agents give all of their hooks little time.
const HOOK_TIMEOUT_SECONDS: u32 = 5;
const END_HOOK_TIMEOUT_SECONDS: u32 = 1;

/// How long a hook may take whose answer decides: it returns at once unless its process asks ostler.
const ASKING_HOOK_TIMEOUT_SECONDS: u32 = 3605;

/// How often a change is tried again after a concurrent change.
const MAX_CHANGE_ATTEMPTS: usize = 5;

/// Where, and which ostler.
#[derive(Debug)]
pub struct HooksRequest<'a> {
    /// Where agents keep their settings, and ostler what they were before.
    pub machine: &'a Machine,
    /// The ostler that agents are to run.
    pub program: &'a Path,
    /// The project, or `None` for all of the user's work.
    pub project: Option<&'a Path>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookAction {
    /// Put the hooks in.
    Install,
    /// Take them out.
    Uninstall,
}

/// Why an agent's hooks are left as they are.
#[derive(Debug, thiserror::Error)]
pub enum HooksError {
    /// A later ostler has set up an agent that this one does not know.
    #[error(
        "`{0}` was set up by a later ostler: this one does not know where its hooks are, and they stay"
    )]
    UnknownAgent(String),
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
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file's content is not what it should be.
    #[error("{} was left as it is: {wrong}", path.display())]
    Wrong {
        path: PathBuf,
        /// What and where.
        wrong: EditError,
    },
    /// Another process keeps changing the file.
    #[error("{} is being changed by somebody else", .0.display())]
    Busy(PathBuf),
}

/// The agents whose hooks are known.
pub fn supported_agents() -> impl Iterator<Item = &'static str> {
    adapters::ALL_ADAPTERS
        .iter()
        .map(|one| one.agent_profile())
        .filter(|one| one.hooks.is_some())
        .map(|one| one.id)
}

/// Whether the agent was ever run here.
pub fn is_present(agent: &str, machine: &Machine) -> bool {
    adapters::by_id(agent)
        .is_some_and(|one| one.session_roots(&machine.env()).iter().any(|root| root.exists()))
}

/// How far the hooks of an agent are.
pub fn hooks_status(agent: &str, request: &HooksRequest<'_>) -> Result<HookAgent, HooksError> {
    let (adapter, hooks) = find_hooks(agent)?;
    let wiring = Wiring::for_agent(adapter, hooks, request)?;
    let mut files = Vec::new();
    for part in settings_parts(adapter, hooks, request)? {
        let seen = part.read()?;
        let backup = seen.has_backup().then(|| seen.backup_path());
        files.push(file_view(&part.path, FileChange::Unchanged, backup, None));
    }
    let (state, notes) = overall_state(adapter, hooks, &wiring, request)?;
    let agent = adapter.agent_profile().id.to_owned();
    let present = is_present(&agent, request.machine);
    Ok(HookAgent { agent, present, state: Some(state), files, notes, problem: None })
}

/// Installs or uninstalls the hooks of an agent; a dry run only says what would change. A file that goes
/// is given to `remove`: the reaper takes it, wherever the writer is.
pub fn change_hooks(
    agent: &str,
    request: &HooksRequest<'_>,
    action: HookAction,
    dry_run: bool,
    remove: RemoveSettings<'_>,
) -> Result<HookAgent, HooksError> {
    change_hooks_keeping(agent, request, action, dry_run, remove, &[])
}

/// As [`change_hooks`]; these directories stay when nothing is left in them.
pub(crate) fn change_hooks_keeping(
    agent: &str,
    request: &HooksRequest<'_>,
    action: HookAction,
    dry_run: bool,
    remove: RemoveSettings<'_>,
    kept_directories: &[PathBuf],
) -> Result<HookAgent, HooksError> {
    let (adapter, hooks) = find_hooks(agent)?;
    let wiring = Wiring::for_agent(adapter, hooks, request)?;
    let parts = settings_parts(adapter, hooks, request)?;
    let plan = |part: &SettingsPart| part.plan_change(&wiring, action);
    // All or nothing, as far as that can be known beforehand.
    let mut plans = parts.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
    if !dry_run {
        let directories = SettingsDirectories {
            home: Some(request.machine.home()),
            boundary: request
                .project
                .map(Path::to_owned)
                .or_else(|| request.machine.env().home_dir()),
            kept: kept_directories,
        };
        for (part, plan) in parts.iter().zip(&mut plans) {
            let plan_anew = || part.plan_change(&wiring, action);
            apply_settings_plan(plan, &plan_anew, &directories, remove)?;
        }
    }
    let files = plans.iter().map(|plan| plan_view(plan, dry_run)).collect();
    let (state, notes) = overall_state(adapter, hooks, &wiring, request)?;
    let agent = adapter.agent_profile().id.to_owned();
    let present = is_present(&agent, request.machine);
    Ok(HookAgent { agent, present, state: Some(state), files, notes, problem: None })
}

/// Carries a plan out; it is made anew as long as another process changes the file meanwhile.
fn apply_settings_plan(
    plan: &mut SettingsPlan,
    plan_anew: &dyn Fn() -> Result<SettingsPlan, HooksError>,
    directories: &SettingsDirectories<'_>,
    remove: RemoveSettings<'_>,
) -> Result<(), HooksError> {
    let mut attempts = 0;
    while let Err(error) = plan.apply(directories, remove) {
        attempts += 1;
        if !matches!(error, HooksError::Busy(_)) || attempts == MAX_CHANGE_ATTEMPTS {
            plan.drop_new_backup(remove);
            return Err(error);
        }
        *plan = plan_anew()?;
    }
    Ok(())
}

fn plan_view(plan: &SettingsPlan, dry_run: bool) -> HookFile {
    let backup = plan.backup_afterwards().then(|| plan.seen.backup_path());
    file_view(&plan.seen.path, plan.file_change(), backup, dry_run.then(|| plan.render_diff()))
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

fn find_hooks(agent: &str) -> Result<(&'static dyn Adapter, &'static AgentHooks), HooksError> {
    let none = || HooksError::NoHooks(agent.to_owned());
    let adapter = adapters::by_id(agent).ok_or_else(none)?;
    Ok((adapter, adapter.agent_profile().hooks.ok_or_else(none)?))
}

/// One hook to be written.
#[derive(Debug)]
struct HookEntry {
    event: &'static str,
    command: String,
    seconds: u32,
}

/// What is to be written for an agent.
#[derive(Debug)]
struct Wiring<'a> {
    agent: &'static str,
    program: &'a str,
    shape: HookFileShape,
    entries: Vec<HookEntry>,
}

impl<'a> Wiring<'a> {
    fn for_agent(
        adapter: &dyn Adapter,
        hooks: &AgentHooks,
        request: &HooksRequest<'a>,
    ) -> Result<Self, HooksError> {
        let agent = adapter.agent_profile().id;
        let program = request.program.to_str();
        let program = program.ok_or_else(|| HooksError::Program(request.program.to_owned()))?;
        let channel = adapter.control_table().map(|control| control.permission_channel);
        let entry = |(event, meaning): (&'static str, HookMeaning)| {
            let seconds = match meaning {
                HookMeaning::Is(HookHappening::SessionEnd) => END_HOOK_TIMEOUT_SECONDS,
                HookMeaning::Is(HookHappening::Waiting)
                    if channel == Some(PermissionChannel::TrustedHook) =>
                {
                    ASKING_HOOK_TIMEOUT_SECONDS
                }
                _ => HOOK_TIMEOUT_SECONDS,
            };
            HookEntry { event, command: command::render_command(program, agent, event), seconds }
        };
        let entries = hooks.wired_events().map(entry).collect();
        Ok(Self { agent, program, shape: hooks.wiring.shape, entries })
    }
}

/// One file and what ostler has in it.
#[derive(Debug)]
struct SettingsPart {
    path: PathBuf,
    backup: PathBuf,
    kind: PartKind,
}

#[derive(Clone, Copy, Debug)]
enum PartKind {
    Hooks,
    Notify { event: &'static str },
}

fn settings_parts(
    adapter: &dyn Adapter,
    hooks: &AgentHooks,
    request: &HooksRequest<'_>,
) -> Result<Vec<SettingsPart>, HooksError> {
    let id = adapter.agent_profile().id;
    if let Some(project) = request.project {
        let path = hooks.wiring.project.ok_or(HooksError::NoProject(id))?(project);
        let path = resolve_beneath(project, &path)?;
        let backup = backup_at_home(request.machine.home(), &path);
        return Ok(vec![SettingsPart { path, backup, kind: PartKind::Hooks }]);
    }
    let no_home = || HooksError::NoHome(id);
    let path = (hooks.wiring.user)(&request.machine.env()).ok_or_else(no_home)?;
    let backup = backup_beside(&path);
    let mut parts = vec![SettingsPart { path, backup, kind: PartKind::Hooks }];
    if let Some(notify) = &hooks.wiring.notify {
        let path = (notify.user)(&request.machine.env()).ok_or_else(no_home)?;
        let backup = backup_beside(&path);
        parts.push(SettingsPart { path, backup, kind: PartKind::Notify { event: notify.event } });
    }
    Ok(parts)
}

impl SettingsPart {
    fn read(&self) -> Result<SettingsFile, HooksError> {
        SettingsFile::read_settings(&self.path, self.backup.clone())
    }

    fn to_hooks_error(&self, wrong: EditError) -> HooksError {
        HooksError::Wrong { path: self.path.clone(), wrong }
    }

    /// How far a text is; `None` if what is there is not ours and stays.
    fn text_state(&self, wiring: &Wiring<'_>, text: &str) -> Result<Option<State>, EditError> {
        match (self.kind, wiring.shape) {
            (PartKind::Notify { .. }, _) => toml::notify_state(wiring, text),
            (PartKind::Hooks, HookFileShape::Tables) => toml::hooks_state(wiring, text).map(Some),
            (PartKind::Hooks, HookFileShape::Script { template }) => {
                Ok(Some(script::script_state(wiring, template, text)))
            }
            (PartKind::Hooks, _) => json::hooks_state(wiring, text).map(Some),
        }
    }

    /// The program that ostler's hooks in a text name, if there are any.
    fn hooked_program(&self, wiring: &Wiring<'_>, text: &str) -> Result<Option<String>, EditError> {
        match (self.kind, wiring.shape) {
            (PartKind::Notify { .. }, _) => toml::notify_program(wiring, text),
            (PartKind::Hooks, HookFileShape::Tables) => toml::hooked_program(wiring, text),
            (PartKind::Hooks, HookFileShape::Script { .. }) => Ok(script::script_program(text)),
            (PartKind::Hooks, _) => json::hooked_program(wiring, text),
        }
    }

    /// A text without ostler's hooks together with them.
    fn with_hooks(&self, wiring: &Wiring<'_>, text: &str) -> Result<String, EditError> {
        match (self.kind, wiring.shape) {
            (PartKind::Notify { event }, _) => toml::with_notify(wiring, event, text),
            (PartKind::Hooks, HookFileShape::Tables) => toml::add_hooks(wiring, text),
            (PartKind::Hooks, HookFileShape::Script { template }) => {
                script::replace_script(wiring, template, text)
            }
            (PartKind::Hooks, _) => json::add_hooks(wiring, text),
        }
    }

    fn without_hooks(
        &self,
        wiring: &Wiring<'_>,
        text: &str,
        original: Option<&str>,
    ) -> Result<String, EditError> {
        match (self.kind, wiring.shape) {
            (PartKind::Notify { .. }, _) => toml::without_notify(wiring, text),
            (PartKind::Hooks, HookFileShape::Tables) => toml::remove_hooks(wiring, text),
            (PartKind::Hooks, HookFileShape::Script { .. }) => Ok(String::new()),
            (PartKind::Hooks, _) => json::remove_hooks(wiring, text, original),
        }
    }

    /// What is to happen to the file.
    fn plan_change(
        &self,
        wiring: &Wiring<'_>,
        action: HookAction,
    ) -> Result<SettingsPlan, HooksError> {
        let seen = self.read()?;
        let text = seen.settings_text()?;
        let state = self.text_state(wiring, text).map_err(|wrong| self.to_hooks_error(wrong))?;
        let Some(state) = state else { return Ok(SettingsPlan::leave_unchanged(seen)) };
        let (plan, wanted) = match action {
            HookAction::Install => (self.plan_install(wiring, seen, state), State::Installed),
            HookAction::Uninstall => {
                (self.plan_uninstall(wiring, seen, state), State::NotInstalled)
            }
        };
        let plan = plan.map_err(|wrong| self.to_hooks_error(wrong))?;
        // What would not do what it is for is not written.
        let after = self.text_state(wiring, plan.text_afterwards());
        if after.map_err(|wrong| self.to_hooks_error(wrong))? != Some(wanted) {
            let reason = "its layout is one that ostler cannot change without breaking it";
            return Err(self.to_hooks_error(EditError::wrong_shape(reason)));
        }
        Ok(plan)
    }

    fn plan_install(
        &self,
        wiring: &Wiring<'_>,
        seen: SettingsFile,
        state: State,
    ) -> Result<SettingsPlan, EditError> {
        let text = seen.text_or_empty();
        match state {
            State::Installed => Ok(SettingsPlan::leave_unchanged(seen)),
            State::NotInstalled => {
                let after = self.with_hooks(wiring, text)?;
                Ok(SettingsPlan::write_text(seen, after).keeping_original())
            }
            _ => {
                let original = seen.original_text();
                let bare = self.without_hooks(wiring, text, original.as_deref())?;
                // A file of ostler's own that a person has edited is kept.
                let keep = matches!(wiring.shape, HookFileShape::Script { .. })
                    && state == State::ForeignEdited;
                let plan = SettingsPlan::write_text(seen, self.with_hooks(wiring, &bare)?);
                Ok(if keep { plan.keeping_original() } else { plan })
            }
        }
    }

    fn plan_uninstall(
        &self,
        wiring: &Wiring<'_>,
        seen: SettingsFile,
        state: State,
    ) -> Result<SettingsPlan, EditError> {
        if state == State::NotInstalled {
            return Ok(SettingsPlan::leave_uninstalled(seen));
        }
        let text = seen.text_or_empty();
        let original = seen.original_text();
        let made_of = |text: &str| self.with_hooks(wiring, text).ok();
        if let Some(original) = &original
            && made_of(original).as_deref() == Some(text)
        {
            let original = original.clone();
            return Ok(SettingsPlan::write_text(seen, original).dropping_original());
        }
        if made_of("").as_deref() == Some(text) {
            return Ok(SettingsPlan::remove_file(seen));
        }
        if matches!(wiring.shape, HookFileShape::Script { .. })
            && matches!(self.kind, PartKind::Hooks)
        {
            let edited = state == State::ForeignEdited;
            let plan = SettingsPlan::remove_file(seen);
            return Ok(if edited { plan.keeping_original() } else { plan });
        }
        let after = self.without_hooks(wiring, text, original.as_deref())?;
        let blank = match wiring.shape {
            HookFileShape::Tables => after.trim().is_empty(),
            _ => json::is_blank(&after),
        };
        let nothing_before = original.is_none() && blank && matches!(self.kind, PartKind::Hooks);
        Ok(if nothing_before {
            SettingsPlan::remove_file(seen)
        } else {
            SettingsPlan::write_text(seen, after)
        })
    }
}

/// The state of all the files of an agent, and what a person should know about it.
fn overall_state(
    adapter: &dyn Adapter,
    hooks: &AgentHooks,
    wiring: &Wiring<'_>,
    request: &HooksRequest<'_>,
) -> Result<(State, Vec<String>), HooksError> {
    let mut notes = Vec::new();
    let mut state = State::NotInstalled;
    let mut here = String::new();
    let mut has_notify = false;
    for part in settings_parts(adapter, hooks, request)? {
        let seen = part.read()?;
        let text = seen.settings_text()?.to_owned();
        let found = part.text_state(wiring, &text).map_err(|wrong| part.to_hooks_error(wrong))?;
        match (part.kind, found) {
            (PartKind::Hooks, found) => {
                state = found.unwrap_or(State::NotInstalled);
                here = text;
            }
            (PartKind::Notify { .. }, None) => {
                notes.push("`notify` names another program, which was left in place".to_owned());
            }
            (PartKind::Notify { .. }, Some(State::NotInstalled)) => {}
            (PartKind::Notify { .. }, Some(found)) => {
                has_notify = true;
                state = if state == State::Installed { found } else { state };
            }
        }
    }
    if state == State::Installed && !trust::is_trust_given(hooks, wiring, request, &here) {
        state = State::NotTrusted;
        let until_then = match has_notify {
            true => "only the end of each turn is reported, through `notify`",
            false => "nothing is reported",
        };
        notes.push(format!(
            "the agent runs these hooks only after you have reviewed them: type `/hooks` in it; \
             until then {until_then}"
        ));
    }
    Ok((state, notes))
}

/// What the commands that were found mean together.
fn judge_commands<'o>(
    found: impl Iterator<Item = &'o OstlerCommand>,
    program: &str,
    as_expected: bool,
) -> State {
    let found: Vec<&OstlerCommand> = found.collect();
    let other = |ours: &&OstlerCommand| {
        ours.program != program || ours.version.is_some_and(|one| one != command::HOOK_VERSION)
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
