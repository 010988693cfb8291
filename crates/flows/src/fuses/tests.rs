//! The engine with a clock that the test sets.

use model::control::fuses::LatePolicy;

use super::*;

fn a_home() -> tempfile::TempDir {
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().permissions(private).tempdir().unwrap()
}

fn clock(wall_ms: i64, since_boot_ms: u64) -> FuseClock {
    FuseClock {
        wall: Time::from_millis(wall_ms),
        boot: Some("one".into()),
        since_boot: Duration::from_millis(since_boot_ms),
    }
}

fn fuse(id: &str, due: FuseDue, action: FuseAction) -> FuseRecord {
    FuseRecord {
        id: id.into(),
        target: FuseTarget::Directory { path: "/p".into() },
        due,
        late: action.usual_late_policy(),
        action,
        created_at: Time::from_millis(0),
        created_by: "ada".into(),
        state: FuseState::Armed,
        fired_at: None,
        carrier: None,
        outcome: None,
    }
}

struct Stage {
    home: tempfile::TempDir,
    state: StateStore,
    engine: FuseEngine,
    started: Vec<String>,
}

impl Stage {
    fn new(fuses: &[FuseRecord]) -> Self {
        let home = a_home();
        let mut state = StateStore::open(home.path()).unwrap();
        for fuse in fuses {
            state.add_fuse(fuse).unwrap();
        }
        Self { home, state, engine: FuseEngine::new().unwrap(), started: Vec::new() }
    }

    fn look(&mut self, clock: &FuseClock) {
        let started = &mut self.started;
        let mut start = |fuse: &FuseRecord| {
            started.push(fuse.id.clone());
            Ok(())
        };
        let machine = Machine::with_home(self.home.path().to_owned());
        self.engine.fire_due(&mut self.state, &machine, clock, &mut start).unwrap();
    }

    fn state_of(&self, id: &str) -> FuseState {
        self.state.find_fuse(id).unwrap().unwrap().state
    }
}

fn at(millis: i64) -> FuseDue {
    FuseDue::At { at: Time::from_millis(millis) }
}

#[test]
fn row_76_overdue_fuses_go_by_their_policy_and_once() {
    let three_days = 3 * 86_400_000;
    let exec = FuseAction::Exec { argv: vec!["true".into()] };
    let fire_exec = FuseRecord { late: LatePolicy::Fire, ..fuse("c", at(1000), exec.clone()) };
    let mut stage =
        Stage::new(&[fuse("a", at(1000), FuseAction::Stop), fuse("b", at(1000), exec), fire_exec]);
    stage.look(&clock(999, 0));
    assert!(stage.started.is_empty(), "not before its time");
    stage.look(&clock(1000 + three_days, 0));
    assert_eq!(stage.started, ["a", "c"]);
    assert_eq!(stage.state_of("b"), FuseState::Skipped);
    // The clock is set back and goes over its time again.
    stage.look(&clock(0, 10));
    stage.look(&clock(1000, 20));
    assert_eq!(stage.started, ["a", "c"], "once");
}

#[test]
fn row_77_several_fuses_on_one_target_all_stand() {
    let due = |span_ms| FuseDue::After { span_ms, boot: Some("one".into()), since_boot_ms: 0 };
    let mut stage = Stage::new(&[
        fuse("a", due(1000), FuseAction::Event),
        fuse("b", due(2000), FuseAction::Stop),
        fuse("c", due(3000), FuseAction::Stop),
    ]);
    for (since_boot, started) in [(1000, 1), (2000, 2), (3000, 3)] {
        stage.look(&clock(0, since_boot));
        assert_eq!(stage.started.len(), started);
    }
}

#[test]
fn row_79_a_fuse_that_nobody_settled_never_fires_again() {
    let mut stage = Stage::new(&[fuse("a", at(0), FuseAction::Stop)]);
    stage.look(&clock(0, 0));
    assert_eq!(stage.state_of("a"), FuseState::Firing);
    // Another daemon, before it was begun: it will not be.
    stage.engine = FuseEngine::new().unwrap();
    stage.look(&clock(10, 10));
    assert_eq!(stage.state_of("a"), FuseState::Unsettled);
    stage.look(&clock(20, 20));
    assert_eq!(stage.started, ["a"]);
    let told = stage.state.events_after(0, 10).unwrap();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].detail["result"], "unsettled", "the outcome is written");
}

#[test]
fn row_79_a_carrier_that_is_killed_leaves_an_unsettled_fuse() {
    let mut stage = Stage::new(&[fuse("a", at(0), FuseAction::Stop)]);
    stage.look(&clock(0, 0));
    let mut carrier = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let mut fuse = stage.state.find_fuse("a").unwrap().unwrap();
    fuse.carrier = Some(sys::proc::identify_process(carrier.id()).unwrap());
    stage.state.change_fuse(&fuse, FuseState::Firing, Time::from_millis(1)).unwrap();
    stage.engine = FuseEngine::new().unwrap();
    stage.look(&clock(10, 100_000));
    assert_eq!(stage.state_of("a"), FuseState::Firing, "it is still at it");
    carrier.kill().unwrap();
    let ends = stage.engine.descriptors();
    let told = sys::watch::poll_readable(&ends, Some(Duration::from_secs(20))).unwrap();
    assert!(told.iter().any(|one| *one), "its end is told");
    carrier.wait().unwrap();
    stage.look(&clock(20, 100_001));
    assert_eq!(stage.state_of("a"), FuseState::Unsettled);
    assert_eq!(stage.started, ["a"]);
}
