//! `gc`: one plan over everything that may go, and carrying it out.
//!
//! The plan is made by the client, and made anew by the process that carries it out. What went is never more
//! than what was consented to: if the two differ, only what is in both goes, and that is said.

use std::ffi::OsStr;
use std::path::PathBuf;

use model::plan::{PlanItem, Refusal};
use model::rules::retain::{RetentionCandidate, RetentionLimits, select_removals};
use model::session::SessionName;
use model::time::Time;
use model::wire::{GcResult, IncompleteSource, ItemFate, PlannedItem};
use sys::lockfile::LockFile;
use sys::machine::Machine;

use crate::launches;
use crate::observe::{self, Observation, ObserveScope, SeenRuns};
use crate::writer::{GcConsent, GcInclude, GcRequest};
use model::rules::pins::Pins;
use reaper::{CollectError, PlannedRemoval, Reaper, recheck_planned};
use second_look::{PlannedTranscript, SecondLook};
use store::writer::StoreWriter;

mod native;
mod own;
mod second_look;
mod worktree;

pub(crate) use reaper::InUse;

/// How it is asked whether something may still go.
#[derive(Clone, Debug)]
enum GcCheck {
    /// A hosted terminal.
    Terminal { root: PathBuf, id: String },
    /// A file that no process may have open.
    Unopened,
    /// A socket that must have no listener.
    Socket,
    /// A transcript: no agent could have resumed it since, no process has it open, and a copy is kept first.
    Transcript(Box<PlannedTranscript>),
    /// A git worktree, and whom ostler made it for.
    Worktree { member: Option<Box<model::control::groups::GroupMember>> },
    /// A launch record.
    Launch,
}

/// One thing that would go.
struct GcCandidate {
    planned: PlannedRemoval,
    check: GcCheck,
    /// The sessions that it is of: a pin of any of them keeps it.
    of: Vec<SessionName>,
}

/// Everything that would go.
#[derive(Default)]
pub struct GcPlan {
    wanted: Vec<GcCandidate>,
    stays: Vec<(PlanItem, Refusal)>,
    incomplete: Vec<IncompleteSource>,
    pins: Pins,
    /// The agents that ran when it was made.
    runs: SeenRuns,
}

impl std::fmt::Debug for GcPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GcPlan").field("wanted", &self.wanted.len()).finish_non_exhaustive()
    }
}

impl GcPlan {
    /// Puts something on the list that is of these sessions, or says why it stays.
    fn add_item(
        &mut self,
        ask: &GcRequest,
        planned: PlannedRemoval,
        check: GcCheck,
        of: Vec<SessionName>,
    ) {
        if ask.keeps_item(&planned.item) {
            self.stays.push((planned.item, Refusal::Kept));
        } else if let Err(refusal) = self.pins.allow(&of) {
            self.stays.push((planned.item, refusal));
        } else {
            self.wanted.push(GcCandidate { planned, check, of });
        }
    }

    /// Chooses what goes. What is pinned makes no room for a budget, so others go in its place; it is
    /// chosen only to be told of, if it would go were it not pinned.
    fn choose_candidates(
        &self,
        candidates: &[(RetentionCandidate, Vec<SessionName>)],
        limits: RetentionLimits,
    ) -> Vec<bool> {
        let unpinned: Vec<RetentionCandidate> = candidates.iter().map(|(one, _)| *one).collect();
        let is_pinned =
            |(_, of): &(RetentionCandidate, Vec<SessionName>)| self.pins.allow(of).is_err();
        let pinned: Vec<bool> = candidates.iter().map(is_pinned).collect();
        let held = std::iter::zip(&unpinned, &pinned)
            .map(|(one, pinned)| RetentionCandidate { may_go: one.may_go && !pinned, ..*one });
        let goes = select_removals(&held.collect::<Vec<_>>(), limits).goes;
        let would_go = select_removals(&unpinned, limits).goes;
        std::iter::zip(goes, std::iter::zip(would_go, pinned))
            .map(|(goes, (would_go, pinned))| goes || (would_go && pinned))
            .collect()
    }

    fn add_kept(&mut self, planned: PlannedRemoval, refusal: Refusal) {
        self.stays.push((planned.item, refusal));
    }

