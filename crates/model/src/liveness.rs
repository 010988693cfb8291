//! The liveness decision: is the process that a session belongs to still there?
//!
//! [`decide_liveness`] is the whole answer: a pure function over what was recorded, who is looking and what
//! was seen. The first matching rule wins. *Dead* is only said on positive proof; every doubt is
//! *unknown*, and unknown protects.
//!
//! The wall clock can be set at any time (NTP, a resumed virtual machine), so it proves nothing about
//! a process that names itself by its start ticks. It is asked only about records that hold less,
//! and believed only as far as it is known not to have been set ([`WallClock`]).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::{BootId, Identity, IdentityRecorder, MachineId};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// Only the wall clock could tell, and it is not known to have run without being set.
    ClockUnproven,
    /// More sessions were written than there are agents that could have them open.
    MaybeOpen,
}

impl Liveness {
    /// `alive`, `dead` or `unknown`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Alive(_) => "alive",
            Self::Dead(_) => "dead",
            Self::Unknown(_) => "unknown",
        }
    }

    /// The reason code of the JSON contract.
    pub const fn reason_code(self) -> &'static str {
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
            Self::Unknown(Doubt::ClockUnproven) => "clock-unproven",
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
    /// What is known of the wall clock.
    pub clock: WallClock,
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
    pub uid: u32,
    /// Whether the process table hides other users' processes.
    pub hides_pids: bool,
    /// The largest pid the kernel hands out.
    pub pid_max: u32,
}

impl Observer {
    /// Whether "no such process" would be an observation. From inside another pid namespace, under
    /// hidepid or without a process table it is not.
    pub const fn sees_every_process(&self) -> bool {
        self.introspects && self.in_initial_pid_ns && !self.hides_pids
    }

    /// This boot, as identities name it: its id, else its time.
    pub fn boot_identity(&self) -> Option<BootId> {
        self.boot_id.clone().map(BootId::Id).or_else(|| self.boot_time().map(BootId::Time))
    }

    /// When this boot began, in whole seconds.
    pub fn boot_time(&self) -> Option<u64> {
        u64::try_from(self.clock.booted_at?.as_millis().div_euclid(1000)).ok()
    }
}

/// What an observer knows of the wall clock during this boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallClock {
    /// When this boot began, by the clock as it is set now: real time minus time since boot. It
    /// changes when the clock is set, and only then.
    pub booted_at: Option<Time>,
    /// The earliest such reading of this boot.
    pub earliest_boot: Option<Time>,
    /// The time since boot from which on the clock is known not to have been set. `None` when
    /// no reading was kept.
    pub steady_since: Option<Duration>,
}

impl WallClock {
    /// Whether it is known that it was not set since boot.
    pub fn was_never_set(&self) -> bool {
        self.booted_at.is_some() && self.booted_at == self.earliest_boot
    }

    /// The earliest time that anything written by a process can bear of which the clock now says that
    /// it began at `started_at`: where the clock was set since, it showed another time then.
    pub fn earliest_start(&self, started_at: Time) -> Time {
        let (Some(booted_at), Some(earliest_boot)) = (self.booted_at, self.earliest_boot) else {
            return started_at;
        };
        let since_boot = started_at.since(booted_at);
        match self.steady_since.is_some_and(|since| since <= since_boot) {
            true => started_at,
            false => started_at.minus(booted_at.since(earliest_boot)),
        }
    }
}

/// A reading of the wall clock that is kept from one command to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The boot it belongs to.
    pub boot_id: String,
    /// The time since boot when it was taken.
    pub since_boot: Duration,
    /// When the boot began by the clock as it was set then.
    pub booted_at: Time,
    /// The earliest such time that was read in this boot.
    pub earliest_boot: Time,
}

/// A clock is not taken as set below this: two readings of two clocks are never taken at once, and
/// it is less than [`RECORDER_CLOCK_SLACK`], so that what it lets pass changes no comparison.
const STEP_SLACK: Duration = Duration::from_secs(1);

impl ClockReading {
    /// The first reading of this boot.
    pub const fn first_reading(boot_id: String, since_boot: Duration, booted_at: Time) -> Self {
        Self { boot_id, since_boot, booted_at, earliest_boot: booted_at }
    }

    /// What is to be kept after this reading: the one that was kept before for as long as the clock
    /// has not been set, else this one, from which the clock is watched anew.
    pub fn after_kept(self, kept: Option<Self>) -> Self {
        let Some(kept) = kept.filter(|kept| {
            // What claims to come from the future of this boot was not read in it.
            kept.boot_id == self.boot_id && kept.since_boot <= self.since_boot
        }) else {
            return self;
        };
        let apart = kept.booted_at.as_millis().abs_diff(self.booted_at.as_millis());
        if u128::from(apart) <= STEP_SLACK.as_millis() {
            return kept;
        }
        Self { earliest_boot: kept.earliest_boot.min(self.booted_at), ..self }
    }

