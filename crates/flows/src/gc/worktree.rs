//! Git worktrees that sessions worked in: they go only if nothing in them could be lost.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use model::control::groups::GroupMember;
use model::liveness::Liveness;
use model::plan::{Refusal, RemovableKind};
use model::rules::guard;
use model::time::whole_millis;
use model::wire::IncompleteSource;
use store::state::MemberScope;
use sys::dropped::NoteDropped;
use sys::machine::Machine;

use super::{GcCheck, GcPlan, InUse};
use crate::git::ask_guarded;
use crate::groups;
use crate::observe::Observation;
use crate::repository;
use crate::writer::GcRequest;
use reaper::PlannedRemoval;

/// Worktrees in which no session is active: those that sessions worked in, and those that ostler made.
pub(super) fn plan_worktrees(
    ask: &GcRequest,
    machine: &Machine,
    observation: &Observation,
    in_use: &InUse,
    planning: &mut GcPlan,
) {
    let now = machine.now();
    let mut roots = BTreeSet::new();
    let members = match groups::list_members(machine.home(), MemberScope::Every) {
        Ok(members) => members,
        Err(error) => {
            planning.incomplete.push(IncompleteSource {
                source: "launch groups".to_owned(),
                path: None,
                reason: error.to_string(),
            });
            Vec::new()
        }
    };
    let made_for = |member: &GroupMember| {
        let made = member.worktree.as_ref()?;
        root_of(Path::new(&made.path)).filter(|root| root == Path::new(&made.path))
    };
    if ask.is_about(super::own::OSTLER_OWNER) {
        roots.extend(members.iter().filter_map(made_for));
    }
    for one in observation.sessions.iter().filter(|one| ask.is_about(one.session.agent)) {
        if let Some(root) = one.session.digest.cwd.as_ref().and_then(|cwd| root_of(Path::new(cwd)))
        {
            roots.insert(root);
        }
    }
    for root in roots {
        let below = |one: &&crate::observe::Observed| {
            let cwd = one.session.digest.cwd.as_ref();
            cwd.is_some_and(|cwd| Path::new(cwd).starts_with(&root))
        };
        let sessions = || observation.sessions.iter().filter(below);
        let why = "its branch is merged, and nothing in it is anywhere else";
        let Ok(planned) = PlannedRemoval::new(RemovableKind::Worktree, &root, "git", why) else {
            continue;
        };
        // Also of one that stays: its size is what a person weighs its worth against.
        let mut planned = planned.with_total_size();
        let last = sessions().filter_map(|one| one.session.last_activity_at()).max();
        let member = members.iter().find(|member| made_for(member).as_ref() == Some(&root));
        let last = last.max(member.map(|member| member.made_at));
        let age = last.map(|at| now.since(at));
        planned.item.age_ms = age.map(whole_millis);
        planned.item.evidence = vec![
            "git says: no changes, merged, and the commits are on a remote".to_owned(),
            "no process works there".to_owned(),
        ];
        let guarded = sessions().find_map(|one| {
            let refused = guard::may_collect(&one.session, &one.verdict, now).err()?;
            Some((one, refused))
        });
        if let Some((one, refused)) = guarded {
            planning.add_kept(
                planned,
                match refused {
                    Refusal::Alive { .. } | Refusal::Unproven { .. } | Refusal::Active { .. } => {
                        Refusal::WorkedIn { who: format!("the session {}", one.session.id) }
                    }
                    doubt => doubt,
                },
            );
        } else if age.is_none_or(|age| age <= ask.older_than(ask.retention.worktrees)) {
            planning.add_kept(planned, Refusal::Young);
        } else if let Err(refusal) = check_worktree(&root, member, machine, in_use) {
            planning.add_kept(planned, refusal);
        } else {
            let of = sessions().map(|one| one.session.session_name()).collect();
            let member = member.cloned().map(Box::new);
            planning.add_item(ask, planned, GcCheck::Worktree { member }, of);
        }
    }
}

