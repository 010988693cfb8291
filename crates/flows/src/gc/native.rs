//! What agents left: temporary files, archives, transcripts of sessions that are over.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use adapters::{ExtraFileKind, Removable};
use model::plan::{Refusal, RemovableKind};
use model::rules::guard;
use model::rules::retain::{RetentionCandidate, RetentionLimits};
use model::session::{self, ClaimBasis, ProcessClaim, SessionName};
use model::summary::{KeptSession, SessionSummary};
use model::time::{Time, whole_millis};

use super::second_look::PlannedTranscript;
use super::{GcCheck, GcPlan};
use crate::observe::{AgentReport, Observation, Observed, SessionPlace};
use crate::writer::GcRequest;
use reaper::PlannedRemoval;

/// Temporary files and archives.
pub(super) fn plan_leftovers(
    ask: &GcRequest,
    now: Time,
    observation: &Observation,
    planning: &mut GcPlan,
) {
    let mut originals = Originals::default();
    for report in &observation.agents {
        let agent = report.adapter.agent_profile().id;
        if !ask.is_about(agent) {
            continue;
        }
        let mut places = AgentRoots::of_roots(&report.roots);
        let beside = Unlisted::of(report);
        for extra in &report.extras {
            let (kind, set, why) = match extra.kind {
                ExtraFileKind::Temporary => (
                    RemovableKind::Temporary,
                    ask.retention.temps,
                    "left over from an interrupted write",
                ),
                ExtraFileKind::Archive => (
                    RemovableKind::Archive,
                    ask.retention.archives,
                    "the agent itself set it aside",
                ),
                ExtraFileKind::Attachment => continue,
            };
            if !places.contains_path(&extra.path) || ask.is_configured(agent, &extra.path) {
                continue;
            }
            let mut planned =
                PlannedRemoval::from_fingerprint(kind, extra.path.clone(), extra.print, agent, why);
            planned.item.session.clone_from(&extra.session);
            if planned.note_age(now) <= ask.older_than(set) {
                continue;
            }
            if kind == RemovableKind::Temporary && !originals.is_sound(&planned.path) {
                planning.add_kept(planned, Refusal::OnlyCopy);
            } else if let Err(refusal) = beside.check(&planned.path) {
                planning.add_kept(planned, refusal);
            } else if let Err(refusal) = check_not_served(agent, &planned.path, observation) {
                planning.add_kept(planned, refusal);
            } else if planned.age(now) < guard::QUIET_BEFORE_COLLECTION {
                planning.add_kept(planned, Refusal::JustWritten);
            } else {
                let of = extra.session.iter().map(|session| SessionName::new(agent, session));
                planning.add_item(ask, planned, GcCheck::Unopened, of.collect());
            }
        }
    }
}

/// Roots of an agent in which something could not be listed: an incomplete listing authorises
/// nothing beside it.
struct Unlisted(Vec<(PathBuf, String)>);

impl Unlisted {
    fn of(report: &AgentReport) -> Self {
        let resolved = report.roots.iter().filter_map(|root| std::fs::canonicalize(root).ok());
        let roots: Vec<PathBuf> = resolved.collect();
        let mut found = Vec::new();
        for problem in &report.unlisted {
            let why = format!("{}: {}", problem.path.display(), problem.reason);
            let hit = |root: &&PathBuf| problem.path.starts_with(root);
            found.extend(roots.iter().filter(hit).map(|root| (root.clone(), why.clone())));
        }
        Self(found)
    }

    /// Whether everything was listed where a path lies.
    fn check(&self, path: &Path) -> Result<(), Refusal> {
        match self.0.iter().find(|(root, _)| path.starts_with(root)) {
            Some((_, why)) => Err(Refusal::ListedInPart { why: why.clone() }),
            None => Ok(()),
        }
    }
}

