//! Full-text search in every conversation on this machine: scanned on demand, without an index.
//!
//! The truth is looked through, newest activity first, on all cores; results come as they are found.
//! Nothing is written, so there is no second copy of what people said, nothing to grow stale and
//! nothing to clean up.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::filter::FilterWords;
use model::session::SessionKind;
use model::time::Time;
use model::wire::{IncompleteSource, SearchField, SearchHit, SearchMatch, SearchSession};
use sys::spread::{OrderedWork, start_ordered};

use crate::finalize;
use crate::observe::{Observation, Observed};
use scan::{SessionScanner, TargetPlace};

mod oversized;
mod query;
mod scan;

pub use query::{QueryError, QueryOptions, SearchQuery};
pub use scan::{EntryHit, EntryScope, SessionScan};

/// Which sessions are looked through.
#[derive(Clone, Debug, Default)]
pub struct SessionScope {
    pub words: FilterWords,
    /// Only of this directory and below.
    pub cwd: Option<PathBuf>,
    /// Only those active since then.
    pub since: Option<Time>,
    /// Adapter ids; empty means all but terminals.
    pub agents: Vec<String>,
    pub subagents: bool,
}

/// One session to be looked through.
#[derive(Debug)]
pub struct SearchTarget {
    /// What is known of it.
    pub session: SearchSession,
    place: TargetPlace,
    /// What is searched beside its conversation.
    known: Vec<(SearchField, String)>,
}

/// A search under way: what it gives comes in the order of the sessions.
#[derive(Debug)]
pub struct RunningSearch {
    /// The sessions, newest activity first.
    pub targets: Arc<[SearchTarget]>,
    pub work: OrderedWork<SessionScan>,
}

/// The sessions to look through, newest activity first, and what of the vault cannot be read.
pub fn list_targets(
    observation: &Observation,
    home: Option<&Path>,
    scope: &SessionScope,
) -> (Vec<SearchTarget>, Option<IncompleteSource>) {
    let subagents: &[Observed] = if scope.subagents { &observation.subagents } else { &[] };
    let observed = observation.sessions.iter().chain(subagents);
    let mut targets: Vec<SearchTarget> =
        observed.filter(|one| is_wanted(one, scope)).filter_map(living_target).collect();
    let mut unread = None;
    // What is only in the vault has no state that filter words could ask for.
    if let Some(home) = home.filter(|_| scope.words.is_empty()) {
        match finalize::list_kept(home) {
            Ok(kept) => {
                let all = observation.sessions.iter().chain(&observation.subagents);
                let living: HashSet<(&str, &str)> = all
                    .filter(|one| one.source.is_some())
                    .map(|one| (one.session.agent, one.session.id.as_str()))
                    .collect();
                let gone = kept
                    .into_iter()
                    .filter(|kept| !living.contains(&(kept.agent.as_str(), kept.session.as_str())));
                targets.extend(gone.filter_map(|kept| kept_target(kept, home, scope)));
            }
            Err(error) => {
                let path = Some(home.join("vault").to_string_lossy().into_owned());
                let reason = error.to_string();
                unread = Some(IncompleteSource { source: "vault".to_owned(), path, reason });
            }
        }
    }
    targets.sort_by(|a, b| {
        let key = |one: &SearchTarget| Reverse(one.session.last_activity_at);
        key(a).cmp(&key(b)).then_with(|| a.session.id.cmp(&b.session.id))
    });
    (targets, unread)
}

/// Begins to look through sessions on all cores. Dropping the result ends it.
pub fn start_search(
    targets: Vec<SearchTarget>,
    query: SearchQuery,
    scope: EntryScope,
) -> std::io::Result<RunningSearch> {
    let targets: Arc<[SearchTarget]> = targets.into();
    let shared = targets.clone();
    let work = start_ordered(targets.len(), move |index, cancelled| {
        let target = &shared[index];
        let scanner = SessionScanner::new(&query, &scope, cancelled);
        let mut scan = scanner.scan_place(&target.session.agent, &target.place);
        if scan.total == 0 && scope.is_whole() {
            let known = target.known.iter();
            scan.matched =
                known.filter_map(|(field, text)| match_field(&query, *field, text)).collect();
        }
        scan
    })?;
    Ok(RunningSearch { targets, work })
}

