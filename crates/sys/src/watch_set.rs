//! A set of watches behind one descriptor: directories that change, processes that end, a wall clock
//! that is set or a machine that wakes up. The kernel tells all of them; nothing is asked for again and again.
//!
//! Where the kernel does not tell (no inotify, or its limits are used up), the set says so, and
//! a waiter is told to look every [`ASK_INTERVAL`].

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::identity::Identity;
use model::liveness::Observer;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux::LinuxWatches as KernelWatches;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
use other::AskedWatches as KernelWatches;

/// How often to look where nothing is told.
pub const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// How many processes are held on to at most: each takes a descriptor.
const MAX_HELD_PROCESSES: usize = 256;

/// What happened to an entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryChange {
    /// It was written to.
    Written,
    /// It was made, or moved here.
    Appeared,
    /// It was removed, or moved away.
    Vanished,
}

/// One change in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryChange {
    /// The directory, as it was named when it was put under watch.
    pub directory: PathBuf,
    /// The entry; none when it is the directory itself.
    pub name: Option<OsString>,
    pub change: EntryChange,
}

/// What was told since the last time.
#[derive(Debug, Default)]
pub struct WatchNews {
    /// Changes in directories, oldest first.
    pub changes: Vec<DirectoryChange>,
    /// Whether a process ended.
    pub process_ended: bool,
    /// Whether changes were lost, or are never told: anything may have changed.
    pub lost: bool,
    /// Whether the wall clock was set, or the machine slept.
    pub clock_moved: bool,
    /// Whether the descriptor of the waiter can be read.
    pub rung: bool,
}

impl WatchNews {
    /// Whether nothing was told.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && !self.process_ended && !self.lost && !self.clock_moved
    }
}

/// What names a process in the set.
type ProcessKey = (u32, u64);

/// Directories, processes and the clock, watched together.
#[derive(Debug)]
pub struct WatchSet {
    kernel: KernelWatches,
    /// Processes whose end was told: they are not held on to again.
    ended: HashSet<ProcessKey>,
    processes: HashMap<ProcessKey, OwnedFd>,
}

impl WatchSet {
    /// A set without any watch but that of the clock.
    pub fn new() -> io::Result<Self> {
        Ok(Self { kernel: KernelWatches::new()?, ended: HashSet::new(), processes: HashMap::new() })
    }

