//! Sweeps on a machine of the test's own: no program is started, and the clock is set by hand.

#![allow(clippy::disallowed_methods, reason = "tests remove what they made")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::time::Duration;

use model::config::OstlerConfig;
use model::event::{HookEvent, HookHappening, HookReport};
use model::identity::Identity;
use model::launch::{AgentLaunch, LAUNCH_FORMAT_VERSION};
use model::liveness::{Death, Doubt, Life, Liveness};
use model::time::Time;
use model::wire::{CheckGrade, DoctorFinding, SweepResult};
use ostler_flows::{doctor, finalize, hook};
use store::state::StateStore;
use sys::machine::Machine;
use testkit::machine::FakeMachine;

const ID: &str = "11111111-1111-4111-8111-111111111111";
const NOW: Time = Time::from_millis(1_790_000_000_000);
const HOUR: Duration = Duration::from_secs(3600);

/// A machine on which every process is as we say, at [`NOW`].
fn machine_where(liveness: Liveness) -> FakeMachine {
    let fake = FakeMachine::new();
    fake.set_now(NOW);
    fake.answer_probes(move |_, _| liveness);
    fake
}

/// What a hook reported, as the line that it leaves in the spool.
fn report(id: &str, happening: HookHappening, owner: Option<u32>) -> Vec<u8> {
    let hook = HookEvent { cwd: Some("/p".to_owned()), ..HookEvent::new(ID, happening) };
    let report = HookReport {
        id: id.to_owned(),
        at: NOW.minus(HOUR),
        agent: "claude-code".to_owned(),
        event: "Stop".to_owned(),
        hook,
        root: None,
        owner: owner.map(|pid| Identity::recorded_by_agent(Some(pid))),
        spill: None,
        cut: false,
        permit: None,
    };
    report.to_line().unwrap()
}

fn spool(machine: &Machine) -> PathBuf {
    hook::spool_path(machine.home())
}

