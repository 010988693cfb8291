//! Fuses: rows in the store that the daemon fires. Taking one up is journalled before anything is done, and what became
//! of it is written after; a process of its own carries it out, so that neither waits for the other.
//!
//! The journal names the carrier. One that is proven to be gone without having said what it did leaves an
//! *unsettled* fuse, which never fires again.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use model::address::{NoSingleId, pick_by_id};
use model::control::fuse_wire::{FuseView, ResumptionView};
use model::control::fuses::{
    FuseAction, FuseClock, FuseDue, FuseRecord, FuseState, FuseTarget, FuseTiming,
};
use model::failure::{Failure, FailureKind};
use model::identity::Identity;
use model::rules::judge::proven_owners;
use model::session::SessionName;
use model::time::Time;
use store::state::{StateError, StateStore};
use store::writer::StoreWriter;
use sys::dropped::NoteDropped;
use sys::machine::Machine;
use sys::timer::WakeTimer;

use crate::locks::sessions_in;
use crate::observe::{Observation, Observed};
use crate::terminal::sight::TERMINAL_AGENT;
use crate::timeouts::CARRIER_START_TIMEOUT;
use crate::writer::FuseOrder;
pub use crate::writer::{FuseSettlement, LimitedAgain};

/// What time it is, by both clocks.
pub fn read_fuse_clock(machine: &Machine) -> FuseClock {
    let moment = machine.read_clocks();
    FuseClock {
        wall: moment.now,
        boot: machine.observer().boot_id.clone(),
        since_boot: moment.since_boot,
    }
}

/// When a fuse comes due that is set now to go off after so long.
pub fn due_after(span: Duration, clock: &FuseClock) -> FuseDue {
    FuseDue::After {
        span_ms: model::time::whole_millis(span),
        boot: clock.boot.clone(),
        since_boot_ms: model::time::whole_millis(clock.since_boot),
    }
}

/// A session as the target of a fuse, with the process that holds it now.
pub fn target_session(one: &Observed) -> FuseTarget {
    FuseTarget::Session {
        agent: one.session.agent.to_owned(),
        id: one.session.id.clone(),
        process: proven_owners(&one.session).next().map(|claim| Box::new(claim.identity.clone())),
        cwd: one.session.digest.cwd.clone(),
    }
}

/// A fuse as programs see it.
pub fn fuse_view(fuse: &FuseRecord, clock: &FuseClock) -> FuseView {
    let name = fuse.target.session_name();
    FuseView {
        id: fuse.id.clone(),
        state: fuse.state,
        agent: name.as_ref().map(|name| name.agent.clone()),
        session: name.map(|name| name.id),
        cwd: fuse.target.directory().map(str::to_owned),
        action: fuse.action.as_str().to_owned(),
        argv: match &fuse.action {
            FuseAction::Exec { argv } => argv.clone(),
            _ => Vec::new(),
        },
        resume: match &fuse.action {
            FuseAction::Resume(plan) => Some(ResumptionView::from(plan)),
            _ => None,
        },
        due_at: (fuse.state == FuseState::Armed).then(|| fuse.due_at(clock)),
        idle_ms: match fuse.due {
            FuseDue::Idle { span_ms, .. } => Some(span_ms),
            _ => None,
        },
        late: fuse.late,
        created_at: fuse.created_at,
        created_by: fuse.created_by.clone(),
        fired_at: fuse.fired_at,
        outcome: fuse.outcome.clone(),
    }
}

/// Every fuse of a home; without `all` only those from which something may still come.
pub fn list_fuses(home: &Path, all: bool) -> Result<Vec<FuseRecord>, StateError> {
    let state = StateStore::open_read_only(home)?;
    state.map_or_else(|| Ok(Vec::new()), |state| state.list_fuses(all))
}

/// When fuses go on with sessions. None where that cannot be read.
pub fn planned_resumptions(machine: &Machine) -> HashMap<SessionName, Time> {
    let clock = read_fuse_clock(machine);
    let fuses = list_fuses(machine.home(), false).ok_or_note("the fuses that go on with sessions");
    let armed = fuses.into_iter().flatten().filter(|fuse| fuse.state == FuseState::Armed);
    armed
        .filter(|fuse| matches!(fuse.action, FuseAction::Resume(_)))
        .filter_map(|fuse| Some((fuse.target.session_name()?, fuse.due_at(&clock))))
        .collect()
}

