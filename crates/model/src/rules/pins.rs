//! Pins: what a person said is never to be collected. Everything that removes asks here.

use std::collections::{HashMap, HashSet};

use crate::plan::Refusal;
use crate::session::SessionName;
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinRecord {
    pub session: SessionName,
    pub at: Time,
    /// Why, in the words of the person who pinned it.
    pub note: Option<String>,
}

/// The pins of a home, as they were when it was looked at.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    held: HashMap<SessionName, PinRecord>,
    /// Why they cannot be read: then anything may be pinned.
    unreadable: Option<String>,
}

impl Pins {
    /// What was read, or why it was not.
    pub fn from_read<E: std::fmt::Display>(read: Result<Vec<PinRecord>, E>) -> Self {
        match read {
            Ok(pins) => {
                let held = pins.into_iter().map(|pin| (pin.session.clone(), pin)).collect();
                Self { held, unreadable: None }
            }
            Err(error) => Self { held: HashMap::new(), unreadable: Some(error.to_string()) },
        }
    }

    /// Whether nothing is known to be pinned.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The pin of a session.
    pub fn get(&self, session: &SessionName) -> Option<&PinRecord> {
        self.held.get(session)
    }

    /// The sessions that are known to be pinned.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionName> {
        self.held.keys()
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
    pub fn allow(&self, sessions: &[SessionName]) -> Result<(), Refusal> {
        match (&self.unreadable, sessions) {
            (_, []) => Ok(()),
            (Some(why), _) => Err(may_be_pinned(why)),
            (None, sessions) => match sessions.iter().find(|one| self.held.contains_key(one)) {
                Some(session) => Err(Refusal::Pinned { session: session.to_string() }),
                None => Ok(()),
            },
        }
    }
}

/// The refusal of what cannot be looked up: it may be pinned.
pub fn may_be_pinned(why: &dyn std::fmt::Display) -> Refusal {
    Refusal::Unreadable { why: format!("it may be pinned, and {why}") }
}
