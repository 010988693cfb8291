//! Carrying a cleanup out.
//!
//! The index first, then the files: killed in between, a transcript is left without an entry, never an
//! entry without its transcript. If anything that the plan rests on has changed meanwhile, the plan is
//! made anew; nothing is ever written over what was not read.

use std::path::Path;

use crate::rules::file::{FileKind, Reason, archived};
use crate::rules::maintain::{Act, Change, Removal, Verdict, Why};
use crate::wire::{StoreCleanup, StoreCleanupResult, StoreItem};
use model::plan::{Item, Kind, Refusal};
use model::time::Time;
use model::wire::Incomplete;

use super::ask::{Ask, prove_ours};
use super::facts::{has_words, leads_astray};
use super::find::{Place, find};
use super::plan::{Cleanup, Planned, count, empty, plan};
use super::{StoreError, display};
use crate::locks;
use model::failure::Failure;
use model::rules::pins::Pins;
use reaper::{CollectError, Reaper, recheck};
use store::writer::Writer;

/// How often a plan is made anew because the store changed.
const MOST_ROUNDS: usize = 5;

/// Cleans stores up. Whoever calls this is the writer.
pub fn perform(
    writer: &Writer,
    ask: &Ask,
    now: Time,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<StoreCleanupResult, Failure> {
    let (config, policy) = ask.configuration()?;
    let pins = Pins::from_read(writer.state().and_then(store::state::State::pins));
    let cleanup = ask.cleanup(&config, &policy, &pins, now);
    let (places, skipped) = find(&config, &ask.selection)?;
    prove_ours(&config, &places)?;
    let mut result = empty(skipped);
    let mut reaper = Reaper::begin(writer, "store cleanup", now)?;
    let mut refused = None;
    for (at, place) in places.iter().enumerate() {
        progress(at, places.len());
        match one(&mut reaper, ask, &cleanup, place) {
            Ok(view) => {
                result.applied |= view.applied;
                result.incomplete.extend(view.refused.map(|refusal| Incomplete {
                    source: "openclaw".to_owned(),
                    path: Some(display(&place.path)),
                    reason: format!("left alone: {}", refusal.reason()),
                }));
                result.stores.push(view.planned.view);
            }
            Err(Stop::Store(error)) if places.len() > 1 => {
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
        Some(Stop::Store(error)) => return Err(error.into()),
        Some(Stop::Collect(error)) => return Err(error.into()),
        None => {}
    }
    count(&mut result);
    Ok(result)
}

/// Why it does not go on.
enum Stop {
    Store(StoreError),
    Collect(CollectError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<CollectError> for Stop {
    fn from(error: CollectError) -> Self {
        Self::Collect(error)
    }
}

/// A plan, and whether it was carried out.
struct Applied {
    planned: Planned,
    applied: bool,
    /// Why the index, and with it everything else, was left as it is.
    refused: Option<Refusal>,
}

/// Cleans one store up.
fn one(
    reaper: &mut Reaper<'_>,
    ask: &Ask,
    cleanup: &Cleanup<'_>,
    place: &Place,
) -> Result<Applied, Stop> {
    let mut rounds = 0;
    loop {
        let mut planned = plan(cleanup, place)?;
        sys::pause::at("store.planned");
        let consented = ask.consent.as_ref().is_none_or(|plans| {
            planned.view.plan_hash.as_ref().is_some_and(|hash| plans.contains(hash))
        });
        if !consented {
            planned.view.replanned = true;
            return Ok(Applied { planned, applied: false, refused: None });
        }
        planned.view.replanned = rounds > 0;
        locks::let_go_in(&planned.loaded.directory, &sys::proc::observer());
        match write_index(reaper, &planned)? {
            Ok(()) => {}
            Err(Refusal::Changed | Refusal::Gone) if rounds < MOST_ROUNDS => {
                rounds += 1;
                continue;
            }
            Err(refusal) => {
                leave(&mut planned.view, &refusal);
                return Ok(Applied { planned, applied: true, refused: Some(refusal) });
            }
        }
        move_files(reaper, cleanup.now, &mut planned)?;
        return Ok(Applied { planned, applied: true, refused: None });
    }
}

/// Says of a store that it was left as it is.
fn leave(view: &mut StoreCleanup, refusal: &Refusal) {
    for item in view.items.iter_mut().filter(|item| goes(item)) {
        refuse(item, refusal);
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

fn goes(item: &StoreItem) -> bool {
    item.action != "keep" && !item.only_with_enforce
}

pub(super) fn refuse(item: &mut StoreItem, refusal: &Refusal) {
    item.action = "skip".into();
    item.outcome = Some("refused".into());
    item.refused = Some(refusal.into());
}

/// Writes the index without what goes, and with what is put right.
fn write_index(
    reaper: &mut Reaper<'_>,
    planned: &Planned,
) -> Result<Result<(), Refusal>, CollectError> {
    let (Some(after), Some(before)) = (&planned.index, &planned.loaded.bytes) else {
        return Ok(Ok(()));
    };
    let path = &planned.loaded.place.path;
    let Some(print) = planned.loaded.print else { return Ok(Err(Refusal::Gone)) };
    let (removed, repaired) = (planned.plan.removed(), planned.plan.repaired());
    let mut why = format!("{removed} of {} entries go", planned.plan.entries.len());
    if repaired > 0 {
        why.push_str(&format!(", {repaired} lead to their transcripts again"));
    }
    let index = going(planned, path, Kind::StoreIndex, &why, print);
    let checked = match recheck(&index, |_| still_holds(planned).map(|()| None)) {
        Ok(checked) => checked,
        Err(refusal) => return Ok(Err(refusal)),
    };
    sys::pause::at("store.checked");
    reaper.replace(&checked, before, after.as_bytes())
}

fn going(
    planned: &Planned,
    path: &Path,
    kind: Kind,
    why: &str,
    print: model::plan::Fingerprint,
) -> reaper::Planned {
    let item = Item {
        kind,
        path: display(path),
        owner: "openclaw".to_owned(),
        session: None,
        why: why.to_owned(),
        age_ms: None,
        bytes: print.size,
        evidence: planned.loaded.place.agent.iter().map(|id| format!("agent {id}")).collect(),
    };
    reaper::Planned { item, path: path.to_owned(), print }
}

/// Whether what the plan rests on is still so: transcripts that were missing are missing, those that
/// held nothing hold nothing, entries that led astray still do, and those transcripts that go with their
/// entries have not been written to.
fn still_holds(planned: &Planned) -> Result<(), Refusal> {
    let document = planned.loaded.document().map_err(|_| Refusal::Changed)?;
    for (entry, verdict) in std::iter::zip(&document.entries, &planned.plan.entries) {
        let Some(id) = entry.view.session_id.as_deref() else { continue };
        let directory = &planned.loaded.directory;
        let named = entry.view.session_file.as_deref();
        let still = match verdict {
            Verdict::Repair => named.is_some_and(|named| leads_astray(directory, named, id)),
            Verdict::Remove(Removal::Missing | Removal::HeaderOnly) => {
                let own = directory.join(format!("{id}.jsonl"));
                !has_words(&own) && !named.is_some_and(|named| has_words(&directory.join(named)))
            }
            _ => true,
        };
        if !still {
            return Err(Refusal::Changed);
        }
    }
    for change in &planned.plan.files {
        if change.why == Why::Entry || change.why == Why::OverBudget {
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
    now: Time,
    planned: &mut Planned,
) -> Result<(), CollectError> {
    let observer = sys::proc::observer();
    let changes = planned.plan.files.clone();
    let mut outcomes = Vec::with_capacity(changes.len());
    for change in &changes {
        let path = planned.loaded.path_of(change.file);
        let file = &planned.loaded.files[change.file];
        let print = planned.loaded.prints[change.file];
        let one = going(planned, &path, kind_of(&file.kind), change.why.reason(), print);
        // Whoever wants to write a transcript waits until it is gone.
        let checked = recheck(&one, |_| match file.kind {
            FileKind::Transcript => {
                let lock = locks::take(&path, &observer)?;
                sys::pause::at("store.locked");
                Ok(Some(lock))
            }
            _ => Ok(None),
        });
        outcomes.push(match (checked, change.act) {
            (Err(refusal), _) => Err(refusal),
            (Ok(checked), Act::Remove) => reaper.trash(&checked)?,
            (Ok(checked), Act::Archive) => {
                let to = archived(&file.name, Reason::Deleted, now);
                reaper.rename(&checked, &planned.loaded.directory.join(to))?
            }
        });
    }
    note(planned, &changes, &outcomes);
    Ok(())
}

fn kind_of(kind: &FileKind) -> Kind {
    match kind {
        FileKind::Archive(..) => Kind::Archive,
        FileKind::Temporary => Kind::Temporary,
        _ => Kind::Transcript,
    }
}

/// Says of every item what came of it; what could not be moved has freed nothing.
fn note(planned: &mut Planned, changes: &[Change], outcomes: &[Result<(), Refusal>]) {
    let (entries, files): (Vec<_>, Vec<_>) = planned
        .view
        .items
        .iter_mut()
        .filter(|item| goes(item))
        .partition(|item| item.kind == "entry");
    for item in entries {
        item.outcome = Some("done".into());
    }
    for ((item, change), outcome) in std::iter::zip(std::iter::zip(files, changes), outcomes) {
        match outcome {
            Ok(()) => item.outcome = Some("done".into()),
            Err(refusal) => {
                refuse(item, refusal);
                if let Some(budget) = &mut planned.view.disk_budget
                    && change.why == Why::OverBudget
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
