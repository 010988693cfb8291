//! Linux: `/proc`, pidfds and namespaces.
//!
//! A [`ProcessHandle`] is an open `/proc/<pid>` directory. The kernel ties it to the process, not to the
//! number: once that process is reaped, reading through the handle fails, even when the pid has
//! been handed on. That is what keeps facts of two processes apart.

mod locks;
mod mounts;
mod observer;
mod pidfd;
mod stat;
mod table;

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use model::identity::{Identity, IdentityRecorder, MachineId};
use model::liveness::{Liveness, Observer, PidLookup, RunState, SeenProcess};
use model::program::ProcessAppearance;
use model::time::Time;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, StatxFlags};
use rustix::io::Errno;

use super::{FileId, IdentifyError, MountView, ProcessRow};
use pidfd::{Pidfd, PidfdAnswer};
use stat::Stat;

pub(super) use locks::flock_holder;
pub(super) use observer::{current_observer, recording_observer};
pub(super) use pidfd::signal_process;
pub(super) use table::{TableSource, list_processes};

/// Command lines are read up to here: what makes an agent recognisable is in front.
const MAX_ARGUMENT_BYTES: usize = 16 * 1024;
/// Environments are read up to here (the kernel allows more than anybody uses).
const MAX_ENVIRONMENT_BYTES: usize = 1024 * 1024;

const DIRECTORY_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The parent of all threads of the kernel.
const KTHREADD: u32 = 2;

/// Whether a row is a thread of the kernel.
pub(super) fn is_kernel_thread(row: &ProcessRow) -> bool {
    row.uid == 0 && (row.pid == KTHREADD || row.ppid == KTHREADD)
}

/// Whether `/proc/<pid>/cgroup` says that systemd runs the process as a service of the system. Only the
/// superuser can put a process there; what a user starts, with `sudo` too, is in a slice of the user.
fn is_service_cgroup(cgroup: &[u8]) -> bool {
    let is_service = |path: &[u8]| {
        let rest = path.strip_prefix(b"/system.slice/");
        let unit = rest.and_then(|rest| rest.split(|&byte| byte == b'/').next());
        path == b"/init.scope" || unit.is_some_and(|unit| unit.ends_with(b".service"))
    };
    let mut lines = cgroup.split(|&byte| byte == b'\n');
    lines.any(|line| match line.strip_prefix(b"0::") {
        Some(path) => is_service(path),
        None => line
            .windows(b":name=systemd:".len())
            .position(|part| part == b":name=systemd:")
            .is_some_and(|at| is_service(&line[at + b":name=systemd:".len()..])),
    })
}

/// A directory and those above it, up to the top of its mount namespace.
fn lineage_of(mut directory: OwnedFd) -> Option<Vec<FileId>> {
    /// Deeper than any path that can be written down.
    const DEEPEST: usize = 4096;
    let mut lineage: Vec<FileId> = Vec::new();
    while lineage.len() < DEEPEST {
        let about = rustix::fs::fstat(&directory).ok()?;
        let id = FileId { dev: about.st_dev, ino: about.st_ino };
        if lineage.last() == Some(&id) {
            break;
        }
        lineage.push(id);
        // One that was removed, or that may not be entered, has nothing above it that can be seen.
        match rustix::fs::openat(&directory, "..", DIRECTORY_FLAGS, Mode::empty()) {
            Ok(above) => directory = above,
            Err(_) => break,
        }
    }
    Some(lineage)
}

/// One process, held on to: not the number but the process.
#[derive(Debug)]
pub(crate) struct ProcessHandle {
    pid: u32,
    directory: OwnedFd,
}