    /// What an observer knows who reads `booted_at` now and has kept this.
    pub fn seen_from(&self, booted_at: Time) -> WallClock {
        WallClock {
            booted_at: Some(booted_at),
            earliest_boot: Some(self.earliest_boot.min(booted_at)),
            steady_since: Some(self.since_boot),
        }
    }
}

/// What the process table shows for a pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PidLookup {
    /// No such pid.
    Absent,
    /// The kernel has such a pid, but the process table does not show it.
    Hidden,
    /// It is there, or may be, but cannot be read.
    Unreadable,
    /// The number names a thread of another process.
    Thread,
    Process(SeenProcess),
}

/// A process as the process table shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenProcess {
    /// Kernel start time, in the unit of [`Identity::start`].
    pub start: Option<u64>,
    /// How long after the boot it was started, where that is known without the wall clock.
    pub since_boot: Option<Duration>,
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
const RECORDER_CLOCK_SLACK: Duration = Duration::from_secs(2);

/// Rules 1 to 6 of the decision: whether looking the pid up can prove anything at all.
/// `Some` is the final answer without looking.
pub fn decide_before_looking(recorded: &Identity, observer: &Observer) -> Option<Liveness> {
    judge_place(recorded, observer).err()
}

/// The whole decision table; `seen` is what looking the pid up showed.
pub fn decide_liveness(recorded: &Identity, observer: &Observer, seen: PidLookup) -> Liveness {
    let boot = match judge_place(recorded, observer) {
        Ok(boot) => boot,
        Err(verdict) => return verdict,
    };
    let reused = match boot {
        BootSeen::This => Liveness::Dead(Death::Reused),
        BootSeen::Earlier => Liveness::Dead(Death::Rebooted),
    };
    let process = match seen {
        PidLookup::Absent => {
            let visible = recorded.uid == Some(observer.uid) || !observer.hides_pids;
            return match boot {
                _ if !visible => Liveness::Unknown(Doubt::Hidden),
                BootSeen::This => Liveness::Dead(Death::Gone),
                BootSeen::Earlier => Liveness::Dead(Death::Rebooted),
            };
        }
        PidLookup::Hidden => return Liveness::Unknown(Doubt::Hidden),
        PidLookup::Unreadable => return Liveness::Unknown(Doubt::Unreadable),
        PidLookup::Thread => return reused,
        PidLookup::Process(process) => process,
    };
    if are_known_to_differ(recorded.start, process.start)
        || are_known_to_differ(recorded.pidfd_ino, process.pidfd_ino)
    {
        return reused;
    }
    // A lone zombie is dead whether it is the recorded process or has taken its pid.
    if process.state == RunState::Exited && process.threads <= 1 {
        return Liveness::Dead(Death::Zombie);
    }
    // The boots differ, and yet everything that was recorded of the process agrees.
    if boot == BootSeen::Earlier {
        return Liveness::Unknown(Doubt::BootUnknown);
    }
    let same_start = recorded.start.is_some() && recorded.start == process.start;
    let same_pidfd = recorded.pidfd_ino.is_some() && recorded.pidfd_ino == process.pidfd_ino;
    if !same_start && !same_pidfd {
        return judge_by_age(recorded, observer, &process);
    }
    Liveness::Alive(match process.state {
        RunState::Stopped => Life::Stopped,
        RunState::Traced => Life::Traced,
        RunState::Running | RunState::Exited => Life::Running,
    })
}

/// A process has the recorded pid, and nothing that was recorded names it. It is another one if it
/// was started after the record was written, which only the wall clock can say: it is believed if
/// it was already watched when the process was started, and has not been set since.
fn judge_by_age(recorded: &Identity, observer: &Observer, process: &SeenProcess) -> Liveness {
    let clock = &observer.clock;
    let (Some(recorded_at), Some(since_boot), Some(booted_at)) =
        (recorded.recorded_at, process.since_boot, clock.booted_at)
    else {
        return Liveness::Unknown(Doubt::Incomplete);
    };
    if booted_at.plus(since_boot) <= recorded_at.plus(RECORDER_CLOCK_SLACK) {
        return Liveness::Unknown(Doubt::Incomplete);
    }
    if observer.in_initial_time_ns && clock.steady_since.is_some_and(|since| since <= since_boot) {
        return Liveness::Dead(Death::Reused);
    }
    Liveness::Unknown(Doubt::ClockUnproven)
}

