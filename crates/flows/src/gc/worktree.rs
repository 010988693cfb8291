//! Git worktrees that sessions worked in: they go only if nothing in them could be lost.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::control::groups::GroupMember;
use model::liveness::Liveness;
use model::plan::{Refusal, RemovableKind};
use model::rules::guard;
use model::session::SessionName;
use model::time::{Time, whole_millis};
use model::wire::IncompleteSource;
use store::state::MemberScope;
use sys::dropped::NoteDropped;
use sys::machine::Machine;
use sys::tree_facts::TreeFacts;

use super::{GcCheck, GcPlan, InUse};
use crate::git::ask_guarded;
use crate::groups;
use crate::observe::{Observation, Observed};
use crate::repository;
use crate::writer::GcRequest;
use reaper::PlannedRemoval;

/// What a removal leaves and what it does not, in words.
const WHY: &str =
    "its branch is merged and its commits are on a remote; files that git ignores go with it";

/// Worktrees in which no session is active: those that sessions worked in, and those that ostler made.
pub(super) fn plan_worktrees(
    ask: &GcRequest,
    machine: &Machine,
    observation: &Observation,
    in_use: &InUse,
    planning: &mut GcPlan,
) {
    let mut roots = BTreeSet::new();
    let mut doubt = unseen_sessions(observation);
    let members = match groups::list_members(machine.home(), MemberScope::Every) {
        Ok(members) => members,
        Err(error) => {
            let unread = IncompleteSource {
                source: "launch groups".to_owned(),
                path: None,
                reason: error.to_string(),
            };
            doubt = doubt.or_else(|| Some(in_part(&unread)));
            planning.incomplete.push(unread);
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
        let member = members.iter().find(|member| made_for(member).as_ref() == Some(&root));
        // A sub-agent may work in a worktree that its parent does not.
        let all = observation.sessions.iter().chain(&observation.subagents);
        let tree = SeenTree {
            facts: TreeFacts::walk(&root),
            sessions: all.filter(|one| one.works_below(&root)).collect(),
            member,
            root: &root,
        };
        let Ok(planned) = tree.planned(machine.now()) else { continue };
        match tree.check(ask, machine, in_use, doubt.as_ref()) {
            Err(refusal) => planning.add_kept(planned, refusal),
            Ok(()) => {
                let member = member.cloned().map(Box::new);
                planning.add_item(ask, planned, GcCheck::Worktree { member }, tree.names());
            }
        }
    }
}

/// Sessions that may be there and were not seen, any of which may work in any worktree. A transcript of which
/// single records are broken is not one, if it says where its session works.
fn unseen_sessions(observation: &Observation) -> Option<Refusal> {
    let of_agent = |source: &str| {
        observation.agents.iter().any(|report| report.adapter.agent_profile().id == source)
    };
    let elsewhere = observation.incomplete.iter().filter(|one| !of_agent(&one.source));
    let of_agents = observation.agents.iter().flat_map(|report| {
        let unseen = report.unlisted.iter().chain(&report.unread);
        unseen.map(|one| Refusal::ListedInPart {
            why: format!("{}: {}", one.path.display(), one.reason),
        })
    });
    elsewhere.map(in_part).chain(of_agents).next()
}

fn in_part(unread: &IncompleteSource) -> Refusal {
    let place = unread.path.as_deref().unwrap_or(&unread.source);
    Refusal::ListedInPart { why: format!("{place}: {}", unread.reason) }
}

/// A worktree, and everything that is known of it.
struct SeenTree<'a> {
    root: &'a Path,
    facts: io::Result<TreeFacts>,
    /// Who works or worked there, sub-agents included.
    sessions: Vec<&'a Observed>,
    /// Whom ostler made it for.
    member: Option<&'a GroupMember>,
}

