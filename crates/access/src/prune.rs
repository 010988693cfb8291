//! Remove the directories of sessions that are provably finished; say of every other why it stays.
//!
//! Sends no signal, opens no key, follows no link, removes nothing but the names ostler creates and
//! an empty directory. The order of a removal: check, lock, check again, and then the reaper: rename out
//! of the way, look once more, unlink the known names with `meta.json` last, remove the directory. A
//! credential is discarded: no copy of it is kept, and the receipt says so. If anything changed,
//! the directory gets its name back.

use std::ffi::{OsStr, OsString};

use crate::rules::log::AccessEvent;
use crate::rules::presence::AgentPresence;
use crate::rules::state::AccessState;
use crate::rules::{PRUNING_PREFIX, SESSION_FILE_NAMES, is_id};
use model::failure::{Failure, FailureKind};
use model::liveness::Death;
use model::plan::RemovableKind;
use model::refusal::{Refusal, SkipCode};
use model::time::Time;
use reaper::{CollectError, DiscardedDirectory, PlannedRemoval, Reaper, recheck_planned};
use serde::{Deserialize, Serialize};
use sys::dropped::NoteDropped;
use sys::machine::Machine;
use sys::private::PrivateDir;
use sys::writer_lock::WriterLock;

use super::check::{CheckedAccess, check_entry, files_in, id_in};
use super::log::ExpiredLog;
use super::root::{AccessRoot, RootFault};
use super::{log, random_word};

