//! Who is looking: boot, machine, namespaces and what this process table shows.

use model::liveness::{BootKnowledge, Observer, WallClock};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{ProcessHandle, boot_wall_time, mounts, read_to_end};
use crate::proc::machine;

/// The kernel gives the initial namespaces these fixed inodes.
const INITIAL_PID_NS: u64 = 0xEFFF_FFFC;
const INITIAL_TIME_NS: u64 = 0xEFFF_FFFA;
/// File system magic of procfs.
const PROC_MAGIC: u64 = 0x9fa0;
/// The largest pid of any Linux kernel, where the limit cannot be read.
const LARGEST_PID: u32 = 4_194_304;

pub(in crate::proc) fn current_observer() -> Observer {
    let recorder = recording_observer();
    Observer {
        clock: watched_clock(&recorder),
        hides_pids: recorder.introspects && proc_hides_pids(),
        pid_max: small_file("/proc/sys/kernel/pid_max")
            .and_then(|text| text.parse().ok())
            .unwrap_or(LARGEST_PID),
        ..recorder
    }
}

/// What it takes to write an identity down. Whether processes are hidden is not asked: this one may
/// record, but it would never call anything dead.
pub(in crate::proc) fn recording_observer() -> Observer {
    let named = proc_names_us();
    let (pid_ns, in_initial_pid_ns) = read_namespace("/proc/self/ns/pid", INITIAL_PID_NS, named);
    // The table of another namespace does not name a process of the initial one.
    let introspects = named && (in_initial_pid_ns || is_in_one_level());
    let pid_ns = pid_ns.filter(|_| introspects);
    let (time_ns, in_initial_time_ns) =
        read_namespace("/proc/self/ns/time", INITIAL_TIME_NS, introspects);
    let machine_plain = machine_id();
    Observer {
        introspects,
        boots: BootKnowledge::Needed,
        boot_id: small_file("/proc/sys/kernel/random/boot_id"),
        clock: WallClock { booted_at: Some(boot_wall_time()), ..WallClock::default() },
        machine_hashed: machine_plain.as_deref().map(machine::hash_machine_id),
        machine_plain,
        pid_ns,
        time_ns,
        in_initial_pid_ns,
        in_initial_time_ns,
        uid: rustix::process::geteuid().as_raw(),
        hides_pids: true,
        pid_max: LARGEST_PID,
    }
}

/// The clock, compared with the reading that was kept. The clocks of another time namespace count
/// from another moment, and there is nothing to compare a boot without an id with.
fn watched_clock(recorder: &Observer) -> WallClock {
    match (&recorder.boot_id, recorder.clock.booted_at) {
        (Some(boot_id), Some(booted_at)) if recorder.in_initial_time_ns => {
            crate::wall_clock::compare_with_kept(boot_id, booted_at)
        }
        _ => recorder.clock,
    }
}

/// Whether `/proc` is a process table that calls us by our own number.
fn proc_names_us() -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(proc) = rustix::fs::open("/proc", flags, Mode::empty()) else {
        return false;
    };
    let is_proc = rustix::fs::fstatfs(&proc)
        .is_ok_and(|system| u64::try_from(system.f_type) == Ok(PROC_MAGIC));
    let own_pid = std::process::id();
    let named_by_proc = rustix::fs::readlinkat(&proc, "self", Vec::new())
        .is_ok_and(|name| name.to_bytes() == own_pid.to_string().as_bytes());
    is_proc && named_by_proc
}

/// Whether the process table is that of our own pid namespace: after `unshare --pid` without a new
/// mount it shows the parent's, where our number may be the same by chance. One line of it lists a
/// number for each level.
fn is_in_one_level() -> bool {
    let Ok(ourselves) = ProcessHandle::open(std::process::id()) else {
        return false;
    };
    let mut buffer = [0; 4096];
    let levels = ourselves.read_proc_file("status", &mut buffer).ok().and_then(|status| {
        let line =
            status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"))?;
        Some(line.split(u8::is_ascii_whitespace).filter(|number| !number.is_empty()).count())
    });
    levels.map_or_else(|| ourselves.read_own_stat().is_ok(), |levels| levels == 1)
}

/// A namespace's inode, and whether it is the initial one. A kernel that has no such namespaces
/// has only the initial one.
fn read_namespace(path: &str, initial: u64, introspects: bool) -> (Option<u64>, bool) {
    match rustix::fs::stat(path) {
        Ok(stat) => (Some(stat.st_ino), stat.st_ino == initial),
        Err(Errno::NOENT) => (None, introspects),
        Err(_) => (None, false),
    }
}

/// Whether the mount that is on top of `/proc` hides processes. Doubt counts as hiding.
fn proc_hides_pids() -> bool {
    let asked = || {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = rustix::fs::open("/proc", flags, Mode::empty()).ok()?;
        // Several mounts may be stacked on one point; the descriptor's is the one in use.
        let path = format!("/proc/self/fdinfo/{}", std::os::fd::AsRawFd::as_raw_fd(&proc));
        let id = mounts::mount_of_descriptor(&std::fs::read(path).ok()?)?;
        let mountinfo = std::fs::read("/proc/self/mountinfo").ok()?;
        let mount = mounts::parse_mounts(&mountinfo).find(|mount| mount.id == id)?;
        Some(mount.kind != b"proc" || mounts::hides_pids(mount.options))
    };
    asked().unwrap_or(true)
}

fn machine_id() -> Option<String> {
    ["/etc/machine-id", "/var/lib/dbus/machine-id"].into_iter().find_map(|path| {
        // Before the first boot is complete the file is empty or says "uninitialized".
        small_file(path)
            .filter(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
    })
}

/// The trimmed content of a file of at most 256 bytes; `None` when there is nothing in it.
fn small_file(path: &str) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let mut buffer = [0; 256];
    let text = std::str::from_utf8(read_to_end(&file, &mut buffer).ok()?).ok()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_sees_its_own_table() {
        let observer = current_observer();
        assert!(observer.introspects);
        assert!(observer.boot_id.is_some() && observer.boot_time().is_some());
        assert!(observer.pid_ns.is_some());
    }
}
