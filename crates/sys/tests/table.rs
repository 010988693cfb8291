//! The process table and the holders of locks, with real processes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod support;

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use model::liveness::RunState;
use ostler_sys::proc::{LockHolder, flock_holder, identify_process, read_process_table};
use support::{Running, helper, helper_named, output, permits};

#[test]
fn a_process_is_listed_with_what_names_it() {
    let process = Running::helper("wait");
    let table = read_process_table();
    assert!(table.was_listed());
    let row = table.get(process.pid()).expect("it is listed");
    let identity = identify_process(process.pid()).unwrap();
    assert_eq!(row.ppid, std::process::id());
    assert_eq!((Some(row.uid), Some(row.start)), (identity.uid, identity.start));
    assert_eq!(row.comm, "probe");
    assert_eq!(row.state, RunState::Running);
    let age = ostler_sys::clock::now().since(row.started_at.unwrap());
    assert!(age < std::time::Duration::from_secs(60), "{age:?}");
    assert!(table.rows().is_sorted_by_key(|row| row.pid));
    assert_eq!(table.get(u32::MAX), None);
}

#[test]
fn what_a_process_looks_like_and_where_it_is() {
    let home = tempfile::tempdir().unwrap();
    let path = helper_named(home.path(), "agent");
    let process = Running::start(
        Command::new(&path)
            .arg("wait")
            .current_dir(home.path())
            .env("OSTLER_TEST_SESSION", "a=b")
            .env("OSTLER_TEST_SESSION_2", "no"),
    );
    let table = read_process_table();
    let pid = process.pid();
    let seen = table.appearance(pid).unwrap();
    assert_eq!(seen.comm, "agent");
    assert_eq!(seen.exe.as_deref(), path.to_str());
    assert_eq!(seen.args, [path.to_str().unwrap(), "wait"]);
    assert_eq!(table.cwd(pid).as_deref(), Some(home.path()));
    assert_eq!(table.environ_value(pid, "OSTLER_TEST_SESSION").unwrap(), "a=b");
    assert_eq!(table.environ_value(pid, "OSTLER_TEST_SESS"), None);
    std::fs::remove_file(&path).unwrap();
    let seen = table.appearance(pid).unwrap();
    assert_eq!(seen.exe.as_deref(), path.to_str(), "although it was removed");
}

#[test]
fn the_environment_of_another_user_is_not_read() {
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    if !permits(&nobody) {
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = helper_named(home.path(), "agent");
    let mut command = Command::new(nobody[0]);
    command.args(&nobody[1..]).arg(path).arg("wait").env("OSTLER_TEST_SESSION", "x");
    let process = Running::start(&mut command);
    let table = read_process_table();
    assert_eq!(table.get(process.pid()).unwrap().uid, 65534);
    assert_eq!(table.environ_value(process.pid(), "OSTLER_TEST_SESSION"), None);
}

#[test]
fn open_files_are_seen() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("transcript");
    let file = File::create(&path).unwrap();
    let (dev, ino) = place(&path);
    let other = home.path().join("other");
    std::fs::write(&other, "").unwrap();
    let process =
        Running::start(Command::new("sh").args(["-c", "echo ready; read line"]).stderr(file));
    let table = read_process_table();
    let pid = process.pid();
    assert!(table.open_files(pid).contains(&path));
    assert!(table.holds_open(pid, dev, ino));
    let (dev, ino) = place(&other);
    assert!(!table.open_files(pid).contains(&other));
    assert!(!table.holds_open(pid, dev, ino));
}

#[test]
fn a_process_that_has_ended_answers_nothing() {
    let process = Running::helper("wait");
    let pid = process.pid();
    let table = read_process_table();
    process.end();
    assert_eq!(table.appearance(pid), None);
    assert_eq!(table.cwd(pid), None);
    assert!(table.open_files(pid).is_empty());
}

#[test]
fn a_zombie_is_listed_as_exited() {
    let mut process = Running::helper("wait");
    process.end_unreaped();
    assert_eq!(read_process_table().get(process.pid()).unwrap().state, RunState::Exited);
}

#[test]
fn a_first_look_tells_what_decides_and_a_zombie_by_its_short_name() {
    let home = tempfile::tempdir().unwrap();
    let path = helper_named(home.path(), "agent");
    let mut process = Running::start(Command::new(&path).arg("wait"));
    let table = read_process_table();
    let pid = process.pid();
    assert!(table.listed_pids().contains(&pid));
    let seen = table.appearance_unchecked(pid).unwrap();
    assert_eq!((seen.exe.as_deref(), seen.args.len()), (path.to_str(), 2));
    assert_eq!(seen.args, table.appearance(pid).unwrap().args);
    let mut asked = Vec::new();
    let mut ask = |exe: &str, answer| {
        asked.push(exe.to_owned());
        answer
    };
    assert_eq!(table.appearance_unless(pid, |exe| ask(exe, true)), None);
    assert_eq!(table.appearance_unless(pid, |exe| ask(exe, false)).unwrap(), seen);
    assert_eq!(asked, [path.to_str().unwrap(); 2]);
    process.end_unreaped();
    let seen = table.appearance_unchecked(pid).unwrap();
    assert_eq!((seen.comm.as_str(), seen.exe, seen.args.len()), ("agent", None, 0));
    process.end();
    assert_eq!(table.appearance_unchecked(pid), None);
}

