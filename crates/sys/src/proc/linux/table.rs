//! The process table of `/proc`: the pids from one listing, everything else on demand.
//!
//! A machine runs hundreds of processes and few of them are agents. What decides that is read relative
//! to one held `/proc`; a line of the table (`stat`, which the kernel computes at some cost) only of
//! those that are asked about.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use model::program::ProcessAppearance;
use model::time::Time;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::super::{MissingRow, ProcessRow, ProcessTable};
use super::{boot_wall_time, is_gone, read_appearance, read_stat, read_to_end, row_from_stat};

/// The directory that the table is read from.
#[derive(Debug)]
pub(in crate::proc) struct TableSource {
    proc: OwnedFd,
    booted_at: Time,
}

impl TableSource {
    /// The line of whichever process has the pid now. As in `try_to_hold`, what can be read in the end
    /// through what was opened first belongs to one process.
    pub(in crate::proc) fn read_row(&self, pid: u32) -> Result<ProcessRow, MissingRow> {
        let row = || {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&self.proc, format!("{pid}/stat"), flags, Mode::empty())?;
            let uid = rustix::fs::statat(&self.proc, pid.to_string(), AtFlags::empty())?.st_uid;
            Ok(row_from_stat(pid, uid, &read_stat(&file)?, self.booted_at))
        };
        row().map_err(|errno: Errno| match is_gone(errno) {
            true => MissingRow::Gone,
            false => MissingRow::Unreadable,
        })
    }

    /// How whichever process has the pid now looks. Its short name is left empty where executable and
    /// arguments can be read: then recognition does not ask for it.
    ///
    /// `None` also where `is_other` says so of its executable: then nothing else is read of it.
    pub(in crate::proc) fn look_at(
        &self,
        pid: u32,
        is_other: impl FnMut(&str) -> bool,
    ) -> Option<ProcessAppearance> {
        let comm = || {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let name = format!("{pid}/comm");
            let file = rustix::fs::openat(&self.proc, name, flags, Mode::empty()).ok()?;
            let mut buffer = [0; 64];
            let comm = read_to_end(file, &mut buffer).ok()?;
            let comm = comm.strip_suffix(b"\n").unwrap_or(comm);
            Some(String::from_utf8_lossy(comm).into_owned())
        };
        let (exe, cmdline) = (format!("{pid}/exe"), format!("{pid}/cmdline"));
        read_appearance(&self.proc, &exe, &cmdline, is_other, comm)
    }
}

pub(in crate::proc) fn list_processes() -> ProcessTable {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(proc) = rustix::fs::open("/proc", flags, Mode::empty()) else {
        return ProcessTable::unlisted();
    };
    let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
    let mut entries = RawDir::new(&proc, &mut buffer);
    let mut pids: Vec<u32> = Vec::new();
    loop {
        match entries.next() {
            None => break,
            Some(Ok(entry)) => {
                pids.extend(
                    entry.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()),
                );
            }
            // Half a list must not pass for a whole one.
            Some(Err(_)) => return ProcessTable::unlisted(),
        }
    }
    ProcessTable::from_pids(pids, TableSource { proc, booted_at: boot_wall_time() })
}
