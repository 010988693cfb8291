//! What ostler started: a small note of who it was, for people and for nothing else.
//!
//! Truth is read, not remembered, so no verdict rests on such a record: any of them may be deleted at
//! any time. It is kept while its process may be there, and for a while after that.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::liveness::Liveness;
use crate::plan::Refusal;
use crate::time::Time;

/// The version of the format.
pub const LAUNCH_FORMAT_VERSION: u32 = 1;

/// One agent that was started in a hosted terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentLaunch {
    /// The version of the format.
    pub version: u32,
    /// The adapter's id.
    pub agent: String,
    /// The process that was started.
    pub process: Identity,
    /// The terminal that it was started in.
    pub session: String,
    /// The directory that it was started in.
    pub cwd: String,
    pub at: Time,
    /// How long this is kept after the process is gone.
    pub ttl_ms: u64,
}

/// What becomes of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchFate {
    /// It goes: its process has been gone for so long.
    Due(Duration),
    /// It stays a while yet: its process has been gone for so long.
    Young(Duration),
    Stays(Refusal),
}

impl AgentLaunch {
    /// Reads a record.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let launch: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match launch.version {
            LAUNCH_FORMAT_VERSION => Ok(launch),
            other => Err(format!(
                "its version is {other}, and this ostler knows {LAUNCH_FORMAT_VERSION}"
            )),
        }
    }

    /// How long it is kept after its process is gone.
    pub const fn retention_ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    /// What becomes of it. When a process ended is nowhere written down: it is counted from the last
    /// sign of its terminal, and without one from the start.
    pub fn decide_fate(
        &self,
        liveness: Liveness,
        last_sign: Option<Time>,
        ttl: Duration,
        now: Time,
    ) -> LaunchFate {
        match liveness {
            Liveness::Alive(_) => {
                LaunchFate::Stays(Refusal::Alive { who: format!("the {} it tells of", self.agent) })
            }
            Liveness::Unknown(_) => {
                LaunchFate::Stays(Refusal::Unproven { why: liveness.reason_code().to_owned() })
            }
            Liveness::Dead(_) => {
                let gone = now.since(self.at.max(last_sign.unwrap_or(self.at)));
                if gone > ttl { LaunchFate::Due(gone) } else { LaunchFate::Young(gone) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::liveness::{Death, Doubt, Life};

    fn launch(at: i64) -> AgentLaunch {
        AgentLaunch {
            version: LAUNCH_FORMAT_VERSION,
            agent: "codex".to_owned(),
            process: Identity::default(),
            session: "0123".to_owned(),
            cwd: "/".to_owned(),
            at: Time::from_millis(at),
            ttl_ms: 1000,
        }
    }

    fn liveness() -> impl Strategy<Value = Liveness> {
        prop_oneof![
            Just(Liveness::Alive(Life::Running)),
            Just(Liveness::Alive(Life::Stopped)),
            Just(Liveness::Dead(Death::Gone)),
            Just(Liveness::Dead(Death::Reused)),
            Just(Liveness::Dead(Death::Rebooted)),
            Just(Liveness::Unknown(Doubt::ForeignHost)),
            Just(Liveness::Unknown(Doubt::Incomplete)),
        ]
    }

    proptest! {
        #[test]
        fn only_what_is_proven_dead_and_has_been_for_long_goes(
            liveness in liveness(),
            at in 0i64..10_000,
            last_sign in proptest::option::of(0i64..10_000),
            now in 0i64..20_000,
        ) {
            let launch = launch(at);
            let sign = last_sign.map(Time::from_millis);
            let fate = launch.decide_fate(liveness, sign, launch.retention_ttl(), Time::from_millis(now));
            let since = now - at.max(last_sign.unwrap_or(at));
            let is_due = matches!(fate, LaunchFate::Due(_));
            prop_assert_eq!(is_due, liveness.is_dead() && since > 1000, "{:?}", fate);
            prop_assert_eq!(matches!(fate, LaunchFate::Stays(_)), !liveness.is_dead());
        }
    }

    #[test]
    fn a_record_says_everything_or_is_damaged() {
        let whole = serde_json::to_vec(&launch(5)).unwrap();
        assert_eq!(AgentLaunch::parse(&whole), Ok(launch(5)));
        for end in 0..whole.len() {
            assert!(AgentLaunch::parse(&whole[..end]).is_err());
        }
        let newer = AgentLaunch { version: 2, ..launch(5) };
        let refused = AgentLaunch::parse(&serde_json::to_vec(&newer).unwrap()).unwrap_err();
        assert!(refused.contains("version is 2"), "{refused}");
        assert!(AgentLaunch::parse(b"{}").is_err() && AgentLaunch::parse(b"null").is_err());
    }
}
