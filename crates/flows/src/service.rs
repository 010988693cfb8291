//! The daemon as a service of the user: its unit is installed, looked at and taken away.
//!
//! A stop of the unit ends the daemon and nothing else: hosted terminals have scopes of their own, and the
//! unit leaves everything else that was started from it (`docs/decisions/0090-a-unit-that-ends-only-itself.md`).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use model::wire::{DaemonResult, FileChange, ServiceResult};
use sys::dropped::NoteDropped;
use sys::machine::Machine;
use sys::service::{
    ServiceManager, ServiceManagerError, ServiceUnit, UnitState, control_group_members,
};

use crate::hooks::RemoveSettings;
use crate::timeouts::{DAEMON_CHANGE_TIMEOUT, DAEMON_CHECK_INTERVAL};
use crate::writer::{AskLimits, DaemonAnswer, DaemonCallError, DaemonOrder, ask, wait_for_end};

/// What stands in the comment of a unit of ours, before the hash of the rest.
const UNIT_MARK: &str = "ostler-service 1 ";

/// The most that is read of a unit's file.
const MAX_UNIT_BYTES: u64 = 1 << 20;

/// Variables of ostler's own that a daemon must be given, and where they are not the user's usual ones,
/// those that say where directories are.
const PASSED_VARIABLES: [&str; 7] = [
    "OSTLER_HOME",
    "OSTLER_CONFIG",
    "OSTLER_STALE_AFTER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

/// Which ostler, for whom.
#[derive(Clone, Copy, Debug)]
pub struct ServiceRequest<'a> {
    /// The manager that answers, if any does.
    pub manager: Option<ServiceManager>,
    /// The ostler to run.
    pub program: &'a Path,
    pub version: &'a str,
    /// ostler's directories, and the environment that the daemon must see, too.
    pub machine: &'a Machine,
}

/// Why the service is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// There is no service manager to run it.
    #[error("no service manager of this user answers")]
    NoManager,
    /// Without a home there is no place for a unit.
    #[error("it is not known where units are kept: `HOME` is not set")]
    NoHome,
    /// A unit that is not ours has the name.
    #[error("{} was not written by ostler, or was edited since, and was left as it is", .0.display())]
    Foreign(PathBuf),
    /// A file could not be read or written.
    #[error("cannot change {}: {source}", path.display())]
    File {
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A newer daemon runs.
    #[error("a newer daemon runs (pid {pid}, version {version})")]
    NewerDaemon { pid: u32, version: String },
    /// A daemon runs that could not be stopped.
    #[error("the daemon that runs cannot be replaced: {0}")]
    DaemonStays(String),
    /// A stop would end others too.
    #[error(
        "a stop would end other processes with it ({}): the unit's `KillMode` is not `process`",
        list_pids(.0)
    )]
    EndsOthers(Vec<u32>),
    /// The manager refused.
    #[error(transparent)]
    Manager(#[from] ServiceManagerError),
    /// It was started and does not answer.
    #[error("the service was started and does not answer")]
    Silent,
}

fn list_pids(pids: &[u32]) -> String {
    pids.iter().map(|pid| format!("pid {pid}")).collect::<Vec<_>>().join(", ")
}

/// The unit as it is and as it is wanted.
#[derive(Debug)]
struct UnitPlan {
    manager: ServiceManager,
    path: PathBuf,
    before: Option<Vec<u8>>,
    wanted: String,
    /// A package has installed the very same unit.
    is_packaged: bool,
}

impl UnitPlan {
    fn file_change(&self) -> FileChange {
        match &self.before {
            Some(before) if before == self.wanted.as_bytes() => FileChange::Unchanged,
            Some(_) => FileChange::Changed,
            None if self.is_packaged => FileChange::Unchanged,
            None => FileChange::Created,
        }
    }

    fn render_diff(&self) -> Option<String> {
        if self.file_change() == FileChange::Unchanged {
            return None;
        }
        let before = String::from_utf8_lossy(self.before.as_deref().unwrap_or_default());
        let path = self.path.display().to_string();
        let from = if self.before.is_some() { path.as_str() } else { "/dev/null" };
        let diff = similar::TextDiff::from_lines(before.as_ref(), &self.wanted);
        Some(diff.unified_diff().header(from, &path).to_string())
    }
}

/// Looks at the service.
pub fn service_status(request: &ServiceRequest<'_>) -> Result<ServiceResult, ServiceError> {
    let Some(manager) = request.manager else {
        let note = "no service manager of this user answers: `ostler daemon start` runs it until the \
                    machine stops";
        return Ok(ServiceResult { notes: vec![note.to_owned()], ..ServiceResult::default() });
    };
    let path = unit_path(manager, request)?;
    let packaged = manager.packaged_units().into_iter().find(|unit| unit.exists());
    let installed = if path.exists() { Some(path) } else { packaged };
    let state = manager.query_unit()?;
    Ok(service_view(manager, installed.as_deref(), &state))
}

