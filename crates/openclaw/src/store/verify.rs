//! What is wrong with a store, and what is left over in it.

use std::collections::{HashMap, HashSet};

use crate::rules::document::IndexDocument;
use crate::rules::file::{StoreFileKind, session_of};
use crate::rules::key::SessionKey;
use crate::rules::lock::LockVerdict;
use crate::rules::maintain::{self, EntryFacts, TranscriptState};
use crate::wire::{StoreFinding, StoreVerified, StoreVerifyResult};
use model::wire::IncompleteSource;
use sys::machine::Machine;

use super::facts::gather_facts;
use super::find::StorePlace;
use super::list::store_view;
use super::read::LoadedStore;
use super::{StoreError, database};

const CLEANUP: &str = "`ostler store cleanup` removes it when it is old";
const REBUILD: &str = "`ostler store rebuild` makes an entry for it";
const FIX_MISSING: &str = "`ostler store cleanup --fix-missing` removes the entry";
const REPAIR: &str = "`ostler store cleanup --fix-missing` repairs the entry";

/// Checks stores. Nothing is changed.
pub fn verify_stores(
    places: &[StorePlace],
    skipped: Vec<IncompleteSource>,
    machine: &Machine,
) -> Result<StoreVerifyResult, StoreError> {
    let mut result = StoreVerifyResult { stores: Vec::new(), incomplete: skipped };
    for place in places {
        let verified = if place.database { of_database(place) } else { of_index(place, machine) };
        match verified {
            Ok(verified) => result.stores.push(verified),
            Err(error) => result.incomplete.push(error.incomplete()),
        }
    }
    Ok(result)
}

fn of_database(place: &StorePlace) -> Result<StoreVerified, StoreError> {
    let findings = database::verify_database(place)?;
    let nodes = adapters::openclaw::list_nodes(&place.path).map_err(|error| StoreError::Read {
        path: place.path.clone(),
        reason: error.to_string(),
    })?;
    let bytes = std::fs::metadata(&place.path).map_or(0, |about| about.len());
    let sound = findings.is_empty();
    Ok(StoreVerified { store: store_view(place, nodes.len()), files: 1, bytes, sound, findings })
}

fn of_index(place: &StorePlace, machine: &Machine) -> Result<StoreVerified, StoreError> {
    let loaded = LoadedStore::read_store(place, machine)?;
    let mut findings = Vec::new();
    let entries = match loaded.parse_document() {
        Ok(document) => {
            let facts = gather_facts(&loaded, &document, true, || false);
            check_entries(&document, &facts, &mut findings);
            check_files(&loaded, Some((&document, &facts)), &mut findings);
            document.entries.len()
        }
        Err(error) => {
            findings.push(StoreFinding {
                code: "broken-index",
                problem: true,
                id: loaded.index_name().to_owned(),
                reason: error.to_string(),
                remedy: "`ostler store rebuild` makes a new one from the transcripts".to_owned(),
                bytes: loaded.bytes.as_ref().map(|bytes| bytes.len() as u64),
            });
            check_files(&loaded, None, &mut findings);
            0
        }
    };
    check_mode(&loaded, &mut findings);
    Ok(StoreVerified {
        store: store_view(place, entries),
        files: loaded.files.len(),
        bytes: loaded.files.iter().map(|file| file.bytes).sum(),
        sound: !findings.iter().any(|finding| finding.problem),
        findings,
    })
}

