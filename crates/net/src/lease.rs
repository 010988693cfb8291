//! Who may hold a member's lease: a pure decision over what is found at the hub and what is known here.
//!
//! The lease is taken by compare-and-swap, so that of two that try one wins. Whether a holder that is not
//! us still lives is decided by proof where there is some (its process on this machine), else by whether it
//! renews while it is watched: no clock of one machine is compared with another's.

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
    /// It was not watched yet.
    Unwatched,
    /// It was renewed.
    Fresh,
    /// It was not, for longer than it is good for.
    Lapsed,
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
        }))
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
