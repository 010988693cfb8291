//! What is true about every agent session on this machine, now.
//!
//! `discover` reads agents' files, `processes` the process table, `identify` merges the two into
//! sessions. These and every other kind come through the seam of `source`, and the model judges them. Nothing is written but the index, which is a cache.
//! A source that fails becomes a line of the report: never an abort, never silence.

use std::cmp::Reverse;
use std::path::Path;

use access::rules::ACCESS_AGENT_NAME;
use adapters::{Adapter, ExtraFile, SurveyProblem, TranscriptSource};
use model::address::ShortIds;
use model::config::OstlerConfig;
use model::identity::Identity;
use model::liveness::Observer;
use model::rules::judge::{self, JudgeCircumstances, Verdict};
use model::session::{Session, SessionKind};
use model::wire::{IncompleteSource, SessionView, UnattachedAgent};
use store::state::{StateStore, TrackedSession};
use sys::machine::Machine;

use crate::terminal::sight;
use crate::tracks;
use ends::RecordedEnds;
use model::rules::pins::Pins;
pub(crate) use processes::{SeenRuns, SessionPlace};
use source::{AccessSessions, HostedTerminals, NativeSessions, SessionSource};

mod discover;
mod ends;
mod identify;
mod link;
mod processes;
mod source;

/// How much of the past is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObserveScope {
    /// Only what may be live. Transcripts that nothing can be working on are not read.
    Active,
    All,
}

/// What to observe, and from where.
#[derive(Clone, Copy, Debug)]
pub struct ObserveRequest<'a> {
    /// Where, when, and who is looking.
    pub machine: &'a Machine,
    pub config: &'a OstlerConfig,
    /// Whether digests may come from the index; else every transcript is read.
    pub use_index: bool,
    /// How much of the past.
    pub scope: ObserveScope,
    /// Adapter ids; empty means all.
    pub agents: &'a [String],
}

impl ObserveRequest<'_> {
    /// Whether sessions of that agent are wanted.
    fn asks_for(&self, agent: &str) -> bool {
        self.agents.is_empty() || self.agents.iter().any(|wanted| wanted == agent)
    }
}

/// One session and what is true of it.
#[derive(Debug)]
pub struct Observed {
    pub session: Session,
    pub verdict: Verdict,
    /// Where its conversation can be read.
    pub source: Option<Box<TranscriptSource>>,
    /// Whether a person said that it is never to be collected.
    pub pinned: bool,
}

impl Observed {
    /// The processes that have the session open: all that are proven to, or the only one that may.
    pub fn holders(&self) -> Vec<&Identity> {
        if !self.verdict.liveness.is_alive() {
            return Vec::new();
        }
        let proven: Vec<&Identity> =
            judge::proven_owners(&self.session).map(|claim| &claim.identity).collect();
        let alive = self.session.claims.iter().filter(|claim| claim.liveness.is_alive());
        let derived: Vec<&Identity> =
            alive.map(|claim| &claim.identity).filter(|one| one.pid.is_some()).collect();
        match (proven.is_empty(), derived.len()) {
            (false, _) => proven,
            (true, 1) => derived,
            (true, _) => Vec::new(),
        }
    }

    /// Whether it works in a directory, or below it.
    pub(crate) fn works_below(&self, directory: &Path) -> bool {
        let cwd = self.session.digest.cwd.as_ref();
        cwd.is_some_and(|cwd| Path::new(cwd).starts_with(directory))
    }

    /// The session as programs see it.
    pub fn session_view(&self) -> SessionView<'_> {
        SessionView { pinned: self.pinned, ..SessionView::new(&self.session, &self.verdict) }
    }
}

