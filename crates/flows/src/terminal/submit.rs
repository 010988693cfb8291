//! Submitting a prompt to the program on a terminal, and telling its host that the proof was found.

use std::time::Duration;

use host::client::HOST_ANSWER_TIMEOUT;
use model::hosted::wire::{
    ReadyParams, ReadyResult, SubmissionProofAnswer, SubmissionProofParams, SubmitParams,
    SubmitResult,
};
use model::hosted::{FaultCode, HostFault};
use model::time::whole_millis;

use super::HostedSession;

/// Submits a text and returns its host's outcome, within `timeout`. Others that were asked
/// for before have their turn first. A time-out takes nothing back: [`settle_submission`] does, as far as
/// nothing was written yet.
pub fn submit_text(
    session: &HostedSession,
    params: &SubmitParams,
    timeout: Duration,
) -> Result<SubmitResult, HostFault> {
    params.check_text().map_err(HostFault::invalid_input)?;
    session.check_can_receive()?;
    session.ask(params, Some(timeout))
}

/// Tells the host that the proof of a submission was found, or that it is given up: Enter is not pressed
/// again. With `if_entered` one stays under way for which Enter was not pressed at all.
pub fn settle_submission(
    session: &HostedSession,
    delivery: &str,
    if_entered: bool,
) -> Result<SubmissionProofAnswer, HostFault> {
    let query = SubmissionProofParams { delivery: delivery.to_owned(), if_entered };
    session.ask(&query, Some(HOST_ANSWER_TIMEOUT))
}

/// Whether the program takes a text, and how often Enter was pressed, as it is now.
pub(crate) fn ask_readiness(session: &HostedSession) -> Result<ReadyResult, HostFault> {
    await_ready(session, Duration::ZERO)
}

/// Waits until the program takes a text, or has ended.
pub fn await_ready(session: &HostedSession, timeout: Duration) -> Result<ReadyResult, HostFault> {
    let query = ReadyParams { timeout_ms: whole_millis(timeout) };
    match session.ask(&query, Some(timeout.saturating_add(HOST_ANSWER_TIMEOUT))) {
        Err(fault) if fault.code == FaultCode::SessionNotRunning => {
            let screen = String::new();
            Ok(ReadyResult {
                ready: false,
                ended: true,
                screen,
                counts_enters: false,
                enters: None,
                unsent: false,
                since_enter_ms: None,
            })
        }
        other => other,
    }
}