/// Does what is ordered about fuses. The caller holds the writer lock.
pub(crate) fn perform_fuse_order(
    writer: &mut StoreWriter,
    order: &FuseOrder,
    now: Time,
) -> Result<Vec<FuseRecord>, Failure> {
    let state = writer.state_mut().map_err(not_written)?;
    match order {
        FuseOrder::Set(fuse) => {
            state.add_fuse(fuse).map_err(not_written)?;
            Ok(vec![(**fuse).clone()])
        }
        FuseOrder::Extend { id, by_ms } => {
            let mut fuse = find_armed(state, id)?;
            fuse.put_off(Duration::from_millis(*by_ms));
            state.change_fuse(&fuse, FuseState::Armed, now).map_err(not_written)?;
            Ok(vec![fuse])
        }
        FuseOrder::Cancel { ids, by } => {
            let found = ids.iter().map(|id| find_armed(state, id)).collect::<Result<Vec<_>, _>>();
            let mut fuses = found?;
            for fuse in &mut fuses {
                fuse.state = FuseState::Cancelled;
                fuse.outcome = Some(format!("by {by}"));
                state.change_fuse(fuse, FuseState::Armed, now).map_err(not_written)?;
            }
            Ok(fuses)
        }
        FuseOrder::Carry { id, carrier } => {
            let fuse = state.find_fuse(id).map_err(not_written)?;
            let fuse =
                fuse.filter(|fuse| fuse.state == FuseState::Firing && fuse.carrier.is_none());
            let mut fuse = fuse.ok_or_else(|| not_firing(id))?;
            fuse.carrier = Some((**carrier).clone());
            state.change_fuse(&fuse, FuseState::Firing, now).map_err(not_written)?;
            Ok(vec![fuse])
        }
        FuseOrder::Settle { id, settlement } => {
            let fuse = state.find_fuse(id).map_err(not_written)?;
            let mut fuse = fuse.ok_or_else(|| not_firing(id))?;
            settle(&mut fuse, settlement);
            match state.change_fuse(&fuse, FuseState::Firing, now).map_err(not_written)? {
                true => Ok(vec![fuse]),
                false => Err(not_firing(id)),
            }
        }
    }
}

fn settle(fuse: &mut FuseRecord, settlement: &FuseSettlement) {
    fuse.state = settlement.state;
    fuse.outcome.clone_from(&settlement.outcome);
    if let (FuseDue::Idle { last_sign_at, .. }, Some(sign)) =
        (&mut fuse.due, settlement.last_sign_at)
    {
        *last_sign_at = sign;
        fuse.carrier = None;
        fuse.fired_at = None;
    }
    if let (FuseAction::Resume(plan), Some(limited)) = (&mut fuse.action, settlement.limited) {
        match plan.note_limited(limited.due_at, limited.noted_end) {
            Some(why) => (fuse.state, fuse.outcome) = (FuseState::Failed, Some(why)),
            None => {
                fuse.state = FuseState::Armed;
                fuse.due = FuseDue::At { at: limited.due_at };
                fuse.carrier = None;
                fuse.fired_at = None;
            }
        }
    }
}

/// The fuse that is meant: by its id or the beginning of that, and still armed.
fn find_armed(state: &StateStore, id: &str) -> Result<FuseRecord, Failure> {
    let all = state.list_fuses(true).map_err(not_written)?;
    let failure = |kind: FailureKind, message: String| {
        Err(Failure { kind, message, hint: "`ostler fuse ls -a` lists every fuse".to_owned() })
    };
    match pick_by_id(all, id, |fuse| [&fuse.id]) {
        Err(NoSingleId::Nothing) => {
            failure(FailureKind::NotFound, format!("there is no fuse `{id}`"))
        }
        Ok(fuse) if fuse.state == FuseState::Armed => Ok(fuse),
        Ok(fuse) => {
            let state = fuse.state.as_str();
            failure(FailureKind::Refused, format!("the fuse `{}` is {state}", fuse.id))
        }
        Err(NoSingleId::Several(several)) => {
            let ids: Vec<&str> = several.iter().map(|fuse| fuse.id.as_str()).collect();
            let message = format!("`{id}` could mean {} fuses: {}", ids.len(), ids.join(", "));
            failure(FailureKind::Input, message)
        }
    }
}

fn not_firing(id: &str) -> Failure {
    Failure {
        kind: FailureKind::Refused,
        message: format!("the fuse `{id}` is not to be carried out"),
        hint: "`ostler fuse ls -a` says what became of it".to_owned(),
    }
}

