//! Starts a hosted session: validation, then a detached host process, then its handshake.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use host::screen::Personality;
use host::server::{HeadlessSpec, HostReady, StartRequest};
use model::hosted::wire::CreateResult;
use model::hosted::{FaultCode, HostFault};

use super::TerminalHome;
use crate::timeouts::HOST_START_TIMEOUT;

/// What is wanted.
#[derive(Clone, Debug)]
pub struct CreateTerminalRequest {
    /// The program and its arguments; empty for the shell.
    pub command: Vec<String>,
    pub shell: String,
    /// Where to start it.
    pub cwd: Option<String>,
    pub cols: u16,
    pub rows: u16,
    /// `KEY=VALUE`, each.
    pub env: Vec<String>,
    /// What `TERM` says.
    pub term: String,
    pub name: Option<String>,
    /// After how long without input or output it is hung up; 0 for never.
    pub idle_timeout_ms: u64,
    /// How much of what scrolls away is kept.
    pub scrollback_lines: usize,
    /// Further variables, which are written down nowhere.
    pub secrets: Vec<(String, String)>,
    /// Without a terminal, and how.
    pub headless: Option<HeadlessSpec>,
    /// The user's runtime directory, where a service manager can be found.
    pub runtime: Option<PathBuf>,
}

/// Makes a session and returns when its program runs.
pub fn create_terminal(
    home: &TerminalHome,
    request: CreateTerminalRequest,
) -> Result<CreateResult, HostFault> {
    let env = parse_variables(&request.env)?;
    let directory = check_request(home, &request)?;
    let id = sys::random::new_ulid()
        .map_err(|error| HostFault::new(FaultCode::InternalError, error.to_string()))?;
    let command =
        if request.command.is_empty() { vec![request.shell.clone()] } else { request.command };
    let start = StartRequest {
        directory: home.sessions_directory().join(&id),
        socket: home.choose_socket(&id),
        session_id: id.clone(),
        personality: home.personality,
        command,
        cwd: directory,
        name: request.name,
        env: env.clone(),
        inherit: [home.inherit.as_slice(), &request.secrets].concat(),
        unset: foreign_session_variables(),
        shell: Some(request.shell.clone()),
        term: request.term,
        cols: request.cols,
        rows: request.rows,
        idle_timeout_ms: request.idle_timeout_ms,
        scrollback_lines: request.scrollback_lines,
        version: home.version.clone(),
        headless: request.headless,
    };
    if let Some(name) = &start.name {
        check_name(home, name)?;
    }
    make_home(home)?;
    let scope = sys::spawn::scope_prefix(&format!("ostler-{id}"), request.runtime.as_deref());
    let manifest = match launch_host(&start, &scope) {
        // A service manager that does not answer is no reason to have no session.
        Err(fault) if !scope.is_empty() && fault.code == FaultCode::HostUnreachable => {
            launch_host(&start, &[])?
        }
        other => other?,
    };
    Ok(CreateResult {
        session_id: id,
        created_at: manifest.created_at,
        cols: manifest.cols,
        rows: manifest.rows,
        shell: request.shell,
        env: (!env.is_empty()).then_some(env),
        idle_timeout_ms: (request.idle_timeout_ms > 0).then_some(request.idle_timeout_ms),
        agent: None,
        agent_session: None,
    })
}

fn launch_host(
    start: &StartRequest,
    scope: &[std::ffi::OsString],
) -> Result<Box<model::hosted::SessionManifest>, HostFault> {
    let failed = |reason: String| {
        HostFault::new(
            FaultCode::HostUnreachable,
            format!("the session's host could not be started: {reason}"),
        )
    };
    let program = sys::spawn::this_program().map_err(|error| failed(error.to_string()))?;
    let mut words = scope.iter().cloned().chain([program.into_os_string()]);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).args([host_role(start.personality), &start.session_id]);
    let mut child = sys::spawn::spawn_detached(sys::spawn::ask_through_pipes(&mut command))
        .map_err(|error| failed(error.to_string()))?;
    let request = serde_json::to_vec(start)
        .map_err(|error| HostFault::new(FaultCode::InternalError, error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&request).map_err(|error| failed(error.to_string()))?;
    }
    let Some(mut stdout) = child.stdout.take() else { return Err(failed("no answer".to_owned())) };
    let line = sys::spawn::read_line_within(&mut stdout, HOST_START_TIMEOUT)
        .map_err(|error| failed(error.to_string()))?;
    // What is reaped is only the process that let go of the host.
    let _ = child.wait();
    let Some(line) = line else { return Err(failed("it said nothing".to_owned())) };
    match serde_json::from_slice(&line) {
        Ok(HostReady::Listening(manifest)) => Ok(manifest),
        Ok(HostReady::Failed(fault)) => Err(fault),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// The hidden word that makes this program a host.
pub const fn host_role(personality: Personality) -> &'static str {
    match personality {
        Personality::Ostler => "host",
        Personality::AgentTty => "_host",
    }
}

