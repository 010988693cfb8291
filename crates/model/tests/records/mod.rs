//! Records that are incomplete, or were written elsewhere: mostly those that agents keep.

use super::*;

#[test]
fn a_boot_time_is_compared_although_a_boot_id_is_known_now() {
    let record = Identity { boot: Some(BootId::Time(BOOTED + 1)), ..recorded() };
    expect(&record, &observer(), PidLookup::Process(there()), ALIVE);
    expect(&record, &observer(), PidLookup::Absent, dead(Death::Gone));
}

#[test]
fn machines_switched_on_together_share_a_boot_time_and_nothing_else() {
    let record = Identity {
        boot: Some(BootId::Time(BOOTED)),
        machine: Some(MachineId::Hashed("other".into())),
        ..recorded()
    };
    expect(&record, &observer(), PidLookup::Absent, unknown(Doubt::ForeignHost));
    let nameless = Observer { machine_hashed: None, ..observer() };
    expect(&record, &nameless, PidLookup::Absent, unknown(Doubt::BootUnknown));
}

#[test]
fn a_boot_time_read_in_another_time_namespace_proves_no_reboot() {
    let shifted = Observer {
        time_ns: Some(9),
        in_initial_time_ns: false,
        clock: WallClock { booted_at: Some(after_boot(500)), ..observer().clock },
        ..observer()
    };
    let record = Identity { boot: Some(BootId::Time(BOOTED)), ..recorded() };
    expect(&record, &shifted, PidLookup::Absent, unknown(Doubt::BootUnknown));
    let from_there =
        Identity { time_ns: Some(9), boot: Some(BootId::Time(BOOTED + 500)), ..recorded() };
    expect(&from_there, &observer(), PidLookup::Absent, unknown(Doubt::BootUnknown));
    expect(&from_there, &shifted, PidLookup::Process(there()), ALIVE);
    // Nor does a record that seems older than a boot that seems younger.
    let pid_only = by_agent();
    expect(&pid_only, &shifted, PidLookup::Process(there()), unknown(Doubt::ClockUnproven));
}

#[test]
fn an_agents_record_that_looks_older_than_this_boot_is_looked_up_all_the_same() {
    let record = Identity { recorded_at: Some(after_boot(-3600)), ..by_agent() };
    // Nothing has the pid, or a process that was started while the clock was watched.
    expect(&record, &observer(), PidLookup::Absent, dead(Death::Gone));
    expect(&record, &observer(), PidLookup::Process(there()), dead(Death::Reused));
    let elsewhere = Identity { machine: Some(MachineId::Plain("other".into())), ..record };
    expect(&elsewhere, &observer(), PidLookup::Absent, unknown(Doubt::ForeignHost));
}

#[test]
fn another_boot_without_a_machine_is_dead_only_if_the_record_is_older() {
    let record = Identity { boot: Some(BootId::Id("other".into())), machine: None, ..by_agent() };
    expect(&record, &observer(), PidLookup::Absent, unknown(Doubt::BootUnknown));
    let older = Identity { recorded_at: Some(after_boot(-3600)), ..record.clone() };
    expect(&older, &observer(), PidLookup::Absent, dead(Death::Rebooted));
    let ticks = Identity { start: Some(5001), ..older.clone() };
    expect(&ticks, &observer(), PidLookup::Process(there()), dead(Death::Rebooted));
    // A reboot that repeats pid and ticks, or a pid alone, is a doubt.
    let repeated = Identity { start: Some(5000), ..older.clone() };
    expect(&repeated, &observer(), PidLookup::Process(there()), unknown(Doubt::BootUnknown));
    expect(&older, &observer(), PidLookup::Process(there()), unknown(Doubt::BootUnknown));
    let undated = Identity { recorded_at: None, ..record };
    expect(&undated, &observer(), PidLookup::Absent, unknown(Doubt::BootUnknown));
    // The clock once said that this boot began before the record was written.
    let stepped = WallClock { earliest_boot: Some(after_boot(-7200)), ..observer().clock };
    let stepped = Observer { clock: stepped, ..observer() };
    expect(&older, &stepped, PidLookup::Absent, unknown(Doubt::BootUnknown));
}

#[test]
fn claudes_record_is_proof_with_pid_ticks_machine_and_namespace() {
    let record = Identity {
        start: Some(5000),
        machine: Some(MachineId::Plain("plain".into())),
        pid_ns: Some(1),
        ..by_agent()
    };
    expect(&record, &observer(), PidLookup::Process(there()), ALIVE);
    expect(&record, &observer(), PidLookup::Absent, dead(Death::Gone));
    let later = PidLookup::Process(SeenProcess { start: Some(5001), ..there() });
    expect(&record, &observer(), later, dead(Death::Reused));
}

#[test]
fn a_pid_alone_proves_an_end_but_never_a_life() {
    expect(&by_agent(), &observer(), PidLookup::Absent, dead(Death::Gone));
    expect(&by_agent(), &observer(), PidLookup::Process(there()), unknown(Doubt::Incomplete));
    let younger = SeenProcess { since_boot: Some(Duration::from_secs(200)), ..there() };
    expect(&by_agent(), &observer(), PidLookup::Process(younger), dead(Death::Reused));
    let just_then = SeenProcess { since_boot: Some(Duration::from_secs(101)), ..there() };
    expect(&by_agent(), &observer(), PidLookup::Process(just_then), unknown(Doubt::Incomplete));
    let undated = Identity { recorded_at: None, ..by_agent() };
    expect(&undated, &observer(), PidLookup::Process(younger), unknown(Doubt::Incomplete));
}

#[test]
fn a_blind_observer_says_unknown() {
    let sandboxed = Observer { pid_ns: Some(9), in_initial_pid_ns: false, ..observer() };
    expect(&by_agent(), &sandboxed, PidLookup::Absent, unknown(Doubt::Blind));
    expect(&by_agent(), &sandboxed, PidLookup::Process(there()), unknown(Doubt::Blind));
    assert!(!sandboxed.sees_every_process());
    assert!(!Observer { hides_pids: true, ..observer() }.sees_every_process());
    assert!(!Observer { introspects: false, ..observer() }.sees_every_process());
    assert!(observer().sees_every_process());
}

#[test]
fn ticks_mean_nothing_in_another_time_namespace() {
    let shifted = Observer { time_ns: Some(9), in_initial_time_ns: false, ..observer() };
    let record = Identity { start: Some(5000), ..by_agent() };
    let later = PidLookup::Process(SeenProcess { start: Some(6000), ..there() });
    expect(&record, &shifted, later, unknown(Doubt::Blind));
    // A pid without ticks means the same there.
    expect(&by_agent(), &shifted, PidLookup::Absent, dead(Death::Gone));
}

#[test]
fn age_proves_nothing() {
    let forty_days = 40 * 86_400;
    let record = Identity { recorded_at: Some(after_boot(forty_days)), ..recorded() };
    expect(&record, &observer(), PidLookup::Process(there()), ALIVE);
}
