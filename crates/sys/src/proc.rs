//! Processes: who is looking, what names a process, whether it is still there, what it holds.
//!
//! One public surface over three platforms. The decision itself is `model::liveness`; here is
//! only what it needs to see. Constraints kept throughout: facts about one process never mix two
//! (a pid can be handed on between two reads), a process that cannot be read is counted and not
//! guessed at, and a remembered number is never signalled.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use model::identity::Identity;
use model::liveness::{
    Liveness, Observer, PidLookup, RunState, decide_before_looking, decide_liveness,
};
use model::program::ProcessAppearance;
use model::time::Time;

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod machine;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as platform;

#[cfg(target_os = "macos")]
#[allow(unsafe_code, reason = "libproc and sysctl have no safe interface")]
mod macos;
#[cfg(target_os = "macos")]
use macos as platform;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod other;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
use other as platform;

pub(crate) use platform::{ProcessHandle, identify_held, span_between};

/// Why a process could not be identified.
#[derive(Debug, thiserror::Error)]
pub enum IdentifyError {
    /// Nothing has this pid, or only a thread or a process that has already exited.
    #[error("no running process has pid {0}")]
    NotRunning(u32),
    /// The process table cannot be read here.
    #[error("the process table cannot be read here")]
    NoProcessTable,
    /// The system refused.
    #[error("cannot read process {pid}")]
    Unreadable {
        pid: u32,
        /// The system's answer.
        source: io::Error,
    },
}

/// Why a signal was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SignalError {
    /// The recorded process is not proven to be there. Nothing was sent.
    #[error("the process is {} ({}), nothing was sent", .0.as_str(), .0.reason_code())]
    NotAlive(Liveness),
    /// Another process had the pid right after the signal (macOS only, which offers no way to
    /// hold on to one): it is not known whom it reached.
    #[error("the pid was handed on while the signal was sent")]
    Uncertain,
    /// This system cannot hold on to a process while it is checked. Nothing was sent.
    #[error("this system has no safe way to signal a process")]
    Unsupported,
    /// The system refused.
    #[error("the signal was refused: {0}")]
    Refused(#[source] io::Error),
}

/// The signals ostler sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Hangup,
    /// What Ctrl-C sends.
    Interrupt,
    /// What Ctrl-\ sends.
    Quit,
    /// A request to end.
    Terminate,
    /// The end, without a chance to refuse.
    Kill,
    /// Stop running until [`Signal::Continue`].
    Stop,
    Continue,
    /// The window was resized.
    WindowChange,
    /// First signal of the program's own choice.
    User1,
    /// Second signal of the program's own choice.
    User2,
}

impl Signal {
    /// All of them, by the names that people write.
    pub const NAMED: [(&'static str, Self); 10] = [
        ("SIGTERM", Self::Terminate),
        ("SIGINT", Self::Interrupt),
        ("SIGKILL", Self::Kill),
        ("SIGHUP", Self::Hangup),
        ("SIGUSR1", Self::User1),
        ("SIGUSR2", Self::User2),
        ("SIGQUIT", Self::Quit),
        ("SIGSTOP", Self::Stop),
        ("SIGCONT", Self::Continue),
        ("SIGWINCH", Self::WindowChange),
    ];

    /// Its number on this system.
    pub fn number(self) -> i32 {
        self.as_raw().as_raw()
    }

    pub(crate) fn as_raw(self) -> rustix::process::Signal {
        use rustix::process::Signal as Raw;
        match self {
            Self::Hangup => Raw::HUP,
            Self::Interrupt => Raw::INT,
            Self::Quit => Raw::QUIT,
            Self::Terminate => Raw::TERM,
            Self::Kill => Raw::KILL,
            Self::Stop => Raw::STOP,
            Self::Continue => Raw::CONT,
            Self::WindowChange => Raw::WINCH,
            Self::User1 => Raw::USR1,
            Self::User2 => Raw::USR2,
        }
    }
}

/// Who holds an advisory lock on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockHolder {
    /// No process, and a holder would have been seen.
    Nobody,
    /// This process. It was seen to have the very file open.
    Process(u32),
    /// It cannot be told from here.
    Unseen,
}

/// A directory or file by what it is, not by what it is called: device and inode. Mount namespaces
/// give the same thing other names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    pub dev: u64,
    /// The number of the file on it.
    pub ino: u64,
}

impl FileId {
    /// What is at a path now, links followed.
    pub fn from_path(path: &std::path::Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;

        let about = std::fs::metadata(path).ok()?;
        Some(Self { dev: about.dev(), ino: about.ino() })
    }
}

