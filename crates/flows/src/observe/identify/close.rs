//! The end of matching: sub-agents get their parents' claims, and runs without a session are named.

use std::collections::{HashMap, HashSet};

use model::liveness::{Death, Liveness};
use model::session::{ClaimBasis, ProcessClaim, Session, SharedHold};
use model::sighting::TurnState;
use model::time::Time;
use model::wire::UnattachedAgent;
use sys::proc::ProcessRow;

use super::{RECORD, SessionMatcher, end_claim, is_in};
use crate::observe::processes::AgentRun;
use crate::observe::source::{FoundSession, FoundSessions};
use crate::timeouts::{COMMAND_START_SLACK, UNNAMED_TOOL_SPAN};

impl SessionMatcher<'_> {
    /// Sub-agents live in their parent's process; what is left over is reported.
    pub(super) fn close(mut self, merged: &mut FoundSessions) {
        for FoundSession { session: child, .. } in &mut self.subagents {
            let parent = child.digest.parent.as_ref();
            let parent = parent.and_then(|parent| self.by_id.get(parent).copied());
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
        self.note_shared_holds();
        self.report_unattached(merged);
        if merged.sessions.is_empty() {
            merged.sessions = self.sessions;
        } else {
            merged.sessions.append(&mut self.sessions);
        }
        merged.subagents.append(&mut self.subagents);
    }

    /// A command that was begun after an agent asked for consent was allowed: it runs. Where nothing says
    /// what was asked for, it may be a tool that starts no process, which gets some time first.
    fn settle_consent(&mut self) {
        let now = self.machine.now();
        for FoundSession { session, .. } in &mut self.sessions {
            let (TurnState::Asking(what), Some(asked)) =
                (&session.digest.turn, session.digest.last_activity_at)
            else {
                continue;
            };
            if what.is_none() && asked.plus(UNNAMED_TOOL_SPAN) > now {
                session.digest.turn = TurnState::Open;
                continue;
            }
            let alive = session.claims.iter().filter(|claim| claim.liveness.is_alive());
            let pids: Vec<u32> = alive.filter_map(|claim| claim.identity.pid).collect();
            // Some agents are two processes, and the inner one starts commands.
            let rows = self.table.rows();
            let mut family: HashSet<u32> = pids.iter().copied().collect();
            let mut size = 0;
            while size < family.len() {
                size = family.len();
                let children = rows.iter().filter(|row| family.contains(&row.ppid));
                let children: Vec<u32> = children.map(|row| row.pid).collect();
                family.extend(children);
            }
            let is_command = |row: &&ProcessRow| {
                family.contains(&row.pid)
                    && !pids.contains(&row.pid)
                    && row.started_at.is_none_or(|at| at.plus(COMMAND_START_SLACK) >= asked)
            };
            if rows.iter().any(is_command) {
                session.digest.turn = TurnState::Open;
            }
        }
    }

    /// Names the runs that have no session, whether or not there are any sessions.
    fn report_unattached(&self, merged: &mut FoundSessions) {
        let served = self.served_runs();
        for (index, perhaps) in &self.spare {
            let run = self.runs[*index];
            let observed = run.roots.iter().any(|root| self.roots.contains(root));
            if run.ours && !run.server && observed && !served.contains(index) {
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

    /// The runs that are windows of a server: in each directory as many as it has sessions of it, those
    /// that began first. Which shows which is not known.
    fn served_runs(&self) -> HashSet<usize> {
        let held: Vec<&Session> = self
            .sessions
            .iter()
            .map(|one| &one.session)
            .filter(|session| session.claims.iter().any(|claim| claim.shared.is_some()))
            .collect();
        let mut served = HashSet::new();
        let mut taken = vec![false; held.len()];
        let mut windows: Vec<usize> = self.spare.iter().map(|(index, _)| *index).collect();
        windows.sort_by_key(|index| self.runs[*index].started_at);
        for index in windows {
            let Some(cwd) = &self.runs[index].cwd else { continue };
            let place = (0..held.len()).find(|&at| !taken[at] && is_in(held[at], cwd));
            if let Some(place) = place {
                taken[place] = true;
                served.insert(index);
            }
        }
        served
    }

    /// Says of every claim of a server how many conversations it holds, and how many windows could show
    /// each.
    fn note_shared_holds(&mut self) {
        let servers: HashSet<u32> =
            self.runs.iter().filter(|run| run.server).flat_map(|run| run.pids.clone()).collect();
        if servers.is_empty() {
            return;
        }
        let holder = |claim: &ProcessClaim| {
            let pid = claim.identity.pid.filter(|pid| servers.contains(pid))?;
            // Where a server has every session, nothing more can be said of one.
            (claim.liveness.is_alive() && claim.how != ClaimBasis::Served).then_some(pid)
        };
        let mut conversations: HashMap<u32, u32> = HashMap::new();
        for FoundSession { session, .. } in &self.sessions {
            let pids: HashSet<u32> = session.claims.iter().filter_map(holder).collect();
            pids.into_iter().for_each(|pid| *conversations.entry(pid).or_default() += 1);
        }
        let free = self.free_runs();
        for FoundSession { session, .. } in &mut self.sessions {
            if !session.claims.iter().any(|claim| holder(claim).is_some()) {
                continue;
            }
            let shows = |run: &AgentRun| run.cwd.as_ref().is_some_and(|cwd| is_in(session, cwd));
            let windows = free.iter().filter(|(_, run)| !run.server && shows(run)).count();
            let windows = u32::try_from(windows).unwrap_or(u32::MAX);
            for claim in &mut session.claims {
                let held = holder(claim).and_then(|pid| conversations.get(&pid).copied());
                claim.shared = held.map(|conversations| SharedHold { conversations, windows });
            }
        }
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
