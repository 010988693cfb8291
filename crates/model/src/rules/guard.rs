//! May this be collected? The one place that says no.

use crate::liveness::Liveness;
use crate::rules::judge::Verdict;

/// Why a session may not be collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its process is there.
    Alive,
    /// It cannot be proved dead from here.
    Unproven(Liveness),
    /// Its status protects it.
    Active,
}

impl Refusal {
    /// The reason, for people.
    pub fn reason(self) -> String {
        match self {
            Self::Alive => "its process is alive".to_owned(),
            Self::Unproven(liveness) => {
                format!("its process cannot be proved dead from here ({})", liveness.reason())
            }
            Self::Active => "its status is active".to_owned(),
        }
    }

    /// What a person can do about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Alive => "end the agent first; nothing that runs is ever collected",
            Self::Unproven(_) => "look again from the host, namespace or user that it runs under",
            Self::Active => "wait until it has ended",
        }
    }
}

/// Whether a session with this verdict may be collected at all. Age, size and pins are asked later.
pub fn may_collect(verdict: &Verdict) -> Result<(), Refusal> {
    match verdict.liveness {
        Liveness::Alive(_) => Err(Refusal::Alive),
        Liveness::Unknown(_) => Err(Refusal::Unproven(verdict.liveness)),
        Liveness::Dead(_) if verdict.status.is_collectable() => Ok(()),
        Liveness::Dead(_) => Err(Refusal::Active),
    }
}