/// Says what an install would change.
pub fn preview_service(request: &ServiceRequest<'_>) -> Result<ServiceResult, ServiceError> {
    let plan = plan_unit(request)?;
    check_running_daemon(request)?;
    let state = plan.manager.query_unit()?;
    let mut view = service_view(plan.manager, Some(&plan.path), &state);
    view.installed = plan.before.is_some() || plan.is_packaged;
    view.change = Some(plan.file_change());
    view.diff = plan.render_diff();
    Ok(view)
}

/// Installs the unit and starts it, now and with every session of the user's. If it cannot be started, everything
/// is as it was before: the file, whether it is enabled, the daemon that ran. A file that goes is given to `remove`.
pub fn install_service(
    request: &ServiceRequest<'_>,
    remove: RemoveSettings<'_>,
) -> Result<ServiceResult, ServiceError> {
    let plan = plan_unit(request)?;
    let change = plan.file_change();
    let state = plan.manager.query_unit()?;
    let running = check_running_daemon(request)?;
    if change == FileChange::Unchanged && state.active && state.enabled {
        let mut view = service_view(plan.manager, Some(&plan.path), &state);
        view.change = Some(change);
        return Ok(view);
    }
    refuse_to_end_others(&state)?;
    if change != FileChange::Unchanged {
        write_unit(&plan)?;
    }
    let other = running.filter(|running| *running != state.pid.unwrap_or_default());
    let stopped = if other.is_some() { stop_other_daemon(request) } else { Ok(()) };
    let started = stopped.and_then(|()| Ok(plan.manager.start_unit(&plan.path)?));
    if let Err(error) = started {
        take_unit_back(&plan, &state, remove);
        if other.is_some() && matches!(ask_daemon_status(request), Ok(None)) {
            start_other_daemon(request).note_dropped("start the daemon again that was stopped");
        }
        return Err(error);
    }
    wait_for_daemon(request)?;
    let state = plan.manager.query_unit()?;
    let mut view = service_view(plan.manager, Some(&plan.path), &state);
    view.change = Some(change);
    Ok(view)
}

/// Stops the unit and takes its file away, by way of `remove`. A unit that a package has installed is
/// only stopped.
pub fn uninstall_service(
    request: &ServiceRequest<'_>,
    remove: RemoveSettings<'_>,
) -> Result<ServiceResult, ServiceError> {
    let manager = request.manager.ok_or(ServiceError::NoManager)?;
    let path = unit_path(manager, request)?;
    let before = read_unit(&path)?;
    if before.as_deref().is_some_and(|unit| !has_mark(unit)) {
        return Err(ServiceError::Foreign(path));
    }
    let state = manager.query_unit()?;
    refuse_to_end_others(&state)?;
    // Also without a file: one that was deleted by hand may still run, or leave a link behind.
    manager.stop_unit()?;
    if let Some(bytes) = &before {
        remove(&path, bytes).map_err(|source| ServiceError::File { path: path.clone(), source })?;
        manager.reload_units()?;
    }
    let state = manager.query_unit()?;
    let mut view = service_view(manager, None, &state);
    view.unit = Some(path.to_string_lossy().into_owned());
    view.change = Some(if before.is_some() { FileChange::Removed } else { FileChange::Unchanged });
    Ok(view)
}

/// Where the user's own unit is.
pub(crate) fn unit_path(
    manager: ServiceManager,
    request: &ServiceRequest<'_>,
) -> Result<PathBuf, ServiceError> {
    let home_directory = request.machine.env().home_dir().ok_or(ServiceError::NoHome)?;
    let config = request.machine.config().and_then(Path::parent).ok_or(ServiceError::NoHome)?;
    Ok(manager.unit_path(config, &home_directory))
}

fn plan_unit(request: &ServiceRequest<'_>) -> Result<UnitPlan, ServiceError> {
    let manager = request.manager.ok_or(ServiceError::NoManager)?;
    let path = unit_path(manager, request)?;
    let environment = daemon_environment(request.machine);
    let unit = ServiceUnit {
        program: request.program,
        arguments: &["daemon", "run"],
        environment: &environment,
        log: &request.machine.home().join("daemon.log"),
    };
    let wanted = render_marked_unit(manager, &unit)?;
    let before = read_unit(&path)?;
    if before.as_deref().is_some_and(|unit| !is_unedited(unit)) {
        return Err(ServiceError::Foreign(path));
    }
    let is_same = |path: &PathBuf| fs::read(path).is_ok_and(|unit| unit == wanted.as_bytes());
    let is_packaged = before.is_none() && manager.packaged_units().iter().any(is_same);
    Ok(UnitPlan { manager, path, before, wanted, is_packaged })
}

