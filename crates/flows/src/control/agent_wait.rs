//! Waiting for an agent: the same verdict as in `ls`, looked at anew whenever something changed.
//!
//! Nothing is polled: [`LiveSessions`] sleeps until the system tells that something may have changed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use model::hosted::wire::{AgentSeen, AwaitedSession, SnapshotFormat, SnapshotParams, WaitResult};
use model::hosted::{FaultCode, HostFault};
use model::session::{Certainty, SessionKind, SessionName};
use model::status::Activity;
use sys::dropped::NoteDropped;

use crate::live::{LiveSessions, LiveSource};
use crate::observe::{Observation, Observed};
use crate::terminal::wait::DEFAULT_WAIT_MS;
use crate::terminal::{HostedSession, look};

/// What an agent is waited for to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwaitedActivity {
    /// To do this.
    Does(Activity),
    /// To be gone.
    Ended,
}

impl AwaitedActivity {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Does(activity) => activity.as_str(),
            Self::Ended => "ended",
        }
    }
}

/// Whose agent is waited for.
#[derive(Debug)]
pub enum AwaitedAgent<'a> {
    /// Any that runs in this terminal.
    InTerminal(&'a HostedSession),
    /// The one that has this conversation, wherever it runs.
    OfSession(SessionName),
}

/// What to wait for.
#[derive(Debug)]
pub struct AgentWait<'a> {
    pub agent: AwaitedAgent<'a>,
    /// What it is to do.
    pub wanted: AwaitedActivity,
    /// How long to wait; 0 for ever.
    pub timeout_ms: Option<u64>,
    /// Can be read when nobody waits any more.
    pub cancelled: Option<BorrowedFd<'a>>,
}

/// One look at the awaited agent.
#[derive(Default)]
struct AgentLook {
    /// Those that are alive, or may be.
    present: Vec<AgentSeen>,
    /// The awaited session is proven to be over.
    is_over: bool,
    /// An agent that has no session yet.
    unattached: Option<String>,
}

/// Waits for an agent. In a terminal, one that ended before is not waited for, unless the terminal's
/// program has ended with it.
pub fn wait_for_agent(wait: &AgentWait<'_>, source: LiveSource) -> Result<WaitResult, HostFault> {
    let deadline = match wait.timeout_ms.unwrap_or(DEFAULT_WAIT_MS) {
        0 => None,
        millis => Instant::now().checked_add(Duration::from_millis(millis)),
    };
    let observer = source.machine.observer().clone();
    let mut host: Option<OwnedFd> = wait
        .terminal()
        .and_then(|session| sys::proc::watch_process_end(&session.host_identity(), &observer));
    let mut live = LiveSessions::new(source);
    let mut seen = look_at_agent(&live.look_now().observation, &wait.agent);
    let mut last = None;
    loop {
        let terminal = wait.terminal().map(HostedSession::now_settled);
        let fits =
            seen.present.iter().find(|one| wait.wanted == AwaitedActivity::Does(one.activity));
        let ended = wait.wanted == AwaitedActivity::Ended
            && match &terminal {
                Some(now) => {
                    let left = seen.present.is_empty() && last.is_some();
                    now.status().is_terminal() || (left && now.runs_program())
                }
                None => seen.is_over,
            };
        if fits.is_some() || ended {
            return Ok(WaitResult {
                matched: Some(true),
                exit_code: terminal.and_then(|now| now.manifest.exit_code.filter(|_| ended)),
                agent: fits.cloned().or(last),
                ..WaitResult::default()
            });
        }
        if let Some(now) = &terminal {
            now.check_can_receive()?;
        }
        if seen.is_over {
            let message = "the session is over, and nothing has it open".to_owned();
            return Err(HostFault::new(FaultCode::SessionNotRunning, message));
        }
        last = seen.present.first().cloned().or(last);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(wait.describe_timeout(terminal.as_ref(), &seen, last));
        }
        sys::pause::pause_at("agent.awaited");
        let update = live
            .next_change(left, host.as_ref().map(AsFd::as_fd).into_iter().chain(wait.cancelled))
            .map_err(|error| HostFault::new(FaultCode::InternalError, error.to_string()))?;
        if wait.is_cancelled() {
            let message = "nobody waits for the agent any more".to_owned();
            return Err(HostFault::new(FaultCode::WaitTimeout, message));
        }
        let update = match update {
            Some(update) => update,
            // The time is up, or the host has ended, which is told only once.
            None => {
                host =
                    host.filter(|_| wait.terminal().is_some_and(|session| session.has_live_host()));
                live.look_now()
            }
        };
        seen = look_at_agent(&update.observation, &wait.agent);
    }
}

/// Several agents that are waited for at once.
#[derive(Debug)]
pub struct SeveralAgents<'a> {
    /// Each, with the name that it was asked for by.
    pub agents: Vec<(String, AwaitedAgent<'a>)>,
    /// What they are to do.
    pub wanted: AwaitedActivity,
    /// Whether one that does it is enough.
    pub any: bool,
    /// How long to wait; 0 for ever.
    pub timeout_ms: Option<u64>,
}

