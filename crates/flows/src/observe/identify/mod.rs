//! Merges sightings into sessions, and finds out which process each belongs to.
//!
//! A run is settled by the agent's own registration, its lock, a hook or a transcript held open.
//! Every other run could have any of several sessions open: `model::rules::open` says what that means
//! for each of them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use adapters::Adapter;
use model::identity::Identity;
use model::liveness::{Death, Doubt, Life, Liveness, RunState};
use model::rules::open::END_SLACK;
use model::session::{ClaimBasis, ProcessClaim, Session, SessionOrigin};
use model::time::Time;
use sys::machine::Machine;
use sys::proc::ProcessTable;

use super::ToldSessions;
use super::discover::AgentSightings;
use super::ends::RecordedEnds;
use super::processes::{AgentProcesses, AgentRun};
use super::source::{FoundSession, FoundSessions};

mod close;
mod openers;
mod told;
mod transcripts;

const PROCESS_TABLE: &str = "process table";
const RECORD: &str = "ostler's own record";

pub(super) fn identify_sessions(
    machine: &Machine,
    processes: &AgentProcesses,
    seen: Vec<AgentSightings>,
    told: &ToldSessions,
) -> FoundSessions {
    let mut merged = FoundSessions::default();
    for seen in seen {
        let runs: Vec<&AgentRun> = processes.runs_of(seen.adapter.agent_profile().id).collect();
        let mut desk = SessionMatcher {
            machine,
            table: &processes.table,
            adapter: seen.adapter,
            runs,
            taken: HashSet::new(),
            named: HashMap::new(),
            spare: Vec::new(),
            ends: &told.ends,
            roots: seen.roots,
            sessions: Vec::with_capacity(seen.transcripts.len()),
            subagents: Vec::new(),
            by_id: HashMap::with_capacity(seen.transcripts.len()),
        };
        desk.add_transcripts(seen.transcripts);
        desk.apply_registrations(seen.registrations);
        desk.apply_hook_tracks(&told.tracks);
        desk.match_open_files();
        desk.note_names();
        desk.match_possible_openers();
        desk.recall_ends();
        if !told.hears_hooks {
            desk.note_unheard_hooks();
        }
        desk.close(&mut merged);
    }
    merged
}

/// One agent's sessions while they are being matched with processes.
struct SessionMatcher<'a> {
    machine: &'a Machine,
    table: &'a ProcessTable,
    adapter: &'static dyn Adapter,
    runs: Vec<&'a AgentRun>,
    /// Runs that already belong to a session, by index.
    taken: HashSet<usize>,
    /// What unsettled runs say of themselves, by the run's index.
    named: HashMap<usize, Named>,
    /// Runs that have no session, by index, and the others that it may be instead.
    spare: Vec<(usize, Vec<u32>)>,
    ends: &'a RecordedEnds,
    /// Where the agent keeps its sessions, links resolved.
    roots: Vec<PathBuf>,
    sessions: Vec<FoundSession>,
    subagents: Vec<FoundSession>,
    /// The place of each session by its id.
    by_id: HashMap<String, usize>,
}

/// The session that a run names in a way that settles nothing.
struct Named {
    session: usize,
    how: ClaimBasis,
    /// A registration that may have been left behind, or what a hook told.
    claim: Option<ProcessClaim>,
    /// When a hook told so.
    told_at: Option<Time>,
}

impl<'a> SessionMatcher<'a> {
    fn session_origin(&self, root: Arc<str>, format: &'static str) -> SessionOrigin {
        let about = self.adapter.agent_profile();
        SessionOrigin { adapter: about.id, root, format, certainty: about.certainty }
    }