fn not_written(error: StateError) -> Failure {
    Failure {
        kind: FailureKind::Write,
        message: format!("the fuse was not changed: {error}"),
        hint: "`ostler doctor` tells what is wrong".to_owned(),
    }
}

/// The daemon's part: takes up what is due, and sleeps until something is.
#[derive(Debug)]
pub(crate) struct FuseEngine {
    timer: WakeTimer,
    /// Fuses that were taken up here and whose carrier has not begun: until when it may.
    awaited: HashMap<String, Duration>,
    carriers: HashMap<String, OwnedFd>,
}

impl FuseEngine {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { timer: WakeTimer::new()?, awaited: HashMap::new(), carriers: HashMap::new() })
    }

    /// What tells that something may be due, or that a carrier has ended.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut all = self.timer.descriptors();
        all.extend(self.carriers.values().map(AsFd::as_fd));
        all
    }

    /// Takes up what is due by that clock; `start` starts the process that carries a fuse out.
    pub(crate) fn fire_due(
        &mut self,
        state: &mut StateStore,
        machine: &Machine,
        clock: &FuseClock,
        start: &mut dyn FnMut(&FuseRecord) -> io::Result<()>,
    ) -> Result<(), StateError> {
        self.timer.clear();
        let (mut wall, mut boot): (Option<Time>, Option<Duration>) = (None, None);
        let sooner_boot = |boot: &mut Option<Duration>, due: Duration| {
            *boot = Some(boot.map_or(due, |known| known.min(due)));
        };
        let mut carriers = HashMap::new();
        for mut fuse in state.list_fuses(false)? {
            if fuse.state == FuseState::Firing {
                match self.follow_carrier(&fuse, machine, clock) {
                    CarrierFinding::Gone => self.leave_unsettled(state, &mut fuse, clock)?,
                    CarrierFinding::Awaited(until) => sooner_boot(&mut boot, until),
                    CarrierFinding::Watched(end) => drop(carriers.insert(fuse.id.clone(), end)),
                    CarrierFinding::Unseen => {
                        sooner_boot(&mut boot, clock.since_boot + CARRIER_START_TIMEOUT);
                    }
                }
                continue;
            }
            match fuse.judge_timing(clock) {
                FuseTiming::AtWall(at) => wall = Some(wall.map_or(at, |known| known.min(at))),
                FuseTiming::AtBoottime(due) => sooner_boot(&mut boot, due),
                FuseTiming::Missed { late_ms } => {
                    fuse.state = FuseState::Skipped;
                    fuse.outcome = Some(format!("its time was missed by {} s", late_ms / 1000));
                    state.change_fuse(&fuse, FuseState::Armed, clock.wall)?;
                }
                FuseTiming::Due => {
                    self.take_up(state, &mut fuse, clock, start)?;
                    sooner_boot(&mut boot, clock.since_boot + CARRIER_START_TIMEOUT);
                }
            }
        }
        self.carriers = carriers;
        // A timer that cannot be set leaves what is due to the next thing that happens.
        self.timer.set(wall, boot).note_dropped("setting the fuse timer");
        Ok(())
    }

    /// Journals that a fuse is taken up, and only then starts what carries it out.
    fn take_up(
        &mut self,
        state: &mut StateStore,
        fuse: &mut FuseRecord,
        clock: &FuseClock,
        start: &mut dyn FnMut(&FuseRecord) -> io::Result<()>,
    ) -> Result<(), StateError> {
        sys::pause::pause_at("fuse.due");
        fuse.state = FuseState::Firing;
        fuse.fired_at = Some(clock.wall);
        if !state.change_fuse(fuse, FuseState::Armed, clock.wall)? {
            return Ok(());
        }
        // What was taken up must stay so through a power cut.
        state.checkpoint()?;
        sys::pause::pause_at("fuse.journalled");
        self.awaited.insert(fuse.id.clone(), clock.since_boot + CARRIER_START_TIMEOUT);
        if let Err(error) = start(fuse) {
            fuse.state = FuseState::Failed;
            fuse.outcome = Some(format!("it could not be carried out: {error}"));
            state.change_fuse(fuse, FuseState::Firing, clock.wall)?;
        }
        sys::pause::pause_at("fuse.started");
        Ok(())
    }

    fn leave_unsettled(
        &mut self,
        state: &mut StateStore,
        fuse: &mut FuseRecord,
        clock: &FuseClock,
    ) -> Result<(), StateError> {
        self.awaited.remove(&fuse.id);
        fuse.state = FuseState::Unsettled;
        fuse.outcome = Some(match fuse.carrier {
            None => "nobody began to carry it out".to_owned(),
            Some(_) => "whoever carried it out ended without a word".to_owned(),
        });
        state.change_fuse(fuse, FuseState::Firing, clock.wall).map(drop)
    }

    fn follow_carrier(
        &mut self,
        fuse: &FuseRecord,
        machine: &Machine,
        clock: &FuseClock,
    ) -> CarrierFinding {
        let Some(carrier) = &fuse.carrier else {
            return match self.awaited.get(&fuse.id) {
                Some(until) if clock.since_boot < *until => CarrierFinding::Awaited(*until),
                _ => CarrierFinding::Gone,
            };
        };
        self.awaited.remove(&fuse.id);
        if let Some(known) = self.carriers.remove(&fuse.id)
            && machine.probe_process(carrier).is_alive()
        {
            return CarrierFinding::Watched(known);
        }
        match sys::proc::watch_process_end(carrier, machine.observer()) {
            Some(end) => CarrierFinding::Watched(end),
            None if machine.probe_process(carrier).is_dead() => CarrierFinding::Gone,
            None => CarrierFinding::Unseen,
        }
    }
}

