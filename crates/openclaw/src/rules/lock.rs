//! The lock under which OpenClaw writes a transcript: `<transcript>.jsonl.lock`, a small JSON with
//! the writer's pid, its start time and when it was taken. A kill leaves it behind.
//!
//! OpenClaw reclaims a lock for several reasons; some of them (it is old, its time cannot be read)
//! say nothing about the writer. Here only proof frees a lock, and the reasons are told.

use std::time::Duration;

use model::identity::Identity;
use model::liveness::{Death, Liveness};
use model::time::Time;

/// A lock is old after this time.
pub const LOCK_OLD_AFTER: Duration = Duration::from_mins(30);

/// One that names no holder may still be being written for this long.
pub const LOCK_WRITE_GRACE: Duration = Duration::from_secs(5);

/// What a lock's file says. Everything may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockPayload {
    /// Who holds it.
    pub pid: Option<u32>,
    /// The kernel's start time of that process.
    pub start: Option<u64>,
    /// When it was taken.
    pub created_at: Option<Time>,
    /// How long its holder meant to hold it.
    pub max_hold: Option<Duration>,
    /// Whether ostler took it.
    pub ours: bool,
}

/// How ostler signs the locks that it takes. OpenClaw ignores what it does not know.
const HOLDER_SIGNATURE: &str = "ostler";

impl LockPayload {
    /// Reads it. What is not as it should be is missing.
    pub fn parse(bytes: &[u8]) -> Self {
        let Ok(value) = serde_json::from_slice::<serde_json::Value>(bytes) else {
            return Self::default();
        };
        let number = |name: &str| value.get(name).and_then(serde_json::Value::as_u64);
        Self {
            pid: number("pid").and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0),
            start: number("starttime"),
            created_at: value.get("createdAt").and_then(|at| Time::parse(at.as_str()?)),
            max_hold: number("maxHoldMs").filter(|ms| *ms > 0).map(Duration::from_millis),
            ours: value.get("holder").and_then(serde_json::Value::as_str) == Some(HOLDER_SIGNATURE),
        }
    }

    /// What ostler writes into a lock that it takes, as OpenClaw reads it.
    pub fn signed_by(holder: &Identity, now: Time) -> String {
        let mut value = serde_json::json!({
            "pid": holder.pid,
            "createdAt": now.to_string(),
            "holder": HOLDER_SIGNATURE,
        });
        if let Some(start) = holder.start {
            value["starttime"] = start.into();
        }
        value.to_string()
    }

    /// The process that is to be looked for. `modified` is the time of the file, for a lock that
    /// does not say when it was taken.
    pub fn holder_identity(&self, modified: Time) -> Identity {
        Identity {
            start: self.start,
            recorded_at: Some(self.created_at.unwrap_or(modified)),
            comm: Some("openclaw".to_owned()),
            ..Identity::recorded_by_agent(self.pid)
        }
    }
}

/// Why OpenClaw would call a lock stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleReason {
    /// It names no holder.
    MissingPid,
    /// Nothing has that pid.
    DeadPid,
    /// Another process has that pid.
    RecycledPid,
    /// It does not say when it was taken.
    InvalidCreatedAt,
    /// It was taken long ago.
    TooOld,
    /// It names this very process, which holds no such lock.
    OrphanSelfPid,
    /// Its holder meant to let go by now.
    HoldExceeded,
}

impl StaleReason {
    /// OpenClaw's name for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingPid => "missing-pid",
            Self::DeadPid => "dead-pid",
            Self::RecycledPid => "recycled-pid",
            Self::InvalidCreatedAt => "invalid-createdAt",
            Self::TooOld => "too-old",
            Self::OrphanSelfPid => "orphan-self-pid",
            Self::HoldExceeded => "hold-exceeded",
        }
    }

    /// Whether it proves that the lock is free.
    const fn is_proof(self) -> bool {
        matches!(self, Self::DeadPid | Self::RecycledPid | Self::OrphanSelfPid)
    }
}

/// What can be seen around a lock.
#[derive(Clone, Copy, Debug)]
pub struct LockSight {
    /// Whether the process that it names is there.
    pub owner: Liveness,
    pub own_pid: u32,
    /// When the file was last written.
    pub modified: Time,
    pub now: Time,
}

