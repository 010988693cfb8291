//! Is the process that a session belongs to still there?
//!
//! [`decide`] is the whole answer: a pure function over what was recorded, who is looking and what
//! was seen. The first matching rule wins. *Dead* is only said on positive proof; every doubt is
//! *unknown*, and unknown protects.

use std::time::Duration;

use crate::identity::{Boot, Identity, Machine, Recorder};
use crate::time::Time;

/// Alive, dead or unknown, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Liveness {
    /// The very process that was recorded is there.
    Alive(Life),
    /// Positive proof that it is gone.
    Dead(Death),
    /// Neither can be proved from here.
    Unknown(Doubt),
}

/// How a process is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Life {
    /// Running or sleeping.
    Running,
    /// Stopped by a signal.
    Stopped,
    /// Held by a debugger.
    Traced,
}

/// The proof that a process is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Death {
    /// The machine was rebooted since.
    Rebooted,
    /// No process has its pid.
    Gone,
    /// Another process (or thread) has its pid.
    Reused,
    /// It has exited and waits to be reaped.
    Zombie,
    /// Nothing claims the session, and the observer sees every process that could.
    NoProcess,
    /// Its end was recorded when it was proven, and there was no sign of life since.
    Recorded,
    /// Not written since the agents began that could have it open. Derived: one of them may have
    /// resumed it without a word, so it authorises nothing.
    NotAttached,
}

/// Why nothing can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// The record lacks what would name the process.
    Incomplete,
    /// The process table cannot be read here.
    NoProc,
    /// Recorded on another machine.
    ForeignHost,
    /// The boots cannot be compared.
    BootUnknown,
    /// Recorded in another pid or time namespace.
    ForeignNamespace,
    /// The process table hides other users' processes.
    Hidden,
    /// The process (or its registration) is there but cannot be read.
    Unreadable,
    /// This observer does not see every process, so absence proves nothing.
    Blind,
    /// More sessions were written than there are agents that could have them open.
    MaybeOpen,
}

impl Liveness {
    /// `alive`, `dead` or `unknown`.
    pub const fn state(self) -> &'static str {
        match self {
            Self::Alive(_) => "alive",
            Self::Dead(_) => "dead",
            Self::Unknown(_) => "unknown",
        }
    }

    /// The reason code of the JSON contract.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Alive(Life::Running) => "running",
            Self::Alive(Life::Stopped) => "stopped",
            Self::Alive(Life::Traced) => "traced",
            Self::Dead(Death::Rebooted) => "rebooted",
            Self::Dead(Death::Gone) => "gone",
            Self::Dead(Death::Reused) => "reused",
            Self::Dead(Death::Zombie) => "zombie",
            Self::Dead(Death::NoProcess) => "no-process",
            Self::Dead(Death::Recorded) => "recorded",
            Self::Dead(Death::NotAttached) => "not-attached",
            Self::Unknown(Doubt::Incomplete) => "incomplete",
            Self::Unknown(Doubt::NoProc) => "no-proc",
            Self::Unknown(Doubt::ForeignHost) => "foreign-host",
            Self::Unknown(Doubt::BootUnknown) => "boot-unknown",
            Self::Unknown(Doubt::ForeignNamespace) => "foreign-namespace",
            Self::Unknown(Doubt::Hidden) => "hidden",
            Self::Unknown(Doubt::Unreadable) => "unreadable",
            Self::Unknown(Doubt::Blind) => "blind",
            Self::Unknown(Doubt::MaybeOpen) => "maybe-open",
        }
    }

    /// Is it proven to be there?
    pub const fn is_alive(self) -> bool {
        matches!(self, Self::Alive(_))
    }

    /// Is it proven to be gone?
    pub const fn is_dead(self) -> bool {
        matches!(self, Self::Dead(_))
    }
}

/// How boots can be told apart on the observer's platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootKnowledge {
    /// Start times count from boot, so the boot must be known (Linux).
    Needed,
    /// Start times are absolute and already separate reboots (macOS).
    InStartTime,
}

/// Who is looking: what this process knows about its own place in the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observer {
    /// Whether the process table can be read at all.
    pub introspects: bool,
    /// Whether boots matter on this platform.
    pub boots: BootKnowledge,
    /// The kernel's boot id.
    pub boot_id: Option<String>,
    /// The kernel's boot time in seconds.
    pub boot_time: Option<u64>,
    /// This machine, hashed with ostler's key.
    pub machine_hashed: Option<String>,
    /// This machine, as other tools write it.
    pub machine_plain: Option<String>,
    /// Our pid namespace.
    pub pid_ns: Option<u64>,
    /// Our time namespace.
    pub time_ns: Option<u64>,
    /// Whether our pid namespace is the initial one, which sees every process.
    pub in_initial_pid_ns: bool,
    /// Whether our time namespace is the initial one, in which other tools count ticks.
    pub in_initial_time_ns: bool,
    /// Our user.
    pub uid: u32,
    /// Whether the process table hides other users' processes.
    pub hides_pids: bool,
    /// The largest pid the kernel hands out.
    pub pid_max: u32,
}

