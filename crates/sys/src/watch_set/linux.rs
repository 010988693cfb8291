//! inotify, pidfds and a timer that is cancelled when the clock is set, in one epoll.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use model::identity::Identity;
use model::liveness::Observer;
use rustix::event::epoll;
use rustix::fs::inotify;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::{DirectoryChange, EntryChange, WatchNews};
use crate::dropped::NoteDropped;
use crate::watch::WatchLimitError;

const DIRECTORIES_TOKEN: u64 = u64::MAX;
const CLOCK_TOKEN: u64 = u64::MAX - 1;

#[derive(Debug)]
pub(super) struct LinuxWatches {
    ready: OwnedFd,
    directories: OwnedFd,
    clock: Option<OwnedFd>,
    /// What is watched, by its path and by the kernel's number. Two paths may lead to one directory.
    numbers: HashMap<PathBuf, i32>,
    paths: HashMap<i32, Vec<PathBuf>>,
}

impl LinuxWatches {
    pub(super) fn new() -> io::Result<Self> {
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let directories = inotify::init(flags).map_err(WatchLimitError::limit_error)?;
        add_source(&ready, &directories, DIRECTORIES_TOKEN)?;
        // Without it a set clock is noticed with the next change.
        let clock = watch_clock();
        let clock = match clock {
            Ok(clock) => Some(clock),
            failed => {
                failed.note_dropped("watching the clock");
                None
            }
        };
        if let Some(clock) = &clock {
            add_source(&ready, clock, CLOCK_TOKEN)?;
        }
        let (numbers, paths) = (HashMap::new(), HashMap::new());
        Ok(Self { ready, directories, clock, numbers, paths })
    }

    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ready.as_fd())
    }

    pub(super) fn watch_directories<'a>(
        &mut self,
        wanted: impl Iterator<Item = &'a Path>,
    ) -> io::Result<usize> {
        let wanted: Vec<&Path> = wanted.collect();
        let kept: HashSet<&Path> = wanted.iter().copied().collect();
        let left: Vec<PathBuf> =
            self.numbers.keys().filter(|path| !kept.contains(path.as_path())).cloned().collect();
        for path in left {
            self.forget_path(&path);
        }
        let mut added = 0;
        for path in wanted {
            if !self.numbers.contains_key(path) {
                added += usize::from(self.watch_directory(path)?);
            }
        }
        Ok(added)
    }

    fn watch_directory(&mut self, path: &Path) -> io::Result<bool> {
        use inotify::WatchFlags;
        let changes = WatchFlags::MODIFY
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        match inotify::add_watch(&self.directories, path, changes) {
            Ok(number) => {
                self.numbers.insert(path.to_owned(), number);
                self.paths.entry(number).or_default().push(path.to_owned());
                Ok(true)
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => Ok(false),
            Err(errno) => Err(WatchLimitError::limit_error(errno)),
        }
    }

    fn forget_path(&mut self, path: &Path) {
        let Some(number) = self.numbers.remove(path) else { return };
        let Some(paths) = self.paths.get_mut(&number) else { return };
        paths.retain(|other| other != path);
        if paths.is_empty() {
            self.paths.remove(&number);
            // The kernel forgets a directory that is gone by itself.
            let _ = inotify::remove_watch(&self.directories, number);
        }
    }

    /// Forgets a directory that is no longer where it was.
    fn forget_number(&mut self, number: i32) {
        for path in self.paths.remove(&number).unwrap_or_default() {
            self.numbers.remove(&path);
        }
    }

    pub(super) fn hold_process(&self, identity: &Identity, observer: &Observer) -> Option<OwnedFd> {
        let process = crate::proc::watch_process_end(identity, observer)?;
        let token = u64::from(identity.pid?);
        // One that cannot be watched is looked at from time to time.
        add_source(&self.ready, &process, token).is_ok().then_some(process)
    }

    pub(super) fn release_process(&self, process: OwnedFd) {
        epoll::delete(&self.ready, process).note_dropped("releasing a process");
    }

    /// Takes what was told; returns the pids of processes that ended.
    pub(super) fn take_news(&mut self, news: &mut WatchNews) -> io::Result<Vec<u32>> {
        let mut gone = Vec::new();
        let mut events = Vec::with_capacity(64);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.ready, rustix::buffer::spare_capacity(&mut events), Some(&now)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(gone),
            Err(errno) => return Err(errno.into()),
        }
        for event in events {
            match event.data.u64() {
                DIRECTORIES_TOKEN => self.read_changes(news)?,
                CLOCK_TOKEN => {
                    news.clock_moved = true;
                    if let Some(clock) = &self.clock {
                        set_far_timer(clock)?;
                    }
                }
                pid => gone.extend(u32::try_from(pid)),
            }
        }
        Ok(gone)
    }

    fn read_changes(&mut self, news: &mut WatchNews) -> io::Result<()> {
        use inotify::ReadFlags;
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut moved = Vec::new();
        let mut reader = inotify::Reader::new(&self.directories, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                news.lost = true;
                continue;
            }
            let change = if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                EntryChange::Appeared
            } else if flags.contains(ReadFlags::MODIFY) {
                EntryChange::Written
            } else {
                EntryChange::Vanished
            };
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
            for directory in self.paths.get(&event.wd()).into_iter().flatten() {
                let (directory, name) = (directory.clone(), name.clone());
                news.changes.push(DirectoryChange { directory, name, change });
            }
            if flags.intersects(ReadFlags::IGNORED | ReadFlags::MOVE_SELF) {
                moved.push((event.wd(), flags.contains(ReadFlags::MOVE_SELF)));
            }
        }
        for (number, still_watched) in moved {
            if still_watched {
                // It is somewhere else now: what happens there is no longer meant.
                let _ = inotify::remove_watch(&self.directories, number);
            }
            self.forget_number(number);
        }
        Ok(())
    }
}

fn add_source(ready: &OwnedFd, source: &OwnedFd, token: u64) -> io::Result<()> {
    let data = epoll::EventData::new_u64(token);
    Ok(epoll::add(ready, source, data, epoll::EventFlags::IN)?)
}

/// A timer that never comes, and is cancelled when the clock is set or the machine wakes up.
fn watch_clock() -> io::Result<OwnedFd> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let clock = timerfd_create(TimerfdClockId::Realtime, flags)?;
    set_far_timer(&clock)?;
    Ok(clock)
}

fn set_far_timer(clock: &OwnedFd) -> io::Result<()> {
    // What was told is read away; a cancelled timer answers with an error.
    let _ = rustix::io::read(clock, &mut [0u8; 8]);
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    let never = Timespec { tv_sec: i64::MAX / 4_000_000_000, tv_nsec: 0 };
    let timer = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: never };
    timerfd_settime(clock, flags, &timer)?;
    Ok(())
}
