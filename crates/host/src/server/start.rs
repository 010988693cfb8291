//! From a creator's request to a running host.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use sys::dropped::NoteDropped;

use model::hosted::{FaultCode, HostFault, SessionManifest};
use model::status::Status;
use model::time::Time;
use screen::Personality;
use serde::{Deserialize, Serialize};
use sys::pty::PtySize;

use super::ending::end_unhosted;
use super::headless::{HeadlessProgram, HeadlessSpec};
use super::host::{Host, HostedPty};
use super::intake::Intake;
use crate::files::{Durability, Holder, SessionDir};
use crate::log;

/// What a creator asks for, on the new host's standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartRequest {
    /// The new session's id.
    pub session_id: String,
    /// Where its files go; does not exist yet.
    pub directory: PathBuf,
    /// Where to listen.
    pub socket: PathBuf,
    /// Under which name it was asked for.
    pub personality: Personality,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where to start it.
    pub cwd: String,
    pub name: Option<String>,
    /// Variables for the program.
    pub env: BTreeMap<String, String>,
    /// Further variables, which the manifest does not list.
    #[serde(default)]
    pub inherit: Vec<(String, String)>,
    /// Variables that the program must not inherit.
    pub unset: Vec<String>,
    pub shell: Option<String>,
    /// What `TERM` says.
    pub term: String,
    pub cols: u16,
    pub rows: u16,
    /// After how long without input or output it is hung up; 0 for never.
    pub idle_timeout_ms: u64,
    /// How much of what scrolls away is kept.
    pub scrollback_lines: usize,
    /// The version of ostler.
    pub version: String,
    /// Without a terminal, and how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headless: Option<HeadlessSpec>,
}

/// What a new host says on its standard output, once.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HostReady {
    /// It listens, and the program runs (or could not be run, which is an exit).
    Listening(Box<SessionManifest>),
    /// There is no session.
    Failed(HostFault),
}

/// Variables of another terminal or session that would mislead a program in this one.
const FOREIGN_VARIABLES: &[&str] = &[
    "OSTLER_SESSION",
    "OSTLER_PAUSE",
    "AGENT_TTY_SESSION",
    "AGENT_TTY_HOST_RENDERER",
    "TMUX",
    "TMUX_PANE",
    "STY",
    "WINDOW",
    "ZELLIJ",
    "ZELLIJ_SESSION_NAME",
    "ZELLIJ_PANE_ID",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERM_SESSION_ID",
    "TERMINFO",
    "VTE_VERSION",
    "KITTY_WINDOW_ID",
    "KITTY_PID",
    "WEZTERM_PANE",
    "WEZTERM_UNIX_SOCKET",
    "ITERM_SESSION_ID",
    "ALACRITTY_WINDOW_ID",
    "WINDOWID",
    "WT_SESSION",
    "KONSOLE_DBUS_SESSION",
    "LINES",
    "COLUMNS",
    "CLAUDECODE",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "CODEX_THREAD_ID",
    "CODEX_SANDBOX",
    "GEMINI_CLI",
    "OPENCODE",
    "OPENCODE_PID",
    "QWEN_CODE",
    "CURSOR_AGENT",
];

/// Why there is no session.
struct FailedStart {
    fault: HostFault,
    /// Whether its program was started and could not be ended: what there is of it stays.
    runs_on: bool,
}

impl From<HostFault> for FailedStart {
    fn from(fault: HostFault) -> Self {
        Self { fault, runs_on: false }
    }
}

/// Makes the session: directory, log, socket, program, manifest, in this order. What was made is
/// removed again when a later step fails; a program that was started is ended before.
pub(super) fn start_host(request: StartRequest, now: Time) -> Result<Host, HostFault> {
    let directory = request.directory.clone();
    let parent = directory.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(parent).map_err(|error| storage_fault(parent, &error))?;
    // Not recursive: an id that exists already is never taken over.
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
        .create(&directory)
        .map_err(|error| storage_fault(&directory, &error))?;
    let socket = request.socket.clone();
    make_session(request, now).map_err(|failed| {
        if !failed.runs_on {
            // Nothing runs in it, and nothing that did was read.
            #[expect(clippy::disallowed_methods, reason = "it was made a moment ago, for this")]
            std::fs::remove_dir_all(&directory).note_dropped("removing a session that never began");
        }
        #[expect(clippy::disallowed_methods, reason = "the socket of this process")]
        sys::socket::abandon_socket(&socket);
        failed.fault
    })
}

