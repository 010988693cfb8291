//! Who could have a session open: the rows of the table, and random histories of runs and sessions.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use ostler_model::identity::Identity;
use ostler_model::liveness::{ClockReading, Death, Doubt, Life, Liveness, WallClock};
use ostler_model::rules::guard::may_collect;
use ostler_model::rules::judge::{JudgeCircumstances, Verdict, judge_session};
use ostler_model::rules::open::{
    Attachment, Attachments, OpenCandidate, SpareRun, UnsettledRun, attach_runs,
};
use ostler_model::session::{
    Certainty, ClaimBasis, FormatCertainty, ProcessClaim, Session, SessionKind, SessionOrigin,
};
use ostler_model::sighting::TranscriptDigest;
use ostler_model::status::Status;
use ostler_model::time::Time;
use proptest::prelude::*;

fn at(minute: u64) -> Time {
    Time::from_millis(1_790_000_000_000).plus(Duration::from_secs(60 * minute))
}

fn run(began: u64) -> UnsettledRun {
    UnsettledRun { began_at: Some(at(began)), ..UnsettledRun::default() }
}

fn started_with(began: u64, named: usize) -> UnsettledRun {
    UnsettledRun { named: Some(named), ..run(began) }
}

fn written(minute: u64) -> OpenCandidate {
    let time = Some(at(minute));
    OpenCandidate { started_at: time, written_at: time, prompted: true, ended_at: None }
}

fn empty(minute: u64) -> OpenCandidate {
    OpenCandidate { prompted: false, ..written(minute) }
}

fn attach(runs: &[UnsettledRun], sessions: &[OpenCandidate]) -> Attachments {
    attach_runs(runs, sessions, |_, _| true)
}

fn states(runs: &[UnsettledRun], sessions: &[OpenCandidate]) -> Vec<Attachment> {
    attach(runs, sessions).sessions
}

use Attachment::{Held, MaybeOpen, NoRun, NotAttached};

#[test]
fn b1_the_table() {
    assert_eq!(states(&[], &[written(1)]), [NoRun]);
    assert_eq!(states(&[run(5)], &[written(1)]), [NotAttached(vec![0])]);
    assert_eq!(states(&[run(5)], &[written(6)]), [Held(vec![0])]);
    assert_eq!(
        states(&[run(5)], &[written(6), written(7)]),
        [MaybeOpen(vec![0]), MaybeOpen(vec![0])]
    );
    assert_eq!(states(&[run(5)], &[written(1), written(7)]), [NotAttached(vec![0]), Held(vec![0])]);
}

#[test]
fn b1_an_empty_session_does_not_outrank_one_that_is_written() {
    let both = states(&[run(5)], &[empty(5), written(7)]);
    assert_eq!(both, [NotAttached(vec![0]), Held(vec![0])]);
    assert_eq!(states(&[run(5)], &[empty(5), written(1)]), [Held(vec![0]), NotAttached(vec![0])]);
    assert_eq!(states(&[run(5)], &[empty(5), empty(6)]), [MaybeOpen(vec![0]), MaybeOpen(vec![0])]);
}

/// An agent that stamps whole seconds seems to have written before the run that wrote began.
#[test]
fn b1_a_record_of_whole_seconds_may_be_of_any_moment_in_its_second() {
    let began = at(5).plus(Duration::from_millis(842));
    let window = UnsettledRun { began_at: Some(began), ..UnsettledRun::default() };
    let resumed = OpenCandidate { started_at: Some(at(1)), ..written(5) };
    assert_eq!(states(&[window], &[resumed, empty(5)]), [Held(vec![0]), NotAttached(vec![0])]);
    // One that tells milliseconds was left before.
    let written_at = Some(at(5).plus(Duration::from_millis(300)));
    let left = OpenCandidate { written_at, ..resumed };
    assert_eq!(states(&[window], &[left, empty(5)]), [NotAttached(vec![0]), Held(vec![0])]);
}