/// What one adapter had to say.
#[derive(Debug)]
pub struct AgentReport {
    pub adapter: &'static dyn Adapter,
    /// Where it looked.
    pub roots: Vec<std::path::PathBuf>,
    /// The directories below these that were listed.
    pub directories: Vec<std::path::PathBuf>,
    /// What of these could not be listed: nothing may be collected beside it.
    pub unlisted: Vec<SurveyProblem>,
    /// Transcripts of which it is not known where their sessions worked: they could not be read.
    pub unread: Vec<SurveyProblem>,
    /// Bytes that are no transcript.
    pub extras: Vec<ExtraFile>,
    /// How many processes of the agent run, wrappers counted with what they run.
    pub processes: usize,
    /// Whether the settings leave it out.
    pub disabled: bool,
}

/// Everything that was observed.
#[derive(Debug)]
pub struct Observation {
    /// Sessions, live before ended, newest activity first.
    pub sessions: Vec<Observed>,
    /// Sub-agents, which are part of their parents.
    pub subagents: Vec<Observed>,
    /// What could not be read.
    pub incomplete: Vec<IncompleteSource>,
    /// Agent processes without a session so far.
    pub unattached: Vec<UnattachedAgent>,
    pub agents: Vec<AgentReport>,
    /// What the judgement depended on.
    pub circumstances: JudgeCircumstances,
    /// What is never to be collected.
    pub pins: Pins,
    pub observer: Observer,
    /// The ids of sessions that are there and were not looked at, since they cannot be live.
    pub unread_ids: Vec<String>,
    /// The runs of agents.
    pub(crate) runs: SeenRuns,
}

impl Observation {
    /// The ids of every session that is known of.
    pub fn known_ids(&self) -> impl Iterator<Item = &str> {
        let seen = self.sessions.iter().chain(&self.subagents);
        let seen = seen.map(|one| one.session.id.as_str());
        seen.chain(self.unread_ids.iter().map(String::as_str))
    }

    /// Short ids that mean one session each, also among those that were not looked at.
    pub fn short_ids(&self) -> ShortIds<'_> {
        ShortIds::among(self.known_ids())
    }
}

