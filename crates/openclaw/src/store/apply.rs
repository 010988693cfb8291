//! Carrying a cleanup out.
//!
//! The index first, then the files: killed in between, a transcript is left without an entry, never an
//! entry without its transcript. If anything that the plan rests on has changed meanwhile, the plan is
//! made anew; nothing is ever written over what was not read.

use std::path::Path;

use crate::rules::file::{ArchiveReason, StoreFileKind, archive_name};
use crate::rules::maintain::{
    EntryVerdict, RemovalReason, StoreFileAction, StoreFileChange, StoreFileReason,
};
use crate::wire::{StoreCleanup, StoreCleanupResult, StoreItem};
use model::plan::{PlanItem, Refusal, RemovableKind};
use model::wire::IncompleteSource;
use sys::machine::Machine;

use super::ask::{SessionStoreRequest, prove_ours};
use super::facts::{leads_astray, may_hold_messages};
use super::find::{StorePlace, locate_stores};
use super::plan::{CleanupRequest, PlannedCleanup, count_totals, empty_result, plan_cleanup};
use super::{StoreError, path_text};
use crate::locks;
use model::failure::Failure;
use model::rules::pins::Pins;
use reaper::{CollectError, Reaper, recheck_planned};
use store::writer::StoreWriter;

/// How often a plan is made anew because the store changed.
const MAX_PLAN_ROUNDS: usize = 5;

