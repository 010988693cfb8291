//! Pins: what a person said is never to be collected. Whoever removes anything asks here.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use model::plan::Refusal;
use model::session::{Kind, Name};
use model::time::Time;
use model::wire::{PinResult, PinView};
use store::state::{State, StateError};

use crate::address::{self, AddressError};
use crate::observe::Observation;
use crate::work::{Failure, FailureKind};
use crate::writer::Writer;

pub use store::state::Pin;

/// The pins of a home, as they were when it was looked at.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    held: HashMap<Name, Pin>,
    /// Why they cannot be read: then anything may be pinned.
    unreadable: Option<String>,
}

impl Pins {
    /// Looks at the pins of a home.
    pub fn read(home: &Path) -> Self {
        Self::of(State::read(home).and_then(|state| Self::in_store(state.as_ref())))
    }

    /// What was read from a store, or why it was not.
    pub(crate) fn of(read: Result<Vec<Pin>, StateError>) -> Self {
        match read {
            Ok(pins) => {
                let held = pins.into_iter().map(|pin| (pin.session.clone(), pin)).collect();
                Self { held, unreadable: None }
            }
            Err(error) => Self { held: HashMap::new(), unreadable: Some(error.to_string()) },
        }
    }

    /// What a store holds; nothing if there is none.
    pub(crate) fn in_store(state: Option<&State>) -> Result<Vec<Pin>, StateError> {
        state.map(State::pins).transpose().map(Option::unwrap_or_default)
    }

    /// Whether nothing is known to be pinned.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The pin of a session.
    pub fn get(&self, session: &Name) -> Option<&Pin> {
        self.held.get(session)
    }

    /// The sessions of one agent that are pinned, or why that cannot be told.
    pub fn of_agent(&self, agent: &str) -> Result<HashSet<&str>, &str> {
        if let Some(why) = &self.unreadable {
            return Err(why);
        }
        let own = self.held.keys().filter(|name| name.agent == agent);
        Ok(own.map(|name| name.id.as_str()).collect())
    }

    /// Whether something may go that belongs to these sessions.
    pub fn allow(&self, sessions: &[Name]) -> Result<(), Refusal> {
        match (&self.unreadable, sessions) {
            (_, []) => Ok(()),
            (Some(why), _) => Err(unreadable(why)),
            (None, sessions) => match sessions.iter().find(|one| self.held.contains_key(one)) {
                Some(session) => Err(Refusal::Pinned { session: session.to_string() }),
                None => Ok(()),
            },
        }
    }
}

fn unreadable(why: &dyn std::fmt::Display) -> Refusal {
    Refusal::Unreadable { why: format!("it may be pinned, and {why}") }
}

/// Looks again, in the store itself: the last thing that is asked before something goes.
/// What cannot be read may be pinned.
pub(crate) fn recheck(writer: &Writer, sessions: &[Name]) -> Result<(), Refusal> {
    for session in sessions {
        let pin = writer.state().and_then(|state| state.pin_of(session));
        if pin.map_err(|error| unreadable(&error))?.is_some() {
            return Err(Refusal::Pinned { session: session.to_string() });
        }
    }
    Ok(())
}

/// Everything that is pinned, the newest first.
pub fn list(home: &Path) -> Result<PinResult, PinError> {
    let pins = Pins::in_store(State::read(home)?.as_ref())?;
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
        let mut found: Vec<&Name> = pins.held.keys().filter(|name| fits(name)).collect();
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