/// What is true of the process that carries a fuse out.
enum CarrierFinding {
    /// It is proven to be gone, or never began.
    Gone,
    /// It was just started.
    Awaited(Duration),
    /// It is there, and its end will be told.
    Watched(OwnedFd),
    /// It may be there.
    Unseen,
}

/// What is true of a fuse's target when it is carried out.
#[derive(Debug)]
pub enum TargetFinding<'a> {
    /// These are there, and are what was meant.
    There(Vec<&'a Observed>),
    /// It is gone, or another process holds it.
    Moot(String),
    /// Nothing certain is known of it.
    HeldBack(String),
    /// It gave a sign of life since.
    Alive(Time),
}

/// Judges the target anew.
pub fn judge_target<'a>(observation: &'a Observation, fuse: &FuseRecord) -> TargetFinding<'a> {
    let (there, process) = match &fuse.target {
        FuseTarget::Session { agent, id, process, .. } => {
            let is_it = |one: &&Observed| one.session.agent == agent && one.session.id == *id;
            (observation.sessions.iter().filter(is_it).collect::<Vec<_>>(), process.as_deref())
        }
        FuseTarget::Directory { path } => (sessions_in(observation, Path::new(path)), None),
    };
    let live: Vec<&Observed> =
        there.into_iter().filter(|one| !one.verdict.status.is_terminal()).collect();
    if live.is_empty() {
        return TargetFinding::Moot("it is over".to_owned());
    }
    let proven: Vec<&Observed> =
        live.iter().copied().filter(|one| one.verdict.liveness.is_alive()).collect();
    if proven.is_empty() {
        let reason = live[0].verdict.liveness.reason_code();
        return TargetFinding::HeldBack(format!("whether it is there is not known ({reason})"));
    }
    match (process, &fuse.target) {
        (Some(process), _) => {
            if let Some(finding) = compare_process(proven[0], process) {
                return finding;
            }
        }
        // A terminal has one program from its beginning to its end.
        (None, FuseTarget::Session { agent, .. })
            if agent != TERMINAL_AGENT && fuse.action == FuseAction::Stop =>
        {
            let why = "which process was meant is not known: none was proven when it was set";
            return TargetFinding::HeldBack(why.to_owned());
        }
        _ => {}
    }
    if let FuseDue::Idle { last_sign_at, .. } = fuse.due {
        let newest = proven.iter().filter_map(|one| one.session.last_activity_at()).max();
        if let Some(newest) = newest.filter(|newest| *newest > last_sign_at) {
            return TargetFinding::Alive(newest);
        }
    }
    TargetFinding::There(proven)
}

/// Whether another process holds the session than the one that the fuse was set for.
fn compare_process<'a>(one: &'a Observed, process: &Identity) -> Option<TargetFinding<'a>> {
    let same = |identity: &Identity| identity.pid == process.pid && identity.start == process.start;
    let mut owners = proven_owners(&one.session).peekable();
    if owners.peek().is_none() {
        return Some(TargetFinding::HeldBack("its process is only concluded".to_owned()));
    }
    match owners.any(|claim| same(&claim.identity)) {
        true => None,
        false => Some(TargetFinding::Moot("another process holds it now".to_owned())),
    }
}

#[cfg(test)]
mod tests;
