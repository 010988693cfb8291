//! Open an access session: a directory of its own, a keeper with an ssh-agent, keys with a lifetime,
//! and the record of it all, written last.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;
use sys::dropped::NoteDropped;

use crate::rules::agent_env::{AgentEnv, is_socket_path};
use crate::rules::log::AccessEvent;
use crate::rules::meta::{
    AccessMeta, MAX_KEYS, MAX_LABEL_CHARS, META_SCHEMA_VERSION, ProcessRecord, SessionBinding,
    TTL_SECONDS_RANGE,
};
use crate::rules::{
    AGENT_ENV_FILE, COMMAND_BINDING, KEYS_SOCKET, LENT_SOCKET, META_FILE, SESSION_FILE_NAMES,
    may_be_secret,
};
use crate::timeouts::KEEPER_HANG_TIMEOUT;
use model::rules::judge::Verdict;
use model::session::{Certainty, Session};
use sys::machine::{Machine, Moment};
use sys::private::PrivateDir;

use super::keeper::{COMMIT, KeeperOrder, KeeperOutput};
use super::root::AccessRoot;
use super::{AccessError, client, log, random_word};

/// What is to be opened.
#[derive(Debug)]
pub struct OpenAccessRequest {
    pub ttl: Duration,
    /// What to call it.
    pub label: Option<String>,
    /// Files of private keys. ssh-add reads them; ostler does not.
    pub keys: Vec<PathBuf>,
    /// Whether to make a new key that is nowhere but in the agent.
    pub generate: bool,
    /// Whether each use asks a person.
    pub confirm: bool,
    /// Where the keys may be used.
    pub destinations: Vec<String>,
    /// Where the keys of these hosts are, if not in the user's own list.
    pub known_hosts: Option<PathBuf>,
    /// Whether the borrower may add keys.
    pub allow_add: bool,
    /// Whether a signature that cannot be logged is given all the same.
    pub signs_unlogged: bool,
    /// The session it is lent to.
    pub binding: Option<SessionBinding>,
}

/// Variables that a person's desktop needs to be asked by the agent.
const DESKTOP_VARIABLES: [&str; 7] = [
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "SSH_ASKPASS",
    "SSH_ASKPASS_REQUIRE",
];

/// Opens the session and returns its record and what a borrower needs.
pub fn open_access(
    request: &OpenAccessRequest,
    machine: &Machine,
) -> Result<(AccessMeta, AgentEnv), AccessError> {
    let version = openssh_version()?;
    refuse_nonsense(request, &version)?;
    let root = AccessRoot::create(machine.home())?;
    let word = random_word().map_err(AccessError::io_error("choose an id"))?;
    let id = format!("a-{word}");
    let socket = root.socket_path(&id).to_str().map(str::to_owned);
    let socket =
        socket.filter(|path| is_socket_path(path)).ok_or_else(|| AccessError::Refused {
            what: format!(
                "`{}` is too long or too strange for a socket",
                root.sessions_path().display()
            ),
            hint: "set OSTLER_HOME to a short, plain path".to_owned(),
        })?;
    let busy = || AccessError::Failed { what: format!("`{id}` is locked by another command") };
    let locked =
        root.lock_session(&id).map_err(|error| AccessError::Failed { what: error.to_string() })?;
    let _lock = locked.ok_or_else(busy)?;
    let dir = root.sessions().create_child(OsStr::new(&id));
    let dir = dir.map_err(AccessError::io_error("make the session's directory"))?;
    let opened = fill_directory(request, machine, &root, &dir, &id, socket, version);
    if opened.is_err() {
        remove_failed_opening(&root, &dir, &id);
    }
    opened
}

