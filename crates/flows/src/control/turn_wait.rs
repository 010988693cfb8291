//! Waiting for the end of the turn that an earlier prompt began.

use std::path::Path;
use std::time::{Duration, Instant};

use model::control::delivery::{DeliveryRecord, DeliveryState, DeliveryTurn, TurnEnd};
use model::session::SessionName;
use model::status::Activity;

use super::deliveries::ControlLedger;
use super::prompt::{PromptError, TurnPause};
use super::ready_agent::find_named;
use super::rivals::is_provable;
use super::running::LookAtMachine;
use super::transcript_watch::TranscriptWatch;
use crate::timeouts::LONGEST_WATCH_SPAN;

/// Waits until the turn of a delivery is over; a delivery that did not arrive has none and is returned as it is.
pub fn await_delivery_turn(
    ledger: &mut ControlLedger,
    id: &str,
    timeout: Option<Duration>,
    observe: &mut LookAtMachine<'_>,
) -> Result<DeliveryRecord, PromptError> {
    let until = timeout.map(|timeout| Instant::now() + timeout);
    let mut watch = TranscriptWatch::default();
    loop {
        let kept = ledger.find_delivery(id);
        let kept = kept.map_err(|error| PromptError::Observe(error.to_string()))?;
        let kept = kept.ok_or_else(|| {
            PromptError::Observe(format!("delivery {id} is not in the store any more"))
        })?;
        let seen = observe().map_err(PromptError::Observe)?;
        let mut record = ledger.judge_delivery(kept, &seen);
        let name = SessionName::new(&record.agent, &record.session);
        let one = find_named(&seen, &name);
        let goes_on = one.is_some_and(|one| !one.verdict.status.is_terminal());
        let may_arrive = is_provable(record.state);
        let is_open = record.turn.as_ref().is_none_or(|turn| turn.end == TurnEnd::Open);
        if !is_open || !(may_arrive || record.state == DeliveryState::Accepted) {
            return Ok(record);
        }
        if !goes_on {
            // Whoever had it is gone, and nothing more is written.
            if record.state == DeliveryState::Accepted {
                let (end, ended_at) = (TurnEnd::Interrupted, None);
                record.turn = Some(DeliveryTurn { end, resets_at: None, ended_at });
            }
            return Ok(record);
        }
        let pause = |record, pause| Err(PromptError::Unfinished(Box::new(record), pause));
        if one.is_some_and(|one| one.verdict.activity == Some(Activity::Waiting)) {
            return pause(record, TurnPause::Asks);
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return pause(record, TurnPause::TimedOut);
        }
        if !watch.follow_file(record.proof.as_ref().map(|proof| Path::new(&proof.path))) {
            watch.wait(left.map_or(LONGEST_WATCH_SPAN, |left| left.min(LONGEST_WATCH_SPAN)));
        }
    }
}