/// What was done about one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrunedEntry {
    /// The entry: an id, or a name that is none.
    pub name: String,
    pub outcome: PruneOutcome,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PruneOutcome {
    /// Removed, or it would be.
    Pruned {
        /// The state that allowed it.
        state: AccessState,
        /// The proof that the agent is gone.
        death: Death,
    },
    /// Kept, by a rule.
    Kept(Refusal),
    /// The removal failed half-way; what is left was reported and is finished by the next run.
    Failed(String),
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PruneReport {
    /// One for each entry.
    pub items: Vec<PrunedEntry>,
    /// The logs that went, or would.
    pub logs: Vec<ExpiredLog>,
    /// The receipt of what went.
    pub receipt: Option<String>,
    /// Whether an earlier run left something half done, to be finished or given back.
    leftovers: bool,
}

impl PruneReport {
    /// How many were removed.
    pub fn pruned_count(&self) -> usize {
        let gone = |item: &&PrunedEntry| matches!(item.outcome, PruneOutcome::Pruned { .. });
        let logs = self.logs.iter().filter(|log| log.removed.is_ok()).count();
        self.items.iter().filter(gone).count() + logs
    }

    /// How many were kept.
    pub fn skipped_count(&self) -> usize {
        self.items.iter().filter(|item| matches!(item.outcome, PruneOutcome::Kept(_))).count()
    }

    /// How many could not be removed although they might.
    pub fn failed_count(&self) -> usize {
        let failed = |item: &&PrunedEntry| matches!(item.outcome, PruneOutcome::Failed(_));
        let logs = self.logs.iter().filter(|log| log.removed.is_err()).count();
        self.items.iter().filter(failed).count() + logs
    }

    /// Whether a plan leaves anything to do for the writer.
    pub fn has_work(&self) -> bool {
        self.leftovers || self.pruned_count() > 0
    }
}

/// Why nothing could be pruned at all.
#[derive(Debug, thiserror::Error)]
pub enum PruneError {
    /// The directories cannot be trusted.
    #[error(transparent)]
    Root(#[from] RootFault),
    /// The reaper cannot work.
    #[error(transparent)]
    Collect(#[from] CollectError),
}

impl From<PruneError> for Failure {
    fn from(error: PruneError) -> Self {
        match error {
            PruneError::Collect(error) => error.into(),
            PruneError::Root(fault) => Self {
                kind: FailureKind::Write,
                message: fault.to_string(),
                hint: "check that directory, its owner and its mode".to_owned(),
            },
        }
    }
}

/// Looks at every entry, and at the logs whose last line is from before `logs_before`, and says what
/// would go. Changes nothing.
pub fn plan_prune(machine: &Machine, logs_before: Option<Time>) -> Result<PruneReport, RootFault> {
    let Some(root) = AccessRoot::find(machine.home())? else { return Ok(PruneReport::default()) };
    let mut report = PruneReport::default();
    for name in root.entry_names()? {
        report.leftovers |= is_leftover(&name);
        let outcome = match preview_entry(&root, &name, machine) {
            Ok((state, death)) => PruneOutcome::Pruned { state, death },
            Err(refusal) => PruneOutcome::Kept(refusal),
        };
        report.items.push(PrunedEntry { name: shown_name(&name), outcome });
    }
    if let Some(before) = logs_before {
        let expired = log::find_expired(&root, before)?;
        report.logs = expired.into_iter().map(|log| log.into_view(Ok(()))).collect();
    }
    Ok(report)
}

/// Looks at every entry and removes what may go. The caller holds the writer lock.
pub fn prune_access(
    writer: &WriterLock,
    machine: &Machine,
    logs_before: Option<Time>,
) -> Result<PruneReport, PruneError> {
    let Some(root) = AccessRoot::find(&writer.home)? else { return Ok(PruneReport::default()) };
    let mut reaper = Reaper::begin(writer, "access prune", machine)?;
    let mut report = PruneReport::default();
    for name in root.entry_names()? {
        let outcome = match prune_entry(&root, &name, machine, &mut reaper) {
            Ok((state, death)) => PruneOutcome::Pruned { state, death },
            Err(PruneObstacle::Kept(refusal)) => PruneOutcome::Kept(refusal),
            Err(PruneObstacle::Failed(what)) => PruneOutcome::Failed(what),
            Err(PruneObstacle::Journal(error)) => return Err(error.into()),
        };
        report.items.push(PrunedEntry { name: shown_name(&name), outcome });
    }
    if let Some(before) = logs_before {
        for log in log::find_expired(&root, before)? {
            let removed = log.trash_with(&mut reaper)?;
            report.logs.push(log.into_view(removed));
        }
    }
    report.receipt = reaper.finish()?.map(|(receipt, _)| receipt);
    Ok(report)
}

/// The name by which people know the entry.
fn shown_name(name: &OsStr) -> String {
    id_in(name).map_or_else(|| name.to_string_lossy().into_owned(), str::to_owned)
}

/// Whether an earlier removal moved it out of the way.
fn is_leftover(name: &OsStr) -> bool {
    id_in(name).is_some() && !is_id(name.to_str().unwrap_or(""))
}

/// Why an entry is still there.
#[derive(Debug)]
enum PruneObstacle {
    Kept(Refusal),
    Failed(String),
    Journal(CollectError),
}

impl From<Refusal> for PruneObstacle {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            failure if failure.is_failure() => Self::Failed(failure.reason_text()),
            kept => Self::Kept(kept),
        }
    }
}

impl From<CollectError> for PruneObstacle {
    fn from(error: CollectError) -> Self {
        Self::Journal(error)
    }
}

fn locked_refusal() -> Refusal {
    Refusal::skip(SkipCode::Locked, "another command works on it")
}

/// What would become of an entry.
fn preview_entry(
    root: &AccessRoot,
    name: &OsStr,
    machine: &Machine,
) -> Result<(AccessState, Death), Refusal> {
    if empty_leftover(root, name).is_some() {
        return Ok((AccessState::Stopped, Death::Gone));
    }
    let (_, verdict) = check_removable(root, name, machine)?;
    if root.is_locked(id_in(name).unwrap_or_default()) {
        return Err(locked_refusal());
    }
    Ok(verdict)
}

fn prune_entry(
    root: &AccessRoot,
    name: &OsStr,
    machine: &Machine,
    reaper: &mut Reaper<'_>,
) -> Result<(AccessState, Death), PruneObstacle> {
    let path = root.sessions_path().join(name);
    let plan = |why: &str| {
        PlannedRemoval::new(RemovableKind::AccessSession, &path, "ostler", why)
            .map(PlannedRemoval::with_total_size)
            .map_err(|error| reaper::io_refusal(&path, &error))
    };
    if let Some(dir) = empty_leftover(root, name) {
        let planned = plan("its removal was interrupted; only the empty directory is left")?;
        let facts = dir.own_facts().map_err(|error| reaper::io_refusal(&path, &error))?;
        let checked = recheck_planned(&planned, |_| Ok(None))?;
        let (parent, directory, facts) = (root.sessions(), &dir, &facts);
        let going = DiscardedDirectory { parent, aside: name, directory, facts, files: vec![] };
        reaper.discard_directory(&checked, &going, &mut || Ok(()))??;
        return Ok((AccessState::Stopped, Death::Gone));
    }
    let id = id_in(name).unwrap_or_default().to_owned();
    if let Err(refusal) = check_removable(root, name, machine) {
        // A borrower that still uses what a crashed removal moved away gets its path back.
        if refusal.skip_code() == SkipCode::AgentAlive && is_leftover(name) {
            give_back(root, name, &id, reaper)?;
        }
        return Err(refusal.into());
    }
    let lock = root
        .lock_session(&id)
        .map_err(|_| Refusal::skip(SkipCode::Unsafe, "its lock file is not ours alone"))?;
    let _lock = lock.ok_or_else(locked_refusal)?;
    let (checked, (state, death)) = match check_removable(root, name, machine) {
        Ok(passed) => passed,
        Err(refusal) => {
            give_back(root, name, &id, reaper)?;
            return Err(refusal.into());
        }
    };
    let planned = plan(state.as_str())?;
    let removal = recheck_planned(&planned, |_| Ok(None))?;
    sys::pause::pause_at("access-prune-checked");
    let aside = if is_leftover(name) {
        name.to_owned()
    } else {
        let word = random_word().map_err(|error| PruneObstacle::Failed(error.to_string()))?;
        OsString::from(format!("{PRUNING_PREFIX}{id}-{word}"))
    };
    let going = DiscardedDirectory {
        parent: root.sessions(),
        aside: &aside,
        directory: &checked.dir,
        facts: &checked.facts,
        files: checked.files_in_order(),
    };
    let mut look = || {
        sys::pause::pause_at("access-prune-renamed");
        check_unchanged(root, &aside, &checked, machine)?;
        sys::pause::pause_at("access-prune-rechecked");
        Ok(())
    };
    reaper.discard_directory(&removal, &going, &mut look)??;
    // The removal is done; a log that cannot be written does not undo it.
    let event = AccessEvent::Pruned {
        state: state.as_str().to_owned(),
        agent: AgentPresence::Absent(death).reason_code().to_owned(),
    };
    if let Err(error) = log::append_event(root, &id, event, machine.read_clock()) {
        tracing::debug!(%error, id, "the removal is not in the session's log");
    }
    // Ids are never used again, and a waiter for this lock finds no session.
    root.forget_lock(&id);
    Ok((state, death))
}

/// Every rule that must hold before a directory may go.
fn check_removable(
    root: &AccessRoot,
    name: &OsStr,
    machine: &Machine,
) -> Result<(CheckedAccess, (AccessState, Death)), Refusal> {
    let checked = check_entry(root, name, machine)?;
    checked.only_known_names()?;
    let state = match checked.judged.require_candidate() {
        Ok(state) => state,
        // It was a candidate when its removal began; only the agent must still be gone.
        Err(_) if checked.is_half_removed() => AccessState::Stopped,
        Err(skip) => return Err(skip),
    };
    let death = checked.presence(machine, true).require_absent()?;
    Ok((checked, (state, death)))
}

/// After the rename: the same directory, the same files, no user of it.
fn check_unchanged(
    root: &AccessRoot,
    aside: &OsStr,
    checked: &CheckedAccess,
    machine: &Machine,
) -> Result<(), Refusal> {
    let changed = |what: &str| Refusal::skip(SkipCode::Changed, what);
    if !is_still(root, aside, checked) {
        return Err(changed("its directory was exchanged"));
    }
    // First who is there, then what: an agent that began to listen has made a socket.
    checked.presence(machine, true).require_absent()?;
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

/// Gives a directory that was moved out of the way its own name back, if that is free.
fn give_back(
    root: &AccessRoot,
    aside: &OsStr,
    id: &str,
    reaper: &mut Reaper<'_>,
) -> Result<(), CollectError> {
    if !is_leftover(aside) {
        return Ok(());
    }
    let path = root.sessions_path().join(aside);
    let why = "it was to be removed, and is still used";
    let planned = PlannedRemoval::new(RemovableKind::AccessSession, &path, "ostler", why);
    let planned = planned.map_err(|error| reaper::io_refusal(&path, &error));
    let given = match &planned {
        Ok(planned) => match recheck_planned(planned, |_| Ok(None)) {
            Ok(checked) => reaper.rename_item(&checked, &root.sessions_path().join(id))?,
            Err(refusal) => Err(refusal),
        },
        Err(refusal) => Err(refusal.clone()),
    };
    if let Err(refusal) = given {
        // If the name is taken it stays where it is, and the next run reports it.
        tracing::debug!(id, reason = refusal.reason_text(), "it did not get its name back");
    }
    Ok(())
}

/// A removal that was interrupted after its last file: only the empty directory is left.
fn empty_leftover(root: &AccessRoot, name: &OsStr) -> Option<PrivateDir> {
    if !is_leftover(name) {
        return None;
    }
    let dir = root.sessions().open_child(name).ok_or_note("a directory that was left over")?;
    let private = dir.own_facts().is_ok_and(|facts| facts.is_private());
    (private && dir.list_names().ok()?.is_empty()).then_some(dir)
}

impl CheckedAccess {
    /// Its files as they were checked, in the order in which they go: `meta.json` last.
    fn files_in_order(&self) -> Vec<(&'static str, sys::private::InodeFacts)> {
        let found = |name| self.files.iter().find(|(known, _)| *known == name).cloned();
        SESSION_FILE_NAMES.into_iter().filter_map(found).collect()
    }
}