/// The worktree that a directory is in, if that is a linked one. A repository itself never is.
fn root_of(directory: &Path) -> Option<PathBuf> {
    let root = repository::worktree_root(directory)?;
    repository::linked_administration(&root).map(|_| root)
}

/// Whether everything in a worktree is somewhere else too, and no process uses it. `member` is whom ostler made it for:
/// while that may be there it stays, and once it is proven to be gone the lock that ostler put on it says nothing.
pub(super) fn check_worktree(
    root: &Path,
    member: Option<&GroupMember>,
    machine: &Machine,
    in_use: &InUse,
) -> Result<(), Refusal> {
    if let Some(member) = member {
        check_member(member, machine)?;
    }
    in_use.check_below(root)?;
    let administration = run_git(root, &["rev-parse", "--absolute-git-dir"])?;
    let lock = Path::new(administration.trim()).join("locked");
    if lock.exists() {
        let said = repository::read_pointer(&lock).unwrap_or_default();
        if member.is_none_or(|member| said.trim_end() != member.lock_reason()) {
            return Err(Refusal::Locked);
        }
    }
    // Git looks into a submodule with that one's settings, which nothing here can switch off.
    let files = run_git(root, &["ls-files", "--stage"])?;
    if files.lines().any(|line| line.starts_with("160000 ")) {
        return Err(Refusal::Unreadable { why: "it has submodules".to_owned() });
    }
    let status = run_git(root, &["status", "--porcelain=v1", "-uall"])?;
    if !status.is_empty() {
        return Err(Refusal::Dirty);
    }
    let branch = run_git(root, &["rev-parse", "--abbrev-ref", "HEAD"])?.trim().to_owned();
    if run_git(root, &["remote"])?.trim().is_empty() {
        return Err(Refusal::NoRemote { branch });
    }
    let unpushed = run_git(root, &["rev-list", "--max-count=1", "HEAD", "--not", "--remotes"])?;
    if !unpushed.is_empty() {
        return Err(Refusal::Unpushed { branch });
    }
    let main = main_branch(root)?;
    let unmerged = run_git(root, &["rev-list", "--max-count=1", "HEAD", "--not", &main])?;
    if !unmerged.is_empty() {
        return Err(Refusal::Unmerged { branch });
    }
    Ok(())
}

/// Whether the agent that a worktree was made for is proven to be gone.
fn check_member(member: &GroupMember, machine: &Machine) -> Result<(), Refusal> {
    match groups::judge_member(member, machine) {
        Liveness::Dead(_) => Ok(()),
        Liveness::Alive(_) => {
            Err(Refusal::WorkedIn { who: format!("{} of {}", member.agent, member.full_name()) })
        }
        doubt => Err(Refusal::Unproven { why: doubt.reason_code().to_owned() }),
    }
}

/// Takes the lock off a worktree that went: git forgets only what is not locked. It is undone as it was, unlocked.
pub(super) fn unlock_trashed(member: &GroupMember) {
    let Some(made) = &member.worktree else { return };
    let words = ["worktree", "unlock", &made.path];
    run_git(Path::new(&made.repository), &words).note_dropped("unlocking a worktree that went");
}

/// The branch that others are merged into: what the remote says, else what people call it.
fn main_branch(root: &Path) -> Result<String, Refusal> {
    let named =
        ["refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master"];
    for name in named {
        if run_git(root, &["rev-parse", "--quiet", "--verify", name]).is_ok() {
            return Ok(name.to_owned());
        }
    }
    Err(Refusal::Unreadable { why: "no main branch of a remote is known".to_owned() })
}

/// Asks git; what it cannot say keeps.
fn run_git(root: &Path, arguments: &[&str]) -> Result<String, Refusal> {
    ask_guarded(root, arguments).map_err(|why| Refusal::Unreadable { why })
}