#[test]
fn b1_killing_one_of_two_windows_swaps_nothing() {
    // Window A, then B; B is prompted first, then A.
    let (a, b) = (run(1), run(2));
    let sessions = [written(4), written(3)];
    let both = states(&[a, b], &sessions);
    assert!(both.iter().all(|one| matches!(one, Held(_))), "{both:?}");
    for left in [a, b] {
        let one = states(&[left], &sessions);
        assert_eq!(one, [MaybeOpen(vec![0]), MaybeOpen(vec![0])], "either may be the living one");
    }
}

/// An agent that is quit and started anew at once, as people do: the session that was left is no doubt
/// about the new one.
#[test]
fn b1_a_session_left_a_moment_before_gives_way_to_what_the_run_writes() {
    let moment = Duration::from_secs(1);
    let left = OpenCandidate { written_at: Some(at(5).minus(moment)), ..written(1) };
    assert_eq!(states(&[run(5)], &[left, written(6)]), [NotAttached(vec![0]), Held(vec![0])]);
    assert_eq!(states(&[run(5)], &[left, empty(5)]), [NotAttached(vec![0]), Held(vec![0])]);
    // By itself it may be the run's, by a clock that is off; and so may one that is as young as the run,
    // whose agent rounds times down.
    assert_eq!(states(&[run(5)], &[left]), [Held(vec![0])]);
    let young = OpenCandidate { started_at: left.written_at, ..left };
    let both = states(&[run(5)], &[young, written(6)]);
    assert_eq!(both, [MaybeOpen(vec![0]), MaybeOpen(vec![0])]);
    // Where it is not clear which is open, it is one more that may be.
    let unclear = states(&[run(5)], &[left, written(6), written(7)]);
    assert!(unclear.iter().all(|one| matches!(one, MaybeOpen(_))), "{unclear:?}");
    // Started with it: it goes on.
    assert_eq!(states(&[started_with(5, 0)], &[left]), [Held(vec![0])]);
}

#[test]
fn the_session_it_was_started_with_is_its_own_until_another_is_written() {
    assert_eq!(states(&[started_with(5, 0)], &[written(1)]), [Held(vec![0])]);
    assert_eq!(
        states(&[started_with(5, 0)], &[written(1), written(6)]),
        [NotAttached(vec![0]), Held(vec![0])],
        "it has opened another one since"
    );
    assert_eq!(
        states(&[started_with(5, 0), run(5)], &[written(1), written(6)]),
        [Held(vec![0]), Held(vec![1, 0])]
    );
    assert_eq!(
        states(&[started_with(5, 0)], &[written(1), written(2)]),
        [Held(vec![0]), NotAttached(vec![0])],
        "it may have resumed the other without a word"
    );
}

#[test]
fn p5_a_recorded_end_is_believed_until_it_is_written_again() {
    let ended = OpenCandidate { ended_at: Some(at(7)), ..written(7) };
    assert_eq!(states(&[run(5)], &[ended]), [NotAttached(vec![0])]);
    let revived = OpenCandidate { ended_at: Some(at(7)), ..written(9) };
    assert_eq!(states(&[run(5)], &[revived]), [Held(vec![0])]);
    // Started with it after it had ended: it goes on. Started before: that is over.
    assert_eq!(states(&[started_with(8, 0)], &[ended]), [Held(vec![0])]);
    assert_eq!(states(&[started_with(5, 0)], &[ended]), [NotAttached(vec![0])]);
}

#[test]
fn b4_runs_without_a_session_are_named() {
    let spare = |runs: &[UnsettledRun], sessions: &[OpenCandidate]| attach(runs, sessions).spare;
    let alone = |run| SpareRun { run, perhaps: Vec::new() };
    assert_eq!(spare(&[run(5)], &[]), [alone(0)]);
    assert_eq!(spare(&[run(5)], &[written(1)]), [alone(0)]);
    assert_eq!(spare(&[run(5)], &[written(6)]), []);
    assert_eq!(spare(&[run(1), run(5)], &[written(3)]), [alone(1)], "it cannot have written it");
    let either = spare(&[run(1), run(2)], &[written(3)]);
    assert_eq!(either.len(), 1);
    assert_eq!(either[0].perhaps.len(), 1, "which of the two is not known: {either:?}");
    assert_eq!(spare(&[run(5)], &[written(6), written(7)]), [], "nobody knows");
}

