//! Pinning sessions: what a person said is never to be collected.

use std::path::Path;

use model::address::{AddressError, SessionHandle, pick_session};
use model::failure::{Failure, FailureKind};
use model::rules::pins::{PinRecord, Pins};
use model::session::{SessionKind, SessionName};
use model::time::Time;
use model::wire::{PinResult, PinView};
use store::state::{StateError, StateStore};

use crate::address;
use crate::observe::Observation;
use store::writer::StoreWriter;

/// Everything that is pinned, the newest first.
pub fn list_pins(home: &Path) -> Result<PinResult, PinError> {
    let state = StateStore::open_read_only(home)?;
    let pins = state.as_ref().map(StateStore::list_pins).transpose()?.unwrap_or_default();
    let view = |pin: PinRecord| pin_view(pin.session.clone(), Some(pin), false);
    Ok(PinResult { pins: pins.into_iter().map(view).collect(), transport: None })
}

/// Why a session cannot be pinned, or pins cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// No session, or several.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Nothing collects those.
    #[error("`{0}` is an access session, and those cannot be pinned")]
    Access(String),
    /// The store cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
}

/// The session that `text` means. To take a pin away it need not be there any more.
pub fn find_pinnable(
    observation: &Observation,
    text: &str,
    here: &Path,
    to_remove: bool,
) -> Result<SessionName, PinError> {
    if to_remove && let Some(name) = find_pin(&observation.pins, text)? {
        return Ok(name);
    }
    let session = &address::resolve_session(observation, text, here)?.session;
    match session.kind {
        SessionKind::Native | SessionKind::Hosted => Ok(session.session_name()),
        SessionKind::Access => Err(PinError::Access(session.id.clone())),
    }
}

/// The pin that is meant: by its whole name, its id, or the beginning of that.
fn find_pin(pins: &Pins, text: &str) -> Result<Option<SessionName>, AddressError> {
    let mut all: Vec<&SessionName> = pins.sessions().collect();
    all.sort_unstable();
    match pick_session(&all, text, handle_of) {
        Ok(name) => Ok(Some(name.clone())),
        Err(AddressError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn handle_of(name: &SessionName) -> SessionHandle<'_> {
    SessionHandle { agent: &name.agent, id: &name.id, ..SessionHandle::default() }
}

/// Pins sessions, or takes their pins away. The caller holds the writer lock.
pub(crate) fn perform_pin(
    writer: &mut StoreWriter,
    sessions: &[SessionName],
    note: Option<&str>,
    remove: bool,
    now: Time,
) -> Result<PinResult, Failure> {
    let mut result = PinResult::default();
    for session in sessions {
        sys::pause::pause_at("pin.begun");
        let done = match remove {
            true => writer.state_mut().and_then(|state| state.remove_pin(session)),
            false => writer.state_mut().and_then(|state| state.add_pin(session, note, now)),
        };
        let pinned = done.map_err(|error| Failure {
            kind: FailureKind::Write,
            message: format!("the pin of {session} was not changed: {error}"),
            hint: match error {
                StateError::NotPrivate(_) => "check that path and its permissions, then try again",
                _ => "`ostler doctor` tells what is wrong",
            }
            .to_owned(),
        })?;
        sys::pause::pause_at("pin.noted");
        result.pins.push(pin_view(session.clone(), pinned.pin, pinned.changed));
    }
    Ok(result)
}

fn pin_view(session: SessionName, pin: Option<PinRecord>, changed: bool) -> PinView {
    PinView {
        agent: session.agent,
        session: session.id,
        pinned: pin.is_some(),
        pinned_at: pin.as_ref().map(|pin| pin.at),
        note: pin.and_then(|pin| pin.note),
        changed,
    }
}
