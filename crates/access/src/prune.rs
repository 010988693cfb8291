//! Remove the directories of sessions that are provably finished; say of every other why it stays.
//!
//! Sends no signal, opens no key, follows no link, removes nothing but the names ostler creates and
//! an empty directory. The order of a removal: check, lock, check again, rename out of the way, look
//! once more, unlink the known names with `meta.json` last, remove the directory. Whatever is not as
//! it was, the directory gets its name back.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::rules::log::Event;
use crate::rules::presence::Presence;
use crate::rules::skip::{Skip, SkipCode};
use crate::rules::state::State;
use crate::rules::{NAMES, PRUNING, is_id};
use model::liveness::Death;

use super::check::{Checked, check, files_in, id_in};
use super::root::{Root, RootFault};
use super::{World, log, random_word};

/// What was done about one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The entry: an id, or a name that is none.
    pub name: String,
    /// What.
    pub outcome: Outcome,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Removed, or it would be.
    Pruned {
        /// The state that allowed it.
        state: State,
        /// The proof that the agent is gone.
        death: Death,
    },
    /// Kept, by a rule.
    Kept(Skip),
    /// The removal failed half-way; what is left was reported and is finished by the next run.
    Failed(String),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// One for each entry.
    pub items: Vec<Item>,
}

impl Report {
    /// How many were removed.
    pub fn pruned(&self) -> usize {
        self.items.iter().filter(|item| matches!(item.outcome, Outcome::Pruned { .. })).count()
    }

    /// How many were kept.
    pub fn skipped(&self) -> usize {
        self.items.iter().filter(|item| matches!(item.outcome, Outcome::Kept(_))).count()
    }

    /// How many could not be removed although they might.
    pub fn failed(&self) -> usize {
        self.items.iter().filter(|item| matches!(item.outcome, Outcome::Failed(_))).count()
    }
}

/// Looks at every entry and removes what may go; with `dry_run` it only says so.
pub fn prune(home: &Path, world: &World<'_>, dry_run: bool) -> Result<Report, RootFault> {
    let Some(root) = Root::find(home)? else { return Ok(Report { items: Vec::new() }) };
    let items = root
        .names()?
        .into_iter()
        .map(|name| {
            let outcome = match consider(&root, &name, world, dry_run) {
                Ok((state, death)) => Outcome::Pruned { state, death },
                Err(Left::Kept(skip)) => Outcome::Kept(skip),
                Err(Left::Failed(what)) => Outcome::Failed(what),
            };
            Item { name: shown_name(&name), outcome }
        })
        .collect();
    Ok(Report { items })
}

/// The name by which people know the entry.
fn shown_name(name: &OsStr) -> String {
    id_in(name).map_or_else(|| name.to_string_lossy().into_owned(), str::to_owned)
}

/// Why an entry is still there.
#[derive(Debug)]
enum Left {
    Kept(Skip),
    Failed(String),
}

impl From<Skip> for Left {
    fn from(skip: Skip) -> Self {
        Self::Kept(skip)
    }
}

fn failed(what: &str) -> impl FnOnce(std::io::Error) -> Left {
    let what = what.to_owned();
    move |error| Left::Failed(format!("{what}: {error}"))
}

fn consider(
    root: &Root,
    name: &OsStr,
    world: &World<'_>,
    dry_run: bool,
) -> Result<(State, Death), Left> {
    if let Some(emptied) = empty_leftover(root, name, dry_run) {
        return emptied;
    }
    let id = id_in(name).unwrap_or_default().to_owned();
    let verdict = match may_go(root, name, world) {
        Ok((_, verdict)) => verdict,
        Err(skip) => {
            // A borrower that still uses what a crashed removal moved away gets its path back.
            if skip.code == SkipCode::AgentAlive && !dry_run {
                give_back(root, name, &id);
            }
            return Err(skip.into());
        }
    };
    let locked = || Skip::new(SkipCode::Locked, "another command works on it");
    if dry_run {
        return if root.is_locked(&id) { Err(locked().into()) } else { Ok(verdict) };
    }
    let lock = root
        .lock(&id)
        .map_err(|_| Skip::new(SkipCode::Unsafe, "its lock file is not ours alone"))?;
    let _lock = lock.ok_or_else(locked)?;
    let (checked, (state, death)) = match may_go(root, name, world) {
        Ok(passed) => passed,
        Err(skip) => {
            give_back(root, name, &id);
            return Err(skip.into());
        }
    };
    sys::pause::at("access-prune-checked");
    let aside = if is_id(name.to_str().unwrap_or("")) {
        let aside = random_word().map_err(failed("no name for it"))?;
        let aside = OsString::from(format!("{PRUNING}{id}-{aside}"));
        root.sessions()
            .rename(name, &aside)
            .map_err(|_| Skip::new(SkipCode::Changed, "its directory is not where it was"))?;
        aside
    } else {
        name.to_owned()
    };
    sys::pause::at("access-prune-renamed");
    if let Err(skip) = unchanged(root, &aside, &checked, world) {
        give_back(root, &aside, &id);
        return Err(skip.into());
    }
    sys::pause::at("access-prune-rechecked");
    remove(root, &aside, &checked)?;
    // The removal is done; a log that cannot be written does not undo it.
    let event = Event::Pruned {
        state: state.word().to_owned(),
        agent: Presence::Absent(death).reason().to_owned(),
    };
    let _ = log::append(root, &id, event);
    // Ids are never used again, and whoever waits for this lock finds no session.
    root.forget_lock(&id);
    Ok((state, death))
}