/// Whether no server of the agent has the store that a path lies in.
fn check_not_served(agent: &str, path: &Path, seen: &Observation) -> Result<(), Refusal> {
    let serves =
        |claim: &&ProcessClaim| claim.how == ClaimBasis::Served && claim.liveness.is_alive();
    let server = seen
        .sessions
        .iter()
        .filter(|one| one.session.agent == agent)
        .filter(|one| path.starts_with(Path::new(&*one.session.origin.root)))
        .find_map(|one| one.session.claims.iter().find(serves)?.identity.pid);
    match server {
        Some(pid) => Err(Refusal::Alive { who: format!("the server of {agent} (pid {pid})") }),
        None => Ok(()),
    }
}

/// The directories of an agent in which things were left, each asked about once.
struct AgentRoots {
    roots: Vec<PathBuf>,
    known: HashMap<PathBuf, bool>,
}

impl AgentRoots {
    fn of_roots(roots: &[PathBuf]) -> Self {
        let resolved = roots.iter().filter_map(|root| std::fs::canonicalize(root).ok());
        Self { roots: resolved.collect(), known: HashMap::new() }
    }

    /// Whether a path really lies in one of the agent's own directories, links resolved.
    fn contains_path(&mut self, path: &Path) -> bool {
        let Some(parent) = path.parent() else { return false };
        if let Some(known) = self.known.get(parent) {
            return *known;
        }
        let inside = std::fs::canonicalize(parent)
            .is_ok_and(|real| self.roots.iter().any(|root| real.starts_with(root)));
        self.known.insert(parent.to_owned(), inside);
        inside
    }
}

/// The files that temporary ones were to replace, each looked at once.
#[derive(Default)]
struct Originals(HashMap<PathBuf, bool>);

impl Originals {
    /// Whether what a temporary file was to replace is there and whole. One of which it is not known
    /// what it was to replace stands for nothing else.
    fn is_sound(&mut self, temporary: &Path) -> bool {
        let Some(original) = original_of(temporary) else { return true };
        if let Some(known) = self.0.get(&original) {
            return *known;
        }
        let text = std::fs::read(&original).unwrap_or_default();
        let sound = serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok();
        self.0.insert(original, sound);
        sound
    }
}

/// `x.json` for `x.json.<anything>.tmp`.
fn original_of(temporary: &Path) -> Option<PathBuf> {
    let name = temporary.file_name()?.to_str()?;
    let end = name.find(".json.")? + ".json".len();
    Some(temporary.with_file_name(&name[..end]))
}