/// A unit with the hash of itself in its comment, so that one that was edited can be told.
pub fn render_marked_unit(
    manager: ServiceManager,
    unit: &ServiceUnit<'_>,
) -> Result<String, ServiceManagerError> {
    let bare = manager.render_unit(unit, UNIT_MARK)?;
    let mark = format!("{UNIT_MARK}{}", sys::hash::sha256(bare.as_bytes()));
    Ok(bare.replacen(UNIT_MARK, &mark, 1))
}

/// The unit that a package installs for every user: of a program at this place, with nothing of one user's.
pub fn render_packaged_unit(program: &Path) -> Result<String, ServiceManagerError> {
    let environment = BTreeMap::new();
    let log = Path::new("/dev/null");
    let arguments = &["daemon", "run"];
    let unit = ServiceUnit { program, arguments, environment: &environment, log };
    render_marked_unit(ServiceManager::usual_manager(), &unit)
}

fn has_mark(unit: &[u8]) -> bool {
    String::from_utf8_lossy(unit).contains(UNIT_MARK)
}

/// Whether a unit is as some ostler has written it.
fn is_unedited(unit: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(unit) else { return false };
    let Some((before, rest)) = text.split_once(UNIT_MARK) else { return false };
    let end = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
    let bare = format!("{before}{UNIT_MARK}{}", &rest[end..]);
    sys::hash::sha256(bare.as_bytes()) == rest[..end]
}

fn read_unit(path: &Path) -> Result<Option<Vec<u8>>, ServiceError> {
    let fail = |source| ServiceError::File { path: path.to_owned(), source };
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() && metadata.len() <= MAX_UNIT_BYTES => {
            fs::read(path).map(Some).map_err(fail)
        }
        Ok(_) => Err(ServiceError::Foreign(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => Ok(None),
        Err(error) => Err(fail(error)),
    }
}

fn write_unit(plan: &UnitPlan) -> Result<(), ServiceError> {
    let fail = |source| ServiceError::File { path: plan.path.clone(), source };
    if let Some(directory) = plan.path.parent() {
        fs::create_dir_all(directory).map_err(fail)?;
    }
    let wanted = plan.wanted.as_bytes();
    sys::atomic::replace_if_unchanged(&plan.path, plan.before.as_deref(), wanted).map_err(fail)
}

/// Puts the unit's file back as it was, and what the manager did with it. What cannot be put back is named by
/// the next install.
fn take_unit_back(plan: &UnitPlan, state: &UnitState, remove: RemoveSettings<'_>) {
    let wanted = plan.wanted.as_bytes();
    plan.manager.withdraw_unit(state).note_dropped("stop and disable a unit");
    let restored = match (&plan.before, plan.file_change()) {
        (_, FileChange::Unchanged) => Ok(()),
        (Some(before), _) => sys::atomic::replace_if_unchanged(&plan.path, Some(wanted), before),
        (None, _) => remove(&plan.path, wanted),
    };
    restored.note_dropped("take a unit back");
    plan.manager.resume_unit(&plan.path, state).note_dropped("start the unit as it was");
}

/// Starts a daemon that the manager does not know of, as `ostler daemon start` does.
fn start_other_daemon(request: &ServiceRequest<'_>) -> io::Result<()> {
    let mut command = Command::new(request.program);
    command.args(["daemon", "start"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().map(drop)
}

/// Whether nothing of an installed service is there: no file of the user's, and nothing that is enabled or runs.
/// A manager that does not say so may have kept something.
pub fn is_uninstalled(request: &ServiceRequest<'_>) -> bool {
    let Some(manager) = request.manager else { return false };
    let is_gone = |path: PathBuf| !path.exists() && !path.is_symlink();
    unit_path(manager, request).is_ok_and(is_gone)
        && manager.query_unit().is_ok_and(|state| !state.enabled && !state.active)
}

/// The variables that decide where agents and ostler keep things, as they are set now.
fn daemon_environment(machine: &Machine) -> BTreeMap<String, String> {
    let ((), mut variables) = machine.note_variables(|machine| {
        for adapter in adapters::ALL_ADAPTERS {
            drop(adapter.session_roots(&machine.env()));
        }
    });
    let env = machine.env();
    let own = PASSED_VARIABLES
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), env.get(name)?.into_string().ok()?)));
    variables.extend(own);
    for known_to_manager in ["HOME", "PATH", "XDG_RUNTIME_DIR"] {
        variables.remove(known_to_manager);
    }
    variables
}