impl SeenTree<'_> {
    /// How long no session has worked there.
    fn idle_for(&self, now: Time) -> Option<Duration> {
        let last = self.sessions.iter().filter_map(|one| one.session.last_activity_at()).max();
        last.max(self.member.map(|member| member.made_at)).map(|at| now.since(at))
    }

    /// The worktree as a thing that goes or stays; its size is what a person weighs its worth against.
    fn planned(&self, now: Time) -> io::Result<PlannedRemoval> {
        let mut planned = PlannedRemoval::new(RemovableKind::Worktree, self.root, "git", WHY)?;
        if let Ok(facts) = &self.facts {
            planned.item.bytes = facts.bytes;
        }
        planned.item.age_ms = self.idle_for(now).map(whole_millis);
        planned.item.evidence = vec![
            "git says: no changes, merged, and the commits are on a remote".to_owned(),
            "no process works there, and nothing in it was written within ten minutes".to_owned(),
        ];
        Ok(planned)
    }

    /// Whether it may go.
    fn check(
        &self,
        ask: &GcRequest,
        machine: &Machine,
        in_use: &InUse,
        doubt: Option<&Refusal>,
    ) -> Result<(), Refusal> {
        let now = machine.now();
        for one in &self.sessions {
            guard::may_collect(&one.session, &one.verdict, now).map_err(
                |refused| match refused {
                    Refusal::Alive { .. } | Refusal::Unproven { .. } | Refusal::Active { .. } => {
                        Refusal::WorkedIn { who: format!("the session {}", one.session.id) }
                    }
                    doubt => doubt,
                },
            )?;
        }
        let older_than = ask.older_than(ask.retention.worktrees);
        if self.idle_for(now).is_none_or(|age| age <= older_than) {
            return Err(Refusal::Young);
        }
        if let Some(doubt) = doubt {
            return Err(doubt.clone());
        }
        check_repository(self.root, self.member, machine, in_use)?;
        let quiet_for = check_quiet(&self.facts, now)?;
        // What a person or a program wrote there counts as much as what a session did.
        if quiet_for <= older_than { Err(Refusal::Young) } else { Ok(()) }
    }

    /// The sessions that it is of. What a sub-agent did is part of the session that it worked for.
    fn names(&self) -> Vec<SessionName> {
        let names = self.sessions.iter().flat_map(|one| {
            let parent = one.session.digest.parent.as_ref();
            let parent = parent.map(|parent| SessionName::new(one.session.agent, parent));
            parent.into_iter().chain([one.session.session_name()])
        });
        names.collect()
    }
}

/// How long nothing in a worktree was written, if that is long enough. Git does not speak of what it ignores.
fn check_quiet(facts: &io::Result<TreeFacts>, now: Time) -> Result<Duration, Refusal> {
    let facts = facts.as_ref().map_err(|error| Refusal::Unreadable {
        why: format!("not all that is in it can be looked at: {error}"),
    })?;
    let quiet_for = now.since(facts.written_at);
    if quiet_for < guard::QUIET_BEFORE_COLLECTION {
        return Err(Refusal::JustWritten);
    }
    Ok(quiet_for)
}

/// Whether a worktree that was planned may go now.
pub(super) fn check_worktree(
    root: &Path,
    member: Option<&GroupMember>,
    machine: &Machine,
) -> Result<(), Refusal> {
    check_repository(root, member, machine, &InUse::scan_processes(adapters::may_be_agent))?;
    check_quiet(&TreeFacts::walk(root), machine.now()).map(drop)
}

/// The worktree that a directory is in, if that is a linked one. A repository itself never is.
fn root_of(directory: &Path) -> Option<PathBuf> {
    let root = repository::worktree_root(directory)?;
    repository::linked_administration(&root).map(|_| root)
}

/// Whether everything in a worktree that git knows of is somewhere else too, and no process uses it. `member` is whom ostler made it for:
/// while that may be there it stays, and once it is proven to be gone the lock that ostler put on it says nothing.
fn check_repository(
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
