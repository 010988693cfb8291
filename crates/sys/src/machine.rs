//! The machine a command works on: directories, environment, clock and observer, in one value.
//!
//! One [`Machine`] is made per command or turn of the daemon and passed down; nothing below reads the world
//! beside it. So one command has one idea of *now* and of who is looking, and a test passes a machine of
//! its own (`testkit::machine`). Cloning one is cheap, and a clone is the same machine at the same moment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use model::identity::Identity;
use model::liveness::{Liveness, Observer};
use model::time::Time;

use crate::dirs::{self, Dirs, DirsError};
use crate::proc::IdentifyError;

mod environment;

pub use environment::EnvLookup;

/// A reading of the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock.
    pub now: Time,
    /// The time since boot, suspension included.
    pub since_boot: Duration,
}

/// Where a machine's answers come from: this system, or what a test says.
pub trait MachineSource: Send + Sync {
    /// The value of an environment variable.
    fn variable(&self, name: &str) -> Option<OsString>;
    /// The working directory.
    fn current_dir(&self) -> io::Result<PathBuf>;
    /// Reads the clocks.
    fn read_clocks(&self) -> Moment;
    /// Gathers who is looking. Asked at most once for each machine.
    fn gather_observer(&self) -> Observer;
    /// Whether a recorded process is there.
    fn probe_process(&self, recorded: &Identity, observer: &Observer) -> Liveness;
}

/// ostler's own directories. Those below the user's home may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineDirs {
    /// State that no other source knows.
    pub home: PathBuf,
    pub runtime: PathBuf,
    /// What may be deleted at any time.
    pub cache: Option<PathBuf>,
    pub config: Option<PathBuf>,
}

impl From<Dirs> for MachineDirs {
    fn from(dirs: Dirs) -> Self {
        Self {
            home: dirs.home,
            runtime: dirs.runtime,
            cache: Some(dirs.cache),
            config: Some(dirs.config),
        }
    }
}

/// Directories, environment, clock and observer of one command or turn.
#[derive(Clone)]
pub struct Machine {
    dirs: MachineDirs,
    source: Arc<dyn MachineSource>,
    began: Moment,
    observer: Arc<OnceLock<Observer>>,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine")
            .field("dirs", &self.dirs)
            .field("began", &self.began)
            .finish_non_exhaustive()
    }
}

impl Machine {
    /// The machine of this process, now.
    pub fn here() -> Result<Self, DirsError> {
        let mut dirs = MachineDirs::from(dirs::of_this_process()?);
        let home = std::env::var_os("HOME").map(PathBuf::from);
        // A home directory that is not there is not made for a cache.
        dirs.cache = dirs.cache.filter(|cache| {
            home.as_ref().is_none_or(|home| !cache.starts_with(home) || home.is_dir())
        });
        Ok(Self::new(dirs, Arc::new(ThisSystem)))
    }

    /// The machine of this process with a home that it was told and no cache: for what needs no `HOME`.
    pub fn with_home(home: PathBuf) -> Self {
        let runtime = dirs::runtime_of_this_process();
        let dirs = MachineDirs { home, runtime, cache: None, config: None };
        Self::new(dirs, Arc::new(ThisSystem))
    }

    /// A machine with other directories or another source; it begins now.
    pub fn new(dirs: MachineDirs, source: Arc<dyn MachineSource>) -> Self {
        let began = source.read_clocks();
        Self { dirs, source, began, observer: Arc::default() }
    }

    /// The same machine, later: the clocks are read again, and who is looking is gathered again.
    #[must_use]
    pub fn next_turn(&self) -> Self {
        Self::new(self.dirs.clone(), Arc::clone(&self.source))
    }

    /// The same machine at the same moment, with the variables of the client and no others.
    #[must_use]
    pub fn with_variables(&self, variables: &BTreeMap<String, String>) -> Self {
        let source = OtherVariables {
            source: Arc::clone(&self.source),
            variables: variables.iter().map(|(name, value)| (name.clone(), value.into())).collect(),
        };
        Self { source: Arc::new(source), ..self.clone() }
    }

