//! Hosted terminals: from what is asked to what their hosts, or their files, answer.
//!
//! Nothing here opens the index or the database, and nothing looks at more than the one session that
//! is meant, so that a program can ask many times a second.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use sys::dropped::NoteDropped;

use host::files::{Durability, Holder, SessionDir};
use host::screen::Personality;
use model::hosted::{FaultCode, HostFault, SessionManifest, SettledStatus, settle_status};
use model::identity::Identity;
use model::liveness::Liveness;
use model::status::Status;
use sys::machine::Machine;
use sys::private::{self, PrivateDir, PrivateError};

use model::address::AddressError;
use sys::hash::sha256;

pub mod agent_command;
pub mod ask;
pub mod batch;
pub mod create;
pub mod destroy;
pub mod export;
pub mod find;
pub mod inspect;
pub mod look;
pub mod picture;
pub mod remove;
pub mod sight;
pub mod source;
pub mod submit;
pub mod tell;
pub mod verify;
pub mod wait;

pub use host::server::run_host as host_main;
pub use host::stream;

/// Programs without a terminal: what their host is asked for.
pub mod headless {
    pub use host::server::{HeadlessInput, HeadlessSpec, StartRequest};
}
pub use host::{artifacts, screen};

use crate::timeouts::ARTIFACTS_LOCK_TIMEOUT;