fn refuse_nonsense(request: &OpenAccessRequest, version: &str) -> Result<(), AccessError> {
    let refuse = |what: &str, hint: &str| {
        Err(AccessError::Refused { what: what.to_owned(), hint: hint.to_owned() })
    };
    if !TTL_SECONDS_RANGE.contains(&request.ttl.as_secs()) {
        return refuse(
            "a session lives between a minute and a day",
            "write `--ttl` like 30m or 8h",
        );
    }
    if let Some(label) = &request.label {
        let plain = label.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if label.len() > MAX_LABEL_CHARS || !plain {
            return refuse(
                "a label is at most 64 plain characters",
                "choose a shorter, plainer one",
            );
        }
        if may_be_secret(label) {
            return refuse(
                "the label looks like a key",
                "a label is shown to everybody; choose another",
            );
        }
    }
    let count = request.keys.len() + usize::from(request.generate);
    if count > MAX_KEYS || request.destinations.len() > MAX_KEYS {
        return refuse("a session holds at most 32 keys and destinations", "open two sessions");
    }
    if count == 0 && (request.confirm || !request.destinations.is_empty()) {
        return refuse(
            "there is no key to constrain",
            "name one with `--key`, or `--generate` one",
        );
    }
    if !request.destinations.is_empty() && !supports_destinations(version) {
        return refuse(
            &format!("{version} cannot limit a key to destinations"),
            "that needs OpenSSH 8.9 or newer; open the session without `--destination`",
        );
    }
    Ok(())
}

/// What `ssh -V` calls itself.
fn openssh_version() -> Result<String, AccessError> {
    let output = Command::new("ssh")
        .arg("-V")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| AccessError::Program { program: "ssh", source })?;
    let text = String::from_utf8_lossy(&output.stderr);
    let word = text.split([' ', ',', '\n']).next().unwrap_or("");
    let plain = word.chars().filter(|c| c.is_ascii_graphic()).take(MAX_LABEL_CHARS).collect();
    Ok(plain)
}

fn supports_destinations(version: &str) -> bool {
    let numbers = version.strip_prefix("OpenSSH_").unwrap_or("");
    let mut parts = numbers.split(['.', 'p']).map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (8, 9)
}

/// A keeper. Until it is told that the session is written down, letting go of it ends it.
struct Keeper {
    pid: u32,
    agent: u32,
    control: Option<ChildStdin>,
    voice: KeeperOutput,
    committed: bool,
}

impl Keeper {
    fn commit(mut self) -> Result<(), AccessError> {
        let told = self.control.as_mut().map_or(Ok(()), |pipe| pipe.write_all(COMMIT.as_bytes()));
        told.map_err(AccessError::io_error("tell the keeper"))?;
        self.committed = true;
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.control = None;
        if !self.committed {
            // What it leaves behind if it hangs is listed as unknown.
            self.voice.await_end(KEEPER_HANG_TIMEOUT);
        }
    }
}

fn fill_directory(
    request: &OpenAccessRequest,
    machine: &Machine,
    root: &AccessRoot,
    dir: &PrivateDir,
    id: &str,
    socket: String,
    version: String,
) -> Result<(AccessMeta, AgentEnv), AccessError> {
    let read_only = !request.allow_add && (request.generate || !request.keys.is_empty());
    let ttl_s = request.ttl.as_secs();
    let order = KeeperOrder {
        home: machine.home().to_owned(),
        id: id.to_owned(),
        ttl_s,
        read_only,
        signs_unlogged: request.signs_unlogged,
    };
    // First: what is written down must not end later than what the keeper and the keys think.
    let Moment { now: created_at, since_boot } = machine.read_clocks();
    let expires_boottime_s = since_boot.as_secs() + ttl_s;
    let keeper = start_keeper(request, machine, &order)?;
    let agent_pid = keeper.agent;
    let agent = record_process(machine, agent_pid)?;
    let keeper_record = record_process(machine, keeper.pid)?;
    add_keys(request, root, id)?;
    let mut stream =
        client::connect_agent(dir, KEYS_SOCKET).map_err(AccessError::io_error("ask the agent"))?;
    let peer = sys::socket::peer_credentials(&stream).ok().and_then(|peer| peer.pid);
    if peer.is_some_and(|pid| pid != agent_pid) {
        let what = "another process listens on the agent's socket".to_owned();
        return Err(AccessError::Failed { what });
    }
    let keys = client::list_identities(&mut stream)
        .map_err(AccessError::io_error("list the agent's keys"))?;
    let env = AgentEnv { socket, pid: agent_pid };
    let meta = AccessMeta {
        schema: META_SCHEMA_VERSION,
        id: id.to_owned(),
        label: request.label.clone(),
        created_at,
        expires_at: created_at.plus(request.ttl),
        ttl_s,
        created_boot: agent.boot.clone(),
        expires_boottime_s,
        agent,
        keeper: Some(keeper_record),
        keys,
        openssh_version: version,
        confirm: request.confirm,
        read_only,
        destinations: request.destinations.clone(),
        session: request.binding.clone(),
    };
    let bytes = serde_json::to_vec_pretty(&meta)
        .map_err(|error| AccessError::Failed { what: error.to_string() })?;
    // What could not be read back must not be lent.
    AccessMeta::parse_for(&bytes, id)
        .map_err(|skip| AccessError::Failed { what: skip.reason_text() })?;
    let text = env.to_text();
    dir.write_atomic(AGENT_ENV_FILE, text.as_bytes())
        .map_err(AccessError::io_error("write agent.env"))?;
    sys::pause::pause_at("access-open-before-meta");
    dir.write_atomic(META_FILE, &bytes).map_err(AccessError::io_error("write meta.json"))?;
    let event = AccessEvent::from_opening(&meta.keys, meta.expires_at);
    log::append_event(root, id, event, machine.read_clock())
        .map_err(AccessError::io_error("write the log"))?;
    keeper.commit()?;
    Ok((meta, env))
}