    /// Does something on this machine, and gives what was looked up in its environment besides: so that
    /// the process that carries a request out sees the same one.
    pub fn note_variables<T>(
        &self,
        something: impl FnOnce(&Self) -> T,
    ) -> (T, BTreeMap<String, String>) {
        let source =
            Arc::new(NotedVariables { source: Arc::clone(&self.source), asked: Mutex::default() });
        let noting = Self { source: Arc::<NotedVariables>::clone(&source), ..self.clone() };
        let done = something(&noting);
        let asked = std::mem::take(&mut *lock_asked(&source.asked));
        (done, asked)
    }

    pub fn home(&self) -> &Path {
        &self.dirs.home
    }

    /// Where sockets are.
    pub fn runtime(&self) -> &Path {
        &self.dirs.runtime
    }

    /// What may be deleted at any time, where there is a place for it.
    pub fn cache(&self) -> Option<&Path> {
        self.dirs.cache.as_deref()
    }

    /// Where settings are, where there is a place for them.
    pub fn config(&self) -> Option<&Path> {
        self.dirs.config.as_deref()
    }

    pub fn env(&self) -> EnvLookup<'_> {
        EnvLookup::of_machine(self)
    }

    /// The value of a variable, as it stands there.
    fn raw_variable(&self, name: &str) -> Option<OsString> {
        self.source.variable(name)
    }

    /// The working directory.
    pub fn current_dir(&self) -> io::Result<PathBuf> {
        self.source.current_dir()
    }

    /// When the command or turn began: what ages and deadlines are counted from.
    pub fn now(&self) -> Time {
        self.began.now
    }

    /// The clocks when the command or turn began.
    pub fn began(&self) -> Moment {
        self.began
    }

    /// The time at this very moment, for what is written down as it happens.
    pub fn read_clock(&self) -> Time {
        self.read_clocks().now
    }

    /// The clocks at this very moment.
    pub fn read_clocks(&self) -> Moment {
        self.source.read_clocks()
    }

    /// Who is looking. Gathered when it is first asked for.
    pub fn observer(&self) -> &Observer {
        self.observer.get_or_init(|| self.source.gather_observer())
    }

    /// Whether a recorded process is there.
    pub fn probe_process(&self, recorded: &Identity) -> Liveness {
        self.source.probe_process(recorded, self.observer())
    }

    /// Everything that names a process.
    pub fn identify_process(&self, pid: u32) -> Result<Identity, IdentifyError> {
        crate::proc::identify_as(pid, self.observer())
    }
}

/// The system that this process runs on.
#[derive(Debug)]
struct ThisSystem;

impl MachineSource for ThisSystem {
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn current_dir(&self) -> io::Result<PathBuf> {
        std::env::current_dir()
    }

    fn read_clocks(&self) -> Moment {
        Moment { now: crate::clock::now(), since_boot: crate::clock::time_since_boot() }
    }

    fn gather_observer(&self) -> Observer {
        crate::proc::current_observer()
    }

    fn probe_process(&self, recorded: &Identity, observer: &Observer) -> Liveness {
        crate::proc::probe_liveness(recorded, observer)
    }
}

/// A source whose variables are others: those that came with a request.
struct OtherVariables {
    source: Arc<dyn MachineSource>,
    variables: BTreeMap<String, OsString>,
}

impl MachineSource for OtherVariables {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name).cloned()
    }

    fn current_dir(&self) -> io::Result<PathBuf> {
        self.source.current_dir()
    }

    fn read_clocks(&self) -> Moment {
        self.source.read_clocks()
    }

    fn gather_observer(&self) -> Observer {
        self.source.gather_observer()
    }

    fn probe_process(&self, recorded: &Identity, observer: &Observer) -> Liveness {
        self.source.probe_process(recorded, observer)
    }
}

/// A source that remembers which variables it was asked for, and what they are.
struct NotedVariables {
    source: Arc<dyn MachineSource>,
    asked: Mutex<BTreeMap<String, String>>,
}

