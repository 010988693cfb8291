//! A new index from what is left of the old one, from other copies of it, and from the transcripts.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::Path;

use crate::rules::document::{IndexDocument, StoreEntry, write_index};
use crate::rules::file::{StoreFileKind, session_of};
use crate::rules::key::SessionKey;
use crate::wire::{RebuiltEntry, StoreRebuildResult};
use model::plan::{PlanItem, Refusal, RemovableKind};
use model::time::Time;
use sys::dropped::NoteDropped;
use sys::machine::Machine;

use super::ask::{SessionStoreRequest, prove_ours};
use super::find::{StorePlace, locate_stores};
use super::read::LoadedStore;
use super::{StoreError, path_text};
use crate::config::OpenClawConfig;
use model::failure::{Failure, FailureKind};
use reaper::{PlannedRemoval, Reaper, recheck_planned};
use store::writer::StoreWriter;

/// The most that is read of a transcript: its first line.
const MAX_HEADER_BYTES: u64 = 64 << 10;

/// The most that is read of a trajectory: its first lines, each of which names the key.
const MOST_TRAJECTORY: u64 = 1 << 20;

/// A new index.
struct Rebuilt {
    text: String,
    result: StoreRebuildResult,
}

/// What a new index would hold. Nothing is changed.
pub fn preview_rebuild(
    config: &OpenClawConfig,
    ask: &SessionStoreRequest,
    machine: &Machine,
) -> Result<StoreRebuildResult, StoreError> {
    let place = find_index(config, ask)?;
    Ok(build_index(config, &LoadedStore::read_store(&place, machine)?)?.result)
}

/// Writes a new index. The caller holds the writer lock.
pub fn perform_rebuild(
    writer: &StoreWriter,
    ask: &SessionStoreRequest,
    machine: &Machine,
) -> Result<StoreRebuildResult, Failure> {
    let (config, _) = ask.read_configuration(machine)?;
    let place = find_index(&config, ask)?;
    prove_ours(&config, std::slice::from_ref(&place), machine)?;
    let loaded = LoadedStore::read_store(&place, machine)?;
    let Rebuilt { text, mut result } = build_index(&config, &loaded)?;
    result.dry_run = false;
    if result.fault.is_none() && result.added.is_empty() {
        return Ok(result);
    }
    sys::pause::pause_at("store.rebuilt");
    let mut reaper = Reaper::begin(writer, "store rebuild", machine)?;
    let why = "a new index was made from the transcripts";
    let written = match (&loaded.bytes, loaded.print) {
        (Some(before), Some(print)) => {
            let item = PlanItem {
                kind: RemovableKind::StoreIndex,
                path: path_text(&place.path),
                owner: "openclaw".to_owned(),
                session: None,
                title: None,
                why: why.to_owned(),
                age_ms: None,
                bytes: print.size,
                evidence: result.fault.iter().cloned().collect(),
            };
            let planned = PlannedRemoval { item, path: place.path.clone(), print };
            match recheck_planned(&planned, |_| Ok(None)) {
                Ok(checked) => reaper.replace_content(&checked, before, text.as_bytes())?,
                Err(refusal) => Err(refusal),
            }
        }
        _ => reaper.create_file(RemovableKind::StoreIndex, &place.path, why, text.as_bytes())?,
    };
    result.receipt = reaper.finish()?.map(|(receipt, _)| receipt);
    match written {
        Ok(()) => {
            result.applied = true;
            Ok(result)
        }
        Err(refusal) => Err(refused_failure(&place.path, &refusal)),
    }
}

fn refused_failure(path: &Path, refusal: &Refusal) -> Failure {
    Failure {
        kind: FailureKind::Refused,
        message: format!("the store {} was left alone: {}", path.display(), refusal.reason_text()),
        hint: refusal.remedy().to_owned(),
    }
}

/// The one index that is meant.
fn find_index(
    config: &OpenClawConfig,
    ask: &SessionStoreRequest,
) -> Result<StorePlace, StoreError> {
    let (places, _) = locate_stores(config, &ask.selection)?;
    let database = places.iter().find(|place| place.database).cloned();
    match (places.into_iter().find(|place| !place.database), database) {
        (Some(place), _) => Ok(place),
        (None, Some(database)) => Err(StoreError::Database(database.path)),
        (None, None) => Err(StoreError::Read {
            path: config.state.clone(),
            reason: "there is no index that could be rebuilt".to_owned(),
        }),
    }
}

