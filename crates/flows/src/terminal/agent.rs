//! The agents in a terminal, as their hooks tell of them, and waiting for one of them.
//!
//! A hook names the agent's process; that it descends from the terminal's program is looked up, never
//! remembered. Nothing is polled: the spool, the store's bell and the ends of the processes wake the
//! waiter.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use model::hosted::wire::{AgentSeen, SnapshotFormat, SnapshotParams, WaitResult};
use model::hosted::{FaultCode, HostFault};
use model::identity::Identity;
use model::status::Activity;
use store::state::StateStore;
use sys::machine::Machine;
use sys::watch::{DirectoryWatch, POLL_INTERVAL};

use super::{HostedSession, look, wait};
use crate::{hook, tracks};

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

/// An agent that is alive in the terminal.
struct PresentAgent {
    seen: AgentSeen,
    owner: Identity,
}

/// The agents whose processes descend from the session's program.
fn agents_present(
    machine: &Machine,
    session: &HostedSession,
) -> Result<Vec<PresentAgent>, HostFault> {
    let home = machine.home();
    let program = session.holder.as_ref().and_then(|holder| holder.child.as_ref());
    let Some(program) = program else { return Ok(Vec::new()) };
    let unreadable = |reason: String| {
        HostFault::new(
            FaultCode::StorageReadError,
            format!("cannot read what hooks told: {reason}"),
        )
    };
    let state = StateStore::open_read_only(home).map_err(|error| unreadable(error.to_string()))?;
    let open = tracks::open_now(home, state.as_ref());
    let mut open = open.map_err(|error| unreadable(error.to_string()))?;
    open.retain(|one| {
        let owner = one.track.owner.as_ref();
        owner.is_some_and(|owner| machine.probe_process(owner).is_alive())
    });
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let table = sys::proc::read_process_table();
    let present = open.into_iter().filter_map(|one| {
        let owner = one.track.owner?;
        let activity = one.track.activity.unwrap_or(Activity::Unknown);
        let seen = AgentSeen { agent: one.agent, id: one.id, activity };
        table.descends_from(owner.pid?, program).then_some(PresentAgent { seen, owner })
    });
    Ok(present.collect())
}

impl HostedSession {
    /// Whether the program on its terminal goes on. Of one that has ended its host will tell how.
    fn runs_program(&self) -> bool {
        let program = self.holder.as_ref().and_then(|holder| holder.child.as_ref());
        program.is_some_and(|program| !self.machine.probe_process(program).is_dead())
    }
}

/// Waits for an agent in the terminal. One that ended before is not waited for, unless the terminal's
/// program has ended with it.
pub fn wait_for_agent(
    machine: &Machine,
    session: &HostedSession,
    wanted: AwaitedActivity,
    timeout_ms: Option<u64>,
) -> Result<WaitResult, HostFault> {
    let deadline = match timeout_ms.unwrap_or(wait::DEFAULT_WAIT_MS) {
        0 => None,
        millis => Instant::now().checked_add(Duration::from_millis(millis)),
    };
    let home = machine.home();
    let bells = watch_bells(home).map_err(|error| {
        HostFault::new(
            FaultCode::StorageReadError,
            format!("cannot follow {}: {error}", home.display()),
        )
    })?;
    let host = sys::proc::watch_process_end(&session.host_identity(), machine.observer());
    let mut last = None;
    loop {
        // Before looking: whatever comes from now on wakes us.
        bells.iter().for_each(DirectoryWatch::clear);
        let now = session.reread_manifest().unwrap_or_else(|| session.clone()).as_settled();
        let present = agents_present(machine, session)?;
        let fits = present.iter().find(|one| wanted == AwaitedActivity::Does(one.seen.activity));
        let left = || present.is_empty() && last.is_some() && session.runs_program();
        let ended = wanted == AwaitedActivity::Ended && (now.status().is_terminal() || left());
        if fits.is_some() || ended {
            return Ok(WaitResult {
                matched: Some(true),
                exit_code: now.manifest.exit_code.filter(|_| ended),
                agent: fits.map(|one| one.seen.clone()).or(last),
                ..WaitResult::default()
            });
        }
        now.check_can_receive()?;
        last = present.first().map(|one| one.seen.clone()).or(last);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(too_late(&now, wanted, last));
        }
        let owners: Vec<OwnedFd> = present
            .iter()
            .filter_map(|one| sys::proc::watch_process_end(&one.owner, machine.observer()))
            .collect();
        let descriptors: Vec<BorrowedFd<'_>> = bells
            .iter()
            .filter_map(DirectoryWatch::descriptor)
            .chain(host.iter().chain(&owners).map(AsFd::as_fd))
            .collect();
        // A process that cannot be held on to is looked at now and then.
        let unheld = host.is_none() || owners.len() < present.len();
        let look_again = POLL_INTERVAL.or(unheld.then_some(Duration::from_secs(1)));
        let timeout = [left, look_again].into_iter().flatten().min();
        sys::pause::pause_at("agent.awaited");
        sys::watch::poll_readable(&descriptors, timeout)
            .map_err(|error| HostFault::new(FaultCode::InternalError, error.to_string()))?;
    }
}

/// What is touched when hooks tell something: the spool, and the store's bell.
fn watch_bells(home: &Path) -> std::io::Result<[DirectoryWatch; 2]> {
    let spool = hook::spool_path(home);
    let spool = spool.parent().unwrap_or(home);
    sys::private::create_private_dir(spool).map_err(std::io::Error::other)?;
    Ok([DirectoryWatch::watch_directory(home)?, DirectoryWatch::watch_directory(spool)?])
}

fn too_late(
    session: &HostedSession,
    wanted: AwaitedActivity,
    agent: Option<AgentSeen>,
) -> WaitResult {
    let nobody = "no hook told of an agent in this terminal; see `ostler hooks install`";
    let stands = match &agent {
        Some(agent) => format!("{} {} is {}", agent.agent, agent.id, agent.activity.as_str()),
        None => nobody.to_owned(),
    };
    let shown = look::take_snapshot(
        session,
        &SnapshotParams { format: SnapshotFormat::Text, ..SnapshotParams::default() },
    );
    WaitResult {
        matched: Some(false),
        timed_out: true,
        condition: Some(format!("an agent that is {} ({stands})", wanted.as_str())),
        screen: shown.ok().and_then(|shown| shown.text),
        agent,
        ..WaitResult::default()
    }
}
