//! What needs a world of its own: other clocks, another boot, another process table.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use model::identity::Identity;
use model::liveness::{Death, Doubt, Life, Liveness, Observer};
use model::refusal::SkipCode;
use model::time::Time;
use ostler_access::findings::{AccessFindingCode, find_problems};
use ostler_access::prune::{PruneOutcome, prune_access};
use ostler_access::{list, stop};
use std::time::Duration;
use sys::machine::Machine;
use sys::writer_lock::WriterLock;
use testkit::access::{Agent, ID, Sessions, chmod, record_of};
use testkit::home::Snapshot;
use testkit::machine::FakeMachine;

/// A machine whose state these sessions are.
fn machine_of(sessions: &Sessions) -> FakeMachine {
    FakeMachine::new().with_state(sessions.root())
}

/// One on which every process is what we say.
fn where_processes_are(
    sessions: &Sessions,
    probe: impl Fn(&Identity, &Observer) -> Liveness + Send + Sync + 'static,
) -> Machine {
    let fake = machine_of(sessions);
    fake.answer_probes(probe);
    fake.machine()
}

#[track_caller]
fn pruned_as(sessions: &Sessions, machine: &Machine) -> PruneOutcome {
    let mut report = {
        let writer = WriterLock::take(&sessions.root(), Duration::ZERO).unwrap();
        prune_access(&writer, machine, None).unwrap()
    };
    assert_eq!(report.items.len(), 1);
    report.items.remove(0).outcome
}

