//! Merges sightings into sessions, and finds out which process each belongs to.
//!
//! Associations are made strongest first, and a process that has been given to a session by a
//! stronger one is not given to another by a weaker one: the agent's own registration, its lock,
//! a transcript held open, the command line, the environment, and last the directory.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use adapters::{Adapter, Source};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use model::identity::Identity;
use model::liveness::{Death, Doubt, Life, Liveness, Observer, RunState};
use model::rules::track::Track;
use model::session::{Claim, How, Kind, Origin, Session, Transcript};
use model::sighting::{Digest, Proof, Registration, Scope};
use model::time::Time;
use model::wire::Unattached;
use store::state::Tracked;
use sys::proc::{LockHolder, Table};

use super::discover::Seen;
use super::processes::{Processes, Run};
use super::{Observed, START_SLACK};

/// Sessions with their processes, not yet judged.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) sessions: Vec<Observed>,
    pub(super) subagents: Vec<Observed>,
    pub(super) unattached: Vec<Unattached>,
}

const PROCESS_TABLE: &str = "process table";
const HOOKS: &str = "hooks";

pub(super) fn identify(
    now: Time,
    observer: &Observer,
    processes: &Processes,
    seen: Vec<Seen>,
    tracks: &[Tracked],
) -> Merged {
    let mut merged = Merged { sessions: Vec::new(), subagents: Vec::new(), unattached: Vec::new() };
    for seen in seen {
        let runs: Vec<&Run> = processes.of(seen.adapter.about().id).collect();
        let mut desk = Desk {
            now,
            observer,
            table: &processes.table,
            adapter: seen.adapter,
            runs,
            taken: HashSet::new(),
            sessions: Vec::with_capacity(seen.transcripts.len()),
            subagents: Vec::new(),
            by_id: ById::with_capacity(seen.transcripts.len()),
        };
        desk.add_transcripts(seen.transcripts);
        desk.register(seen.registrations);
        desk.hear(tracks);
        desk.match_open_files();
        desk.match_names();
        desk.match_directories();
        desk.close(&mut merged);
    }
    merged
}

/// One agent's sessions while they are being matched with processes.
struct Desk<'a> {
    now: Time,
    observer: &'a Observer,
    table: &'a Table,
    adapter: &'static dyn Adapter,
    runs: Vec<&'a Run>,
    /// Runs that already belong to a session, by index.
    taken: HashSet<usize>,
    sessions: Vec<Observed>,
    subagents: Vec<Observed>,
    by_id: ById,
}

/// Which session has an id. It holds places only: the ids stand in the sessions.
#[derive(Default)]
struct ById {
    places: HashTable<usize>,
    hasher: foldhash::fast::RandomState,
}

impl ById {
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

impl<'a> Desk<'a> {
    fn add_transcripts(&mut self, transcripts: Vec<(Box<Source>, Box<Digest>)>) {
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
            self.add(source, digest, root);
        }
        self.attach_subagents();
    }

