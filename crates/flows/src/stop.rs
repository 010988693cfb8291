//! Stopping a session: the process tree of its agent ends, in order, and nothing else is signalled.
//!
//! Every process is named by its identity before the first signal, and held on to and checked again at
//! each: a pid that was handed on gets none. What is not proven is refused, not tried.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use adapters::AgentControl;
use model::control::refusal::DriveRefusal;
use model::control::wire::{ProcessEnding, ProcessView, StoppedProcess, StoppedSession};
use model::hosted::{FaultCode, HostFault};
use model::identity::Identity;
use model::liveness::RunState;
use model::program::AgentProgram;
use model::session::{Session, SessionKind, SessionName};
use model::status::Activity;
use sys::dropped::NoteDropped;
use sys::machine::Machine;
use sys::proc::{ProcessTable, Signal, SignalError, signal_process};

use crate::observe::{Observation, Observed};
use crate::process_list::{OrphanProcess, find_wrappers};
use crate::terminal::{HostedSession, TerminalHome};
use crate::timeouts::{
    INTERRUPT_TIMEOUT, QUIT_KEYS_TIMEOUT, RESPAWN_DELAY, TREE_POLL_INTERVAL, TREE_SIGNAL_TIMEOUT,
};

pub mod halted;
mod keys;
pub(crate) mod targets;

use halted::HaltedTreeGuard;
use keys::{await_activity, clear_restored, may_be_quit, press_keys};
use targets::{choose_holders, find_agent_program, is_supervised, own_command};

/// How a session is to be stopped.
#[derive(Clone, Copy, Debug)]
pub struct StopOptions {
    /// How long the agent has to end by itself.
    pub grace: Duration,
    /// Without asking the agent first.
    pub now: bool,
    /// Only the turn.
    pub turn_only: bool,
}

