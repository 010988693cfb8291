//! Sets a machine up for ostler in one go, and takes exactly that back: hooks of the agents that are
//! here, completions of the shells that are here, the daemon as a service.

mod record;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::wire::{FileChange, HookAgent, HookState, ServiceResult, SetupCompletion};
use sys::lock::{AdvisoryLock, LockAttempt};
use sys::machine::Machine;

use crate::hooks::{self, HookAction, HooksError, HooksRequest, RemoveSettings};
use crate::service::{self, ServiceError, ServiceRequest};
use crate::timeouts::SETUP_LOCK_TIMEOUT;
use record::{RecordedFile, RecordedHooks, RecordedService, SetupRecord, record_path};

/// The most that is read of a completion script.
const MAX_SCRIPT_BYTES: u64 = 1 << 20;

/// What is to be set up.
#[derive(Debug)]
pub struct SetupRequest<'a> {
    /// Where agents and ostler keep things.
    pub machine: &'a Machine,
    /// The completions of the shells that are here.
    pub completions: &'a [ShellScript],
    pub service: ServiceRequest<'a>,
    /// Whether agents' hooks are wanted.
    pub with_hooks: bool,
    /// Whether the service is wanted.
    pub with_service: bool,
}

/// The completions of one shell.
#[derive(Debug)]
pub struct ShellScript {
    pub shell: &'static str,
    /// Where it looks for them.
    pub path: PathBuf,
    /// Where a package would have put them for every user.
    pub packaged: Vec<PathBuf>,
    pub text: String,
    /// What a person must do besides.
    pub note: Option<String>,
}

/// What came of every part, or would.
#[derive(Debug)]
pub struct SetupOutcome {
    pub hooks: Vec<(&'static str, Result<HookAgent, HooksError>)>,
    pub completions: Vec<SetupCompletion>,
    pub service: Result<ServiceResult, ServiceError>,
}

/// Why nothing was done at all.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The record cannot be read or written.
    #[error("cannot use {}: {source}", path.display())]
    Record { path: PathBuf, source: io::Error },
    /// Another process is at it.
    #[error("another `ostler setup` is at work")]
    Busy,
}

impl SetupOutcome {
    /// Whether anything is different, or would be.
    pub fn has_changes(&self) -> bool {
        let hooks = self.hooks.iter().filter_map(|(_, one)| one.as_ref().ok());
        let mut files = hooks.flat_map(|agent| &agent.files).map(|file| file.change);
        let is_change = |change: FileChange| change != FileChange::Unchanged;
        files.any(is_change)
            || self.completions.iter().any(|one| is_change(one.change))
            || self.service.as_ref().is_ok_and(is_service_change)
    }
}

fn is_service_change(service: &ServiceResult) -> bool {
    let is_wanted = service.change == Some(FileChange::Unchanged) && !service.active;
    is_wanted || service.change.is_some_and(|change| change != FileChange::Unchanged)
}

/// Whether anything was ever set up here.
pub fn is_set_up(home: &Path) -> bool {
    record_path(home).exists()
}

/// Says what a setup would do, and does nothing.
pub fn preview_setup(request: &SetupRequest<'_>) -> SetupOutcome {
    let nothing = |_: &Path, _: &[u8]| Ok(());
    let hooks = present_agents(request)
        .map(|agent| {
            (agent, change_agent_hooks(request, agent, HookAction::Install, true, &nothing, &[]))
        })
        .collect();
    let completions = request.completions.iter().map(preview_script).collect();
    SetupOutcome { hooks, completions, service: preview_service_part(request) }
}

