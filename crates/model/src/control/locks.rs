//! Directory locks: a person's or an agent's word that nothing is to be launched in a directory or below it.
//! Advisory: they keep `launch` and `resume` out, and stop no agent from writing.

use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::liveness::Liveness;
use crate::time::Time;

/// One lock, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectoryLock {
    /// Where the directory was when it was locked.
    pub path: String,
    /// What it is, wherever it is moved.
    pub directory: DirectoryId,
    /// Who locked it.
    pub by: String,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub taken_at: Time,
    /// Until when; for good if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// The process that it was taken for: with its end the lock is stale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Identity>,
}

/// What names a directory for as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectoryId {
    pub device: u64,
    pub inode: u64,
    /// When it was made, where the file system tells: an inode is used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born_at: Option<Time>,
}

impl DirectoryId {
    /// Whether both are one directory. A birth time that only one of them has says nothing.
    pub fn is_same(&self, other: &Self) -> bool {
        let born = self.born_at.zip(other.born_at);
        (self.device, self.inode) == (other.device, other.inode)
            && born.is_none_or(|(one, other)| one == other)
    }
}

/// Whether a lock still keeps others out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LockStanding {
    Holds,
    /// The process that it was taken for is proven to be gone.
    Stale,
    /// Its time is over.
    Expired,
}

impl DirectoryLock {
    /// Whether it still keeps others out; `holder` is what is true of its process.
    pub fn judge_lock(&self, now: Time, holder: Option<Liveness>) -> LockStanding {
        if self.expires_at.is_some_and(|end| end <= now) {
            return LockStanding::Expired;
        }
        match holder {
            Some(liveness) if liveness.is_dead() => LockStanding::Stale,
            _ => LockStanding::Holds,
        }
    }
}

/// What becomes of a directory that is to be locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockChange {
    /// It is locked.
    Take,
    /// It was locked by the same, and is anew.
    Renew,
    /// Another holder's lock is taken away.
    Steal,
    /// The other holder keeps it.
    Refuse,
}

/// Whether `by` may lock a directory that has this lock.
pub fn decide_lock(
    known: Option<(&DirectoryLock, LockStanding)>,
    by: &str,
    steal: bool,
) -> LockChange {
    match known {
        None | Some((_, LockStanding::Stale | LockStanding::Expired)) => LockChange::Take,
        Some((lock, LockStanding::Holds)) if lock.by == by => LockChange::Renew,
        Some(_) if steal => LockChange::Steal,
        Some(_) => LockChange::Refuse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> DirectoryLock {
        DirectoryLock {
            path: "/p".into(),
            directory: DirectoryId { device: 1, inode: 2, born_at: None },
            by: "ada".into(),
            reason: None,
            taken_at: Time::from_millis(0),
            expires_at: Some(Time::from_millis(100)),
            holder: Some(Identity::default()),
        }
    }

    #[test]
    fn row_75_a_lock_ends_with_its_time_or_the_proven_end_of_its_holder() {
        use crate::liveness::{Death, Doubt};
        let dead = Liveness::Dead(Death::Gone);
        let doubt = Liveness::Unknown(Doubt::Hidden);
        let at = Time::from_millis;
        assert_eq!(lock().judge_lock(at(99), Some(doubt)), LockStanding::Holds, "a doubt keeps");
        assert_eq!(lock().judge_lock(at(99), Some(dead)), LockStanding::Stale);
        assert_eq!(lock().judge_lock(at(100), None), LockStanding::Expired);
    }

    #[test]
    fn only_a_theft_takes_what_holds() {
        let lock = lock();
        let holds = Some((&lock, LockStanding::Holds));
        assert_eq!(decide_lock(holds, "bob", false), LockChange::Refuse);
        assert_eq!(decide_lock(holds, "bob", true), LockChange::Steal);
        assert_eq!(decide_lock(holds, "ada", false), LockChange::Renew);
        assert_eq!(decide_lock(Some((&lock, LockStanding::Stale)), "bob", false), LockChange::Take);
    }
}
