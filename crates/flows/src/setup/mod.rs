//! Sets a machine up for ostler in one go, and takes exactly that back: hooks of the agents that are
//! here, completions of the shells that are here, the daemon as a service.

mod record;
mod scripts;

use std::io;
use std::path::{Path, PathBuf};

use model::wire::{FileChange, HookAgent, HookState, ServiceResult, SetupCompletion};
use sys::dropped::NoteDropped;
use sys::lock::{AdvisoryLock, LockAttempt};
use sys::machine::Machine;

use crate::hooks::{self, HookAction, HooksError, HooksRequest, RemoveSettings, RestoredFile};
use crate::service::{self, ServiceError, ServiceRequest};
use crate::timeouts::SETUP_LOCK_TIMEOUT;
use record::{
    RecordedFile, RecordedHooks, RecordedRewrite, RecordedService, RewrittenFile, SetupRecord,
    record_path,
};
use scripts::{install_script, preview_script, remove_script};

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
    pub hooks: Vec<(String, Result<HookAgent, HooksError>)>,
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
    // Without a record, what is there is somebody else's; to carry it out, it must be readable.
    let record = read_record(request.machine.home()).ok_or_note("read the record of setups");
    preview_beside(request, &record.unwrap_or_default())
}

fn preview_beside(request: &SetupRequest<'_>, record: &SetupRecord) -> SetupOutcome {
    let nothing = |_: &Path, _: &[u8]| Ok(());
    let hooks = present_agents(request)
        .map(|agent| {
            let action = HookAction::Install;
            let planned = change_agent_hooks(request, agent, action, true, &nothing, &[]);
            (agent.to_owned(), planned)
        })
        .collect();
    let preview = |script: &ShellScript| preview_script(script, record.script(&script.path));
    let completions = request.completions.iter().map(preview).collect();
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
    let mut preview = preview_beside(request, &record);
    for (agent, planned) in &mut preview.hooks {
        // What cannot be written down is not done.
        if let Ok(view) = planned
            && let Err(error) = record_hooks(&mut record, request, agent, view)
        {
            *planned = Err(error);
        }
    }
    for (script, planned) in request.completions.iter().zip(&preview.completions) {
        if planned.change != FileChange::Unchanged {
            record_script(&mut record, script);
        }
    }
    let mut added_service = None;
    if let Ok(planned) = &preview.service
        && record.service.is_none()
        && is_service_change(planned)
        && !(planned.installed && planned.enabled)
        && let Some(unit) = planned.unit.as_deref().map(PathBuf::from)
    {
        let kept_directory = nearest_directory(&unit);
        added_service = Some(RecordedService { unit, kept_directory });
        record.service.clone_from(&added_service);
    }
    write_record(&record, home)?;
    sys::pause::pause_at("setup.recorded");
    let change = |(agent, planned): (String, Result<HookAgent, HooksError>)| {
        let done = planned.and_then(|_| {
            change_agent_hooks(request, &agent, HookAction::Install, false, remove, &[])
        });
        (agent, done)
    };
    let hooks = preview.hooks.into_iter().map(change).collect();
    sys::pause::pause_at("setup.hooked");
    let install = |script: &ShellScript| install_script(script, record.script(&script.path));
    let completions = request.completions.iter().map(install).collect();
    let service = match preview.service {
        Ok(planned) if is_service_change(&planned) => {
            service::install_service(&request.service, remove)
        }
        planned => planned.map(|planned| ServiceResult { diff: None, ..planned }),
    };
    // What this run added is forgotten only if nothing of it is left.
    if service.is_err()
        && let Some(added) = added_service
        && service::is_uninstalled(&request.service)
    {
        remove_made_directories(request, &added.unit, added.kept_directory.as_ref());
        record.service = None;
        write_record(&record, home)?;
    }
    Ok(SetupOutcome { hooks, completions, service })
}

/// Writes down which hooks of an agent's are going to be this setup's, and what others of ostler's were before they
/// are put right.
fn record_hooks(
    record: &mut SetupRecord,
    request: &SetupRequest<'_>,
    agent: &str,
    planned: &HookAgent,
) -> Result<(), HooksError> {
    if record.hooks.iter().any(|one| one.agent == agent) {
        return Ok(());
    }
    let rewrites = hooks::plan_rewrites(agent, &hooks_request(request))?;
    if !rewrites.is_empty() {
        record.add_rewrites(agent, rewrites);
    } else if planned.state == Some(HookState::NotInstalled) {
        record.rewritten.retain(|one| one.agent != agent);
        let paths = planned.files.iter().map(|file| Path::new(&file.path));
        let kept_directories = paths.filter_map(nearest_directory).collect();
        record.hooks.push(RecordedHooks { agent: agent.to_owned(), kept_directories });
    }
    Ok(())
}

fn record_script(record: &mut SetupRecord, script: &ShellScript) {
    let content_hash = sys::hash::sha256(script.text.as_bytes());
    let found = std::fs::symlink_metadata(&script.path).is_ok();
    // A kill may leave it as an earlier setup has written it.
    if let Some(known) = record.completions.iter_mut().find(|one| one.path == script.path)
        && found
    {
        if known.content_hash != content_hash {
            let earlier = std::mem::replace(&mut known.content_hash, content_hash);
            known.earlier_hashes.push(earlier);
        }
        return;
    }
    record.completions.retain(|one| one.path != script.path);
    record.completions.push(RecordedFile {
        shell: script.shell.to_owned(),
        path: script.path.clone(),
        content_hash,
        earlier_hashes: Vec::new(),
        kept_directory: nearest_directory(&script.path),
    });
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
        let done = known_agent(&one.agent).and_then(|agent| {
            let kept = one.kept_directories.as_slice();
            change_agent_hooks(request, agent, HookAction::Uninstall, dry_run, remove, kept)
        });
        let is_left = done.is_err();
        hooks.push((one.agent.clone(), done));
        if is_left {
            left.hooks.push(one);
        }
    }
    for one in std::mem::take(&mut record.rewritten) {
        let done = known_agent(&one.agent)
            .and_then(|agent| restore_rewrites(request, agent, &one, dry_run, remove));
        let is_left = done.is_err();
        hooks.push((one.agent.clone(), done));
        if is_left {
            left.rewritten.push(one);
        }
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

/// The agent of a record; a later ostler may have set up one that this one does not know.
fn known_agent(agent: &str) -> Result<&'static str, HooksError> {
    let known = hooks::supported_agents().find(|id| *id == agent);
    known.ok_or_else(|| HooksError::UnknownAgent(agent.to_owned()))
}

/// Puts back what hooks of another ostler's were.
fn restore_rewrites(
    request: &SetupRequest<'_>,
    agent: &str,
    recorded: &RecordedRewrite,
    dry_run: bool,
    remove: RemoveSettings<'_>,
) -> Result<HookAgent, HooksError> {
    let files: Vec<RestoredFile<'_>> =
        recorded.files.iter().map(RewrittenFile::as_restored).collect();
    hooks::restore_settings(agent, &hooks_request(request), &files, dry_run, remove)
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
    let request = hooks_request(request);
    hooks::change_hooks_keeping(agent, &request, action, dry_run, remove, kept_directories)
}

fn hooks_request<'r>(request: &SetupRequest<'r>) -> HooksRequest<'r> {
    HooksRequest { machine: request.machine, program: request.service.program, project: None }
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
