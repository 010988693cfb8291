//! Runs that nothing settles: which sessions each could have open, by the table of
//! `model::rules::open`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use adapters::Opening;
use model::liveness::{Death, Doubt, Liveness};
use model::rules::open::{
    Attachment, OpenCandidate, START_SLACK, SpareRun, UnsettledRun, attach_runs,
};
use model::session::{ClaimBasis, ProcessClaim};
use model::time::Time;

use super::{Named, SessionMatcher};
use crate::observe::processes::{AgentRun, Reach, Root};
use crate::observe::source::FoundSession;

/// So many processes are named that could have one session open.
const MOST_OPENERS: usize = 4;

impl<'a> SessionMatcher<'a> {
    /// Asks of every session without a proven owner whether a run could have it open.
    pub(super) fn match_possible_openers(&mut self) {
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
                let named = self.named.get(index);
                let told_at = named.and_then(|named| named.told_at);
                let named = named.map(|named| named.session);
                let newest = || self.newest_in(candidates, |session| places.is_in(place, session));
                let named =
                    named.or_else(|| run.continues.then(newest).flatten()).and_then(position);
                let run = UnsettledRun { began_at: run.writes_since, named, is_told: false };
                match told_at {
                    Some(at) => run.told_of(named, at, &self.machine.observer().clock),
                    None => run,
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
                let written_at = self.written_at(session);
                let may_be_open = shows_life(place, written_at);
                OpenCandidate {
                    started_at: session.digest.started_at,
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
        let holds_what_it_writes = self.adapter.agent_profile().opening.holds_what_it_writes;
        for (&session, attachment) in candidates.iter().zip(&attachments.sessions) {
            let is_named = |run: &usize| {
                self.named.get(&free[*run].0).is_some_and(|one| one.session == session)
            };
            let (openers, how, liveness) = match attachment {
                Attachment::NoRun => continue,
                Attachment::Held(runs) if !holds_what_it_writes || runs.iter().any(is_named) => {
                    (runs, ClaimBasis::Directory, None)
                }
                Attachment::Held(runs) | Attachment::MaybeOpen(runs) => {
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

    /// The same, among those and by index.
    fn newest_in(&self, among: &[usize], fits: impl Fn(usize) -> bool) -> Option<usize> {
        let activity = |&index: &usize| self.sessions[index].session.last_activity_at();
        among.iter().copied().filter(|&index| fits(index)).max_by_key(activity)
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
        sessions: &[FoundSession],
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
        for FoundSession { session, .. } in sessions {
            let cwd = session.digest.cwd.as_deref();
            let directory = *directories.entry(cwd).or_insert_with(|| {
                let works = |run: &AgentRun| run.works_in(cwd, opening.from_below);
                places.in_directory.push(runs.iter().map(|(_, run)| works(run)).collect());
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
