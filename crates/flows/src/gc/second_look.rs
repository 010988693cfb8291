//! Between a plan and a removal: has an agent opened the session since?
//!
//! A run that resumes a session says nothing until the next prompt, and a plan of thousands of things takes minutes to
//! carry out. So agents are looked at again before each transcript goes; one look holds for a moment, as the next
//! things go within it.

use std::collections::HashMap;
use std::time::Instant;

use model::plan::Refusal;
use model::rules::guard;
use model::summary::KeptSession;
use reaper::PlannedRemoval;
use sys::machine::Machine;

use crate::observe::{self, Observation, ObserveRequest, ObserveScope, SeenRuns, SessionPlace};
use crate::timeouts::SECOND_LOOK_SPAN;
use crate::writer::GcRequest;

/// A transcript that is to go.
#[derive(Clone, Debug)]
pub(super) struct PlannedTranscript {
    pub(super) kept: KeptSession,
    pub(super) place: SessionPlace,
}

/// What is seen of agents while a plan is carried out.
pub(super) struct SecondLook<'a> {
    ask: &'a GcRequest,
    machine: &'a Machine,
    /// The runs of the plan.
    planned: SeenRuns,
    seen: HashMap<&'static str, (Instant, Observation)>,
}

impl<'a> SecondLook<'a> {
    pub(super) fn new(ask: &'a GcRequest, machine: &'a Machine, planned: SeenRuns) -> Self {
        Self { ask, machine, planned, seen: HashMap::new() }
    }

    /// Whether no agent could have the session open, as far as it was not seen when the plan was made: by a run that
    /// has begun since, or by what says now that it is open.
    pub(super) fn check(
        &mut self,
        one: &PlannedTranscript,
        planned: &PlannedRemoval,
    ) -> Result<(), Refusal> {
        let now = self.machine.read_clock();
        let written = sys::fingerprint::of_path(&planned.path)
            .map_err(|error| reaper::io_refusal(&planned.path, &error))?;
        if now.since(written.modified_at()) < guard::QUIET_BEFORE_COLLECTION {
            return Err(Refusal::JustWritten);
        }
        let seen = look_at_agent(&mut self.seen, self.ask, self.machine, one.place.agent);
        if let Some(runs) = seen.runs.newcomer(&self.planned, &one.place) {
            return Err(Refusal::CouldBeOpen { runs });
        }
        let both = seen.sessions.iter().chain(&seen.subagents);
        let mut same = both.filter(|seen| {
            seen.session.agent == one.place.agent && seen.session.id == one.kept.session
        });
        same.try_for_each(|one| guard::may_collect(&one.session, &one.verdict, now))
    }
}

/// What may be live of an agent, looked at no longer than a moment ago.
fn look_at_agent<'s>(
    seen: &'s mut HashMap<&'static str, (Instant, Observation)>,
    ask: &GcRequest,
    machine: &Machine,
    agent: &'static str,
) -> &'s Observation {
    let look = || {
        let config = ask.observed_config();
        let observation = observe::observe_sessions(&ObserveRequest {
            machine,
            config: &config,
            use_index: true,
            scope: ObserveScope::Active,
            agents: &[agent.to_owned()],
        });
        (Instant::now(), observation)
    };
    let (at, observation) = seen.entry(agent).or_insert_with(look);
    if at.elapsed() > SECOND_LOOK_SPAN {
        (*at, *observation) = look();
    }
    observation
}
