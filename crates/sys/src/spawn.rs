//! Starting processes of our own that outlive us, and keeping secrets out of core files.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit};

/// Makes the process the leader of a session of its own: no terminal's hang-up or Ctrl-C reaches it.
#[expect(unsafe_code, reason = "only the child itself can leave the session")]
pub fn in_own_session(command: &mut Command) -> &mut Command {
    // SAFETY: runs between fork and exec and does nothing but one system call, which is
    // async-signal-safe and touches no memory of the parent.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        })
    }
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