impl ProcessHandle {
    /// Takes hold of the process that has the pid now.
    pub(crate) fn open(pid: u32) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(format!("/proc/{pid}"), flags, Mode::empty())?;
        Ok(Self { pid, directory })
    }

    /// Its line of the process table. Fails once the process has been reaped.
    pub(crate) fn process_row(&self) -> Result<ProcessRow, Errno> {
        // The directory belongs to the effective user even where the files in it do not.
        let uid = rustix::fs::fstat(&self.directory)?.st_uid;
        Ok(row_from_stat(self.pid, uid, &self.read_own_stat()?, boot_wall_time()))
    }

    /// Its start time. Fails once the process has been reaped.
    pub(super) fn start_time(&self) -> Result<u64, Errno> {
        Ok(self.read_own_stat()?.start)
    }

    /// Its parent now. Fails once the process has been reaped.
    pub(crate) fn parent_pid(&self) -> Result<u32, Errno> {
        Ok(self.read_own_stat()?.ppid)
    }

    fn read_own_stat(&self) -> Result<Stat, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        read_stat(rustix::fs::openat(&self.directory, "stat", flags, Mode::empty())?)
    }

    /// How it looks, for recognition. `comm` was read before.
    pub(crate) fn appearance(&self, comm: &str) -> ProcessAppearance {
        let comm = || Some(comm.to_owned());
        let seen = read_appearance(&self.directory, "exe", "cmdline", |_| false, comm);
        let seen = seen.unwrap_or_default();
        ProcessAppearance { comm: comm().unwrap_or_default(), ..seen }
    }

    /// Its executable; one that was replaced on disk keeps the name it had.
    fn exe_name(&self) -> Option<String> {
        self.read_proc_link("exe").map(|path| without_deletion(&path))
    }

    /// Its resident memory: the second number of `statm`, in pages.
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        let mut buffer = [0; 256];
        let text = std::str::from_utf8(self.read_proc_file("statm", &mut buffer).ok()?).ok()?;
        let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
        pages.checked_mul(u64::try_from(rustix::param::page_size()).ok()?)
    }

    /// Its working directory.
    pub(super) fn cwd(&self) -> Option<PathBuf> {
        self.read_proc_link("cwd").map(|path| OsString::from_vec(path).into())
    }

    /// Its working directory and those above it.
    pub(super) fn cwd_lineage(&self) -> Option<Vec<FileId>> {
        lineage_of(rustix::fs::openat(&self.directory, "cwd", DIRECTORY_FLAGS, Mode::empty()).ok()?)
    }

    /// Whether it is on its way out: it has let go of its directories, and is not a zombie yet.
    pub(super) fn is_leaving(&self) -> bool {
        let cwd = rustix::fs::readlinkat(&self.directory, "cwd", Vec::new());
        matches!(cwd, Err(Errno::NOENT | Errno::SRCH))
    }

    /// Whether the process is one of a system service, in our own pid namespace.
    pub(super) fn is_system_service(&self) -> bool {
        let mut buffer = [0; 4096];
        let service = self.read_proc_file("cgroup", &mut buffer).is_ok_and(is_service_cgroup);
        service && self.is_in_our_pid_namespace()
    }

    /// Whether the process has one pid only: in a nested namespace it has one for each level.
    pub(super) fn is_in_our_pid_namespace(&self) -> bool {
        let mut buffer = [0; 4096];
        let Ok(status) = self.read_proc_file("status", &mut buffer) else { return false };
        let pids =
            status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"));
        pids.is_some_and(|pids| {
            let words = pids.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            words.count() == 1
        })
    }

    /// A directory by the name it has within the process's own root, and those above it.
    pub(super) fn lineage_within(&self, path: &std::path::Path) -> Option<Vec<FileId>> {
        let root = rustix::fs::openat(&self.directory, "root", DIRECTORY_FLAGS, Mode::empty());
        let within = rustix::fs::ResolveFlags::IN_ROOT;
        lineage_of(
            rustix::fs::openat2(root.ok()?, path, DIRECTORY_FLAGS, Mode::empty(), within).ok()?,
        )
    }

    /// Whether it is in our mount namespace.
    pub(super) fn mount_view(&self) -> MountView {
        let ours = rustix::fs::readlink("/proc/self/ns/mnt", Vec::new());
        match (rustix::fs::readlinkat(&self.directory, "ns/mnt", Vec::new()), ours) {
            (Ok(theirs), Ok(ours)) if theirs == ours => MountView::Ours,
            (Ok(_), Ok(_)) => MountView::Other,
            _ => MountView::Unreadable,
        }
    }

    /// One variable of the environment it was started with.
    pub(super) fn environ_value(&self, name: &str) -> Option<OsString> {
        let mut buffer = vec![0; MAX_ENVIRONMENT_BYTES];
        let environment = self.read_proc_file("environ", &mut buffer).ok()?;
        environment.split(|&byte| byte == 0).find_map(|entry| {
            let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(OsStr::from_bytes(value).to_owned())
        })
    }

    /// The paths of its open files.
    pub(super) fn open_files(&self) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        self.each_descriptor(|directory, name| {
            if let Ok(path) = rustix::fs::readlinkat(directory, name, Vec::new())
                && path.as_bytes().starts_with(b"/")
            {
                paths.push(OsString::from_vec(path.into_bytes()).into());
            }
            true
        });
        paths
    }

    /// Whether it has this file open.
    pub(super) fn holds_open(&self, dev: u64, ino: u64) -> bool {
        let mut found = false;
        self.each_descriptor(|directory, name| {
            // DONT_SYNC: a dead network file system must not hang us.
            let flags = AtFlags::STATX_DONT_SYNC;
            if let Ok(file) = rustix::fs::statx(directory, name, flags, StatxFlags::INO) {
                let its_dev = rustix::fs::makedev(file.stx_dev_major, file.stx_dev_minor);
                found = its_dev == dev && file.stx_ino == ino;
            }
            !found
        });
        found
    }

    /// Calls `visit` for each open descriptor until it says to stop.
    fn each_descriptor(&self, mut visit: impl FnMut(&OwnedFd, &std::ffi::CStr) -> bool) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.directory, "fd", flags, Mode::empty());
        let Ok(directory) = opened else { return };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(&directory, &mut buffer);
        while let Some(Ok(entry)) = entries.next() {
            if !entry.file_name().to_bytes().starts_with(b".")
                && !visit(&directory, entry.file_name())
            {
                return;
            }
        }
    }

    /// The thread group that the number belongs to; another number than its own for a thread.
    fn thread_group(&self) -> Result<u32, Errno> {
        let mut buffer = [0; 4096];
        let status = self.read_proc_file("status", &mut buffer)?;
        status
            .split(|&byte| byte == b'\n')
            .find_map(|line| line.strip_prefix(b"Tgid:"))
            .and_then(|value| std::str::from_utf8(value).ok()?.trim().parse().ok())
            .ok_or(Errno::ILSEQ)
    }

    fn read_proc_file<'a>(&self, name: &str, buffer: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::empty())?;
        read_to_end(&file, buffer)
    }

    fn read_proc_link(&self, name: &str) -> Option<Vec<u8>> {
        let path = rustix::fs::readlinkat(&self.directory, name, Vec::new()).ok()?;
        Some(path.into_bytes())
    }
}

