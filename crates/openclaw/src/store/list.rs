//! What is in the stores.

use std::time::Duration;

use crate::rules::document::{Document, Entry};
use crate::rules::file::{File, FileKind, session_of};
use crate::rules::key::Key;
use crate::rules::maintain::{Request, Retire, Store, Transcript, Trigger, maintain};
use crate::wire::{StoreFile, StoreLsResult, StoreSession, StoreShowResult, StoreView};
use model::time::Time;
use model::wire::Incomplete;

use super::find::Place;
use super::plan::{Cleanup, millis_since};
use super::read::Loaded;
use super::{StoreError, database, display, facts, may_run};

/// What is to be listed.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a> {
    /// What the main session is called.
    pub main_key: &'a str,
    /// The time.
    pub now: Time,
    /// Only what was changed within so many minutes.
    pub active_minutes: Option<u64>,
    /// How many.
    pub limit: Option<usize>,
}

/// Lists sessions, the last changed first.
pub fn list(
    listing: &Listing<'_>,
    places: &[Place],
    skipped: Vec<Incomplete>,
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
            database::sessions(listing, place).map(|found| result.sessions.extend(found))
        } else {
            index(listing, place, &mut result.sessions)
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

pub(super) fn store_view(place: &Place, entries: usize) -> StoreView {
    StoreView {
        agent_id: place.agent.clone(),
        path: display(&place.path),
        form: if place.database { "database" } else { "file" },
        entries,
    }
}

fn index(
    listing: &Listing<'_>,
    place: &Place,
    sessions: &mut Vec<StoreSession>,
) -> Result<(), StoreError> {
    let loaded = Loaded::read_index_alone(place)?;
    let document = loaded.document()?;
    let view = |entry| session(listing, place, entry);
    sessions.extend(document.entries.iter().map(view));
    Ok(())
}

/// An entry, as programs see it.
pub(super) fn session(listing: &Listing<'_>, place: &Place, entry: &Entry<'_>) -> StoreSession {
    let view = &entry.view;
    let text = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().map(str::to_owned);
    let key = Key::new(&entry.key);
    StoreSession {
        key: entry.key.to_string(),
        kind: key.kind(listing.main_key).word(),
        agent_id: key.agent().map(str::to_owned).or_else(|| place.agent.clone()),
        store: display(&place.path),
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
        fault: entry.fault.map(|fault| fault.words()),
    }
}

/// Shows one session: by its key, by its session's id, or by the beginning of either.
pub fn show(
    cleanup: &Cleanup<'_>,
    places: &[Place],
    text: &str,
) -> Result<StoreShowResult, StoreError> {
    let listing = Listing {
        main_key: &cleanup.config.main_key,
        now: cleanup.now,
        active_minutes: None,
        limit: None,
    };
    let mut found: Vec<(StoreSession, &Place)> = Vec::new();
    let mut failed = None;
    for place in places {
        match list(&listing, std::slice::from_ref(place), Vec::new()) {
            Ok(listed) => found.extend(listed.sessions.into_iter().map(|one| (one, place))),
            Err(error) => failed = Some(error),
        }
    }
    let one = pick(found, text).map_err(|error| match (error, failed) {
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
    let loaded = cleanup.load(place)?;
    let document = loaded.document()?;
    of_index(cleanup, &loaded, &document, session)
}

fn pick<'a>(
    mut found: Vec<(StoreSession, &'a Place)>,
    text: &str,
) -> Result<(StoreSession, &'a Place), StoreError> {
    let key = Key::new(text);
    let exact = |one: &StoreSession| {
        Key::new(&one.key).text() == key.text() || one.session_id.as_deref() == Some(text)
    };
    let begins = |one: &StoreSession| {
        let own = Key::new(&one.key);
        own.text().starts_with(key.text())
            || own.rest().starts_with(key.text())
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

fn of_index(
    cleanup: &Cleanup<'_>,
    loaded: &Loaded,
    document: &Document<'_>,
    session: StoreSession,
) -> Result<StoreShowResult, StoreError> {
    let at = document.entries.iter().position(|entry| entry.key == session.key.as_str());
    let at = at.ok_or_else(|| StoreError::NoKey(session.key.clone()))?;
    let facts = facts::facts(loaded, document, true, || may_run(cleanup.config));
    let directory = display(&loaded.directory);
    let store = Store { directory: &directory, document, facts: &facts, files: &loaded.files };
    let request = Request {
        policy: cleanup.policy,
        acts: true,
        trigger: Trigger::Cleanup,
        now: cleanup.now,
        active: None,
        fix_missing: false,
        retire: Retire::Nobody,
        drop_unusable: false,
        main_key: &cleanup.config.main_key,
    };
    let verdict = maintain(&store, &request).entries[at];
    let own = |(index, file): &(usize, &File)| {
        let id = session.session_id.as_deref();
        facts[at].file == Some(*index)
            || match &file.kind {
                FileKind::Transcript => id.is_some() && session_of(&file.name) == id,
                FileKind::Sidecar(owner) | FileKind::Checkpoint(owner) => {
                    Some(owner.as_str()) == id
                }
                FileKind::Archive(..) | FileKind::Lock => {
                    id.is_some_and(|id| file.name.starts_with(&format!("{id}.jsonl.")))
                }
                _ => false,
            }
    };
    let files = loaded.files.iter().enumerate().filter(own).map(|(index, file)| StoreFile {
        path: display(&loaded.path_of(index)),
        kind: file.kind.word(),
        bytes: file.bytes,
        modified_at: file.modified,
    });
    Ok(StoreShowResult {
        files: files.collect(),
        transcript: match facts[at].transcript {
            _ if session.session_id.is_none() => "missing",
            Transcript::Sound => "sound",
            Transcript::Missing => "missing",
            Transcript::HeaderOnly => "headerOnly",
            Transcript::Elsewhere => "elsewhere",
        },
        action: verdict.word(),
        reason: verdict.reason(),
        raw: Some(document.entries[at].raw.to_owned()),
        session,
    })
}