/// Cleans stores up. The caller holds the writer lock.
pub fn perform_cleanup(
    writer: &StoreWriter,
    ask: &SessionStoreRequest,
    machine: &Machine,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<StoreCleanupResult, Failure> {
    let (config, policy) = ask.read_configuration(machine)?;
    let pins = Pins::from_read(writer.state().and_then(store::state::StateStore::list_pins));
    let cleanup = ask.cleanup_request(&config, &policy, &pins, machine);
    let (places, skipped) = locate_stores(&config, &ask.selection)?;
    prove_ours(&config, &places, machine)?;
    let mut result = empty_result(skipped);
    let mut reaper = Reaper::begin(writer, "store cleanup", machine)?;
    let mut refused = None;
    for (at, place) in places.iter().enumerate() {
        progress(at, places.len());
        match clean_store(&mut reaper, ask, &cleanup, place) {
            Ok(view) => {
                result.applied |= view.applied;
                result.incomplete.extend(view.refused.map(|refusal| IncompleteSource {
                    source: "openclaw".to_owned(),
                    path: Some(path_text(&place.path)),
                    reason: format!("left alone: {}", refusal.reason_text()),
                }));
                result.stores.push(view.planned.view);
            }
            Err(CleanupStop::Store(error)) if places.len() > 1 => {
                result.incomplete.push(error.incomplete());
            }
            // What went before has its receipt all the same.
            Err(stop) => {
                refused = Some(stop);
                break;
            }
        }
    }
    result.receipt = reaper.finish()?.map(|(receipt, _)| receipt);
    match refused {
        Some(CleanupStop::Store(error)) => return Err(error.into()),
        Some(CleanupStop::Collect(error)) => return Err(error.into()),
        None => {}
    }
    count_totals(&mut result);
    Ok(result)
}

/// Why it does not go on.
enum CleanupStop {
    Store(StoreError),
    Collect(CollectError),
}

impl From<StoreError> for CleanupStop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<CollectError> for CleanupStop {
    fn from(error: CollectError) -> Self {
        Self::Collect(error)
    }
}

/// A plan, and whether it was carried out.
struct AppliedCleanup {
    planned: PlannedCleanup,
    applied: bool,
    /// Why the index, and with it everything else, was left as it is.
    refused: Option<Refusal>,
}

/// Cleans one store up.
fn clean_store(
    reaper: &mut Reaper<'_>,
    ask: &SessionStoreRequest,
    cleanup: &CleanupRequest<'_>,
    place: &StorePlace,
) -> Result<AppliedCleanup, CleanupStop> {
    let mut rounds = 0;
    loop {
        let mut planned = plan_cleanup(cleanup, place)?;
        sys::pause::pause_at("store.planned");
        let consented = ask.consent.as_ref().is_none_or(|plans| {
            planned.view.plan_hash.as_ref().is_some_and(|hash| plans.contains(hash))
        });
        if !consented {
            planned.view.replanned = true;
            return Ok(AppliedCleanup { planned, applied: false, refused: None });
        }
        planned.view.replanned = rounds > 0;
        locks::let_go_in(&planned.loaded.directory, cleanup.machine);
        match write_index(reaper, &planned)? {
            Ok(()) => {}
            Err(Refusal::Changed | Refusal::Gone) if rounds < MAX_PLAN_ROUNDS => {
                rounds += 1;
                continue;
            }
            Err(refusal) => {
                mark_left(&mut planned.view, &refusal);
                return Ok(AppliedCleanup { planned, applied: true, refused: Some(refusal) });
            }
        }
        move_files(reaper, cleanup.machine, &mut planned)?;
        return Ok(AppliedCleanup { planned, applied: true, refused: None });
    }
}

/// Says of a store that it was left as it is.
fn mark_left(view: &mut StoreCleanup, refusal: &Refusal) {
    for item in view.items.iter_mut().filter(|item| is_going(item)) {
        mark_refused(item, refusal);
    }
    view.after_count = view.before_count;
    for count in [
        &mut view.repaired,
        &mut view.missing,
        &mut view.dm_scope_retired,
        &mut view.pruned,
        &mut view.capped,
        &mut view.evicted,
        &mut view.model_runs,
        &mut view.unusable,
    ] {
        *count = 0;
    }
}

fn is_going(item: &StoreItem) -> bool {
    item.action != "keep" && !item.only_with_enforce
}

pub(super) fn mark_refused(item: &mut StoreItem, refusal: &Refusal) {
    item.action = "skip".into();
    item.outcome = Some("refused".into());
    item.refused = Some(refusal.into());
}

/// Writes the index without what goes, and with what is put right.
fn write_index(
    reaper: &mut Reaper<'_>,
    planned: &PlannedCleanup,
) -> Result<Result<(), Refusal>, CollectError> {
    let (Some(after), Some(before)) = (&planned.index, &planned.loaded.bytes) else {
        return Ok(Ok(()));
    };
    let path = &planned.loaded.place.path;
    let Some(print) = planned.loaded.print else { return Ok(Err(Refusal::Gone)) };
    let (removed, repaired) = (planned.plan.removed_count(), planned.plan.repaired_count());
    let mut why = format!("{removed} of {} entries go", planned.plan.entries.len());
    if repaired > 0 {
        why.push_str(&format!(", {repaired} lead to their transcripts again"));
    }
    let index = plan_removal(planned, path, RemovableKind::StoreIndex, &why, print);
    let checked = match recheck_planned(&index, |_| still_holds(planned).map(|()| None)) {
        Ok(checked) => checked,
        Err(refusal) => return Ok(Err(refusal)),
    };
    sys::pause::pause_at("store.checked");
    reaper.replace_content(&checked, before, after.as_bytes())
}

fn plan_removal(
    planned: &PlannedCleanup,
    path: &Path,
    kind: RemovableKind,
    why: &str,
    print: model::plan::Fingerprint,
) -> reaper::PlannedRemoval {
    let item = PlanItem {
        kind,
        path: path_text(path),
        owner: "openclaw".to_owned(),
        session: None,
        title: None,
        why: why.to_owned(),
        age_ms: None,
        bytes: print.size,
        evidence: planned.loaded.place.agent.iter().map(|id| format!("agent {id}")).collect(),
    };
    reaper::PlannedRemoval { item, path: path.to_owned(), print }
}

/// Whether what the plan rests on is still so: transcripts that were missing are missing, those that
/// held nothing hold nothing, entries that led astray still do, and those transcripts that go with their
/// entries have not been written to.
fn still_holds(planned: &PlannedCleanup) -> Result<(), Refusal> {
    let document = planned.loaded.parse_document().map_err(|_| Refusal::Changed)?;
    for (entry, verdict) in std::iter::zip(&document.entries, &planned.plan.entries) {
        let Some(id) = entry.view.session_id.as_deref() else { continue };
        let directory = &planned.loaded.directory;
        let named = entry.view.session_file.as_deref();
        let still = match verdict {
            EntryVerdict::Repair => named.is_some_and(|named| leads_astray(directory, named, id)),
            EntryVerdict::Remove(RemovalReason::Missing | RemovalReason::HeaderOnly) => {
                let own = directory.join(format!("{id}.jsonl"));
                !may_hold_messages(&own)
                    && !named.is_some_and(|named| may_hold_messages(&directory.join(named)))
            }
            _ => true,
        };
        if !still {
            return Err(Refusal::Changed);
        }
    }
    for change in &planned.plan.files {
        if change.why == StoreFileReason::Entry || change.why == StoreFileReason::OverBudget {
            let now = sys::fingerprint::of_path(&planned.loaded.path_of(change.file));
            if !now.is_ok_and(|now| planned.loaded.prints[change.file].is_same(&now)) {
                return Err(Refusal::Changed);
            }
        }
    }
    Ok(())
}

/// Puts files away. One that cannot be moved does not stop the others.
fn move_files(
    reaper: &mut Reaper<'_>,
    machine: &Machine,
    planned: &mut PlannedCleanup,
) -> Result<(), CollectError> {
    let changes = planned.plan.files.clone();
    let mut outcomes = Vec::with_capacity(changes.len());
    for change in &changes {
        let path = planned.loaded.path_of(change.file);
        let file = &planned.loaded.files[change.file];
        let print = planned.loaded.prints[change.file];
        let one =
            plan_removal(planned, &path, kind_of(&file.kind), change.why.reason_text(), print);
        // A process that wants to write a transcript waits until it is gone.
        let checked = recheck_planned(&one, |_| match file.kind {
            StoreFileKind::Transcript => {
                let lock = locks::take_lock(&path, machine)?;
                sys::pause::pause_at("store.locked");
                Ok(Some(lock))
            }
            _ => Ok(None),
        });
        outcomes.push(match (checked, change.act) {
            (Err(refusal), _) => Err(refusal),
            (Ok(checked), StoreFileAction::Remove) => reaper.trash_item(&checked)?,
            (Ok(checked), StoreFileAction::Archive) => {
                let to = archive_name(&file.name, ArchiveReason::Deleted, machine.now());
                reaper.rename_item(&checked, &planned.loaded.directory.join(to))?
            }
        });
    }
    record_outcomes(planned, &changes, &outcomes);
    Ok(())
}

fn kind_of(kind: &StoreFileKind) -> RemovableKind {
    match kind {
        StoreFileKind::Archive(..) => RemovableKind::Archive,
        StoreFileKind::Temporary => RemovableKind::Temporary,
        _ => RemovableKind::Transcript,
    }
}

/// Says of every item what came of it; what could not be moved has freed nothing.
fn record_outcomes(
    planned: &mut PlannedCleanup,
    changes: &[StoreFileChange],
    outcomes: &[Result<(), Refusal>],
) {
    let (entries, files): (Vec<_>, Vec<_>) = planned
        .view
        .items
        .iter_mut()
        .filter(|item| is_going(item))
        .partition(|item| item.kind == "entry");
    for item in entries {
        item.outcome = Some("done".into());
    }
    for ((item, change), outcome) in std::iter::zip(std::iter::zip(files, changes), outcomes) {
        match outcome {
            Ok(()) => item.outcome = Some("done".into()),
            Err(refusal) => {
                mark_refused(item, refusal);
                if let Some(budget) = &mut planned.view.disk_budget
                    && change.why == StoreFileReason::OverBudget
                {
                    let bytes = planned.loaded.files[change.file].bytes;
                    budget.total_bytes_after += bytes;
                    budget.freed_bytes = budget.freed_bytes.saturating_sub(bytes);
                    budget.removed_files = budget.removed_files.saturating_sub(1);
                    budget.unsatisfiable = budget.total_bytes_after > budget.high_water_bytes;
                }
            }
        }
    }
}
