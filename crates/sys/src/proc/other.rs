//! Platforms whose process table cannot be read: everything is unknown, nothing is signalled.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use model::identity::Identity;
use model::liveness::{BootKnowledge, Liveness, Observer, PidLookup, WallClock};
use model::program::ProcessAppearance;
use rustix::io::Errno;
use rustix::process::Signal;

use super::{
    FileId, IdentifyError, LockHolder, MissingRow, MountView, ProcessRow, ProcessTable, SignalError,
};

/// There is no process to hold on to.
#[derive(Debug)]
pub(crate) struct ProcessHandle(Infallible);

impl ProcessHandle {
    pub(crate) fn open(_: u32) -> Result<Self, Errno> {
        Err(Errno::NOSYS)
    }

    pub(crate) fn process_row(&self) -> Result<ProcessRow, Errno> {
        match self.0 {}
    }

    pub(super) fn start_time(&self) -> Result<u64, Errno> {
        match self.0 {}
    }

    pub(crate) fn parent_pid(&self) -> Result<u32, Errno> {
        match self.0 {}
    }

    pub(crate) fn appearance(&self, _: &str) -> ProcessAppearance {
        match self.0 {}
    }

    pub(super) fn resident_bytes(&self) -> Option<u64> {
        match self.0 {}
    }

    pub(super) fn cwd(&self) -> Option<PathBuf> {
        match self.0 {}
    }

    pub(super) fn cwd_lineage(&self) -> Option<Vec<FileId>> {
        match self.0 {}
    }

    pub(super) fn is_leaving(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn is_system_service(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn is_in_our_pid_namespace(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn lineage_within(&self, _: &std::path::Path) -> Option<Vec<FileId>> {
        match self.0 {}
    }

    pub(super) fn mount_view(&self) -> MountView {
        match self.0 {}
    }

    pub(super) fn environ_value(&self, _: &str) -> Option<OsString> {
        match self.0 {}
    }

    pub(super) fn open_files(&self) -> Vec<PathBuf> {
        match self.0 {}
    }

    pub(super) fn holds_open(&self, _: u64, _: u64) -> bool {
        match self.0 {}
    }
}

pub(super) fn current_observer() -> Observer {
    Observer {
        introspects: false,
        boots: BootKnowledge::Needed,
        boot_id: None,
        clock: WallClock::default(),
        machine_hashed: None,
        machine_plain: None,
        pid_ns: None,
        time_ns: None,
        in_initial_pid_ns: false,
        in_initial_time_ns: false,
        uid: rustix::process::geteuid().as_raw(),
        hides_pids: true,
        pid_max: u32::MAX,
    }
}

pub(super) fn look_up_pid(_: u32) -> PidLookup {
    PidLookup::Unreadable
}

pub(super) fn identify_process(_: u32, _: &Observer) -> Result<Identity, IdentifyError> {
    Err(IdentifyError::NoProcessTable)
}

pub(crate) fn identify_held(held: &ProcessHandle, _: &Observer) -> Result<Identity, IdentifyError> {
    match held.0 {}
}

pub(crate) fn span_between(_: u64, _: u64) -> Duration {
    Duration::ZERO
}

pub(super) fn is_kernel_thread(_: &ProcessRow) -> bool {
    false
}

/// There is no table here.
#[derive(Debug)]
pub(super) struct TableSource;

impl TableSource {
    pub(super) fn read_row(&self, _: u32) -> Result<ProcessRow, MissingRow> {
        Err(MissingRow::Unreadable)
    }

    pub(super) fn look_at(&self, _: u32, _: impl FnMut(&str) -> bool) -> Option<ProcessAppearance> {
        None
    }
}

pub(super) fn list_processes() -> ProcessTable {
    ProcessTable::unlisted()
}

pub(super) fn signal_process(
    _: u32,
    _: Signal,
    _: impl Fn(PidLookup) -> Liveness,
) -> Result<(), SignalError> {
    Err(SignalError::Unsupported)
}

pub(super) fn recording_observer() -> Observer {
    current_observer()
}

pub(super) fn watch_process_end(
    _: u32,
    _: impl Fn(PidLookup) -> Liveness,
) -> Option<std::os::fd::OwnedFd> {
    None
}

pub(super) fn flock_holder(_: u64, _: u64) -> LockHolder {
    LockHolder::Unseen
}
