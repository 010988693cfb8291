//! Reads agents' files: a cheap survey of every root, then the transcripts that are wanted, from
//! the index where it has them.
#![allow(clippy::vec_box, reason = "sources are large, many, and passed on from hand to hand")]

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Instant;

use adapters::{Adapter, ReadError, Survey, SurveyProblem, TranscriptSource};
use model::liveness::Observer;
use model::rules::open::START_SLACK;
use model::sighting::{
    FileStamp, ProcessRegistration, RegistrationScope, TranscriptDamage, TranscriptDigest,
};
use model::time::Time;
use model::wire::IncompleteSource;
use store::index::{AdapterDigests, DigestIndex, IndexKey};
use store::state::TrackedSession;

use sys::proc::MountView;

use super::processes::{AgentProcesses, AgentRun};
use super::{AgentReport, ObserveRequest, ObserveScope};
use crate::timeouts::{RACY_WINDOW, SURVEY_READ_TIMEOUT};

/// What one adapter saw.
#[derive(Debug)]
pub(super) struct AgentSightings {
    pub(super) adapter: &'static dyn Adapter,
    pub(super) transcripts: Vec<(Box<TranscriptSource>, Box<TranscriptDigest>)>,
    pub(super) registrations: Vec<ProcessRegistration>,
    /// Where it looked, links resolved.
    pub(super) roots: Vec<PathBuf>,
}

/// What all of them saw.
#[derive(Debug)]
pub(super) struct Discovered {
    pub(super) seen: Vec<AgentSightings>,
    pub(super) agents: Vec<AgentReport>,
    pub(super) incomplete: Vec<IncompleteSource>,
    /// The ids of transcripts that were listed and not wanted.
    pub(super) unread_ids: Vec<String>,
}

/// What was listed, before any transcript is read.
#[derive(Debug)]
pub(super) struct ListedSources {
    surveys: Vec<(AgentReport, Survey)>,
    index: Option<DigestIndex>,
    shelves: HashMap<&'static str, AdapterDigests>,
}

/// Walks every root; the index is loaded meanwhile.
pub(super) fn list_sources(request: &ObserveRequest<'_>) -> ListedSources {
    let wanted = |adapter: &&dyn Adapter| {
        let id = adapter.agent_profile().id;
        request.agents.is_empty() || request.agents.iter().any(|agent| agent == id)
    };
    let adapters: Vec<&'static dyn Adapter> =
        adapters::ALL_ADAPTERS.iter().copied().filter(wanted).collect();
    std::thread::scope(|threads| {
        let (cache, adapters) = (request.machine.cache().filter(|_| request.use_index), &adapters);
        let index = threads.spawn(move || {
            let index = DigestIndex::open(cache?)?;
            let ids = adapters.iter().map(|adapter| adapter.agent_profile().id);
            let shelves = ids.map(|id| (id, index.load_digests(id))).collect();
            Some((index, shelves))
        });
        let surveys = adapters.iter().map(|adapter| survey_adapter(request, *adapter)).collect();
        let (index, shelves) = index.join().ok().flatten().unzip();
        ListedSources { surveys, index, shelves: shelves.unwrap_or_default() }
    })
}

/// Reads the transcripts that are wanted.
pub(super) fn read_transcripts(
    request: &ObserveRequest<'_>,
    observer: &Observer,
    processes: &AgentProcesses,
    tracks: &[TrackedSession],
    mut listed: ListedSources,
) -> Discovered {
    let mut found = Discovered {
        seen: Vec::new(),
        agents: Vec::new(),
        incomplete: Vec::new(),
        unread_ids: Vec::new(),
    };
    let deadline = Instant::now() + SURVEY_READ_TIMEOUT;
    for (report, survey) in listed.surveys {
        let shelf = listed.shelves.get(report.adapter.agent_profile().id);
        let index = listed.index.as_mut();
        found.take_survey(
            request, observer, processes, tracks, report, survey, shelf, index, deadline,
        );
    }
    found
}

/// Surveys every root of one adapter.
fn survey_adapter(
    request: &ObserveRequest<'_>,
    adapter: &'static dyn Adapter,
) -> (AgentReport, Survey) {
    let disabled =
        request.config.disabled_adapters.iter().any(|id| id == adapter.agent_profile().id);
    let mut roots: Vec<PathBuf> = adapter.session_roots(&request.machine.env());
    roots.extend_from_slice(request.config.roots_of(adapter.agent_profile().id));
    roots.dedup();
    let mut all = Survey::new(roots.first().map_or(std::path::Path::new("/"), PathBuf::as_path));
    for root in roots.iter().filter(|_| !disabled) {
        let mut one = Survey::new(root);
        adapter.survey_root(&mut one);
        all.absorb(one);
    }
    let directories = std::mem::take(&mut all.directories);
    let report = AgentReport {
        adapter,
        roots,
        directories,
        unlisted: Vec::new(),
        unread: Vec::new(),
        extras: Vec::new(),
        processes: 0,
        disabled,
    };
    (report, all)
}