/// Which boot a record that may be looked up is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BootSeen {
    /// This one, as far as can be told.
    This,
    /// An earlier one of a machine that is not named, by the boot's id and the clock.
    Earlier,
}

/// Rules 1 to 6: is the record about this machine, and what its pid names now?
fn judge_place(recorded: &Identity, observer: &Observer) -> Result<BootSeen, Liveness> {
    let plausible = recorded.pid.is_some_and(|pid| pid > 1 && pid <= observer.pid_max);
    if !plausible {
        return Err(Liveness::Unknown(Doubt::Incomplete));
    }
    if !observer.introspects {
        return Err(Liveness::Unknown(Doubt::NoProc));
    }
    let boot = judge_boot(recorded, observer)?;
    judge_namespaces(recorded, observer).map_or(Ok(boot), Err)
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
        Some(MachineId::Hashed(theirs)) => (theirs, &observer.machine_hashed),
        Some(MachineId::Plain(theirs)) => (theirs, &observer.machine_plain),
    };
    match ours {
        None => SameMachine::NotComparable,
        Some(ours) if ours == theirs => SameMachine::Yes,
        Some(_) => SameMachine::No,
    }
}

/// Rules 3 to 5: is the record about this boot of this machine?
fn judge_boot(recorded: &Identity, observer: &Observer) -> Result<BootSeen, Liveness> {
    let machine = compare_machine(recorded, observer);
    let unknown = |doubt| Err(Liveness::Unknown(doubt));
    if observer.boots == BootKnowledge::InStartTime {
        return match (machine, recorded.recorder) {
            (SameMachine::Yes, _) | (SameMachine::NotRecorded, IdentityRecorder::Agent) => {
                Ok(BootSeen::This)
            }
            _ => unknown(Doubt::ForeignHost),
        };
    }
    if let (Some(BootId::Id(theirs)), Some(ours)) = (&recorded.boot, &observer.boot_id) {
        // A boot id is unique, across all machines.
        return match machine {
            _ if theirs == ours => Ok(BootSeen::This),
            SameMachine::Yes => Err(Liveness::Dead(Death::Rebooted)),
            SameMachine::No => unknown(Doubt::ForeignHost),
            SameMachine::NotRecorded if is_before_this_boot(recorded, observer) => {
                Ok(BootSeen::Earlier)
            }
            SameMachine::NotRecorded | SameMachine::NotComparable => unknown(Doubt::BootUnknown),
        };
    }
    match (&recorded.boot, machine) {
        // Machines that were switched on together share a boot time.
        (_, SameMachine::No) => unknown(Doubt::ForeignHost),
        (_, SameMachine::NotComparable) | (Some(BootId::Id(_)), _) => unknown(Doubt::BootUnknown),
        (Some(BootId::Time(theirs)), _) => {
            // A boot time is read off the wall clock. Where it differs the clock may have been set:
            // of a process of this machine looking tells more, of others nothing is known.
            let same = observer
                .boot_time()
                .is_some_and(|ours| theirs.abs_diff(ours) <= RECORDER_CLOCK_SLACK.as_secs());
            if same_boot_clock(recorded, observer) && (same || machine == SameMachine::Yes) {
                Ok(BootSeen::This)
            } else {
                unknown(Doubt::BootUnknown)
            }
        }
        // ostler itself failed to record it.
        (None, _) if recorded.recorder == IdentityRecorder::Ostler => unknown(Doubt::BootUnknown),
        (None, SameMachine::Yes | SameMachine::NotRecorded) => Ok(BootSeen::This),
    }
}

/// Whether a record was written before this boot began, however the clock was set meanwhile.
fn is_before_this_boot(recorded: &Identity, observer: &Observer) -> bool {
    let booted_at = observer.clock.earliest_boot.min(observer.clock.booted_at);
    match (recorded.recorded_at, booted_at.or(observer.clock.booted_at)) {
        // Elsewhere the boot seems to have begun at another time than it did.
        (Some(recorded_at), Some(booted_at)) if observer.in_initial_time_ns => {
            recorded_at.plus(RECORDER_CLOCK_SLACK) < booted_at
        }
        _ => false,
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
        theirs != ours && (theirs.is_some() || recorded.recorder == IdentityRecorder::Ostler)
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
fn are_known_to_differ(recorded: Option<u64>, seen: Option<u64>) -> bool {
    matches!((recorded, seen), (Some(a), Some(b)) if a != b)
}
