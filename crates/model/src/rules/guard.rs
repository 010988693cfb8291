//! May this be collected? The one place that says no.

use std::time::Duration;

use crate::liveness::{Death, Doubt, Liveness};
use crate::rules::judge::Verdict;
use crate::session::{ClaimBasis, ProcessClaim, Session, SessionKind};
use crate::time::Time;

/// What was written this recently is never collected, whatever is said on the command line: nobody
/// who lists sessions and then collects can have seen it idle.
pub const QUIET_BEFORE_COLLECTION: Duration = Duration::from_secs(10 * 60);

/// Why a session may not be collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectRefusal {
    /// Its process is there.
    Alive,
    /// It cannot be proved dead from here.
    Unproven(Liveness),
    /// Agents run that could have it open.
    CouldBeOpen {
        /// Which: their pids and directories.
        runs: String,
    },
    /// It was written only just now.
    JustWritten,
    /// Its status protects it.
    Active,
}

impl CollectRefusal {
    /// The reason, for people.
    pub fn reason_text(&self) -> String {
        match self {
            Self::Alive => "its process is alive".to_owned(),
            Self::Unproven(liveness) => {
                format!("its process cannot be proved dead from here ({})", liveness.reason_code())
            }
            Self::CouldBeOpen { runs } => format!("{runs} could have it open"),
            Self::JustWritten => "it was written within the last ten minutes".to_owned(),
            Self::Active => "its status is active".to_owned(),
        }
    }

    /// What a person can do about it.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Alive => "end the agent first; nothing that runs is ever collected",
            Self::Unproven(_) => "look again from the host, namespace or user that it runs under",
            Self::CouldBeOpen { .. } => "end that agent first; it may have resumed the session",
            Self::JustWritten => "try again later",
            Self::Active => "wait until it has ended",
        }
    }
}

/// Whether a session with this verdict may be collected at all. Age, size and pins are asked later.
pub fn may_collect(session: &Session, verdict: &Verdict, now: Time) -> Result<(), CollectRefusal> {
    match verdict.liveness {
        Liveness::Alive(_) => return Err(CollectRefusal::Alive),
        Liveness::Unknown(Doubt::MaybeOpen) | Liveness::Dead(Death::NotAttached) => {}
        Liveness::Unknown(_) => return Err(CollectRefusal::Unproven(verdict.liveness)),
        Liveness::Dead(_) => {}
    }
    // Even a recorded end: an agent that could have resumed it since says more than that.
    if let Some(runs) = name_possible_openers(session) {
        return Err(CollectRefusal::CouldBeOpen { runs });
    }
    may_finalize(verdict.liveness)?;
    if session.kind == SessionKind::Native && was_just_written(session, now) {
        return Err(CollectRefusal::JustWritten);
    }
    if verdict.status.is_collectable() { Ok(()) } else { Err(CollectRefusal::Active) }
}

/// Whether that liveness of an owner ends its session. A derived end does not.
pub const fn may_finalize(liveness: Liveness) -> Result<(), CollectRefusal> {
    match liveness {
        Liveness::Alive(_) => Err(CollectRefusal::Alive),
        Liveness::Unknown(_) | Liveness::Dead(Death::NotAttached) => {
            Err(CollectRefusal::Unproven(liveness))
        }
        Liveness::Dead(_) => Ok(()),
    }
}

/// The agents that could have a session open although it is not called live, in words.
fn name_possible_openers(session: &Session) -> Option<String> {
    let could_open = |claim: &&ProcessClaim| claim.how == ClaimBasis::CouldOpen;
    let name = |claim: &ProcessClaim| {
        let pid = claim.identity.pid.map_or("a process".to_owned(), |pid| format!("pid {pid}"));
        match &claim.directory {
            Some(directory) => format!("{pid} (in {directory})"),
            None => pid,
        }
    };
    let names: Vec<String> = session.claims.iter().filter(could_open).map(name).collect();
    (!names.is_empty()).then(|| format!("{} {}", session.agent, names.join(", ")))
}

fn was_just_written(session: &Session, now: Time) -> bool {
    let changed = session.transcript.as_ref().map(|transcript| transcript.stamp.modified_at());
    session
        .last_written_at()
        .max(changed)
        .is_some_and(|written| now.since(written) < QUIET_BEFORE_COLLECTION)
}

impl From<CollectRefusal> for crate::plan::Refusal {
    fn from(refusal: CollectRefusal) -> Self {
        match refusal {
            CollectRefusal::Alive => Self::Alive { who: "its process".to_owned() },
            CollectRefusal::Unproven(liveness) => {
                Self::Unproven { why: liveness.reason_code().to_owned() }
            }
            CollectRefusal::CouldBeOpen { runs } => Self::CouldBeOpen { runs },
            CollectRefusal::JustWritten => Self::JustWritten,
            CollectRefusal::Active => Self::Active { status: "its status is active".to_owned() },
        }
    }
}