/// How a process looks whose `exe` and `cmdline` are these. `comm` is asked only where the executable or
/// the arguments cannot be read: nothing else is decided by it. `None` where it has no answer then, and where
/// the executable `is_other` than what is looked for.
fn read_appearance(
    directory: &OwnedFd,
    exe: &str,
    cmdline: &str,
    mut is_other: impl FnMut(&str) -> bool,
    comm: impl FnOnce() -> Option<String>,
) -> Option<ProcessAppearance> {
    let exe = match rustix::fs::readlinkat(directory, exe, Vec::with_capacity(128)) {
        Ok(path) => Some(without_deletion(path.as_bytes())),
        // Threads of the kernel and zombies run nothing and have no arguments either.
        Err(Errno::NOENT) => {
            return Some(ProcessAppearance { comm: comm()?, ..ProcessAppearance::default() });
        }
        Err(errno) if is_gone(errno) => return None,
        Err(_) => None,
    };
    if exe.as_deref().is_some_and(&mut is_other) {
        return None;
    }
    let mut buffer = [0; MAX_ARGUMENT_BYTES];
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let args = rustix::fs::openat(directory, cmdline, flags, Mode::empty())
        .and_then(|file| read_to_end(file, &mut buffer).map(split_arguments))
        .unwrap_or_default();
    let comm = if exe.is_none() || args.is_empty() { comm()? } else { String::new() };
    Some(ProcessAppearance { comm, exe, args })
}

/// The path of an executable without the kernel's note that it is gone.
fn without_deletion(path: &[u8]) -> String {
    String::from_utf8_lossy(path.strip_suffix(b" (deleted)").unwrap_or(path)).into_owned()
}