/// Every rule that must hold before a directory may go.
fn may_go(root: &Root, name: &OsStr, world: &World<'_>) -> Result<(Checked, (State, Death)), Skip> {
    let checked = check(root, name, world)?;
    checked.only_known_names()?;
    let state = match checked.judged.candidate() {
        Ok(state) => state,
        // It was a candidate when its removal began; only the agent must still be gone.
        Err(_) if checked.is_half_removed() => State::Stopped,
        Err(skip) => return Err(skip),
    };
    let death = checked.presence(world, true).absent()?;
    Ok((checked, (state, death)))
}

/// After the rename: the same directory, the same files, nobody there.
fn unchanged(root: &Root, aside: &OsStr, checked: &Checked, world: &World<'_>) -> Result<(), Skip> {
    let changed = |what: &str| Skip::new(SkipCode::Changed, what);
    if !is_still(root, aside, checked) {
        return Err(changed("its directory was exchanged"));
    }
    // First who is there, then what: an agent that began to listen has made a socket.
    checked.presence(world, true).absent()?;
    checked.only_known_names()?;
    if files_in(&checked.dir)? != checked.files {
        return Err(changed("its files changed"));
    }
    Ok(())
}

fn is_still(root: &Root, aside: &OsStr, checked: &Checked) -> bool {
    let now = root.sessions().facts_of(aside).ok().flatten();
    now.is_some_and(|now| now.is_same(&checked.facts))
}

fn remove(root: &Root, aside: &OsStr, checked: &Checked) -> Result<(), Left> {
    let changed = |what: String| Left::Kept(Skip::new(SkipCode::Changed, what));
    for name in NAMES {
        let Some((_, before)) = checked.files.iter().find(|(known, _)| *known == name) else {
            continue;
        };
        let now = checked.dir.facts_of(OsStr::new(name)).map_err(failed("FAIL_REMOVE"))?;
        if now.as_ref() != Some(before) {
            return Err(changed(format!("{name} changed; the rest is in {}", shown(aside))));
        }
        checked.dir.unlink(OsStr::new(name)).map_err(failed(name))?;
        sys::pause::at("access-prune-unlinked");
    }
    if !is_still(root, aside, checked) {
        return Err(changed(format!("{} was exchanged", shown(aside))));
    }
    root.sessions().remove_child(aside).map_err(failed(&shown(aside)))?;
    // The names are gone either way; only a crash right now could bring them back, whole.
    let _ = root.sessions().sync();
    Ok(())
}

fn shown(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

/// Gives a directory that was moved out of the way its own name back, if that is free.
fn give_back(root: &Root, aside: &OsStr, id: &str) {
    if !is_id(aside.to_str().unwrap_or("")) {
        // If the name is taken it stays where it is, and the next run reports it.
        let _ = root.sessions().rename(aside, OsStr::new(id));
    }
}

/// A removal that was interrupted after its last file: only the empty directory is left.
fn empty_leftover(
    root: &Root,
    name: &OsStr,
    dry_run: bool,
) -> Option<Result<(State, Death), Left>> {
    if is_id(name.to_str()?) || id_in(name).is_none() {
        return None;
    }
    let dir = root.sessions().child(name).ok()?;
    let private = dir.facts().is_ok_and(|facts| facts.is_private());
    if !private || !dir.names().ok()?.is_empty() {
        return None;
    }
    let done = Ok((State::Stopped, Death::Gone));
    if dry_run {
        return Some(done);
    }
    let removed = root.sessions().remove_child(name).map_err(failed(&shown(name)));
    Some(removed.and(done))
}
