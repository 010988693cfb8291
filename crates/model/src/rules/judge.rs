//! From a session's facts to its verdict.

use std::time::Duration;

use crate::hosted::settle_status;
use crate::liveness::{Death, Doubt, Liveness};
use crate::session::{Certainty, ClaimBasis, EvidenceSource, ProcessClaim, Session};
use crate::sighting::TurnState;
use crate::status::{Activity, Status};
use crate::time::Time;

/// What a judgement depends on beside the session itself.
#[derive(Clone, Copy, Debug)]
pub struct JudgeCircumstances {
    /// The time of the judgement.
    pub now: Time,
    /// Whether this observer sees every process: only then is absence an observation.
    pub sees_every_process: bool,
    /// How long *working* may go without a sign of life before it is called stale.
    pub stale_after: Duration,
}

/// Status, liveness and activity of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The lifecycle state.
    pub status: Status,
    /// Whether its process is there.
    pub liveness: Liveness,
    /// Where that was learned.
    pub source: EvidenceSource,
    /// How sure it is.
    pub certainty: Certainty,
    /// What it is doing, if it may be live.
    pub activity: Option<Activity>,
    /// Working without a sign of life for too long.
    pub stale: bool,
    /// Index into the session's claims of the one that decided.
    pub decided_by: Option<usize>,
}

/// Judges one session.
///
/// Among the claims a living process wins (two registrations for one session: any live one), a
/// proven one before a derived one; then an end that was recorded; then doubt; then death, a derived
/// one first: an agent that could have it open leaves no end firm. A session that nothing claims is
/// dead for want of a process, unless this observer could have missed one. What a terminal's host wrote
/// down holds as far as that process bears it out.
pub fn judge_session(session: &Session, circumstances: &JudgeCircumstances) -> Verdict {
    let strongest = session.claims.iter().enumerate().min_by_key(|(_, claim)| claim_rank(claim));
    let (liveness, source, certainty) = match strongest {
        Some((_, claim)) => (claim.liveness, claim.how.evidence_source(), certainty_of(claim)),
        None if circumstances.sees_every_process => {
            (Liveness::Dead(Death::NoProcess), EvidenceSource::None, Certainty::Proven)
        }
        None => (Liveness::Unknown(Doubt::Blind), EvidenceSource::None, Certainty::Derived),
    };
    let status = match (session.written_status, liveness) {
        (Some(written), host) => settle_status(written, host).shown_status(written),
        (None, Liveness::Alive(_)) => Status::Running,
        (None, Liveness::Dead(_)) => Status::Exited,
        (None, Liveness::Unknown(_)) => Status::Unknown,
    };
    let claim = strongest.map(|(_, claim)| claim);
    let activity = status.is_active().then(|| activity_of(session, claim));
    let stale = activity == Some(Activity::Working)
        && session
            .last_activity_at()
            .is_some_and(|last| circumstances.now.since(last) > circumstances.stale_after);
    Verdict {
        status,
        liveness,
        source,
        certainty,
        activity,
        stale,
        decided_by: strongest.map(|(index, _)| index),
    }
}

/// Smaller is stronger.
fn claim_rank(claim: &ProcessClaim) -> (u8, ClaimBasis) {
    let class = match (claim.liveness, claim.how.certainty()) {
        (Liveness::Alive(_), Certainty::Proven) => 0,
        (Liveness::Alive(_), Certainty::Derived) => 1,
        (Liveness::Dead(Death::Recorded), _) => 2,
        (Liveness::Unknown(_), _) => 3,
        (Liveness::Dead(Death::NotAttached), _) => 4,
        (Liveness::Dead(_), _) => 5,
    };
    (class, claim.how)
}

fn certainty_of(claim: &ProcessClaim) -> Certainty {
    match claim.liveness {
        Liveness::Unknown(_) | Liveness::Dead(Death::NotAttached) => Certainty::Derived,
        Liveness::Alive(_) => claim.how.certainty(),
        Liveness::Dead(_) => Certainty::Proven,
    }
}

/// What the agent itself says comes first, then what its hooks told, then where the transcript
/// stands. A transcript that was written to well after the last hook knows more: an interrupt is
/// told by no hook.
fn activity_of(session: &Session, claim: Option<&ProcessClaim>) -> Activity {
    let own = claim.and_then(|claim| own_word(session, claim)).and_then(|claim| claim.activity);
    own.or_else(|| latest_hook_claim(session)?.activity)
        .unwrap_or_else(|| session.digest.turn.activity())
}

/// The claim whose agent says what is being done. Of several processes that have one conversation
/// open, the one that needs a person comes first, then the one that works.
fn own_word<'a>(session: &'a Session, decided: &'a ProcessClaim) -> Option<&'a ProcessClaim> {
    let says = |claim: &&ProcessClaim| claim.how != ClaimBasis::Hook && claim.activity.is_some();
    let urgency = |claim: &&ProcessClaim| match claim.activity {
        Some(Activity::Waiting) => 0,
        Some(Activity::Working) => 1,
        Some(Activity::Idle) => 2,
        Some(Activity::Unknown) | None => 3,
    };
    let own = Some(decided).filter(says)?;
    let others = proven_owners(session).filter(says);
    others.min_by_key(urgency).filter(|other| urgency(other) < urgency(&own)).or(Some(own))
}

/// The claims whose processes are proven to have the session open, each process once. More than one
/// means that one conversation is open twice.
pub fn proven_owners(session: &Session) -> impl Iterator<Item = &ProcessClaim> {
    let is_owner = |claim: &ProcessClaim| {
        claim.liveness.is_alive()
            && claim.how.certainty() == Certainty::Proven
            && claim.identity.pid.is_some()
    };
    session.claims.iter().enumerate().filter_map(move |(index, claim)| {
        let known =
            |other: &ProcessClaim| is_owner(other) && other.identity.pid == claim.identity.pid;
        (is_owner(claim) && !session.claims[..index].iter().any(known)).then_some(claim)
    })
}

/// What the hooks told last, unless the transcript has moved on since.
fn latest_hook_claim(session: &Session) -> Option<&ProcessClaim> {
    const HOOK_CLAIM_SLACK: Duration = Duration::from_secs(5);
    let told = session.claims.iter().find(|claim| claim.how == ClaimBasis::Hook)?;
    let moved_on = session.digest.turn.activity() != Activity::Unknown
        && session.digest.last_activity_at > Some(told.observed_at.plus(HOOK_CLAIM_SLACK));
    (!moved_on).then_some(told)
}

/// What a session waits for, when it is waiting and something says what for.
pub fn waiting_for<'a>(session: &'a Session, verdict: &Verdict) -> Option<&'a str> {
    if verdict.activity != Some(Activity::Waiting) {
        return None;
    }
    let claimed = verdict
        .decided_by
        .and_then(|index| own_word(session, &session.claims[index])?.waiting_for.as_deref());
    let told = || latest_hook_claim(session)?.waiting_for.as_deref();
    claimed.or_else(told).or(match &session.digest.turn {
        TurnState::Waiting(reason) => reason.as_deref(),
        _ => None,
    })
}
