//! The end of matching: sub-agents get their parents' claims, and runs without a session are named.

use std::time::Duration;

use model::liveness::{Death, Liveness};
use model::session::{ClaimBasis, ProcessClaim, Session};
use model::sighting::TurnState;
use model::time::Time;
use model::wire::UnattachedAgent;
use sys::proc::ProcessRow;

use super::{RECORD, SessionMatcher, end_claim, is_in};
use crate::observe::processes::AgentRun;
use crate::observe::source::{FoundSession, FoundSessions};

impl SessionMatcher<'_> {
    /// Sub-agents live in their parent's process; what is left over is reported.
    pub(super) fn close(mut self, merged: &mut FoundSessions) {
        for FoundSession { session: child, .. } in &mut self.subagents {
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

    /// A command that was begun after an agent asked for consent was allowed: it runs.
    fn settle_consent(&mut self) {
        const COMMAND_START_SLACK: Duration = Duration::from_secs(2);
        for FoundSession { session, .. } in &mut self.sessions {
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
            if self.table.rows().into_iter().any(is_command) {
                session.digest.turn = TurnState::Open;
            }
        }
    }

    /// Names the runs that have no session, whether or not there are any sessions.
    fn report_unattached(&self, merged: &mut FoundSessions) {
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