    fn place_of(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    /// Adds a session. Of two with one id the later is found.
    fn push_session(&mut self, new: FoundSession) -> usize {
        let place = self.sessions.len();
        self.by_id.insert(new.session.id.clone(), place);
        self.sessions.push(new);
        place
    }

    /// How a process that is known to be the right one is alive.
    fn running_liveness(&self, pid: u32) -> Liveness {
        match self.table.get(pid).map(|row| row.state) {
            Some(RunState::Stopped) => Liveness::Alive(Life::Stopped),
            Some(RunState::Traced) => Liveness::Alive(Life::Traced),
            Some(RunState::Running) => Liveness::Alive(Life::Running),
            Some(RunState::Exited) | None => Liveness::Unknown(Doubt::Incomplete),
        }
    }

    fn run_of(&self, pid: Option<u32>) -> Option<usize> {
        self.runs.iter().position(|run| pid.is_some_and(|pid| run.pids.contains(&pid)))
    }

    /// Gives a run to a session.
    fn assign_run(&mut self, run: usize, session: usize, how: ClaimBasis, pid: u32) {
        let Ok(identity) = self.machine.identify_process(pid) else {
            return;
        };
        self.taken.insert(run);
        let (liveness, row) = (self.running_liveness(pid), self.table.get(pid));
        self.sessions[session].session.claims.push(ProcessClaim {
            how,
            liveness,
            started_at: row.and_then(|row| row.started_at),
            identity,
            activity: None,
            waiting_for: None,
            source: PROCESS_TABLE.to_owned(),
            observed_at: self.machine.now(),
            directory: None,
            shared: None,
        });
    }

    fn free_runs(&self) -> Vec<(usize, &'a AgentRun)> {
        let free = |(index, _): &(usize, &AgentRun)| !self.taken.contains(index);
        self.runs.iter().copied().enumerate().filter(free).collect()
    }

    /// A transcript that only one session is written to, and that a process holds open.
    fn match_open_files(&mut self) {
        let free = self.free_runs();
        if free.is_empty() {
            return;
        }
        let mut writers: HashMap<&Path, Option<usize>> = HashMap::new();
        for (index, FoundSession { session, source }) in self.sessions.iter().enumerate() {
            // A process with a store of many sessions open may be working on any of them.
            let is_store = source.as_ref().is_some_and(|source| source.bytes.is_some());
            if let Some(transcript) = session.transcript.as_ref().filter(|_| !is_store) {
                writers
                    .entry(&transcript.path)
                    .and_modify(|only| *only = None)
                    .or_insert(Some(index));
            }
        }
        let mut matches = Vec::new();
        for (run_index, run) in free {
            for &pid in &run.pids {
                for file in self.table.open_files(pid) {
                    if let Some(&Some(session)) = writers.get(file.as_path()) {
                        matches.push((run_index, session, pid));
                    }
                }
            }
        }
        for (run, session, pid) in matches {
            self.assign_run(run, session, ClaimBasis::OpenFile, pid);
        }
    }

    /// The session that a run was started with. It may have opened another one since, so that this
    /// settles nothing; but one that another process is proven to have needs no further question.
    fn note_names(&mut self) {
        for (index, run) in self.free_runs() {
            let names =
                [(ClaimBasis::Argument, &run.argument), (ClaimBasis::Environment, &run.variable)];
            let found = names
                .into_iter()
                .find_map(|(how, name)| Some((how, self.place_of(name.as_ref()?)?)));
            let Some((how, session)) = found else { continue };
            if self.is_held(session) {
                self.assign_run(index, session, how, run.innermost_pid());
            } else {
                self.named.entry(index).or_insert(Named {
                    session,
                    how,
                    claim: None,
                    told_at: None,
                });
            }
        }
    }

    /// When a session was last written by its agent.
    fn written_at(&self, session: &Session) -> Option<Time> {
        match self.adapter.agent_profile().opening.writes_others_files {
            true => session.digest.last_activity_at.or(session.digest.started_at),
            false => session.last_written_at(),
        }
    }

    fn is_held(&self, session: usize) -> bool {
        self.sessions[session].session.claims.iter().any(|claim| claim.liveness.is_alive())
    }

    /// What was proven at an end holds until a later sign of life.
    fn recall_ends(&mut self) {
        for one in &mut self.sessions {
            let session = &mut one.session;
            // Over for want of a process anyway: not worth a look at the store each.
            if self.ends.are_looked_up() && session.claims.is_empty() {
                continue;
            }
            let Some(ended) = self.ends.get(session.agent, &session.id) else { continue };
            let speaks_since = |claim: &ProcessClaim| {
                claim.how != ClaimBasis::CouldOpen
                    && !claim.liveness.is_dead()
                    && claim.observed_at > ended
            };
            let lives_on = session.last_written_at().is_some_and(|at| at > ended.plus(END_SLACK));
            if !lives_on && !session.claims.iter().any(speaks_since) {
                session.claims.push(end_claim(ended, RECORD));
            }
        }
    }

    /// A claim of a run on a session that is yet to be named.
    fn claim_of(
        &self,
        run: &AgentRun,
        how: ClaimBasis,
        liveness: Liveness,
    ) -> Option<ProcessClaim> {
        let pid = run.innermost_pid();
        let row = self.table.get(pid)?;
        // Another user's process may not let itself be identified in full: pid and start do.
        let identity = self.machine.identify_process(pid).unwrap_or(Identity {
            start: Some(row.start),
            comm: Some(row.comm.clone()),
            ..Identity::recorded_by_agent(Some(pid))
        });
        Some(ProcessClaim {
            how,
            liveness,
            started_at: row.started_at,
            identity,
            activity: None,
            waiting_for: None,
            source: PROCESS_TABLE.to_owned(),
            observed_at: self.machine.now(),
            directory: run.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned()),
            shared: None,
        })
    }
}

/// That an end was recorded.
fn end_claim(ended: Time, source: &str) -> ProcessClaim {
    ProcessClaim {
        how: ClaimBasis::RecordedEnd,
        liveness: Liveness::Dead(Death::Recorded),
        identity: Identity::recorded_by_agent(None),
        started_at: None,
        activity: None,
        waiting_for: None,
        source: source.to_owned(),
        observed_at: ended,
        directory: None,
        shared: None,
    }
}

/// Whether a session works in this directory, links resolved.
fn is_in(session: &Session, directory: &Path) -> bool {
    let Some(cwd) = &session.digest.cwd else {
        return false;
    };
    let cwd = Path::new(cwd);
    cwd == directory || std::fs::canonicalize(cwd).is_ok_and(|cwd| cwd == directory)
}