/// Where matches stand, in characters.
fn char_ranges(text: &str, ranges: &[std::ops::Range<usize>]) -> Vec<[u64; 2]> {
    let chars = |bytes: usize| text[..bytes].chars().count() as u64;
    ranges.iter().map(|range| [chars(range.start), chars(range.end)]).collect()
}

/// A title, a name or a directory, if the query fits it.
fn match_field(query: &SearchQuery, field: SearchField, text: &str) -> Option<SearchMatch> {
    query.matches(text).then(|| {
        let (text, ranges) = scan::cut_around_match(query, text);
        SearchMatch { field, ranges: char_ranges(&text, &ranges), text }
    })
}

/// A hit as programs see it.
pub fn hit_view(session: &SearchSession, hit: EntryHit) -> SearchHit {
    let text = hit.entry.text;
    let ranges = char_ranges(&text, &hit.ranges);
    SearchHit {
        agent: session.agent.clone(),
        session: session.id.clone(),
        entry: hit.number,
        role: hit.entry.role,
        tool: hit.entry.tool,
        at: hit.entry.at,
        cut: hit.cut,
        ranges,
        text,
    }
}

fn is_wanted(one: &Observed, scope: &SessionScope) -> bool {
    let session = &one.session;
    let by_agent = match scope.agents.is_empty() {
        // What stands on a screen is in the agent's own transcript too, and so is this very command.
        true => session.kind == SessionKind::Native,
        false => scope.agents.iter().any(|agent| agent == session.agent),
    };
    by_agent
        && is_below(session.digest.cwd.as_deref(), scope)
        && scope.since.is_none_or(|since| session.last_activity_at() >= Some(since))
        && (scope.words.is_empty() || scope.words.matches(&one.session_view()))
}

fn is_below(cwd: Option<&str>, scope: &SessionScope) -> bool {
    let below = |wanted: &PathBuf| cwd.is_some_and(|cwd| Path::new(cwd).starts_with(wanted));
    scope.cwd.as_ref().is_none_or(below)
}

/// What there is of these.
fn known_fields<const N: usize>(
    fields: [(SearchField, Option<&str>); N],
) -> Vec<(SearchField, String)> {
    fields.into_iter().filter_map(|(field, text)| Some((field, text?.to_owned()))).collect()
}

fn living_target(one: &Observed) -> Option<SearchTarget> {
    let session = &one.session;
    let place = match (&one.source, &session.transcript, session.kind) {
        (Some(source), _, _) => TargetPlace::Living(source.clone()),
        (None, Some(log), SessionKind::Hosted) => {
            TargetPlace::Hosted(log.path.parent()?.to_owned())
        }
        _ => return None,
    };
    Some(SearchTarget {
        session: SearchSession {
            agent: session.agent.to_owned(),
            id: session.id.clone(),
            title: session.display_title().map(str::to_owned),
            cwd: session.digest.cwd.clone(),
            status: Some(one.verdict.status),
            activity: one.verdict.activity,
            last_activity_at: session.last_activity_at(),
            parent: session.digest.parent.clone(),
            only_in_vault: false,
            hits: 0,
            matched: Vec::new(),
        },
        place,
        known: known_fields([
            (SearchField::Title, session.display_title()),
            (SearchField::Name, session.digest.name.as_deref()),
            (SearchField::Cwd, session.digest.cwd.as_deref()),
        ]),
    })
}

fn kept_target(
    kept: model::summary::KeptSession,
    home: &Path,
    scope: &SessionScope,
) -> Option<SearchTarget> {
    let summary = kept.summary;
    let ended = summary.ended_at.or(Some(kept.kept_at));
    let wanted = (scope.agents.is_empty() || scope.agents.contains(&kept.agent))
        && is_below(summary.cwd.as_deref(), scope)
        && scope.since.is_none_or(|since| ended >= Some(since));
    let mut files = kept.files;
    if !scope.subagents {
        // The transcript comes first, then those of sub-agents.
        files.truncate(1);
    }
    let known = known_fields([
        (SearchField::Title, summary.title.as_deref()),
        (SearchField::Cwd, summary.cwd.as_deref()),
    ]);
    (wanted && !files.is_empty()).then(|| SearchTarget {
        known,
        session: SearchSession {
            agent: kept.agent,
            id: kept.session,
            title: summary.title,
            cwd: summary.cwd,
            status: None,
            activity: None,
            last_activity_at: ended,
            parent: None,
            only_in_vault: true,
            hits: 0,
            matched: Vec::new(),
        },
        place: TargetPlace::Kept { home: home.to_owned(), files },
    })
}