    /// What stands for the plan: the same things in the same state.
    fn plan_hash(&self) -> String {
        let mut things: Vec<(&OsStr, &PlannedRemoval)> =
            self.wanted.iter().map(|one| (one.planned.path.as_os_str(), &one.planned)).collect();
        things.sort_unstable_by_key(|(path, _)| *path);
        let mut text = Vec::new();
        for (path, planned) in things {
            text.extend(path.as_encoded_bytes());
            text.push(0);
            text.extend(planned.print.dev.to_le_bytes());
            text.extend(planned.print.ino.to_le_bytes());
            text.extend(planned.item.kind.as_str().as_bytes());
        }
        sys::hash::sha256(&text)[..16].to_owned()
    }

    /// The plan for people and programs.
    pub fn into_preview(self) -> GcResult {
        let plan = self.plan_hash();
        let going: Vec<PlanItem> = self.wanted.into_iter().map(|one| one.planned.item).collect();
        let bytes = going.iter().map(|item| item.bytes).sum();
        let count = going.len() as u64;
        let going = going.into_iter().map(|item| (ItemFate::WouldGo, item, None));
        let stays = self.stays.into_iter().map(|(item, why)| (ItemFate::Stays, item, Some(why)));
        GcResult {
            applied: false,
            plan,
            replanned: false,
            items: going.chain(stays).map(planned_line).collect(),
            count,
            bytes,
            receipt: None,
            transport: None,
            incomplete: self.incomplete,
        }
    }
}

fn planned_line((action, item, refused): (ItemFate, PlanItem, Option<Refusal>)) -> PlannedItem {
    PlannedItem { action, item, refused: refused.as_ref().map(Into::into) }
}

/// Looks at everything and says what would go; what was looked up in the environment is noted in the request.
pub fn plan_gc_here(ask: &mut GcRequest, machine: &Machine) -> GcPlan {
    let (planning, variables) = machine.note_variables(|machine| plan_gc_in(ask, machine));
    ask.variables = variables;
    planning
}

fn plan_gc_in(ask: &GcRequest, machine: &Machine) -> GcPlan {
    let now = machine.now();
    let mut observation = observe_for(ask, machine);
    let mut planning = GcPlan { pins: observation.pins.clone(), ..GcPlan::default() };
    planning.incomplete.extend(observation.incomplete.iter().cloned());
    own::plan_terminals(ask, machine, &observation, &mut planning);
    if ask.is_about(own::OSTLER_OWNER) {
        own::plan_launches(ask, machine, &mut planning);
        own::plan_spills(ask, machine, &mut planning);
        own::plan_vault_copies(ask, machine, &mut planning);
        own::plan_sockets(machine.home(), now, ask, &mut planning);
        own::plan_temporaries(ask, machine, &mut planning);
    }
    if ask.includes(GcInclude::Temps) {
        native::plan_leftovers(ask, now, &observation, &mut planning);
    }
    if ask.includes(GcInclude::Transcripts) {
        native::plan_transcripts(ask, now, &observation, &mut planning);
    }
    if ask.includes(GcInclude::Worktrees) {
        let in_use = InUse::scan_processes(adapters::may_be_agent);
        worktree::plan_worktrees(ask, machine, &observation, &in_use, &mut planning);
    }
    planning.runs = std::mem::take(&mut observation.runs);
    planning
}

/// Looks at no more than is asked about; but in a worktree anybody may work.
fn observe_for(ask: &GcRequest, machine: &Machine) -> Observation {
    let mut agents = ask.agents.clone();
    if ask.include.is_empty() {
        agents = vec![crate::terminal::sight::TERMINAL_AGENT.to_owned()];
    } else if ask.includes(GcInclude::Worktrees) {
        agents.clear();
    }
    let config = ask.observed_config();
    observe::observe_sessions(&observe::ObserveRequest {
        machine,
        config: &config,
        use_index: false,
        scope: ObserveScope::All,
        agents: &agents,
    })
}