/// Whether a process sees the same files under the same names as we do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountView {
    /// The same mount namespace, or a platform that has none.
    Ours,
    /// Another one: its paths mean other things.
    Other,
    /// It does not let itself be looked into.
    Unreadable,
}

/// One process of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRow {
    pub pid: u32,
    /// Its parent's pid; 0 when the parent is not in this process table.
    pub ppid: u32,
    /// The user it runs as.
    pub uid: u32,
    /// Kernel start time, in the unit of [`Identity::start`].
    pub start: u64,
    /// The same as wall-clock time.
    pub started_at: Option<Time>,
    /// Its run state.
    pub state: RunState,
    /// The kernel's short name.
    pub comm: String,
}

/// Why a listed process has no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingRow {
    /// It has ended meanwhile.
    Gone,
    /// It is there and cannot be read.
    Unreadable,
}

/// All processes of one listing. What is told of a process is read when it is first asked for, and only
/// answers while the row's process is still the one that has the pid; a row that was read stays.
#[derive(Debug)]
pub struct ProcessTable {
    entries: Vec<TableEntry>,
    source: Option<platform::TableSource>,
    listed: bool,
}

#[derive(Debug)]
struct TableEntry {
    pid: u32,
    row: OnceLock<Result<ProcessRow, MissingRow>>,
}

impl ProcessTable {
    /// Where processes cannot be listed.
    fn unlisted() -> Self {
        Self { entries: Vec::new(), source: None, listed: false }
    }

    fn from_pids(mut pids: Vec<u32>, source: platform::TableSource) -> Self {
        pids.sort_unstable();
        pids.dedup();
        let entry = |pid| TableEntry { pid, row: OnceLock::new() };
        let entries = pids.into_iter().map(entry).collect();
        let mut table = Self { entries, source: Some(source), listed: false };
        // A directory without a single process, not even ours, is not a process table.
        table.listed = table.entries.iter().any(|entry| table.row_of(entry).is_ok());
        table
    }

