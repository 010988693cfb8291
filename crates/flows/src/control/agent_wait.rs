//! Waiting for an agent: the same verdict as in `ls`, looked at anew whenever something changed.
//!
//! Nothing is polled where the system tells: hooks (spool and store), the agent's own files, the
//! terminal's output and the ends of the processes wake the waiter.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::hosted::wire::{AgentSeen, SnapshotFormat, SnapshotParams, WaitResult};
use model::hosted::{FaultCode, HostFault};
use model::identity::Identity;
use model::liveness::Observer;
use model::session::{SessionKind, SessionName};
use model::status::Activity;
use sys::watch::{DirectoryWatch, POLL_INTERVAL};

use crate::hook;
use crate::observe::{Observation, Observed};
use crate::terminal::wait::DEFAULT_WAIT_MS;
use crate::terminal::{HostedSession, look};

/// Looks follow each other by at least this, however much happens.
const MIN_LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// How often is looked at what nothing tells about: a process that cannot be held on to, an agent whose
/// files are not known yet.
const UNTOLD_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// So many directories of agents' files are watched.
const MAX_WATCHED_DIRECTORIES: usize = 16;

/// What an agent is waited for to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwaitedActivity {
    /// To do this.
    Does(Activity),
    /// To be gone.
    Ended,
}

impl AwaitedActivity {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Does(activity) => activity.as_str(),
            Self::Ended => "ended",
        }
    }
}

/// Whose agent is waited for.
#[derive(Debug)]
pub enum AwaitedAgent<'a> {
    /// Any that runs in this terminal.
    InTerminal(&'a HostedSession),
    /// The one that has this conversation, wherever it runs.
    OfSession(SessionName),
}

/// What to wait for.
#[derive(Debug)]
pub struct AgentWait<'a> {
    /// ostler's home, where hooks report.
    pub home: &'a Path,
    /// Whose agent.
    pub agent: AwaitedAgent<'a>,
    /// What it is to do.
    pub wanted: AwaitedActivity,
    /// How long to wait; 0 for ever.
    pub timeout_ms: Option<u64>,
}

/// One look at the awaited agent.
struct Look {
    /// Those that are alive, or may be, with the processes that hold them.
    present: Vec<(AgentSeen, Vec<Identity>)>,
    /// The awaited session is proven to be over.
    is_over: bool,
    /// Directories in which the agents write.
    places: Vec<PathBuf>,
    /// An agent that has no session yet.
    unattached: Option<String>,
}

/// Waits for an agent. In a terminal, one that ended before is not waited for, unless the terminal's
/// program has ended with it. `observe` looks at the machine anew each time it is called.
pub fn wait_for_agent(
    wait: &AgentWait<'_>,
    observe: &mut dyn FnMut() -> Result<Observation, String>,
) -> Result<WaitResult, HostFault> {
    let deadline = match wait.timeout_ms.unwrap_or(DEFAULT_WAIT_MS) {
        0 => None,
        millis => Instant::now().checked_add(Duration::from_millis(millis)),
    };
    let observer = sys::proc::current_observer();
    let mut bells = Bells::new(wait)?;
    let host = match &wait.agent {
        AwaitedAgent::InTerminal(session) => {
            sys::proc::watch_process_end(&session.host_identity(), &observer)
        }
        AwaitedAgent::OfSession(_) => None,
    };
    let mut last = None;
    loop {
        // Before looking: whatever comes from now on wakes us.
        bells.clear();
        let looked_at = Instant::now();
        let terminal = match &wait.agent {
            AwaitedAgent::InTerminal(session) => Some(session.now_settled()),
            AwaitedAgent::OfSession(_) => None,
        };
        let seen = observe()
            .map_err(|reason| HostFault::new(FaultCode::StorageReadError, reason))
            .map(|observation| look_at_agent(&observation, &wait.agent))?;
        let activities = seen.present.iter().map(|(agent, _)| agent);
        let fits =
            activities.clone().find(|one| wait.wanted == AwaitedActivity::Does(one.activity));
        let ended = wait.wanted == AwaitedActivity::Ended
            && match &terminal {
                Some(now) => {
                    let left = seen.present.is_empty() && last.is_some();
                    now.status().is_terminal() || (left && now.runs_program(&observer))
                }
                None => seen.is_over,
            };
        if fits.is_some() || ended {
            return Ok(WaitResult {
                matched: Some(true),
                exit_code: terminal.and_then(|now| now.manifest.exit_code.filter(|_| ended)),
                agent: fits.cloned().or(last),
                ..WaitResult::default()
            });
        }
        if let Some(now) = &terminal {
            now.check_can_receive()?;
        }
        if seen.is_over {
            let message = "the session is over, and nothing has it open".to_owned();
            return Err(HostFault::new(FaultCode::SessionNotRunning, message));
        }
        last = activities.clone().next().cloned().or(last);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(describe_timeout(wait, terminal.as_ref(), &seen, last));
        }
        bells.watch_places(&seen.places);
        sys::pause::pause_at("agent.awaited");
        bells.wait_for_change(&seen, host.as_ref(), &observer, left)?;
        let rest = MIN_LOOK_INTERVAL.saturating_sub(looked_at.elapsed());
        std::thread::sleep(left.map_or(rest, |left| rest.min(left)));
    }
}