fn record_process(machine: &Machine, pid: u32) -> Result<ProcessRecord, AccessError> {
    let identity = machine
        .identify_process(pid)
        .map_err(|error| AccessError::Failed { what: error.to_string() })?;
    ProcessRecord::from_identity(&identity)
        .ok_or_else(|| AccessError::Failed { what: format!("process {pid} has no identity") })
}

fn start_keeper(
    request: &OpenAccessRequest,
    machine: &Machine,
    order: &KeeperOrder,
) -> Result<Keeper, AccessError> {
    let program = sys::spawn::this_program().map_err(AccessError::io_error("find this program"))?;
    let mut command = Command::new(program);
    command.arg0("ostler").args(order.to_args()).current_dir("/").env_clear();
    let wanted = ["PATH", "OSTLER_PAUSE", "OSTLER_LOG"].into_iter();
    let asking = DESKTOP_VARIABLES.into_iter().filter(|_| request.confirm);
    for name in wanted.chain(asking) {
        if let Some(value) = machine.env().get(name) {
            command.env(name, value);
        }
    }
    let mut child = sys::spawn::spawn_detached(sys::spawn::ask_through_pipes(&mut command))
        .map_err(AccessError::io_error("start the keeper"))?;
    let (control, stdout) = (child.stdin.take(), child.stdout.take());
    // It has handed over to the keeper, which is no child of ours.
    let _ = child.wait();
    let failed = || AccessError::Failed {
        what: "the ssh-agent could not be started; is OpenSSH installed?".to_owned(),
    };
    let voice = KeeperOutput::from_stdout(stdout.ok_or_else(failed)?);
    let (agent, pid) = voice.await_ready().ok_or_else(failed)?;
    Ok(Keeper { pid, agent, control, voice, committed: false })
}

/// Adds the keys through the agent's own socket: the lent one may refuse.
fn add_keys(request: &OpenAccessRequest, root: &AccessRoot, id: &str) -> Result<(), AccessError> {
    let socket = root.sessions_path().join(id).join(KEYS_SOCKET);
    for file in &request.keys {
        let mut command = ssh_add_command(request, &socket);
        // A name that begins with a dash is a file all the same.
        let file = std::path::absolute(file).map_err(AccessError::io_error("name the key"))?;
        run_ssh_add(command.arg(file).stdin(Stdio::null()), None)?;
    }
    if request.generate {
        let key = new_key(id)?;
        run_ssh_add(ssh_add_command(request, &socket).arg("-").stdin(Stdio::piped()), Some(&key))?;
    }
    Ok(())
}

