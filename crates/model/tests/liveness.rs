//! The liveness decision: one test per row of the table, then the properties that hold for all
//! records, observers and sights.

use std::time::Duration;

use ostler_model::identity::{BootId, Identity, IdentityRecorder, MachineId};
use ostler_model::liveness::{
    BootKnowledge, ClockReading, Death, Doubt, Life, Liveness, Observer, PidLookup, RunState,
    SeenProcess, WallClock, decide_before_looking, decide_liveness,
};
use ostler_model::time::Time;

mod clock;
mod properties;
mod records;

const BOOTED: u64 = 1_000_000;
const BOOTED_MILLIS: i64 = 1_000_000_000;

fn observer() -> Observer {
    Observer {
        introspects: true,
        boots: BootKnowledge::Needed,
        boot_id: Some("boot".into()),
        clock: WallClock {
            booted_at: Some(after_boot(0)),
            earliest_boot: Some(after_boot(0)),
            steady_since: Some(Duration::ZERO),
        },
        machine_hashed: Some("hashed".into()),
        machine_plain: Some("plain".into()),
        pid_ns: Some(1),
        time_ns: Some(2),
        in_initial_pid_ns: true,
        in_initial_time_ns: true,
        uid: 1000,
        hides_pids: false,
        pid_max: 32768,
    }
}

/// What ostler records: everything.
fn recorded() -> Identity {
    Identity {
        pid: Some(100),
        uid: Some(1000),
        start: Some(5000),
        boot: Some(BootId::Id("boot".into())),
        machine: Some(MachineId::Hashed("hashed".into())),
        pid_ns: Some(1),
        time_ns: Some(2),
        pidfd_ino: Some(77),
        recorded_at: Some(after_boot(100)),
        recorder: IdentityRecorder::Ostler,
        comm: None,
        exe: None,
    }
}

/// What an agent records: a pid and the time.
fn by_agent() -> Identity {
    Identity { recorded_at: Some(after_boot(100)), ..Identity::recorded_by_agent(Some(100)) }
}

fn after_boot(secs: i64) -> Time {
    Time::from_millis(BOOTED_MILLIS + secs * 1000)
}

fn there() -> SeenProcess {
    SeenProcess {
        start: Some(5000),
        since_boot: Some(Duration::from_secs(50)),
        pidfd_ino: Some(77),
        state: RunState::Running,
        threads: 1,
    }
}

const ALIVE: Liveness = Liveness::Alive(Life::Running);

fn dead(death: Death) -> Liveness {
    Liveness::Dead(death)
}

fn unknown(doubt: Doubt) -> Liveness {
    Liveness::Unknown(doubt)
}

#[track_caller]
fn expect(recorded: &Identity, observer: &Observer, seen: PidLookup, expected: Liveness) {
    assert_eq!(decide_liveness(recorded, observer, seen), expected);
    if let Some(early) = decide_before_looking(recorded, observer) {
        assert_eq!(early, expected, "the answer without looking is the same");
    }
}

#[test]
fn row_1_no_plausible_pid_is_incomplete() {
    for pid in [None, Some(0), Some(1), Some(32769), Some(u32::MAX)] {
        let record = Identity { pid, ..recorded() };
        expect(&record, &observer(), PidLookup::Absent, unknown(Doubt::Incomplete));
    }
    let record = Identity { pid: Some(32768), ..recorded() };
    expect(&record, &observer(), PidLookup::Absent, dead(Death::Gone));
}

#[test]
fn row_2_without_a_process_table_nothing_is_known() {
    let blind = Observer { introspects: false, ..observer() };
    expect(&recorded(), &blind, PidLookup::Absent, unknown(Doubt::NoProc));
    let other_boot = Identity { boot: Some(BootId::Id("other".into())), ..recorded() };
    expect(&other_boot, &blind, PidLookup::Absent, unknown(Doubt::NoProc));
}