/// Finds the awaited agent among all sessions.
fn look_at_agent(observation: &Observation, agent: &AwaitedAgent<'_>) -> Look {
    let mut look =
        Look { present: Vec::new(), is_over: false, places: Vec::new(), unattached: None };
    let program = match agent {
        AwaitedAgent::InTerminal(session) => {
            session.holder.as_ref().and_then(|holder| holder.child.as_ref())
        }
        AwaitedAgent::OfSession(_) => None,
    };
    let table = program.map(|_| sys::proc::read_process_table());
    let within = |pid: u32| {
        let (table, program) = (table.as_ref(), program);
        table.zip(program).is_some_and(|(table, program)| table.descends_from(pid, program))
    };
    for one in &observation.sessions {
        let holders = one.holders();
        let is_it = match agent {
            AwaitedAgent::InTerminal(_) => {
                one.session.kind == SessionKind::Native
                    && holders.iter().any(|holder| holder.pid.is_some_and(within))
            }
            AwaitedAgent::OfSession(name) => {
                one.session.id == name.id && one.session.agent == name.agent
            }
        };
        if !is_it {
            continue;
        }
        look.places.extend(written_places(one));
        let status = one.verdict.status;
        if status.is_active() {
            look.present.push((seen_agent(one), holders.into_iter().cloned().collect()));
        } else {
            look.is_over |= one.verdict.certainty == model::session::Certainty::Proven;
        }
    }
    let new = observation.unattached.iter().find(|one| within(one.pid));
    look.unattached = new.map(|one| format!("{} (pid {})", one.agent, one.pid));
    look.places.sort();
    look.places.dedup();
    look
}

fn seen_agent(one: &Observed) -> AgentSeen {
    AgentSeen {
        agent: one.session.agent.to_owned(),
        id: one.session.id.clone(),
        activity: one.verdict.activity.unwrap_or(Activity::Unknown),
        derived: one.verdict.activity_derived,
    }
}

/// Where an agent writes what its verdict rests on: beside its transcript and its registrations.
fn written_places(one: &Observed) -> impl Iterator<Item = PathBuf> {
    let transcript = one.session.transcript.as_ref().map(|transcript| transcript.path.clone());
    let claims = one.session.claims.iter().map(|claim| PathBuf::from(&claim.source));
    let files = transcript.into_iter().chain(claims.filter(|path| path.is_absolute()));
    files.filter_map(|path| path.parent().map(Path::to_owned))
}

/// Everything that wakes the waiter.
struct Bells {
    /// The spool, the store's bell, and the terminal's log.
    told: Vec<DirectoryWatch>,
    places: Vec<(PathBuf, Option<DirectoryWatch>)>,
}