fn ssh_add_command(request: &OpenAccessRequest, socket: &Path) -> Command {
    let mut command = Command::new("ssh-add");
    command.env("SSH_AUTH_SOCK", socket).env_remove("SSH_AGENT_PID");
    command.args(["-q", "-t", &request.ttl.as_secs().to_string()]);
    if request.confirm {
        command.arg("-c");
    }
    if let Some(file) = &request.known_hosts {
        command.arg("-H").arg(file);
    }
    for host in &request.destinations {
        command.args(["-h", host]);
    }
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// A new key. It is in this process's memory and in the agent's, and never in a file.
fn new_key(id: &str) -> Result<ssh_key::private::PrivateKey, AccessError> {
    use ssh_key::private::PrivateKey;
    let shut = AccessError::io_error("keep memory to ourselves");
    sys::spawn::forbid_dumps().map_err(shut)?;
    let failed = |error: ssh_key::Error| AccessError::Failed { what: error.to_string() };
    let mut random = ssh_key::rand_core::OsRng;
    let mut key = PrivateKey::random(&mut random, ssh_key::Algorithm::Ed25519).map_err(failed)?;
    key.set_comment(format!("ostler {id}"));
    Ok(key)
}

/// Runs ssh-add; its own words are passed on when it fails, unless they could hold a key.
fn run_ssh_add(
    command: &mut Command,
    key: Option<&ssh_key::private::PrivateKey>,
) -> Result<(), AccessError> {
    let start = |source| AccessError::Program { program: "ssh-add", source };
    let mut child = command.spawn().map_err(start)?;
    if let (Some(key), Some(mut pipe)) = (key, child.stdin.take()) {
        let text = key.to_openssh(ssh_key::LineEnding::LF);
        let text = text.map_err(|error| AccessError::Failed { what: error.to_string() })?;
        pipe.write_all(text.as_bytes())
            .map_err(AccessError::io_error("hand the key to ssh-add"))?;
    }
    let mut words = String::new();
    if let Some(stderr) = child.stderr.take() {
        // What cannot be read is not passed on.
        let _ = stderr.take(4096).read_to_string(&mut words);
    }
    let status = child.wait().map_err(start)?;
    if status.success() {
        return Ok(());
    }
    let line = words.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    let line = if may_be_secret(line) { "its reason is not shown" } else { line };
    Err(AccessError::Key { words: crate::rules::escape_untrusted(line) })
}

/// Removes what a failed opening has made: the known names, then the empty directory.
#[expect(clippy::disallowed_methods, reason = "what this process made and did not finish")]
fn remove_failed_opening(root: &AccessRoot, dir: &PrivateDir, id: &str) {
    for name in SESSION_FILE_NAMES.into_iter().filter(|name| *name != LENT_SOCKET) {
        // Most were never made. What stays is listed as unknown.
        dir.unlink_name(OsStr::new(name)).note_dropped("removing what a failed opening made");
    }
    root.sessions()
        .remove_child(OsStr::new(id))
        .note_dropped("removing what a failed opening made");
}

/// Binds an access to this very process across `exec`: when it ends, the access does.
pub fn bind_to_this_process(
    program: &str,
    machine: &Machine,
) -> Result<SessionBinding, AccessError> {
    let owner = record_process(machine, std::process::id())?;
    let id = program.chars().take(64).collect::<String>();
    let id = if may_be_secret(&id) { String::new() } else { id };
    Ok(SessionBinding { agent: COMMAND_BINDING.to_owned(), id, owner })
}

/// Binds an access to a session that is proven to be alive.
pub fn bind_to_session(
    session: &Session,
    verdict: &Verdict,
    machine: &Machine,
) -> Result<SessionBinding, AccessError> {
    let name = format!("{}:{}", session.agent, session.id);
    let refuse = |why: &str| AccessError::Refused {
        what: format!("no access can be bound to `{name}`: {why}"),
        hint: format!("`ostler why {name}` shows what is known of its process"),
    };
    if !verdict.liveness.is_alive() || verdict.certainty != Certainty::Proven {
        return Err(refuse("its process is not proven to be alive"));
    }
    let claim = verdict.decided_by.and_then(|index| session.claims.get(index));
    let recorded = claim.map(|claim| &claim.identity).ok_or_else(|| refuse("it has no process"))?;
    let pid = recorded.pid.ok_or_else(|| refuse("its process has no pid"))?;
    // What the agent wrote down may be little; what we write down is everything, about the same one.
    let identity =
        machine.identify_process(pid).map_err(|_| refuse("its process has just ended"))?;
    let same = machine.probe_process(recorded).is_alive()
        && (recorded.start.is_none() || recorded.start == identity.start);
    let owner = ProcessRecord::from_identity(&identity).filter(|_| same);
    Ok(SessionBinding {
        agent: session.agent.to_owned(),
        id: session.id.clone(),
        owner: owner.ok_or_else(|| refuse("its process has just ended"))?,
    })
}
