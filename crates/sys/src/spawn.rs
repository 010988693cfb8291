//! Detached child processes (re-exec and `setsid`): this program started again, to outlive its starter.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit};

/// The running executable, by a name that still means it.
pub fn this_program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    // An upgrade may have replaced the file while we run; the kernel still knows what we are.
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::MetadataExt;
        let inode = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
        let running = Path::new("/proc/self/exe");
        if inode(&path) != inode(running) {
            return Ok(running.to_owned());
        }
    }
    Ok(path)
}

/// Reads one line from a pipe, waiting no longer than `patience`. `None` when the time is up or the
/// other side is gone without a whole line.
pub fn read_line_within(
    pipe: &mut std::process::ChildStdout,
    patience: std::time::Duration,
) -> io::Result<Option<Vec<u8>>> {
    use std::io::Read;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let until = std::time::Instant::now() + patience;
    let mut line = Vec::new();
    let mut buffer = [0; 4096];
    while line.last() != Some(&b'\n') {
        let left = until.saturating_duration_since(std::time::Instant::now());
        let left = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let ready = poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&left));
        match ready {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        match pipe.read(&mut buffer)? {
            0 => return Ok(None),
            count => line.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(Some(line))
}

/// Leaves a descriptor open in every program that is started from now on; says under which number.
pub fn pass_on(descriptor: std::os::fd::BorrowedFd<'_>) -> io::Result<i32> {
    use std::os::fd::AsRawFd;

    rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty())?;
    Ok(descriptor.as_raw_fd())
}

/// Takes a descriptor that the parent process has passed on. `None` if there is none of that
/// number beyond the standard three.
pub fn take_passed(number: i32) -> Option<std::os::fd::OwnedFd> {
    use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

    if number <= 2 {
        return None;
    }
    #[expect(unsafe_code, reason = "a descriptor is only known by its number here")]
    // SAFETY: it is only asked whether it is open; the borrow ends before anything could close it.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_getfd(borrowed).ok()?;
    rustix::io::fcntl_setfd(borrowed, rustix::io::FdFlags::CLOEXEC).ok()?;
    #[expect(unsafe_code, reason = "a descriptor is only known by its number here")]
    // SAFETY: it is open and was passed on for us; nothing in this process knows its number beside us.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Sends a signal to a child that was not waited for: its pid is not reused.
pub fn signal_child(child: &std::process::Child, signal: crate::proc::Signal) -> io::Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("no such pid"))?;
    Ok(rustix::process::kill_process(pid, signal.as_raw())?)
}

/// Starts the command detached: in a session of its own, without a controlling terminal, adopted by
/// the system, so that neither the end of this process nor of its terminal reaches it. Returns once
/// the program runs; its standard streams are those of the command.
pub fn spawn_detached(command: &mut Command) -> io::Result<std::process::Child> {
    #[expect(unsafe_code, reason = "a program can only be detached between fork and exec")]
    // SAFETY: `detach_session` makes system calls and nothing else: it neither allocates nor locks.
    unsafe {
        command.pre_exec(detach_session)
    };
    command.spawn()
}

/// Runs between fork and exec: leads a new session, then hands the rest over to a child, which is
/// no leader and thus can never be given a controlling terminal.
fn detach_session() -> io::Result<()> {
    rustix::process::setsid()?;
    #[expect(unsafe_code, reason = "there is no safe fork")]
    // SAFETY: the process has one thread (it was just forked); the parent leaves at once, the child
    // goes on to exec.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(()),
        #[expect(unsafe_code, reason = "nothing of the caller may be run or flushed")]
        // SAFETY: `_exit` ends the process without touching memory.
        _ => unsafe { libc::_exit(0) },
    }
}

/// Closes every descriptor beyond the standard streams. Called first thing by a process that
/// outlives its starter: what it inherited would otherwise be held open for as long as it lives.
pub fn close_inherited() {
    #[cfg(target_os = "linux")]
    {
        #[expect(unsafe_code, reason = "close_range has no safe interface")]
        // SAFETY: called before this process has opened anything.
        let answer = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
        if answer == 0 {
            return;
        }
    }
    for descriptor in 3..1024 {
        #[expect(unsafe_code, reason = "the descriptors belong to nobody here")]
        // SAFETY: called before this process has opened anything.
        unsafe {
            libc::close(descriptor)
        };
    }
}

/// Marks every descriptor beyond the standard streams to be closed by the next exec: some were
/// inherited from a starter that did not care. May run between fork and exec.
pub(crate) fn close_at_exec() {
    #[cfg(target_os = "linux")]
    {
        const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
        #[expect(unsafe_code, reason = "close_range has no safe interface")]
        // SAFETY: changes a flag of descriptors, none of which is meant to be inherited.
        unsafe {
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, CLOSE_RANGE_CLOEXEC)
        };
    }
}

/// Points the standard streams at nothing.
pub fn silence_stdio() -> io::Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// What to put in front of a command so that it gets a scope of its own from the user's service
/// manager, and survives logout. Empty where there is none.
pub fn scope_prefix(unit: &str, runtime: Option<&Path>) -> Vec<OsString> {
    let managed = cfg!(target_os = "linux")
        && runtime.is_some_and(|runtime| runtime.join("systemd/private").exists());
    if !managed {
        return Vec::new();
    }
    ["systemd-run", "--user", "--scope", "--quiet", "--collect"]
        .iter()
        .map(OsString::from)
        .chain([OsString::from(format!("--unit={unit}")), OsString::from("--")])
        .collect()
}

/// Standard streams of a detached process that is asked through one pipe and answers through
/// another.
pub fn ask_through_pipes(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null())
}

/// Forbids core files of this process and of those it starts, and tracing of this process: what is
/// in its memory stays there.
pub fn keep_memory_to_ourselves() -> io::Result<()> {
    let nothing = Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(Resource::Core, nothing)?;
    forbid_dumps()
}

/// Forbids core files and tracing of this process, until it becomes another program.
#[cfg(target_os = "linux")]
pub fn forbid_dumps() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Forbids core files of this process; what it starts may allow them again.
#[cfg(not(target_os = "linux"))]
pub fn forbid_dumps() -> io::Result<()> {
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Core);
    Ok(rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum })?)
}

/// Whether this process may run that file.
pub fn is_executable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_detached_program_has_its_own_session_and_another_parent() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "read -r line </proc/self/stat; echo $line; echo $PPID"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = spawn_detached(&mut command).unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(child.wait().unwrap().success());
        let words: Vec<&str> = text.split_whitespace().collect();
        let (pid, session) = (words[0], words[5]);
        assert_ne!(session, pid, "leads no session");
        assert_eq!(session, child.id().to_string(), "is in the one made for it");
        assert_eq!(words[6], "0", "has no controlling terminal");
    }

    #[test]
    fn a_program_that_cannot_be_run_is_an_error() {
        assert!(spawn_detached(&mut Command::new("/no/such/program")).is_err());
    }

    #[test]
    fn without_a_service_manager_there_is_no_scope() {
        let empty = tempfile::tempdir().unwrap();
        assert!(scope_prefix("x", Some(empty.path())).is_empty());
        assert!(scope_prefix("x", None).is_empty());
    }
}