#[test]
fn row_3_the_same_boot_goes_on_whatever_the_machine_is_called() {
    let renamed = Identity { machine: Some(MachineId::Hashed("other".into())), ..recorded() };
    expect(&renamed, &observer(), PidLookup::Process(there()), ALIVE);
}

#[test]
fn row_4_another_boot_of_this_machine_is_dead() {
    let record = Identity { boot: Some(BootId::Id("other".into())), ..recorded() };
    expect(&record, &observer(), PidLookup::Process(there()), dead(Death::Rebooted));
}

#[test]
fn row_5_boots_that_cannot_be_compared_are_unknown() {
    let other_machine = Identity {
        boot: Some(BootId::Id("other".into())),
        machine: Some(MachineId::Hashed("other".into())),
        ..recorded()
    };
    expect(&other_machine, &observer(), PidLookup::Absent, unknown(Doubt::ForeignHost));

    let no_machine =
        Identity { boot: Some(BootId::Id("other".into())), machine: None, ..recorded() };
    expect(&no_machine, &observer(), PidLookup::Absent, unknown(Doubt::BootUnknown));

    let no_boot = Identity { boot: None, ..recorded() };
    expect(&no_boot, &observer(), PidLookup::Absent, unknown(Doubt::BootUnknown));

    let no_boot_id = Observer { boot_id: None, ..observer() };
    expect(&recorded(), &no_boot_id, PidLookup::Absent, unknown(Doubt::BootUnknown));
}

#[test]
fn row_5_on_macos_the_machine_decides() {
    let mac = Observer {
        boots: BootKnowledge::InStartTime,
        boot_id: None,
        clock: WallClock::default(),
        pid_ns: None,
        time_ns: None,
        ..observer()
    };
    let record = Identity { boot: None, pid_ns: None, time_ns: None, ..recorded() };
    expect(&record, &mac, PidLookup::Process(there()), ALIVE);
    expect(&record, &mac, PidLookup::Absent, dead(Death::Gone));
    let elsewhere = Identity { machine: Some(MachineId::Hashed("other".into())), ..record.clone() };
    expect(&elsewhere, &mac, PidLookup::Absent, unknown(Doubt::ForeignHost));
    let nowhere = Identity { machine: None, ..record };
    expect(&nowhere, &mac, PidLookup::Absent, unknown(Doubt::ForeignHost));
    expect(&by_agent(), &mac, PidLookup::Absent, dead(Death::Gone));
}

#[test]
fn row_6_another_namespace_is_unknown() {
    for record in [
        Identity { pid_ns: Some(9), ..recorded() },
        Identity { time_ns: Some(9), ..recorded() },
        Identity { pid_ns: Some(9), recorder: IdentityRecorder::Agent, ..recorded() },
        Identity { pid_ns: None, ..recorded() },
    ] {
        expect(&record, &observer(), PidLookup::Absent, unknown(Doubt::ForeignNamespace));
        expect(&record, &observer(), PidLookup::Thread, unknown(Doubt::ForeignNamespace));
    }
    let lost = Observer { pid_ns: None, ..observer() };
    expect(&recorded(), &lost, PidLookup::Absent, unknown(Doubt::ForeignNamespace));
}

#[test]
fn row_7_no_such_pid_is_gone_unless_it_may_be_hidden() {
    let hidepid = Observer { hides_pids: true, ..observer() };
    let theirs = Identity { uid: Some(2000), ..recorded() };
    let nobodys = Identity { uid: None, ..recorded() };
    expect(&recorded(), &observer(), PidLookup::Absent, dead(Death::Gone));
    expect(&theirs, &observer(), PidLookup::Absent, dead(Death::Gone));
    expect(&recorded(), &hidepid, PidLookup::Absent, dead(Death::Gone));
    expect(&theirs, &hidepid, PidLookup::Absent, unknown(Doubt::Hidden));
    expect(&nobodys, &hidepid, PidLookup::Absent, unknown(Doubt::Hidden));
    // The kernel still has the pid: not even our own user's process is gone then.
    expect(&recorded(), &hidepid, PidLookup::Hidden, unknown(Doubt::Hidden));
    expect(&recorded(), &observer(), PidLookup::Hidden, unknown(Doubt::Hidden));
}

