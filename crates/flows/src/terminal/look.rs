//! The screen of a session: from its host while it has one, from its log otherwise.

use base64::Engine;
use host::client::{HOST_ANSWER_TIMEOUT, ask_host};
use host::replay::Replayed;
use host::screen::{Limits, Screen};
use model::hosted::wire::{KeyframeParams, SnapshotParams, SnapshotResult};
use model::hosted::{Code, Fault};

use super::{Home, Session};

/// How much of what scrolled away a replay keeps.
const SCROLLBACK: usize = 10_000;

/// Replays the log.
pub(super) fn replay(session: &Session) -> Result<Replayed, Fault> {
    let limits = Limits { scrollback_lines: SCROLLBACK };
    host::replay::replay(&session.directory, &session.manifest, limits).map_err(|error| {
        let message = format!("the log of session `{}` cannot be replayed: {error}", session.id);
        Fault::new(Code::ReplayError, message)
    })
}

/// What is on the screen.
pub fn snapshot(session: &Session, params: &SnapshotParams) -> Result<SnapshotResult, Fault> {
    if session.asks_host() {
        match ask_host(session.host(), params, Some(HOST_ANSWER_TIMEOUT)) {
            Err(fault) if fault.code == Code::HostUnreachable => {}
            other => return other,
        }
    }
    let replayed = replay(session)?;
    Ok(host::snapshot::snapshot(&replayed.screen, &session.id, replayed.seq, params))
}

/// Keeps what was told of a screen among the session's artifacts; a host of agent-tty's has done so.
pub fn keep_snapshot(home: &Home, session: &Session, shown: &SnapshotResult) -> Result<(), Fault> {
    if session.holder.is_none() && session.asks_host() {
        return Ok(());
    }
    host::snapshot::keep(session.shelf(home.personality), shown)
}

/// The screen itself, and the last event behind it.
pub fn screen(session: &Session) -> Result<(Screen, i64), Fault> {
    if session.asks_host() {
        match ask_host(session.host(), &KeyframeParams {}, Some(HOST_ANSWER_TIMEOUT)) {
            Ok(frame) => {
                let wrong = |reason: String| Fault::new(Code::ProtocolError, reason);
                let bytes = base64::engine::general_purpose::STANDARD
                    .decode(frame.keyframe)
                    .map_err(|error| wrong(error.to_string()))?;
                let screen =
                    Screen::from_keyframe(&bytes).map_err(|error| wrong(error.to_string()))?;
                return Ok((screen, frame.seq));
            }
            Err(fault) if fault.code == Code::HostUnreachable => {}
            Err(fault) => return Err(fault),
        }
    }
    let replayed = replay(session)?;
    Ok((replayed.screen, replayed.seq))
}