/// What is to be made of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockVerdict {
    /// The process that it names is there: the transcript is being written.
    Held,
    /// It is free.
    Free(Vec<StaleReason>),
    /// It cannot be told, which protects as if it were held.
    Doubt(Vec<StaleReason>),
}

impl LockVerdict {
    /// Whether the transcript may be touched.
    pub const fn is_free(&self) -> bool {
        matches!(self, Self::Free(_))
    }
}

/// Why OpenClaw would call a lock stale, in its own order.
pub fn stale_reasons(payload: &LockPayload, sight: &LockSight) -> Vec<StaleReason> {
    let mut reasons = Vec::new();
    let own = payload.pid == Some(sight.own_pid);
    match sight.owner {
        _ if payload.pid.is_none() => reasons.push(StaleReason::MissingPid),
        Liveness::Dead(Death::Reused) => reasons.push(StaleReason::RecycledPid),
        Liveness::Dead(_) => reasons.push(StaleReason::DeadPid),
        _ if own => reasons.push(StaleReason::OrphanSelfPid),
        _ => {}
    }
    let age = payload.created_at.map(|created| sight.now.since(created));
    match age {
        None => reasons.push(StaleReason::InvalidCreatedAt),
        Some(age) if age > LOCK_OLD_AFTER => reasons.push(StaleReason::TooOld),
        Some(_) => {}
    }
    if matches!((age, payload.max_hold), (Some(age), Some(most)) if age > most) {
        reasons.push(StaleReason::HoldExceeded);
    }
    reasons
}