fn check_entries(
    document: &IndexDocument<'_>,
    facts: &[EntryFacts],
    findings: &mut Vec<StoreFinding>,
) {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for (entry, facts) in std::iter::zip(&document.entries, facts) {
        let key = entry.key.to_string();
        let mut found = |code, problem, reason: &str, remedy: &str| {
            findings.push(StoreFinding {
                code,
                problem,
                id: key.clone(),
                reason: reason.to_owned(),
                remedy: remedy.to_owned(),
                bytes: None,
            });
        };
        if let Some(fault) = entry.fault {
            let remedy = "`ostler store cleanup --drop-unusable` removes it";
            found("unusable-entry", true, fault.reason_text(), remedy);
        } else if entry.view.session_id.is_some() {
            match facts.transcript {
                _ if facts.own.is_some() => {
                    found(
                        "stale-session-file",
                        true,
                        maintain::EntryVerdict::Repair.reason_text(),
                        REPAIR,
                    );
                }
                TranscriptState::Missing => {
                    found("missing-transcript", true, "its transcript is missing", FIX_MISSING);
                }
                TranscriptState::HeaderOnly => {
                    found(
                        "empty-transcript",
                        false,
                        "its transcript holds no message",
                        FIX_MISSING,
                    );
                }
                TranscriptState::Sound | TranscriptState::Elsewhere => {}
            }
        }
        if let Some(first) =
            seen.insert(SessionKey::new(&entry.key).as_str().to_owned(), &entry.key)
        {
            let reason = format!("the same key as `{first}`");
            found("same-key", true, &reason, "OpenClaw keeps the newest of them when it writes");
        }
    }
}

fn check_files(
    loaded: &LoadedStore,
    index: Option<(&IndexDocument<'_>, &[EntryFacts])>,
    findings: &mut Vec<StoreFinding>,
) {
    let (document, facts) = match index {
        Some((document, facts)) => (Some(document), facts),
        None => (None, &[][..]),
    };
    let entries = document.into_iter().flat_map(|document| &document.entries);
    let sessions: HashSet<&str> =
        entries.filter_map(|entry| entry.view.session_id.as_deref()).collect();
    let named: HashSet<usize> = facts.iter().filter_map(|facts| facts.file).collect();
    let owned = |at: usize| {
        let session = session_of(&loaded.files[at].name);
        named.contains(&at) || session.is_some_and(|session| sessions.contains(session))
    };
    for (at, file) in loaded.files.iter().enumerate() {
        let (code, reason, remedy) = match &file.kind {
            StoreFileKind::Transcript if !owned(at) => {
                ("orphan-transcript", "no entry leads to it".to_owned(), REBUILD)
            }
            StoreFileKind::Temporary if index.is_none() => (
                "temporary",
                "a write that did not finish; it may be the only whole copy".to_owned(),
                "`ostler store rebuild` looks into it",
            ),
            StoreFileKind::Temporary => {
                ("temporary", "left behind by a write that did not finish".to_owned(), CLEANUP)
            }
            StoreFileKind::Lock => {
                let transcript = file.name.strip_suffix(".lock").unwrap_or_default();
                let Some(lock) = loaded.locks.get(transcript) else { continue };
                match &lock.verdict {
                    LockVerdict::Free(reasons) => {
                        let words: Vec<&str> =
                            reasons.iter().map(|reason| reason.as_str()).collect();
                        let reason = format!("nobody holds it ({})", words.join(", "));
                        ("stale-lock", reason, "OpenClaw takes it over when it needs it")
                    }
                    _ => {
                        let reason = lock.refusal().unwrap_or_default();
                        ("lock", reason, "its transcript is left alone until it is free")
                    }
                }
            }
            _ => continue,
        };
        findings.push(StoreFinding {
            code,
            problem: false,
            id: file.name.clone(),
            reason,
            remedy: remedy.to_owned(),
            bytes: Some(file.bytes),
        });
    }
}

/// Conversations are private.
fn check_mode(loaded: &LoadedStore, findings: &mut Vec<StoreFinding>) {
    let Some(print) = loaded.print.filter(|print| print.mode & 0o077 != 0) else { return };
    findings.push(StoreFinding {
        code: "open-to-others",
        problem: true,
        id: loaded.index_name().to_owned(),
        reason: format!("others can use it (mode {:03o})", print.mode),
        remedy: format!("chmod 600 {}", loaded.place.path.display()),
        bytes: None,
    });
}