    /// Adds what one transcript says. Two transcripts of one session: the newer one speaks.
    fn add(&mut self, source: Box<Source>, digest: Box<Digest>, root: Arc<str>) {
        let mut session = Session {
            id: source.id.clone(),
            kind: Kind::Native,
            agent: self.adapter.about().id,
            digest,
            transcript: Some(Transcript {
                path: source.path.clone(),
                stamp: source.stamp,
                bytes: source.bytes.unwrap_or(source.stamp.bytes),
            }),
            origin: self.origin(root, source.format),
            claims: Vec::new(),
            linked: Vec::new(),
        };
        session.digest.title = source.title.clone().or(session.digest.title.take());
        session.digest.name = source.name.clone().or(session.digest.name.take());
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

    fn origin(&self, root: Arc<str>, format: &'static str) -> Origin {
        let about = self.adapter.about();
        Origin { adapter: about.id, root, format, certainty: about.certainty }
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
                parent.spend(tokens);
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
    fn register(&mut self, registrations: Vec<Registration>) {
        for registration in registrations {
            let claim = self.examine(&registration);
            let target = match &registration.scope {
                Scope::Session(id) => self.session_of(id, &registration, claim.liveness),
                Scope::Store(path) => self.newest(|session| {
                    session.transcript.as_ref().is_some_and(|transcript| &transcript.path == path)
                }),
                Scope::Unreadable => self.beside_process(claim.identity.pid),
            };
            let Some(index) = target else { continue };
            if claim.liveness.is_alive() {
                self.take_run_of(claim.identity.pid);
            }
            self.sessions[index].session.claims.push(claim);
        }
    }

    /// What a registration proves.
    fn examine(&self, registration: &Registration) -> Claim {
        let (how, liveness, identity) = match (&registration.proof, &registration.scope) {
            (Proof::Process { identity, .. }, Scope::Unreadable) => (
                How::UnreadableRegistration,
                Liveness::Unknown(Doubt::Unreadable),
                identity.clone(),
            ),
            (Proof::Process { identity, holds }, scope) => {
                let mut liveness = sys::proc::probe(identity, self.observer);
                let unnamed =
                    matches!(liveness, Liveness::Unknown(Doubt::Incomplete | Doubt::ClockUnproven));
                if let (true, Some(pid), Some(file)) = (unnamed, identity.pid, holds)
                    && self.table.holds_open(pid, file.dev, file.ino)
                {
                    liveness = self.alive(pid);
                }
                let how = match scope {
                    Scope::Store(_) => How::Store,
                    _ => How::Registered,
                };
                (how, liveness, identity.clone())
            }
            (Proof::Lock(file), _) => {
                let (liveness, pid) = match sys::proc::flock_holder(file.dev, file.ino) {
                    LockHolder::Process(pid) => (self.alive(pid), Some(pid)),
                    LockHolder::Nobody => (Liveness::Dead(Death::Gone), None),
                    LockHolder::Unseen => (Liveness::Unknown(Doubt::Blind), None),
                };
                (How::Locked, liveness, Identity::recorded_by_agent(pid))
            }
        };
        let observed_at = identity.recorded_at.unwrap_or(self.now);
        let identity = match (liveness.is_alive(), identity.pid) {
            (true, Some(pid)) => sys::proc::identify_as(pid, self.observer).unwrap_or(identity),
            _ => identity,
        };
        Claim {
            how,
            liveness,
            started_at: identity.pid.and_then(|pid| self.table.get(pid)?.started_at),
            identity,
            activity: registration.activity,
            waiting_for: registration.waiting_for.clone(),
            source: registration.source.to_string_lossy().into_owned(),
            observed_at,
        }
    }

    /// What hooks told of open sessions.
    fn hear(&mut self, tracks: &[Tracked]) {
        let agent = self.adapter.about().id;
        for Tracked { id, track, .. } in tracks.iter().filter(|one| one.agent == agent) {
            let Some(index) = self.session_told_of(id, track) else { continue };
            let known = &mut self.sessions[index].session.digest;
            known.cwd = known.cwd.take().or_else(|| track.cwd.clone());
            known.last_activity_at = known.last_activity_at.max(track.last_sign_at);
            let Some(owner) = &track.owner else { continue };
            let liveness = sys::proc::probe(owner, self.observer);
            if track.owner_unconfirmed && !liveness.is_alive() {
                continue;
            }
            if liveness.is_alive() {
                self.take_run_of(owner.pid);
            }
            self.sessions[index].session.claims.push(Claim {
                how: How::Hook,
                liveness,
                started_at: owner.pid.and_then(|pid| self.table.get(pid)?.started_at),
                identity: owner.clone(),
                activity: track.activity,
                waiting_for: track.waiting_for.clone(),
                source: HOOKS.to_owned(),
                observed_at: track.changed_at.or(track.last_sign_at).unwrap_or(self.now),
            });
        }
    }

    /// The session that hooks told of. One without a transcript is taken at their word.
    fn session_told_of(&mut self, id: &str, track: &Track) -> Option<usize> {
        if let Some(index) = self.by_id.get(&self.sessions, id) {
            return Some(index);
        }
        let is_subagent = self.subagents.iter().any(|child| child.session.id == id);
        if is_subagent || !track.was_begun() || track.owner.is_none() {
            return None;
        }
        let digest = Digest {
            first_prompt: track.first_prompt.clone(),
            started_at: track.began_at,
            model: track.model.clone(),
            ..Digest::default()
        };
        let session = Session {
            id: id.to_owned(),
            kind: Kind::Native,
            agent: self.adapter.about().id,
            digest: digest.into(),
            transcript: None,
            origin: self.origin(track.root.as_deref().unwrap_or_default().into(), "hook"),
            claims: Vec::new(),
            linked: Vec::new(),
        };
        Some(self.by_id.push(&mut self.sessions, Observed::unjudged(session, None)))
    }

    /// How a process that is known to be the right one is alive.
    fn alive(&self, pid: u32) -> Liveness {
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
        registration: &Registration,
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
            kind: Kind::Native,
            agent: self.adapter.about().id,
            digest: registration.digest.clone().into(),
            transcript: None,
            origin: self.origin(root, "registration"),
            claims: Vec::new(),
            linked: Vec::new(),
        };
        Some(self.by_id.push(&mut self.sessions, Observed::unjudged(session, None)))
    }

    /// The session with the newest activity among those that `fit`.
    fn newest(&self, fits: impl Fn(&Session) -> bool) -> Option<usize> {
        (0..self.sessions.len())
            .filter(|&index| fits(&self.sessions[index].session))
            .max_by_key(|&index| self.sessions[index].session.last_activity_at())
    }

    /// The newest session in the directory of a process whose registration cannot be read.
    fn beside_process(&self, pid: Option<u32>) -> Option<usize> {
        let cwd = self.table.cwd(pid?)?;
        self.newest(|session| is_in(session, &cwd))
    }

    fn take_run_of(&mut self, pid: Option<u32>) {
        let run = self.runs.iter().position(|run| pid.is_some_and(|pid| run.pids.contains(&pid)));
        self.taken.extend(run);
    }

    /// Gives a run to a session.
    fn give(&mut self, run: usize, session: usize, how: How, pid: u32) {
        let Ok(identity) = sys::proc::identify_as(pid, self.observer) else {
            return;
        };
        self.taken.insert(run);
        let (liveness, row) = (self.alive(pid), self.table.get(pid));
        self.sessions[session].session.claims.push(Claim {
            how,
            liveness,
            started_at: row.and_then(|row| row.started_at),
            identity,
            activity: None,
            waiting_for: None,
            source: PROCESS_TABLE.to_owned(),
            observed_at: self.now,
        });
    }

    fn free_runs(&self) -> Vec<(usize, &'a Run)> {
        let free = |(index, _): &(usize, &Run)| !self.taken.contains(index);
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
            self.give(run, session, How::OpenFile, pid);
        }
    }