/// Waits until all of several agents do something at once, or any of them does.
pub fn wait_for_several(
    wait: &SeveralAgents<'_>,
    source: LiveSource,
) -> Result<WaitResult, HostFault> {
    let deadline = match wait.timeout_ms.unwrap_or(DEFAULT_WAIT_MS) {
        0 => None,
        millis => Instant::now().checked_add(Duration::from_millis(millis)),
    };
    let mut live = LiveSessions::new(source);
    let mut observation = live.look_now().observation;
    let mut sessions: Vec<AwaitedSession> = Vec::new();
    loop {
        sessions = wait.judge_all(&observation, &sessions);
        let matched = match wait.any {
            true => sessions.iter().any(|one| one.matched),
            false => sessions.iter().all(|one| one.matched),
        };
        if matched {
            return Ok(WaitResult { matched: Some(true), sessions, ..WaitResult::default() });
        }
        let hopeless = |one: &&AwaitedSession| one.ended && !one.matched;
        let lost = sessions.iter().filter(hopeless).count();
        if lost == sessions.len() || (lost > 0 && !wait.any) {
            let gone = sessions.iter().find(hopeless).map_or("", |one| one.session.as_str());
            let message = format!("`{gone}` is over, and nothing has it open");
            return Err(HostFault::new(FaultCode::SessionNotRunning, message));
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            let how = if wait.any { "one" } else { "all" };
            let condition = format!("{how} of {} to be {}", sessions.len(), wait.wanted.as_str());
            return Ok(WaitResult {
                matched: Some(false),
                timed_out: true,
                condition: Some(condition),
                sessions,
                ..WaitResult::default()
            });
        }
        sys::pause::pause_at("agents.awaited");
        let update = live
            .next_change(left, None)
            .map_err(|error| HostFault::new(FaultCode::InternalError, error.to_string()))?;
        observation = update.unwrap_or_else(|| live.look_now()).observation;
    }
}

impl SeveralAgents<'_> {
    fn judge_all(
        &self,
        observation: &Observation,
        before: &[AwaitedSession],
    ) -> Vec<AwaitedSession> {
        let judge = |(at, (name, agent)): (usize, &(String, AwaitedAgent<'_>))| {
            let seen = look_at_agent(observation, agent);
            let last = before.get(at).and_then(|one| one.agent.clone());
            let (ended, left) = match agent {
                AwaitedAgent::InTerminal(session) => {
                    let now = session.now_settled();
                    let left = seen.present.is_empty() && last.is_some() && now.runs_program();
                    (now.status().is_terminal(), left)
                }
                AwaitedAgent::OfSession(_) => (seen.is_over && seen.present.is_empty(), false),
            };
            let fits = |one: &&AgentSeen| self.wanted == AwaitedActivity::Does(one.activity);
            let fitting = seen.present.iter().find(fits).cloned();
            let matched = match self.wanted {
                AwaitedActivity::Ended => ended || left,
                AwaitedActivity::Does(_) => fitting.is_some(),
            };
            let agent = fitting.or_else(|| seen.present.first().cloned()).or(last);
            AwaitedSession { session: name.clone(), matched, ended, agent }
        };
        self.agents.iter().enumerate().map(judge).collect()
    }
}

/// Finds the awaited agent among all sessions.
fn look_at_agent(observation: &Observation, agent: &AwaitedAgent<'_>) -> AgentLook {
    let mut look = AgentLook::default();
    let program = match agent {
        AwaitedAgent::InTerminal(session) => {
            session.holder.as_ref().and_then(|holder| holder.child.as_ref())
        }
        AwaitedAgent::OfSession(_) => None,
    };
    let table = program.map(|_| sys::proc::read_process_table());
    let within = |pid: u32| {
        let place = table.as_ref().zip(program);
        place.is_some_and(|(table, program)| table.descends_from(pid, program))
    };
    for one in &observation.sessions {
        let is_it = match agent {
            AwaitedAgent::InTerminal(_) => {
                one.session.kind == SessionKind::Native
                    && one.holders().iter().any(|holder| holder.pid.is_some_and(within))
            }
            AwaitedAgent::OfSession(name) => {
                one.session.id == name.id && one.session.agent == name.agent
            }
        };
        if is_it && one.verdict.status.is_active() {
            look.present.push(seen_agent(one));
        } else if is_it {
            look.is_over |= one.verdict.certainty == Certainty::Proven;
        }
    }
    let new = observation.unattached.iter().find(|one| within(one.pid));
    look.unattached = new.map(|one| format!("{} (pid {})", one.agent, one.pid));
    look
}

fn seen_agent(one: &Observed) -> AgentSeen {
    AgentSeen {
        agent: one.session.agent.to_owned(),
        id: one.session.id.clone(),
        activity: one.verdict.activity.unwrap_or(Activity::Unknown),
        derived: one.verdict.activity_derived,
    }
}

impl AgentWait<'_> {
    fn terminal(&self) -> Option<&HostedSession> {
        match &self.agent {
            AwaitedAgent::InTerminal(session) => Some(session),
            AwaitedAgent::OfSession(_) => None,
        }
    }

    fn is_cancelled(&self) -> bool {
        let asked = |cancelled| sys::watch::poll_readable(&[cancelled], Some(Duration::ZERO));
        self.cancelled.is_some_and(|cancelled| asked(cancelled).is_ok_and(|ready| ready[0]))
    }

    fn describe_timeout(
        &self,
        terminal: Option<&HostedSession>,
        seen: &AgentLook,
        agent: Option<AgentSeen>,
    ) -> WaitResult {
        let stands = match (&agent, &seen.unattached) {
            (Some(agent), _) => {
                let mark = if agent.derived { "~" } else { "" };
                format!("{} {} is {mark}{}", agent.agent, agent.id, agent.activity.as_str())
            }
            (None, Some(new)) => format!("{new} has not written a session yet"),
            (None, None) => "no agent with a session of its own runs there".to_owned(),
        };
        let shown = terminal.and_then(|session| {
            let params =
                SnapshotParams { format: SnapshotFormat::Text, ..SnapshotParams::default() };
            look::take_snapshot(session, &params)
                .ok_or_note("the screen of a wait that ran out")?
                .text
        });
        WaitResult {
            matched: Some(false),
            timed_out: true,
            condition: Some(format!("an agent that is {} ({stands})", self.wanted.as_str())),
            screen: shown,
            agent,
            ..WaitResult::default()
        }
    }
}
