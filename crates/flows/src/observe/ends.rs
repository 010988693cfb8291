//! Ends that were proven and recorded: what `ls`, `show` and `why` know of sessions that are over.

use std::cell::RefCell;
use std::collections::HashMap;

use model::time::Time;
use store::state::{StateError, StateStore, TrackedSession};

/// The recorded ends of sessions. Looked up one by one where few sessions are looked at, so that the
/// cost does not grow with the number of sessions that ever ended.
#[derive(Debug, Default)]
pub(super) struct RecordedEnds {
    /// Ends that are known already: of the spool, or all of them.
    known: HashMap<String, HashMap<String, Option<Time>>>,
    /// Where others are looked up.
    state: Option<StateStore>,
    /// Why one could not be looked up.
    failed: RefCell<Option<StateError>>,
}

impl RecordedEnds {
    /// What the store and the spool say; `all` reads them at once.
    pub(super) fn read(
        state: Option<StateStore>,
        spooled: &[TrackedSession],
        all: bool,
    ) -> Result<Self, StateError> {
        let mut ends = Self::default();
        match state {
            Some(state) if all => {
                for (agent, id, at) in state.recorded_ends()? {
                    ends.known.entry(agent).or_default().insert(id, Some(at));
                }
            }
            state => ends.state = state,
        }
        for TrackedSession { agent, id, track } in spooled {
            let end = track.end.as_ref().map(|end| end.at);
            ends.known.entry(agent.clone()).or_default().insert(id.clone(), end);
        }
        Ok(ends)
    }

    /// Whether they are looked up one by one.
    pub(super) fn are_looked_up(&self) -> bool {
        self.state.is_some()
    }

    /// When a session ended, if that was recorded and nothing was told since.
    pub(super) fn get(&self, agent: &str, id: &str) -> Option<Time> {
        if let Some(known) = self.known.get(agent).and_then(|of_agent| of_agent.get(id)) {
            return *known;
        }
        match self.state.as_ref()?.find_track(agent, id) {
            Ok(track) => Some(track?.end?.at),
            Err(error) => {
                *self.failed.borrow_mut() = Some(error);
                None
            }
        }
    }

    /// Why an end could not be looked up, if that happened.
    pub(super) fn into_failure(self) -> Option<StateError> {
        self.failed.into_inner()
    }
}