    /// The id on the command line or in the environment.
    fn match_names(&mut self) {
        for (index, run) in self.free_runs() {
            let named = [(How::Argument, &run.argument), (How::Environment, &run.variable)];
            for (how, name) in named {
                let session = name.as_ref().and_then(|name| self.by_id.get(&self.sessions, name));
                if let Some(session) = session {
                    self.give(index, session, how, run.innermost());
                    break;
                }
            }
        }
    }

    /// The agent runs in a session's directory, and the session is the newest one it can have
    /// written to since it started.
    fn match_directories(&mut self) {
        let mut free = self.free_runs();
        free.retain(|(_, run)| run.ours && !run.server && run.cwd.is_some());
        // The latest process can have written the fewest sessions: it chooses first.
        free.sort_by_key(|(_, run)| std::cmp::Reverse(run.started_at));
        for (index, run) in free {
            let Some(cwd) = &run.cwd else { continue };
            let since = run.started_at.map(|start| start.minus(START_SLACK));
            let could_be = |session: &Session| {
                let unclaimed = !session.claims.iter().any(|claim| claim.liveness.is_alive());
                let root = Path::new(&*session.origin.root);
                let same_home = run.roots.is_empty() || run.roots.iter().any(|r| r == root);
                unclaimed && same_home && is_in(session, cwd)
            };
            let begun_here =
                |session: &Session| session.digest.started_at >= since && could_be(session);
            let written_here = |session: &Session| last_sign(session) >= since && could_be(session);
            let chosen = self
                .newest(begun_here)
                .or_else(|| self.newest(written_here))
                .or_else(|| run.continues.then(|| self.newest(could_be)).flatten());
            if let Some(session) = chosen {
                self.give(index, session, How::Directory, run.innermost());
            }
        }
    }

    /// Sub-agents live in their parent's process; what is left over is reported.
    fn close(mut self, merged: &mut Merged) {
        for Observed { session: child, .. } in &mut self.subagents {
            let parent = child.digest.parent.as_ref();
            let parent = parent.and_then(|parent| self.by_id.get(&self.sessions, parent));
            if let Some(parent) = parent {
                child.claims = self.sessions[parent].session.claims.clone();
                for claim in &mut child.claims {
                    claim.activity = None;
                    claim.waiting_for = None;
                }
            }
        }
        for (_, run) in self.free_runs() {
            let observed = |root: &PathBuf| {
                self.sessions.iter().any(|one| Path::new(&*one.session.origin.root) == root)
            };
            if run.ours && !run.server && run.roots.iter().any(observed) {
                merged.unattached.push(Unattached {
                    agent: self.adapter.about().id,
                    pid: run.innermost(),
                    cwd: run.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned()),
                    started_at: run.started_at,
                });
            }
        }
        if merged.sessions.is_empty() {
            merged.sessions = self.sessions;
        } else {
            merged.sessions.append(&mut self.sessions);
        }
        merged.subagents.append(&mut self.subagents);
    }
}

/// The last time a session's conversation or file changed.
fn last_sign(session: &Session) -> Option<Time> {
    let written = session.transcript.as_ref().map(|transcript| transcript.stamp.modified_at());
    session.last_activity_at().max(written)
}

/// Whether a session works in this directory, links resolved.
fn is_in(session: &Session, directory: &Path) -> bool {
    let Some(cwd) = &session.digest.cwd else {
        return false;
    };
    let cwd = Path::new(cwd);
    cwd == directory || std::fs::canonicalize(cwd).is_ok_and(|cwd| cwd == directory)
}
