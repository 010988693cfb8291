//! `gc`: one plan over everything that may go, and carrying it out.
//!
//! The plan is made by whoever asks, and made anew by whoever carries it out. What went is never more
//! than what was consented to: if the two differ, only what is in both goes, and that is said.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use adapters::Env;
use model::config::{Config, Retention};
use model::plan::{Item, Refusal};
use model::rules::retain::{Candidate, Limits, select};
use model::session::Name;
use model::time::Time;
use model::wire::{Fate, GcResult, Incomplete, PlannedItem};
use serde::{Deserialize, Serialize};
use sys::lockfile::LockFile;

use crate::launches;
use crate::observe::{self, Observation, Scope};
use model::rules::pins::Pins;
use reaper::{CollectError, Planned, Reaper, recheck};
use store::writer::Writer;

mod native;
mod own;
mod worktree;

pub(crate) use reaper::InUse;

/// What of agents' own may go, on request only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Include {
    /// Transcripts of sessions that are over, into the vault first.
    Transcripts,
    /// Temporary files and archives.
    Temps,
    /// Git worktrees that sessions worked in.
    Worktrees,
}

/// What is asked for. It is whole: who carries it out needs nothing else from who asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    /// What of agents' own may go.
    pub include: Vec<Include>,
    /// Only what has been left alone for longer.
    pub older_than_ms: Option<u64>,
    /// How much may be left of what sessions wrote.
    pub max_bytes: Option<u64>,
    /// Sessions and paths that stay.
    pub keep: Vec<String>,
    /// Only what is of these agents; empty means all.
    pub agents: Vec<String>,
    /// Settings.
    pub retention: Retention,
    /// ostler's directory for sockets.
    pub runtime: PathBuf,
    /// The variables that say where agents keep things.
    pub variables: BTreeMap<String, String>,
}

/// What somebody was shown and said yes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Consent {
    /// What stands for the plan.
    pub plan: String,
    /// Where everything is that would go.
    pub paths: HashSet<String>,
}

impl Ask {
    /// Whether that is wanted.
    fn includes(&self, include: Include) -> bool {
        self.include.contains(&include)
    }

    /// Whether what is of that agent, or of ostler itself, is wanted.
    fn is_about(&self, agent: &str) -> bool {
        self.agents.is_empty() || self.agents.iter().any(|wanted| wanted == agent)
    }

    /// How old something must be: as asked for, else as set.
    fn older_than(&self, set: Duration) -> Duration {
        self.older_than_ms.map_or(set, Duration::from_millis)
    }

    /// Whether it was asked to be kept: by its path, the session's id or the beginning of that.
    fn keeps(&self, item: &Item) -> bool {
        let named = |keep: &String| {
            item.path == *keep
                || item.session.as_ref().is_some_and(|session| session.starts_with(keep.as_str()))
        };
        self.keep.iter().any(|keep| !keep.is_empty() && named(keep))
    }
}

/// How it is asked whether something may still go.
#[derive(Clone, Debug)]
enum Check {
    /// A hosted terminal.
    Terminal { root: PathBuf, id: String },
    /// A file that nobody may have open.
    Unopened,
    /// A socket on which nobody may listen.
    Socket,
    /// A transcript: nobody has it open, and a copy is kept first.
    Transcript(Box<model::summary::Kept>),
    /// A git worktree.
    Worktree,
    /// A launch record.
    Launch,
}

/// One thing that would go.
struct Wanted {
    planned: Planned,
    check: Check,
    /// The sessions that it is of: a pin of any of them keeps it.
    of: Vec<Name>,
}

/// Everything that would go.
#[derive(Default)]
pub struct Planning {
    wanted: Vec<Wanted>,
    stays: Vec<(Item, Refusal)>,
    incomplete: Vec<Incomplete>,
    pins: Pins,
}

impl std::fmt::Debug for Planning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planning").field("wanted", &self.wanted.len()).finish_non_exhaustive()
    }
}

impl Planning {
    /// Puts something on the list that is of these sessions, or says why it stays.
    fn add(&mut self, ask: &Ask, planned: Planned, check: Check, of: Vec<Name>) {
        if ask.keeps(&planned.item) {
            self.stays.push((planned.item, Refusal::Kept));
        } else if let Err(refusal) = self.pins.allow(&of) {
            self.stays.push((planned.item, refusal));
        } else {
            self.wanted.push(Wanted { planned, check, of });
        }
    }

