//! The keeper: one small process for each open session. It is the parent of the ssh-agent and serves
//! the lent socket in front of it.
//!
//! It is started by `open` and reports on its standard output when the agent is ready; until `open`
//! says that the session is written down, the end of its standard input means that the opener has gone.
//! Then it ends when its agent does, ends its agent when the time is over, and has the session
//! stopped when the session it was lent to is gone. It sleeps in the kernel all the while.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use sys::dropped::NoteDropped;

use crate::rules::log::AccessEvent;
use crate::rules::meta::{AccessMeta, ProcessRecord};
use crate::rules::{AGENT_ENV_FILE, KEYS_SOCKET, LENT_SOCKET, MAX_META_BYTES, META_FILE};
use crate::timeouts::{
    ACCEPT_BACKOFF, AGENT_START_INTERVAL, AGENT_START_TIMEOUT, KEEPER_READY_TIMEOUT,
};
use model::identity::Identity;
use sys::machine::Machine;
use sys::proc::Signal;

use super::connections::Connections;
use super::proxy::{self, ProxyPolicy};
use super::root::AccessRoot;
use super::{AccessError, client};

/// The first argument that makes the binary a keeper.
pub const KEEPER_ROLE: &str = "__access-keeper";
/// What the opener writes when the session is written down.
pub(super) const COMMIT: &str = "commit\n";

/// What a keeper is told.
#[derive(Debug)]
pub struct KeeperOrder {
    pub home: PathBuf,
    pub id: String,
    /// How long the keys live.
    pub ttl_s: u64,
    /// Whether requests that add or remove keys are refused.
    pub read_only: bool,
    /// Whether a signature that cannot be logged is given all the same.
    pub signs_unlogged: bool,
}

impl KeeperOrder {
    pub(super) fn to_args(&self) -> [OsString; 6] {
        [
            KEEPER_ROLE.into(),
            self.home.clone().into_os_string(),
            self.id.clone().into(),
            self.ttl_s.to_string().into(),
            if self.read_only { "read-only" } else { "open" }.into(),
            if self.signs_unlogged { "best-effort" } else { "strict" }.into(),
        ]
    }

    /// From the arguments after the role.
    pub fn from_args(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        let home = PathBuf::from(args.next()?);
        let id = args.next()?.into_string().ok()?;
        let ttl_s = args.next()?.to_str()?.parse().ok()?;
        let read_only = args.next()? == "read-only";
        let signs_unlogged = args.next()? == "best-effort";
        let whole = args.next().is_none() && crate::rules::is_id(&id);
        whole.then_some(Self { home, id, ttl_s, read_only, signs_unlogged })
    }
}

/// What a keeper waits for.
enum KeeperEvent {
    AgentEnded,
    Committed,
    Abandoned,
    TimeIsOver,
    OwnerEnded,
}

