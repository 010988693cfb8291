//! Git worktrees that sessions worked in: they go only if nothing in them could be lost.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use model::plan::{Refusal, RemovableKind};
use model::rules::guard;
use model::time::{Time, whole_millis};

use super::{GcCheck, GcPlan, InUse};
use crate::observe::Observation;
use crate::repository;
use crate::writer::GcRequest;
use reaper::PlannedRemoval;

/// Worktrees in which no session is active.
pub(super) fn plan_worktrees(
    ask: &GcRequest,
    now: Time,
    observation: &Observation,
    in_use: &InUse,
    planning: &mut GcPlan,
) {
    let mut roots = BTreeSet::new();
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
        } else if let Err(refusal) = check_worktree(&root, in_use) {
            planning.add_kept(planned, refusal);
        } else {
            let of = sessions().map(|one| one.session.session_name()).collect();
            planning.add_item(ask, planned, GcCheck::Worktree, of);
        }
    }
}

/// The worktree that a directory is in, if that is a linked one. A repository itself never is.
fn root_of(directory: &Path) -> Option<PathBuf> {
    let root = repository::worktree_root(directory)?;
    repository::linked_administration(&root).map(|_| root)
}

/// Whether everything in a worktree is somewhere else too, and nobody uses it.
pub(super) fn check_worktree(root: &Path, in_use: &InUse) -> Result<(), Refusal> {
    in_use.check_below(root)?;
    let administration = run_git(root, &["rev-parse", "--absolute-git-dir"])?;
    if Path::new(administration.trim()).join("locked").exists() {
        return Err(Refusal::Locked);
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

/// Asks git, with the commands that the repository's settings name switched off.
fn run_git(root: &Path, arguments: &[&str]) -> Result<String, Refusal> {
    let filters = filter_commands(root)?;
    ask_git(root, arguments, &filters)
}

/// The settings that name commands which git would run to compare a file (`filter.<driver>.clean` and
/// the like), wherever they are set. Without them a filtered file counts as changed, and stays.
fn filter_commands(root: &Path) -> Result<Vec<String>, Refusal> {
    let names = ask_git(root, &["config", "--list", "--name-only", "-z", "--includes"], &[])?;
    let runs = |name: &&str| {
        let is_command = [".clean", ".smudge", ".process"].iter().any(|end| name.ends_with(end));
        name.starts_with("filter.") && is_command
    };
    Ok(names.split('\0').filter(runs).map(str::to_owned).collect())
}

/// Runs git without anything of the repository's: no hooks, no monitor, no pager, no prompts, no
/// fetching of what is missing, and an empty command for each of `emptied`.
fn ask_git(root: &Path, arguments: &[&str], emptied: &[String]) -> Result<String, Refusal> {
    let failed = |why: String| Refusal::Unreadable { why };
    let mut command = Command::new("git");
    command
        .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c"])
        .args(["core.untrackedCache=false", "--no-optional-locks", "--no-pager"])
        .args(arguments)
        .current_dir(root)
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_CONFIG_COUNT", emptied.len().to_string())
        .env_remove("GIT_CONFIG_PARAMETERS")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .stdin(Stdio::null());
    for (index, name) in emptied.iter().enumerate() {
        command.env(format!("GIT_CONFIG_KEY_{index}"), name);
        command.env(format!("GIT_CONFIG_VALUE_{index}"), "");
    }
    let output = command.output().map_err(|error| failed(format!("git cannot be run: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(failed(format!("git said: {said}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
