//! The agents in a terminal, as their hooks tell of them, and waiting for one of them.
//!
//! A hook names the agent's process; that it descends from the terminal's program is looked up, never
//! remembered. Nothing is polled: the spool, the store's bell and the ends of the processes wake the
//! waiter.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use model::hosted::wire::{AgentSeen, SnapshotFormat, SnapshotParams, WaitResult};
use model::hosted::{Code, Fault};
use model::identity::Identity;
use model::liveness::Observer;
use model::status::Activity;
use store::state::State;
use sys::watch::{ASK_EVERY, Watch};

use super::{Session, look, wait};
use crate::{finalize, hook};

/// What an agent is waited for to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// To do this.
    Does(Activity),
    /// To be gone.
    Ended,
}

impl Wanted {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Does(activity) => activity.word(),
            Self::Ended => "ended",
        }
    }
}

/// An agent that is alive in the terminal.
struct Present {
    seen: AgentSeen,
    owner: Identity,
}

/// The agents whose processes descend from the session's program.
fn present(home: &Path, session: &Session) -> Result<Vec<Present>, Fault> {
    let program = session.holder.as_ref().and_then(|holder| holder.child.as_ref());
    let Some(program) = program else { return Ok(Vec::new()) };
    let unreadable = |reason: String| {
        Fault::new(Code::StorageReadError, format!("cannot read what hooks told: {reason}"))
    };
    let state = State::read(home).map_err(|error| unreadable(error.to_string()))?;
    let open = finalize::open_now(home, state.as_ref());
    let mut open = open.map_err(|error| unreadable(error.to_string()))?;
    let observer = sys::proc::observer();
    open.retain(|one| {
        let owner = one.track.owner.as_ref();
        owner.is_some_and(|owner| sys::proc::probe(owner, &observer).is_alive())
    });
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let table = sys::proc::table();
    let present = open.into_iter().filter_map(|one| {
        let owner = one.track.owner?;
        let activity = one.track.activity.unwrap_or(Activity::Unknown);
        let seen = AgentSeen { agent: one.agent, id: one.id, activity };
        table.descends(owner.pid?, program).then_some(Present { seen, owner })
    });
    Ok(present.collect())
}

impl Session {
    /// Whether the program on its terminal goes on. Of one that has ended its host will tell how.
    fn runs_program(&self, observer: &Observer) -> bool {
        let program = self.holder.as_ref().and_then(|holder| holder.child.as_ref());
        program.is_some_and(|program| !sys::proc::probe(program, observer).is_dead())
    }
}

/// Waits for an agent in the terminal. One that ended before is not waited for, unless the terminal's
/// program has ended with it.
pub fn wait_for_agent(
    home: &Path,
    session: &Session,
    wanted: Wanted,
    timeout_ms: Option<u64>,
) -> Result<WaitResult, Fault> {
    let deadline = match timeout_ms.unwrap_or(wait::USUAL_MS) {
        0 => None,
        millis => Instant::now().checked_add(Duration::from_millis(millis)),
    };
    let bells = bells(home).map_err(|error| {
        Fault::new(Code::StorageReadError, format!("cannot follow {}: {error}", home.display()))
    })?;
    let observer = sys::proc::observer();
    let host = sys::proc::watch(&session.host_identity(), &observer);
    let mut last = None;
    loop {
        // Before looking: whatever comes from now on wakes us.
        bells.iter().for_each(Watch::clear);
        let now = session.again().unwrap_or_else(|| session.clone()).as_settled();
        let present = present(home, session)?;
        let fits = present.iter().find(|one| wanted == Wanted::Does(one.seen.activity));
        let left = || present.is_empty() && last.is_some() && session.runs_program(&observer);
        let ended = wanted == Wanted::Ended && (now.status().is_terminal() || left());
        if fits.is_some() || ended {
            return Ok(WaitResult {
                matched: Some(true),
                exit_code: now.manifest.exit_code.filter(|_| ended),
                agent: fits.map(|one| one.seen.clone()).or(last),
                ..WaitResult::default()
            });
        }
        now.target()?;
        last = present.first().map(|one| one.seen.clone()).or(last);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(too_late(&now, wanted, last));
        }
        let owners: Vec<OwnedFd> =
            present.iter().filter_map(|one| sys::proc::watch(&one.owner, &observer)).collect();
        let descriptors: Vec<BorrowedFd<'_>> = bells
            .iter()
            .filter_map(Watch::descriptor)
            .chain(host.iter().chain(&owners).map(AsFd::as_fd))
            .collect();
        // A process that cannot be held on to is looked at now and then.
        let unheld = host.is_none() || owners.len() < present.len();
        let look_again = ASK_EVERY.or(unheld.then_some(Duration::from_secs(1)));
        let timeout = [left, look_again].into_iter().flatten().min();
        sys::pause::at("agent.awaited");
        sys::watch::poll(&descriptors, timeout)
            .map_err(|error| Fault::new(Code::InternalError, error.to_string()))?;
    }
}

/// What is touched when hooks tell something: the spool, and the store's bell.
fn bells(home: &Path) -> std::io::Result<[Watch; 2]> {
    let spool = hook::spool(home);
    let spool = spool.parent().unwrap_or(home);
    sys::private::create_private_dir(spool).map_err(std::io::Error::other)?;
    Ok([Watch::directory(home)?, Watch::directory(spool)?])
}

fn too_late(session: &Session, wanted: Wanted, agent: Option<AgentSeen>) -> WaitResult {
    let nobody = "no hook told of an agent in this terminal; see `ostler hooks install`";
    let stands = match &agent {
        Some(agent) => format!("{} {} is {}", agent.agent, agent.id, agent.activity.word()),
        None => nobody.to_owned(),
    };
    let shown = look::snapshot(
        session,
        &SnapshotParams { format: SnapshotFormat::Text, ..SnapshotParams::default() },
    );
    WaitResult {
        matched: Some(false),
        timed_out: true,
        condition: Some(format!("an agent that is {} ({stands})", wanted.word())),
        screen: shown.ok().and_then(|shown| shown.text),
        agent,
        ..WaitResult::default()
    }
}