/// Refuses a name that could not be used to address its session. agent-tty never addresses by name.
fn check_name(home: &TerminalHome, name: &str) -> Result<(), HostFault> {
    let refuse = |why: String| {
        Err(HostFault::invalid_input(format!("--name `{name}` {why}")).with("name", name))
    };
    if name.is_empty() {
        return refuse("is empty; leave --name out for a session without one".to_owned());
    }
    if home.personality == Personality::AgentTty {
        return Ok(());
    }
    if name == "-" || name == "." || name == ".." {
        return refuse("means another session already; use letters".to_owned());
    }
    if name.chars().any(|c| c == '/' || c == '\\' || c == ':' || c.is_control()) {
        return refuse("must have no `/`, `\\`, `:` or control characters".to_owned());
    }
    let sessions = home.readable_sessions()?;
    let prefix = name.to_ascii_uppercase();
    if let Some(one) = sessions.iter().find(|one| one.id.starts_with(&prefix)) {
        return refuse(format!("is the beginning of the id of session `{}`; use another", one.id));
    }
    let same = sessions.into_iter().filter(|one| one.manifest.name.as_deref() == Some(name));
    match same.map(super::HostedSession::as_settled).find(|one| one.status().is_active()) {
        Some(one) => refuse(format!(
            "is that of the live session `{}`; use another, or `ostler destroy {name}` first",
            one.id
        )),
        None => Ok(()),
    }
}

/// The home is made private; one that exists is verified and left as it is.
pub fn make_home(home: &TerminalHome) -> Result<(), HostFault> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(home.sessions_directory())
        .map_err(|error| super::cannot_write(&home.root, &error))?;
    home.open_sessions().map(|_| ())
}

fn parse_variables(pairs: &[String]) -> Result<BTreeMap<String, String>, HostFault> {
    let split = |pair: &String| match pair.split_once('=') {
        Some((key, value)) if !key.is_empty() && !pair.contains('\0') => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err(HostFault::invalid_input(format!("--env `{pair}` must be KEY=VALUE."))
            .with("env", &**pair)),
    };
    pairs.iter().map(split).collect()
}

/// Checks what can be checked before anything is made; gives the directory.
fn check_request(
    home: &TerminalHome,
    request: &CreateTerminalRequest,
) -> Result<String, HostFault> {
    check_dimensions(request.cols, request.rows)?;
    if request.term.is_empty() {
        return Err(HostFault::invalid_input("--term is empty; leave it out").with("term", ""));
    }
    if !Path::new(&request.shell).is_file() {
        let message = format!("the shell `{}` is no file that exists", request.shell);
        return Err(HostFault::invalid_input(message).with("shellPath", request.shell.clone()));
    }
    let directory = match &request.cwd {
        Some(cwd) => std::path::absolute(cwd),
        None => home.machine.current_dir(),
    };
    let directory = directory.map_err(|error| {
        HostFault::new(FaultCode::StorageReadError, format!("no directory: {error}"))
    })?;
    if !directory.is_dir() {
        let message = format!("the directory `{}` does not exist", directory.display());
        let cwd = directory.to_string_lossy().into_owned();
        return Err(HostFault::new(FaultCode::StorageReadError, message).with("cwd", cwd));
    }
    Ok(directory.to_string_lossy().into_owned())
}

/// A size must have a cell.
pub(super) fn check_dimensions(cols: u16, rows: u16) -> Result<(), HostFault> {
    if cols == 0 || rows == 0 {
        let message = "Columns and rows must be positive integers.";
        let fault = HostFault::new(FaultCode::InvalidDimensions, message);
        return Err(fault.with("cols", cols).with("rows", rows));
    }
    Ok(())
}

/// What names an agent's session in its children: another session's marks.
fn foreign_session_variables() -> Vec<String> {
    let variables =
        adapters::ALL_ADAPTERS.iter().flat_map(|adapter| adapter.agent_profile().session_variables);
    // A question of what is started here is nothing that the agent around it was asked.
    let marker = model::control::permits::PermitMarker::VARIABLE;
    let passwords =
        crate::permit_server::permission_servers().map(|(_, server)| server.password_variable);
    variables.copied().chain([marker]).chain(passwords).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_a_name_and_a_value() {
        let pairs = ["A=1".to_owned(), "B=x=y".to_owned(), "C=".to_owned()];
        let variables = parse_variables(&pairs).unwrap();
        assert_eq!(variables["B"], "x=y");
        assert_eq!(variables["C"], "");
        for wrong in ["", "A", "=x"] {
            assert_eq!(
                super::parse_variables(&[wrong.to_owned()]).unwrap_err().code,
                FaultCode::InvalidInput
            );
        }
    }
}
