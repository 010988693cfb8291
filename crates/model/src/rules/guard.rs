//! The collection guard: may this be removed? The one place that says no.

use std::time::Duration;

use crate::liveness::{Death, Doubt, Liveness};
use crate::refusal::Refusal;
use crate::rules::judge::Verdict;
use crate::session::{ClaimBasis, ProcessClaim, Session, SessionKind};
use crate::time::Time;

/// What was written this recently is never collected, under any option: no one
/// who lists sessions and then collects can have seen it idle.
pub const QUIET_BEFORE_COLLECTION: Duration = Duration::from_secs(10 * 60);

/// Whether a session with this verdict may be collected at all. Age, size and pins are asked later.
pub fn may_collect(session: &Session, verdict: &Verdict, now: Time) -> Result<(), Refusal> {
    match verdict.liveness {
        Liveness::Alive(_) => return Err(alive_refusal()),
        Liveness::Unknown(Doubt::MaybeOpen) | Liveness::Dead(Death::NotAttached) => {}
        Liveness::Unknown(Doubt::Unreadable) => {
            return Err(Refusal::Unreadable {
                why: "what tells of its process cannot be read".to_owned(),
            });
        }
        Liveness::Unknown(_) => return Err(unproven_refusal(verdict.liveness)),
        Liveness::Dead(_) => {}
    }
    // Even a recorded end: an agent that could have resumed it since says more than that.
    if let Some(runs) = name_possible_openers(session) {
        return Err(Refusal::CouldBeOpen { runs });
    }
    may_finalize(verdict.liveness)?;
    // A terminal's log is written by its host alone, which is proven to be gone: it is as it will stay.
    if session.kind == SessionKind::Native && was_just_written(session, now) {
        return Err(Refusal::JustWritten);
    }
    if verdict.status.is_collectable() {
        Ok(())
    } else {
        Err(Refusal::Active { status: verdict.status.as_str().to_owned() })
    }
}

/// Whether that liveness of an owner ends its session. A derived end does not.
pub fn may_finalize(liveness: Liveness) -> Result<(), Refusal> {
    match liveness {
        Liveness::Alive(_) => Err(alive_refusal()),
        Liveness::Unknown(_) | Liveness::Dead(Death::NotAttached) => {
            Err(unproven_refusal(liveness))
        }
        Liveness::Dead(_) => Ok(()),
    }
}

fn alive_refusal() -> Refusal {
    Refusal::Alive { who: "its process".to_owned() }
}

fn unproven_refusal(liveness: Liveness) -> Refusal {
    Refusal::Unproven { why: liveness.reason_code().to_owned() }
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