/// The pid of the daemon that runs, if one does. One of a later version is not to be replaced.
fn check_running_daemon(request: &ServiceRequest<'_>) -> Result<Option<u32>, ServiceError> {
    let Some(status) = ask_daemon_status(request)? else { return Ok(None) };
    let pid = status.pid.unwrap_or_default();
    match status.version {
        Some(version) if is_later_version(&version, request.version) => {
            Err(ServiceError::NewerDaemon { pid, version })
        }
        _ => Ok(Some(pid)),
    }
}

fn ask_daemon_status(request: &ServiceRequest<'_>) -> Result<Option<DaemonResult>, ServiceError> {
    match ask(request.machine, &DaemonOrder::Status, AskLimits::SHORT) {
        Ok(DaemonAnswer::Status(status)) => Ok(Some(status).filter(|status| status.running)),
        Ok(_) | Err(DaemonCallError::NotRunning) => Ok(None),
        Err(error) => Err(ServiceError::DaemonStays(error.to_string())),
    }
}

/// Stops a daemon that the manager does not know of. Nothing is lost: what it would hear is in the spool.
fn stop_other_daemon(request: &ServiceRequest<'_>) -> Result<(), ServiceError> {
    match ask(request.machine, &DaemonOrder::Stop, AskLimits::LONG) {
        Ok(_) | Err(DaemonCallError::NotRunning) => {}
        Err(error) => return Err(ServiceError::DaemonStays(error.to_string())),
    }
    match wait_for_end(request.machine.home(), DAEMON_CHANGE_TIMEOUT) {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(ServiceError::DaemonStays("it still runs".to_owned())),
        Err(error) => Err(ServiceError::DaemonStays(error.to_string())),
    }
}

fn wait_for_daemon(request: &ServiceRequest<'_>) -> Result<(), ServiceError> {
    let deadline = Instant::now() + DAEMON_CHANGE_TIMEOUT;
    while !matches!(ask_daemon_status(request), Ok(Some(_))) {
        if Instant::now() > deadline {
            return Err(ServiceError::Silent);
        }
        std::thread::sleep(DAEMON_CHECK_INTERVAL);
    }
    Ok(())
}

/// Refuses a stop that would end more than the daemon.
fn refuse_to_end_others(state: &UnitState) -> Result<(), ServiceError> {
    let Some(group) = state.control_group.as_deref().filter(|_| !state.stop_spares_others) else {
        return Ok(());
    };
    let mut others = control_group_members(group);
    others.retain(|pid| Some(*pid) != state.pid);
    if others.is_empty() { Ok(()) } else { Err(ServiceError::EndsOthers(others)) }
}

fn service_view(manager: ServiceManager, unit: Option<&Path>, state: &UnitState) -> ServiceResult {
    let linger = manager.user_lingers();
    let mut notes = Vec::new();
    if linger == Some(false) {
        notes.push(
            "it ends when you log out, and terminals with it: `loginctl enable-linger \"$USER\"` keeps \
             them"
                .to_owned(),
        );
    }
    ServiceResult {
        manager: Some(manager.as_str()),
        unit: unit.map(|path| path.to_string_lossy().into_owned()),
        change: None,
        diff: None,
        installed: unit.is_some(),
        enabled: state.enabled,
        active: state.active,
        pid: state.pid,
        linger,
        notes,
        problem: None,
    }
}

/// Whether a version is later than another; what is no version is not.
pub fn is_later_version(version: &str, than: &str) -> bool {
    let numbers = |text: &str| -> Option<Vec<u64>> {
        text.split(['-', '+']).next()?.split('.').map(|part| part.parse().ok()).collect()
    };
    match (numbers(version), numbers(than)) {
        (Some(version), Some(than)) => version > than,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_17_an_edited_unit_is_told_from_an_old_one() {
        let environment = BTreeMap::new();
        for manager in [ServiceManager::SystemdUser, ServiceManager::Launchd] {
            let unit = ServiceUnit {
                program: Path::new("/opt/ostler"),
                arguments: &["daemon", "run"],
                environment: &environment,
                log: Path::new("/log"),
            };
            let text = render_marked_unit(manager, &unit).unwrap();
            assert!(is_unedited(text.as_bytes()), "{text}");
            let older = text.replace("/opt/ostler", "/old/ostler");
            assert!(!is_unedited(older.as_bytes()), "another program is an edit");
            assert!(has_mark(older.as_bytes()));
            assert!(!is_unedited(b"[Service]\nExecStart=/bin/true\n"));
        }
    }

    #[test]
    fn row_17_only_a_later_version_is_later() {
        for (version, than, later) in [
            ("0.2.0", "0.1.9", true),
            ("0.10.0", "0.9.0", true),
            ("0.1.0", "0.1.0", false),
            ("0.1.0", "1.0.0", false),
            ("nonsense", "0.1.0", false),
        ] {
            assert_eq!(is_later_version(version, than), later, "{version} {than}");
        }
    }
}