/// Why a session was not stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// Nothing was signalled, and why.
    #[error(transparent)]
    Refused(#[from] DriveRefusal),
    /// Its terminal's host did not do what it was asked.
    #[error(transparent)]
    Host(#[from] HostFault),
}

/// What another look at the session showed.
#[derive(Clone, Copy, Debug)]
pub struct SessionGlance {
    /// Whether a process is proven to hold it.
    pub held: bool,
    /// What it does.
    pub activity: Activity,
}

/// A process of the tree, and how it ended.
#[derive(Debug)]
struct PlannedProcess {
    identity: Identity,
    /// Whether it is the agent or a wrapper of it, which are asked before the tools.
    asked_first: bool,
    /// Whether it was halted, so as to be killed.
    halted: bool,
    last_signal: Option<Signal>,
    /// Why the last signal was not sent.
    not_signalled: Option<String>,
    ended: Option<(ProcessEnding, u64)>,
}

/// What would be signalled, made before anything is.
#[derive(Debug)]
pub struct StopPlan {
    session: SessionName,
    machine: Machine,
    processes: Vec<PlannedProcess>,
    /// Pid and start of every process whose descendants belong to the tree.
    parents: HashSet<(u32, u64)>,
    /// The terminal whose program the agent is.
    terminal: Option<HostedSession>,
    control: Option<&'static AgentControl>,
    activity: Activity,
    /// Of a terminal, the conversation of its agent.
    agent: Option<SessionName>,
}

/// Finds everything that belongs to a session's agent, or why it is not stopped.
pub fn plan_stop(
    observation: &Observation,
    one: &Observed,
    terminals: &TerminalHome,
    orphans: &[OrphanProcess],
) -> Result<StopPlan, StopError> {
    let table = sys::proc::read_process_table();
    let session = &one.session;
    let mut plan = StopPlan {
        session: session.session_name(),
        processes: Vec::new(),
        parents: HashSet::new(),
        terminal: None,
        control: adapters::by_id(session.agent).and_then(|adapter| adapter.control_table()),
        activity: one.verdict.activity.unwrap_or(Activity::Unknown),
        agent: None,
        machine: terminals.machine.clone(),
    };
    let found = match session.kind {
        SessionKind::Hosted => plan.add_terminal(observation, one, terminals, &table),
        _ => plan.add_agent(observation, session, terminals, &table),
    };
    match found {
        // What a dead agent left behind is there without it.
        Err(StopError::Refused(DriveRefusal::NotAlive { .. })) if !orphans.is_empty() => {}
        other => other?,
    }
    for orphan in orphans {
        plan.add_process(&orphan.identity, false);
    }
    plan.grow_tree(&table);
    plan.check_caller(&table)?;
    Ok(plan)
}

impl StopPlan {
    fn add_process(&mut self, identity: &Identity, asked_first: bool) {
        let (Some(pid), Some(start)) = (identity.pid, identity.start) else { return };
        if self.parents.insert((pid, start)) {
            let identity = identity.clone();
            self.processes.push(PlannedProcess {
                identity,
                asked_first,
                halted: false,
                last_signal: None,
                not_signalled: None,
                ended: None,
            });
        }
    }

    /// The program on a terminal, and every other descendant of its host. Of an agent every process from its
    /// wrapper on is asked, as it is when its conversation is named.
    fn add_terminal(
        &mut self,
        observation: &Observation,
        one: &Observed,
        terminals: &TerminalHome,
        table: &ProcessTable,
    ) -> Result<(), StopError> {
        let hosted = terminals.open_session(&self.session.id)?;
        let Some(holder) = &hosted.holder else {
            let why = "its host did not write its processes down".to_owned();
            return Err(DriveRefusal::NotAlive { why }.into());
        };
        let Some(program) = holder.child.clone() else {
            return Err(DriveRefusal::NotAlive { why: "it has no program".to_owned() }.into());
        };
        let liveness = self.machine.probe_process(&program);
        if !liveness.is_alive() {
            return Err(DriveRefusal::NotAlive { why: liveness.reason_code().to_owned() }.into());
        }
        self.add_process(&program, true);
        self.add_host(&holder.host.clone());
        if let Some(adapter) = find_agent_program(&program, table) {
            self.add_agent_chain(&adapter.agent_profile().program, &program, table);
            self.control = adapter.control_table();
            self.terminal = Some(hosted);
            if let [only] = one.session.linked.as_slice() {
                let name = SessionName::new(only.agent, &only.id);
                let mut all = observation.sessions.iter();
                let agent = all.find(|agent| agent.session.session_name() == name);
                self.activity =
                    agent.and_then(|agent| agent.verdict.activity).unwrap_or(Activity::Unknown);
                self.agent = Some(name);
            }
        }
        Ok(())
    }

    /// The processes that a wrapper runs the agent through, down to the agent itself.
    fn add_agent_chain(&mut self, program: &AgentProgram, outer: &Identity, table: &ProcessTable) {
        let mut chain: Vec<u32> = outer.pid.into_iter().collect();
        let mut rows = table.rows();
        rows.sort_by_key(|row| (row.start, row.pid));
        for row in rows {
            let fits = || {
                let look = table.appearance(row.pid);
                look.is_some_and(|look| program.matches(&look) && !program.is_server(&look))
            };
            if !chain.contains(&row.ppid) || row.state == RunState::Exited || !fits() {
                continue;
            }
            if let Ok(identity) = self.machine.identify_process(row.pid)
                && identity.start == Some(row.start)
            {
                chain.push(row.pid);
                self.add_process(&identity, true);
            }
        }
    }

    /// The conversation that runs in the terminal which is stopped, if it is one and there is one.
    pub const fn watched_agent(&self) -> Option<&SessionName> {
        self.agent.as_ref()
    }

    /// Orphans come to the host: all that is below it belongs to its program.
    fn add_host(&mut self, host: &Identity) {
        if let (Some(pid), Some(start)) = (host.pid, host.start)
            && self.machine.probe_process(host).is_alive()
        {
            self.parents.insert((pid, start));
        }
    }

    /// The processes that are proven to hold the conversation, with their wrappers.
    fn add_agent(
        &mut self,
        observation: &Observation,
        session: &Session,
        terminals: &TerminalHome,
        table: &ProcessTable,
    ) -> Result<(), StopError> {
        for recorded in choose_holders(session, self.control)? {
            let agent = self.identify_holder(&recorded, table)?;
            self.check_holder(&agent, table)?;
            for wrapper in
                find_wrappers(observation, session, &agent, table, self.machine.observer())
            {
                self.add_process(&wrapper, true);
            }
            self.add_process(&agent, true);
        }
        let linked = session.linked.iter().find(|linked| linked.agent == "terminal");
        let hosted = linked.and_then(|linked| {
            terminals.open_session(&linked.id).ok_or_note("the terminal of a session to stop")
        });
        let Some(hosted) = hosted else { return Ok(()) };
        let Some(holder) = hosted.holder.clone() else { return Ok(()) };
        // In a shell's terminal keys may reach another program, and the rest of the tree is not the agent's.
        let is_program = holder.child.as_ref().is_some_and(|program| {
            program.pid.zip(program.start).is_some_and(|key| self.parents.contains(&key))
        });
        if is_program {
            self.add_host(&holder.host);
            self.terminal = Some(hosted);
        }
        Ok(())
    }

    /// What names the recorded process for a signal: everything that is seen of it now.
    fn identify_holder(
        &self,
        recorded: &Identity,
        table: &ProcessTable,
    ) -> Result<Identity, DriveRefusal> {
        let unproven = |why: &str| DriveRefusal::NotAlive { why: why.to_owned() };
        let pid = recorded.pid.ok_or_else(|| unproven("no pid was recorded"))?;
        let seen =
            self.machine.identify_process(pid).map_err(|error| unproven(&error.to_string()))?;
        // Afterwards: then the recorded process still had the pid when it was identified.
        let liveness = self.machine.probe_process(recorded);
        if !liveness.is_alive() || table.get(pid).map(|row| row.start) != seen.start {
            return Err(unproven(liveness.reason_code()));
        }
        Ok(seen)
    }

    fn check_holder(&self, agent: &Identity, table: &ProcessTable) -> Result<(), DriveRefusal> {
        if let Some(uid) = agent.uid.filter(|uid| *uid != self.machine.observer().uid) {
            return Err(DriveRefusal::OtherUser { uid });
        }
        let (Some(adapter), Some(pid)) = (adapters::by_id(&self.session.agent), agent.pid) else {
            return Ok(());
        };
        let program = &adapter.agent_profile().program;
        let own_look = table.appearance(pid);
        if own_look.is_some_and(|look| program.is_server(&look)) {
            return Err(DriveRefusal::Shared { command: self.own_command() });
        }
        if is_supervised(program, pid, table) {
            return Err(DriveRefusal::Supervised { command: self.own_command() });
        }
        Ok(())
    }

    fn own_command(&self) -> String {
        own_command(self.control, &self.session.id)
    }

    /// A caller below the tree would end before it could say what became of it.
    fn check_caller(&self, table: &ProcessTable) -> Result<(), DriveRefusal> {
        let mut above = table.self_and_ancestors(std::process::id());
        match above.any(|row| self.parents.contains(&(row.pid, row.start))) {
            true => Err(DriveRefusal::IsCalling),
            false => Ok(()),
        }
    }

    /// Adds what descends from the tree by now. ostler's own standing roles stay out.
    fn grow_tree(&mut self, table: &ProcessTable) {
        let mut rows = table.rows();
        rows.sort_by_key(|row| (row.start, row.pid));
        loop {
            let before = self.processes.len();
            for row in &rows {
                let is_known = self.parents.contains(&(row.pid, row.start));
                let parent = table.get(row.ppid).filter(|parent| parent.start <= row.start);
                let belongs =
                    parent.is_some_and(|parent| self.parents.contains(&(parent.pid, parent.start)));
                let runs = row.state != RunState::Exited;
                if is_known || !belongs || !runs || host::server::is_apart(table, row) {
                    continue;
                }
                let identity = self.machine.identify_process(row.pid);
                if let Ok(identity) = identity
                    && identity.start == Some(row.start)
                {
                    self.add_process(&identity, false);
                }
            }
            if self.processes.len() == before {
                return;
            }
        }
    }

    /// What would be signalled, in that order.
    pub fn preview(&self) -> StoppedSession {
        let would_end = |one: &PlannedProcess| StoppedProcess {
            process: ProcessView::from(&one.identity),
            how: ProcessEnding::WouldEnd,
            ms: 0,
            not_signalled: None,
        };
        StoppedSession {
            session: Some(self.session.id.clone()),
            processes: self.processes.iter().map(would_end).collect(),
            left: Vec::new(),
            exit_code: None,
            respawned: false,
            turn_only: false,
        }
    }

    /// Carries the plan out. `look_again` says what is true of the session by then.
    pub fn carry_out(
        mut self,
        options: &StopOptions,
        terminals: &TerminalHome,
        look_again: &dyn Fn() -> Option<SessionGlance>,
    ) -> Result<StoppedSession, StopError> {
        let begun = Instant::now();
        sys::pause::pause_at("stop-planned");
        if options.turn_only {
            return self.end_turn(terminals, look_again);
        }
        self.note_ends(begun, ProcessEnding::AlreadyGone);
        if !options.now {
            self.ask_agent(options, terminals, look_again, begun);
        }
        let mut guard = None;
        for signal in [Signal::Terminate, Signal::Kill] {
            self.grow_tree(&sys::proc::read_process_table());
            self.note_ends(begun, ProcessEnding::Exited);
            if self.processes.iter().all(|one| one.ended.is_some()) {
                break;
            }
            if signal == Signal::Kill {
                guard = HaltedTreeGuard::start().ok_or_note("the guard of a tree to be halted");
                self.freeze_tree(guard.as_mut());
                sys::pause::pause_at("stop.halted");
            }
            self.send_signal(signal, begun, |_| true);
            self.await_ends(begun, TREE_SIGNAL_TIMEOUT, |_| true);
        }
        self.thaw_tree();
        if let Some(guard) = guard {
            guard.dismiss();
        }
        Ok(self.into_result(terminals, look_again))
    }

    /// Halts what is left, so that nothing is forked behind the last look: what loses its parent then is not known to be
    /// of this tree any more.
    fn freeze_tree(&mut self, mut guard: Option<&mut HaltedTreeGuard>) {
        const MOST_ROUNDS: usize = 8;
        let ours = std::process::id();
        for _ in 0..MOST_ROUNDS {
            let known = self.processes.len();
            let left = self.processes.iter_mut().filter(|one| one.ended.is_none());
            for one in left.filter(|one| one.identity.pid != Some(ours)) {
                if let Some(guard) = &mut guard {
                    guard.watch_over(&one.identity);
                }
                let halted = signal_process(&one.identity, Signal::Stop, self.machine.observer());
                one.halted |= halted.is_ok();
                halted.note_dropped("halting what is to be killed");
            }
            self.grow_tree(&sys::proc::read_process_table());
            if self.processes.len() == known {
                return;
            }
        }
    }

    /// Lets go on what was halted and has not ended by its kill.
    fn thaw_tree(&mut self) {
        for one in self.processes.iter_mut().filter(|one| one.halted && one.ended.is_none()) {
            match signal_process(&one.identity, Signal::Continue, self.machine.observer()) {
                Ok(()) => one.halted = false,
                Err(SignalError::NotAlive(verdict)) if verdict.is_dead() => {}
                Err(error) => {
                    one.not_signalled = Some(format!("it stays halted (`kill -CONT`): {error}"));
                }
            }
        }
    }

    /// Interrupts the turn, and leaves the agent alone.
    fn end_turn(
        self,
        terminals: &TerminalHome,
        look_again: &dyn Fn() -> Option<SessionGlance>,
    ) -> Result<StoppedSession, StopError> {
        let keys = self.control.map(|control| control.interrupt_keys).unwrap_or_default();
        let Some(hosted) = self.terminal.as_ref().filter(|_| !keys.is_empty()) else {
            let how = "interrupt it in the terminal it runs in".to_owned();
            return Err(DriveRefusal::NotReachable { how }.into());
        };
        match self.activity {
            Activity::Waiting => return Err(DriveRefusal::AgentWaits { question: None }.into()),
            Activity::Unknown => return Err(DriveRefusal::ActivityUnknown.into()),
            Activity::Idle => {}
            Activity::Working => {
                press_keys(terminals, hosted, keys)?;
                if !await_activity(look_again, |activity| activity != Activity::Working) {
                    let message = format!("the turn of `{}` goes on", self.session.id);
                    return Err(HostFault::new(FaultCode::HostTimeout, message).into());
                }
                if let Some(control) = self.control {
                    clear_restored(terminals, hosted, control);
                }
            }
        }
        let mut result = self.preview();
        result.processes.clear();
        result.turn_only = true;
        Ok(result)
    }

    /// Asks the agent in its own way, else by SIGTERM, and gives it the time to end. Its tools are its own
    /// business so far.
    fn ask_agent(
        &mut self,
        options: &StopOptions,
        terminals: &TerminalHome,
        look_again: &dyn Fn() -> Option<SessionGlance>,
        begun: Instant,
    ) {
        let mut activity = self.activity;
        let mut pressed = false;
        if let (Some(hosted), Some(control)) = (&self.terminal, self.control) {
            if activity == Activity::Working
                && press_keys(terminals, hosted, control.interrupt_keys).is_ok()
                && await_activity(look_again, |activity| activity == Activity::Idle)
            {
                clear_restored(terminals, hosted, control);
                activity = Activity::Idle;
            }
            pressed = activity == Activity::Idle
                && !control.quit_keys.is_empty()
                && may_be_quit(hosted, control, look_again)
                && press_keys(terminals, hosted, control.quit_keys).is_ok();
        }
        let grace_end = Instant::now() + options.grace;
        if pressed {
            self.await_ends(begun, QUIT_KEYS_TIMEOUT.min(options.grace), |one| one.asked_first);
        }
        self.send_signal(Signal::Terminate, begun, |one| one.asked_first);
        let left = grace_end.saturating_duration_since(Instant::now());
        self.await_ends(begun, left, |one| one.asked_first);
    }

    /// Signals those that still run. One that has ended, or is not proven to be it, gets nothing.
    fn send_signal(
        &mut self,
        signal: Signal,
        begun: Instant,
        wanted: impl Fn(&PlannedProcess) -> bool,
    ) {
        let ours = std::process::id();
        for one in self.processes.iter_mut().filter(|one| one.ended.is_none()) {
            if !wanted(one) || one.identity.pid == Some(ours) {
                continue;
            }
            match signal_process(&one.identity, signal, self.machine.observer()) {
                Ok(()) => (one.last_signal, one.not_signalled) = (Some(signal), None),
                Err(SignalError::NotAlive(verdict)) if verdict.is_dead() => {
                    one.end_with(ProcessEnding::AlreadyGone, begun);
                }
                // It is told as one that did not end.
                Err(error) => one.not_signalled = Some(error.to_string()),
            }
        }
    }

    /// Notes who has ended since; `unasked` says how of those that got no signal.
    fn note_ends(&mut self, begun: Instant, unasked: ProcessEnding) {
        for one in self.processes.iter_mut().filter(|one| one.ended.is_none()) {
            if self.machine.probe_process(&one.identity).is_dead() {
                one.end_with(unasked, begun);
            }
        }
    }

    fn await_ends(
        &mut self,
        begun: Instant,
        timeout: Duration,
        wanted: impl Fn(&PlannedProcess) -> bool,
    ) {
        let until = Instant::now() + timeout;
        loop {
            self.note_ends(begun, ProcessEnding::Exited);
            let mut running = self.processes.iter().filter(|one| one.ended.is_none());
            if !running.any(&wanted) || Instant::now() >= until {
                return;
            }
            std::thread::sleep(TREE_POLL_INTERVAL);
        }
    }

    fn into_result(
        self,
        terminals: &TerminalHome,
        look_again: &dyn Fn() -> Option<SessionGlance>,
    ) -> StoppedSession {
        let mut result = self.preview();
        for (told, one) in result.processes.iter_mut().zip(&self.processes) {
            (told.how, told.ms) = one.ended.unwrap_or((ProcessEnding::Survived, 0));
            told.not_signalled = one.not_signalled.clone().filter(|_| one.ended.is_none());
        }
        let left = result.processes.iter().filter(|told| told.how == ProcessEnding::Survived);
        result.left = left.map(|told| told.process.clone()).collect();
        if result.left.is_empty() {
            std::thread::sleep(RESPAWN_DELAY);
            result.respawned = look_again().is_some_and(|seen| seen.held);
        }
        let terminal = self.terminal.map(|hosted| hosted.id);
        if let Some(hosted) = terminal.and_then(|id| {
            terminals.open_session(&id).ok_or_note("the terminal of a session that was stopped")
        }) {
            result.exit_code = hosted.manifest.exit_code;
        }
        result
    }
}

impl PlannedProcess {
    fn end_with(&mut self, unasked: ProcessEnding, begun: Instant) {
        let how = match self.last_signal {
            Some(Signal::Kill) => ProcessEnding::Kill,
            Some(_) => ProcessEnding::Term,
            None => unasked,
        };
        self.ended = Some((how, model::time::whole_millis(begun.elapsed())));
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn plan_of(identity: &Identity, machine: &Machine) -> StopPlan {
        let mut plan = StopPlan {
            session: SessionName::new("claude-code", "x"),
            machine: machine.clone(),
            processes: Vec::new(),
            parents: HashSet::new(),
            terminal: None,
            control: None,
            activity: Activity::Idle,
            agent: None,
        };
        plan.add_process(identity, true);
        plan
    }

    #[test]
    fn row_54_what_was_halted_and_is_not_killed_goes_on() {
        let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
        let machine = Machine::with_home("/nonexistent".into());
        let mut plan = plan_of(&machine.identify_process(other.id()).unwrap(), &machine);
        let is_halted = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", other.id())).unwrap();
            stat[stat.rfind(')').unwrap()..].starts_with(") T")
        };
        let until = |halted: bool| while is_halted() != halted {};
        plan.freeze_tree(None);
        until(true);
        plan.thaw_tree();
        until(false);
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn row_57_a_process_that_was_handed_a_planned_pid_is_not_signalled() {
        let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
        let machine = Machine::with_home("/nonexistent".into());
        let now = machine.identify_process(other.id()).unwrap();
        // The process of the plan began at another time, and had the same pid.
        let planned = Identity { start: now.start.map(|start| start - 1), pidfd_ino: None, ..now };
        let plan = plan_of(&planned, &machine);
        let terminals = TerminalHome::at_root(machine.home(), &machine);
        let options = StopOptions { grace: Duration::ZERO, now: false, turn_only: false };
        let result = plan.carry_out(&options, &terminals, &|| None).unwrap();
        assert_eq!(result.processes[0].how, ProcessEnding::AlreadyGone);
        assert!(other.try_wait().unwrap().is_none(), "the other process goes on");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
