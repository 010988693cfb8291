//! Properties of the decision over generated records, observers and sights. The domains are small
//! so that equal and different values both come up often.

use std::time::Duration;

use ostler_model::identity::{BootId, Identity, IdentityRecorder, MachineId};
use ostler_model::liveness::{
    BootKnowledge, Death, Liveness, Observer, PidLookup, RunState, SeenProcess, WallClock,
    decide_before_looking, decide_liveness,
};
use ostler_model::time::Time;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

const SLACK_MILLIS: i64 = 2000;

fn word() -> impl Strategy<Value = String> {
    select(vec!["a".to_owned(), "b".to_owned()])
}

fn boot() -> impl Strategy<Value = BootId> {
    prop_oneof![word().prop_map(BootId::Id), (100_u64..110).prop_map(BootId::Time)]
}

fn machine() -> impl Strategy<Value = MachineId> {
    prop_oneof![word().prop_map(MachineId::Hashed), word().prop_map(MachineId::Plain)]
}

fn time() -> impl Strategy<Value = Time> {
    (90_000_i64..130_000).prop_map(Time::from_millis)
}

prop_compose! {
    fn identity()(
        pid in of(0_u32..6),
        uid in of(0_u32..2),
        start in of(0_u64..3),
        boot in of(boot()),
        machine in of(machine()),
        pid_ns in of(0_u64..2),
        time_ns in of(0_u64..2),
        pidfd_ino in of(0_u64..2),
        recorded_at in of(time()),
        recorder in select(vec![IdentityRecorder::Ostler, IdentityRecorder::Agent]),
    ) -> Identity {
        Identity {
            pid, uid, start, boot, machine, pid_ns, time_ns, pidfd_ino, recorded_at, recorder,
            comm: None, exe: None,
        }
    }
}

prop_compose! {
    fn clock()(
        booted_at in of((100_i64..110).prop_map(|secs| Time::from_millis(secs * 1000))),
        earliest_boot in of((95_i64..110).prop_map(|secs| Time::from_millis(secs * 1000))),
        steady_since in of((0_u64..20).prop_map(Duration::from_secs)),
    ) -> WallClock {
        WallClock { booted_at, earliest_boot, steady_since }
    }
}

prop_compose! {
    fn observer()(
        (introspects, hides_pids) in (any::<bool>(), any::<bool>()),
        boots in select(vec![BootKnowledge::Needed, BootKnowledge::InStartTime]),
        boot_id in of(word()),
        clock in clock(),
        machine_hashed in of(word()),
        machine_plain in of(word()),
        pid_ns in of(0_u64..2),
        time_ns in of(0_u64..2),
        (in_initial_pid_ns, in_initial_time_ns) in (any::<bool>(), any::<bool>()),
        uid in 0_u32..2,
    ) -> Observer {
        Observer {
            introspects, boots, boot_id, clock, machine_hashed, machine_plain, pid_ns, time_ns,
            in_initial_pid_ns, in_initial_time_ns, uid, hides_pids, pid_max: 4,
        }
    }
}

prop_compose! {
    fn process()(
        start in of(0_u64..3),
        since_boot in of((0_u64..30_000).prop_map(Duration::from_millis)),
        pidfd_ino in of(0_u64..2),
        state in select(vec![
            RunState::Running, RunState::Stopped, RunState::Traced, RunState::Exited,
        ]),
        threads in 0_u32..3,
    ) -> SeenProcess {
        SeenProcess { start, since_boot, pidfd_ino, state, threads }
    }
}

fn seen() -> impl Strategy<Value = PidLookup> {
    prop_oneof![
        1 => Just(PidLookup::Absent),
        1 => Just(PidLookup::Hidden),
        1 => Just(PidLookup::Unreadable),
        1 => Just(PidLookup::Thread),
        4 => process().prop_map(PidLookup::Process),
    ]
}

fn both<T: PartialEq>(a: Option<T>, b: Option<T>, compare: impl Fn(&T, &T) -> bool) -> bool {
    matches!((&a, &b), (Some(a), Some(b)) if compare(a, b))
}

fn same_machine(record: &Identity, observer: &Observer) -> bool {
    match &record.machine {
        Some(MachineId::Hashed(id)) => observer.machine_hashed.as_ref() == Some(id),
        Some(MachineId::Plain(id)) => observer.machine_plain.as_ref() == Some(id),
        None => false,
    }
}