#[track_caller]
fn code(outcome: PruneOutcome) -> SkipCode {
    match outcome {
        PruneOutcome::Kept(skip) => skip.skip_code(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn row_04_at_the_very_end_it_is_expired() {
    let sessions = Sessions::expired();
    let meta = sessions.meta(ID);
    let fake = machine_of(&sessions);
    let end = Time::parse(meta["expires_at"].as_str().unwrap()).unwrap();
    let by_boot = Duration::from_secs(meta["expires_boottime_s"].as_u64().unwrap());
    let state_at = |now: Time, since_boot: Duration| {
        fake.set_clocks(now, since_boot);
        list::list_access(&fake.machine(), false).unwrap()[0].state
    };
    assert_eq!(state_at(end, by_boot), "expired");
    assert_eq!(state_at(end, by_boot - Duration::from_secs(1)), "active", "a second before");
    let just_before = end.minus(Duration::from_millis(1));
    assert_eq!(state_at(just_before, by_boot), "active", "a millisecond before");
}

#[test]
fn row_03_bytes_and_times_are_untouched_a_second_before_the_end() {
    let sessions = Sessions::expired();
    let meta = sessions.meta(ID);
    let fake = machine_of(&sessions);
    let end = Time::parse(meta["expires_at"].as_str().unwrap()).unwrap();
    let by_boot = Duration::from_secs(meta["expires_boottime_s"].as_u64().unwrap());
    let second = Duration::from_secs(1);
    fake.set_clocks(end.minus(second), by_boot - second);
    let before = Snapshot::of(&sessions.directory());
    assert_eq!(code(pruned_as(&sessions, &fake.machine())), SkipCode::Active);
    assert!(before.changes(&Snapshot::of(&sessions.directory())).is_empty());
}

/// This machine after a reboot.
fn after_a_reboot(sessions: &Sessions) -> FakeMachine {
    let fake = machine_of(sessions);
    let boot = "11111111-2222-3333-4444-555555555555";
    fake.change_observer(|observer| observer.boot_id = Some(boot.to_owned()));
    fake
}

#[test]
fn row_40_another_boot_of_this_machine_is_a_reboot() {
    let sessions = Sessions::expired();
    let fake = after_a_reboot(&sessions);
    // A machine of our own, so that the test does not depend on there being one.
    fake.change_observer(|one| one.machine_hashed = Some("0123456789abcdef".to_owned()));
    sessions.edit(ID, |meta| {
        meta["agent"]["machine_id"] = "0123456789abcdef".into();
        // Of a boot that was longer than this one.
        meta["expires_boottime_s"] = 100_000_000.into();
    });
    match pruned_as(&sessions, &fake.machine()) {
        PruneOutcome::Pruned { death: Death::Rebooted, .. } => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn row_40_a_reboot_without_a_machine_is_a_doubt() {
    let sessions = Sessions::expired();
    assert_eq!(
        code(pruned_as(&sessions, &after_a_reboot(&sessions).machine())),
        SkipCode::PresenceUnknown
    );
}

#[test]
fn row_10_an_injected_process_table_decides() {
    let expected = [
        (Liveness::Alive(Life::Running), Some(SkipCode::AgentAlive)),
        (Liveness::Alive(Life::Stopped), Some(SkipCode::AgentAlive)),
        (Liveness::Unknown(Doubt::Incomplete), Some(SkipCode::AgentAlive)),
        (Liveness::Unknown(Doubt::ForeignHost), Some(SkipCode::ForeignHost)),
        (Liveness::Unknown(Doubt::ForeignNamespace), Some(SkipCode::ForeignNamespace)),
        (Liveness::Unknown(Doubt::Unreadable), Some(SkipCode::PresenceUnknown)),
        (Liveness::Unknown(Doubt::NoProc), Some(SkipCode::PresenceUnknown)),
        (Liveness::Unknown(Doubt::Hidden), Some(SkipCode::PresenceUnknown)),
        (Liveness::Dead(Death::Reused), None),
        (Liveness::Dead(Death::Zombie), None),
    ];
    for (liveness, skip) in expected {
        let sessions = Sessions::expired();
        let probe = move |_: &Identity, _: &Observer| liveness;
        let outcome = pruned_as(&sessions, &where_processes_are(&sessions, probe));
        match skip {
            Some(expected) => assert_eq!(code(outcome), expected, "{liveness:?}"),
            None => {
                assert!(matches!(outcome, PruneOutcome::Pruned { .. }), "{liveness:?}: {outcome:?}")
            }
        }
        assert_eq!(sessions.of(ID).exists(), skip.is_some());
    }
}

#[test]
fn an_agent_that_comes_back_to_life_while_it_is_removed_keeps_its_directory() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    // Dead at the first and second look, alive at the last.
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    let probe = move |_: &Identity, _: &Observer| match counted.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Liveness::Dead(Death::Gone),
        _ => Liveness::Alive(Life::Running),
    };
    let sessions = Sessions::expired();
    let outcome = pruned_as(&sessions, &where_processes_are(&sessions, probe));
    assert_eq!(code(outcome), SkipCode::AgentAlive);
    assert_eq!(looks.load(Ordering::Relaxed), 3, "it is looked at three times");
    assert!(sessions.file(ID, "meta.json").exists(), "under its own name");
}

#[test]
fn stop_proves_for_itself_whom_it_signals() {
    // Whatever a process table is made to say, a signal goes only to the recorded process.
    let sessions = Sessions::expired();
    let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let mut record = record_of(other.id());
    record["start"] = (record["start"].as_u64().unwrap() - 5).into();
    sessions.edit(ID, |meta| meta["agent"] = record.clone());
    sessions.put_env(ID, &record["pid"].to_string());
    let probe = |_: &Identity, _: &Observer| Liveness::Alive(Life::Running);
    let machine = where_processes_are(&sessions, probe);
    let outcome = stop::stop_access(&machine, ID, stop::StopReason::Asked, true).unwrap();
    assert!(matches!(outcome, stop::StopOutcome::StillRunning(_)), "{outcome:?}");
    assert!(other.try_wait().unwrap().is_none(), "the other process is untouched");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn doctor_is_told_what_is_wrong() {
    let codes = |sessions: &Sessions| -> Vec<AccessFindingCode> {
        find_problems(&machine_of(sessions).machine()).iter().map(|finding| finding.code).collect()
    };
    let sessions = Sessions::new();
    assert!(codes(&sessions).is_empty());
    sessions.add(ID, &testkit::access::reaped());
    assert_eq!(codes(&sessions), [AccessFindingCode::Finished]);
    sessions.ends_in(ID, 300);
    assert_eq!(codes(&sessions), [AccessFindingCode::AgentGone]);
    let agent = Agent::start(&sessions.file(ID, "agent.sock"));
    sessions.edit(ID, |meta| meta["agent"] = agent.record.clone());
    sessions.put_env(ID, &agent.pid().to_string());
    assert!(codes(&sessions).is_empty(), "all is well");
    sessions.ends_in(ID, -100);
    assert_eq!(codes(&sessions), [AccessFindingCode::AgentOutlives]);
    sessions.put(ID, "meta.json", "{");
    assert_eq!(codes(&sessions), [AccessFindingCode::Unknown, AccessFindingCode::StrayAgent]);
    chmod(&sessions.directory(), 0o755);
    assert_eq!(codes(&sessions), [AccessFindingCode::Root]);
}
