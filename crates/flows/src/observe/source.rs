//! The seam through which every kind of session comes: a source tells facts and claims, never a verdict.
//!
//! Agents' own sessions (OpenClaw's among them), hosted terminals and access sessions each have one
//! source. What they find is judged in one place, by one rule.

use adapters::TranscriptSource;
use model::identity::Identity;
use model::rules::judge::{JudgeCircumstances, judge_session};
use model::session::Session;
use model::wire::{IncompleteSource, UnattachedAgent};
use sys::machine::Machine;

use super::discover::AgentSightings;
use super::processes::AgentProcesses;
use super::{Observed, ToldSessions, identify, unreadable_state};
use crate::terminal::sight;

/// A session as its source tells of it: not yet judged.
#[derive(Debug)]
pub(super) struct FoundSession {
    pub(super) session: Session,
    /// Where its conversation can be read.
    pub(super) source: Option<Box<TranscriptSource>>,
}

impl FoundSession {
    pub(super) fn judge(self, circumstances: &JudgeCircumstances) -> Observed {
        let verdict = judge_session(&self.session, circumstances);
        Observed { session: self.session, verdict, source: self.source, pinned: false }
    }
}

/// Everything that one source found.
#[derive(Debug, Default)]
pub(super) struct FoundSessions {
    pub(super) sessions: Vec<FoundSession>,
    /// Sub-agents, which are part of their parents.
    pub(super) subagents: Vec<FoundSession>,
    /// The programs on terminals, each with its session's place in `sessions`.
    pub(super) programs: Vec<(usize, Identity)>,
    /// Agent processes without a session.
    pub(super) unattached: Vec<UnattachedAgent>,
    /// What could not be read.
    pub(super) incomplete: Vec<IncompleteSource>,
}

/// One kind of session.
pub(super) trait SessionSource {
    /// Finds all of them.
    fn find_sessions(self: Box<Self>) -> FoundSessions;
}

/// Agents' own sessions.
pub(super) struct NativeSessions<'a> {
    pub(super) machine: &'a Machine,
    pub(super) processes: &'a AgentProcesses,
    pub(super) seen: Vec<AgentSightings>,
    pub(super) told: ToldSessions,
}

impl SessionSource for NativeSessions<'_> {
    fn find_sessions(self: Box<Self>) -> FoundSessions {
        let Self { machine, processes, seen, told } = *self;
        let mut found = identify::identify_sessions(machine, processes, seen, &told);
        if let Some(error) = told.ends.into_failure() {
            found.incomplete.push(unreadable_state(machine.home(), &error.to_string()));
        }
        found
    }
}

pub(super) struct AccessSessions<'a> {
    pub(super) machine: &'a Machine,
}

impl SessionSource for AccessSessions<'_> {
    fn find_sessions(self: Box<Self>) -> FoundSessions {
        let (lent, incomplete) = access::sight::access_sessions(self.machine);
        let sessions = lent.into_iter().map(|session| FoundSession { session, source: None });
        FoundSessions { sessions: sessions.collect(), incomplete, ..FoundSessions::default() }
    }
}

/// Terminals that ostler hosts. What runs in them is linked with them whether they are listed or not.
pub(super) struct HostedTerminals<'a> {
    pub(super) machine: &'a Machine,
    /// Whether they were asked for.
    pub(super) are_listed: bool,
}

impl SessionSource for HostedTerminals<'_> {
    fn find_sessions(self: Box<Self>) -> FoundSessions {
        let (terminals, unreadable) = sight::find_terminals(self.machine);
        let mut found = FoundSessions::default();
        for terminal in terminals {
            let place = found.sessions.len();
            found.programs.extend(terminal.program.map(|program| (place, program)));
            found.sessions.push(FoundSession { session: terminal.session, source: None });
        }
        if self.are_listed {
            found.incomplete = unreadable;
        }
        found
    }
}