/// What a panic left half done is still what was asked.
fn lock_asked(
    asked: &Mutex<BTreeMap<String, String>>,
) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
    asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl MachineSource for NotedVariables {
    fn variable(&self, name: &str) -> Option<OsString> {
        let value = self.source.variable(name).filter(|value| !value.is_empty())?;
        if let Some(text) = value.to_str() {
            lock_asked(&self.asked).insert(name.to_owned(), text.to_owned());
        }
        Some(value)
    }

    fn current_dir(&self) -> io::Result<PathBuf> {
        self.source.current_dir()
    }

    fn read_clocks(&self) -> Moment {
        self.source.read_clocks()
    }

    fn gather_observer(&self) -> Observer {
        self.source.gather_observer()
    }

    fn probe_process(&self, recorded: &Identity, observer: &Observer) -> Liveness {
        self.source.probe_process(recorded, observer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Counts how often it is asked.
    #[derive(Default)]
    struct Counting {
        clocks: AtomicU64,
        observers: AtomicU64,
    }

    impl MachineSource for Counting {
        fn variable(&self, name: &str) -> Option<OsString> {
            (name == "HOME").then(|| "/h".into())
        }

        fn current_dir(&self) -> io::Result<PathBuf> {
            Ok("/d".into())
        }

        fn read_clocks(&self) -> Moment {
            let ticks = self.clocks.fetch_add(1, Ordering::Relaxed);
            let now = Time::from_millis(i64::try_from(ticks).unwrap());
            Moment { now, since_boot: Duration::from_millis(ticks) }
        }

        fn gather_observer(&self) -> Observer {
            self.observers.fetch_add(1, Ordering::Relaxed);
            crate::proc::current_observer()
        }

        fn probe_process(&self, recorded: &Identity, observer: &Observer) -> Liveness {
            crate::proc::probe_liveness(recorded, observer)
        }
    }

    fn machine(source: &Arc<Counting>) -> Machine {
        let (home, runtime) = ("/o".into(), "/r".into());
        let dirs = MachineDirs { home, runtime, cache: None, config: None };
        let source: Arc<dyn MachineSource> = Arc::<Counting>::clone(source);
        Machine::new(dirs, source)
    }

    #[test]
    fn a_command_has_one_now_and_one_observer_that_nobody_gathers_in_vain() {
        let source = Arc::new(Counting::default());
        let machine = machine(&source);
        let began = machine.now();
        assert!(machine.read_clock() > began);
        assert_eq!(machine.now(), began);
        assert_eq!(source.observers.load(Ordering::Relaxed), 0);
        let requested = machine.with_variables(&BTreeMap::default());
        assert_eq!(machine.observer(), requested.observer());
        assert_eq!(source.observers.load(Ordering::Relaxed), 1);
        assert_eq!(requested.now(), began);
    }

    #[test]
    fn the_next_turn_reads_the_clocks_and_gathers_the_observer_again() {
        let source = Arc::new(Counting::default());
        let first = machine(&source);
        first.observer();
        let second = first.next_turn();
        assert!(second.now() > first.now());
        second.observer();
        assert_eq!(source.observers.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn variables_of_a_request_replace_all_others() {
        let machine = machine(&Arc::default());
        let variables = BTreeMap::from([("CODEX_HOME".to_owned(), "/c".to_owned())]);
        let requested = machine.with_variables(&variables);
        assert_eq!(requested.env().path_of("CODEX_HOME"), Some("/c".into()));
        assert_eq!(requested.env().home_dir(), None);
        assert_eq!(machine.env().home_dir(), Some("/h".into()));
    }

    #[test]
    fn what_was_looked_up_is_noted_and_nothing_else() {
        let machine = machine(&Arc::default());
        let (found, asked) = machine
            .note_variables(|machine| (machine.env().home_dir(), machine.env().get("CODEX_HOME")));
        assert_eq!(found, (Some("/h".into()), None));
        assert_eq!(asked, BTreeMap::from([("HOME".to_owned(), "/h".to_owned())]));
    }
}
