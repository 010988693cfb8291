//! The screen of a session: from its host while it has one, from its log otherwise.

use base64::Engine;
use host::client::{HOST_ANSWER_TIMEOUT, ask_host};
use host::replay::Replayed;
use host::screen::{Screen, ScreenLimits};
use model::hosted::wire::{KeyframeParams, SnapshotParams, SnapshotResult};
use model::hosted::{FaultCode, HostFault};

use super::{HostedSession, TerminalHome};

/// How much of what scrolled away a replay keeps.
const REPLAY_SCROLLBACK: usize = 10_000;

/// Replays the log.
pub(super) fn replay_session(session: &HostedSession) -> Result<Replayed, HostFault> {
    let limits = ScreenLimits { scrollback_lines: REPLAY_SCROLLBACK };
    host::replay::replay_log(&session.directory, &session.manifest, limits).map_err(|error| {
        let message = format!("the log of session `{}` cannot be replayed: {error}", session.id);
        HostFault::new(FaultCode::ReplayError, message)
    })
}

/// What is on the screen.
pub fn take_snapshot(
    session: &HostedSession,
    params: &SnapshotParams,
) -> Result<SnapshotResult, HostFault> {
    if session.asks_host() {
        match ask_host(session.host(), params, Some(HOST_ANSWER_TIMEOUT)) {
            Err(fault) if fault.code == FaultCode::HostUnreachable => {}
            other => return other,
        }
    }
    let replayed = replay_session(session)?;
    Ok(host::snapshot::take_snapshot(&replayed.screen, &session.id, replayed.seq, params))
}

/// Keeps what was told of a screen among the session's artifacts; a host of agent-tty's has done so.
pub fn keep_snapshot(
    home: &TerminalHome,
    session: &HostedSession,
    shown: &SnapshotResult,
) -> Result<(), HostFault> {
    if session.holder.is_none() && session.asks_host() {
        return Ok(());
    }
    host::snapshot::keep(session.artifact_dir(home.personality), shown)
}

/// The screen itself, and the last event behind it.
pub fn load_screen(session: &HostedSession) -> Result<(Screen, i64), HostFault> {
    if session.asks_host() {
        match ask_host(session.host(), &KeyframeParams {}, Some(HOST_ANSWER_TIMEOUT)) {
            Ok(frame) => {
                let wrong = |reason: String| HostFault::new(FaultCode::ProtocolError, reason);
                let bytes = base64::engine::general_purpose::STANDARD
                    .decode(frame.keyframe)
                    .map_err(|error| wrong(error.to_string()))?;
                let screen =
                    Screen::from_keyframe(&bytes).map_err(|error| wrong(error.to_string()))?;
                return Ok((screen, frame.seq));
            }
            Err(fault) if fault.code == FaultCode::HostUnreachable => {}
            Err(fault) => return Err(fault),
        }
    }
    let replayed = replay_session(session)?;
    Ok((replayed.screen, replayed.seq))
}