/// Why a terminal could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TerminalError {
    /// What its host or its files answered.
    #[error(transparent)]
    Fault(#[from] HostFault),
    /// Several sessions, or none.
    #[error(transparent)]
    Address(#[from] AddressError),
}

/// Where hosted sessions are, and under which name they are used.
#[derive(Clone, Debug)]
pub struct TerminalHome {
    /// The machine that they run on.
    pub machine: Machine,
    /// The directory that holds `sessions/`.
    pub root: PathBuf,
    /// The directory below which hosts listen.
    pub sockets: PathBuf,
    /// ostler or agent-tty.
    pub personality: Personality,
    /// Variables for the programs of new sessions.
    pub inherit: Vec<(String, String)>,
    /// The version of this program, for new hosts.
    pub version: String,
}

/// Where the sessions below a directory are.
pub(crate) fn sessions_directory(root: &Path) -> PathBuf {
    root.join("sessions")
}

/// One session that was found.
#[derive(Clone, Debug)]
pub struct HostedSession {
    pub id: String,
    /// Where its files are.
    pub directory: PathBuf,
    /// Its manifest, as it was written.
    pub manifest: SessionManifest,
    /// Its processes, as far as they were written down.
    pub holder: Option<Holder>,
    /// Where its host listens.
    pub socket: PathBuf,
    /// Its directory, as it was opened and verified.
    pub(crate) files: SessionDir,
    /// Where a host of this home may listen for it: what a file says beside these is not believed.
    may_listen_at: Vec<PathBuf>,
    pub(crate) machine: Machine,
    /// Under which name it is used.
    pub(crate) personality: Personality,
    /// Who types into it from here, for its log.
    pub(crate) typist: Option<String>,
}

/// The version of agent-tty whose contract is kept under its name.
pub const AGENT_TTY_CONTRACT: &str = "0.5.0";

impl TerminalHome {
    /// The sessions below a directory, to look at or remove; nothing new is made there.
    pub fn at_root(root: &Path, machine: &Machine) -> Self {
        Self {
            machine: machine.clone(),
            root: root.to_owned(),
            sockets: PathBuf::new(),
            personality: Personality::Ostler,
            inherit: Vec::new(),
            version: String::new(),
        }
    }

    /// Where the sessions are.
    pub fn sessions_directory(&self) -> PathBuf {
        sessions_directory(&self.root)
    }

    /// Where a session's host listens unless it wrote down another place: short, however long the home's
    /// path is.
    pub fn socket_of(&self, id: &str) -> PathBuf {
        self.socket_in(&self.sockets, id)
    }

    fn socket_in(&self, sockets: &Path, id: &str) -> PathBuf {
        let home = sha256(self.root.as_os_str().as_encoded_bytes());
        sockets.join(&home[..8]).join(&sha256(id.as_bytes())[..12])
    }

    /// The directories of sockets, in the order in which they are tried: the usual one, and one named
    /// after this user. None where only files are looked at.
    fn socket_directories(&self) -> Vec<PathBuf> {
        if self.sockets.as_os_str().is_empty() {
            return Vec::new();
        }
        let mut of_user = self.sockets.clone().into_os_string();
        of_user.push(format!("-{}", sys::private::our_uid()));
        vec![self.sockets.clone(), of_user.into()]
    }

    /// The place of a session's socket in the home itself.
    fn socket_in_home(&self, id: &str) -> PathBuf {
        crate::writer::fallback_directory(&self.root).join(&sha256(id.as_bytes())[..12])
    }

    /// Every place at which a host of this home may listen for a session.
    fn socket_places(&self, id: &str) -> Vec<PathBuf> {
        let directories = self.socket_directories();
        let places = directories.iter().map(|directory| self.socket_in(directory, id));
        places.chain([self.socket_in_home(id)]).collect()
    }

    /// Where a new session's host is to listen: in the usual directory, or where another user has
    /// taken that name, in one named after this user, or in the home.
    pub fn choose_socket(&self, id: &str) -> PathBuf {
        let guarded = |place: &PathBuf| sys::private::create_guarded_dir(place).is_ok();
        let directory = self.socket_directories().into_iter().find(guarded);
        directory.map_or_else(|| self.socket_in_home(id), |place| self.socket_in(&place, id))
    }

    /// Opens the directory of the sessions: the home and it must be ours and not writable by others,
    /// since what is found there says which processes are signalled. `None` when there is none yet.
    pub(crate) fn open_sessions(&self) -> Result<Option<PrivateDir>, HostFault> {
        let path = self.sessions_directory();
        let opened = private::open_unwritable_dir(&self.root)
            .and_then(|home| private::open_unwritable_child(&home, OsStr::new("sessions"), &path));
        match opened {
            Ok(sessions) => Ok(Some(sessions)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(untrusted(&error)),
        }
    }

    /// Reads the session in that directory.
    pub fn open_session(&self, id: &str) -> Result<HostedSession, HostFault> {
        let sessions = self.open_sessions()?.ok_or_else(|| self.not_found(id))?;
        self.open_in(&sessions, id)
    }

    fn not_found(&self, id: &str) -> HostFault {
        let manifest = self.sessions_directory().join(id).join(host::files::MANIFEST_FILE);
        HostFault::new(FaultCode::SessionNotFound, format!("no session `{id}`"))
            .with("sessionId", id)
            .with("manifestPath", manifest.to_string_lossy())
    }

    /// As [`Self::open_session`], in the directory that [`Self::open_sessions`] gave.
    pub(crate) fn open_in(
        &self,
        sessions: &PrivateDir,
        id: &str,
    ) -> Result<HostedSession, HostFault> {
        let files = match SessionDir::open_in(sessions, &self.sessions_directory(), id) {
            Ok(files) => files,
            Err(error) if is_missing(&error) => {
                return Err(self.not_found(id));
            }
            Err(error) => return Err(untrusted(&error)),
        };
        let manifest = files.read_manifest().map_err(|fault| match fault.code {
            FaultCode::SessionNotFound => self.not_found(id),
            _ => fault,
        })?;
        let holder = files.read_holder();
        let socket =
            holder.as_ref().map_or_else(|| self.socket_of(id), |holder| holder.socket.clone());
        Ok(HostedSession {
            id: id.to_owned(),
            directory: files.path().to_owned(),
            manifest,
            holder,
            socket,
            may_listen_at: self.socket_places(id),
            machine: self.machine.clone(),
            personality: self.personality,
            files,
            typist: None,
        })
    }
}

fn is_missing(error: &PrivateError) -> bool {
    matches!(error, PrivateError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// What others could have written is not believed.
fn untrusted(error: &PrivateError) -> HostFault {
    let remedy = match error {
        PrivateError::TooOpen { path, .. } => {
            format!("; if nobody else wrote to it: chmod go-w {}", path.display())
        }
        PrivateError::NotOurs { .. } => "; use a home of your own".to_owned(),
        PrivateError::Io { .. } | PrivateError::WrongKind { .. } => String::new(),
    };
    HostFault::new(FaultCode::StorageReadError, format!("{error}{remedy}"))
}

impl HostedSession {
    /// Where what is made of it is kept.
    pub fn artifact_dir(&self, personality: Personality) -> artifacts::ArtifactDir<'_> {
        let (session, id) = (&*self.directory, &*self.id);
        artifacts::ArtifactDir { session, id, personality, patience: ARTIFACTS_LOCK_TIMEOUT }
    }

    /// Whether the host is there.
    pub fn host_liveness(&self) -> Liveness {
        self.machine.probe_process(&self.host_identity())
    }

    pub(crate) fn host_identity(&self) -> Identity {
        match &self.holder {
            Some(holder) => holder.host.clone(),
            // Another program's session: it wrote a pid, and when.
            None => Identity {
                recorded_at: Some(self.manifest.created_at),
                ..Identity::recorded_by_agent(self.manifest.host_pid)
            },
        }
    }

    /// Whether its host is not proven to have ended.
    pub(crate) fn has_live_host(&self) -> bool {
        !self.host_liveness().is_dead()
    }

    /// Whether the program on its terminal goes on. Of one that has ended its host will tell how.
    pub(crate) fn runs_program(&self) -> bool {
        let program = self.holder.as_ref().and_then(|holder| holder.child.as_ref());
        program.is_some_and(|program| !self.machine.probe_process(program).is_dead())
    }

    /// What it is, even if the manifest says otherwise: looks for the host where that makes a difference.
    pub fn settled(&self) -> SettledStatus {
        if self.manifest.status.is_terminal() {
            return SettledStatus::AsWritten;
        }
        settle_status(self.manifest.status, self.host_liveness())
    }

    /// The manifest as it should be. Writes nothing.
    pub fn as_settled(mut self) -> Self {
        if let SettledStatus::HostDied(became) = self.settled() {
            self.manifest.host_died(became);
        }
        self
    }

    /// Corrects the manifest of a session whose host is proven dead: the program it left is ended, the
    /// log is made whole, the socket goes. Only for commands that end or remove sessions: a command that only
    /// looks uses [`Self::as_settled`].
    pub fn reconcile(mut self) -> Result<Self, HostFault> {
        let SettledStatus::HostDied(became) = self.settled() else { return Ok(self) };
        let mut missed = Vec::new();
        if let Some(child) = self.holder.as_ref().and_then(|holder| holder.child.as_ref()) {
            // By identity; what cannot be proven to be it, or to descend from it, is left alone.
            let (observer, kill) = (self.machine.observer(), sys::proc::Signal::Kill);
            let tree = destroy::descendants(child, &self.machine);
            sys::proc::signal_process(child, kill, observer)
                .note_dropped("killing what a dead host left");
            missed = tree.signal(kill, observer, |_| true);
        }
        if self.may_listen_at.contains(&self.socket) {
            remove_stale_socket(&self.socket);
        }
        // It may have written its end down after we looked.
        let mut manifest = self.files.read_manifest()?;
        if manifest.status.is_active() {
            let torn = host::log::repair_log(&self.directory)
                .ok_or_note("the log of a host that died")
                .flatten();
            manifest.host_died(became);
            if let (Some(bytes), Some(reason)) = (torn, &mut manifest.failure_reason) {
                reason.push_str(&format!("; a torn last event of {bytes} bytes was cut off"));
            }
            if let Some(reason) = &mut manifest.failure_reason {
                missed.iter().for_each(|left| reason.push_str(&format!("; not ended: {left}")));
            }
            manifest.updated_at = self.machine.read_clock();
            self.files
                .write_manifest(&manifest, Durability::Disk)
                .map_err(|error| cannot_write(&self.directory, &error))?;
        }
        self.manifest = manifest;
        Ok(self)
    }

    /// Refuses a session that cannot be sent anything.
    pub fn check_can_receive(&self) -> Result<(), HostFault> {
        let status = self.manifest.status;
        if status.is_destroyed() {
            let message = format!("session `{}` is already destroyed", self.id);
            let fault = HostFault::new(FaultCode::SessionAlreadyDestroyed, message);
            return Err(fault.with("sessionId", &*self.id).with("status", status.as_str()));
        }
        if !status.accepts_commands() {
            let message =
                format!("session `{}` is not running (status: {})", self.id, status.as_str());
            let fault = HostFault::new(FaultCode::SessionNotRunning, message);
            return Err(fault.with("sessionId", &*self.id).with("status", status.as_str()));
        }
        Ok(())
    }

    /// Whether its host should be asked first.
    pub fn asks_host(&self) -> bool {
        self.manifest.status.has_live_host()
    }

    /// Its status, as written.
    pub fn status(&self) -> Status {
        self.manifest.status
    }
}

/// Removes the socket of a host that is gone: a socket of ours in a directory of ours, or nothing.
#[expect(
    clippy::disallowed_methods,
    reason = "a dead socket, by its type, and the empty directory made for it"
)]
fn remove_stale_socket(path: &Path) {
    let (Some(directory_path), Some(name)) = (path.parent(), path.file_name()) else { return };
    if let Ok(directory) = private::open_unwritable_dir(directory_path) {
        // One that stays is replaced by the next host that is given its place.
        directory.unlink_socket(name).note_dropped("removing a dead socket");
    }
    sys::socket::drop_empty_directory(directory_path);
}

pub(crate) fn cannot_write(path: &Path, error: &std::io::Error) -> HostFault {
    HostFault::new(
        FaultCode::StorageWriteError,
        format!("cannot write {}: {error}", path.display()),
    )
}

pub(crate) fn cannot_read(path: &Path, error: &std::io::Error) -> HostFault {
    HostFault::new(FaultCode::StorageReadError, format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use super::*;

    #[test]
    fn m9_a_foreign_directory_of_sockets_is_replaced_by_one_of_this_user_and_then_by_the_home() {
        let uid = sys::private::our_uid();
        if uid != 0 {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let sockets = directory.path().join("agent-tty");
        let root = directory.path().join("home");
        let machine = Machine::with_home(root.clone());
        let home =
            TerminalHome { sockets: sockets.clone(), ..TerminalHome::at_root(&root, &machine) };
        let make_foreign = |path: &Path| {
            std::fs::create_dir_all(path).unwrap();
            chown(path, Some(4711), None).unwrap();
        };
        assert!(home.choose_socket("id").starts_with(&sockets));
        make_foreign(&sockets);
        let of_user = directory.path().join(format!("agent-tty-{uid}"));
        assert!(home.choose_socket("id").starts_with(&of_user));
        make_foreign(&of_user);
        assert!(home.choose_socket("id").starts_with(root.join("run")));
    }
}
