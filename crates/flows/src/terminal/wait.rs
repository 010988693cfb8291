//! Waiting for a session.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use host::client::{HOST_ANSWER_TIMEOUT, ask_host_unless};
use model::hosted::protocol::{LONGEST_PATTERN, LONGEST_TEXT};
use model::hosted::wire::{RenderParams, WaitParams, WaitResult};
use model::hosted::{FaultCode, HostFault};

use super::{HostedSession, look};

pub use host::server::check_nested_quantifiers;

/// How long a wait lasts by default.
pub const DEFAULT_WAIT_MS: u64 = 600_000;

/// Checks conditions before anything is asked.
pub fn check_conditions(params: &RenderParams) -> Result<(), HostFault> {
    if params.text.is_some() && params.regex.is_some() {
        return Err(HostFault::invalid_input("--text and --regex are mutually exclusive."));
    }
    for (name, text) in [("--text", &params.text), ("--gone", &params.gone)] {
        if let Some(text) = text
            && (text.is_empty() || text.chars().count() > LONGEST_TEXT)
        {
            return Err(HostFault::invalid_input(format!(
                "{name} must have 1 to {LONGEST_TEXT} characters."
            )));
        }
    }
    if let Some(pattern) = &params.regex {
        if pattern.is_empty() || pattern.chars().count() > LONGEST_PATTERN {
            let message = format!("--regex must have 1 to {LONGEST_PATTERN} characters.");
            return Err(HostFault::invalid_input(message));
        }
        host::server::check_pattern(pattern)?;
    }
    if !params.has_condition() {
        return Err(HostFault::invalid_input(
            "Provide at least one condition: --text, --regex, --gone, --changed, \
             --screen-stable-ms, --cursor-row or --cursor-col.",
        ));
    }
    Ok(())
}

fn answer_timeout(timeout_ms: Option<u64>) -> Option<Duration> {
    match timeout_ms.unwrap_or(DEFAULT_WAIT_MS) {
        0 => None,
        millis => Some(Duration::from_millis(millis).saturating_add(HOST_ANSWER_TIMEOUT)),
    }
}

/// Waits for the end, or for silence.
pub fn wait_for_session(
    session: &HostedSession,
    params: &WaitParams,
) -> Result<WaitResult, HostFault> {
    let ended = |session: &HostedSession| WaitResult {
        exit_code: session.manifest.exit_code,
        exit_signal: session.manifest.exit_signal.clone(),
        ..WaitResult::default()
    };
    if params.exit && session.status().is_terminal() {
        return Ok(ended(session));
    }
    if !params.exit {
        session.check_can_receive()?;
    }
    match session.ask(params, answer_timeout(params.timeout_ms)) {
        Err(fault) if fault.code == FaultCode::SessionNotRunning && params.exit => {
            Ok(ended(&session.reread_manifest().unwrap_or_else(|| session.clone())))
        }
        other => other,
    }
}

/// Waits for something on the screen. Of a session that is over, the last screen decides.
pub fn wait_for_render(
    session: &HostedSession,
    params: &RenderParams,
) -> Result<WaitResult, HostFault> {
    wait_for_render_unless(session, params, None)
}

/// The same, given up as soon as `cancelled` can be read.
pub fn wait_for_render_unless(
    session: &HostedSession,
    params: &RenderParams,
    cancelled: Option<BorrowedFd<'_>>,
) -> Result<WaitResult, HostFault> {
    if session.asks_host() {
        let timeout = answer_timeout(params.timeout_ms);
        match ask_host_unless(session.host(), params, timeout, cancelled) {
            Err(fault) if fault.code == FaultCode::HostUnreachable => {}
            other => return other,
        }
    }
    let session = session.reread_manifest().unwrap_or_else(|| session.clone());
    let replayed = look::replay_session(&session)?;
    host::server::check_offline(&replayed.screen, replayed.seq, params)
}
