//! Does a gateway own OpenClaw's files?
//!
//! Three kinds of evidence, and all of them must say no: the gateway's lock files, its port, and the
//! process table. None is enough alone. A lock lies in a temporary directory that may be another
//! one, the port may be bound on another address, and a process says little about its directory.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use model::identity::Identity;
use model::liveness::{Liveness, Observer};
use model::time::Time;
use serde_json::Value;
use sha2::{Digest, Sha256};
use sys::machine::Machine;

use super::processes::owners_by_processes;
use crate::config::OpenClawConfig;
use crate::timeouts::PORT_CONNECT_TIMEOUT;

/// A lock is a few hundred bytes.
const MAX_LOCK_BYTES: u64 = 64 << 10;

/// Who owns OpenClaw's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayOwner {
    Nobody,
    /// A process that is there.
    Live {
        who: Box<Identity>,
        /// How that is known.
        why: String,
    },
    Doubt(String),
}

/// The proof that no process owned OpenClaw's files a moment ago. Only [`prove_unowned`] gives it.
#[derive(Debug)]
pub struct Unowned(());

/// OpenClaw's files have an owner, or may have one.
#[derive(Clone, Debug, thiserror::Error)]
#[error("OpenClaw's files in {} {}", .state.display(), describe_owner(.owner))]
pub struct Owned {
    /// OpenClaw's state directory.
    pub state: PathBuf,
    /// Whose, and how that is known.
    pub owner: GatewayOwner,
}

/// How it stands with the files, in words that follow their name.
pub(crate) fn describe_owner(owner: &GatewayOwner) -> String {
    match owner {
        GatewayOwner::Nobody => "are nobody's".to_owned(),
        GatewayOwner::Live { why, .. } => format!("are in use: {why}"),
        GatewayOwner::Doubt(why) => format!("may be in use: {why}"),
    }
}

/// The proof that no process owns OpenClaw's files, or who does.
pub fn prove_unowned(config: &OpenClawConfig, machine: &Machine) -> Result<Unowned, Owned> {
    match find_owner(config, machine) {
        GatewayOwner::Nobody => Ok(Unowned(())),
        owner => {
            tracing::debug!(owner = describe_owner(&owner), "OpenClaw's files are left alone");
            Err(Owned { state: config.state.clone(), owner })
        }
    }
}

/// Who owns OpenClaw's files: a process that is seen, else one that may be there.
pub fn find_owner(config: &OpenClawConfig, machine: &Machine) -> GatewayOwner {
    let observer = machine.observer();
    let mut doubt = None;
    let locks = owners_by_locks(config, observer);
    let processes = owners_by_processes(config, observer);
    for finding in locks.into_iter().chain(processes).chain(owner_by_port(config)) {
        match finding {
            GatewayOwner::Nobody => {}
            GatewayOwner::Live { .. } => return finding,
            GatewayOwner::Doubt(_) => {
                doubt.get_or_insert(finding);
            }
        }
    }
    doubt.unwrap_or(GatewayOwner::Nobody)
}

/// The same directory, however it is spelled.
pub(super) fn same_directory(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    one == other || real(one) == real(other)
}

/// What the locks say: up to 2026.7 in the temporary directory, one for each configuration; later in
/// the state directory.
fn owners_by_locks(config: &OpenClawConfig, observer: &Observer) -> Vec<GatewayOwner> {
    let own = format!("openclaw-{}", observer.uid);
    let inside = config.state.join("tmp").join(&own);
    let shared = config.temporary.iter().map(|directory| directory.join(&own));
    let mut findings = Vec::new();
    for directory in shared.chain([inside.clone()]) {
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                let place = directory.display();
                findings.push(GatewayOwner::Doubt(format!("{place} cannot be read: {error}")));
                continue;
            }
        };
        for entry in entries {
            let Ok(entry) = entry else {
                let place = directory.display();
                findings.push(GatewayOwner::Doubt(format!("{place} cannot be read to its end")));
                break;
            };
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("gateway.") && name.ends_with(".lock") {
                let certain = directory == inside || is_named_after(&name, &config.path);
                findings.extend(owner_by_lock(config, observer, &entry.path(), certain));
            }
        }
    }
    findings
}

/// A lock is named after a hash of the path of its configuration.
fn is_named_after(name: &str, config: &Path) -> bool {
    let hash = |path: &Path| {
        let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
        let hex: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        name == format!("gateway.{hex}.lock")
    };
    hash(config) || std::fs::canonicalize(config).is_ok_and(|real| hash(&real))
}

/// What one lock says, if it concerns these files: it is `certain` to, or names them.
fn owner_by_lock(
    config: &OpenClawConfig,
    observer: &Observer,
    path: &Path,
    certain: bool,
) -> Option<GatewayOwner> {
    let place = path.display();
    let doubt = |why: String| certain.then_some(GatewayOwner::Doubt(why));
    let bytes = match read_lock(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return doubt(format!("its lock {place} cannot be read: {error}")),
    };
    let Ok(payload) = serde_json::from_slice::<Value>(&bytes) else {
        return doubt(format!("its lock {place} does not say whose it is"));
    };
    let names = |member: &str, ours: &Path| {
        let theirs = payload.get(member).and_then(Value::as_str);
        theirs.is_some_and(|theirs| same_directory(Path::new(theirs), ours))
    };
    if !(certain || names("configPath", &config.path) || names("stateDir", &config.state)) {
        return None;
    }
    let number = |member: &str| payload.get(member).and_then(Value::as_u64);
    let recorded = Identity {
        start: number("startTime"),
        recorded_at: payload.get("createdAt").and_then(|at| Time::parse(at.as_str()?)),
        comm: Some("openclaw".to_owned()),
        ..Identity::recorded_by_agent(number("pid").and_then(|pid| u32::try_from(pid).ok()))
    };
    let pid = recorded.pid.map_or_else(|| "nobody".to_owned(), |pid| format!("process {pid}"));
    match sys::proc::probe_liveness(&recorded, observer) {
        Liveness::Dead(_) => None,
        Liveness::Alive(_) => Some(GatewayOwner::Live {
            who: Box::new(recorded),
            why: format!("its lock {place} is held by {pid}"),
        }),
        Liveness::Unknown(_) => Some(GatewayOwner::Doubt(format!(
            "its lock {place} names {pid}, of which it cannot be told whether it runs"
        ))),
    }
}

fn read_lock(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = std::fs::symlink_metadata(path)?;
    if !metadata.is_file() || metadata.len() > MAX_LOCK_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a lock"));
    }
    std::fs::read(path)
}

/// Whether a process listens where the gateway would.
fn owner_by_port(config: &OpenClawConfig) -> Option<GatewayOwner> {
    let port = config.gateway.port;
    let addresses = [
        SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
    ];
    addresses.into_iter().find_map(|address| {
        match TcpStream::connect_timeout(&address, PORT_CONNECT_TIMEOUT) {
            Ok(_) => Some(GatewayOwner::Doubt(format!("something listens on {address}, its port"))),
            Err(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => None,
                // There may be no such protocol on this machine.
                _ if address.is_ipv6() && error.kind() != io::ErrorKind::TimedOut => None,
                _ => Some(GatewayOwner::Doubt(format!(
                    "its port {address} does not answer: {error}"
                ))),
            },
        }
    })
}
