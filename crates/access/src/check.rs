//! Validation of one entry of `sessions/`: every rule in order; the first one broken is the answer.

use std::ffi::OsStr;

use crate::rules::agent_env::AgentEnv;
use crate::rules::meta::{AccessMeta, StopRecord};
use crate::rules::presence::{AgentPresence, SocketAnswer};
use crate::rules::state::{JudgedAccess, judge_access};
use crate::rules::{
    AGENT_ENV_FILE, KEYS_SOCKET, LENT_SOCKET, MAX_META_BYTES, MAX_SMALL_FILE_BYTES, META_FILE,
    SESSION_FILE_NAMES, STOP_FILE, id_of_leftover, is_id,
};
use model::refusal::{Refusal, SkipCode};
use sys::machine::Machine;
use sys::private::{InodeFacts, InodeKind, PrivateDir, PrivateFileFault};
use sys::socket::{SocketConnectError, connect_in};

use super::root::AccessRoot;
use super::{SOCKET_CONNECT_TIMEOUT, access_clocks};

/// A session all of whose records keep the rules.
#[derive(Debug)]
pub struct CheckedAccess {
    pub(crate) dir: PrivateDir,
    pub(crate) facts: InodeFacts,
    pub meta: AccessMeta,
    /// What a borrower needs. Missing only in a directory whose removal had begun.
    pub env: Option<AgentEnv>,
    pub stop: Option<StopRecord>,
    pub judged: JudgedAccess,
    /// Its known files as they were checked.
    pub(crate) files: Vec<(&'static str, InodeFacts)>,
}

/// The id of the session that an entry holds, removal begun or not.
pub(crate) fn id_in(name: &OsStr) -> Option<&str> {
    let name = name.to_str()?;
    if is_id(name) { Some(name) } else { id_of_leftover(name) }
}

/// Checks the entry called `name`.
pub fn check_entry(
    root: &AccessRoot,
    name: &OsStr,
    machine: &Machine,
) -> Result<CheckedAccess, Refusal> {
    let Some(id) = id_in(name) else {
        return Err(Refusal::skip(SkipCode::Unsafe, "its name is not an id"));
    };
    let (dir, facts) = open_session(root, name)?;
    let mut read = Vec::new();
    let (bytes, facts_of_meta) = dir.read_private(META_FILE, MAX_META_BYTES).map_err(meta_fault)?;
    read.push((META_FILE, facts_of_meta));
    let meta = AccessMeta::parse_for(&bytes, id)?;
    let env = match dir.read_private(AGENT_ENV_FILE, MAX_SMALL_FILE_BYTES) {
        // The removal of this one had begun, with every check passed: see `prune`.
        Err(PrivateFileFault::Missing) if !is_id(name.to_str().unwrap_or("")) => None,
        Err(fault) => return Err(env_fault(&fault)),
        Ok((bytes, facts)) => {
            read.push((AGENT_ENV_FILE, facts));
            Some(check_env_agrees(AgentEnv::parse(&bytes)?, root, &meta)?)
        }
    };
    for socket in [LENT_SOCKET, KEYS_SOCKET] {
        check_socket(&dir, socket)?;
    }
    let stop = match dir.read_private(STOP_FILE, MAX_SMALL_FILE_BYTES) {
        Ok((bytes, facts)) => {
            read.push((STOP_FILE, facts));
            Some(StopRecord::parse_stop(&bytes)?)
        }
        Err(PrivateFileFault::Missing) => None,
        Err(fault) => return Err(file_fault(STOP_FILE, SkipCode::Malformed, &fault)),
    };
    let judged = judge_access(&meta, stop.as_ref(), &access_clocks(machine))?;
    let files = files_in(&dir)?;
    // What is removed later is what was read, and not what took its place meanwhile.
    if !read.iter().all(|one| files.contains(one)) {
        return Err(Refusal::skip(SkipCode::Changed, "its files changed while they were read"));
    }
    Ok(CheckedAccess { dir, facts, meta, env, stop, judged, files })
}

fn open_session(root: &AccessRoot, name: &OsStr) -> Result<(PrivateDir, InodeFacts), Refusal> {
    let unreadable = |_| Refusal::skip(SkipCode::Unknown, "its directory cannot be read");
    let unsafe_because = |why: &str| Err(Refusal::skip(SkipCode::Unsafe, why));
    let facts = root.sessions().facts_of(name).map_err(unreadable)?;
    let Some(facts) = facts else {
        return Err(Refusal::skip(SkipCode::Changed, "it is gone"));
    };
    if facts.kind != InodeKind::Directory {
        return unsafe_because("it is not a directory");
    }
    if !facts.is_ours() {
        return unsafe_because("its directory belongs to another user");
    }
    if !facts.is_private() {
        return unsafe_because("its directory is open to others");
    }
    if facts.device != root.device() {
        return unsafe_because("its directory is on another file system");
    }
    let dir = root.sessions().open_child(name).map_err(unreadable)?;
    let opened = dir.own_facts().map_err(unreadable)?;
    if !opened.is_same(&facts) || opened.mode != facts.mode || opened.owner != facts.owner {
        return Err(Refusal::skip(SkipCode::Changed, "its directory was exchanged"));
    }
    Ok((dir, opened))
}

fn meta_fault(fault: PrivateFileFault) -> Refusal {
    match fault {
        PrivateFileFault::Missing => Refusal::skip(SkipCode::Unknown, "meta.json is missing"),
        fault => file_fault(META_FILE, SkipCode::Malformed, &fault),
    }
}

fn env_fault(fault: &PrivateFileFault) -> Refusal {
    let code = match fault {
        PrivateFileFault::Missing => SkipCode::NoAgentEnv,
        PrivateFileFault::NotAFile | PrivateFileFault::NotOurs | PrivateFileFault::WrongMode => {
            SkipCode::AgentEnvNotPrivate
        }
        _ => return file_fault(AGENT_ENV_FILE, SkipCode::AgentEnvBad, fault),
    };
    Refusal::skip(code, format!("{AGENT_ENV_FILE} {fault}"))
}

fn file_fault(name: &str, too_large: SkipCode, fault: &PrivateFileFault) -> Refusal {
    let code = match fault {
        PrivateFileFault::TooLarge => too_large,
        PrivateFileFault::Changed => SkipCode::Changed,
        PrivateFileFault::Missing | PrivateFileFault::Io(_) => SkipCode::Unknown,
        PrivateFileFault::NotAFile
        | PrivateFileFault::NotOurs
        | PrivateFileFault::WrongMode
        | PrivateFileFault::WritableByOthers
        | PrivateFileFault::HardLinked => SkipCode::Unsafe,
    };
    Refusal::skip(code, format!("{name} {fault}"))
}

/// The values must be those of this very session.
fn check_env_agrees(
    env: AgentEnv,
    root: &AccessRoot,
    meta: &AccessMeta,
) -> Result<AgentEnv, Refusal> {
    let bad = |why: &str| Err(Refusal::skip(SkipCode::AgentEnvBad, why));
    if env.pid != meta.agent.pid {
        return bad("agent.env names another process than meta.json");
    }
    if root.socket_path(&meta.id).to_str() != Some(&env.socket) {
        return bad("agent.env names a socket that is not this session's");
    }
    Ok(env)
}

fn check_socket(dir: &PrivateDir, name: &str) -> Result<(), Refusal> {
    match dir.facts_of(OsStr::new(name)) {
        Ok(None) => Ok(()),
        Ok(Some(facts)) if facts.kind == InodeKind::Socket && facts.is_private() => Ok(()),
        Ok(Some(_)) => {
            Err(Refusal::skip(SkipCode::Unsafe, format!("{name} is not a private socket")))
        }
        Err(_) => Err(Refusal::skip(SkipCode::Unknown, format!("{name} cannot be looked at"))),
    }
}

/// The known files that are there.
pub(crate) fn files_in(dir: &PrivateDir) -> Result<Vec<(&'static str, InodeFacts)>, Refusal> {
    let mut files = Vec::new();
    for name in SESSION_FILE_NAMES {
        let facts = dir.facts_of(OsStr::new(name));
        let facts = facts
            .map_err(|_| Refusal::skip(SkipCode::Unknown, format!("{name} cannot be looked at")))?;
        files.extend(facts.map(|facts| (name, facts)));
    }
    Ok(files)
}

impl CheckedAccess {
    /// Whether the agent is there. With `ask`, its sockets are connected to; nothing is sent.
    pub fn presence(&self, machine: &Machine, ask: bool) -> AgentPresence {
        let process = machine.probe_process(&self.meta.agent.to_identity());
        let answer = if ask { self.ask_sockets() } else { SocketAnswer::NotAsked };
        AgentPresence::from_process_and_socket(process, answer)
    }