    /// What to poll for reading, where the platform tells.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.kernel.descriptor()
    }

    /// Watches these directories and no others; says how many are new. One that is not there is left out.
    /// At the kernel's limit it is an error (see [`crate::watch::WatchLimitError`]), and those before it are watched.
    pub fn watch_directories<'a>(
        &mut self,
        wanted: impl IntoIterator<Item = &'a Path>,
    ) -> io::Result<usize> {
        self.kernel.watch_directories(wanted.into_iter())
    }

    /// Holds on to these processes and no others. Says how many of them cannot be, because they are gone or
    /// because there is no such thing here.
    pub fn hold_processes<'a>(
        &mut self,
        wanted: impl IntoIterator<Item = &'a Identity>,
        observer: &Observer,
    ) -> usize {
        let mut held = HashMap::new();
        let mut ended = HashSet::new();
        let mut unheld = 0;
        for identity in wanted {
            let (Some(pid), Some(start)) = (identity.pid, identity.start) else {
                unheld += 1;
                continue;
            };
            let key = (pid, start);
            if held.contains_key(&key) {
                continue;
            }
            if self.ended.contains(&key) {
                ended.insert(key);
                continue;
            }
            let known = self.processes.remove(&key);
            let room = held.len() < MAX_HELD_PROCESSES;
            match known.or_else(|| self.kernel.hold_process(identity, observer).filter(|_| room)) {
                Some(process) => {
                    held.insert(key, process);
                }
                None => unheld += 1,
            }
        }
        for (_, process) in self.processes.drain() {
            self.kernel.release_process(process);
        }
        (self.processes, self.ended) = (held, ended);
        unheld
    }

    /// Waits until something is told, one of `bells` can be read, or for so long.
    pub fn wait_for_news(
        &mut self,
        timeout: Option<Duration>,
        bells: &[BorrowedFd<'_>],
    ) -> io::Result<WatchNews> {
        let Some(descriptor) = self.kernel.descriptor() else {
            let timeout = timeout.map_or(ASK_INTERVAL, |timeout| timeout.min(ASK_INTERVAL));
            let rung = crate::watch::poll_readable(bells, Some(timeout))?.contains(&true);
            return Ok(WatchNews { lost: true, rung, ..WatchNews::default() });
        };
        let waiting: Vec<BorrowedFd<'_>> =
            std::iter::once(descriptor).chain(bells.iter().copied()).collect();
        let ready = crate::watch::poll_readable(&waiting, timeout)?;
        let (told, rung) = (ready[0], ready[1..].contains(&true));
        let mut news = if told { self.take_news()? } else { WatchNews::default() };
        news.rung = rung;
        Ok(news)
    }

    /// What was told so far, without waiting.
    pub fn take_news(&mut self) -> io::Result<WatchNews> {
        let mut news = WatchNews::default();
        let gone = self.kernel.take_news(&mut news)?;
        for pid in gone {
            let keys: Vec<ProcessKey> =
                self.processes.keys().copied().filter(|key| key.0 == pid).collect();
            for key in keys {
                self.ended.insert(key);
                if let Some(process) = self.processes.remove(&key) {
                    self.kernel.release_process(process);
                }
            }
            news.process_ended = true;
        }
        Ok(news)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    fn news(set: &mut WatchSet) -> WatchNews {
        set.wait_for_news(Some(Duration::from_secs(5)), &[]).unwrap()
    }

    #[test]
    fn what_is_written_made_and_removed_is_told_by_name() {
        let home = tempfile::tempdir().unwrap();
        let mut set = WatchSet::new().unwrap();
        assert_eq!(set.watch_directories([home.path()]).unwrap(), 1);
        assert!(set.take_news().unwrap().is_empty());
        let file = home.path().join("one");
        std::fs::write(&file, b"x").unwrap();
        let told = news(&mut set).changes;
        assert!(told.iter().all(|change| change.name.as_deref() == Some("one".as_ref())));
        assert_eq!(told[0].change, EntryChange::Appeared);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(news(&mut set).changes[0].change, EntryChange::Vanished);
    }

    #[test]
    fn only_what_is_wanted_now_is_watched() {
        let home = tempfile::tempdir().unwrap();
        let (one, two) = (home.path().join("one"), home.path().join("two"));
        std::fs::create_dir(&one).unwrap();
        std::fs::create_dir(&two).unwrap();
        let mut set = WatchSet::new().unwrap();
        let absent = home.path().join("absent");
        assert_eq!(set.watch_directories([one.as_path(), &absent]).unwrap(), 1);
        assert_eq!(set.watch_directories([one.as_path(), &two]).unwrap(), 1, "one is known");
        set.watch_directories([two.as_path()]).unwrap();
        set.take_news().unwrap();
        std::fs::write(one.join("x"), b"x").unwrap();
        std::fs::write(two.join("y"), b"y").unwrap();
        let told = news(&mut set).changes;
        assert!(told.iter().all(|change| change.directory == two), "{told:?}");
    }

    #[test]
    fn a_directory_that_is_removed_and_made_again_is_watched_again() {
        let home = tempfile::tempdir().unwrap();
        let one = home.path().join("one");
        std::fs::create_dir(&one).unwrap();
        let mut set = WatchSet::new().unwrap();
        set.watch_directories([one.as_path()]).unwrap();
        std::fs::remove_dir(&one).unwrap();
        assert!(!news(&mut set).changes.is_empty());
        std::fs::create_dir(&one).unwrap();
        assert_eq!(set.watch_directories([one.as_path()]).unwrap(), 1);
        std::fs::write(one.join("x"), b"x").unwrap();
        assert!(!news(&mut set).changes.is_empty());
    }

    #[test]
    fn the_end_of_a_process_is_told_once() {
        let observer = crate::proc::current_observer();
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let identity = crate::proc::identify_as(child.id(), &observer).unwrap();
        let mut set = WatchSet::new().unwrap();
        assert_eq!(set.hold_processes([&identity], &observer), 0);
        child.kill().unwrap();
        assert!(news(&mut set).process_ended);
        // It is a zombie now, and still is not told again.
        set.hold_processes([&identity], &observer);
        assert!(set.wait_for_news(Some(Duration::ZERO), &[]).unwrap().is_empty());
        child.wait().unwrap();
    }

    #[test]
    fn a_bell_ends_the_wait() {
        let (bell, ring) = io::pipe().unwrap();
        let mut set = WatchSet::new().unwrap();
        drop(ring);
        use std::os::fd::AsFd;
        assert!(set.wait_for_news(None, &[bell.as_fd()]).unwrap().rung);
    }
}
