//! Who may hold a member's lease: a pure decision over what is found at the hub and what is known here.
//!
//! The lease is taken by compare-and-swap, so that of two that try one wins. Whether a holder that is not
//! us still lives is decided by proof where there is some (its process on this machine), else by whether it
//! renews while it is watched: no clock of one machine is compared with another's.

use std::time::{Duration, Instant};

use crate::record::{LeaseState, MemberLease};

/// What is found at the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundLease {
    Nothing,
    /// Something that this member did not sign.
    Forged,
    /// A lease that this member signed.
    Signed(Box<MemberLease>),
}

/// What is known of the process that holds a lease on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderLife {
    /// It is there.
    Alive,
    /// It is proven to be gone.
    Dead,
    /// It cannot be told.
    Unknown,
}

/// Whether a lease was renewed while it was watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderPulse {
    /// It was not watched yet, or not for long enough.
    Unwatched,
    /// It was renewed.
    Fresh,
    /// It was not, for longer than it is good for.
    Lapsed,
}

/// The longest that any lease is good for: no member can make itself reachable for ever.
pub const MOST_LEASE_MS: u64 = 180_000;

/// A lease of somebody else, while it is watched for a renewal.
#[derive(Clone, Copy, Debug)]
pub struct HolderWatch {
    sequence: u64,
    /// Since when it is known that it was not renewed.
    since: Instant,
    /// For how long it is good, by its own word.
    lease: Duration,
}

impl HolderWatch {
    /// Begins with a lease that was just read.
    pub fn begin(sequence: u64, lease_ms: u64, now: Instant) -> Self {
        let lease = Duration::from_millis(lease_ms.min(MOST_LEASE_MS));
        Self { sequence, since: now, lease }
    }

    /// Takes what was read; it was asked for at that time.
    pub fn hear(&mut self, sequence: u64, asked_at: Instant) -> HolderPulse {
        if sequence != self.sequence {
            (self.sequence, self.since) = (sequence, asked_at);
            return HolderPulse::Fresh;
        }
        match asked_at.saturating_duration_since(self.since) >= self.lease {
            true => HolderPulse::Lapsed,
            false => HolderPulse::Unwatched,
        }
    }