pub fn observe_sessions(request: &ObserveRequest<'_>) -> Observation {
    let observer = request.machine.observer();
    let (processes, listed) = std::thread::scope(|threads| {
        let processes = threads.spawn(|| processes::find_agents(observer, request.config));
        let listed = discover::list_sources(request);
        match processes.join() {
            Ok(processes) => (processes, listed),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    let sees_every_process = observer.sees_every_process() && processes.is_listed();
    // A blind observer looks at everything, as if it had been asked to.
    let all = request.scope == ObserveScope::All || !sees_every_process;
    let Told { tracks, ends, pins, untold } = read_told(request.machine.home(), all);
    let hears_hooks = untold.is_none();
    // Where it is not known what hooks told, any session may be the one that they told of.
    let scope = if all || !hears_hooks { ObserveScope::All } else { ObserveScope::Active };
    let reading = ObserveRequest { scope, ..*request };
    let mut found = discover::read_transcripts(&reading, observer, &processes, &tracks, listed);
    found.incomplete.extend(untold);
    let circumstances = JudgeCircumstances {
        now: request.machine.now(),
        sees_every_process,
        stale_after: request.config.stale_after,
    };
    let told = ToldSessions { tracks, ends, hears_hooks };
    let mut observation = judge_sessions(request, &processes, found, told, circumstances);
    if !pins.is_empty() {
        for one in observation.sessions.iter_mut().chain(&mut observation.subagents) {
            one.pinned = pins.get(&one.session.session_name()).is_some();
        }
    }
    Observation { pins, runs: processes.into(), ..observation }
}

/// Judges what every source found: the one place where an [`Observed`] is made.
fn judge_sessions(
    request: &ObserveRequest<'_>,
    processes: &processes::AgentProcesses,
    found: discover::Discovered,
    told: ToldSessions,
    circumstances: JudgeCircumstances,
) -> Observation {
    let mut incomplete = found.incomplete;
    if !processes.is_listed() {
        incomplete.push(IncompleteSource {
            source: "process table".to_owned(),
            path: None,
            reason: "cannot be read; sessions without proof are unknown".to_owned(),
        });
    }
    let mut agents = found.agents;
    for report in &mut agents {
        report.processes = processes.runs_of(report.adapter.agent_profile().id).count();
    }
    let machine = request.machine;
    let asks_terminals = request.asks_for(sight::TERMINAL_AGENT);
    let seen = found.seen;
    let mut sources: Vec<Box<dyn SessionSource + '_>> =
        vec![Box::new(NativeSessions { machine, processes, seen, told })];
    if request.asks_for(ACCESS_AGENT_NAME) {
        sources.push(Box::new(AccessSessions { machine }));
    }
    sources.push(Box::new(HostedTerminals { machine, are_listed: asks_terminals }));
    let (mut sessions, mut subagents) = (Vec::new(), Vec::new());
    let (mut unattached, mut programs) = (Vec::new(), Vec::new());
    for source in sources {
        let found = source.find_sessions();
        let before = sessions.len();
        programs.extend(found.programs.into_iter().map(|(place, one)| (before + place, one)));
        sessions.extend(found.sessions.into_iter().map(|one| one.judge(&circumstances)));
        subagents.extend(found.subagents.into_iter().map(|one| one.judge(&circumstances)));
        unattached.extend(found.unattached);
        incomplete.extend(found.incomplete);
    }
    link::link_terminals(&mut sessions, programs, &processes.table);
    if !asks_terminals {
        sessions.retain(|one| one.session.kind != SessionKind::Hosted);
    }
    sort_sessions(&mut sessions);
    sort_sessions(&mut subagents);
    Observation {
        sessions,
        subagents,
        incomplete,
        unattached,
        agents,
        circumstances,
        pins: Pins::default(),
        observer: machine.observer().clone(),
        unread_ids: found.unread_ids,
        runs: SeenRuns::default(),
    }
}

/// What was told of sessions.
struct ToldSessions {
    /// What hooks told of open ones.
    tracks: Vec<TrackedSession>,
    ends: RecordedEnds,
    /// Whether all of it could be read.
    hears_hooks: bool,
}

/// What ostler itself was told and wrote down.
#[derive(Default)]
struct Told {
    /// What hooks told of open sessions, in the store and in the spool.
    tracks: Vec<TrackedSession>,
    ends: RecordedEnds,
    pins: Pins,
    /// Why that cannot be read.
    untold: Option<IncompleteSource>,
}

/// Reads what was told; `all` reads every recorded end at once.
fn read_told(home: &Path, all: bool) -> Told {
    let state = match StateStore::open_read_only(home) {
        Ok(state) => state,
        Err(error) => {
            let untold = Some(unreadable_state(home, &error.to_string()));
            return Told { pins: Pins::from_read(Err(error)), untold, ..Told::default() };
        }
    };
    let pins = Pins::from_read(
        state.as_ref().map(StateStore::list_pins).transpose().map(Option::unwrap_or_default),
    );
    let told = tracks::told_now(home, state.as_ref()).and_then(|mut tracks| {
        let ends = RecordedEnds::read(state, &tracks, all)?;
        tracks.retain(|one| one.track.is_open());
        Ok((tracks, ends))
    });
    match told {
        Ok((tracks, ends)) => Told { tracks, ends, pins, untold: None },
        Err(error) => Told {
            pins,
            untold: Some(unreadable_state(home, &error.to_string())),
            ..Told::default()
        },
    }
}

fn unreadable_state(home: &Path, reason: &str) -> IncompleteSource {
    let path = store::state::database_path(home).to_string_lossy().into_owned();
    IncompleteSource { source: "hooks".to_owned(), path: Some(path), reason: reason.to_owned() }
}

/// Live before ended, newest activity first; ties by id, so that the order is always the same.
fn sort_sessions(sessions: &mut [Observed]) {
    sessions.sort_by_cached_key(|one| {
        let mut id = [0; 32];
        let bytes = one.session.id.as_bytes();
        let length = bytes.len().min(id.len());
        id[..length].copy_from_slice(&bytes[..length]);
        let active = one.verdict.status.is_active();
        (Reverse(active), Reverse(one.session.last_activity_at()), id)
    });
}