impl Observer {
    /// Whether "nobody is there" would be an observation. From inside another pid namespace, under
    /// hidepid or without a process table it is not.
    pub const fn sees_every_process(&self) -> bool {
        self.introspects && self.in_initial_pid_ns && !self.hides_pids
    }

    /// When this boot began.
    pub fn booted_at(&self) -> Option<Time> {
        let secs = i64::try_from(self.boot_time?).ok()?;
        Some(Time::from_secs_nanos(secs, 0))
    }
}

/// What the process table shows for a pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// No such pid.
    Absent,
    /// The kernel has such a pid, but the process table does not show it.
    Hidden,
    /// It is there, or may be, but cannot be read.
    Unreadable,
    /// The number names a thread of another process.
    Thread,
    /// A process.
    Process(SeenProcess),
}

/// A process as the process table shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenProcess {
    /// Kernel start time, in the unit of [`Identity::start`].
    pub start: Option<u64>,
    /// The same as wall-clock time.
    pub started_at: Option<Time>,
    /// Inode of a pidfd, where that is unique.
    pub pidfd_ino: Option<u64>,
    /// Its run state.
    pub state: RunState,
    /// How many threads it has. A leader that has exited while others run shows as a zombie.
    pub threads: u32,
}

/// The run states that make a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Running, sleeping, waiting for the disk.
    Running,
    /// Stopped by a signal.
    Stopped,
    /// Held by a debugger.
    Traced,
    /// Exited (Z or X).
    Exited,
}

/// Clock readings of two recorders are compared with this much slack: boot times are known to the
/// second, and a wrong "after" would call a live process dead.
const CLOCK_SLACK: Duration = Duration::from_secs(2);

/// Rules 1 to 6 of the decision: whether looking the pid up can prove anything at all.
/// `Some` is the final answer without looking.
pub fn decide_before_looking(recorded: &Identity, observer: &Observer) -> Option<Liveness> {
    let plausible = recorded.pid.is_some_and(|pid| pid > 1 && pid <= observer.pid_max);
    if !plausible {
        return Some(Liveness::Unknown(Doubt::Incomplete));
    }
    if !observer.introspects {
        return Some(Liveness::Unknown(Doubt::NoProc));
    }
    if let Some(verdict) = judge_boot(recorded, observer) {
        return Some(verdict);
    }
    judge_namespaces(recorded, observer)
}

/// The whole decision table; `seen` is what looking the pid up showed.
pub fn decide(recorded: &Identity, observer: &Observer, seen: Seen) -> Liveness {
    if let Some(verdict) = decide_before_looking(recorded, observer) {
        return verdict;
    }
    let process = match seen {
        Seen::Absent => {
            let visible = recorded.uid == Some(observer.uid) || !observer.hides_pids;
            return if visible {
                Liveness::Dead(Death::Gone)
            } else {
                Liveness::Unknown(Doubt::Hidden)
            };
        }
        Seen::Hidden => return Liveness::Unknown(Doubt::Hidden),
        Seen::Unreadable => return Liveness::Unknown(Doubt::Unreadable),
        Seen::Thread => return Liveness::Dead(Death::Reused),
        Seen::Process(process) => process,
    };
    if differ(recorded.start, process.start) || differ(recorded.pidfd_ino, process.pidfd_ino) {
        return Liveness::Dead(Death::Reused);
    }
    // A lone zombie is dead whether it is the recorded process or has taken its pid.
    if process.state == RunState::Exited && process.threads <= 1 {
        return Liveness::Dead(Death::Zombie);
    }
    let same_start = recorded.start.is_some() && recorded.start == process.start;
    let same_pidfd = recorded.pidfd_ino.is_some() && recorded.pidfd_ino == process.pidfd_ino;
    if !same_start && !same_pidfd {
        return match (recorded.recorded_at, process.started_at) {
            (Some(recorded_at), Some(started_at)) if started_at > recorded_at.plus(CLOCK_SLACK) => {
                Liveness::Dead(Death::Reused)
            }
            _ => Liveness::Unknown(Doubt::Incomplete),
        };
    }
    Liveness::Alive(match process.state {
        RunState::Stopped => Life::Stopped,
        RunState::Traced => Life::Traced,
        RunState::Running | RunState::Exited => Life::Running,
    })
}

/// What is known of the recorded machine, compared with this one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SameMachine {
    Yes,
    No,
    NotRecorded,
    NotComparable,
}