    /// It could not be read: nobody knows whether it was renewed meanwhile.
    pub fn miss(&mut self, now: Instant) {
        self.since = now;
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseClaimant {
    pub incarnation: String,
    pub machine: String,
    pub boot: String,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseDecision {
    Take,
    /// Take it, and say that an unauthorised writer was there.
    TakeFromForger,
    /// Watch for a renewal first.
    Watch,
    /// Another process of this machine holds it: a second daemon on copied state.
    SecondDaemon,
    /// Another machine or boot renews it: this home was cloned.
    Rival,
    /// It was last held by another machine: the keys were copied.
    Copied,
}

/// Decides whether the lease may be taken.
pub fn decide_lease(
    found: &FoundLease,
    me: &LeaseClaimant,
    life: HolderLife,
    pulse: HolderPulse,
) -> LeaseDecision {
    let lease = match found {
        FoundLease::Nothing => return LeaseDecision::Take,
        FoundLease::Forged => return LeaseDecision::TakeFromForger,
        FoundLease::Signed(lease) => lease,
    };
    if lease.incarnation == me.incarnation {
        return LeaseDecision::Take;
    }
    let (is_machine, is_boot) = (lease.machine == me.machine, lease.boot == me.boot);
    // One that said goodbye holds nothing; on another machine its keys are still copied.
    let is_over = lease.state != LeaseState::Up;
    match (is_machine, is_boot) {
        (true, true) => match life {
            HolderLife::Dead => LeaseDecision::Take,
            _ if is_over => LeaseDecision::Take,
            HolderLife::Alive => LeaseDecision::SecondDaemon,
            HolderLife::Unknown => match pulse {
                HolderPulse::Unwatched => LeaseDecision::Watch,
                HolderPulse::Fresh => LeaseDecision::Rival,
                HolderPulse::Lapsed => LeaseDecision::Take,
            },
        },
        (same_machine, _) => match pulse {
            _ if is_over && same_machine => LeaseDecision::Take,
            HolderPulse::Unwatched => LeaseDecision::Watch,
            HolderPulse::Fresh => LeaseDecision::Rival,
            HolderPulse::Lapsed if same_machine => LeaseDecision::Take,
            HolderPulse::Lapsed => LeaseDecision::Copied,
        },
    }
}

#[cfg(test)]
mod tests {
    use model::time::Time;
    use model::wire::SessionCounts;

    use super::*;

    fn lease(machine: &str, boot: &str, state: LeaseState) -> FoundLease {
        FoundLease::Signed(Box::new(MemberLease {
            v: 1,
            member: "m".into(),
            incarnation: "other".into(),
            boot: boot.into(),
            machine: machine.into(),
            pid: 1,
            start: 1,
            holder: model::identity::Identity::default(),
            n: 1,
            rev: 1,
            state,
            sent_at: Time::from_millis(0),
            up_ms: 0,
            counts: SessionCounts::default(),
            truncated: None,
            allow: "read".into(),
            lease_ms: 15_000,
            ostler: "0".into(),
            rival: None,
            pages: None,
        }))
    }

    #[test]
    fn a_holder_is_silent_only_after_its_own_lease_and_while_it_can_be_heard() {
        use HolderPulse::{Fresh, Lapsed, Unwatched};

        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        // It renews once a minute, whatever the watcher does.
        let mut watch = HolderWatch::begin(7, 180_000, begun);
        assert_eq!(watch.hear(7, at(15)), Unwatched);
        assert_eq!(watch.hear(7, at(179)), Unwatched);
        assert_eq!(watch.hear(8, at(179)), Fresh);
        assert_eq!(watch.hear(8, at(180 + 178)), Unwatched);
        assert_eq!(watch.hear(8, at(180 + 179)), Lapsed);
        // What could not be read is no silence.
        let mut watch = HolderWatch::begin(7, 15_000, begun);
        watch.miss(at(14));
        assert_eq!(watch.hear(7, at(15)), Unwatched);
        assert_eq!(watch.hear(7, at(29)), Lapsed);
        // Nobody is waited for without end.
        assert_eq!(HolderWatch::begin(7, u64::MAX, begun).hear(7, at(180)), Lapsed);
    }

    #[test]
    fn the_table_of_claims() {
        use HolderLife::{Alive, Dead, Unknown};
        use HolderPulse::{Fresh, Lapsed, Unwatched};
        use LeaseDecision as D;

        let me =
            LeaseClaimant { incarnation: "me".into(), machine: "m1".into(), boot: "b1".into() };
        let up = |machine, boot| lease(machine, boot, LeaseState::Up);
        let decide = |found: &FoundLease, life, pulse| decide_lease(found, &me, life, pulse);
        assert_eq!(decide(&FoundLease::Nothing, Unknown, Unwatched), D::Take);
        assert_eq!(decide(&FoundLease::Forged, Unknown, Unwatched), D::TakeFromForger);
        assert_eq!(decide(&up("m1", "b1"), Dead, Unwatched), D::Take, "row 31");
        assert_eq!(decide(&up("m1", "b1"), Alive, Unwatched), D::SecondDaemon, "row 33");
        assert_eq!(decide(&up("m1", "b2"), Unknown, Unwatched), D::Watch);
        assert_eq!(decide(&up("m1", "b2"), Unknown, Fresh), D::Rival, "row 32");
        assert_eq!(decide(&up("m1", "b2"), Unknown, Lapsed), D::Take, "a reboot");
        assert_eq!(decide(&up("m2", "b2"), Unknown, Fresh), D::Rival, "row 32");
        assert_eq!(decide(&up("m2", "b2"), Unknown, Lapsed), D::Copied, "row 34");
        let left = lease("m2", "b2", LeaseState::Stopping);
        assert_eq!(decide(&left, Unknown, Lapsed), D::Copied, "row 34");
        assert_eq!(decide(&lease("m1", "b1", LeaseState::Stopping), Alive, Unwatched), D::Take);
    }
}
