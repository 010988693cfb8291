//! What is told of processes: by the agent's own registrations and locks, and by hooks.

use std::path::Path;
use std::sync::Arc;

use model::identity::Identity;
use model::liveness::{Death, Doubt, Liveness};
use model::rules::track::HookTrack;
use model::session::{ClaimBasis, ProcessClaim, Session, SessionKind};
use model::sighting::{
    ProcessRegistration, RegistrationProof, RegistrationScope, TranscriptDigest,
};
use store::state::TrackedSession;
use sys::proc::LockHolder;

use super::{Named, SessionMatcher, is_in};
use crate::observe::source::FoundSession;

/// Where a claim comes from that hooks told.
const HOOKS: &str = "hooks";

impl SessionMatcher<'_> {
    /// The agent's own records of processes.
    pub(super) fn apply_registrations(&mut self, registrations: Vec<ProcessRegistration>) {
        for registration in registrations {
            let claim = self.examine_registration(&registration);
            let target = match &registration.scope {
                RegistrationScope::Session(id) => self.session_of(id, &registration, &claim),
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
                    self.named.insert(run, Named { session: index, how, claim, told_at: None });
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
                let mut liveness = self.machine.probe_process(identity);
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
        let observed_at = identity.recorded_at.unwrap_or(self.machine.now());
        let identity = match (liveness.is_alive(), identity.pid) {
            (true, Some(pid)) => self.machine.identify_process(pid).unwrap_or(identity),
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
            shared: None,
        }
    }

    /// The session a registration names. One without a transcript was killed before it wrote any: it
    /// is over, but it was there. A mere mark that outlived its process (an empty lock) tells of
    /// nothing and is no session; nor is what a server keeps ready and without a prompt.
    fn session_of(
        &mut self,
        id: &str,
        registration: &ProcessRegistration,
        claim: &ProcessClaim,
    ) -> Option<usize> {
        let liveness = claim.liveness;
        if let Some(index) = self.place_of(id) {
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
            return self.place_of(parent);
        }
        if liveness.is_dead() && registration.digest.cwd.is_none() {
            return None;
        }
        let is_lock = claim.how == ClaimBasis::Locked;
        let run = self.run_of(claim.identity.pid).map(|run| self.runs[run]);
        if is_lock && run.is_some_and(|run| run.server) {
            return None;
        }
        let mut digest = registration.digest.clone();
        // When the process began stands with the process: while it lives, the session may begin yet.
        if !liveness.is_dead() {
            digest.started_at = None;
        }
        if is_lock && liveness.is_alive() {
            let cwd = run.and_then(|run| run.cwd.as_ref());
            digest.cwd = digest.cwd.or_else(|| Some(cwd?.to_string_lossy().into_owned()));
        }
        let root = registration.source.parent().and_then(Path::parent);
        let root: Arc<str> = root.map_or("".into(), |root| root.to_string_lossy().into());
        let session = Session {
            id: id.to_owned(),
            kind: SessionKind::Native,
            agent: self.adapter.agent_profile().id,
            digest: digest.into(),
            transcript: None,
            origin: self.session_origin(root, "registration"),
            written_status: None,
            claims: Vec::new(),
            linked: Vec::new(),
        };
        Some(self.push_session(FoundSession { session, source: None }))
    }

    /// The newest session in the directory of a process whose registration cannot be read.
    fn beside_process(&self, pid: Option<u32>) -> Option<usize> {
        let cwd = self.table.cwd(pid?)?;
        self.newest_session(|session| is_in(session, &cwd))
    }

    /// The session with the newest activity among those that `fit`.
    fn newest_session(&self, fits: impl Fn(&Session) -> bool) -> Option<usize> {
        (0..self.sessions.len())
            .filter(|&index| fits(&self.sessions[index].session))
            .max_by_key(|&index| self.sessions[index].session.last_activity_at())
    }

    /// What hooks told of open sessions.
    pub(super) fn apply_hook_tracks(&mut self, tracks: &[TrackedSession]) {
        let agent = self.adapter.agent_profile().id;
        for TrackedSession { id, track, .. } in tracks.iter().filter(|one| one.agent == agent) {
            let Some(index) = self.session_told_of(id, track) else { continue };
            let known = &mut self.sessions[index].session.digest;
            known.cwd = known.cwd.take().or_else(|| track.cwd.clone());
            known.last_activity_at = known.last_activity_at.max(track.last_sign_at);
            // What told of the beginning was there before the first record.
            known.started_at = [known.started_at, track.began_at].into_iter().flatten().min();
            let Some(owner) = &track.owner else { continue };
            let liveness = self.machine.probe_process(owner);
            if track.owner_unconfirmed && !liveness.is_alive() {
                continue;
            }
            let run = self.run_of(owner.pid).filter(|_| liveness.is_alive());
            // When this word was given: a notification that says nothing of it makes it no newer.
            let observed_at = track.changed_at.or(track.last_sign_at).unwrap_or(self.machine.now());
            let claim = ProcessClaim {
                how: ClaimBasis::Hook,
                liveness,
                started_at: owner.pid.and_then(|pid| self.table.get(pid)?.started_at),
                identity: owner.clone(),
                activity: track.activity,
                waiting_for: track.waiting_for.clone(),
                source: HOOKS.to_owned(),
                observed_at,
                directory: None,
                shared: None,
            };
            let tells_of_switches = self.adapter.agent_profile().opening.tells_of_switches;
            match run.filter(|&run| !tells_of_switches && !self.runs[run].server) {
                Some(run) => {
                    let told_at = track.last_sign_at.max(Some(observed_at));
                    // Of several sessions that one run was told to have, it had the last one last.
                    let is_later = |known: &Named| known.told_at < told_at;
                    if self.named.get(&run).is_none_or(is_later) {
                        let (how, claim) = (ClaimBasis::Hook, Some(claim));
                        self.named.insert(run, Named { session: index, how, claim, told_at });
                    }
                }
                None => {
                    self.taken.extend(run);
                    self.sessions[index].session.claims.push(claim);
                }
            }
        }
    }

    /// Nobody knows which sessions hooks told of: it may be any of an agent that has hooks. One that is proven
    /// alive without them stays so.
    pub(super) fn note_unheard_hooks(&mut self) {
        if self.adapter.agent_profile().hooks.is_none() {
            return;
        }
        let observed_at = self.machine.now();
        let is_alive = |session: &Session| session.claims.iter().any(|one| one.liveness.is_alive());
        for one in self.sessions.iter_mut().filter(|one| !is_alive(&one.session)) {
            one.session.claims.push(ProcessClaim {
                how: ClaimBasis::Hook,
                liveness: Liveness::Unknown(Doubt::Unreadable),
                started_at: None,
                identity: Identity::recorded_by_agent(None),
                activity: None,
                waiting_for: None,
                source: HOOKS.to_owned(),
                observed_at,
                directory: None,
                shared: None,
            });
        }
    }

    /// The session that hooks told of. One without a transcript is taken at their word.
    fn session_told_of(&mut self, id: &str, track: &HookTrack) -> Option<usize> {
        if let Some(index) = self.place_of(id) {
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
            written_status: None,
            claims: Vec::new(),
            linked: Vec::new(),
        };
        Some(self.push_session(FoundSession { session, source: None }))
    }
}