impl Discovered {
    #[expect(clippy::too_many_arguments, reason = "one call, and each is a different thing")]
    fn take_survey(
        &mut self,
        request: &ObserveRequest<'_>,
        observer: &Observer,
        processes: &AgentProcesses,
        tracks: &[TrackedSession],
        mut report: AgentReport,
        survey: Survey,
        shelf: Option<&AdapterDigests>,
        index: Option<&mut DigestIndex>,
        deadline: Instant,
    ) {
        let adapter = report.adapter;
        let id = adapter.agent_profile().id;
        for SurveyProblem { path, reason } in &survey.problems {
            self.incomplete.push(incomplete_source(id, path, reason.clone()));
        }
        report.unlisted = survey.problems;
        report.extras = survey.extras;
        let listed = survey.sources.len();
        let sources = match request.scope {
            ObserveScope::Active if observer.sees_every_process() && processes.is_listed() => {
                let told = tracks.iter().filter(|one| one.agent == id).map(|one| one.id.as_str());
                let runs = processes.runs_of(id);
                let (live, unread) =
                    only_possibly_live(adapter, survey.sources, &survey.registrations, told, runs);
                self.unread_ids.extend(unread);
                live
            }
            _ => survey.sources,
        };
        let (read, problems) = digest_all(adapter, sources, shelf, deadline);
        let unread = problems.iter().map(|p| incomplete_source(id, &p.path, p.reason.clone()));
        self.incomplete.extend(unread);
        report.unread = problems;
        update_index(index, adapter, &read, listed, request.machine.now());
        let ready = survey.ready.into_iter().map(|(source, digest)| (source.into(), digest.into()));
        let transcripts: Vec<(Box<TranscriptSource>, Box<TranscriptDigest>)> =
            read.into_iter().map(|read| (read.source, read.digest)).chain(ready).collect();
        for (source, digest) in &transcripts {
            if let Some(reason) = damage_words(digest.damage) {
                self.incomplete.push(incomplete_source(id, &source.path, reason.clone()));
                if digest.cwd.is_none() {
                    report.unread.push(SurveyProblem { path: source.path.clone(), reason });
                }
            }
        }
        self.agents.push(report);
        let resolve = |root: &PathBuf| std::fs::canonicalize(root).unwrap_or_else(|_| root.clone());
        let roots = self.agents.last().map(|report| report.roots.iter().map(resolve).collect());
        self.seen.push(AgentSightings {
            adapter,
            transcripts,
            registrations: survey.registrations,
            roots: roots.unwrap_or_default(),
        });
    }
}

fn incomplete_source(source: &str, path: &std::path::Path, reason: String) -> IncompleteSource {
    IncompleteSource {
        source: source.to_owned(),
        path: Some(path.to_string_lossy().into_owned()),
        reason,
    }
}

fn damage_words(damage: TranscriptDamage) -> Option<String> {
    let count = |n: u32, what: &str| {
        (n > 0).then(|| format!("{n} {}{what}", if n == 1 { "record " } else { "records " }))
    };
    let broken = count(damage.broken, "could not be understood");
    let oversized = count(damage.oversized, "too large to be read");
    match (broken, oversized) {
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => Some(one),
        (Some(broken), Some(oversized)) => Some(format!("{broken}, {oversized}")),
    }
}

/// Leaves out transcripts that no process can be working on: nothing registered, told, names or locks
/// them, and they were last written before any process of the agent started. Of these only the ids
/// are kept.
fn only_possibly_live<'a>(
    adapter: &'static dyn Adapter,
    sources: Vec<Box<TranscriptSource>>,
    registrations: &[ProcessRegistration],
    told: impl Iterator<Item = &'a str>,
    runs: impl Iterator<Item = &'a AgentRun>,
) -> (Vec<Box<TranscriptSource>>, Vec<String>) {
    let mut named: HashSet<&str> = told.collect();
    let mut whole_store = false;
    for registration in registrations {
        match &registration.scope {
            RegistrationScope::Session(id) => {
                named.insert(id);
            }
            RegistrationScope::Store(_) | RegistrationScope::Unreadable => whole_store = true,
        }
    }
    let runs: Vec<&AgentRun> = runs.collect();
    let mut since: Option<Time> = None;
    for run in &runs {
        named.extend(run.argument.as_deref());
        named.extend(run.variable.as_deref());
        whole_store |= run.continues || run.started_at.is_none();
        whole_store |= run.server && adapter.agent_profile().opening.server_has_all;
        whole_store |= !run.ours || run.mounts != MountView::Ours;
        since = since.min(run.writes_since).or(since).or(run.writes_since);
    }
    if whole_store {
        return (sources, Vec::new());
    }
    let since = since.map(|since| since.minus(START_SLACK));
    let live = |source: &TranscriptSource| {
        let id = source.parent.as_deref().unwrap_or(&source.id);
        named.contains(id) || since.is_some_and(|since| source.stamp.modified_at() >= since)
    };
    let parents: HashSet<String> = sources
        .iter()
        .filter(|source| live(source))
        .map(|source| source.parent.as_ref().unwrap_or(&source.id).clone())
        .collect();
    let (mut live, mut unread) = (Vec::new(), Vec::new());
    for source in sources {
        match parents.contains(source.parent.as_ref().unwrap_or(&source.id)) {
            true => live.push(source),
            false => unread.push(source.id),
        }
    }
    (live, unread)
}

