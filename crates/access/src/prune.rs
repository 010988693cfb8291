//! Remove the directories of sessions that are provably finished; say of every other why it stays.
//!
//! Sends no signal, opens no key, follows no link, removes nothing but the names ostler creates and
//! an empty directory. The order of a removal: check, lock, check again, rename out of the way, look
//! once more, unlink the known names with `meta.json` last, remove the directory. Whatever is not as
//! it was, the directory gets its name back.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::rules::log::AccessEvent;
use crate::rules::presence::AgentPresence;
use crate::rules::skip::{SkipCode, SkipReason};
use crate::rules::state::AccessState;
use crate::rules::{PRUNING_PREFIX, SESSION_FILE_NAMES, is_id};
use model::liveness::Death;

use super::check::{CheckedAccess, check_entry, files_in, id_in};
use super::root::{AccessRoot, RootFault};
use super::{AccessWorld, log, random_word};

/// What was done about one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrunedEntry {
    /// The entry: an id, or a name that is none.
    pub name: String,
    /// What.
    pub outcome: PruneOutcome,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PruneOutcome {
    /// Removed, or it would be.
    Pruned {
        /// The state that allowed it.
        state: AccessState,
        /// The proof that the agent is gone.
        death: Death,
    },
    /// Kept, by a rule.
    Kept(SkipReason),
    /// The removal failed half-way; what is left was reported and is finished by the next run.
    Failed(String),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PruneReport {
    /// One for each entry.
    pub items: Vec<PrunedEntry>,
}

impl PruneReport {
    /// How many were removed.
    pub fn pruned_count(&self) -> usize {
        self.items.iter().filter(|item| matches!(item.outcome, PruneOutcome::Pruned { .. })).count()
    }

    /// How many were kept.
    pub fn skipped_count(&self) -> usize {
        self.items.iter().filter(|item| matches!(item.outcome, PruneOutcome::Kept(_))).count()
    }

    /// How many could not be removed although they might.
    pub fn failed_count(&self) -> usize {
        self.items.iter().filter(|item| matches!(item.outcome, PruneOutcome::Failed(_))).count()
    }
}

/// Looks at every entry and removes what may go; with `dry_run` it only says so.
pub fn prune_access(
    home: &Path,
    world: &AccessWorld<'_>,
    dry_run: bool,
) -> Result<PruneReport, RootFault> {
    let Some(root) = AccessRoot::find(home)? else { return Ok(PruneReport { items: Vec::new() }) };
    let items = root
        .entry_names()?
        .into_iter()
        .map(|name| {
            let outcome = match prune_entry(&root, &name, world, dry_run) {
                Ok((state, death)) => PruneOutcome::Pruned { state, death },
                Err(PruneObstacle::Kept(skip)) => PruneOutcome::Kept(skip),
                Err(PruneObstacle::Failed(what)) => PruneOutcome::Failed(what),
            };
            PrunedEntry { name: shown_name(&name), outcome }
        })
        .collect();
    Ok(PruneReport { items })
}

/// The name by which people know the entry.
fn shown_name(name: &OsStr) -> String {
    id_in(name).map_or_else(|| name.to_string_lossy().into_owned(), str::to_owned)
}

/// Why an entry is still there.
#[derive(Debug)]
enum PruneObstacle {
    Kept(SkipReason),
    Failed(String),
}

impl From<SkipReason> for PruneObstacle {
    fn from(skip: SkipReason) -> Self {
        Self::Kept(skip)
    }
}

fn failed_to(what: &str) -> impl FnOnce(std::io::Error) -> PruneObstacle {
    let what = what.to_owned();
    move |error| PruneObstacle::Failed(format!("{what}: {error}"))
}

fn prune_entry(
    root: &AccessRoot,
    name: &OsStr,
    world: &AccessWorld<'_>,
    dry_run: bool,
) -> Result<(AccessState, Death), PruneObstacle> {
    if let Some(emptied) = empty_leftover(root, name, dry_run) {
        return emptied;
    }
    let id = id_in(name).unwrap_or_default().to_owned();
    let verdict = match check_removable(root, name, world) {
        Ok((_, verdict)) => verdict,
        Err(skip) => {
            // A borrower that still uses what a crashed removal moved away gets its path back.
            if skip.code == SkipCode::AgentAlive && !dry_run {
                give_back(root, name, &id);
            }
            return Err(skip.into());
        }
    };
    let locked = || SkipReason::new(SkipCode::Locked, "another command works on it");
    if dry_run {
        return if root.is_locked(&id) { Err(locked().into()) } else { Ok(verdict) };
    }
    let lock = root
        .lock_session(&id)
        .map_err(|_| SkipReason::new(SkipCode::Unsafe, "its lock file is not ours alone"))?;
    let _lock = lock.ok_or_else(locked)?;
    let (checked, (state, death)) = match check_removable(root, name, world) {
        Ok(passed) => passed,
        Err(skip) => {
            give_back(root, name, &id);
            return Err(skip.into());
        }
    };
    sys::pause::pause_at("access-prune-checked");
    let aside = if is_id(name.to_str().unwrap_or("")) {
        let aside = random_word().map_err(failed_to("no name for it"))?;
        let aside = OsString::from(format!("{PRUNING_PREFIX}{id}-{aside}"));
        root.sessions()
            .rename_noreplace(name, &aside)
            .map_err(|_| SkipReason::new(SkipCode::Changed, "its directory is not where it was"))?;
        aside
    } else {
        name.to_owned()
    };
    sys::pause::pause_at("access-prune-renamed");
    if let Err(skip) = check_unchanged(root, &aside, &checked, world) {
        give_back(root, &aside, &id);
        return Err(skip.into());
    }
    sys::pause::pause_at("access-prune-rechecked");
    remove_directory(root, &aside, &checked)?;
    // The removal is done; a log that cannot be written does not undo it.
    let event = AccessEvent::Pruned {
        state: state.as_str().to_owned(),
        agent: AgentPresence::Absent(death).reason_code().to_owned(),
    };
    let _ = log::append_event(root, &id, event);
    // Ids are never used again, and whoever waits for this lock finds no session.
    root.forget_lock(&id);
    Ok((state, death))
}

/// Every rule that must hold before a directory may go.
fn check_removable(
    root: &AccessRoot,
    name: &OsStr,
    world: &AccessWorld<'_>,
) -> Result<(CheckedAccess, (AccessState, Death)), SkipReason> {
    let checked = check_entry(root, name, world)?;
    checked.only_known_names()?;
    let state = match checked.judged.require_candidate() {
        Ok(state) => state,
        // It was a candidate when its removal began; only the agent must still be gone.
        Err(_) if checked.is_half_removed() => AccessState::Stopped,
        Err(skip) => return Err(skip),
    };
    let death = checked.presence(world, true).require_absent()?;
    Ok((checked, (state, death)))
}

/// After the rename: the same directory, the same files, nobody there.
fn check_unchanged(
    root: &AccessRoot,
    aside: &OsStr,
    checked: &CheckedAccess,
    world: &AccessWorld<'_>,
) -> Result<(), SkipReason> {
    let changed = |what: &str| SkipReason::new(SkipCode::Changed, what);
    if !is_still(root, aside, checked) {
        return Err(changed("its directory was exchanged"));
    }
    // First who is there, then what: an agent that began to listen has made a socket.
    checked.presence(world, true).require_absent()?;
    checked.only_known_names()?;
    if files_in(&checked.dir)? != checked.files {
        return Err(changed("its files changed"));
    }
    Ok(())
}

fn is_still(root: &AccessRoot, aside: &OsStr, checked: &CheckedAccess) -> bool {
    let now = root.sessions().facts_of(aside).ok().flatten();
    now.is_some_and(|now| now.is_same(&checked.facts))
}

fn remove_directory(
    root: &AccessRoot,
    aside: &OsStr,
    checked: &CheckedAccess,
) -> Result<(), PruneObstacle> {
    let changed = |what: String| PruneObstacle::Kept(SkipReason::new(SkipCode::Changed, what));
    for name in SESSION_FILE_NAMES {
        let Some((_, before)) = checked.files.iter().find(|(known, _)| *known == name) else {
            continue;
        };
        let now = checked.dir.facts_of(OsStr::new(name)).map_err(failed_to("FAIL_REMOVE"))?;
        if now.as_ref() != Some(before) {
            return Err(changed(format!("{name} changed; the rest is in {}", lossy_name(aside))));
        }
        checked.dir.unlink_name(OsStr::new(name)).map_err(failed_to(name))?;
        sys::pause::pause_at("access-prune-unlinked");
    }
    if !is_still(root, aside, checked) {
        return Err(changed(format!("{} was exchanged", lossy_name(aside))));
    }
    root.sessions().remove_child(aside).map_err(failed_to(&lossy_name(aside)))?;
    // The names are gone either way; only a crash right now could bring them back, whole.
    let _ = root.sessions().sync();
    Ok(())
}

fn lossy_name(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

/// Gives a directory that was moved out of the way its own name back, if that is free.
fn give_back(root: &AccessRoot, aside: &OsStr, id: &str) {
    if !is_id(aside.to_str().unwrap_or("")) {
        // If the name is taken it stays where it is, and the next run reports it.
        let _ = root.sessions().rename_noreplace(aside, OsStr::new(id));
    }
}

/// A removal that was interrupted after its last file: only the empty directory is left.
fn empty_leftover(
    root: &AccessRoot,
    name: &OsStr,
    dry_run: bool,
) -> Option<Result<(AccessState, Death), PruneObstacle>> {
    if is_id(name.to_str()?) || id_in(name).is_none() {
        return None;
    }
    let dir = root.sessions().open_child(name).ok()?;
    let private = dir.own_facts().is_ok_and(|facts| facts.is_private());
    if !private || !dir.list_names().ok()?.is_empty() {
        return None;
    }
    let done = Ok((AccessState::Stopped, Death::Gone));
    if dry_run {
        return Some(done);
    }
    let removed = root.sessions().remove_child(name).map_err(failed_to(&lossy_name(name)));
    Some(removed.and(done))
}