/// One entry of the new index.
struct NewIndexEntry {
    key: String,
    value: String,
    updated: Option<Time>,
    session: Option<String>,
    from: String,
    how: &'static str,
}

impl NewIndexEntry {
    fn from_entry(entry: &StoreEntry<'_>, from: &str, how: &'static str) -> Self {
        Self {
            key: entry.key.to_string(),
            value: entry.raw.to_owned(),
            updated: entry.view.updated_at,
            session: entry.view.session_id.as_deref().map(str::to_owned),
            from: from.to_owned(),
            how,
        }
    }
}

fn build_index(config: &OpenClawConfig, loaded: &LoadedStore) -> Result<Rebuilt, StoreError> {
    let (document, fault) = match &loaded.bytes {
        Some(bytes) => IndexDocument::parse_salvaging(bytes),
        None => IndexDocument::parse_salvaging(b"{}"),
    };
    let fault = fault.map(|fault| fault.to_string());
    let mut pieces: Vec<NewIndexEntry> = document
        .entries
        .iter()
        .map(|entry| NewIndexEntry::from_entry(entry, loaded.index_name(), "kept"))
        .collect();
    let kept = pieces.len();
    // Other copies are asked only when there is something to be put right.
    if fault.is_some() || loaded.bytes.is_none() {
        recover_entries(loaded, &mut pieces);
    }
    let agent = loaded.place.agent.as_deref().unwrap_or_else(|| agent_of(config, loaded));
    from_transcripts(loaded, agent, &mut pieces);
    if loaded.bytes.is_none() && pieces.is_empty() {
        return Err(StoreError::Nothing(loaded.directory.clone()));
    }
    let text = write_index(pieces.iter().map(|piece| (piece.key.as_str(), piece.value.as_str())));
    let added = pieces.into_iter().skip(kept).map(|piece| RebuiltEntry {
        key: piece.key,
        session: piece.session,
        from: piece.from,
        how: Cow::Borrowed(piece.how),
    });
    let missing = || loaded.bytes.is_none().then(|| "there is none".to_owned());
    let result = StoreRebuildResult {
        dry_run: true,
        applied: false,
        path: path_text(&loaded.place.path),
        kept,
        added: added.collect(),
        fault: fault.or_else(missing),
        receipt: None,
    };
    Ok(Rebuilt { text, result })
}

/// The agent that a store's directory is named after, else the one that is used when none is named.
fn agent_of<'a>(config: &'a OpenClawConfig, loaded: &'a LoadedStore) -> &'a str {
    let own = loaded.directory.parent().and_then(|own| own.file_name()?.to_str());
    own.filter(|own| config.has_agent(own)).unwrap_or_else(|| config.default_agent())
}

/// Takes entries from writes that did not finish and from old copies: of each key the newest, and
/// nothing that is still there.
fn recover_entries(loaded: &LoadedStore, pieces: &mut Vec<NewIndexEntry>) {
    let known: HashSet<String> =
        pieces.iter().map(|piece| SessionKey::new(&piece.key).as_str().to_owned()).collect();
    let mut found: HashMap<String, NewIndexEntry> = HashMap::new();
    for (at, file) in loaded.files.iter().enumerate() {
        let is_copy = match file.kind {
            StoreFileKind::Temporary => true,
            StoreFileKind::Archive(..) => file.name.starts_with(loaded.index_name()),
            _ => false,
        };
        let Some(bytes) = is_copy.then(|| read_at_most(&loaded.path_of(at), u64::MAX)).flatten()
        else {
            continue;
        };
        let (document, _) = IndexDocument::parse_salvaging(&bytes);
        for entry in document.entries.iter().filter(|entry| entry.fault.is_none()) {
            let key = SessionKey::new(&entry.key).as_str().to_owned();
            let piece = NewIndexEntry::from_entry(entry, &file.name, "recovered");
            let newer = found.get(&key).is_none_or(|other| other.updated < piece.updated);
            if newer && !known.contains(&key) {
                found.insert(key, piece);
            }
        }
    }
    let mut found: Vec<NewIndexEntry> = found.into_values().collect();
    found.sort_by(|one, other| one.key.cmp(&other.key));
    pieces.extend(found);
}