    fn row_of<'a>(&self, entry: &'a TableEntry) -> Result<&'a ProcessRow, MissingRow> {
        let read = || match &self.source {
            Some(source) => source.read_row(entry.pid),
            None => Err(MissingRow::Unreadable),
        };
        entry.row.get_or_init(read).as_ref().map_err(|&missing| missing)
    }

    /// Reads every line, on all cores: there are hundreds.
    fn read_all(&self) -> Vec<Result<&ProcessRow, MissingRow>> {
        let unread: Vec<&TableEntry> =
            self.entries.iter().filter(|entry| entry.row.get().is_none()).collect();
        crate::spread::parallel_map(&unread, 64, |entry| self.row_of(entry).is_ok());
        self.entries.iter().map(|entry| self.row_of(entry)).collect()
    }

    /// The pids that were listed, in order. To read what a process looks like costs less than its line.
    pub fn listed_pids(&self) -> Vec<u32> {
        self.entries.iter().map(|entry| entry.pid).collect()
    }

    /// The processes, by pid. Reads every line.
    pub fn rows(&self) -> Vec<&ProcessRow> {
        self.read_all().into_iter().filter_map(Result::ok).collect()
    }

    /// The process with this pid.
    pub fn get(&self, pid: u32) -> Option<&ProcessRow> {
        let index = self.entries.binary_search_by_key(&pid, |entry| entry.pid).ok()?;
        self.row_of(&self.entries[index]).ok()
    }

    /// The process with this pid, then its parent and so on, as far as the table goes.
    pub fn self_and_ancestors(&self, pid: u32) -> impl Iterator<Item = &ProcessRow> {
        /// More than any tree of processes is deep: parents that changed meanwhile may form a loop.
        const MAX_DEPTH: usize = 128;
        std::iter::successors(self.get(pid), |row| self.get(row.ppid)).take(MAX_DEPTH)
    }

    /// Whether a process is the recorded one or descends from it. Asked of one that is alive.
    pub fn descends_from(&self, pid: u32, from: &Identity) -> bool {
        let is_it = |row: &ProcessRow| Some(row.pid) == from.pid && Some(row.start) == from.start;
        self.self_and_ancestors(pid).any(is_it)
    }

    /// How many processes were there but could not be read. Those that ended meanwhile do not
    /// count.
    pub fn unreadable_count(&self) -> usize {
        let unreadable = |row: &Result<_, _>| *row == Err(MissingRow::Unreadable);
        self.read_all().iter().filter(|row| unreadable(row)).count()
    }

    /// Whether the processes could be listed at all. An empty table that was not listed is no
    /// observation.
    pub const fn was_listed(&self) -> bool {
        self.listed
    }

    /// How it looks: name, executable, arguments.
    pub fn appearance(&self, pid: u32) -> Option<ProcessAppearance> {
        self.read_checked(pid, |handle, row| Some(handle.appearance(&row.comm)))
    }

    /// How whichever process has the pid now looks: a first look at hundreds of processes, most of which
    /// are of no interest. One that is must be looked at again with [`ProcessTable::appearance`].
    pub fn appearance_unchecked(&self, pid: u32) -> Option<ProcessAppearance> {
        self.appearance_unless(pid, |_| false)
    }

    /// As [`ProcessTable::appearance_unchecked`], but `None` where `is_other` says so of the executable's path:
    /// then that is all that is read of the process.
    pub fn appearance_unless(
        &self,
        pid: u32,
        is_other: impl FnMut(&str) -> bool,
    ) -> Option<ProcessAppearance> {
        self.source.as_ref()?.look_at(pid, is_other)
    }

    /// How much memory it has in use, shared pages included. `None` where the system does not tell.
    pub fn resident_bytes(&self, pid: u32) -> Option<u64> {
        self.read_checked(pid, |handle, _| handle.resident_bytes())
    }

    /// Its working directory.
    pub fn cwd(&self, pid: u32) -> Option<PathBuf> {
        self.read_checked(pid, |handle, _| handle.cwd())
    }

    /// Its working directory and all directories above it, by what they are: this holds across
    /// mount namespaces. `None` when it cannot be looked into.
    pub fn cwd_lineage(&self, pid: u32) -> Option<Vec<FileId>> {
        self.read_checked(pid, |handle, _| handle.cwd_lineage())
    }

    /// A directory that the process itself calls `path`, and those above it.
    pub fn lineage_within(&self, pid: u32, path: &std::path::Path) -> Option<Vec<FileId>> {
        self.read_checked(pid, |handle, _| handle.lineage_within(path))
    }

    /// Whether paths mean the same to it as to us.
    pub fn mount_view(&self, pid: u32) -> MountView {
        self.read_checked(pid, |handle, _| Some(handle.mount_view()))
            .unwrap_or(MountView::Unreadable)
    }

    /// Whether the row's process is over by now: what cannot be read of it hides nothing. Looks again.
    pub fn has_ended(&self, pid: u32) -> bool {
        match (self.get(pid), look_up_pid(pid)) {
            (None, _) | (_, PidLookup::Absent | PidLookup::Thread) => true,
            (Some(row), PidLookup::Process(now)) => {
                let exited = now.state == RunState::Exited && now.threads <= 1;
                let replaced = now.start.is_some_and(|start| start != row.start);
                exited
                    || replaced
                    || ProcessHandle::open(pid).map_or(true, |handle| handle.is_leaving())
            }
            (Some(_), PidLookup::Hidden | PidLookup::Unreadable) => false,
        }
    }

    /// Whether it is a thread of the kernel, which works nowhere.
    pub fn is_kernel_thread(&self, pid: u32) -> bool {
        self.get(pid).is_some_and(platform::is_kernel_thread)
    }

    /// Whether the kernel's records say that it is a service of the system (systemd's, in our pid
    /// namespace), which no person started to work in a directory of theirs.
    pub fn is_system_service(&self, pid: u32) -> bool {
        self.read_checked(pid, |handle, _| Some(handle.is_system_service())).unwrap_or(false)
    }

    /// Whether it is a process of our own user in our own pid namespace.
    pub fn is_ours(&self, pid: u32) -> bool {
        self.read_checked(pid, |handle, row| {
            let ours = row.uid == rustix::process::geteuid().as_raw();
            Some(ours && handle.is_in_our_pid_namespace())
        })
        .unwrap_or(false)
    }

    /// One variable of the environment it was started with; only for our own user's processes.
    /// The rest of the environment may hold secrets and is never handed out.
    pub fn environ_value(&self, pid: u32, name: &str) -> Option<OsString> {
        self.read_checked(pid, |handle, row| {
            let ours = row.uid == rustix::process::geteuid().as_raw();
            ours.then(|| handle.environ_value(name)).flatten()
        })
    }

    /// The paths of the files it has open, as the kernel names them: a file that was removed
    /// since ends in ` (deleted)`. Empty when they cannot be read.
    pub fn open_files(&self, pid: u32) -> Vec<PathBuf> {
        self.read_checked(pid, |handle, _| Some(handle.open_files())).unwrap_or_default()
    }

    /// Whether it is seen to have the file open. `false` when that cannot be read: it is proof
    /// one way only.
    pub fn holds_open(&self, pid: u32, dev: u64, ino: u64) -> bool {
        self.read_checked(pid, |handle, _| Some(handle.holds_open(dev, ino))).unwrap_or(false)
    }

    /// Reads something of the row's process, and nothing if another has taken its pid.
    fn read_checked<T>(
        &self,
        pid: u32,
        read: impl FnOnce(&ProcessHandle, &ProcessRow) -> Option<T>,
    ) -> Option<T> {
        let row = self.get(pid)?;
        let handle = ProcessHandle::open(pid).ok()?;
        let answer = read(&handle, row)?;
        // Afterwards: then the handle named this process during the whole reading.
        (handle.start_time() == Ok(row.start)).then_some(answer)
    }
}

