//! Live sessions: a snapshot, then deltas.
//!
//! [`LiveSessions`] sleeps until the kernel tells that something may have changed: a directory that a
//! session is written in or would appear in, a process that a session belongs to, the spool, the state,
//! a terminal's manifest, the clock. Then it observes once, by the same code as `ls`, and says which
//! sessions are not what they were. Nothing is polled, unless the kernel's watches
//! run out, and then it says so.
//!
//! [`LiveFeed`] is the same in a thread of its own, behind one descriptor: for a caller with other things
//! to wait for.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::config::OstlerConfig;
use model::identity::Identity;
use model::rules::judge;
use model::session::SessionName;
use model::status::Activity;
use model::time::Time;
use model::wire::IncompleteSource;
use sys::machine::Machine;
use sys::watch::WatchLimitError;
use sys::watch_set::{ASK_INTERVAL, WatchNews, WatchSet};

use crate::observe::{Observation, ObserveRequest, ObserveScope, Observed, observe_sessions};
use crate::timeouts::{
    LIVE_COALESCE_WINDOW, LONGEST_LIVE_REST, SIGN_OF_LIFE_DELAY, STALE_SLACK, UNTOLD_INTERVAL,
};
use places::{ChangeUrgency, MAX_WATCHED_DIRECTORIES, WatchPlaces};

mod feed;
mod places;

pub use feed::LiveFeed;

/// A look may take at most one part in so many of the time while changes never stop.
const REST_FACTOR: u32 = 4;

/// What to look at, and from where: as [`ObserveRequest`], but its own.
#[derive(Clone, Debug)]
pub struct LiveSource {
    /// Where; each look is a turn of its own.
    pub machine: Machine,
    pub config: OstlerConfig,
    /// Whether digests may come from the index.
    pub use_index: bool,
    /// How much of the past.
    pub scope: ObserveScope,
    /// Adapter ids; empty means all.
    pub agents: Vec<String>,
    /// What of the settings does not hold; told with every look.
    pub problems: Vec<IncompleteSource>,
}

impl LiveSource {
    /// Looks once, at the moment of this machine.
    pub fn observe_on(&self, machine: &Machine) -> Observation {
        let mut observation = observe_sessions(&ObserveRequest {
            machine,
            config: &self.config,
            use_index: self.use_index,
            scope: self.scope,
            agents: &self.agents,
        });
        observation.incomplete.extend_from_slice(&self.problems);
        observation
    }
}

/// What a look found out.
#[derive(Clone, Debug)]
pub struct LiveUpdate {
    /// Everything as it is now.
    pub observation: Arc<Observation>,
    /// When it was looked at.
    pub at: Time,
    /// Whether it is the first: then everything is new, and nothing is listed below.
    pub is_first: bool,
    /// Sessions that are new or not what they were.
    pub changed: Vec<SessionName>,
    /// Sessions that are no longer there.
    pub gone: Vec<SessionName>,
    /// Why it is asked every second, if it is.
    pub asks_because: Option<String>,
    /// What the system does not tell of, and is looked at every minute, if there is something.
    pub untold: Option<String>,
}

impl LiveUpdate {
    /// Takes what a later look found out: nothing of what changed meanwhile is forgotten.
    fn absorb(&mut self, later: Self) {
        let gone: HashSet<&SessionName> = later.gone.iter().collect();
        let mut changed: Vec<SessionName> =
            self.changed.drain(..).filter(|name| !gone.contains(name)).collect();
        let known: HashSet<SessionName> = changed.iter().cloned().collect();
        let back: HashSet<&SessionName> = later.changed.iter().collect();
        let mut all_gone: Vec<SessionName> =
            self.gone.drain(..).filter(|name| !back.contains(name)).collect();
        all_gone.extend(later.gone.iter().cloned());
        changed.extend(later.changed.iter().filter(|name| !known.contains(name)).cloned());
        *self = Self { changed, gone: all_gone, is_first: self.is_first, ..later };
    }
}