    /// Whether a process serves the lent socket.
    pub(crate) fn is_served(&self) -> bool {
        ask_socket(&self.dir, LENT_SOCKET) == SocketAnswer::Answers
    }

    fn ask_sockets(&self) -> SocketAnswer {
        let rank = |answer: &SocketAnswer| match answer {
            SocketAnswer::Answers => 3,
            SocketAnswer::Refused => 2,
            SocketAnswer::TimedOut => 1,
            SocketAnswer::Silent | SocketAnswer::NotAsked => 0,
        };
        let answers = [LENT_SOCKET, KEYS_SOCKET].map(|name| ask_socket(&self.dir, name));
        answers.into_iter().max_by_key(rank).unwrap_or(SocketAnswer::Silent)
    }

    /// That the directory holds nothing but what ostler creates.
    pub(crate) fn only_known_names(&self) -> Result<(), Refusal> {
        let unreadable = |_| Refusal::skip(SkipCode::Unknown, "its directory cannot be read");
        let names = self.dir.list_names().map_err(unreadable)?;
        let strange = names
            .iter()
            .filter(|name| !SESSION_FILE_NAMES.iter().any(|known| known == name))
            .count();
        if strange == 0 {
            return Ok(());
        }
        let names = if strange == 1 { "name" } else { "names" };
        Err(Refusal::skip(
            SkipCode::UnexpectedFiles,
            format!("it holds {strange} {names} that ostler did not create"),
        ))
    }

    /// Whether its removal had begun.
    pub(crate) fn is_half_removed(&self) -> bool {
        self.env.is_none()
    }
}

fn ask_socket(dir: &PrivateDir, name: &str) -> SocketAnswer {
    match connect_in(dir, OsStr::new(name), SOCKET_CONNECT_TIMEOUT) {
        Ok(_) => SocketAnswer::Answers,
        Err(SocketConnectError::Silent) => SocketAnswer::Silent,
        Err(SocketConnectError::TimedOut) => SocketAnswer::TimedOut,
        Err(SocketConnectError::Refused(_) | SocketConnectError::NotASocket) => {
            SocketAnswer::Refused
        }
    }
}