/// Started while the clock was watched, and after the record was written.
fn is_younger(process: SeenProcess, record: &Identity, observer: &Observer) -> bool {
    let watched =
        both(observer.clock.steady_since, process.since_boot, |since, start| since <= start);
    let started = observer.clock.booted_at.zip(process.since_boot);
    let started = started.map(|(booted, since)| booted.plus(since));
    watched
        && both(record.recorded_at, started, |recorded, started| {
            started.as_millis() > recorded.as_millis() + SLACK_MILLIS
        })
}

/// Every proof of death, in words of its own.
fn is_proved(death: Death, record: &Identity, observer: &Observer, seen: PidLookup) -> bool {
    let older_than_boot = both(record.recorded_at, observer.clock.booted_at, |recorded, booted| {
        recorded.as_millis() + SLACK_MILLIS < booted.as_millis()
    }) && observer.in_initial_time_ns;
    // Only an id says that a boot was another one: a boot time is what the clock said.
    let other_boot = match (&record.boot, &observer.boot_id) {
        (Some(BootId::Id(theirs)), Some(ours)) => theirs != ours,
        _ => false,
    };
    let process = match seen {
        PidLookup::Process(process) => Some(process),
        _ => None,
    };
    match death {
        Death::Rebooted => {
            observer.boots == BootKnowledge::Needed
                && other_boot
                && (same_machine(record, observer) || older_than_boot && record.machine.is_none())
        }
        Death::Gone => {
            seen == PidLookup::Absent && (!observer.hides_pids || record.uid == Some(observer.uid))
        }
        Death::Reused => {
            seen == PidLookup::Thread
                || process.is_some_and(|process| {
                    both(record.start, process.start, |a, b| a != b)
                        || both(record.pidfd_ino, process.pidfd_ino, |a, b| a != b)
                        || is_younger(process, record, observer)
                })
        }
        Death::Zombie => process.is_some_and(|p| p.state == RunState::Exited && p.threads <= 1),
        Death::NoProcess | Death::Recorded | Death::NotAttached => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn dead_is_only_said_on_proof(record in identity(), observer in observer(), seen in seen()) {
        if let Liveness::Dead(death) = decide_liveness(&record, &observer, seen) {
            prop_assert!(is_proved(death, &record, &observer, seen), "{death:?}");
        }
    }

    #[test]
    fn alive_is_only_said_of_the_very_process(
        record in identity(), observer in observer(), seen in seen(),
    ) {
        if let Liveness::Alive(_) = decide_liveness(&record, &observer, seen) {
            let PidLookup::Process(process) = seen else { panic!("alive without a process") };
            let same_start = both(record.start, process.start, |a, b| a == b);
            let same_pidfd = both(record.pidfd_ino, process.pidfd_ino, |a, b| a == b);
            prop_assert!(same_start || same_pidfd);
            prop_assert!(process.state != RunState::Exited || process.threads > 1);
        }
    }

    #[test]
    fn without_a_plausible_pid_or_a_process_table_nothing_is_known(
        record in identity(), observer in observer(), seen in seen(),
    ) {
        let plausible = matches!(record.pid, Some(2..=4));
        if !plausible || !observer.introspects {
            let verdict = decide_liveness(&record, &observer, seen);
            prop_assert!(matches!(verdict, Liveness::Unknown(_)), "{verdict:?}");
        }
    }

    #[test]
    fn another_place_is_never_dead_but_by_a_reboot(
        record in identity(), observer in observer(), seen in seen(),
    ) {
        let other_pid_ns = record.pid_ns.is_some() && record.pid_ns != observer.pid_ns;
        let other_time_ns = record.time_ns.is_some() && record.time_ns != observer.time_ns;
        let other_machine = record.machine.is_some()
            && !same_machine(&record, &observer)
            // The same boot id is the same kernel, whatever the machine calls itself.
            && !matches!(&record.boot, Some(BootId::Id(id)) if observer.boot_id.as_ref() == Some(id));
        if other_pid_ns || other_time_ns || other_machine {
            let verdict = decide_liveness(&record, &observer, seen);
            let protected = matches!(
                verdict,
                Liveness::Unknown(_) | Liveness::Dead(Death::Rebooted)
            );
            prop_assert!(protected, "{verdict:?}");
        }
    }

    #[test]
    fn an_observer_outside_the_initial_namespace_needs_the_record_to_name_its_own(
        record in identity(), observer in observer(), seen in seen(),
    ) {
        let undeclared = observer.boots == BootKnowledge::Needed
            && !observer.in_initial_pid_ns
            && record.pid_ns.is_none();
        if undeclared {
            let verdict = decide_liveness(&record, &observer, seen);
            let protected = matches!(
                verdict,
                Liveness::Unknown(_) | Liveness::Dead(Death::Rebooted)
            );
            prop_assert!(protected, "{verdict:?}");
        }
    }

    #[test]
    fn what_cannot_be_seen_is_never_dead_but_by_a_reboot(
        record in identity(), observer in observer(),
        seen in select(vec![PidLookup::Hidden, PidLookup::Unreadable]),
    ) {
        let verdict = decide_liveness(&record, &observer, seen);
        let protected =
            matches!(verdict, Liveness::Unknown(_) | Liveness::Dead(Death::Rebooted));
        prop_assert!(protected, "{verdict:?}");
    }

    #[test]
    fn forgetting_the_user_or_the_time_never_kills(
        record in identity(), observer in observer(), seen in seen(),
    ) {
        let record = Identity { recorder: IdentityRecorder::Agent, ..record };
        if !decide_liveness(&record, &observer, seen).is_dead() {
            for less in [
                Identity { uid: None, ..record.clone() },
                Identity { recorded_at: None, ..record.clone() },
                Identity { uid: None, recorded_at: None, ..record.clone() },
            ] {
                let verdict = decide_liveness(&less, &observer, seen);
                prop_assert!(!verdict.is_dead(), "{verdict:?}");
            }
        }
    }

    /// Without start and pidfd only what is seen can kill: nothing there, a thread, a zombie, or
    /// a process younger than the record.
    #[test]
    fn forgetting_what_names_the_process_never_kills_one_that_is_there(
        record in identity(), observer in observer(), process in process(),
    ) {
        let record = Identity { recorder: IdentityRecorder::Agent, ..record };
        let seen = PidLookup::Process(process);
        let lone_zombie = process.state == RunState::Exited && process.threads <= 1;
        let younger = is_proved(
            Death::Reused,
            &Identity { start: None, pidfd_ino: None, ..record.clone() },
            &observer,
            seen,
        );
        if !lone_zombie && !younger && !decide_liveness(&record, &observer, seen).is_dead() {
            for less in [
                Identity { start: None, ..record.clone() },
                Identity { pidfd_ino: None, ..record.clone() },
                Identity { start: None, pidfd_ino: None, ..record.clone() },
            ] {
                let verdict = decide_liveness(&less, &observer, seen);
                let proved_by_the_other = matches!(verdict, Liveness::Dead(Death::Reused))
                    && (both(less.start, process.start, |a, b| a != b)
                        || both(less.pidfd_ino, process.pidfd_ino, |a, b| a != b));
                prop_assert!(!verdict.is_dead() || proved_by_the_other, "{verdict:?}");
            }
        }
    }

    #[test]
    fn the_answer_without_looking_stands_whatever_is_seen(
        record in identity(), observer in observer(), seen in seen(),
    ) {
        if let Some(early) = decide_before_looking(&record, &observer) {
            prop_assert_eq!(decide_liveness(&record, &observer, seen), early);
            prop_assert!(!early.is_alive());
        }
    }

    #[test]
    fn a_gap_in_ostlers_own_record_is_a_doubt(
        record in identity(), observer in observer(), seen in seen(),
    ) {
        let record = Identity { recorder: IdentityRecorder::Ostler, boot: None, ..record };
        if observer.boots == BootKnowledge::Needed {
            let verdict = decide_liveness(&record, &observer, seen);
            prop_assert!(matches!(verdict, Liveness::Unknown(_)), "{verdict:?}");
        }
        let unnamed = Identity { pid_ns: None, ..record };
        if observer.pid_ns.is_some() {
            let verdict = decide_liveness(&unnamed, &observer, seen);
            prop_assert!(!verdict.is_alive() && verdict != Liveness::Dead(Death::Gone));
        }
    }
}