    /// Chooses what goes. What is pinned makes no room for a budget, so others go in its place; it is
    /// chosen only to be told of, if it would go were it not pinned.
    fn choose(&self, candidates: &[(Candidate, Vec<Name>)], limits: Limits) -> Vec<bool> {
        let unpinned: Vec<Candidate> = candidates.iter().map(|(one, _)| *one).collect();
        let is_pinned = |(_, of): &(Candidate, Vec<Name>)| self.pins.allow(of).is_err();
        let pinned: Vec<bool> = candidates.iter().map(is_pinned).collect();
        let held = std::iter::zip(&unpinned, &pinned)
            .map(|(one, pinned)| Candidate { may_go: one.may_go && !pinned, ..*one });
        let goes = select(&held.collect::<Vec<_>>(), limits).goes;
        let would_go = select(&unpinned, limits).goes;
        std::iter::zip(goes, std::iter::zip(would_go, pinned))
            .map(|(goes, (would_go, pinned))| goes || (would_go && pinned))
            .collect()
    }

    fn stay(&mut self, planned: Planned, refusal: Refusal) {
        self.stays.push((planned.item, refusal));
    }

    /// What stands for the plan: the same things in the same state.
    fn hash(&self) -> String {
        let mut things: Vec<(&OsStr, &Planned)> =
            self.wanted.iter().map(|one| (one.planned.path.as_os_str(), &one.planned)).collect();
        things.sort_unstable_by_key(|(path, _)| *path);
        let mut text = Vec::new();
        for (path, planned) in things {
            text.extend(path.as_encoded_bytes());
            text.push(0);
            text.extend(planned.print.dev.to_le_bytes());
            text.extend(planned.print.ino.to_le_bytes());
            text.extend(planned.item.kind.word().as_bytes());
        }
        sys::hash::sha256(&text)[..16].to_owned()
    }

    /// The plan for people and programs.
    pub fn preview(self) -> GcResult {
        let plan = self.hash();
        let going: Vec<Item> = self.wanted.into_iter().map(|one| one.planned.item).collect();
        let bytes = going.iter().map(|item| item.bytes).sum();
        let count = going.len() as u64;
        let going = going.into_iter().map(|item| (Fate::WouldGo, item, None));
        let stays = self.stays.into_iter().map(|(item, why)| (Fate::Stays, item, Some(why)));
        GcResult {
            applied: false,
            plan,
            replanned: false,
            items: going.chain(stays).map(line).collect(),
            count,
            bytes,
            receipt: None,
            transport: None,
            incomplete: self.incomplete,
        }
    }
}

fn line((action, item, refused): (Fate, Item, Option<Refusal>)) -> PlannedItem {
    PlannedItem { action, item, refused: refused.as_ref().map(Into::into) }
}

/// Looks at everything and says what would go.
pub fn plan(home: &Path, ask: &Ask, now: Time) -> Planning {
    let lookup = |name: &str| ask.variables.get(name).map(OsString::from);
    plan_in(home, ask, now, Env::new(&lookup))
}

/// As [`plan`], in this process's own environment; what was looked up in it is noted in the request.
pub fn plan_here(home: &Path, ask: &mut Ask, now: Time, env: &Env<'_>) -> Planning {
    let (planning, variables) =
        adapters::variables::noted(env, |env| plan_in(home, ask, now, *env));
    ask.variables = variables;
    planning
}

fn plan_in(home: &Path, ask: &Ask, now: Time, env: Env<'_>) -> Planning {
    let observation = observe_for(home, ask, now, env);
    let mut planning = Planning { pins: observation.pins.clone(), ..Planning::default() };
    planning.incomplete.extend(observation.incomplete.iter().cloned());
    own::terminals(home, ask, now, &observation, &mut planning);
    if ask.is_about(own::OWNER) {
        own::launches(home, ask, now, &mut planning);
        own::spills(home, ask, now, &mut planning);
        own::vault(home, ask, now, &mut planning);
        own::sockets(home, ask, &mut planning);
        own::temporaries(home, ask, now, &mut planning);
    }
    if ask.includes(Include::Temps) {
        native::leftovers(ask, now, &observation, &mut planning);
    }
    if ask.includes(Include::Transcripts) {
        native::transcripts(ask, now, &observation, &mut planning);
    }
    if ask.includes(Include::Worktrees) {
        worktree::worktrees(ask, now, &observation, &InUse::look(), &mut planning);
    }
    planning
}