/// Makes an entry for every transcript that none leads to.
fn from_transcripts(loaded: &LoadedStore, agent: &str, pieces: &mut Vec<NewIndexEntry>) {
    let sessions: HashSet<String> =
        pieces.iter().filter_map(|piece| piece.session.clone()).collect();
    let named: HashSet<String> = pieces
        .iter()
        .filter_map(|piece| {
            let value: serde_json::Value = serde_json::from_str(&piece.value).ok()?;
            let file = Path::new(value.get("sessionFile")?.as_str()?).file_name()?.to_str()?;
            Some(file.to_owned())
        })
        .collect();
    let mut made = Vec::new();
    for (at, file) in loaded.files.iter().enumerate() {
        let Some(session) = session_of(&file.name) else { continue };
        let is_orphan = file.kind == StoreFileKind::Transcript
            && !named.contains(&file.name)
            && !sessions.contains(session);
        if is_orphan {
            made.push(from_transcript(loaded, at, agent, session));
        }
    }
    give_keys_back(loaded, agent, pieces, &mut made);
    made.sort_by(|one, other| one.key.cmp(&other.key));
    pieces.extend(made);
}

/// Gives entries the keys under which their sessions were kept, as far as files beside the transcripts
/// still tell. Of several sessions that one key had, the last written is the one behind it; a key that has
/// an entry is not taken from it.
fn give_keys_back(
    loaded: &LoadedStore,
    agent: &str,
    pieces: &[NewIndexEntry],
    made: &mut [NewIndexEntry],
) {
    let mut taken: HashSet<String> =
        pieces.iter().map(|piece| SessionKey::new(&piece.key).as_str().to_owned()).collect();
    made.sort_by(|one, other| {
        other.updated.cmp(&one.updated).then_with(|| one.key.cmp(&other.key))
    });
    for piece in made {
        let Some(key) = key_beside(loaded, piece) else { continue };
        let named = SessionKey::new(&key);
        let is_ours = named.agent_id().is_none_or(|named| named == agent);
        if is_ours && taken.insert(named.as_str().to_owned()) {
            piece.key = key;
        }
    }
}

/// The key that the record of what an agent did names: `<transcript>.trajectory.jsonl`, each line of which
/// has one.
fn key_beside(loaded: &LoadedStore, piece: &NewIndexEntry) -> Option<String> {
    let stem = piece.from.strip_suffix(".jsonl")?;
    let bytes =
        read_at_most(&loaded.directory.join(format!("{stem}.trajectory.jsonl")), MOST_TRAJECTORY)?;
    let lines = bytes.split(|byte| *byte == b'\n');
    let mut lines = lines.filter_map(|line| serde_json::from_slice::<TrajectoryLine>(line).ok());
    lines.find_map(|line| {
        let its_own = line.session_id.is_none() || line.session_id == piece.session;
        line.session_key.filter(|key| its_own && !key.trim().is_empty())
    })
}

/// What is read of a line of a trajectory.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct TrajectoryLine {
    session_key: Option<String>,
    session_id: Option<String>,
}

/// What a transcript says about itself. Under which key it was kept, it does not say.
fn from_transcript(loaded: &LoadedStore, at: usize, agent: &str, session: &str) -> NewIndexEntry {
    let file = &loaded.files[at];
    let path = loaded.path_of(at);
    let header = read_at_most(&path, MAX_HEADER_BYTES)
        .and_then(|bytes| {
            let line = bytes.split(|byte| *byte == b'\n').next()?;
            serde_json::from_slice::<serde_json::Value>(line).ok()
        })
        .filter(|header| header["type"] == "session");
    let started = header.as_ref().and_then(|header| Time::parse(header["timestamp"].as_str()?));
    let own = header.as_ref().and_then(|header| header["id"].as_str());
    let id = own.filter(|id| crate::rules::key::is_session_id(id)).unwrap_or(session);
    let stem = file.name.strip_suffix(".jsonl").unwrap_or(&file.name);
    let mut value = serde_json::json!({
        "sessionId": id,
        "sessionFile": path_text(&path),
        "updatedAt": file.modified.as_millis(),
    });
    if let Some(started) = started {
        value["sessionStartedAt"] = started.as_millis().into();
    }
    NewIndexEntry {
        key: format!("agent:{agent}:recovered:{}", stem.to_lowercase()),
        value: indented_json(&value),
        updated: Some(file.modified),
        session: Some(id.to_owned()),
        from: file.name.clone(),
        how: "made",
    }
}

/// A value as it stands inside of an index.
fn indented_json(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default().replace('\n', "\n  ")
}

fn read_at_most(path: &Path, most: u64) -> Option<Vec<u8>> {
    let file = sys::private::open_regular(path).ok_or_note("a transcript for a rebuild")?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok_or_note("a transcript for a rebuild")?;
    Some(bytes)
}
