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
    /// Whether that is only what an unfinished turn suggests, and neither the agent, its record nor
    /// a hook says it.
    pub activity_derived: bool,
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
    let told = status.is_active().then(|| activity_of(session, claim));
    let activity = told.map(|(activity, _)| activity);
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
        activity_derived: told.is_some_and(|(_, derived)| derived),
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
/// told by no hook. Also says whether it is only derived.
fn activity_of(session: &Session, claim: Option<&ProcessClaim>) -> (Activity, bool) {
    let own = claim.and_then(|claim| own_word(session, claim)).and_then(|claim| claim.activity);
    match own.or_else(|| latest_hook_claim(session)?.activity) {
        Some(activity) => (activity, false),
        None => {
            let turn = &session.digest.turn;
            let activity = turn.activity();
            (activity, activity != Activity::Unknown && !turn.is_recorded())
        }
    }
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
    // No hook tells of an interrupt, so that the end of a turn in the transcript needs less.
    const TURN_END_SLACK: Duration = Duration::from_secs(1);
    let told = session.claims.iter().find(|claim| claim.how == ClaimBasis::Hook)?;
    let written = session.digest.last_activity_at;
    let moved_on = match &session.digest.turn {
        TurnState::Unknown => false,
        // An open question is on the record until it is answered; the hook that comes with it may
        // say no more than that the agent works.
        TurnState::Waiting(_) => {
            written.is_some_and(|at| at.plus(HOOK_CLAIM_SLACK) >= told.observed_at)
        }
        TurnState::Closed => written > Some(told.observed_at.plus(TURN_END_SLACK)),
        TurnState::Open | TurnState::Asking(_) => {
            written > Some(told.observed_at.plus(HOOK_CLAIM_SLACK))
        }
    };
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
        TurnState::Waiting(reason) | TurnState::Asking(reason) => reason.as_deref(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use crate::liveness::Life;
    use crate::session::{FormatCertainty, SessionKind, SessionOrigin};
    use crate::sighting::TranscriptDigest;

    fn claim(how: ClaimBasis, activity: Option<Activity>, seconds: i64) -> ProcessClaim {
        ProcessClaim {
            how,
            liveness: Liveness::Alive(Life::Running),
            identity: Identity::recorded_by_agent(Some(7)),
            started_at: None,
            activity,
            waiting_for: None,
            source: String::new(),
            observed_at: Time::from_millis(seconds * 1000),
            directory: None,
            shared: None,
        }
    }

    /// What is said of a session whose transcript stands so since the hundredth second.
    fn judged(turn: TurnState, claims: Vec<ProcessClaim>) -> (Option<Activity>, bool) {
        let session = Session {
            id: "s".into(),
            kind: SessionKind::Native,
            agent: "x",
            digest: Box::new(TranscriptDigest {
                last_activity_at: Some(Time::from_millis(100_000)),
                turn,
                ..TranscriptDigest::default()
            }),
            transcript: None,
            origin: SessionOrigin {
                adapter: "x",
                root: "/".into(),
                format: "x",
                certainty: FormatCertainty::Lab,
            },
            claims,
            linked: Vec::new(),
            written_status: None,
        };
        let circumstances = JudgeCircumstances {
            now: Time::from_millis(101_000),
            sees_every_process: true,
            stale_after: Duration::from_secs(3600),
        };
        let verdict = judge_session(&session, &circumstances);
        (verdict.activity, verdict.activity_derived)
    }

    #[test]
    fn b3_only_an_unfinished_turn_is_derived() {
        let locked = || vec![claim(ClaimBasis::Locked, None, 50)];
        assert_eq!(judged(TurnState::Open, locked()), (Some(Activity::Working), true));
        let asking = TurnState::Asking(None);
        assert_eq!(judged(asking, locked()), (Some(Activity::Waiting), true));
        let waiting = TurnState::Waiting(None);
        assert_eq!(judged(waiting, locked()), (Some(Activity::Waiting), false));
        assert_eq!(judged(TurnState::Closed, locked()), (Some(Activity::Idle), false));
        assert_eq!(judged(TurnState::Unknown, locked()), (Some(Activity::Unknown), false));
        let said = vec![claim(ClaimBasis::Registered, Some(Activity::Working), 50)];
        assert_eq!(judged(TurnState::Open, said), (Some(Activity::Working), false));
    }

    #[test]
    fn b3_a_question_on_the_record_outweighs_the_hook_that_came_with_it() {
        let hook = |at| vec![claim(ClaimBasis::Hook, Some(Activity::Working), at)];
        let waiting = || TurnState::Waiting(None);
        assert_eq!(judged(waiting(), hook(101)), (Some(Activity::Waiting), false));
        assert_eq!(judged(waiting(), hook(110)), (Some(Activity::Working), false));
    }

    #[test]
    fn b12_the_end_of_a_turn_in_the_transcript_outweighs_an_older_hook() {
        let hook = |at| vec![claim(ClaimBasis::Hook, Some(Activity::Working), at)];
        assert_eq!(judged(TurnState::Closed, hook(97)), (Some(Activity::Idle), false));
        assert_eq!(judged(TurnState::Closed, hook(100)), (Some(Activity::Working), false));
        assert_eq!(judged(TurnState::Open, hook(97)), (Some(Activity::Working), false));
    }
}