/// What is in a file of `/proc`, up to the size of the buffer: such a file gives all it has at
/// once, so a read that leaves room was the last.
fn read_to_end(file: impl AsFd, buffer: &mut [u8]) -> Result<&[u8], Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        let room = buffer.len() - filled;
        match rustix::io::read(&file, &mut buffer[filled..]) {
            Ok(count) => {
                filled += count;
                if count < room {
                    break;
                }
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(&buffer[..filled])
}

fn read_stat(file: impl AsFd) -> Result<Stat, Errno> {
    let mut buffer = [0; 2048];
    // EILSEQ: what stands there is not what the kernel writes.
    stat::parse_stat(read_to_end(file, &mut buffer)?).map_err(|_| Errno::ILSEQ)
}

fn row_from_stat(pid: u32, uid: u32, stat: &Stat, booted_at: Time) -> ProcessRow {
    ProcessRow {
        pid,
        ppid: stat.ppid,
        uid,
        start: stat.start,
        started_at: Some(booted_at.plus(time_of_ticks(stat.start))),
        state: stat.run_state(),
        comm: String::from_utf8_lossy(&stat.comm).into_owned(),
    }
}

/// Arguments are separated by NUL, and end with one unless the process has overwritten them.
fn split_arguments(line: &[u8]) -> Vec<String> {
    let line = line.strip_suffix(b"\0").unwrap_or(line);
    if line.is_empty() {
        return Vec::new();
    }
    line.split(|&byte| byte == 0).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
}

/// When this boot began by the wall clock. Read from the clocks, not from `/proc/stat`: that file
/// costs more the more processors there are, and containers put their own in its place.
fn boot_wall_time() -> Time {
    use rustix::time::{ClockId, clock_gettime};
    let since_boot = clock_gettime(ClockId::Boottime);
    let now = clock_gettime(ClockId::Realtime);
    let nanos = (i128::from(now.tv_sec) - i128::from(since_boot.tv_sec)) * 1_000_000_000
        + i128::from(now.tv_nsec)
        - i128::from(since_boot.tv_nsec);
    Time::from_millis(i64::try_from(nanos.div_euclid(1_000_000)).unwrap_or(0))
}

/// How long so many clock ticks are.
fn time_of_ticks(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let millis = u128::from(ticks) * 1000 / u128::from(per_second);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// How long before `later` the process that started at `earlier` was there.
pub(crate) fn span_between(earlier: u64, later: u64) -> Duration {
    time_of_ticks(later.saturating_sub(earlier))
}

/// A process that was looked up: what was seen and a pidfd proven to be of the same process.
struct Held {
    seen: PidLookup,
    pidfd: Option<Pidfd>,
}

/// How often a process that vanishes under our eyes is looked up again.
const MAX_LOOKUP_TRIES: usize = 4;

pub(super) fn look_up_pid(pid: u32) -> PidLookup {
    hold_process(pid).seen
}

/// A descriptor that can be read once the process has ended, if it is the right one.
pub(super) fn watch_process_end(
    pid: u32,
    decide: impl Fn(PidLookup) -> Liveness,
) -> Option<OwnedFd> {
    let held = hold_process(pid);
    if !decide(held.seen).is_alive() {
        return None;
    }
    held.pidfd.map(Pidfd::into_fd)
}

fn hold_process(pid: u32) -> Held {
    for _ in 0..MAX_LOOKUP_TRIES {
        if let Some(held) = try_to_hold(pid) {
            return held;
        }
    }
    // The kernel knows the pid, the process table does not show it.
    Held { seen: PidLookup::Hidden, pidfd: None }
}

/// `None` when the process table shows nothing but the kernel has such a process: it came or went
/// at this moment, or it is hidden.
fn try_to_hold(pid: u32) -> Option<Held> {
    let only = |seen| Some(Held { seen, pidfd: None });
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = match rustix::fs::open(format!("/proc/{pid}/stat"), flags, Mode::empty()) {
        Ok(file) => file,
        Err(errno) if is_gone(errno) => return confirm_absence(pid),
        Err(_) => return only(PidLookup::Unreadable),
    };
    // In this order: if what was opened before the pidfd can still be read after it, the process
    // had the pid all along and the pidfd is its own.
    let pidfd = Pidfd::open(pid);
    let stat = match read_stat(&file) {
        Ok(stat) => stat,
        Err(errno) if is_gone(errno) => return confirm_absence(pid),
        Err(_) => return only(PidLookup::Unreadable),
    };
    let pidfd = match pidfd {
        PidfdAnswer::Opened(pidfd) => Some(pidfd),
        PidfdAnswer::NoProcess => return None,
        PidfdAnswer::NotALeader | PidfdAnswer::Unavailable => {
            match ProcessHandle::open(pid).and_then(|handle| handle.thread_group()) {
                Ok(leader) if leader != pid => return only(PidLookup::Thread),
                Ok(_) => None,
                Err(errno) if is_gone(errno) => return confirm_absence(pid),
                Err(_) => return only(PidLookup::Unreadable),
            }
        }
    };
    let seen = PidLookup::Process(SeenProcess {
        start: Some(stat.start),
        since_boot: Some(time_of_ticks(stat.start)),
        pidfd_ino: pidfd.as_ref().and_then(Pidfd::unique_inode),
        state: stat.run_state(),
        threads: stat.threads,
    });
    Some(Held { seen, pidfd })
}

/// The process table shows nothing; does the kernel agree? Under hidepid even processes of our
/// own user are missing when they forbid to be traced.
fn confirm_absence(pid: u32) -> Option<Held> {
    match Pidfd::open(pid) {
        PidfdAnswer::NoProcess | PidfdAnswer::Unavailable => {
            Some(Held { seen: PidLookup::Absent, pidfd: None })
        }
        PidfdAnswer::Opened(_) | PidfdAnswer::NotALeader => None,
    }
}

/// What the kernel says when a process is not (or no longer) there.
fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::SRCH)
}