/// When a machine of these histories is booted: early enough for a clock that is a month behind.
const FIRST_MINUTE: i64 = 2 * MONTH;

/// In minutes.
const MONTH: i64 = 30 * 24 * 60;

/// What happens on a machine.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// A window is opened, in one of two directories; some agents make an empty session then.
    Start { place: usize, with_empty: bool },
    /// A window is opened with a session on its command line.
    StartWith(usize),
    /// A session is opened inside a window, without a word.
    Resume(usize, usize),
    /// A prompt is sent in a window.
    Write(usize),
    /// A registration, a lock or a hook names what a window has open, from now on.
    Settle(usize),
    /// A hook tells what a window has open, of an agent that tells nothing when another session is opened in it.
    Tell(usize),
    /// What a window has open ends, which is recorded, and the window goes on without it (`/clear`).
    Leave(usize),
    /// The same, and the window is closed.
    Quit(usize),
    /// A window is killed.
    Kill(usize),
    /// The clock is set, to so many minutes before or after the true time.
    SetClock(i64),
}

#[derive(Clone, Copy, Debug)]
struct Window {
    place: usize,
    began: u64,
    named: Option<usize>,
    has: Option<usize>,
    /// Whether it wrote to what it has open.
    wrote: bool,
    /// Whether something names what it has open.
    settled: bool,
    /// What a hook told that it had open, and when.
    told: Option<(usize, u64)>,
}

impl Window {
    const fn new(place: usize, began: u64, named: Option<usize>, has: Option<usize>) -> Self {
        Self { place, began, named, has, wrote: false, settled: false, told: None }
    }
}

/// The truth that the rule does not see.
#[derive(Default, Debug)]
struct World {
    minute: u64,
    windows: Vec<Window>,
    sessions: Vec<(usize, OpenCandidate)>,
    beyond_directory: bool,
    /// By how many minutes the clock is wrong.
    ahead: i64,
    /// The reading that an observer keeps who looks after every happening.
    kept: Option<ClockReading>,
    /// Whether ends are recorded. A time of an end says nothing under a clock that was set back.
    forgets_ends: bool,
}

impl World {
    /// What the clock shows at that time since boot, as it is set now.
    fn shown(&self, minute: u64) -> Time {
        at(u64::try_from(FIRST_MINUTE + self.ahead).unwrap() + minute)
    }

    /// What an observer knows of the clock who has looked after every happening.
    fn look_at_clock(&mut self) -> WallClock {
        let (since_boot, booted_at) = (Duration::from_secs(60 * self.minute), self.shown(0));
        let reading = ClockReading::first_reading("boot".into(), since_boot, booted_at)
            .after_kept(self.kept.take());
        self.kept.insert(reading).seen_from(booted_at)
    }

    fn make(&mut self, place: usize, prompted: bool) -> usize {
        let written_at = Some(self.shown(self.minute));
        self.sessions.push((
            place,
            OpenCandidate { started_at: written_at, written_at, prompted, ended_at: None },
        ));
        self.sessions.len() - 1
    }

    fn can_open(&self, window: &Window, session: usize) -> bool {
        self.beyond_directory || self.sessions[session].0 == window.place
    }

    /// Whether a process is proven to have it open: then it is no candidate for the others.
    fn is_proven_open(&self, session: usize) -> bool {
        self.windows.iter().any(|window| window.settled && window.has == Some(session))
    }

    fn unsettled(&self) -> Vec<Window> {
        self.windows.iter().filter(|window| !window.settled).copied().collect()
    }

    fn record_end(&mut self, index: usize) {
        if let Some(session) = self.windows[index].has.take() {
            if !self.forgets_ends {
                self.sessions[session].1.ended_at = Some(self.shown(self.minute));
            }
            // Another window may have it open as well. The end that was recorded is believed until that one
            // writes again; until then it is over only as far as can be told, and stays.
            for other in self.windows.iter_mut().filter(|other| other.has == Some(session)) {
                other.wrote = false;
            }
        }
        (self.windows[index].wrote, self.windows[index].settled) = (false, false);
    }