/// What this process knows about its own place in the world.
pub fn current_observer() -> Observer {
    platform::current_observer()
}

/// As [`current_observer`], but only to write identities down: it is cheaper, and judges nothing dead.
pub fn recording_observer() -> Observer {
    platform::recording_observer()
}

/// Everything that names the running process `pid`, as of now.
pub fn identify_process(pid: u32) -> Result<Identity, IdentifyError> {
    identify_as(pid, &platform::current_observer())
}

/// As [`identify_process`], for a caller that has already gathered the observer.
pub fn identify_as(pid: u32, observer: &Observer) -> Result<Identity, IdentifyError> {
    if !observer.introspects {
        return Err(IdentifyError::NoProcessTable);
    }
    platform::identify_process(pid, observer)
}

/// Everything that names this very process.
pub fn identify_self() -> Result<Identity, IdentifyError> {
    identify_process(std::process::id())
}

/// What the process table shows for a pid now.
pub fn look_up_pid(pid: u32) -> PidLookup {
    platform::look_up_pid(pid)
}

/// Is the recorded process still there? Looks only where looking can prove something.
pub fn probe_liveness(recorded: &Identity, observer: &Observer) -> Liveness {
    match (decide_before_looking(recorded, observer), recorded.pid) {
        (Some(verdict), _) => verdict,
        (None, pid) => decide_liveness(
            recorded,
            observer,
            pid.map_or(PidLookup::Unreadable, platform::look_up_pid),
        ),
    }
}

/// A descriptor that can be read once the recorded process has ended. `None` when it is not there,
/// when that is not certain, or where there is no such thing.
pub fn watch_process_end(recorded: &Identity, observer: &Observer) -> Option<std::os::fd::OwnedFd> {
    if decide_before_looking(recorded, observer).is_some() {
        return None;
    }
    platform::watch_process_end(recorded.pid?, |seen| decide_liveness(recorded, observer, seen))
}

/// The process table.
pub fn read_process_table() -> ProcessTable {
    platform::list_processes()
}

/// Sends a signal to the recorded process, and only to it: the process is held on to first and
/// checked then, so that the signal cannot reach one that was handed the same pid meanwhile.
pub fn signal_process(
    recorded: &Identity,
    signal: Signal,
    observer: &Observer,
) -> Result<(), SignalError> {
    let Some(pid) = recorded.pid else {
        return Err(SignalError::NotAlive(probe_liveness(recorded, observer)));
    };
    if let Some(verdict) = decide_before_looking(recorded, observer) {
        return Err(SignalError::NotAlive(verdict));
    }
    platform::signal_process(pid, signal.as_raw(), |seen| decide_liveness(recorded, observer, seen))
}

/// Waits until the recorded process has ended, without looking again and again, and says how. Where
/// that cannot be waited for it says at once how things stand.
pub fn wait_for_end(recorded: &Identity, observer: &Observer) -> Liveness {
    use rustix::event::{PollFd, PollFlags, poll};

    if let Some(watched) = watch_process_end(recorded, observer) {
        while poll(&mut [PollFd::new(&watched, PollFlags::IN)], None)
            == Err(rustix::io::Errno::INTR)
        {}
    }
    probe_liveness(recorded, observer)
}

/// Who holds a `flock` on the file, as far as can be seen without touching it. Never takes a
/// trial lock: that could make a starting agent fail.
pub fn flock_holder(dev: u64, ino: u64) -> LockHolder {
    platform::flock_holder(dev, ino)
}