/// Keeps a session until its agent ends.
///
/// An opener may also be gone before the session was written down: then what it made is removed.
pub fn run_keeper(order: KeeperOrder) -> Result<(), AccessError> {
    sys::spawn::close_inherited();
    sys::log::log_role_in(&order.home, "keeper");
    let machine = Machine::with_home(order.home.clone());
    let deadline = machine.began().since_boot + Duration::from_secs(order.ttl_s + 1);
    let shut = AccessError::io_error("keep memory to ourselves");
    sys::spawn::keep_memory_to_ourselves().map_err(shut)?;
    let nowhere = || AccessError::Failed { what: "the session's directory is missing".to_owned() };
    let root = AccessRoot::find(machine.home())?.ok_or_else(nowhere)?;
    let open = |root: &AccessRoot| root.sessions().open_child(OsStr::new(&order.id));
    let dir = open(&root).map_err(AccessError::io_error("open the session's directory"))?;
    let path = root.sessions_path().join(&order.id);
    let (happened, inbox) = mpsc::channel();

    let mut agent = Command::new("ssh-agent")
        .arg("-D")
        .arg("-a")
        .arg(path.join(KEYS_SOCKET))
        .args(["-t", &order.ttl_s.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| AccessError::Program { program: "ssh-agent", source })?;
    let pid = agent.id();
    await_agent(&dir, &mut agent)?;
    let identity = machine
        .identify_process(pid)
        .map_err(|error| AccessError::Failed { what: error.to_string() })?;
    let listener = sys::socket::listen_private(&path.join(LENT_SOCKET))
        .map_err(|error| AccessError::Failed { what: error.to_string() })?;
    let lent = dir.facts_of(OsStr::new(LENT_SOCKET)).ok().flatten();

    let ended = happened.clone();
    std::thread::spawn(move || {
        // The answer does not matter: the agent is gone.
        let _ = agent.wait();
        let _ = ended.send(KeeperEvent::AgentEnded);
    });
    let over = happened.clone();
    std::thread::spawn(move || {
        sys::clock::sleep_until_boottime(deadline);
        let _ = over.send(KeeperEvent::TimeIsOver);
    });
    let policy = ProxyPolicy {
        machine,
        root,
        dir,
        id: order.id.clone(),
        read_only: order.read_only,
        signs_unlogged: order.signs_unlogged,
        refusals: Mutex::default(),
    };
    let policy = Arc::new(policy);
    let serving = Arc::clone(&policy);
    std::thread::spawn(move || accept_borrowers(&listener, &serving));
    let told = happened.clone();
    std::thread::spawn(move || listen_to_opener(&told));
    report_ready(pid)?;

    let committed = attend_agent(&inbox, &happened, &policy, &identity, &order);
    // Only what we made: a socket that another process put in its place is not ours.
    if policy.dir.facts_of(OsStr::new(LENT_SOCKET)).ok().flatten().map(|now| now.inode)
        == lent.map(|lent| lent.inode)
    {
        #[expect(clippy::disallowed_methods, reason = "the socket of this process")]
        let unlinked = policy.dir.unlink_name(OsStr::new(LENT_SOCKET));
        unlinked.note_dropped("removing the lent socket");
    }
    if !committed && matches!(policy.dir.facts_of(OsStr::new(META_FILE)), Ok(None)) {
        // The opener died before there was a record: nothing else describes this directory.
        #[expect(clippy::disallowed_methods, reason = "what its opener made and did not finish")]
        let removed = [
            policy.dir.unlink_name(OsStr::new(AGENT_ENV_FILE)),
            policy.root.sessions().remove_child(OsStr::new(&policy.id)),
        ];
        for one in removed {
            one.note_dropped("removing an opening that was not finished");
        }
    }
    Ok(())
}

/// Waits for what happens, until the agent ends; says whether the session was written down.
fn attend_agent(
    inbox: &mpsc::Receiver<KeeperEvent>,
    happened: &Sender<KeeperEvent>,
    policy: &Arc<ProxyPolicy>,
    agent: &Identity,
    order: &KeeperOrder,
) -> bool {
    let mut committed = false;
    loop {
        let end_agent = || {
            // If it cannot be ended it is still recorded, and `access stop` says so.
            let machine = policy.machine.next_turn();
            sys::proc::signal_process(agent, Signal::Terminate, machine.observer())
                .note_dropped("ending a lent agent");
        };
        match inbox.recv() {
            Ok(KeeperEvent::AgentEnded) | Err(_) => break,
            Ok(KeeperEvent::Committed) => {
                committed = true;
                watch_owner(policy, happened.clone());
            }
            Ok(KeeperEvent::Abandoned) => end_agent(),
            Ok(KeeperEvent::TimeIsOver) => {
                policy.log_event(AccessEvent::Expired);
                end_agent();
            }
            Ok(KeeperEvent::OwnerEnded) => stop_orphaned(order),
        }
    }
    if committed {
        policy.log_event(AccessEvent::AgentEnded);
    }
    committed
}

/// Waits until the agent accepts connections, and is the process that we started.
fn await_agent(
    dir: &sys::private::PrivateDir,
    agent: &mut std::process::Child,
) -> Result<(), AccessError> {
    let begun = Instant::now();
    loop {
        if let Ok(stream) = client::connect_agent(dir, KEYS_SOCKET) {
            let pid = sys::socket::peer_credentials(&stream).ok().and_then(|peer| peer.pid);
            if pid.is_none_or(|pid| pid == agent.id()) {
                return Ok(());
            }
            let what = "another process listens on the agent's socket".to_owned();
            return Err(AccessError::Failed { what });
        }
        let exited = agent.try_wait().ok().flatten().is_some();
        if exited || begun.elapsed() > AGENT_START_TIMEOUT {
            // It is our own child, not yet reaped: the number is its own.
            let _ = agent.kill();
            let _ = agent.wait();
            return Err(AccessError::Failed { what: "ssh-agent did not start".to_owned() });
        }
        std::thread::sleep(AGENT_START_INTERVAL);
    }
}

fn report_ready(pid: u32) -> Result<(), AccessError> {
    let mut out = std::io::stdout().lock();
    let told = writeln!(out, "ready {pid} {}", std::process::id()).and_then(|()| out.flush());
    told.map_err(AccessError::io_error("report to the opener"))
}

fn listen_to_opener(happened: &Sender<KeeperEvent>) {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    let committed = read.is_ok() && line == COMMIT;
    let _ = happened.send(if committed { KeeperEvent::Committed } else { KeeperEvent::Abandoned });
}

fn accept_borrowers(listener: &UnixListener, policy: &Arc<ProxyPolicy>) {
    let connections = Arc::new(Connections::default());
    sys::sender::attribute_senders(listener).note_dropped("asking for the senders of requests");
    for number in 0u64.. {
        connections.wait_for_room();
        let entered = listener.accept().and_then(|(connection, _)| {
            let turn = connections.enter(number, &connection)?;
            Ok((connection, turn))
        });
        let Ok((connection, turn)) = entered else {
            // No descriptor left: wait until a connection closes.
            std::thread::sleep(ACCEPT_BACKOFF);
            continue;
        };
        let policy = Arc::clone(policy);
        std::thread::spawn(move || {
            // A connection that breaks is the borrower's business.
            proxy::serve_borrower(&policy, connection, &turn).note_dropped("serving a borrower");
        });
    }
}

/// Waits for the end of the session that this access was lent to, if it was lent to one.
fn watch_owner(policy: &ProxyPolicy, happened: Sender<KeeperEvent>) {
    let meta = policy
        .dir
        .read_private(META_FILE, MAX_META_BYTES)
        .ok_or_note("the owner of an access session");
    let meta = meta.and_then(|(bytes, _)| AccessMeta::parse_for(&bytes, &policy.id).ok());
    let owner = meta.and_then(|meta| meta.session).map(|binding| binding.owner);
    let Some(owner) = owner.as_ref().map(ProcessRecord::to_identity) else { return };
    let machine = policy.machine.next_turn();
    std::thread::spawn(move || {
        // Where the system cannot tell, the next `access stop --orphaned` finds out.
        if sys::proc::wait_for_end(&owner, machine.observer()).is_dead() {
            let _ = happened.send(KeeperEvent::OwnerEnded);
        }
    });
}

/// Has the session stopped by the one piece of code that stops sessions, which proves everything
/// again for itself. It ends our agent, and with it us.
fn stop_orphaned(order: &KeeperOrder) {
    let Ok(program) = sys::spawn::this_program() else { return };
    let mut program = Command::new(program);
    let started = program
        .args(["access", "stop", "--orphaned"])
        .env("OSTLER_HOME", &order.home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Ok(mut child) = started {
        std::thread::spawn(move || child.wait());
    }
}

/// What an opener hears from a keeper: first that it is ready, then that it has ended.
#[derive(Debug)]
pub(super) struct KeeperOutput(mpsc::Receiver<String>);

impl KeeperOutput {
    pub(super) fn from_stdout(stdout: std::process::ChildStdout) -> Self {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = std::io::BufReader::new(stdout).lines();
            let ready = lines.next().and_then(Result::ok).unwrap_or_default();
            let _ = sender.send(ready);
            // It says nothing more: this returns when it has ended.
            let _ = lines.next();
        });
        Self(receiver)
    }

    /// The pids of the agent and of the keeper, once they are ready.
    pub(super) fn await_ready(&self) -> Option<(u32, u32)> {
        let line = self.0.recv_timeout(KEEPER_READY_TIMEOUT).ok()?;
        let (agent, keeper) = line.strip_prefix("ready ")?.split_once(' ')?;
        Some((agent.parse().ok()?, keeper.parse().ok()?))
    }

    /// Waits until it has ended, for a while.
    pub(super) fn await_end(&self, patience: Duration) -> bool {
        matches!(self.0.recv_timeout(patience), Err(RecvTimeoutError::Disconnected))
    }
}