    fn happen(&mut self, happening: Happening) {
        self.minute += 1;
        let began = self.minute;
        let window = |number: usize, world: &Self| match world.windows.len() {
            0 => None,
            count => Some(number % count),
        };
        match happening {
            Happening::Start { place, with_empty } => {
                let has = with_empty.then(|| self.make(place, false));
                self.windows.push(Window::new(place, began, None, has));
            }
            Happening::StartWith(session) if !self.sessions.is_empty() => {
                let session = session % self.sessions.len();
                let (place, has) = (self.sessions[session].0, Some(session));
                self.windows.push(Window::new(place, began, has, has));
            }
            Happening::Resume(number, session) if !self.sessions.is_empty() => {
                let session = session % self.sessions.len();
                let Some(index) = window(number, self) else { return };
                if self.can_open(&self.windows[index], session) {
                    self.windows[index].has = Some(session);
                    self.windows[index].wrote = false;
                }
            }
            Happening::Write(number) => {
                let Some(index) = window(number, self) else { return };
                let place = self.windows[index].place;
                let session = self.windows[index].has.unwrap_or_else(|| self.make(place, true));
                let OpenCandidate { started_at, ended_at, .. } = self.sessions[session].1;
                let written_at = Some(self.shown(self.minute));
                self.sessions[session].1 =
                    OpenCandidate { started_at, written_at, prompted: true, ended_at };
                self.windows[index].has = Some(session);
                self.windows[index].wrote = true;
            }
            Happening::Settle(number) => {
                if let Some(index) = window(number, self) {
                    self.windows[index].settled = self.windows[index].has.is_some();
                }
            }
            Happening::Tell(number) => {
                if let Some(index) = window(number, self)
                    && let Some(session) = self.windows[index].has
                {
                    self.windows[index].told = Some((session, self.minute));
                }
            }
            Happening::Leave(number) => {
                if let Some(index) = window(number, self) {
                    self.record_end(index);
                }
            }
            Happening::Quit(number) => {
                if let Some(index) = window(number, self) {
                    self.record_end(index);
                    self.windows.remove(index);
                }
            }
            Happening::Kill(number) => {
                if let Some(index) = window(number, self) {
                    self.windows.remove(index);
                }
            }
            Happening::SetClock(ahead) => self.ahead = ahead,
            Happening::StartWith(_) | Happening::Resume(..) => {}
        }
    }

    fn attachments(&mut self) -> Attachments {
        let clock = self.look_at_clock();
        let began = |window: &Window| clock.earliest_start(self.shown(window.began));
        let run = |window: &Window| {
            let (began_at, named) = (Some(began(window)), window.named);
            let run = UnsettledRun { began_at, named, ..UnsettledRun::default() };
            match window.told {
                Some((session, minute)) => run.told_of(Some(session), self.shown(minute), &clock),
                None => run,
            }
        };
        let windows = self.unsettled();
        let runs: Vec<UnsettledRun> = windows.iter().map(run).collect();
        let sessions: Vec<OpenCandidate> = self.sessions.iter().map(|(_, one)| *one).collect();
        attach_runs(&runs, &sessions, |window, one| {
            !self.is_proven_open(one) && self.can_open(&windows[window], one)
        })
    }
}

