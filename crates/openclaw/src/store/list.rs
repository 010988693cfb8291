//! What is in the stores.

use std::time::Duration;

use crate::rules::document::{IndexDocument, StoreEntry};
use crate::rules::file::{StoreDirFile, StoreFileKind, session_of};
use crate::rules::key::SessionKey;
use crate::rules::maintain::{
    MaintenanceRequest, MaintenanceTrigger, RetiredPeers, StoreSnapshot, TranscriptState,
    plan_maintenance,
};
use crate::wire::{StoreFile, StoreLsResult, StoreSession, StoreShowResult, StoreView};
use model::time::Time;
use model::wire::IncompleteSource;

use super::find::StorePlace;
use super::plan::{CleanupRequest, millis_since};
use super::read::LoadedStore;
use super::{StoreError, database, facts, may_run, path_text};

/// What is to be listed.
#[derive(Clone, Copy, Debug)]
pub struct StoreListing<'a> {
    /// What the main session is called.
    pub main_key: &'a str,
    pub now: Time,
    /// Only what was changed within so many minutes.
    pub active_minutes: Option<u64>,
    pub limit: Option<usize>,
}

/// Lists sessions, the last changed first.
pub fn list_stores(
    listing: &StoreListing<'_>,
    places: &[StorePlace],
    skipped: Vec<IncompleteSource>,
) -> Result<StoreLsResult, StoreError> {
    let mut result = StoreLsResult {
        stores: Vec::new(),
        count: 0,
        total_count: 0,
        limit_applied: listing.limit,
        has_more: false,
        active_minutes: listing.active_minutes,
        sessions: Vec::new(),
        incomplete: skipped,
    };
    for place in places {
        let before = result.sessions.len();
        let listed = if place.database {
            database::database_sessions(listing, place).map(|found| result.sessions.extend(found))
        } else {
            list_index(listing, place, &mut result.sessions)
        };
        match listed {
            Ok(()) => result.stores.push(store_view(place, result.sessions.len() - before)),
            Err(error) if places.len() > 1 => result.incomplete.push(error.incomplete()),
            Err(error) => return Err(error),
        }
    }
    if let Some(minutes) = listing.active_minutes {
        let since = listing.now.minus(Duration::from_secs(minutes.saturating_mul(60)));
        result.sessions.retain(|one| one.updated_at.is_some_and(|at| at >= since));
    }
    result.sessions.sort_by_key(|one| std::cmp::Reverse(one.updated_at));
    result.total_count = result.sessions.len();
    if let Some(limit) = listing.limit {
        result.sessions.truncate(limit);
    }
    result.count = result.sessions.len();
    result.has_more = result.count < result.total_count;
    Ok(result)
}

pub(super) fn store_view(place: &StorePlace, entries: usize) -> StoreView {
    StoreView {
        agent_id: place.agent.clone(),
        path: path_text(&place.path),
        form: if place.database { "database" } else { "file" },
        entries,
    }
}

fn list_index(
    listing: &StoreListing<'_>,
    place: &StorePlace,
    sessions: &mut Vec<StoreSession>,
) -> Result<(), StoreError> {
    let loaded = LoadedStore::read_index_alone(place)?;
    let document = loaded.parse_document()?;
    let view = |entry| session_view(listing, place, entry);
    sessions.extend(document.entries.iter().map(view));
    Ok(())
}

/// An entry, as programs see it.
pub(super) fn session_view(
    listing: &StoreListing<'_>,
    place: &StorePlace,
    entry: &StoreEntry<'_>,
) -> StoreSession {
    let view = &entry.view;
    let text = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().map(str::to_owned);
    let key = SessionKey::new(&entry.key);
    StoreSession {
        key: entry.key.to_string(),
        kind: key.key_kind(listing.main_key).as_str(),
        agent_id: key.agent_id().map(str::to_owned).or_else(|| place.agent.clone()),
        store: path_text(&place.path),
        session_id: text(&view.session_id),
        updated_at: view.updated_at,
        age_ms: view.updated_at.map(|at| millis_since(listing.now, at)),
        status: text(&view.status),
        label: text(&view.label).or_else(|| text(&view.display_name)),
        model: text(&view.model),
        model_provider: text(&view.model_provider),
        total_tokens: view.total_tokens,
        context_tokens: view.context_tokens,
        aborted_last_run: view.aborted,
        spawned_by: text(&view.spawned_by),
        fault: entry.fault.map(|fault| fault.reason_text()),
    }
}