impl Bells {
    fn new(wait: &AgentWait<'_>) -> Result<Self, HostFault> {
        let cannot_follow = |error: std::io::Error| {
            HostFault::new(
                FaultCode::StorageReadError,
                format!("cannot follow {}: {error}", wait.home.display()),
            )
        };
        let spool = hook::spool_path(wait.home);
        let spool = spool.parent().unwrap_or(wait.home);
        sys::private::create_private_dir(spool)
            .map_err(|error| cannot_follow(std::io::Error::other(error)))?;
        let mut directories = vec![wait.home, spool];
        if let AwaitedAgent::InTerminal(session) = &wait.agent {
            directories.push(&session.directory);
        }
        let told = directories.into_iter().map(DirectoryWatch::watch_directory);
        let told = told.collect::<Result<_, _>>().map_err(cannot_follow)?;
        Ok(Self { told, places: Vec::new() })
    }

    fn watches(&self) -> impl Iterator<Item = &DirectoryWatch> {
        self.told.iter().chain(self.places.iter().filter_map(|(_, watch)| watch.as_ref()))
    }

    fn clear(&self) {
        self.watches().for_each(DirectoryWatch::clear);
    }

    /// Watches these directories, and no other of the agents'.
    fn watch_places(&mut self, places: &[PathBuf]) {
        self.places.retain(|(known, _)| places.contains(known));
        let room = MAX_WATCHED_DIRECTORIES.saturating_sub(self.places.len());
        let new = places.iter().filter(|new| !self.places.iter().any(|(known, _)| known == *new));
        let new: Vec<PathBuf> = new.take(room).cloned().collect();
        for place in new {
            // What cannot be watched is looked at now and then.
            let watch = DirectoryWatch::watch_directory(&place).ok();
            self.places.push((place, watch));
        }
    }

    fn wait_for_change(
        &self,
        seen: &Look,
        host: Option<&OwnedFd>,
        observer: &Observer,
        left: Option<Duration>,
    ) -> Result<(), HostFault> {
        let processes: Vec<&Identity> = seen.present.iter().flat_map(|(_, held)| held).collect();
        let ends: Vec<OwnedFd> = processes
            .iter()
            .filter_map(|one| sys::proc::watch_process_end(one, observer))
            .collect();
        let descriptors: Vec<BorrowedFd<'_>> = self
            .watches()
            .filter_map(DirectoryWatch::descriptor)
            .chain(host.into_iter().chain(&ends).map(AsFd::as_fd))
            .collect();
        let untold = seen.present.is_empty()
            || ends.len() < processes.len()
            || self.places.len() < seen.places.len()
            || self.places.iter().any(|(_, watch)| watch.is_none());
        let look_again = POLL_INTERVAL.or(untold.then_some(UNTOLD_LOOK_INTERVAL));
        let timeout = [left, look_again].into_iter().flatten().min();
        sys::watch::poll_readable(&descriptors, timeout)
            .map_err(|error| HostFault::new(FaultCode::InternalError, error.to_string()))?;
        Ok(())
    }
}

fn describe_timeout(
    wait: &AgentWait<'_>,
    terminal: Option<&HostedSession>,
    seen: &Look,
    agent: Option<AgentSeen>,
) -> WaitResult {
    let stands = match (&agent, &seen.unattached) {
        (Some(agent), _) => {
            let mark = if agent.derived { "~" } else { "" };
            format!("{} {} is {mark}{}", agent.agent, agent.id, agent.activity.as_str())
        }
        (None, Some(new)) => format!("{new} has not written a session yet"),
        (None, None) => "no agent with a session of its own runs there".to_owned(),
    };
    let shown = terminal.and_then(|session| {
        let params = SnapshotParams { format: SnapshotFormat::Text, ..SnapshotParams::default() };
        look::take_snapshot(session, &params).ok()?.text
    });
    WaitResult {
        matched: Some(false),
        timed_out: true,
        condition: Some(format!("an agent that is {} ({stands})", wait.wanted.as_str())),
        screen: shown,
        agent,
        ..WaitResult::default()
    }
}