/// Looks at no more than is asked about; but in a worktree anybody may work.
fn observe_for(home: &Path, ask: &Ask, now: Time, env: Env<'_>) -> Observation {
    let mut agents = ask.agents.clone();
    if ask.include.is_empty() {
        agents = vec![crate::terminal::sight::AGENT.to_owned()];
    } else if ask.includes(Include::Worktrees) {
        agents.clear();
    }
    observe::observe(&observe::Request {
        env,
        config: &Config::default(),
        home: Some(home),
        cache: None,
        now,
        scope: Scope::All,
        agents: &agents,
    })
}

/// Carries the plan out: made anew, and never more than was consented to.
pub fn collect(
    writer: &mut Writer,
    ask: &Ask,
    consent: &Consent,
    now: Time,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<GcResult, CollectError> {
    let left = reaper::recover(&writer.home)?.left;
    let planning = plan(&writer.home, ask, now);
    sys::pause::at("gc.planned");
    let hash = planning.hash();
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
    let mut kept = Vec::new();
    let mut reaper = Reaper::begin(writer, "gc", now)?;
    for (index, wanted) in planning.wanted.into_iter().enumerate() {
        progress(index, total);
        let planned = &wanted.planned;
        if !consent.paths.contains(&planned.item.path) {
            continue;
        }
        let may_go = |planned: &Planned| {
            writer.recheck_pins(&wanted.of)?;
            wanted.check.ask(planned)
        };
        let outcome = match recheck(planned, may_go) {
            Err(refusal) => Err(refusal),
            Ok(checked) => match wanted.check.copy_first(&writer.home, planned) {
                Err(refusal) => Err(refusal),
                Ok(copy) => {
                    kept.extend(copy);
                    match wanted.check {
                        Check::Socket => reaper.discard(&checked)?,
                        _ => reaper.trash(&checked)?,
                    }
                }
            },
        };
        let fate = match (&outcome, &wanted.check) {
            (Err(_), _) => Fate::Stays,
            (Ok(()), Check::Socket) => Fate::Discarded,
            (Ok(()), _) => Fate::Trashed,
        };
        if outcome.is_ok() {
            result.count += 1;
            result.bytes += planned.item.bytes;
        }
        result.items.push(line((fate, wanted.planned.item, outcome.err())));
    }
    result.receipt = reaper.finish()?.map(|(receipt, _)| receipt);
    for one in kept {
        note(writer, &one, now);
    }
    result
        .items
        .extend(planning.stays.into_iter().map(|(item, why)| line((Fate::Stays, item, Some(why)))));
    Ok(result)
}

/// Notes what the vault holds now. A copy that is not noted is still there under its hash.
fn note(writer: &mut Writer, kept: &model::summary::Kept, now: Time) {
    if let Ok(manifest) = serde_json::to_string(kept) {
        let noted = writer
            .state_mut()
            .and_then(|state| state.note_kept(&kept.agent, &kept.session, now, &manifest));
        // It is found by its hash all the same.
        drop(noted);
    }
}

impl Check {
    /// Whether it may go now; takes the lock that goes with it.
    fn ask(&self, planned: &Planned) -> Result<Option<LockFile>, Refusal> {
        match self {
            Self::Terminal { root, id } => own::check_terminal(root, id),
            Self::Unopened | Self::Transcript(_) => reaper::check_unopened(planned).map(|()| None),
            Self::Socket => own::check_socket(&planned.path).map(|()| None),
            Self::Launch => launches::check(&planned.path, &sys::proc::observer()).map(|()| None),
            Self::Worktree => worktree::check(&planned.path, &InUse::look()).map(|()| None),
        }
    }

    /// Keeps a copy of what agents wrote, before it goes.
    fn copy_first(
        &self,
        home: &Path,
        planned: &Planned,
    ) -> Result<Option<model::summary::Kept>, Refusal> {
        let Self::Transcript(kept) = self else { return Ok(None) };
        let failed = |why: String| Refusal::NotCopied { why };
        let file =
            sys::private::open_regular(&planned.path).map_err(|error| failed(error.to_string()))?;
        let copy =
            crate::vault::keep(home, &planned.item.path, model::summary::KeptForm::File, file)
                .map_err(|error| failed(error.to_string()))?;
        let mut kept = kept.as_ref().clone();
        kept.files = vec![copy];
        Ok(Some(kept))
    }
}
