//! Merges sightings into sessions, and finds out which process each belongs to.
//!
//! A run is settled by the agent's own registration, its lock, a hook or a transcript held open.
//! Every other run could have any of several sessions open: `model::rules::open` says what that means
//! for each of them.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use adapters::{Adapter, Opening, TranscriptSource};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use model::identity::Identity;
use model::liveness::{Death, Doubt, Life, Liveness, Observer, RunState};
use model::rules::open::{
    Attachment, END_SLACK, OpenCandidate, START_SLACK, SpareRun, UnsettledRun, attach_runs,
};
use model::rules::track::HookTrack;
use model::session::{
    ClaimBasis, ProcessClaim, Session, SessionKind, SessionOrigin, TranscriptFile,
};
use model::sighting::{
    ProcessRegistration, RegistrationProof, RegistrationScope, TranscriptDigest, TurnState,
};
use model::time::Time;
use model::wire::UnattachedAgent;
use store::state::TrackedSession;
use sys::proc::{LockHolder, ProcessRow, ProcessTable};

use super::Observed;
use super::discover::AgentSightings;
use super::ends::RecordedEnds;
use super::processes::{AgentProcesses, AgentRun, Reach, Root};

/// Sessions with their processes, not yet judged.
#[derive(Debug)]
pub(super) struct MergedSessions {
    pub(super) sessions: Vec<Observed>,
    pub(super) subagents: Vec<Observed>,
    pub(super) unattached: Vec<UnattachedAgent>,
}

const PROCESS_TABLE: &str = "process table";
const HOOKS: &str = "hooks";
const RECORD: &str = "ostler's own record";

/// So many processes are named that could have one session open.
const MOST_OPENERS: usize = 4;

pub(super) fn identify_sessions(
    now: Time,
    observer: &Observer,
    processes: &AgentProcesses,
    seen: Vec<AgentSightings>,
    tracks: &[TrackedSession],
    ends: &RecordedEnds,
) -> MergedSessions {
    let mut merged =
        MergedSessions { sessions: Vec::new(), subagents: Vec::new(), unattached: Vec::new() };
    for seen in seen {
        let runs: Vec<&AgentRun> = processes.runs_of(seen.adapter.agent_profile().id).collect();
        let mut desk = SessionMatcher {
            now,
            observer,
            table: &processes.table,
            adapter: seen.adapter,
            runs,
            taken: HashSet::new(),
            named: HashMap::new(),
            spare: Vec::new(),
            ends,
            roots: seen.roots,
            sessions: Vec::with_capacity(seen.transcripts.len()),
            subagents: Vec::new(),
            by_id: SessionsById::with_capacity(seen.transcripts.len()),
        };
        desk.add_transcripts(seen.transcripts);
        desk.apply_registrations(seen.registrations);
        desk.apply_hook_tracks(tracks);
        desk.match_open_files();
        desk.note_names();
        desk.match_possible_openers();
        desk.recall_ends();
        desk.close(&mut merged);
    }
    merged
}

/// One agent's sessions while they are being matched with processes.
struct SessionMatcher<'a> {
    now: Time,
    observer: &'a Observer,
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
    sessions: Vec<Observed>,
    subagents: Vec<Observed>,
    by_id: SessionsById,
}

/// The session that a run names in a way that settles nothing.
struct Named {
    session: usize,
    how: ClaimBasis,
    /// A registration that may have been left behind.
    claim: Option<ProcessClaim>,
}

/// Which session has an id. It holds places only: the ids stand in the sessions.
#[derive(Default)]
struct SessionsById {
    places: HashTable<usize>,
    hasher: foldhash::fast::RandomState,
}

impl SessionsById {
    fn with_capacity(count: usize) -> Self {
        Self { places: HashTable::with_capacity(count), ..Self::default() }
    }

    fn get(&self, sessions: &[Observed], id: &str) -> Option<usize> {
        let hash = self.hasher.hash_one(id);
        self.places.find(hash, |&place| sessions[place].session.id == id).copied()
    }