/// Shows one session: by its key, by its session's id, or by the beginning of either.
pub fn show_session(
    cleanup: &CleanupRequest<'_>,
    places: &[StorePlace],
    text: &str,
) -> Result<StoreShowResult, StoreError> {
    let listing = StoreListing {
        main_key: &cleanup.config.main_key,
        now: cleanup.machine.now(),
        active_minutes: None,
        limit: None,
    };
    let mut found: Vec<(StoreSession, &StorePlace)> = Vec::new();
    let mut failed = None;
    for place in places {
        match list_stores(&listing, std::slice::from_ref(place), Vec::new()) {
            Ok(listed) => found.extend(listed.sessions.into_iter().map(|one| (one, place))),
            Err(error) => failed = Some(error),
        }
    }
    let one = pick_session(found, text).map_err(|error| match (error, failed) {
        // It may be in the store that cannot be read.
        (StoreError::NoKey(_), Some(failed)) => failed,
        (error, _) => error,
    })?;
    let (session, place) = one;
    if place.database {
        return Ok(StoreShowResult {
            session,
            transcript: "elsewhere",
            files: Vec::new(),
            action: "keep",
            reason: "only OpenClaw changes its databases",
            raw: None,
        });
    }
    let loaded = cleanup.load_store(place)?;
    let document = loaded.parse_document()?;
    show_from_index(cleanup, &loaded, &document, session)
}

fn pick_session<'a>(
    mut found: Vec<(StoreSession, &'a StorePlace)>,
    text: &str,
) -> Result<(StoreSession, &'a StorePlace), StoreError> {
    let key = SessionKey::new(text);
    let exact = |one: &StoreSession| {
        SessionKey::new(&one.key).as_str() == key.as_str()
            || one.session_id.as_deref() == Some(text)
    };
    let begins = |one: &StoreSession| {
        let own = SessionKey::new(&one.key);
        own.as_str().starts_with(key.as_str())
            || own.after_agent().starts_with(key.as_str())
            || one.session_id.as_deref().is_some_and(|id| id.starts_with(text))
    };
    if found.iter().any(|(one, _)| exact(one)) {
        found.retain(|(one, _)| exact(one));
    } else {
        found.retain(|(one, _)| begins(one));
    }
    match found.len() {
        0 => Err(StoreError::NoKey(text.to_owned())),
        1 => Ok(found.swap_remove(0)),
        _ => {
            let candidates = found.into_iter().map(|(one, _)| one.key).collect();
            Err(StoreError::Ambiguous { text: text.to_owned(), candidates })
        }
    }
}

fn show_from_index(
    cleanup: &CleanupRequest<'_>,
    loaded: &LoadedStore,
    document: &IndexDocument<'_>,
    session: StoreSession,
) -> Result<StoreShowResult, StoreError> {
    let at = document.entries.iter().position(|entry| entry.key == session.key.as_str());
    let at = at.ok_or_else(|| StoreError::NoKey(session.key.clone()))?;
    let facts =
        facts::gather_facts(loaded, document, true, || may_run(cleanup.config, cleanup.machine));
    let directory = path_text(&loaded.directory);
    let store =
        StoreSnapshot { directory: &directory, document, facts: &facts, files: &loaded.files };
    let request = MaintenanceRequest {
        policy: cleanup.policy,
        acts: true,
        trigger: MaintenanceTrigger::Cleanup,
        now: cleanup.machine.now(),
        active: None,
        fix_missing: false,
        retire: RetiredPeers::Nobody,
        drop_unusable: false,
        main_key: &cleanup.config.main_key,
    };
    let verdict = plan_maintenance(&store, &request).entries[at];
    let own = |(index, file): &(usize, &StoreDirFile)| {
        let id = session.session_id.as_deref();
        facts[at].file == Some(*index)
            || match &file.kind {
                StoreFileKind::Transcript => id.is_some() && session_of(&file.name) == id,
                StoreFileKind::Sidecar(owner) | StoreFileKind::Checkpoint(owner) => {
                    Some(owner.as_str()) == id
                }
                StoreFileKind::Archive(..) | StoreFileKind::Lock => {
                    id.is_some_and(|id| file.name.starts_with(&format!("{id}.jsonl.")))
                }
                _ => false,
            }
    };
    let files = loaded.files.iter().enumerate().filter(own).map(|(index, file)| StoreFile {
        path: path_text(&loaded.path_of(index)),
        kind: file.kind.as_str(),
        bytes: file.bytes,
        modified_at: file.modified,
    });
    Ok(StoreShowResult {
        files: files.collect(),
        transcript: match facts[at].transcript {
            _ if session.session_id.is_none() => "missing",
            TranscriptState::Sound => "sound",
            TranscriptState::Missing => "missing",
            TranscriptState::HeaderOnly => "headerOnly",
            TranscriptState::Elsewhere => "elsewhere",
        },
        action: verdict.as_str(),
        reason: verdict.reason_text(),
        raw: Some(document.entries[at].raw.to_owned()),
        session,
    })
}