/// Sets everything up. What one part refuses does not hold up the others.
pub fn carry_out_setup(
    request: &SetupRequest<'_>,
    remove: RemoveSettings<'_>,
) -> Result<SetupOutcome, SetupError> {
    let home = request.machine.home();
    let _lock = hold_setup_lock(home)?;
    let mut record = read_record(home)?;
    let preview = preview_setup(request);
    for (agent, planned) in &preview.hooks {
        let is_known = record.hooks.iter().any(|one| one.agent == *agent);
        let Ok(planned) = planned else { continue };
        // Hooks that were there before, of any version, are not this setup's to take out.
        if !is_known && planned.state == Some(HookState::NotInstalled) {
            let paths = planned.files.iter().map(|file| Path::new(&file.path));
            let kept_directories = paths.filter_map(nearest_directory).collect();
            record.hooks.push(RecordedHooks { agent: (*agent).to_owned(), kept_directories });
        }
    }
    for (script, planned) in request.completions.iter().zip(&preview.completions) {
        if planned.change == FileChange::Created {
            record.completions.retain(|one| one.path != script.path);
            record.completions.push(RecordedFile {
                shell: script.shell.to_owned(),
                path: script.path.clone(),
                content_hash: sys::hash::sha256(script.text.as_bytes()),
                kept_directory: nearest_directory(&script.path),
            });
        }
    }
    if let Ok(planned) = &preview.service
        && record.service.is_none()
        && is_service_change(planned)
        && !(planned.installed && planned.enabled)
        && let Some(unit) = planned.unit.as_deref().map(PathBuf::from)
    {
        let kept_directory = nearest_directory(&unit);
        record.service = Some(RecordedService { unit, kept_directory });
    }
    write_record(&record, home)?;
    sys::pause::pause_at("setup.recorded");
    let change = |(agent, planned): (&'static str, Result<HookAgent, HooksError>)| {
        let done = planned.and_then(|_| {
            change_agent_hooks(request, agent, HookAction::Install, false, remove, &[])
        });
        (agent, done)
    };
    let hooks = preview.hooks.into_iter().map(change).collect();
    sys::pause::pause_at("setup.hooked");
    let completions = request.completions.iter().map(install_script).collect();
    let service = match preview.service {
        Ok(planned) if is_service_change(&planned) => {
            service::install_service(&request.service, remove)
        }
        planned => planned.map(|planned| ServiceResult { diff: None, ..planned }),
    };
    if service.is_err() && record.service.is_some() {
        record.service = None;
        write_record(&record, home)?;
    }
    Ok(SetupOutcome { hooks, completions, service })
}

/// Takes back what setups have done, and nothing else; a dry run only says what that would be.
pub fn undo_setup(
    request: &SetupRequest<'_>,
    dry_run: bool,
    remove: RemoveSettings<'_>,
) -> Result<SetupOutcome, SetupError> {
    let home = request.machine.home();
    let _lock = match dry_run {
        true => None,
        false => Some(hold_setup_lock(home)?),
    };
    let mut record = read_record(home)?;
    let mut hooks = Vec::new();
    let mut left = SetupRecord::default();
    for one in std::mem::take(&mut record.hooks) {
        let Some(agent) = hooks::supported_agents().find(|id| *id == one.agent) else { continue };
        let kept = one.kept_directories.as_slice();
        let done = change_agent_hooks(request, agent, HookAction::Uninstall, dry_run, remove, kept);
        if done.is_err() {
            left.hooks.push(one);
        }
        hooks.push((agent, done));
    }
    let mut completions = Vec::new();
    for one in std::mem::take(&mut record.completions) {
        let done = remove_script(request, &one, dry_run, remove);
        if done.problem.is_some() {
            left.completions.push(one);
        }
        completions.push(done);
    }
    let service = match &record.service {
        Some(recorded) => undo_service(request, recorded, dry_run, remove),
        None => Ok(ServiceResult::default()),
    };
    if service.is_err() {
        left.service = record.service.take();
    }
    if !dry_run && is_set_up(home) {
        write_record(&left, home)?;
    }
    Ok(SetupOutcome { hooks, completions, service })
}

/// Whether setups have done anything that could be taken back.
pub fn has_anything_to_undo(home: &Path) -> Result<bool, SetupError> {
    Ok(!read_record(home)?.is_empty())
}

fn undo_service(
    request: &SetupRequest<'_>,
    recorded: &RecordedService,
    dry_run: bool,
    remove: RemoveSettings<'_>,
) -> Result<ServiceResult, ServiceError> {
    if dry_run {
        let mut view = service::service_status(&request.service)?;
        view.change = Some(FileChange::Removed);
        return Ok(view);
    }
    let done = service::uninstall_service(&request.service, remove)?;
    remove_made_directories(request, &recorded.unit, recorded.kept_directory.as_ref());
    Ok(done)
}

fn preview_service_part(request: &SetupRequest<'_>) -> Result<ServiceResult, ServiceError> {
    match request.service.manager {
        _ if !request.with_service => Ok(ServiceResult::default()),
        Some(_) => service::preview_service(&request.service),
        // It is no fault of this machine's that it has none.
        None => service::service_status(&request.service),
    }
}

fn present_agents<'r>(request: &'r SetupRequest<'_>) -> impl Iterator<Item = &'static str> + 'r {
    let is_wanted = |agent: &&str| request.with_hooks && hooks::is_present(agent, request.machine);
    hooks::supported_agents().filter(is_wanted)
}

fn change_agent_hooks(
    request: &SetupRequest<'_>,
    agent: &str,
    action: HookAction,
    dry_run: bool,
    remove: RemoveSettings<'_>,
    kept_directories: &[PathBuf],
) -> Result<HookAgent, HooksError> {
    let request =
        HooksRequest { machine: request.machine, program: request.service.program, project: None };
    hooks::change_hooks_keeping(agent, &request, action, dry_run, remove, kept_directories)
}

