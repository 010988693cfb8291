//! The owner of a turn: the walk up from a hook to the agent that started it.
//!
//! Ancestors are read one by one and only as far as the choice needs them; the choice itself is
//! `model::rules::owner`. Parents die and pids are handed on while we walk, so each step holds on
//! to its process, and the whole chain is checked once more before its end is called an owner.

use model::identity::Identity;
use model::liveness::Observer;
use model::program::{Appearance, Program};
use model::rules::owner::{Ancestor, Basis, MOST_ANCESTORS, Question, choose};

use crate::proc::{self, Handle, ProcessRow};

/// The agent process that a turn belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// What names it for ever.
    pub identity: Identity,
    /// Why it was taken for the owner.
    pub basis: Basis,
}

/// Finds the owner of this process, a hook: a pid from `claims` (what the agent says about
/// itself) if it is above us and of our user, else the nearest ancestor that looks like an agent
/// of `rules`, else the nearest steady one. `None` rather than a guess.
pub fn capture(rules: &[(&'static str, Program)], claims: &[u32]) -> Option<Owner> {
    capture_as(rules, claims, &proc::recorder())
}

/// As [`capture`], for a caller that has already gathered the observer.
pub fn capture_as(
    rules: &[(&'static str, Program)],
    claims: &[u32],
    observer: &Observer,
) -> Option<Owner> {
    if !observer.introspects {
        return None;
    }
    let mut walk = Walk::from(std::process::id(), claims, observer.uid)?;
    let question = Question { rules, claims, uid: observer.uid };
    let choice = choose(question, std::iter::from_fn(|| walk.step()))?;
    let chain = walk.chain.get(..=choice.index + 1)?;
    if !is_unbroken(chain) {
        return None;
    }
    let (held, row) = chain.last()?;
    let identity = proc::identify_held(held, observer).ok()?;
    (identity.start == Some(row.start)).then_some(Owner { identity, basis: choice.basis })
}

/// The chain so far: the hook itself, then its ancestors.
struct Walk<'a> {
    chain: Vec<(Handle, ProcessRow)>,
    claims: &'a [u32],
    uid: u32,
}

impl<'a> Walk<'a> {
    fn from(pid: u32, claims: &'a [u32], uid: u32) -> Option<Self> {
        let handle = Handle::open(pid).ok()?;
        let row = handle.row().ok()?;
        Some(Self { chain: vec![(handle, row)], claims, uid })
    }

    /// The next ancestor; `None` at the top, at one that cannot be read, and in a loop.
    fn step(&mut self) -> Option<Ancestor> {
        let (_, hook) = self.chain.first()?;
        let (_, child) = self.chain.last()?;
        let pid = child.ppid;
        let met = || self.chain.iter().any(|(_, row)| row.pid == pid);
        if pid == 0 || self.chain.len() > MOST_ANCESTORS || met() {
            return None;
        }
        let handle = Handle::open(pid).ok()?;
        let row = handle.row().ok()?;
        // One that the agent itself named is the owner, however it looks.
        let named = self.claims.contains(&pid) && row.uid == self.uid;
        let ancestor = Ancestor {
            pid,
            uid: row.uid,
            appearance: match named {
                true => Appearance { comm: row.comm.clone(), ..Appearance::default() },
                false => handle.appearance(&row.comm),
            },
            older_by: proc::span_between(row.start, hook.start),
        };
        self.chain.push((handle, row));
        Some(ancestor)
    }
}

/// Whether every process of the chain is still the child of the next. A parent that died while we
/// walked has left its child to another, and its number may already be somebody else's.
fn is_unbroken(chain: &[(Handle, ProcessRow)]) -> bool {
    // The first is this process, whose parent the kernel tells without a detour.
    let ours = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    chain.windows(2).enumerate().all(|(index, link)| {
        let [(child, _), (_, parent)] = link else {
            return false;
        };
        let now = if index == 0 { ours } else { child.parent().ok() };
        now == Some(parent.pid)
    })
}
