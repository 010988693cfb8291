//! Process identity, safe against pid reuse.
//!
//! A pid is a number that the kernel hands out again. An identity is the pid together with what
//! makes it unique: the kernel's start time, the boot, the machine and the namespaces it was seen
//! in. `comm` and `exe` are for people; they are never compared.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Which boot of the machine a process belongs to, tagged by where that knowledge came from:
/// values of different sources are never compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BootId {
    /// The kernel's random boot id.
    Id(String),
    /// The kernel's boot time in seconds, where no boot id can be read.
    Time(u64),
}

/// Which machine a process belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MachineId {
    /// The machine id hashed with an application key: what ostler itself records.
    Hashed(String),
    /// The machine id as another tool wrote it down.
    Plain(String),
}

/// Who wrote an identity down. ostler records every field, so a gap in its own record is a doubt;
/// agents record less, and there a field that was not recorded is no mismatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IdentityRecorder {
    #[default]
    Ostler,
    /// An agent, in a file of its own.
    Agent,
}

/// A process, named so that no other process can be mistaken for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Identity {
    /// `None` when the record holds no number that could be a pid.
    pub pid: Option<u32>,
    /// The user it ran as.
    pub uid: Option<u32>,
    /// Kernel start time in the platform's own unit (Linux: clock ticks since boot).
    pub start: Option<u64>,
    /// The boot it belongs to.
    pub boot: Option<BootId>,
    /// The machine it ran on.
    pub machine: Option<MachineId>,
    /// Inode of its pid namespace.
    pub pid_ns: Option<u64>,
    /// Inode of its time namespace.
    pub time_ns: Option<u64>,
    /// Inode of a pidfd on kernels where that is unique to the process.
    pub pidfd_ino: Option<u64>,
    /// When the record was written, by the recorder's clock.
    pub recorded_at: Option<Time>,
    /// Who wrote it down.
    pub recorder: IdentityRecorder,
    /// Short name, for people.
    pub comm: Option<String>,
    /// Executable, for people.
    pub exe: Option<String>,
}

impl Identity {
    /// An identity that an agent wrote down, with only a pid so far.
    pub fn recorded_by_agent(pid: Option<u32>) -> Self {
        Self { pid, recorder: IdentityRecorder::Agent, ..Self::default() }
    }
}