fn make_session(mut request: StartRequest, now: Time) -> Result<Host, FailedStart> {
    let shown = screen::ScreenSize { cols: request.cols, rows: request.rows }.clamped();
    (request.cols, request.rows) = (shown.cols, shown.rows);
    let directory = request.directory.clone();
    let io = |error: io::Error| storage_fault(&directory, &error);
    let files = SessionDir::adopt(&directory)
        .map_err(|error| HostFault::new(FaultCode::StorageWriteError, error.to_string()))?;
    let log = log::LogWriter::create(&directory, request.personality).map_err(io)?;
    let listener = sys::socket::listen_private(&request.socket)
        .map_err(|error| HostFault::new(FaultCode::StorageWriteError, error.to_string()))?;
    set_nonblocking(&listener).map_err(io)?;
    let started = start_program(&request, &directory);
    let host = sys::proc::identify_self().ok_or_note("the identity of a host");
    let (terminal, headless, refused) = match started {
        Ok(StartedProgram::OnPty(terminal)) => (Some(terminal), None, None),
        Ok(StartedProgram::OnPipes(headless)) => (None, Some(headless), None),
        // agent-tty makes a session that has exited; here there is none.
        Err(error) if request.personality == Personality::Ostler => {
            let program = &request.command[0];
            let message = format!(
                "cannot run `{program}`: {error}; give the path of a program, or a name on the PATH"
            );
            return Err(HostFault::invalid_input(message).into());
        }
        Err(error) => (None, None, Some(error)),
    };
    let program = terminal.as_ref().map(|terminal| &terminal.program);
    let program = program.or(headless.as_ref().map(|headless| &headless.program));
    let child_pid = program.map(sys::pty::PtyProgram::pid);
    let child = child_pid
        .and_then(|pid| sys::proc::identify_process(pid).ok_or_note("the identity of a program"));
    let manifest = describe_session(&request, child_pid, now);
    let holder = Holder {
        host: host.unwrap_or_default(),
        child,
        socket: request.socket.clone(),
        version: request.version.clone(),
    };
    let recorded = files.write_holder(&holder).and_then(|()| {
        sys::pause::pause_at("host-before-manifest");
        files.write_manifest(&manifest, Durability::System)
    });
    if let Err(error) = recorded {
        let started = terminal.map(StartedProgram::OnPty);
        let started = started.or(headless.map(StartedProgram::OnPipes));
        return Err(abandon_start(started, &files, manifest, &io(error)));
    }
    let mut host = Host::new(request, files, manifest, log, listener, terminal);
    host.headless = headless;
    if let Some(error) = refused {
        host.could_not_run(&error, now);
    }
    Ok(host)
}

fn describe_session(request: &StartRequest, child_pid: Option<u32>, now: Time) -> SessionManifest {
    SessionManifest {
        version: 1,
        session_id: request.session_id.clone(),
        created_at: now,
        updated_at: now,
        status: Status::Running,
        failure_reason: None,
        failure_origin: None,
        command: request.command.clone(),
        cwd: request.cwd.clone(),
        name: request.name.clone(),
        env: (!request.env.is_empty()).then(|| request.env.clone()),
        shell: request.shell.clone(),
        term: Some(request.term.clone()),
        cols: request.cols,
        rows: request.rows,
        creation_cols: Some(request.cols),
        creation_rows: Some(request.rows),
        idle_timeout_ms: (request.idle_timeout_ms > 0).then_some(request.idle_timeout_ms),
        host_pid: Some(std::process::id()),
        child_pid,
        exit_code: None,
        exit_signal: None,
    }
}

/// Ends what was started for a session that cannot be written down: without a host nobody could see it,
/// and nobody would end it.
fn abandon_start(
    started: Option<StartedProgram>,
    files: &SessionDir,
    mut manifest: SessionManifest,
    fault: &HostFault,
) -> FailedStart {
    let (ended, what) = match started {
        None => (true, "nothing was started"),
        Some(started) => match started.end_unhosted() {
            true => (true, "its program had begun and was ended"),
            false => (false, "its program had begun and could not be ended"),
        },
    };
    let message = format!("{}; {what}", fault.message);
    if !ended {
        (manifest.status, manifest.failure_reason) = (Status::Failed, Some(message.clone()));
        files.write_manifest(&manifest, Durability::System).note_dropped("a failed start");
    }
    FailedStart { fault: HostFault::new(fault.code, message), runs_on: !ended }
}

enum StartedProgram {
    OnPty(HostedPty),
    OnPipes(HeadlessProgram),
}

impl StartedProgram {
    /// Says whether it is gone.
    fn end_unhosted(self) -> bool {
        match self {
            Self::OnPty(pty) => end_unhosted(pty.program, Some(&pty.master)),
            Self::OnPipes(headless) => end_unhosted(headless.program, None),
        }
    }
}

fn start_program(request: &StartRequest, directory: &Path) -> io::Result<StartedProgram> {
    let command = program_command(request);
    if let Some(spec) = &request.headless {
        return HeadlessProgram::start(spec, command, directory).map(StartedProgram::OnPipes);
    }
    let size = PtySize { cols: request.cols, rows: request.rows };
    let (master, program) = sys::pty::spawn_on_pty(command, size)?;
    let master = Arc::new(master);
    let watched = program
        .end_watch()
        .and_then(|watch| Ok((watch, Intake::start_reading(Arc::clone(&master))?)));
    match watched {
        Ok((watch, intake)) => {
            Ok(StartedProgram::OnPty(HostedPty { master, intake, program, watch }))
        }
        Err(error) => {
            end_unhosted(program, Some(&master));
            Err(error)
        }
    }
}

fn program_command(request: &StartRequest) -> Command {
    let mut command = Command::new(&request.command[0]);
    command.args(&request.command[1..]).current_dir(&request.cwd);
    for name in FOREIGN_VARIABLES.iter().copied().chain(request.unset.iter().map(String::as_str)) {
        command.env_remove(name);
    }
    command.env("TERM", &request.term);
    // zsh would otherwise mark the line whose echo `run` takes out.
    command.env("PROMPT_EOL_MARK", "");
    if request.personality == Personality::Ostler {
        command.env("OSTLER_SESSION", &request.session_id);
    }
    command.envs(request.inherit.iter().map(|(name, value)| (name, value)));
    command.envs(&request.env);
    command
}

fn set_nonblocking(listener: &UnixListener) -> io::Result<()> {
    listener.set_nonblocking(true)
}

fn storage_fault(path: &Path, error: &io::Error) -> HostFault {
    let message = format!("cannot make the session at {}: {error}", path.display());
    HostFault::new(FaultCode::StorageWriteError, message)
}