/// Sessions that are watched.
#[derive(Debug)]
pub struct LiveSessions {
    source: LiveSource,
    watches: Option<WatchSet>,
    places: WatchPlaces,
    asks_because: Option<String>,
    told_asks: Option<String>,
    untold: Option<String>,
    told_untold: Option<String>,
    /// How many processes could not be held on to at the last look.
    unheld: usize,
    seen: Option<Arc<Observation>>,
    /// When to look next; none while nothing happens.
    due: Option<Instant>,
    /// When the next look may be at the earliest.
    rested: Instant,
}

impl LiveSessions {
    /// Watches; the first update is the snapshot.
    pub fn new(source: LiveSource) -> Self {
        let (watches, asks_because) = match WatchSet::new() {
            Ok(watches) => (Some(watches), None),
            Err(error) => (None, Some(describe_limit(&error))),
        };
        let now = Instant::now();
        let places = WatchPlaces::default();
        Self {
            source,
            watches,
            places,
            asks_because,
            told_asks: None,
            untold: None,
            told_untold: None,
            unheld: 0,
            seen: None,
            due: Some(now),
            rested: now,
        }
    }

    /// What to poll for reading; where there is none, [`Self::time_left`] says when to ask.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.watches.as_ref()?.descriptor()
    }

    /// How long it is until [`Self::next_change`] has something to do of its own accord.
    pub fn time_left(&self) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Looks at more or less of the past from now on.
    pub fn set_scope(&mut self, scope: ObserveScope) {
        if self.source.scope != scope {
            self.source.scope = scope;
            self.look_within(Duration::ZERO);
        }
    }

    /// Looks at once, whether something was told or not.
    pub fn look_now(&mut self) -> LiveUpdate {
        self.look_once().0
    }

    /// Waits until sessions are not what they were, for at most so long or until one of `bells` can be
    /// read. The first time it does not wait.
    pub fn next_change<'b>(
        &mut self,
        timeout: Option<Duration>,
        bells: impl IntoIterator<Item = BorrowedFd<'b>>,
    ) -> io::Result<Option<LiveUpdate>> {
        let bells: Vec<BorrowedFd<'_>> = bells.into_iter().collect();
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if self.due.is_some_and(|due| due <= Instant::now())
                && let (update, true) = self.look_once()
            {
                return Ok(Some(update));
            }
            let until = self.due.into_iter().chain(deadline).min();
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let news = self.wait_for_news(left, &bells)?;
            let rung = news.rung;
            self.take_news(news);
            let over = deadline.is_some_and(|deadline| deadline <= Instant::now());
            if rung || (over && self.due.is_none_or(|due| due > Instant::now())) {
                return Ok(None);
            }
        }
    }

    fn wait_for_news(
        &mut self,
        timeout: Option<Duration>,
        bells: &[BorrowedFd<'_>],
    ) -> io::Result<WatchNews> {
        if let Some(watches) = &mut self.watches {
            return watches.wait_for_news(timeout, bells);
        }
        let timeout = timeout.unwrap_or(ASK_INTERVAL);
        let ready = sys::watch::poll_readable(bells, Some(timeout))?;
        Ok(WatchNews { rung: ready.contains(&true), ..WatchNews::default() })
    }

    /// Decides when to look because of what was told.
    fn take_news(&mut self, news: WatchNews) {
        if news.is_empty() {
            return;
        }
        if news.lost && self.descriptor().is_none() {
            self.look_within(ASK_INTERVAL);
        } else if news.process_ended || news.lost || news.clock_moved {
            self.look_within(LIVE_COALESCE_WINDOW);
        }
        for change in &news.changes {
            match self.places.judge_change(change) {
                ChangeUrgency::Now => self.look_within(LIVE_COALESCE_WINDOW),
                ChangeUrgency::SignOfLife => self.look_within(SIGN_OF_LIFE_DELAY),
                ChangeUrgency::Nothing => {}
            }
        }
    }

    /// Looks after this long, or when it was going to anyway.
    fn look_within(&mut self, delay: Duration) {
        let due = (Instant::now() + delay).max(self.rested);
        self.due = Some(self.due.map_or(due, |known| known.min(due)));
    }

    /// Looks; says what is not what it was, and whether anything is.
    fn look_once(&mut self) -> (LiveUpdate, bool) {
        self.due = None;
        // What is under watch before it is read cannot change unnoticed.
        if self.seen.is_none() {
            self.places.await_home(self.source.machine.home());
            self.watch_places();
        }
        let (began, machine) = (Instant::now(), self.source.machine.next_turn());
        let (at, observation) = (machine.now(), Arc::new(self.source.observe_on(&machine)));
        let before = self.seen.replace(Arc::clone(&observation));
        let spent = began.elapsed();
        self.rested = Instant::now() + (spent * REST_FACTOR).min(LONGEST_LIVE_REST);
        self.watch_what_was_seen(&observation);
        self.expect_staleness(&observation, at);
        let (changed, gone) = match &before {
            Some(before) => compare_observations(before, &observation),
            None => (Vec::new(), Vec::new()),
        };
        let is_first = before.is_none();
        let asks_because = self.asks_because.clone();
        let untold = self.untold.clone();
        let newly_asks = asks_because != self.told_asks || untold != self.told_untold;
        self.told_asks.clone_from(&asks_because);
        self.told_untold.clone_from(&untold);
        let others = before.is_some_and(|before| {
            before.incomplete != observation.incomplete
                || before.unattached != observation.unattached
        });
        let is_news = is_first || !changed.is_empty() || !gone.is_empty() || newly_asks || others;
        (LiveUpdate { observation, at, is_first, changed, gone, asks_because, untold }, is_news)
    }

    /// Watches where what was seen is written, and holds on to the processes that it belongs to.
    fn watch_what_was_seen(&mut self, observation: &Observation) {
        self.places = WatchPlaces::of_observation(observation, self.source.machine.home());
        let added = self.watch_places();
        if added > 0 {
            // They may have changed after they were read and before they were watched.
            self.look_within(LIVE_COALESCE_WINDOW);
        }
        let Some(watches) = &mut self.watches else { return };
        let alive: Vec<&Identity> = living_processes(observation).collect();
        let unheld = watches.hold_processes(alive, &observation.observer);
        let lasting = unheld.min(std::mem::replace(&mut self.unheld, unheld));
        self.untold = describe_untold(self.places.is_cut(), lasting);
        if unheld > lasting {
            // One that ended since it was seen cannot be held either: the next look tells.
            self.look_within(ASK_INTERVAL);
        } else if self.untold.is_some() {
            self.look_within(UNTOLD_INTERVAL);
        }
    }

    fn watch_places(&mut self) -> usize {
        let added = match &mut self.watches {
            Some(watches) => watches.watch_directories(self.places.directories()),
            None => Ok(0),
        };
        let added = match added {
            Ok(added) => {
                if self.watches.is_some() {
                    self.asks_because = None;
                }
                added
            }
            Err(error) => {
                self.asks_because = Some(describe_limit(&error));
                0
            }
        };
        if self.asks_because.is_some() {
            self.look_within(ASK_INTERVAL);
        }
        added
    }

    /// The only thing that happens without anything happening: working without a sign of life for too long.
    fn expect_staleness(&mut self, observation: &Observation, at: Time) {
        let stale_after = self.source.config.stale_after;
        let next = observation
            .sessions
            .iter()
            .filter(|one| one.verdict.activity == Some(Activity::Working) && !one.verdict.stale)
            .filter_map(|one| Some(one.session.last_activity_at()?.plus(stale_after).since(at)))
            .min();
        if let Some(next) = next {
            self.look_within(next + STALE_SLACK);
        }
    }
}