fn preview_script(script: &ShellScript) -> SetupCompletion {
    let mut view = SetupCompletion {
        shell: script.shell.to_owned(),
        path: script.path.to_string_lossy().into_owned(),
        change: FileChange::Unchanged,
        diff: None,
        note: script.note.clone(),
        problem: None,
    };
    if let Some(packaged) = script.packaged.iter().find(|path| path.exists()) {
        view.path = packaged.to_string_lossy().into_owned();
        view.note = None;
        return view;
    }
    match read_script(&script.path) {
        Ok(None) => {
            let diff = similar::TextDiff::from_lines("", &script.text);
            view.diff = Some(diff.unified_diff().header("/dev/null", &view.path).to_string());
            view.change = FileChange::Created;
        }
        Ok(Some(text)) if text == script.text.as_bytes() => {}
        Ok(Some(_)) => {
            view.note = Some("another file is there, and was left as it is".to_owned());
        }
        Err(error) => view.problem = Some(error.to_string()),
    }
    view
}

fn install_script(script: &ShellScript) -> SetupCompletion {
    let mut view = preview_script(script);
    view.diff = None;
    if view.change != FileChange::Created {
        return view;
    }
    let parent = script.path.parent().unwrap_or(Path::new("/"));
    let made = fs::create_dir_all(parent).and_then(|()| {
        sys::atomic::replace_if_unchanged(&script.path, None, script.text.as_bytes())
    });
    if let Err(error) = made {
        view.change = FileChange::Unchanged;
        view.problem = Some(error.to_string());
    }
    view
}

/// Removes a script, unless it was changed since.
fn remove_script(
    request: &SetupRequest<'_>,
    recorded: &RecordedFile,
    dry_run: bool,
    remove: RemoveSettings<'_>,
) -> SetupCompletion {
    let mut view = SetupCompletion {
        shell: recorded.shell.clone(),
        path: recorded.path.to_string_lossy().into_owned(),
        change: FileChange::Unchanged,
        diff: None,
        note: None,
        problem: None,
    };
    let bytes = match read_script(&recorded.path) {
        Ok(None) => return view,
        Ok(Some(bytes)) => bytes,
        Err(error) => {
            view.problem = Some(error.to_string());
            return view;
        }
    };
    if sys::hash::sha256(&bytes) != recorded.content_hash {
        view.note = Some("it was changed since, and was left as it is".to_owned());
        return view;
    }
    view.change = FileChange::Removed;
    if !dry_run {
        match remove(&recorded.path, &bytes) {
            Ok(()) => {
                let kept = recorded.kept_directory.as_ref();
                remove_made_directories(request, &recorded.path, kept);
            }
            Err(error) => {
                view.change = FileChange::Unchanged;
                view.problem = Some(error.to_string());
            }
        }
    }
    view
}

fn read_script(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"))
        }
        Ok(metadata) if metadata.len() > MAX_SCRIPT_BYTES => {
            Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large for a script"))
        }
        Ok(_) => fs::read(path).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes the directories that were made for a file, as far as nothing is in them.
fn remove_made_directories(request: &SetupRequest<'_>, path: &Path, kept: Option<&PathBuf>) {
    let kept: Vec<PathBuf> = kept.into_iter().cloned().collect();
    // Without one that is known to have been there before, all of them stay.
    if !kept.is_empty() {
        let boundary = request.machine.env().home_dir();
        hooks::remove_empty_directories(path, boundary.as_deref(), &kept);
    }
}

/// The nearest directory above a path that is there.
fn nearest_directory(path: &Path) -> Option<PathBuf> {
    path.ancestors().skip(1).find(|directory| directory.is_dir()).map(Path::to_owned)
}

fn hold_setup_lock(home: &Path) -> Result<AdvisoryLock, SetupError> {
    let path = home.join("setup.lock");
    let fail = |source: io::Error| SetupError::Record { path: path.clone(), source };
    sys::private::create_private_dir(home).map_err(|error| fail(io::Error::other(error)))?;
    match sys::lock::take_within(&path, SETUP_LOCK_TIMEOUT) {
        Ok(LockAttempt::Taken(lock)) => Ok(lock),
        Ok(LockAttempt::Held(_)) => Err(SetupError::Busy),
        Err(error) => Err(fail(io::Error::other(error))),
    }
}

fn read_record(home: &Path) -> Result<SetupRecord, SetupError> {
    SetupRecord::read_record(home)
        .map_err(|source| SetupError::Record { path: record_path(home), source })
}

fn write_record(record: &SetupRecord, home: &Path) -> Result<(), SetupError> {
    record
        .write_record(home)
        .map_err(|source| SetupError::Record { path: record_path(home), source })
}