/// Transcripts of sessions that are over: by age, or the oldest of all that are too many.
pub(super) fn plan_transcripts(
    ask: &GcRequest,
    now: Time,
    observation: &Observation,
    planning: &mut GcPlan,
) {
    let mut sharers: HashMap<&Path, usize> = HashMap::new();
    let all = || {
        let both = observation.sessions.iter().chain(&observation.subagents);
        both.filter(|one| one.session.kind == session::SessionKind::Native)
    };
    for one in all() {
        if let Some(transcript) = &one.session.transcript {
            *sharers.entry(&transcript.path).or_default() += 1;
        }
    }
    let beside: HashMap<&str, Unlisted> = observation
        .agents
        .iter()
        .map(|report| (report.adapter.agent_profile().id, Unlisted::of(report)))
        .collect();
    let (mut found, mut candidates): (Vec<(PlannedRemoval, &Observed)>, _) =
        (Vec::new(), Vec::new());
    let mut refusals: Vec<Option<Refusal>> = Vec::new();
    for one in all().filter(|one| ask.is_about(one.session.agent)) {
        let Some(transcript) = &one.session.transcript else { continue };
        if ask.is_configured(one.session.agent, Path::new(&*one.session.origin.root)) {
            continue;
        }
        let removable = removable(one);
        // A file that holds several sessions is a store of the agent's, not a transcript.
        let shared = sharers.get(transcript.path.as_path()) != Some(&1);
        if removable == Removable::Never || (shared && removable == Removable::WholeFile) {
            continue;
        }
        let agent = one.session.agent;
        let why = format!("the session is over ({})", one.verdict.status.as_str());
        let Ok(mut planned) =
            PlannedRemoval::new(RemovableKind::Transcript, &transcript.path, agent, why)
        else {
            continue;
        };
        // What the file says and what the session says: the younger counts.
        let last = one.session.last_activity_at().map(|at| now.since(at));
        let age = last.map(|last| last.min(planned.age(now)));
        planned.item.age_ms = age.map(whole_millis);
        planned.item.session = Some(one.session.id.clone());
        planned.item.title = one.session.display_title().map(str::to_owned);
        planned.item.evidence = vec![one.verdict.liveness.reason_code().to_owned()];
        let refused = match (removable, beside.get(agent)) {
            (Removable::OnlyThrough(command), _) => {
                Some(Refusal::OnlyThrough { command: command.to_owned() })
            }
            (_, Some(beside)) => beside.check(&transcript.path).err(),
            (_, None) => None,
        };
        let guarded = || guard::may_collect(&one.session, &one.verdict, now).err();
        let refused = refused.or_else(guarded);
        // A session that is plainly not over is left out; one that only a doubt keeps is listed.
        let may_go = !matches!(
            refused,
            Some(Refusal::Alive { .. } | Refusal::Unproven { .. } | Refusal::Active { .. })
        );
        refusals.push(refused);
        found.push((planned, one));
        // What a sub-agent wrote is part of the session that it worked for.
        let parent = one.session.digest.parent.iter().map(|parent| SessionName::new(agent, parent));
        let of = parent.chain([one.session.session_name()]).collect();
        candidates.push((RetentionCandidate { age, bytes: transcript.bytes, may_go }, of));
    }
    let older_than = ask.older_than_ms.map(Duration::from_millis).or(ask.retention.transcripts);
    let max_bytes = ask.max_bytes.or(ask.retention.transcript_bytes);
    let limits = RetentionLimits { older_than, max_bytes };
    let would_go = planning.choose_candidates(&candidates, limits);
    // What stays makes no room for a budget, so that others go in its place.
    for ((candidate, _), refused) in candidates.iter_mut().zip(&refusals) {
        candidate.may_go &= refused.is_none();
    }
    let goes = planning.choose_candidates(&candidates, limits);
    let of = candidates.into_iter().map(|(_, of)| of);
    let fates = refusals.into_iter().zip(would_go).zip(goes);
    for ((planned, one), (of, ((refused, would_go), goes))) in found.into_iter().zip(of.zip(fates))
    {
        if let (true, Some(refused)) = (would_go, refused) {
            planning.add_kept(planned, refused);
        } else if goes {
            let kept = KeptSession {
                agent: one.session.agent.to_owned(),
                session: one.session.id.clone(),
                kept_at: now,
                summary: SessionSummary::from_digest(&one.session.digest),
                files: Vec::new(),
            };
            let place = place_of(one, observation);
            let check = GcCheck::Transcript(Box::new(PlannedTranscript { kept, place }));
            planning.add_item(ask, planned, check, of);
        }
    }
}

/// Where a session is. A sub-agent is where its parent is, too: the parent's run has it open.
fn place_of(one: &Observed, observation: &Observation) -> SessionPlace {
    let session = &one.session;
    let is_parent = |other: &&Observed| {
        other.session.agent == session.agent
            && session.digest.parent.as_ref() == Some(&other.session.id)
    };
    let parent = session.digest.parent.as_ref();
    let parent = parent.and_then(|_| observation.sessions.iter().find(is_parent));
    let own = session.digest.cwd.iter();
    let all = own.chain(parent.and_then(|parent| parent.session.digest.cwd.as_ref()));
    SessionPlace {
        agent: session.agent,
        root: PathBuf::from(&*session.origin.root),
        directories: all.cloned().collect(),
    }
}

/// What the agent's adapter says of the file of a session.
fn removable(one: &Observed) -> Removable {
    match (&one.source, adapters::by_id(one.session.agent)) {
        (Some(source), Some(adapter)) => adapter.check_removable(source),
        _ => Removable::Never,
    }
}