fn compare_machine(recorded: &Identity, observer: &Observer) -> SameMachine {
    let (theirs, ours) = match &recorded.machine {
        None => return SameMachine::NotRecorded,
        Some(Machine::Hashed(theirs)) => (theirs, &observer.machine_hashed),
        Some(Machine::Plain(theirs)) => (theirs, &observer.machine_plain),
    };
    match ours {
        None => SameMachine::NotComparable,
        Some(ours) if ours == theirs => SameMachine::Yes,
        Some(_) => SameMachine::No,
    }
}

/// Rules 3 to 5: is the record about this boot of this machine? `None` goes on.
fn judge_boot(recorded: &Identity, observer: &Observer) -> Option<Liveness> {
    let machine = compare_machine(recorded, observer);
    let unknown = |doubt| Some(Liveness::Unknown(doubt));
    if observer.boots == BootKnowledge::InStartTime {
        return match (machine, recorded.recorder) {
            (SameMachine::Yes, _) | (SameMachine::NotRecorded, Recorder::Agent) => None,
            _ => unknown(Doubt::ForeignHost),
        };
    }
    let same_boot = match (&recorded.boot, &observer.boot_id, observer.boot_time) {
        (Some(Boot::Id(theirs)), Some(ours), _) => Some(theirs == ours),
        (Some(Boot::Time(theirs)), _, Some(ours)) if same_boot_clock(recorded, observer) => {
            Some(theirs.abs_diff(ours) <= CLOCK_SLACK.as_secs())
        }
        _ => None,
    };
    // A boot id is unique; machines that were switched on together share a boot time.
    if same_boot == Some(true) && matches!(recorded.boot, Some(Boot::Time(_))) {
        match machine {
            SameMachine::No => return unknown(Doubt::ForeignHost),
            SameMachine::NotComparable => return unknown(Doubt::BootUnknown),
            SameMachine::Yes | SameMachine::NotRecorded => {}
        }
    }
    let before_this_boot = match (recorded.recorded_at, observer.booted_at()) {
        // Elsewhere the boot seems to have begun at another time than it did.
        (Some(recorded_at), Some(booted_at)) if observer.in_initial_time_ns => {
            recorded_at.plus(CLOCK_SLACK) < booted_at
        }
        _ => false,
    };
    match (same_boot, machine) {
        (Some(true), _) => None,
        (Some(false), SameMachine::Yes) => Some(Liveness::Dead(Death::Rebooted)),
        (Some(false), SameMachine::NotRecorded) if before_this_boot => {
            Some(Liveness::Dead(Death::Rebooted))
        }
        (_, SameMachine::No) => unknown(Doubt::ForeignHost),
        (Some(false), _) | (None, SameMachine::NotComparable) => unknown(Doubt::BootUnknown),
        // The boot was recorded but cannot be compared, or ostler itself failed to record it.
        (None, _) if recorded.boot.is_some() || recorded.recorder == Recorder::Ostler => {
            unknown(Doubt::BootUnknown)
        }
        (None, _) if before_this_boot => Some(Liveness::Dead(Death::Rebooted)),
        (None, _) => None,
    }
}

/// Whether both boot times were read by the same clock: a time namespace shifts it.
fn same_boot_clock(recorded: &Identity, observer: &Observer) -> bool {
    match recorded.time_ns {
        Some(_) => recorded.time_ns == observer.time_ns,
        None => observer.in_initial_time_ns,
    }
}

/// Rule 6: does the pid mean the same here as where it was recorded? `None` goes on.
fn judge_namespaces(recorded: &Identity, observer: &Observer) -> Option<Liveness> {
    // What an agent did not record is no mismatch; ostler leaves out only what does not exist.
    let foreign = |theirs: Option<u64>, ours: Option<u64>| {
        theirs != ours && (theirs.is_some() || recorded.recorder == Recorder::Ostler)
    };
    if foreign(recorded.pid_ns, observer.pid_ns) || foreign(recorded.time_ns, observer.time_ns) {
        return Some(Liveness::Unknown(Doubt::ForeignNamespace));
    }
    let pid_ns_in_doubt = recorded.pid_ns.is_none() && !observer.in_initial_pid_ns;
    let ticks_in_doubt =
        recorded.time_ns.is_none() && recorded.start.is_some() && !observer.in_initial_time_ns;
    (observer.boots == BootKnowledge::Needed && (pid_ns_in_doubt || ticks_in_doubt))
        .then_some(Liveness::Unknown(Doubt::Blind))
}

/// Both known, and not the same.
fn differ(recorded: Option<u64>, seen: Option<u64>) -> bool {
    matches!((recorded, seen), (Some(a), Some(b)) if a != b)
}