    /// Adds a session, and its id with it. Of two with one id the later is found.
    fn push(&mut self, sessions: &mut Vec<Observed>, new: Observed) -> usize {
        let place = sessions.len();
        let hash = self.hasher.hash_one(new.session.id.as_str());
        let same = |&known: &usize| sessions[known].session.id == new.session.id;
        let rehash = |&known: &usize| self.hasher.hash_one(sessions[known].session.id.as_str());
        match self.places.entry(hash, same, rehash) {
            Entry::Occupied(mut known) => *known.get_mut() = place,
            Entry::Vacant(free) => {
                free.insert(place);
            }
        }
        sessions.push(new);
        place
    }
}

impl<'a> SessionMatcher<'a> {
    fn add_transcripts(
        &mut self,
        transcripts: Vec<(Box<TranscriptSource>, Box<TranscriptDigest>)>,
    ) {
        // Sources of one root follow each other and share it.
        let mut known: Option<(Arc<Path>, Arc<str>)> = None;
        for (source, digest) in transcripts {
            let root = match &known {
                Some((path, text)) if Arc::ptr_eq(path, &source.root) => text.clone(),
                _ => {
                    let text: Arc<str> = source.root.to_string_lossy().into();
                    known = Some((source.root.clone(), text.clone()));
                    text
                }
            };
            self.merge_transcript(source, digest, root);
        }
        self.attach_subagents();
    }

    /// Adds what one transcript says. Two transcripts of one session: the newer one speaks.
    fn merge_transcript(
        &mut self,
        source: Box<TranscriptSource>,
        digest: Box<TranscriptDigest>,
        root: Arc<str>,
    ) {
        let mut session = Session {
            id: source.id.clone(),
            kind: SessionKind::Native,
            agent: self.adapter.agent_profile().id,
            digest,
            transcript: Some(TranscriptFile {
                path: source.path.clone(),
                stamp: source.stamp,
                bytes: source.bytes.unwrap_or(source.stamp.bytes),
                shared: source.bytes.is_some(),
            }),
            origin: self.session_origin(root, source.format),
            claims: Vec::new(),
            linked: Vec::new(),
        };
        session.digest.title = source.title.clone().or(session.digest.title.take());
        session.digest.name = source.name.clone().or(session.digest.name.take());
        session.digest.started_at = session.digest.started_at.or(source.started_at);
        session.digest.parent = source.parent.clone().or(session.digest.parent.take());
        if session.digest.parent.is_some() {
            self.subagents.push(Observed::unjudged(session, Some(source)));
            return;
        }
        let known = self.by_id.get(&self.sessions, &session.id);
        let new = Observed::unjudged(session, Some(source));
        match known.map(|place| &mut self.sessions[place]) {
            Some(known) => {
                if new.session.last_activity_at() > known.session.last_activity_at() {
                    *known = new;
                }
            }
            None => {
                self.by_id.push(&mut self.sessions, new);
            }
        }
    }

    fn session_origin(&self, root: Arc<str>, format: &'static str) -> SessionOrigin {
        let about = self.adapter.agent_profile();
        SessionOrigin { adapter: about.id, root, format, certainty: about.certainty }
    }

    /// What sub-agents used counts for their parents. One whose parent is nowhere to be found is a
    /// session of its own.
    fn attach_subagents(&mut self) {
        let parents: HashMap<String, String> = self
            .subagents
            .iter()
            .filter_map(|one| Some((one.session.id.clone(), one.session.digest.parent.clone()?)))
            .collect();
        let mut kept = Vec::new();
        for one in std::mem::take(&mut self.subagents) {
            let Some(index) = self.top_parent(&one.session, &parents) else {
                self.by_id.push(&mut self.sessions, one);
                continue;
            };
            let (child, parent) = (&one.session, &mut self.sessions[index].session.digest);
            if let Some(tokens) = child.digest.tokens {
                parent.add_usage(tokens);
            }
            if !parent.cost_covers_subagents
                && let Some(cost) = child.digest.cost_micro_usd
            {
                *parent.cost_micro_usd.get_or_insert_default() += cost;
            }
            parent.last_activity_at = parent.last_activity_at.max(child.digest.last_activity_at);
            kept.push(one);
        }
        self.subagents = kept;
    }