#[test]
fn a_row_that_was_read_stays_and_one_that_was_not_is_read_when_it_is_asked_for() {
    let (read, unread) = (Running::helper("wait"), Running::helper("wait"));
    let table = read_process_table();
    let (read_pid, unread_pid) = (read.pid(), unread.pid());
    let before = table.get(read_pid).unwrap().clone();
    read.end();
    unread.end();
    assert_eq!(table.get(read_pid), Some(&before));
    assert_eq!(table.get(unread_pid), None, "it is gone, and counts as nothing");
    assert!(table.rows().iter().any(|row| row.pid == read_pid));
    assert!(table.rows().iter().all(|row| row.pid != unread_pid));
}

#[test]
fn without_proc_the_table_is_not_listed() {
    if !permits(&["unshare", "--mount"]) {
        return;
    }
    let script = "mount -t tmpfs none /proc; exec \"$@\"";
    let args = [helper().display().to_string(), "table".to_owned()];
    assert_eq!(output(&mut support::in_own_mounts(script, &args)), "listed=false rows=0");
}

fn place(path: &Path) -> (u64, u64) {
    let metadata = std::fs::metadata(path).unwrap();
    (metadata.dev(), metadata.ino())
}

/// A shell that takes the lock itself and says so.
fn locker(path: &Path) -> Running {
    let code = "import fcntl, sys\n\
        held = open(sys.argv[1])\n\
        fcntl.flock(held, fcntl.LOCK_EX)\n\
        print('ready', flush=True)\n\
        sys.stdin.read()\n";
    Running::start(Command::new("python3").args(["-c", code]).arg(path))
}

fn has_python() -> bool {
    permits(&["python3", "-c", "pass"])
}

#[test]
fn the_holder_of_a_flock_is_seen_without_touching_it() {
    if !has_python() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("lock");
    std::fs::write(&path, "").unwrap();
    let (dev, ino) = place(&path);
    let nobody = flock_holder(dev, ino);
    if nobody == LockHolder::Unseen {
        println!("SKIPPED: this file system names its device otherwise in /proc/locks");
        return;
    }
    assert_eq!(nobody, LockHolder::Nobody);
    let process = locker(&path);
    assert_eq!(flock_holder(dev, ino), LockHolder::Process(process.pid()));
    process.end();
    assert_eq!(flock_holder(dev, ino), LockHolder::Nobody);
}

#[test]
fn one_who_waits_for_a_flock_does_not_hold_it() {
    if !has_python() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("lock");
    std::fs::write(&path, "").unwrap();
    let (dev, ino) = place(&path);
    let holder = locker(&path);
    let mut waiting = Command::new("flock").arg(&path).arg("true").spawn().unwrap();
    let blocked = format!("{} ", waiting.id());
    let is_blocked = || {
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|line| line.contains("->") && line.contains(&blocked))
    };
    while !is_blocked() {
        std::thread::yield_now();
    }
    assert_eq!(flock_holder(dev, ino), LockHolder::Process(holder.pid()));
    holder.end();
    waiting.wait().unwrap();
    assert_eq!(flock_holder(dev, ino), LockHolder::Nobody);
}

/// `flock 9` takes the lock for its shell and ends: the list names a process that is gone.
#[test]
fn a_flock_whose_taker_is_gone_is_held_by_somebody_unseen() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("lock");
    let script = "exec 9>\"$1\"; flock 9; echo ready; read line";
    let process = Running::start(Command::new("sh").args(["-c", script, "sh"]).arg(&path));
    let (dev, ino) = place(&path);
    assert_eq!(flock_holder(dev, ino), LockHolder::Unseen);
    drop(process);
}

#[test]
fn a_flock_held_outside_the_namespace_is_unseen() {
    let sandbox = ["unshare", "--pid", "--fork", "--mount-proc"];
    if !permits(&sandbox) || !has_python() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("lock");
    std::fs::write(&path, "").unwrap();
    let (dev, ino) = place(&path);
    let asked = || {
        let mut command = Command::new(sandbox[0]);
        command.args(&sandbox[1..]).arg(helper()).arg("flock-holder");
        output(command.args([dev.to_string(), ino.to_string()]))
    };
    assert_eq!(asked(), "Unseen");
    let _holder = locker(&path);
    assert_eq!(asked(), "Unseen");
}
