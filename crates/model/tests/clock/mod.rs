//! H1: the clock proves nothing. Whatever it is set to, a process that is there is never called dead.

use proptest::prelude::*;

use super::*;

const MONTH: i64 = 30 * 86_400;

/// A machine on which one process runs, and whose wall clock is set now and then. Real times are
/// seconds since boot, which nobody can set.
struct SteppedMachine {
    /// By how much the clock was wrong at boot, then (since when, by how much).
    steps: Vec<(i64, i64)>,
}

impl SteppedMachine {
    /// When the boot began by the clock as it was set at this moment.
    fn booted_at(&self, at: i64) -> Time {
        let offset = self.steps.iter().rev().find(|(since, _)| *since <= at);
        after_boot(offset.map_or(0, |(_, offset)| *offset))
    }

    /// What the clock showed.
    fn shown(&self, at: i64) -> Time {
        self.booted_at(at).plus(secs(at))
    }

    /// What an observer knows at the last of these moments, one having looked at each.
    fn observer(&self, looks: &[i64]) -> Observer {
        let mut kept = None;
        let mut clock = WallClock::default();
        for &at in looks {
            let booted_at = self.booted_at(at);
            let reading =
                ClockReading::first_reading("boot".into(), secs(at), booted_at).after_kept(kept);
            clock = reading.seen_from(booted_at);
            kept = Some(reading);
        }
        Observer { clock, ..observer() }
    }
}

fn secs(secs: i64) -> Duration {
    Duration::from_secs(secs.unsigned_abs())
}

/// The record of a process that started at `start` and wrote it down at `written`.
fn record(machine: &SteppedMachine, written: i64) -> Identity {
    Identity { recorded_at: Some(machine.shown(written)), ..by_agent() }
}

fn process(start: i64) -> SeenProcess {
    SeenProcess { since_boot: Some(secs(start)), ..there() }
}

#[test]
fn h1_a_process_named_by_pid_ticks_and_machine_is_alive_whatever_the_clock_says() {
    let claude = |written: i64| Identity {
        start: Some(5000),
        machine: Some(MachineId::Plain("plain".into())),
        pid_ns: Some(1),
        recorded_at: Some(after_boot(written)),
        ..by_agent()
    };
    for step in [-MONTH, -86_400, -5, 0, 5, 3600, 7200, 86_400, MONTH] {
        let clock = WallClock {
            booted_at: Some(after_boot(step)),
            earliest_boot: None,
            steady_since: None,
        };
        let stepped = Observer { clock, ..observer() };
        expect(&claude(100), &stepped, PidLookup::Process(there()), ALIVE);
        // The same with a boot that was written down by the clock.
        let by_time = Identity { boot: Some(BootId::Time(BOOTED)), ..recorded() };
        expect(&by_time, &stepped, PidLookup::Process(there()), ALIVE);
        // What is gone is gone by any clock.
        expect(&claude(100), &stepped, PidLookup::Absent, dead(Death::Gone));
        expect(&by_time, &stepped, PidLookup::Absent, dead(Death::Gone));
    }
}

#[test]
fn h1_a_pid_alone_under_a_clock_that_was_set_is_in_doubt() {
    let machine = SteppedMachine { steps: vec![(0, 0), (500, 5)] };
    let seen = PidLookup::Process(process(90));
    let record = record(&machine, 91);
    expect(&record, &machine.observer(&[10, 400]), seen, unknown(Doubt::Incomplete));
    // Somebody looked before and after, or only after: both leave it open.
    expect(&record, &machine.observer(&[10, 600]), seen, unknown(Doubt::ClockUnproven));
    expect(&record, &machine.observer(&[600]), seen, unknown(Doubt::ClockUnproven));
    // A process that was started under watch, long after the record, is another one.
    let later = PidLookup::Process(process(700));
    expect(&record, &machine.observer(&[10, 600, 800]), later, dead(Death::Reused));
    expect(&record, &machine.observer(&[800]), later, unknown(Doubt::ClockUnproven));
}

#[test]
fn a_reading_of_another_boot_or_of_the_future_is_not_believed() {
    let now = ClockReading::first_reading("boot".into(), secs(100), after_boot(0));
    for strange in [
        ClockReading { boot_id: "other".into(), since_boot: secs(50), ..now.clone() },
        ClockReading { since_boot: secs(101), ..now.clone() },
    ] {
        assert_eq!(now.clone().after_kept(Some(strange)), now);
    }
    let before = ClockReading { since_boot: secs(50), ..now.clone() };
    assert_eq!(now.after_kept(Some(before.clone())), before);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Any clock at boot, up to three steps at any time, an ostler that looks at any times, a record
    /// that holds any part of what there is.
    #[test]
    fn h1_a_live_process_is_never_dead_under_any_clock_steps(
        at_boot in -MONTH..=MONTH,
        steps in prop::collection::vec((1_i64..5_000, prop_oneof![-20..=20_i64, -MONTH..=MONTH]), 0..4),
        mut looks in prop::collection::vec(0_i64..6_000, 1..6),
        start in 0_i64..5_000,
        delay in 0_i64..1_000,
        with_ticks in any::<bool>(),
        with_machine in any::<bool>(),
        by_boot_time in any::<bool>(),
    ) {
        let mut machine = SteppedMachine { steps };
        machine.steps.sort_unstable();
        machine.steps.insert(0, (0, at_boot));
        // A step that nobody can have seen, because another undid it before the next look, is
        // the one thing that cannot be noticed: look after each.
        looks.extend(machine.steps.iter().map(|(since, _)| *since));
        looks.push(start + delay);
        looks.push(6_000);
        looks.sort_unstable();
        let first = looks.iter().position(|look| look % 2 == 0).unwrap_or(0);
        let observer = machine.observer(&looks[first..]);

        let mut record = record(&machine, start + delay);
        record.start = with_ticks.then_some(5000);
        record.machine = with_machine.then(|| MachineId::Plain("plain".into()));
        if by_boot_time && with_machine {
            let booted = machine.booted_at(start + delay).as_millis().div_euclid(1000);
            record.boot = u64::try_from(booted).ok().map(BootId::Time);
        }
        let verdict = decide_liveness(&record, &observer, PidLookup::Process(process(start)));
        prop_assert!(!verdict.is_dead(), "{verdict:?}");
        if with_ticks {
            prop_assert!(verdict.is_alive(), "{verdict:?}");
        }
    }
}
