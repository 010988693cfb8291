//! The sessions of one agent by their ids: a hash table of places.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::observe::source::FoundSession;

/// Which session has an id. It holds places only: the ids stand in the sessions.
#[derive(Default)]
pub(super) struct SessionsById {
    places: HashTable<usize>,
    hasher: foldhash::fast::RandomState,
}

impl SessionsById {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self { places: HashTable::with_capacity(count), ..Self::default() }
    }

    pub(super) fn get(&self, sessions: &[FoundSession], id: &str) -> Option<usize> {
        let hash = self.hasher.hash_one(id);
        self.places.find(hash, |&place| sessions[place].session.id == id).copied()
    }

    /// Adds a session, and its id with it. Of two with one id the later is found.
    pub(super) fn push(&mut self, sessions: &mut Vec<FoundSession>, new: FoundSession) -> usize {
        let place = sessions.len();
        let hash = self.hasher.hash_one(new.session.id.as_str());
        let same = |&known: &usize| sessions[known].session.id == new.session.id;
        let rehash = |&known: &usize| self.hasher.hash_one(sessions[known].session.id.as_str());
        match self.places.entry(hash, same, rehash) {
            Entry::Occupied(mut known) => *known.get_mut() = place,
            Entry::Vacant(free) => {
                free.insert(place);
            }
        }
        sessions.push(new);
        place
    }
}
