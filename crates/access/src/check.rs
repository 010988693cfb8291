//! Every rule about one entry of `sessions/`, in order; the first one broken is the answer.

use std::ffi::OsStr;

use crate::rules::agent_env::AgentEnv;
use crate::rules::meta::{Meta, Stop};
use crate::rules::presence::{Presence, SocketAnswer};
use crate::rules::skip::{Skip, SkipCode};
use crate::rules::state::{Judged, judge};
use crate::rules::{
    AGENT_ENV, KEYS_SOCKET, META, META_BYTES, NAMES, SMALL_BYTES, SOCKET, STOP, id_of_leftover,
    is_id,
};
use sys::private::{Dir, Facts, FileFault, Kind};
use sys::socket::{ConnectError, connect_in};

use super::root::Root;
use super::{CONNECT_PATIENCE, World};

/// A session all of whose records keep the rules.
#[derive(Debug)]
pub struct Checked {
    pub(crate) dir: Dir,
    pub(crate) facts: Facts,
    /// Its record.
    pub meta: Meta,
    /// What a borrower needs. Missing only in a directory whose removal had begun.
    pub env: Option<AgentEnv>,
    /// Its stop.
    pub stop: Option<Stop>,
    /// Its state.
    pub judged: Judged,
    /// Its known files as they were checked.
    pub(crate) files: Vec<(&'static str, Facts)>,
}

/// The id of the session that an entry holds, removal begun or not.
pub(crate) fn id_in(name: &OsStr) -> Option<&str> {
    let name = name.to_str()?;
    if is_id(name) { Some(name) } else { id_of_leftover(name) }
}

/// Checks the entry called `name`.
pub fn check(root: &Root, name: &OsStr, world: &World<'_>) -> Result<Checked, Skip> {
    let Some(id) = id_in(name) else {
        return Err(Skip::new(SkipCode::Unsafe, "its name is not an id"));
    };
    let (dir, facts) = open_session(root, name)?;
    let mut read = Vec::new();
    let (bytes, facts_of_meta) = dir.read(META, META_BYTES).map_err(meta_fault)?;
    read.push((META, facts_of_meta));
    let meta = Meta::parse(&bytes, id)?;
    let env = match dir.read(AGENT_ENV, SMALL_BYTES) {
        // The removal of this one had begun, with every check passed: see `prune`.
        Err(FileFault::Missing) if !is_id(name.to_str().unwrap_or("")) => None,
        Err(fault) => return Err(env_fault(&fault)),
        Ok((bytes, facts)) => {
            read.push((AGENT_ENV, facts));
            Some(agree(AgentEnv::parse(&bytes)?, root, &meta)?)
        }
    };
    for socket in [SOCKET, KEYS_SOCKET] {
        check_socket(&dir, socket)?;
    }
    let stop = match dir.read(STOP, SMALL_BYTES) {
        Ok((bytes, facts)) => {
            read.push((STOP, facts));
            Some(Stop::parse(&bytes)?)
        }
        Err(FileFault::Missing) => None,
        Err(fault) => return Err(file_fault(STOP, SkipCode::Malformed, &fault)),
    };
    let judged = judge(&meta, stop.as_ref(), &world.clocks)?;
    let files = files_in(&dir)?;
    // What is removed later is what was read, and not what took its place meanwhile.
    if !read.iter().all(|one| files.contains(one)) {
        return Err(Skip::new(SkipCode::Changed, "its files changed while they were read"));
    }
    Ok(Checked { dir, facts, meta, env, stop, judged, files })
}

fn open_session(root: &Root, name: &OsStr) -> Result<(Dir, Facts), Skip> {
    let unreadable = |_| Skip::new(SkipCode::Unknown, "its directory cannot be read");
    let unsafe_because = |why: &str| Err(Skip::new(SkipCode::Unsafe, why));
    let facts = root.sessions().facts_of(name).map_err(unreadable)?;
    let Some(facts) = facts else {
        return Err(Skip::new(SkipCode::Changed, "it is gone"));
    };
    if facts.kind != Kind::Directory {
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
    let dir = root.sessions().child(name).map_err(unreadable)?;
    let opened = dir.facts().map_err(unreadable)?;
    if !opened.is_same(&facts) || opened.mode != facts.mode || opened.owner != facts.owner {
        return Err(Skip::new(SkipCode::Changed, "its directory was exchanged"));
    }
    Ok((dir, opened))
}

fn meta_fault(fault: FileFault) -> Skip {
    match fault {
        FileFault::Missing => Skip::new(SkipCode::Unknown, "meta.json is missing"),
        fault => file_fault(META, SkipCode::Malformed, &fault),
    }
}

fn env_fault(fault: &FileFault) -> Skip {
    let code = match fault {
        FileFault::Missing => SkipCode::NoAgentEnv,
        FileFault::NotAFile | FileFault::NotOurs | FileFault::WrongMode => {
            SkipCode::AgentEnvNotPrivate
        }
        _ => return file_fault(AGENT_ENV, SkipCode::AgentEnvBad, fault),
    };
    Skip::new(code, format!("{AGENT_ENV} {fault}"))
}

fn file_fault(name: &str, too_large: SkipCode, fault: &FileFault) -> Skip {
    let code = match fault {
        FileFault::TooLarge => too_large,
        FileFault::Changed => SkipCode::Changed,
        FileFault::Missing | FileFault::Io(_) => SkipCode::Unknown,
        FileFault::NotAFile
        | FileFault::NotOurs
        | FileFault::WrongMode
        | FileFault::WritableByOthers
        | FileFault::HardLinked => SkipCode::Unsafe,
    };
    Skip::new(code, format!("{name} {fault}"))
}

/// The values must be those of this very session.
fn agree(env: AgentEnv, root: &Root, meta: &Meta) -> Result<AgentEnv, Skip> {
    let bad = |why: &str| Err(Skip::new(SkipCode::AgentEnvBad, why));
    if env.pid != meta.agent.pid {
        return bad("agent.env names another process than meta.json");
    }
    if root.socket_path(&meta.id).to_str() != Some(&env.socket) {
        return bad("agent.env names a socket that is not this session's");
    }
    Ok(env)
}

fn check_socket(dir: &Dir, name: &str) -> Result<(), Skip> {
    match dir.facts_of(OsStr::new(name)) {
        Ok(None) => Ok(()),
        Ok(Some(facts)) if facts.kind == Kind::Socket && facts.is_private() => Ok(()),
        Ok(Some(_)) => Err(Skip::new(SkipCode::Unsafe, format!("{name} is not a private socket"))),
        Err(_) => Err(Skip::new(SkipCode::Unknown, format!("{name} cannot be looked at"))),
    }
}

/// The known files that are there.
pub(crate) fn files_in(dir: &Dir) -> Result<Vec<(&'static str, Facts)>, Skip> {
    let mut files = Vec::new();
    for name in NAMES {
        let facts = dir.facts_of(OsStr::new(name));
        let facts = facts
            .map_err(|_| Skip::new(SkipCode::Unknown, format!("{name} cannot be looked at")))?;
        files.extend(facts.map(|facts| (name, facts)));
    }
    Ok(files)
}

impl Checked {
    /// Whether the agent is there. With `ask`, its sockets are connected to; nothing is sent.
    pub fn presence(&self, world: &World<'_>, ask: bool) -> Presence {
        let process = world.liveness(&self.meta.agent.identity());
        let answer = if ask { self.ask_sockets() } else { SocketAnswer::NotAsked };
        Presence::of(process, answer)
    }

    /// Whether somebody serves the lent socket.
    pub(crate) fn is_served(&self) -> bool {
        ask_socket(&self.dir, SOCKET) == SocketAnswer::Answers
    }

    fn ask_sockets(&self) -> SocketAnswer {
        let rank = |answer: &SocketAnswer| match answer {
            SocketAnswer::Answers => 3,
            SocketAnswer::Refused => 2,
            SocketAnswer::TimedOut => 1,
            SocketAnswer::Silent | SocketAnswer::NotAsked => 0,
        };
        let answers = [SOCKET, KEYS_SOCKET].map(|name| ask_socket(&self.dir, name));
        answers.into_iter().max_by_key(rank).unwrap_or(SocketAnswer::Silent)
    }

    /// That the directory holds nothing but what ostler creates.
    pub(crate) fn only_known_names(&self) -> Result<(), Skip> {
        let unreadable = |_| Skip::new(SkipCode::Unknown, "its directory cannot be read");
        let names = self.dir.names().map_err(unreadable)?;
        let strange = names.iter().filter(|name| !NAMES.iter().any(|known| known == name)).count();
        if strange == 0 {
            return Ok(());
        }
        let names = if strange == 1 { "name" } else { "names" };
        Err(Skip::new(
            SkipCode::UnexpectedFiles,
            format!("it holds {strange} {names} that ostler did not create"),
        ))
    }

    /// Whether its removal had begun.
    pub(crate) fn is_half_removed(&self) -> bool {
        self.env.is_none()
    }
}

fn ask_socket(dir: &Dir, name: &str) -> SocketAnswer {
    match connect_in(dir, OsStr::new(name), CONNECT_PATIENCE) {
        Ok(_) => SocketAnswer::Answers,
        Err(ConnectError::Silent) => SocketAnswer::Silent,
        Err(ConnectError::TimedOut) => SocketAnswer::TimedOut,
        Err(ConnectError::Refused(_) | ConnectError::NotASocket) => SocketAnswer::Refused,
    }
}
