//! Equal texts: one record of a prompt proves one delivery.
//!
//! Whoever was sent the same text twice and recorded it once has one of them. A record that already proves a delivery
//! proves no other, and among those that are still unproven the one that was sent first has the first record.

use model::control::delivery::{DeliveryRecord, DeliveryState};
use model::control::prompt::PromptMatch;
use model::session::SessionName;
use model::time::Time;
use sys::machine::Machine;

use super::deliveries::ControlLedger;

/// A record that equals a text, and when it was written.
pub(super) type EqualRecord = (PromptMatch, Option<Time>);

/// The other deliveries of the same text to the same conversation, or why they are not known.
pub(super) fn read_rivals(
    machine: &Machine,
    record: &DeliveryRecord,
) -> Result<Vec<DeliveryRecord>, String> {
    let name = SessionName::new(&record.agent, &record.session);
    let kept = ControlLedger::new(machine).list_deliveries(Some(&name), None);
    let all = kept.map_err(|error| format!("the other deliveries to {name}: {error}"))?;
    let is_rival = |other: &DeliveryRecord| {
        other.id != record.id && other.normalised_sha256 == record.normalised_sha256
    };
    Ok(all.into_iter().map(|kept| kept.record).filter(is_rival).collect())
}

/// What is left of the records of a text once each that proves another delivery is taken away.
fn unclaimed(
    own: &DeliveryRecord,
    found: &[EqualRecord],
    rivals: &[DeliveryRecord],
) -> Vec<EqualRecord> {
    let mut left = found.to_vec();
    let proofs = rivals.iter().filter(|other| other.state == DeliveryState::Accepted);
    for proof in proofs.filter_map(|other| other.proof.as_ref()) {
        // One that was proven before this one began has its record before.
        if proof.record <= own.noted_end {
            continue;
        }
        let is_its = |(_, at): &EqualRecord| proof.at.is_none() || *at == proof.at;
        if let Some(taken) = left.iter().position(is_its) {
            left.remove(taken);
        }
    }
    left
}

/// The record that proves a delivery under way.
pub(super) fn choose_own(
    own: &DeliveryRecord,
    found: &[EqualRecord],
    rivals: &[DeliveryRecord],
) -> Option<EqualRecord> {
    unclaimed(own, found, rivals).into_iter().next()
}

/// The record that proves a delivery later: those that were sent before it come first.
pub(super) fn choose_late(
    own: &DeliveryRecord,
    found: &[EqualRecord],
    rivals: &[DeliveryRecord],
) -> Option<EqualRecord> {
    // Of one that nobody settled it is not known whether Enter was pressed.
    let rank =
        |one: &DeliveryRecord| (!one.state.may_be_proven_later(), one.begun_at, one.id.clone());
    let waits = |other: &&DeliveryRecord| is_provable(other.state) && rank(other) < rank(own);
    let ahead = rivals.iter().filter(waits).count();
    unclaimed(own, found, rivals).into_iter().nth(ahead)
}

/// Whether a record may still settle a delivery.
pub(super) const fn is_provable(state: DeliveryState) -> bool {
    state.may_be_proven_later() || matches!(state, DeliveryState::Ready | DeliveryState::Composed)
}

#[cfg(test)]
mod tests {
    use model::control::delivery::{DeliveryChannel, DeliveryProof};

    use super::*;

    fn delivery(id: &str, state: DeliveryState, noted_end: u64) -> DeliveryRecord {
        DeliveryRecord {
            id: id.to_owned(),
            session: "s".to_owned(),
            agent: "claude-code".to_owned(),
            channel: DeliveryChannel::Terminal,
            sha256: "h".to_owned(),
            normalised_sha256: "h".to_owned(),
            bytes: 1,
            state,
            begun_at: Time::from_millis(1000),
            key: None,
            by: None,
            terminal: None,
            enters: 1,
            composed_ms: None,
            accepted_ms: None,
            matched: None,
            proof: None,
            turn: None,
            reason: None,
            screen: None,
            noted_end,
        }
    }

    fn proven(id: &str, record: u64, at: Option<i64>) -> DeliveryRecord {
        let at = at.map(Time::from_millis);
        let (source, path) = ("transcript".to_owned(), "/t".to_owned());
        let proof = Some(DeliveryProof { source, path, record, at });
        DeliveryRecord { proof, ..delivery(id, DeliveryState::Accepted, 0) }
    }

    fn found(at: &[i64]) -> Vec<EqualRecord> {
        at.iter().map(|at| (PromptMatch::Exact, Some(Time::from_millis(*at)))).collect()
    }

    #[test]
    fn row_05_one_record_proves_one_delivery() {
        let own = delivery("b", DeliveryState::Unproven, 10);
        let at = |own: Option<EqualRecord>| own.and_then(|(_, at)| at).map(Time::as_millis);
        let one = [proven("a", 20, Some(5))];
        assert_eq!(at(choose_own(&own, &found(&[5]), &one)), None);
        assert_eq!(at(choose_own(&own, &found(&[5, 7]), &one)), Some(7));
        assert_eq!(at(choose_own(&own, &found(&[5, 5]), &one)), Some(5), "whole seconds");
        assert_eq!(at(choose_late(&own, &found(&[5]), &one)), None);
        // Proven before this one began, or by a record without a time.
        assert_eq!(at(choose_own(&own, &found(&[7]), &[proven("a", 10, Some(5))])), Some(7));
        assert_eq!(at(choose_own(&own, &found(&[7]), &[proven("a", 20, None)])), None);
    }

    #[test]
    fn row_05_of_two_unproven_ones_the_first_has_the_record() {
        let (first, second) = (
            delivery("a", DeliveryState::Unproven, 10),
            delivery("b", DeliveryState::Unproven, 10),
        );
        let one = found(&[5]);
        assert!(choose_late(&first, &one, std::slice::from_ref(&second)).is_some());
        assert!(choose_late(&second, &one, std::slice::from_ref(&first)).is_none());
        // Of one that nobody settled it is not known whether it was sent at all.
        let unsettled = delivery("a", DeliveryState::Ready, 10);
        assert!(choose_late(&second, &one, std::slice::from_ref(&unsettled)).is_some());
        assert!(choose_late(&unsettled, &one, &[second]).is_none());
        // What was never entered has no claim.
        let refused = delivery("a", DeliveryState::NotComposed, 10);
        assert!(
            choose_late(&delivery("b", DeliveryState::Unproven, 10), &one, &[refused]).is_some()
        );
    }
}