/// Whether the lock is held. A live holder is never put off, however old the lock is.
pub fn judge_lock(payload: &LockPayload, sight: &LockSight) -> LockVerdict {
    let reasons = stale_reasons(payload, sight);
    if reasons.iter().any(|reason| reason.is_proof()) {
        return LockVerdict::Free(reasons);
    }
    if sight.owner.is_alive() {
        return LockVerdict::Held;
    }
    // A writer makes the file and then fills it: one that names no holder is stale after a while.
    let abandoned = sight.now.since(sight.modified) > LOCK_WRITE_GRACE;
    if payload.pid.is_none() && abandoned {
        return LockVerdict::Free(reasons);
    }
    LockVerdict::Doubt(reasons)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::liveness::{Doubt, Life};

    const NOW: Time = Time::from_millis(1_794_800_000_000);

    fn sight(owner: Liveness) -> LockSight {
        LockSight { owner, own_pid: 1, modified: NOW.minus(Duration::from_mins(2)), now: NOW }
    }

    fn taken(ago: Duration) -> LockPayload {
        LockPayload { pid: Some(77), created_at: Some(NOW.minus(ago)), ..LockPayload::default() }
    }

    const RUNNING: Liveness = Liveness::Alive(Life::Running);

    #[test]
    fn row_70_a_lock_of_a_dead_a_recycled_or_our_own_pid_is_free() {
        let lock = taken(Duration::from_secs(1));
        for (death, reason) in [
            (Death::Gone, StaleReason::DeadPid),
            (Death::Zombie, StaleReason::DeadPid),
            (Death::Rebooted, StaleReason::DeadPid),
            (Death::Reused, StaleReason::RecycledPid),
        ] {
            let verdict = judge_lock(&lock, &sight(Liveness::Dead(death)));
            assert_eq!(verdict, LockVerdict::Free(vec![reason]), "{death:?}");
        }
        let own = LockSight { own_pid: 77, ..sight(RUNNING) };
        assert_eq!(judge_lock(&lock, &own), LockVerdict::Free(vec![StaleReason::OrphanSelfPid]));
    }

    #[test]
    fn row_71_a_lock_that_names_nobody_is_free_only_when_it_is_not_being_written() {
        let nobody = Liveness::Unknown(Doubt::Incomplete);
        let reasons = vec![StaleReason::MissingPid, StaleReason::InvalidCreatedAt];
        for bytes in [&b"{}"[..], b"", b"{\"pid\":", b"[1]", br#"{"pid":-4,"createdAt":7}"#] {
            let lock = LockPayload::parse(bytes);
            let fresh = LockSight { modified: NOW.minus(Duration::from_secs(1)), ..sight(nobody) };
            assert_eq!(judge_lock(&lock, &fresh), LockVerdict::Doubt(reasons.clone()));
            assert_eq!(judge_lock(&lock, &sight(nobody)), LockVerdict::Free(reasons.clone()));
        }
    }

    #[test]
    fn row_72_a_lock_of_a_live_process_is_held_at_any_age() {
        for age in [1, 60, 3600, 86_400] {
            assert_eq!(
                judge_lock(&taken(Duration::from_secs(age)), &sight(RUNNING)),
                LockVerdict::Held
            );
        }
        let timeless = LockPayload { pid: Some(77), ..LockPayload::default() };
        assert_eq!(judge_lock(&timeless, &sight(RUNNING)), LockVerdict::Held);
        let hasty =
            LockPayload { max_hold: Some(Duration::from_secs(1)), ..taken(Duration::from_mins(1)) };
        assert_eq!(judge_lock(&hasty, &sight(RUNNING)), LockVerdict::Held);
        assert_eq!(stale_reasons(&hasty, &sight(RUNNING)), [StaleReason::HoldExceeded]);
    }

    #[test]
    fn a_process_that_cannot_be_judged_protects_its_lock() {
        let old = taken(Duration::from_hours(9));
        for doubt in [Doubt::Incomplete, Doubt::Blind, Doubt::Hidden, Doubt::Unreadable] {
            let verdict = judge_lock(&old, &sight(Liveness::Unknown(doubt)));
            assert_eq!(verdict, LockVerdict::Doubt(vec![StaleReason::TooOld]), "{doubt:?}");
        }
    }

    #[test]
    fn a_lock_is_read_as_openclaw_writes_it() {
        let text = r#"{"pid":4242,"createdAt":"2026-07-01T10:00:00.000Z","starttime":99,"maxHoldMs":300000}"#;
        let lock = LockPayload::parse(text.as_bytes());
        assert_eq!((lock.pid, lock.start), (Some(4242), Some(99)));
        assert_eq!(lock.max_hold, Some(Duration::from_mins(5)));
        let identity = lock.holder_identity(NOW);
        assert_eq!((identity.pid, identity.start), (Some(4242), Some(99)));
        assert_eq!(identity.recorded_at, Time::parse("2026-07-01T10:00:00Z"));
    }

    #[test]
    fn what_we_sign_is_read_as_ours() {
        let me = Identity { start: Some(99), ..Identity::recorded_by_agent(Some(77)) };
        let lock = LockPayload::parse(LockPayload::signed_by(&me, NOW).as_bytes());
        let expected = LockPayload { start: Some(99), ours: true, ..taken(Duration::ZERO) };
        assert_eq!(lock, expected);
        assert!(!LockPayload::parse(br#"{"pid":77,"holder":"openclaw"}"#).ours);
    }

    #[test]
    fn nothing_frees_a_lock_but_proof() {
        let pids = [None, Some(1), Some(77)];
        let times = [None, Some(NOW), Some(NOW.minus(Duration::from_hours(99)))];
        let holds = [None, Some(Duration::from_secs(1))];
        let owners = [
            RUNNING,
            Liveness::Alive(Life::Stopped),
            Liveness::Unknown(Doubt::Blind),
            Liveness::Unknown(Doubt::Incomplete),
            Liveness::Dead(Death::Gone),
            Liveness::Dead(Death::Reused),
        ];
        for (pid, created_at) in pids.iter().flat_map(|pid| times.map(|time| (*pid, time))) {
            for (owner, max_hold) in owners.iter().flat_map(|one| holds.map(|hold| (*one, hold))) {
                let payload = LockPayload { pid, created_at, max_hold, ..LockPayload::default() };
                for modified in [NOW, NOW.minus(Duration::from_hours(99))] {
                    let sight = LockSight { modified, ..sight(owner) };
                    let proof = owner.is_dead() && pid.is_some()
                        || pid == Some(sight.own_pid)
                        || pid.is_none() && !owner.is_alive() && modified != NOW;
                    assert_eq!(
                        judge_lock(&payload, &sight).is_free(),
                        proof,
                        "{payload:?} {sight:?}"
                    );
                }
            }
        }
    }
}