    /// The session at the top of a chain of sub-agents.
    fn top_parent(&self, child: &Session, parents: &HashMap<String, String>) -> Option<usize> {
        let mut parent = child.digest.parent.as_ref()?;
        for _ in 0..32 {
            if let Some(index) = self.by_id.get(&self.sessions, parent) {
                return Some(index);
            }
            parent = parents.get(parent)?;
        }
        None
    }

    /// The agent's own records of processes.
    fn apply_registrations(&mut self, registrations: Vec<ProcessRegistration>) {
        for registration in registrations {
            let claim = self.examine_registration(&registration);
            let target = match &registration.scope {
                RegistrationScope::Session(id) => {
                    self.session_of(id, &registration, claim.liveness)
                }
                RegistrationScope::Store(path) => self.newest_session(|session| {
                    session.transcript.as_ref().is_some_and(|transcript| &transcript.path == path)
                }),
                RegistrationScope::Unreadable => self.beside_process(claim.identity.pid),
            };
            let Some(index) = target else { continue };
            if claim.liveness.is_alive() {
                let run = self.run_of(claim.identity.pid);
                if let Some(run) =
                    run.filter(|_| self.adapter.agent_profile().opening.leaves_lock_behind)
                {
                    let (how, claim) = (claim.how, Some(claim));
                    self.named.insert(run, Named { session: index, how, claim });
                    continue;
                }
                self.taken.extend(run);
            }
            self.sessions[index].session.claims.push(claim);
        }
    }

    /// What a registration proves.
    fn examine_registration(&self, registration: &ProcessRegistration) -> ProcessClaim {
        let (how, liveness, identity) = match (&registration.proof, &registration.scope) {
            (RegistrationProof::Process { identity, .. }, RegistrationScope::Unreadable) => (
                ClaimBasis::UnreadableRegistration,
                Liveness::Unknown(Doubt::Unreadable),
                identity.clone(),
            ),
            (RegistrationProof::Process { identity, holds }, scope) => {
                let mut liveness = sys::proc::probe_liveness(identity, self.observer);
                let unnamed =
                    matches!(liveness, Liveness::Unknown(Doubt::Incomplete | Doubt::ClockUnproven));
                if let (true, Some(pid), Some(file)) = (unnamed, identity.pid, holds)
                    && self.table.holds_open(pid, file.dev, file.ino)
                {
                    liveness = self.running_liveness(pid);
                }
                let how = match scope {
                    RegistrationScope::Store(_) => ClaimBasis::Store,
                    _ => ClaimBasis::Registered,
                };
                (how, liveness, identity.clone())
            }
            (RegistrationProof::Lock(file), _) => {
                let (liveness, pid) = match sys::proc::flock_holder(file.dev, file.ino) {
                    LockHolder::Process(pid) => (self.running_liveness(pid), Some(pid)),
                    LockHolder::Nobody => (Liveness::Dead(Death::Gone), None),
                    LockHolder::Unseen => (Liveness::Unknown(Doubt::Blind), None),
                };
                (ClaimBasis::Locked, liveness, Identity::recorded_by_agent(pid))
            }
        };
        let observed_at = identity.recorded_at.unwrap_or(self.now);
        let identity = match (liveness.is_alive(), identity.pid) {
            (true, Some(pid)) => sys::proc::identify_as(pid, self.observer).unwrap_or(identity),
            _ => identity,
        };
        ProcessClaim {
            how,
            liveness,
            started_at: identity.pid.and_then(|pid| self.table.get(pid)?.started_at),
            identity,
            activity: registration.activity,
            waiting_for: registration.waiting_for.clone(),
            source: registration.source.to_string_lossy().into_owned(),
            observed_at,
            directory: None,
        }
    }

