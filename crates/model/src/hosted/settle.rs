//! State reconciliation: what a session is when its manifest says one thing and its host another.

use super::{FailureOrigin, SessionManifest};
use crate::liveness::Liveness;
use crate::status::Status;

/// What is true, and whether the manifest has to be corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettledStatus {
    /// The manifest is right.
    AsWritten,
    /// The host is proven dead, and the session with it: this is what it became.
    HostDied(Status),
    /// It cannot be seen from here.
    InDoubt,
}

impl SettledStatus {
    /// The status to show.
    pub const fn shown_status(self, written: Status) -> Status {
        match self {
            Self::AsWritten => written,
            Self::HostDied(status) => status,
            Self::InDoubt => Status::Unknown,
        }
    }
}

/// Compares what was written down with whether the host is there. A host writes the end down as its
/// last act, so a terminal status needs no process; an active one does.
pub const fn settle_status(written: Status, host: Liveness) -> SettledStatus {
    if written.is_terminal() {
        return SettledStatus::AsWritten;
    }
    match (host, written) {
        (Liveness::Alive(_), _) => SettledStatus::AsWritten,
        (Liveness::Unknown(_), _) => SettledStatus::InDoubt,
        (Liveness::Dead(_), Status::Exiting) => SettledStatus::HostDied(Status::Exited),
        (Liveness::Dead(_), Status::Destroying) => SettledStatus::HostDied(Status::Destroyed),
        (Liveness::Dead(_), _) => SettledStatus::HostDied(Status::Failed),
    }
}

impl SessionManifest {
    /// Writes down that the host died, as [`settle_status`] found.
    pub fn host_died(&mut self, became: Status) {
        if !became.is_destroyed() && self.exit_code.is_none() && self.exit_signal.is_none() {
            let pid = self.host_pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
            self.failure_reason = Some(format!("host process died unexpectedly (pid: {pid})"));
            self.failure_origin = Some(FailureOrigin::HostDeath);
        }
        self.status = became;
        self.host_pid = None;
        self.child_pid = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::liveness::{Death, Doubt, Life};

    #[test]
    fn only_proof_of_death_changes_anything() {
        for status in Status::ALL {
            let with = |liveness| settle_status(status, liveness);
            assert_eq!(with(Liveness::Alive(Life::Running)), SettledStatus::AsWritten);
            let doubt = with(Liveness::Unknown(Doubt::ForeignHost));
            let death = with(Liveness::Dead(Death::Gone));
            if status.is_terminal() {
                assert_eq!((doubt, death), (SettledStatus::AsWritten, SettledStatus::AsWritten));
            } else {
                assert_eq!(doubt.shown_status(status), Status::Unknown);
                assert!(death.shown_status(status).is_terminal());
            }
        }
    }
}