/// A session as `identify` makes it of an attachment, and its verdict a year later.
fn judged(said: &Attachment, one: OpenCandidate) -> (Session, Verdict, Time) {
    let (runs, how, liveness): (&[usize], _, _) = match said {
        NoRun => (&[], ClaimBasis::CouldOpen, Liveness::Dead(Death::NoProcess)),
        Held(runs) => (runs, ClaimBasis::Directory, Liveness::Alive(Life::Running)),
        MaybeOpen(runs) => (runs, ClaimBasis::CouldOpen, Liveness::Unknown(Doubt::MaybeOpen)),
        NotAttached(runs) => (runs, ClaimBasis::CouldOpen, Liveness::Dead(Death::NotAttached)),
    };
    let now = at(60 * 24 * 365);
    let claim = |run: &usize| ProcessClaim {
        how,
        liveness,
        identity: Identity::recorded_by_agent(u32::try_from(run + 2).ok()),
        started_at: None,
        activity: None,
        waiting_for: None,
        source: String::new(),
        observed_at: now,
        directory: None,
        shared: None,
    };
    let session = Session {
        id: "s".into(),
        kind: SessionKind::Native,
        agent: "x",
        digest: Box::new(TranscriptDigest {
            last_activity_at: one.written_at,
            ..TranscriptDigest::default()
        }),
        transcript: None,
        origin: SessionOrigin {
            adapter: "x",
            root: "/".into(),
            format: "x",
            certainty: FormatCertainty::Lab,
        },
        claims: runs.iter().map(claim).collect(),
        linked: Vec::new(),
        written_status: None,
    };
    let circumstances = JudgeCircumstances {
        now,
        sees_every_process: true,
        stale_after: Duration::from_secs(3600),
    };
    let verdict = judge_session(&session, &circumstances);
    (session, verdict, now)
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        (0usize..2, any::<bool>())
            .prop_map(|(place, with_empty)| Happening::Start { place, with_empty }),
        (0usize..6).prop_map(Happening::StartWith),
        (0usize..4, 0usize..6).prop_map(|(window, session)| Happening::Resume(window, session)),
        (0usize..4).prop_map(Happening::Write),
        (0usize..4).prop_map(Happening::Write),
        (0usize..4).prop_map(Happening::Settle),
        (0usize..4).prop_map(Happening::Tell),
        (0usize..4).prop_map(Happening::Leave),
        (0usize..4).prop_map(Happening::Quit),
        (0usize..4).prop_map(Happening::Kill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn b1_whatever_happens_no_open_session_is_called_over(
        history in prop::collection::vec(happening(), 1..40),
        beyond_directory: bool,
    ) {
        let world = World { beyond_directory, ..World::default() };
        check_history(world, history)?;
    }

    /// The same under a clock that is set a month ahead and back between any two happenings.
    #[test]
    fn h1_whatever_the_clock_is_set_to_no_open_session_is_called_over(
        history in prop::collection::vec(
            prop_oneof![
                3 => happening(),
                1 => prop_oneof![-20..=20_i64, -MONTH..=MONTH].prop_map(Happening::SetClock),
            ],
            1..40,
        ),
        beyond_directory: bool,
    ) {
        let world = World { beyond_directory, forgets_ends: true, ..World::default() };
        check_history(world, history)?;
    }
}

/// Lets everything happen, and compares what is said after each with the truth.
fn check_history(mut world: World, history: Vec<Happening>) -> Result<(), TestCaseError> {
    for happening in history {
        world.happen(happening);
        let found = world.attachments();
        let unsettled = world.unsettled();
        for window in &unsettled {
            let Some(session) = window.has else { continue };
            if world.is_proven_open(session) {
                continue;
            }
            let said = &found.sessions[session];
            prop_assert!(*said != NoRun, "open, and called over for good: {world:#?}");
            // The same through verdict and guard: never firmly exited, never collected.
            let (facts, verdict, now) = judged(said, world.sessions[session].1);
            let firm = (verdict.status, verdict.certainty) == (Status::Exited, Certainty::Proven);
            prop_assert!(!firm, "called exited for good: {world:#?}");
            prop_assert!(may_collect(&facts, &verdict, now).is_err(), "{world:#?}");
            if window.wrote {
                let live = matches!(said, Held(_) | MaybeOpen(_));
                prop_assert!(live, "written by its window, and called {said:?}: {world:#?}");
            }
        }
        for (session, said) in found.sessions.iter().enumerate() {
            if world.is_proven_open(session) {
                continue;
            }
            let reachable = unsettled.iter().any(|one| world.can_open(one, session));
            prop_assert_eq!(reachable, *said != NoRun, "{:#?}", world);
            // What nobody could have open is over, and may go.
            let (facts, verdict, now) = judged(said, world.sessions[session].1);
            prop_assert_eq!(may_collect(&facts, &verdict, now).is_ok(), !reachable);
            if let Held(runs) | MaybeOpen(runs) | NotAttached(runs) = said {
                let able = |&run: &usize| world.can_open(&unsettled[run], session);
                prop_assert!(!runs.is_empty() && runs.iter().all(able));
            }
        }
        let held = found.sessions.iter().filter(|said| matches!(said, Held(_))).count();
        prop_assert!(held + found.spare.len() <= unsettled.len());
    }
    Ok(())
}