pub(super) fn identify_process(pid: u32, observer: &Observer) -> Result<Identity, IdentifyError> {
    identify_held(&open_to_identify(pid)?, observer)
}

fn open_to_identify(pid: u32) -> Result<ProcessHandle, IdentifyError> {
    ProcessHandle::open(pid).map_err(|errno| identify_error(pid, errno))
}

fn identify_error(pid: u32, errno: Errno) -> IdentifyError {
    if is_gone(errno) {
        IdentifyError::NotRunning(pid)
    } else {
        IdentifyError::Unreadable { pid, source: errno.into() }
    }
}

/// Identifies the process that is held, even if its pid was reused.
pub(crate) fn identify_held(
    handle: &ProcessHandle,
    observer: &Observer,
) -> Result<Identity, IdentifyError> {
    let pid = handle.pid;
    let fail = |errno| identify_error(pid, errno);
    let pidfd = match Pidfd::open(pid) {
        PidfdAnswer::Opened(pidfd) => Some(pidfd),
        PidfdAnswer::NoProcess => return Err(IdentifyError::NotRunning(pid)),
        PidfdAnswer::NotALeader | PidfdAnswer::Unavailable => {
            if handle.thread_group().map_err(fail)? != pid {
                return Err(IdentifyError::NotRunning(pid));
            }
            None
        }
    };
    let exe = handle.exe_name();
    let uid = rustix::fs::fstat(&handle.directory).map_err(fail)?.st_uid;
    // Last, and after the pidfd: see `try_to_hold`.
    let stat = handle.read_own_stat().map_err(fail)?;
    if stat.run_state() == RunState::Exited && stat.threads <= 1 {
        return Err(IdentifyError::NotRunning(pid));
    }
    Ok(Identity {
        pid: Some(pid),
        uid: Some(uid),
        start: Some(stat.start),
        boot: observer.boot_identity(),
        machine: observer.machine_hashed.clone().map(MachineId::Hashed),
        pid_ns: observer.pid_ns,
        time_ns: observer.time_ns,
        pidfd_ino: pidfd.as_ref().and_then(Pidfd::unique_inode),
        recorded_at: Some(crate::clock::now()),
        recorder: IdentityRecorder::Ostler,
        comm: Some(String::from_utf8_lossy(&stat.comm).into_owned()),
        exe,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h3_a_service_of_the_system_is_told_by_its_cgroup() {
        for service in [
            &b"0::/system.slice/cron.service\n"[..],
            b"0::/init.scope\n",
            b"0::/system.slice/ssh.service/deeper\n",
            b"12:pids:/x\n1:name=systemd:/system.slice/cron.service\n0::/\n",
        ] {
            assert!(is_service_cgroup(service), "{}", String::from_utf8_lossy(service));
        }
        for other in [
            &b"0::/user.slice/user-1000.slice/session-2.scope\n"[..],
            b"0::/system.slice/docker-0123.scope\n",
            b"0::/docker/0123\n",
            b"0::/\n",
            b"0::/user.slice/system.slice/cron.service\n",
            b"",
        ] {
            assert!(!is_service_cgroup(other), "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn arguments_survive_missing_and_doubled_terminators() {
        assert_eq!(split_arguments(b"a\0b\0"), ["a", "b"]);
        assert_eq!(split_arguments(b"a\0\0b\0"), ["a", "", "b"]);
        assert_eq!(split_arguments(b"claude"), ["claude"], "a rewritten title has no terminator");
        assert_eq!(split_arguments(b"a\0\xff\0"), ["a", "\u{fffd}"]);
        assert!(split_arguments(b"").is_empty(), "kernel threads and zombies have none");
    }

    #[test]
    fn the_boot_time_is_the_kernels() {
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        let line = stat.lines().find_map(|line| line.strip_prefix("btime ")).unwrap();
        let btime: i64 = line.parse().unwrap();
        assert!((boot_wall_time().as_millis() / 1000).abs_diff(btime) <= 1);
    }
}
