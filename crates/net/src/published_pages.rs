//! Which of its pages a member may have at the hub, as its lease says: the others were never published, and readers are
//! spared sixteen records of which most are empty. A page stays among them when it gets empty: that has to be said again
//! whenever the hub may have forgotten it. Whoever cannot tell what was published takes it to be every page.

use crate::lease::FoundLease;
use crate::record::{MemberLease, page_names};

/// One bit for each page, in the order of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PublishedPages(u16);

impl PublishedPages {
    /// What there may be at the hub, by the lease that is found there.
    pub(crate) fn of_found(found: &FoundLease) -> Self {
        match found {
            FoundLease::Nothing => Self(0),
            FoundLease::Signed(lease) => Self::of_lease(lease),
            FoundLease::Forged => Self(u16::MAX),
        }
    }

    /// What a lease says; one of an earlier version says nothing about it.
    pub(crate) fn of_lease(lease: &MemberLease) -> Self {
        Self(lease.pages.unwrap_or(u16::MAX))
    }

    /// As it stands in a lease.
    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    pub(crate) fn names(self) -> impl Iterator<Item = String> {
        page_names().enumerate().filter(move |(at, _)| self.0 >> at & 1 == 1).map(|(_, name)| name)
    }

    /// Those of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The same with more pages.
    pub(crate) fn with<'a>(self, names: impl Iterator<Item = &'a String>) -> Self {
        let bit = |name: &String| page_names().position(|one| one == *name).map_or(0, |at| 1 << at);
        Self(names.fold(self.0, |bits, name| bits | bit(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_told_by_their_place() {
        let names = |pages: PublishedPages| pages.names().collect::<Vec<_>>();
        let none = PublishedPages::of_found(&FoundLease::Nothing);
        assert!(names(none).is_empty());
        let two = ["ended.7", "active.0"].map(str::to_owned);
        assert_eq!(names(none.with(two.iter())), ["active.0", "ended.7"]);
        assert_eq!(none.with(two.iter()).with(two.iter()).bits(), 0x8001);
        assert_eq!(names(PublishedPages::of_found(&FoundLease::Forged)).len(), 16);
    }
}