    /// What hooks told of open sessions.
    fn apply_hook_tracks(&mut self, tracks: &[TrackedSession]) {
        let agent = self.adapter.agent_profile().id;
        for TrackedSession { id, track, .. } in tracks.iter().filter(|one| one.agent == agent) {
            let Some(index) = self.session_told_of(id, track) else { continue };
            let known = &mut self.sessions[index].session.digest;
            known.cwd = known.cwd.take().or_else(|| track.cwd.clone());
            known.last_activity_at = known.last_activity_at.max(track.last_sign_at);
            let Some(owner) = &track.owner else { continue };
            let liveness = sys::proc::probe_liveness(owner, self.observer);
            if track.owner_unconfirmed && !liveness.is_alive() {
                continue;
            }
            if liveness.is_alive() {
                self.taken.extend(self.run_of(owner.pid));
            }
            self.sessions[index].session.claims.push(ProcessClaim {
                how: ClaimBasis::Hook,
                liveness,
                started_at: owner.pid.and_then(|pid| self.table.get(pid)?.started_at),
                identity: owner.clone(),
                activity: track.activity,
                waiting_for: track.waiting_for.clone(),
                source: HOOKS.to_owned(),
                observed_at: track.last_sign_at.max(track.changed_at).unwrap_or(self.now),
                directory: None,
            });
        }
    }

