//! `/proc/locks`: who holds an advisory lock, without touching the file.
//!
//! The list shows no lock that is held outside the reader's pid namespace, names the process that
//! *took* the lock (it may be gone, with a child holding on), and names file systems by a device
//! that on btrfs and overlayfs is not the one `stat` reports. Each of these is "unseen", never
//! "no process".

use super::{ProcessHandle, current_observer, mounts};
use crate::proc::LockHolder;

/// One lock that is held (not one that is waited for).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lock {
    kind: Kind,
    /// `None` where the kernel names none (open file description locks).
    pid: Option<u32>,
    device: (u32, u32),
    inode: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Flock,
    Other,
}

/// All held locks; `None` when a line is not understood.
fn parse_locks(text: &[u8]) -> Option<Vec<Lock>> {
    let text = std::str::from_utf8(text).ok()?;
    let mut locks = Vec::new();
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        let _number = fields.next()?;
        let kind = match fields.next()? {
            "->" => continue,
            "FLOCK" => Kind::Flock,
            _ => Kind::Other,
        };
        let pid = fields.nth(2)?.parse::<i64>().ok()?;
        let place = fields.next()?;
        if place == "<none>:0" {
            continue;
        }
        let mut place = place.split(':');
        let device = (parse_hex(place.next()?)?, parse_hex(place.next()?)?);
        let inode = place.next()?.parse().ok()?;
        locks.push(Lock {
            kind,
            pid: u32::try_from(pid).ok().filter(|&pid| pid > 0),
            device,
            inode,
        });
    }
    Some(locks)
}

fn parse_hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok()
}

pub(in crate::proc) fn flock_holder(dev: u64, ino: u64) -> LockHolder {
    let locks = std::fs::read("/proc/locks").ok().and_then(|text| parse_locks(&text));
    let Some(locks) = locks else {
        return LockHolder::Unseen;
    };
    let device = (rustix::fs::major(dev), rustix::fs::minor(dev));
    let on_inode = |lock: &&Lock| lock.kind == Kind::Flock && lock.inode == ino;
    let mut somebody = false;
    for lock in locks.iter().filter(on_inode) {
        somebody = true;
        // The number alone may be that of a process long gone, or handed on since.
        if let Some(pid) = lock.pid
            && lock.device == device
            && ProcessHandle::open(pid).is_ok_and(|handle| handle.holds_open(dev, ino))
        {
            return LockHolder::Process(pid);
        }
    }
    let sees_all = || {
        let observer = current_observer();
        observer.introspects && observer.in_initial_pid_ns && is_mounted(device)
    };
    if somebody || !sees_all() { LockHolder::Unseen } else { LockHolder::Nobody }
}

/// Whether `stat` and `/proc/locks` name this file system by the same device.
fn is_mounted(device: (u32, u32)) -> bool {
    std::fs::read("/proc/self/mountinfo")
        .is_ok_and(|text| mounts::parse_mounts(&text).any(|mount| mount.device == device))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
1: POSIX  ADVISORY  READ  5433 08:01:7864448 128 128
2: FLOCK  ADVISORY  WRITE 2001 fd:10:7864554 0 EOF
2: -> FLOCK  ADVISORY  WRITE 3001 fd:10:7864554 0 EOF
3: OFDLCK ADVISORY  WRITE -1 00:15:13 0 EOF
4: LEASE  ACTIVE    READ  77 08:01:99 0 EOF
";

    #[test]
    fn devices_are_hexadecimal_and_waiters_are_no_holders() {
        let locks = parse_locks(TEXT.as_bytes()).unwrap();
        assert_eq!(locks.len(), 4);
        let flock =
            Lock { kind: Kind::Flock, pid: Some(2001), device: (0xfd, 0x10), inode: 7_864_554 };
        assert_eq!(locks[1], flock);
        assert_eq!(locks[2].pid, None);
        assert!(!locks.iter().any(|lock| lock.pid == Some(3001)));
    }

    #[test]
    fn a_list_that_is_not_understood_is_no_list() {
        assert_eq!(parse_locks(b""), Some(vec![]));
        for text in [
            "1:",
            "1: FLOCK ADVISORY WRITE",
            "1: FLOCK ADVISORY WRITE x 08:01:1 0 EOF",
            "1: FLOCK ADVISORY WRITE 1 0801 0 EOF",
        ] {
            assert_eq!(parse_locks(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let _ = parse_locks(&bytes);
        }
    }
}