fn describe_limit(error: &io::Error) -> String {
    match WatchLimitError::from_error(error) {
        Some(limit) => format!("{limit}; {}", limit.remedy()),
        None => format!("changes cannot be watched: {error}"),
    }
}

/// What is not told of: directories beyond the limit, and so many processes.
fn describe_untold(is_cut: bool, unheld: usize) -> Option<String> {
    let directories = format!("directories beyond the first {MAX_WATCHED_DIRECTORIES}");
    let processes = format!("the end of {unheld} processes");
    let parts = [(is_cut, directories), (unheld > 0, processes)];
    let parts: Vec<String> =
        parts.into_iter().filter_map(|(is_so, part)| is_so.then_some(part)).collect();
    (!parts.is_empty()).then(|| format!("the system does not tell of {}", parts.join(" and ")))
}

/// The processes whose end would change something.
fn living_processes(observation: &Observation) -> impl Iterator<Item = &Identity> {
    let all = observation.sessions.iter().chain(&observation.subagents);
    let claims = all.flat_map(|one| &one.session.claims);
    claims.filter(|claim| claim.liveness.is_alive()).map(|claim| &claim.identity)
}

/// The sessions that are new or not what they were, and those that are gone.
fn compare_observations(
    before: &Observation,
    after: &Observation,
) -> (Vec<SessionName>, Vec<SessionName>) {
    fn all(observation: &Observation) -> impl Iterator<Item = &Observed> {
        observation.sessions.iter().chain(&observation.subagents)
    }
    let key =
        |one: &Observed| -> (&'static str, String) { (one.session.agent, one.session.id.clone()) };
    let mut known: HashMap<(&'static str, String), &Observed> =
        all(before).map(|one| (key(one), one)).collect();
    let mut changed = Vec::new();
    for one in all(after) {
        match known.remove(&key(one)) {
            Some(was) if is_same(was, one) => {}
            _ => changed.push(one.session.session_name()),
        }
    }
    let mut gone: Vec<SessionName> =
        known.into_values().map(|one| one.session.session_name()).collect();
    gone.sort();
    (changed, gone)
}

/// Whether everything that a surface shows of it is the same. When a process was last seen is not.
fn is_same(was: &Observed, is: &Observed) -> bool {
    let owners = |one: &Observed| -> Vec<(Option<u32>, Option<u64>)> {
        let owners = judge::proven_owners(&one.session);
        owners.map(|claim| (claim.identity.pid, claim.identity.start)).collect()
    };
    was.verdict == is.verdict
        && was.pinned == is.pinned
        && was.session.digest == is.session.digest
        && was.session.transcript == is.session.transcript
        && was.session.linked == is.session.linked
        && judge::waiting_for(&was.session, &was.verdict)
            == judge::waiting_for(&is.session, &is.verdict)
        && owners(was) == owners(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_28_a_set_clock_asks_for_one_look_however_often_it_is_told() {
        let home = tempfile::tempdir().unwrap();
        let mut live = LiveSessions::new(LiveSource {
            machine: Machine::with_home(home.path().to_owned()),
            config: OstlerConfig::default(),
            use_index: false,
            scope: ObserveScope::Active,
            agents: vec!["none".to_owned()],
            problems: Vec::new(),
        });
        live.look_now();
        live.look_now();
        live.rested = Instant::now();
        assert_eq!(live.due, None, "nothing is due while nothing happens");
        let moved = || WatchNews { clock_moved: true, ..WatchNews::default() };
        live.take_news(moved());
        let due = live.due.expect("a look");
        for _ in 0..10 {
            live.take_news(moved());
        }
        assert_eq!(live.due, Some(due), "ten jumps, one look");
        assert!(live.time_left().unwrap() <= LIVE_COALESCE_WINDOW);
        live.look_now();
        assert_eq!(live.due, None, "and none after it");
    }
}
