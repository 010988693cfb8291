//! Pinning sessions: what a person said is never to be collected.

use std::path::Path;

use model::address::AddressError;
use model::failure::{Failure, FailureKind};
use model::rules::pins::{Pin, Pins};
use model::session::{Kind, Name};
use model::time::Time;
use model::wire::{PinResult, PinView};
use store::state::{State, StateError};

use crate::address;
use crate::observe::Observation;
use store::writer::Writer;

/// Everything that is pinned, the newest first.
pub fn list(home: &Path) -> Result<PinResult, PinError> {
    let state = State::read(home)?;
    let pins = state.as_ref().map(State::pins).transpose()?.unwrap_or_default();
    let view = |pin: Pin| view(pin.session.clone(), Some(pin), false);
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
pub fn find(
    observation: &Observation,
    text: &str,
    here: &Path,
    to_remove: bool,
) -> Result<Name, PinError> {
    if to_remove && let Some(name) = among(&observation.pins, text)? {
        return Ok(name);
    }
    let session = &address::find(observation, text, here)?.session;
    match session.kind {
        Kind::Native | Kind::Hosted => Ok(session.name()),
        Kind::Access => Err(PinError::Access(session.id.clone())),
    }
}

/// The pin that is meant: by its whole name, its id, or the beginning of that.
fn among(pins: &Pins, text: &str) -> Result<Option<Name>, AddressError> {
    let attempts: [&dyn Fn(&Name) -> bool; 3] =
        [&|name| name.to_string() == text, &|name| name.id == text, &|name| {
            !text.is_empty() && name.id.starts_with(text)
        }];
    for fits in attempts {
        let mut found: Vec<&Name> = pins.sessions().filter(|name| fits(name)).collect();
        found.sort_unstable();
        match found[..] {
            [] => {}
            [one] => return Ok(Some(one.clone())),
            _ => {
                let candidates = found.iter().map(ToString::to_string).collect();
                return Err(AddressError::Ambiguous { text: text.to_owned(), candidates });
            }
        }
    }
    Ok(None)
}

/// Pins sessions, or takes their pins away. Whoever calls this is the writer.
pub(crate) fn perform(
    writer: &mut Writer,
    sessions: &[Name],
    note: Option<&str>,
    remove: bool,
    now: Time,
) -> Result<PinResult, Failure> {
    let mut result = PinResult::default();
    for session in sessions {
        sys::pause::at("pin.begun");
        let done = match remove {
            true => writer.state_mut().and_then(|state| state.unpin(session)),
            false => writer.state_mut().and_then(|state| state.pin(session, note, now)),
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
        sys::pause::at("pin.noted");
        result.pins.push(view(session.clone(), pinned.pin, pinned.changed));
    }
    Ok(result)
}

fn view(session: Name, pin: Option<Pin>, changed: bool) -> PinView {
    PinView {
        agent: session.agent,
        session: session.id,
        pinned: pin.is_some(),
        pinned_at: pin.as_ref().map(|pin| pin.at),
        note: pin.and_then(|pin| pin.note),
        changed,
    }
}
