//! A fake machine: temporary directories, a given environment, a clock that is set by hand, a given observer
//! and process table.
//!
//! What nothing was said about is this system's own: its clock, its observer, its processes. So a test
//! changes the one thing that it is about.
#![expect(clippy::unwrap_used, reason = "a machine that cannot be made is a broken test")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::identity::Identity;
use model::liveness::{Liveness, Observer};
use model::time::Time;
use sys::machine::{Machine, MachineDirs, MachineSource, Moment};

use crate::home::TempHome;

/// A machine that a test has to itself.
#[derive(Debug)]
pub struct FakeMachine {
    /// The user's home, where agents keep their files.
    pub home: TempHome,
    source: Arc<FakeSource>,
    dirs: MachineDirs,
}

impl Default for FakeMachine {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeMachine {
    /// An empty home, and nothing in the environment but where it is.
    pub fn new() -> Self {
        let home = TempHome::new();
        let dirs = MachineDirs {
            home: home.join(".local/state/ostler"),
            runtime: home.join("run"),
            cache: Some(home.join(".cache/ostler")),
            config: Some(home.join(".config/ostler")),
        };
        let fake = Self { source: Arc::new(FakeSource::in_directory(home.path())), home, dirs };
        fake.set_variable("HOME", fake.home.path());
        fake
    }

    /// The same with ostler's state elsewhere.
    #[must_use]
    pub fn with_state(mut self, home: PathBuf) -> Self {
        self.dirs.home = home;
        self
    }

    /// The machine as one command sees it: it begins now, by this machine's clock.
    pub fn machine(&self) -> Machine {
        let source: Arc<dyn MachineSource> = Arc::<FakeSource>::clone(&self.source);
        Machine::new(self.dirs.clone(), source)
    }

    /// Sets an environment variable.
    pub fn set_variable(&self, name: &str, value: impl AsRef<Path>) {
        let value = value.as_ref().as_os_str().to_owned();
        self.source.variables.lock().unwrap().insert(name.to_owned(), value);
    }

    /// Sets the clocks, which stand still from then on.
    pub fn set_clocks(&self, now: Time, since_boot: Duration) {
        *self.source.clocks.lock().unwrap() = Some(Moment { now, since_boot });
    }

    /// Sets the wall clock; the time since boot is what it is.
    pub fn set_now(&self, now: Time) {
        self.set_clocks(now, sys::clock::time_since_boot());
    }

    /// Changes who is looking.
    pub fn change_observer(&self, change: impl FnOnce(&mut Observer)) {
        let mut observer = self.source.observer.lock().unwrap();
        change(observer.get_or_insert_with(sys::proc::current_observer));
    }

    /// Answers for the process table.
    pub fn answer_probes(
        &self,
        probe: impl Fn(&Identity, &Observer) -> Liveness + Send + Sync + 'static,
    ) {
        *self.source.probe.lock().unwrap() = Some(Arc::new(probe));
    }
}

type Probe = Arc<dyn Fn(&Identity, &Observer) -> Liveness + Send + Sync>;

/// What was said about the machine.
struct FakeSource {
    directory: PathBuf,
    variables: Mutex<BTreeMap<String, OsString>>,
    clocks: Mutex<Option<Moment>>,
    observer: Mutex<Option<Observer>>,
    probe: Mutex<Option<Probe>>,
}

impl std::fmt::Debug for FakeSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeSource").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl FakeSource {
    fn in_directory(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            variables: Mutex::default(),
            clocks: Mutex::default(),
            observer: Mutex::default(),
            probe: Mutex::default(),
        }
    }
}

impl MachineSource for FakeSource {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.lock().unwrap().get(name).cloned()
    }

    fn current_dir(&self) -> io::Result<PathBuf> {
        Ok(self.directory.clone())
    }

    fn read_clocks(&self) -> Moment {
        let set = *self.clocks.lock().unwrap();
        set.unwrap_or_else(|| Moment {
            now: sys::clock::now(),
            since_boot: sys::clock::time_since_boot(),
        })
    }

    fn gather_observer(&self) -> Observer {
        let set = self.observer.lock().unwrap().clone();
        set.unwrap_or_else(sys::proc::current_observer)
    }

    fn probe_process(&self, recorded: &Identity, observer: &Observer) -> Liveness {
        let probe = self.probe.lock().unwrap().clone();
        match probe {
            Some(probe) => probe(recorded, observer),
            None => sys::proc::probe_liveness(recorded, observer),
        }
    }
}