/// Carries the plan out: made anew, and never more than was consented to.
pub fn carry_out_gc(
    writer: &mut StoreWriter,
    ask: &GcRequest,
    consent: &GcConsent,
    machine: &Machine,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<GcResult, CollectError> {
    let left = reaper::recover_interrupted(writer, machine)?.left;
    // In the environment of the client.
    let planning = plan_gc_in(ask, &machine.with_variables(&ask.variables));
    sys::pause::pause_at("gc.planned");
    let hash = planning.plan_hash();
    let mut result = GcResult {
        applied: true,
        replanned: hash != consent.plan,
        plan: hash,
        items: Vec::new(),
        count: 0,
        bytes: 0,
        receipt: None,
        transport: None,
        incomplete: planning.incomplete.into_iter().chain(left).collect(),
    };
    let total = planning.wanted.len();
    let now = machine.now();
    let mut look = SecondLook::new(ask, machine, planning.runs);
    let mut reaper = Reaper::begin(writer, "gc", machine)?;
    for (index, wanted) in planning.wanted.into_iter().enumerate() {
        progress(index, total);
        let planned = &wanted.planned;
        if !consent.paths.contains(&planned.item.path) {
            continue;
        }
        let may_go = |planned: &PlannedRemoval| {
            writer.recheck_pins(&wanted.of)?;
            wanted.check.check_item(planned, machine, &mut look)
        };
        let outcome = match recheck_planned(planned, may_go) {
            Err(refusal) => Err(refusal),
            Ok(checked) => match wanted.check.copy_first(machine, planned) {
                Err(refusal) => Err(refusal),
                Ok(copy) => match copy.map_or(Ok(()), |copy| note_kept_copy(writer, &copy, now)) {
                    Err(refusal) => Err(refusal),
                    Ok(()) => {
                        sys::pause::pause_at("gc.copied");
                        match wanted.check {
                            GcCheck::Socket => reaper.discard_item(&checked)?,
                            _ => reaper.trash_item(&checked)?,
                        }
                    }
                },
            },
        };
        let fate = match (&outcome, &wanted.check) {
            (Err(_), _) => ItemFate::Stays,
            (Ok(()), GcCheck::Socket) => ItemFate::Discarded,
            (Ok(()), _) => ItemFate::Trashed,
        };
        if outcome.is_ok() {
            if let GcCheck::Worktree { member: Some(member) } = &wanted.check {
                worktree::unlock_trashed(member);
            }
            result.count += 1;
            result.bytes += planned.item.bytes;
        }
        result.items.push(planned_line((fate, wanted.planned.item, outcome.err())));
    }
    result.receipt = reaper.finish()?.map(|(receipt, _)| receipt);
    result.items.extend(
        planning
            .stays
            .into_iter()
            .map(|(item, why)| planned_line((ItemFate::Stays, item, Some(why)))),
    );
    Ok(result)
}

/// Notes what the vault holds now, before the thing goes: a copy that is not noted is found by nobody.
fn note_kept_copy(
    writer: &StoreWriter,
    kept: &model::summary::KeptSession,
    now: Time,
) -> Result<(), Refusal> {
    let failed = |why: String| Refusal::NotCopied { why };
    let manifest = serde_json::to_string(kept).map_err(|error| failed(error.to_string()))?;
    let noted = writer
        .state()
        .and_then(|state| state.note_kept(&kept.agent, &kept.session, now, &manifest));
    noted.map_err(|error| failed(error.to_string()))
}

impl GcCheck {
    /// Whether it may go now; takes the lock that goes with it.
    fn check_item(
        &self,
        planned: &PlannedRemoval,
        machine: &Machine,
        look: &mut SecondLook<'_>,
    ) -> Result<Option<LockFile>, Refusal> {
        match self {
            Self::Terminal { root, id } => own::check_terminal(root, id, machine),
            Self::Unopened => reaper::check_unopened(planned).map(|()| None),
            Self::Transcript(transcript) => {
                look.check(transcript, planned)?;
                reaper::check_unopened(planned).map(|()| None)
            }
            Self::Socket => own::check_socket(&planned.path).map(|()| None),
            Self::Launch => launches::check_record(&planned.path, machine).map(|()| None),
            Self::Worktree { member } => {
                worktree::check_worktree(&planned.path, member.as_deref(), machine).map(|()| None)
            }
        }
    }

    /// Keeps a copy of what agents wrote, before it goes.
    fn copy_first(
        &self,
        machine: &Machine,
        planned: &PlannedRemoval,
    ) -> Result<Option<model::summary::KeptSession>, Refusal> {
        let Self::Transcript(transcript) = self else { return Ok(None) };
        let failed = |why: String| Refusal::NotCopied { why };
        let file =
            sys::private::open_regular(&planned.path).map_err(|error| failed(error.to_string()))?;
        let form = model::summary::KeptForm::File;
        let copy = crate::vault::keep_copy(machine, &planned.item.path, form, file)
            .map_err(|error| failed(error.to_string()))?;
        let mut kept = transcript.kept.clone();
        kept.files = vec![copy];
        Ok(Some(kept))
    }
}