    /// The session that hooks told of. One without a transcript is taken at their word.
    fn session_told_of(&mut self, id: &str, track: &HookTrack) -> Option<usize> {
        if let Some(index) = self.by_id.get(&self.sessions, id) {
            return Some(index);
        }
        let is_subagent = self.subagents.iter().any(|child| child.session.id == id);
        if is_subagent || !track.was_begun() || track.owner.is_none() {
            return None;
        }
        let digest = TranscriptDigest {
            first_prompt: track.first_prompt.clone(),
            started_at: track.began_at,
            model: track.model.clone(),
            ..TranscriptDigest::default()
        };
        let session = Session {
            id: id.to_owned(),
            kind: SessionKind::Native,
            agent: self.adapter.agent_profile().id,
            digest: digest.into(),
            transcript: None,
            origin: self.session_origin(track.root.as_deref().unwrap_or_default().into(), "hook"),
            claims: Vec::new(),
            linked: Vec::new(),
        };
        Some(self.by_id.push(&mut self.sessions, Observed::unjudged(session, None)))
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

    /// The session a registration names. One without a transcript was killed before it wrote any: it
    /// is over, but it was there. A mere mark that outlived its process (an empty lock) tells of
    /// nothing and is no session.
    fn session_of(
        &mut self,
        id: &str,
        registration: &ProcessRegistration,
        liveness: Liveness,
    ) -> Option<usize> {
        if let Some(index) = self.by_id.get(&self.sessions, id) {
            let known = &mut self.sessions[index].session.digest;
            let said = &registration.digest;
            known.name = known.name.take().or_else(|| said.name.clone());
            known.cwd = known.cwd.take().or_else(|| said.cwd.clone());
            known.version = known.version.take().or_else(|| said.version.clone());
            if liveness.is_alive() {
                known.last_activity_at = known.last_activity_at.max(said.last_activity_at);
            }
            return Some(index);
        }
        // A sub-agent that registers itself speaks for its parent: they share the process.
        if let Some(child) = self.subagents.iter().find(|child| child.session.id == id) {
            let parent = child.session.digest.parent.as_ref()?;
            return self.by_id.get(&self.sessions, parent);
        }
        if liveness.is_dead() && registration.digest.cwd.is_none() {
            return None;
        }
        let root = registration.source.parent().and_then(Path::parent);
        let root: Arc<str> = root.map_or("".into(), |root| root.to_string_lossy().into());
        let session = Session {
            id: id.to_owned(),
            kind: SessionKind::Native,
            agent: self.adapter.agent_profile().id,
            digest: registration.digest.clone().into(),
            transcript: None,
            origin: self.session_origin(root, "registration"),
            claims: Vec::new(),
            linked: Vec::new(),
        };
        Some(self.by_id.push(&mut self.sessions, Observed::unjudged(session, None)))
    }

    /// The same, among those and by index.
    fn newest_in(&self, among: &[usize], fits: impl Fn(usize) -> bool) -> Option<usize> {
        let activity = |&index: &usize| self.sessions[index].session.last_activity_at();
        among.iter().copied().filter(|&index| fits(index)).max_by_key(activity)
    }

    /// The session with the newest activity among those that `fit`.
    fn newest_session(&self, fits: impl Fn(&Session) -> bool) -> Option<usize> {
        (0..self.sessions.len())
            .filter(|&index| fits(&self.sessions[index].session))
            .max_by_key(|&index| self.sessions[index].session.last_activity_at())
    }

    /// The newest session in the directory of a process whose registration cannot be read.
    fn beside_process(&self, pid: Option<u32>) -> Option<usize> {
        let cwd = self.table.cwd(pid?)?;
        self.newest_session(|session| is_in(session, &cwd))
    }

    fn run_of(&self, pid: Option<u32>) -> Option<usize> {
        self.runs.iter().position(|run| pid.is_some_and(|pid| run.pids.contains(&pid)))
    }

    /// Gives a run to a session.
    fn assign_run(&mut self, run: usize, session: usize, how: ClaimBasis, pid: u32) {
        let Ok(identity) = sys::proc::identify_as(pid, self.observer) else {
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
            observed_at: self.now,
            directory: None,
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
        for (index, Observed { session, source, .. }) in self.sessions.iter().enumerate() {
            // Whoever has a store of many sessions open may be working on any of them.
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
            let found = names.into_iter().find_map(|(how, name)| {
                Some((how, self.by_id.get(&self.sessions, name.as_ref()?)?))
            });
            let Some((how, session)) = found else { continue };
            if self.is_held(session) {
                self.assign_run(index, session, how, run.innermost_pid());
            } else {
                self.named.entry(index).or_insert(Named { session, how, claim: None });
            }
        }
    }

    fn is_held(&self, session: usize) -> bool {
        self.sessions[session].session.claims.iter().any(|claim| claim.liveness.is_alive())
    }

    /// Asks of every session that nobody is proven to have whether a run could have it open.
    fn match_possible_openers(&mut self) {
        let roots = self.look_at_roots();
        self.note_served(&roots);
        let free: Vec<(usize, &AgentRun)> =
            self.free_runs().into_iter().filter(|(_, run)| !run.server).collect();
        if !free.is_empty() {
            let places =
                Places::of(&self.sessions, &free, &roots, self.adapter.agent_profile().opening);
            let candidates: Vec<usize> =
                (0..self.sessions.len()).filter(|&one| !self.is_held(one)).collect();
            self.attach(&free, &candidates, &places);
        }
        self.note_unseen(&roots);
    }

    /// The roots of all sessions, each looked at once.
    fn look_at_roots(&self) -> HashMap<Arc<str>, Root> {
        let mut roots: HashMap<Arc<str>, Root> = HashMap::new();
        if !self.runs.is_empty() {
            let mut last: Option<&Arc<str>> = None;
            for one in &self.sessions {
                let root = &one.session.origin.root;
                if last.is_none_or(|last| !Arc::ptr_eq(last, root)) && !roots.contains_key(root) {
                    roots.insert(root.clone(), Root::look(Path::new(&**root)));
                }
                last = Some(root);
            }
        }
        roots
    }

    /// A server that has every session of its store speaks for all of them.
    fn note_served(&mut self, roots: &HashMap<Arc<str>, Root>) {
        if !self.adapter.agent_profile().opening.server_has_all {
            return;
        }
        let servers = self.runs.iter().copied().filter(|run| run.server);
        for run in servers.collect::<Vec<_>>() {
            let Some(claim) =
                self.claim_of(run, ClaimBasis::Served, self.running_liveness(run.innermost_pid()))
            else {
                continue;
            };
            for one in &mut self.sessions {
                let held = one.session.claims.iter().any(|claim| claim.liveness.is_alive());
                let root = roots.get(&one.session.origin.root);
                if !held && root.is_some_and(|root| run.reach(root) == Reach::Seen) {
                    one.session.claims.push(claim.clone());
                }
            }
        }
    }

    /// Carries out the table of `model::rules::open`.
    fn attach(&mut self, free: &[(usize, &'a AgentRun)], candidates: &[usize], places: &Places) {
        let position = |session: usize| candidates.binary_search(&session).ok();
        let runs: Vec<UnsettledRun> = std::iter::zip(free, 0..)
            .map(|((index, run), place)| {
                let named = self.named.get(index).map(|named| named.session);
                let newest = || self.newest_in(candidates, |session| places.is_in(place, session));
                UnsettledRun {
                    began_at: run.started_at,
                    named: named
                        .or_else(|| run.continues.then(newest).flatten())
                        .and_then(position),
                }
            })
            .collect();
        // An end matters only of what shows a sign of life, and each may have to be looked up.
        let began = runs.iter().map(|run| run.began_at).min().flatten();
        let shows_life = |place: usize, written_at: Option<Time>| {
            written_at >= began.map(|began| began.minus(START_SLACK))
                || runs.iter().any(|run| run.named == Some(place))
        };
        let about: Vec<OpenCandidate> = candidates
            .iter()
            .enumerate()
            .map(|(place, &one)| {
                let session = &self.sessions[one].session;
                let written_at = session.last_written_at();
                let may_be_open = shows_life(place, written_at);
                OpenCandidate {
                    written_at,
                    prompted: session.digest.turns > 0 || session.digest.first_prompt.is_some(),
                    ended_at: may_be_open
                        .then(|| self.ends.get(session.agent, &session.id))
                        .flatten(),
                }
            })
            .collect();
        let attachments =
            attach_runs(&runs, &about, |run, one| places.can_open(run, candidates[one]));
        let claims: Vec<Option<ProcessClaim>> = free
            .iter()
            .map(|(_, run)| {
                self.claim_of(
                    run,
                    ClaimBasis::CouldOpen,
                    self.running_liveness(run.innermost_pid()),
                )
            })
            .collect();
        for (&session, attachment) in candidates.iter().zip(&attachments.sessions) {
            let (openers, how, liveness) = match attachment {
                Attachment::NoRun => continue,
                Attachment::Held(runs) => (runs, ClaimBasis::Directory, None),
                Attachment::MaybeOpen(runs) => {
                    (runs, ClaimBasis::CouldOpen, Some(Liveness::Unknown(Doubt::MaybeOpen)))
                }
                Attachment::NotAttached(runs) => {
                    (runs, ClaimBasis::CouldOpen, Some(Liveness::Dead(Death::NotAttached)))
                }
            };
            for &run in openers.iter().take(MOST_OPENERS) {
                let Some(claim) = &claims[run] else { continue };
                let named = self.named.get(&free[run].0).filter(|named| named.session == session);
                let claim = match (liveness, named) {
                    (None, Some(Named { claim: Some(left), .. })) => left.clone(),
                    (None, Some(named)) => ProcessClaim { how: named.how, ..claim.clone() },
                    (liveness, _) => ProcessClaim {
                        how,
                        liveness: liveness.unwrap_or(claim.liveness),
                        ..claim.clone()
                    },
                };
                self.sessions[session].session.claims.push(claim);
            }
        }
        let pid = |run: usize| free[run].1.innermost_pid();
        for SpareRun { run, perhaps } in attachments.spare {
            self.spare.push((free[run].0, perhaps.into_iter().map(pid).collect()));
        }
    }

    /// What cannot be seen may have anything open that nothing else speaks for.
    fn note_unseen(&mut self, roots: &HashMap<Arc<str>, Root>) {
        let unseen: Vec<(&AgentRun, Vec<&Arc<str>>)> = self
            .free_runs()
            .into_iter()
            .map(|(_, run)| {
                let reached = roots.iter().filter(|(_, root)| run.reach(root) == Reach::Unseen);
                (run, reached.map(|(name, _)| name).collect())
            })
            .collect();
        for (run, reached) in unseen {
            if reached.is_empty() {
                continue;
            }
            let claim = self.claim_of(run, ClaimBasis::CouldOpen, Liveness::Unknown(Doubt::Blind));
            let Some(claim) = claim else { continue };
            for one in &mut self.sessions {
                let firm = |claim: &ProcessClaim| claim.how != ClaimBasis::CouldOpen;
                let known = one.session.claims.iter().any(firm);
                if !known && reached.contains(&&one.session.origin.root) {
                    one.session.claims.push(claim.clone());
                }
            }
        }
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

    /// A command that was begun after an agent asked for consent was allowed: it runs.
    fn settle_consent(&mut self) {
        const COMMAND_START_SLACK: Duration = Duration::from_secs(2);
        for Observed { session, .. } in &mut self.sessions {
            let (TurnState::Asking(_), Some(asked)) =
                (&session.digest.turn, session.digest.last_activity_at)
            else {
                continue;
            };
            let alive = session.claims.iter().filter(|claim| claim.liveness.is_alive());
            let pids: Vec<u32> = alive.filter_map(|claim| claim.identity.pid).collect();
            let is_command = |row: &ProcessRow| {
                pids.contains(&row.ppid)
                    && row.started_at.is_none_or(|at| at.plus(COMMAND_START_SLACK) >= asked)
            };
            if self.table.rows().iter().any(is_command) {
                session.digest.turn = TurnState::Open;
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
        let identity = sys::proc::identify_as(pid, self.observer).unwrap_or(Identity {
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
            observed_at: self.now,
            directory: run.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned()),
        })
    }

    /// Sub-agents live in their parent's process; what is left over is reported.
    fn close(mut self, merged: &mut MergedSessions) {
        for Observed { session: child, .. } in &mut self.subagents {
            let parent = child.digest.parent.as_ref();
            let parent = parent.and_then(|parent| self.by_id.get(&self.sessions, parent));
            if let Some(parent) = parent {
                child.claims = self.sessions[parent].session.claims.clone();
                for claim in &mut child.claims {
                    claim.activity = None;
                    claim.waiting_for = None;
                }
                if let Some(ended) = child.digest.ended_at {
                    finish_subagent(child, ended);
                }
            }
        }
        self.settle_consent();
        self.report_unattached(merged);
        if merged.sessions.is_empty() {
            merged.sessions = self.sessions;
        } else {
            merged.sessions.append(&mut self.sessions);
        }
        merged.subagents.append(&mut self.subagents);
    }

    /// Names the runs that have no session, whether or not there are any sessions.
    fn report_unattached(&self, merged: &mut MergedSessions) {
        for (index, perhaps) in &self.spare {
            let run = self.runs[*index];
            let observed = run.roots.iter().any(|root| self.roots.contains(root));
            if run.ours && !run.server && observed && !self.is_served(run) {
                merged.unattached.push(UnattachedAgent {
                    agent: self.adapter.agent_profile().id,
                    pid: run.innermost_pid(),
                    cwd: run.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned()),
                    started_at: run.started_at,
                    perhaps: perhaps.clone(),
                });
            }
        }
    }

    /// Whether a server of the agent has a session of the run's directory: the run is its window.
    fn is_served(&self, run: &AgentRun) -> bool {
        let servers: Vec<u32> =
            self.runs.iter().filter(|run| run.server).flat_map(|run| run.pids.clone()).collect();
        let holds = |claim: &ProcessClaim| {
            claim.liveness.is_alive()
                && claim.identity.pid.is_some_and(|pid| servers.contains(&pid))
        };
        !servers.is_empty()
            && self.sessions.iter().any(|one| {
                one.session.claims.iter().any(holds)
                    && one.session.last_written_at() >= run.started_at
                    && run.cwd.as_ref().is_some_and(|cwd| is_in(&one.session, cwd))
            })
    }
}

/// A sub-agent that has finished is over, although its parent's process is there; what it wrote is
/// kept as long as that could have it open.
fn finish_subagent(child: &mut Session, ended: Time) {
    for claim in child.claims.iter_mut().filter(|claim| claim.liveness.is_alive()) {
        claim.how = ClaimBasis::CouldOpen;
        claim.liveness = Liveness::Dead(Death::NotAttached);
    }
    let source = child.transcript.as_ref().map(|own| own.path.to_string_lossy().into_owned());
    child.claims.push(end_claim(ended, source.as_deref().unwrap_or(RECORD)));
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
    }
}

/// Where sessions and runs work, so that each directory is looked at once.
struct Places {
    /// For each session, its directory and its root.
    of_session: Vec<(usize, usize)>,
    /// For each directory, which runs work there.
    in_directory: Vec<Vec<bool>>,
    /// For each root, which runs keep their sessions there and can be seen.
    in_root: Vec<Vec<bool>>,
    beyond_directory: bool,
}

impl Places {
    fn of(
        sessions: &[Observed],
        runs: &[(usize, &AgentRun)],
        roots: &HashMap<Arc<str>, Root>,
        opening: Opening,
    ) -> Self {
        let mut places = Self {
            of_session: Vec::with_capacity(sessions.len()),
            in_directory: Vec::new(),
            in_root: Vec::new(),
            beyond_directory: opening.beyond_directory,
        };
        let mut directories: HashMap<Option<&str>, usize> = HashMap::new();
        let mut known_roots: HashMap<&str, usize> = HashMap::new();
        for Observed { session, .. } in sessions {
            let cwd = session.digest.cwd.as_deref();
            let directory = *directories.entry(cwd).or_insert_with(|| {
                places.in_directory.push(runs.iter().map(|(_, run)| works_in(run, cwd)).collect());
                places.in_directory.len() - 1
            });
            let root = *known_roots.entry(&session.origin.root).or_insert_with(|| {
                let root = roots.get(&session.origin.root);
                let reaches =
                    |run: &AgentRun| root.is_some_and(|root| run.reach(root) == Reach::Seen);
                places.in_root.push(runs.iter().map(|(_, run)| reaches(run)).collect());
                places.in_root.len() - 1
            });
            places.of_session.push((directory, root));
        }
        places
    }

    /// Whether a run works in the directory of a session, and keeps its sessions where that is.
    fn is_in(&self, run: usize, session: usize) -> bool {
        let (directory, root) = self.of_session[session];
        self.in_root[root][run] && self.in_directory[directory][run]
    }

    /// Whether a run could have a session open.
    fn can_open(&self, run: usize, session: usize) -> bool {
        let (_, root) = self.of_session[session];
        (self.beyond_directory && self.in_root[root][run]) || self.is_in(run, session)
    }
}

/// Whether a run works in a directory, by name or by what it is. Of a session whose directory is not
/// known it may be the one.
fn works_in(run: &AgentRun, cwd: Option<&str>) -> bool {
    let Some(cwd) = cwd.map(Path::new) else { return true };
    run.cwd.as_deref() == Some(cwd)
        || (run.cwd_id.is_some() && run.cwd_id == sys::proc::FileId::from_path(cwd))
}

/// Whether a session works in this directory, links resolved.
fn is_in(session: &Session, directory: &Path) -> bool {
    let Some(cwd) = &session.digest.cwd else {
        return false;
    };
    let cwd = Path::new(cwd);
    cwd == directory || std::fs::canonicalize(cwd).is_ok_and(|cwd| cwd == directory)
}
