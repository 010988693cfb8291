//! The owner of a turn: the walk up from a hook to the agent that started it.
//!
//! Ancestors are read one by one and only as far as the choice needs them; the choice itself is
//! `model::rules::owner`. Parents die and pids are handed on while we walk, so each step holds on
//! to its process, and the whole chain is checked once more before its end is called an owner.

use model::identity::Identity;
use model::liveness::Observer;
use model::program::{AgentProgram, ProcessAppearance};
use model::rules::owner::{
    MAX_ANCESTORS, OwnerBasis, OwnerQuestion, ProcessAncestor, choose_owner,
};

use crate::proc::{self, ProcessHandle, ProcessRow};

/// The agent process that a turn belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnOwner {
    /// What names it for ever.
    pub identity: Identity,
    /// Why it was taken for the owner.
    pub basis: OwnerBasis,
}

/// Finds the owner of this process, a hook: a pid from `claims` (what the agent says about
/// itself) if it is above us and of our user, else the nearest ancestor that looks like an agent
/// of `rules`, else the nearest steady one. `None` rather than a guess.
pub fn capture_owner(rules: &[(&'static str, AgentProgram)], claims: &[u32]) -> Option<TurnOwner> {
    capture_as(rules, claims, &proc::recording_observer())
}

/// As [`capture_owner`], for a caller that has already gathered the observer.
pub fn capture_as(
    rules: &[(&'static str, AgentProgram)],
    claims: &[u32],
    observer: &Observer,
) -> Option<TurnOwner> {
    if !observer.introspects {
        return None;
    }
    let mut walk = Walk::start_at(std::process::id(), claims, observer.uid)?;
    let question = OwnerQuestion { rules, claims, uid: observer.uid };
    let choice = choose_owner(question, std::iter::from_fn(|| walk.next_ancestor()))?;
    let chain = walk.chain.get(..=choice.index + 1)?;
    if !is_unbroken(chain) {
        return None;
    }
    let (held, row) = chain.last()?;
    let identity = proc::identify_held(held, observer).ok()?;
    (identity.start == Some(row.start)).then_some(TurnOwner { identity, basis: choice.basis })
}

/// The chain so far: the hook itself, then its ancestors.
struct Walk<'a> {
    chain: Vec<(ProcessHandle, ProcessRow)>,
    claims: &'a [u32],
    uid: u32,
}

impl<'a> Walk<'a> {
    fn start_at(pid: u32, claims: &'a [u32], uid: u32) -> Option<Self> {
        let handle = ProcessHandle::open(pid).ok()?;
        let row = handle.process_row().ok()?;
        Some(Self { chain: vec![(handle, row)], claims, uid })
    }

    /// The next ancestor; `None` at the top, at one that cannot be read, and in a loop.
    fn next_ancestor(&mut self) -> Option<ProcessAncestor> {
        let (_, hook) = self.chain.first()?;
        let (_, child) = self.chain.last()?;
        let pid = child.ppid;
        let met = || self.chain.iter().any(|(_, row)| row.pid == pid);
        if pid == 0 || self.chain.len() > MAX_ANCESTORS || met() {
            return None;
        }
        let handle = ProcessHandle::open(pid).ok()?;
        let row = handle.process_row().ok()?;
        // One that the agent itself named is the owner, however it looks.
        let named = self.claims.contains(&pid) && row.uid == self.uid;
        let ancestor = ProcessAncestor {
            pid,
            uid: row.uid,
            appearance: match named {
                true => {
                    ProcessAppearance { comm: row.comm.clone(), ..ProcessAppearance::default() }
                }
                false => handle.appearance(&row.comm),
            },
            older_by: proc::span_between(row.start, hook.start),
            in_hook_group: is_in_our_group(pid),
        };
        self.chain.push((handle, row));
        Some(ancestor)
    }
}

/// Whether a process is in the process group of this one. One that cannot be asked may be.
fn is_in_our_group(pid: u32) -> bool {
    // Not by `rustix`: a group that is out of this namespace has the number 0, which it denies.
    #[expect(unsafe_code, reason = "the safe binding panics")]
    let group_of = |pid: libc::pid_t| {
        // SAFETY: takes a number, returns a number.
        unsafe { libc::getpgid(pid) }
    };
    let group = libc::pid_t::try_from(pid).map_or(-1, group_of);
    group < 0 || group == group_of(0)
}

/// Whether every process of the chain is still the child of the next. A parent that died while we
/// walked has left its child to another, and its number may already be reused.
fn is_unbroken(chain: &[(ProcessHandle, ProcessRow)]) -> bool {
    // The first is this process, whose parent the kernel tells without a detour.
    let ours = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    chain.windows(2).enumerate().all(|(index, link)| {
        let [(child, _), (_, parent)] = link else {
            return false;
        };
        let now = if index == 0 { ours } else { child.parent_pid().ok() };
        now == Some(parent.pid)
    })
}