#[test]
fn row_8_what_cannot_be_read_is_unknown() {
    expect(&recorded(), &observer(), PidLookup::Unreadable, unknown(Doubt::Unreadable));
}

#[test]
fn row_9_a_pid_that_is_now_a_thread_was_reused() {
    expect(&recorded(), &observer(), PidLookup::Thread, dead(Death::Reused));
}

#[test]
fn row_10_another_start_or_pidfd_is_another_process() {
    let later = PidLookup::Process(SeenProcess { start: Some(5001), ..there() });
    expect(&recorded(), &observer(), later, dead(Death::Reused));
    // Inside one clock tick only the pidfd tells them apart.
    let same_tick = PidLookup::Process(SeenProcess { pidfd_ino: Some(78), ..there() });
    expect(&recorded(), &observer(), same_tick, dead(Death::Reused));
    let old_kernel = PidLookup::Process(SeenProcess { pidfd_ino: None, ..there() });
    expect(&recorded(), &observer(), old_kernel, ALIVE);
}

#[test]
fn row_11_a_zombie_is_dead() {
    let zombie = SeenProcess { state: RunState::Exited, ..there() };
    expect(&recorded(), &observer(), PidLookup::Process(zombie), dead(Death::Zombie));
    let released = SeenProcess { threads: 0, ..zombie };
    expect(&recorded(), &observer(), PidLookup::Process(released), dead(Death::Zombie));
    let reused = SeenProcess { start: Some(5001), ..zombie };
    expect(&recorded(), &observer(), PidLookup::Process(reused), dead(Death::Reused));
    // Whoever the zombie is, nothing that was recorded runs under this pid.
    expect(&by_agent(), &observer(), PidLookup::Process(zombie), dead(Death::Zombie));
}

#[test]
fn row_11_a_leader_that_exited_before_its_threads_is_alive() {
    let leader = SeenProcess { state: RunState::Exited, threads: 2, ..there() };
    expect(&recorded(), &observer(), PidLookup::Process(leader), ALIVE);
}

#[test]
fn row_12_alive_in_three_ways() {
    for (state, life) in [
        (RunState::Running, Life::Running),
        (RunState::Stopped, Life::Stopped),
        (RunState::Traced, Life::Traced),
    ] {
        let seen = PidLookup::Process(SeenProcess { state, ..there() });
        expect(&recorded(), &observer(), seen, Liveness::Alive(life));
    }
}

#[test]
fn every_answer_has_a_state_and_a_reason() {
    for (liveness, words) in [
        (ALIVE, "alive running"),
        (Liveness::Alive(Life::Stopped), "alive stopped"),
        (Liveness::Alive(Life::Traced), "alive traced"),
        (dead(Death::Rebooted), "dead rebooted"),
        (dead(Death::Gone), "dead gone"),
        (dead(Death::Reused), "dead reused"),
        (dead(Death::Zombie), "dead zombie"),
        (dead(Death::NoProcess), "dead no-process"),
        (dead(Death::Recorded), "dead recorded"),
        (dead(Death::NotAttached), "dead not-attached"),
        (unknown(Doubt::Incomplete), "unknown incomplete"),
        (unknown(Doubt::NoProc), "unknown no-proc"),
        (unknown(Doubt::ForeignHost), "unknown foreign-host"),
        (unknown(Doubt::BootUnknown), "unknown boot-unknown"),
        (unknown(Doubt::ForeignNamespace), "unknown foreign-namespace"),
        (unknown(Doubt::Hidden), "unknown hidden"),
        (unknown(Doubt::Unreadable), "unknown unreadable"),
        (unknown(Doubt::Blind), "unknown blind"),
        (unknown(Doubt::ClockUnproven), "unknown clock-unproven"),
        (unknown(Doubt::MaybeOpen), "unknown maybe-open"),
    ] {
        assert_eq!(format!("{} {}", liveness.as_str(), liveness.reason_code()), words);
    }
}