fn append(machine: &Machine, bytes: &[u8]) {
    let path = spool(machine);
    sys::private::create_private_dir(path.parent().unwrap()).unwrap();
    let mut options = fs::File::options();
    let mut file = options.append(true).create(true).mode(0o600).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

fn sweep(machine: &Machine) -> SweepResult {
    let mut writer = store::writer::become_writer(machine.home(), Duration::ZERO).unwrap();
    let request = finalize::SweepRequest { machine, only: &[], budget: HOUR };
    finalize::sweep_sessions(&mut writer, &request).unwrap()
}

fn count_events(machine: &Machine, kind: HookHappening) -> usize {
    let state = StateStore::open_read_only(machine.home()).unwrap().unwrap();
    let events = state.events_after(0, 10_000).unwrap();
    events.iter().filter(|event| event.kind == kind.as_str()).count()
}

#[test]
fn an_ownerless_session_is_left_alone() {
    let machine = machine_where(Liveness::Dead(Death::Gone)).machine();
    append(&machine, &report("one", HookHappening::TurnStart, None));
    let swept = sweep(&machine);
    assert_eq!(swept.ended, []);
    assert_eq!(swept.kept[0].reason, "its owner is not known");
}

#[test]
fn only_the_proof_that_its_owner_is_gone_ends_a_session() {
    for (liveness, ended, kept) in [
        (Liveness::Alive(Life::Running), 0, 0),
        (Liveness::Alive(Life::Stopped), 0, 0),
        (Liveness::Unknown(Doubt::ForeignNamespace), 0, 1),
        (Liveness::Unknown(Doubt::ForeignHost), 0, 1),
        (Liveness::Unknown(Doubt::Hidden), 0, 1),
        (Liveness::Unknown(Doubt::NoProc), 0, 1),
        (Liveness::Dead(Death::Gone), 1, 0),
        (Liveness::Dead(Death::Rebooted), 1, 0),
        (Liveness::Dead(Death::Reused), 1, 0),
    ] {
        let fake = machine_where(liveness);
        append(&fake.machine(), &report("one", HookHappening::TurnStart, Some(7)));
        let swept = sweep(&fake.machine());
        assert_eq!((swept.ended.len(), swept.kept.len()), (ended, kept), "{liveness:?}");
    }
}

#[test]
fn the_end_is_the_last_evidence_and_not_the_time_of_the_sweep() {
    let machine = machine_where(Liveness::Dead(Death::Gone)).machine();
    append(&machine, &report("one", HookHappening::TurnStart, Some(7)));
    assert_eq!(sweep(&machine).ended[0].at, Some(NOW.minus(HOUR)));
}

#[test]
fn a_torn_line_is_kept_aside_and_the_next_one_is_not_harmed() {
    let machine = machine_where(Liveness::Alive(Life::Running)).machine();
    let whole = report("one", HookHappening::SessionStart, Some(7));
    let torn = &whole[..whole.len() - 30];
    append(&machine, torn);
    assert_eq!(sweep(&machine).reports, 0, "a line without its end is left for later");
    append(&machine, &report("two", HookHappening::TurnStart, Some(7)));
    let swept = sweep(&machine);
    assert_eq!((swept.reports, swept.rejected), (1, 1));
    let rejected = fs::read(machine.home().join("spool/rejected.log")).unwrap();
    assert_eq!(rejected.trim_ascii(), torn.trim_ascii());
    let findings = doctor::examine_home(&machine, &OstlerConfig::default());
    let told = |one: &DoctorFinding| one.check == "spool" && one.grade == CheckGrade::Note;
    assert!(findings.iter().any(told), "{findings:?}");
}

#[test]
fn a_spool_that_has_grown_is_set_aside_and_removed_when_nobody_can_add_to_it() {
    let machine = machine_where(Liveness::Alive(Life::Running)).machine();
    let line = |number: usize| report(&format!("made-{number}"), HookHappening::TurnStart, Some(7));
    append(&machine, &(0..3000).flat_map(line).collect::<Vec<u8>>());
    // Somebody has the file open, as a hook does for a moment.
    let late = fs::File::options().append(true).open(spool(&machine)).unwrap();
    assert_eq!(sweep(&machine).reports, 3000);
    assert!(!spool(&machine).exists(), "set aside");
    let left = || fs::read_dir(spool(&machine).parent().unwrap()).unwrap().count();
    assert_eq!(sweep(&machine).reports, 0);
    assert_eq!(left(), 1, "not removed while somebody can add to it");
    (&late).write_all(&report("the-late-one", HookHappening::TurnStart, Some(7))).unwrap();
    drop(late);
    assert_eq!(sweep(&machine).reports, 1, "what was added late is not lost");
    assert_eq!(left(), 0);
    assert_eq!(count_events(&machine, HookHappening::TurnStart), 3001);
}

#[test]
fn a_taken_in_spool_that_comes_back_counts_once() {
    let machine = machine_where(Liveness::Alive(Life::Running)).machine();
    append(&machine, &report("one", HookHappening::SessionStart, Some(7)));
    append(&machine, &report("two", HookHappening::TurnStart, Some(7)));
    let bytes = fs::read(spool(&machine)).unwrap();
    assert_eq!(sweep(&machine).reports, 2);
    fs::remove_file(spool(&machine)).unwrap();
    append(&machine, &bytes);
    assert_eq!(sweep(&machine).reports, 0);
    assert_eq!(count_events(&machine, HookHappening::TurnStart), 1);
}

/// Writes a launch record, as `create --agent` leaves one.
fn write_launch(machine: &Machine, at: Time, ttl: Duration) -> PathBuf {
    let launch = AgentLaunch {
        version: LAUNCH_FORMAT_VERSION,
        agent: "codex".to_owned(),
        process: Identity::recorded_by_agent(Some(7)),
        session: "01J0000000000000000000000".to_owned(),
        cwd: "/p".to_owned(),
        at,
        ttl_ms: u64::try_from(ttl.as_millis()).unwrap(),
    };
    let directory = ostler_flows::launches::launches_directory(machine.home());
    sys::private::create_private_dir(&directory).unwrap();
    let path = directory.join("one.json");
    fs::write(&path, serde_json::to_vec(&launch).unwrap()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

#[test]
fn a_launch_record_goes_when_its_time_is_over_and_not_a_moment_before() {
    let fake = machine_where(Liveness::Dead(Death::Gone));
    let record = write_launch(&fake.machine(), NOW, 24 * HOUR);
    fake.set_now(NOW.plus(24 * HOUR));
    assert_eq!(sweep(&fake.machine()).launches, 0);
    fake.set_now(NOW.plus(24 * HOUR + Duration::from_millis(1)));
    assert_eq!(sweep(&fake.machine()).launches, 1);
    assert!(!record.exists());
}

#[test]
fn a_launch_record_of_what_is_there_or_cannot_be_seen_stays_however_old() {
    for liveness in [
        Liveness::Alive(Life::Running),
        Liveness::Unknown(Doubt::ForeignHost),
        Liveness::Unknown(Doubt::ForeignNamespace),
        Liveness::Unknown(Doubt::Incomplete),
    ] {
        let fake = machine_where(liveness);
        let record = write_launch(&fake.machine(), NOW, HOUR);
        fake.set_now(NOW.plus(10_000 * HOUR));
        assert_eq!(sweep(&fake.machine()).launches, 0, "{liveness:?}");
        assert!(record.exists());
    }
}

#[test]
fn the_last_look_asks_for_the_process_again() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    let fake = FakeMachine::new();
    fake.set_now(NOW);
    // Dead when it is planned, there when it is to go.
    let looks = AtomicUsize::new(0);
    fake.answer_probes(move |_, _| match looks.fetch_add(1, Ordering::Relaxed) {
        0 => Liveness::Dead(Death::Gone),
        _ => Liveness::Alive(Life::Running),
    });
    let record = write_launch(&fake.machine(), NOW.minus(2 * HOUR), HOUR);
    assert_eq!(sweep(&fake.machine()).launches, 0);
    assert!(record.exists());
}