/// A transcript that was read, and whether the index already had it.
#[derive(Debug)]
struct DigestedSource {
    source: Box<TranscriptSource>,
    digest: Box<TranscriptDigest>,
    fresh: bool,
}

/// The digest, and whether it was read anew.
type Outcome = Result<(Box<TranscriptDigest>, bool), ReadError>;

/// Digests every source, on all cores.
fn digest_all(
    adapter: &'static dyn Adapter,
    sources: Vec<Box<TranscriptSource>>,
    shelf: Option<&AdapterDigests>,
    deadline: Instant,
) -> (Vec<DigestedSource>, Vec<SurveyProblem>) {
    // Twice as many as there are processors: what is not in memory has to be waited for.
    let workers = if sources.len() < 4 { 1 } else { (2 * sys::spread::count_cores()).min(16) };
    let hold = sys::beneath::hold_roots;
    let outcomes =
        sys::spread::parallel_map_with(&sources, workers, hold, |_, source| -> Outcome {
            let beside: Vec<FileStamp> = source.beside.iter().map(|(_, stamp)| *stamp).collect();
            let known = shelf.and_then(|shelf| shelf.get(&index_key(adapter, source, &beside)));
            match known {
                Some(digest) => Ok((digest, false)),
                None if Instant::now() >= deadline => Err(ReadError::TookTooLong),
                None => adapter.read_digest(source).map(|digest| (digest.into(), true)),
            }
        });
    let (mut read, mut problems) = (Vec::with_capacity(sources.len()), Vec::new());
    let mut late = 0u32;
    let root = sources.first().map(|source| source.root.to_path_buf());
    for (source, outcome) in sources.into_iter().zip(outcomes) {
        match outcome {
            Ok((digest, fresh)) => read.push(DigestedSource { source, digest, fresh }),
            Err(error) if error.is_absent() => {}
            Err(ReadError::TookTooLong) if Instant::now() >= deadline => late += 1,
            Err(error) => {
                problems.push(SurveyProblem { path: source.path, reason: error.to_string() })
            }
        }
    }
    if let Some(path) = root.filter(|_| late > 0) {
        let reason = format!(
            "{late} transcripts were not read within {} s; run it again to go on",
            SURVEY_READ_TIMEOUT.as_secs()
        );
        problems.push(SurveyProblem { path, reason });
    }
    (read, problems)
}

fn index_key<'a>(
    adapter: &dyn Adapter,
    source: &TranscriptSource,
    beside: &'a [FileStamp],
) -> IndexKey<'a> {
    IndexKey { version: adapter.agent_profile().version, stamp: source.stamp, beside }
}

/// Puts what was read anew into the index.
fn update_index(
    index: Option<&mut DigestIndex>,
    adapter: &'static dyn Adapter,
    read: &[DigestedSource],
    listed: usize,
    now: Time,
) {
    let Some(index) = index else { return };
    let settled = |stamp: &FileStamp| stamp.modified_at() < now.minus(RACY_WINDOW);
    let fresh: Vec<(&DigestedSource, Vec<FileStamp>)> = read
        .iter()
        .filter(|read| read.fresh && settled(&read.source.stamp))
        .map(|read| (read, read.source.beside.iter().map(|(_, stamp)| *stamp).collect()))
        .filter(|(_, beside): &(&DigestedSource, Vec<FileStamp>)| beside.iter().all(settled))
        .collect();
    if fresh.is_empty() {
        return;
    }
    let rows: Vec<(IndexKey<'_>, &TranscriptDigest)> = fresh
        .iter()
        .map(|(read, beside)| (index_key(adapter, &read.source, beside), &*read.digest))
        .collect();
    index.save_digests(adapter.agent_profile().id, &rows, listed);
}
