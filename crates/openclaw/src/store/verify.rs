//! What is wrong with a store, and what is left over in it.

use std::collections::{HashMap, HashSet};

use crate::rules::document::Document;
use crate::rules::file::{FileKind, session_of};
use crate::rules::key::Key;
use crate::rules::lock::Verdict;
use crate::rules::maintain::{self, Facts, Transcript};
use crate::wire::{StoreFinding, StoreVerified, StoreVerifyResult};
use model::wire::Incomplete;

use super::facts::facts;
use super::find::Place;
use super::list::store_view;
use super::read::Loaded;
use super::{StoreError, database};

const CLEANUP: &str = "`ostler store cleanup` removes it when it is old";
const REBUILD: &str = "`ostler store rebuild` makes an entry for it";
const FIX_MISSING: &str = "`ostler store cleanup --fix-missing` removes the entry";
const REPAIR: &str = "`ostler store cleanup --fix-missing` repairs the entry";

/// Checks stores. Nothing is changed.
pub fn verify(places: &[Place], skipped: Vec<Incomplete>) -> Result<StoreVerifyResult, StoreError> {
    let mut result = StoreVerifyResult { stores: Vec::new(), incomplete: skipped };
    for place in places {
        let verified = if place.database { of_database(place) } else { of_index(place) };
        match verified {
            Ok(verified) => result.stores.push(verified),
            Err(error) => result.incomplete.push(error.incomplete()),
        }
    }
    Ok(result)
}

fn of_database(place: &Place) -> Result<StoreVerified, StoreError> {
    let findings = database::verify(place)?;
    let nodes = adapters::openclaw::nodes(&place.path).map_err(|error| StoreError::Read {
        path: place.path.clone(),
        reason: error.to_string(),
    })?;
    let bytes = std::fs::metadata(&place.path).map_or(0, |about| about.len());
    let sound = findings.is_empty();
    Ok(StoreVerified { store: store_view(place, nodes.len()), files: 1, bytes, sound, findings })
}

fn of_index(place: &Place) -> Result<StoreVerified, StoreError> {
    let loaded = Loaded::read(place)?;
    let mut findings = Vec::new();
    let entries = match loaded.document() {
        Ok(document) => {
            let facts = facts(&loaded, &document, true, || false);
            entries(&document, &facts, &mut findings);
            files(&loaded, Some((&document, &facts)), &mut findings);
            document.entries.len()
        }
        Err(error) => {
            findings.push(StoreFinding {
                code: "broken-index",
                problem: true,
                id: loaded.name().to_owned(),
                reason: error.to_string(),
                remedy: "`ostler store rebuild` makes a new one from the transcripts".to_owned(),
                bytes: loaded.bytes.as_ref().map(|bytes| bytes.len() as u64),
            });
            files(&loaded, None, &mut findings);
            0
        }
    };
    mode(&loaded, &mut findings);
    Ok(StoreVerified {
        store: store_view(place, entries),
        files: loaded.files.len(),
        bytes: loaded.files.iter().map(|file| file.bytes).sum(),
        sound: !findings.iter().any(|finding| finding.problem),
        findings,
    })
}

fn entries(document: &Document<'_>, facts: &[Facts], findings: &mut Vec<StoreFinding>) {
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
            found("unusable-entry", true, fault.words(), remedy);
        } else if entry.view.session_id.is_some() {
            match facts.transcript {
                _ if facts.own.is_some() => {
                    found("stale-session-file", true, maintain::Verdict::Repair.reason(), REPAIR);
                }
                Transcript::Missing => {
                    found("missing-transcript", true, "its transcript is missing", FIX_MISSING);
                }
                Transcript::HeaderOnly => {
                    found(
                        "empty-transcript",
                        false,
                        "its transcript holds no message",
                        FIX_MISSING,
                    );
                }
                Transcript::Sound | Transcript::Elsewhere => {}
            }
        }
        if let Some(first) = seen.insert(Key::new(&entry.key).text().to_owned(), &entry.key) {
            let reason = format!("the same key as `{first}`");
            found("same-key", true, &reason, "OpenClaw keeps the newest of them when it writes");
        }
    }
}

fn files(
    loaded: &Loaded,
    index: Option<(&Document<'_>, &[Facts])>,
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
            FileKind::Transcript if !owned(at) => {
                ("orphan-transcript", "no entry leads to it".to_owned(), REBUILD)
            }
            FileKind::Temporary if index.is_none() => (
                "temporary",
                "a write that did not finish; it may be the only whole copy".to_owned(),
                "`ostler store rebuild` looks into it",
            ),
            FileKind::Temporary => {
                ("temporary", "left behind by a write that did not finish".to_owned(), CLEANUP)
            }
            FileKind::Lock => {
                let transcript = file.name.strip_suffix(".lock").unwrap_or_default();
                let Some(lock) = loaded.locks.get(transcript) else { continue };
                match &lock.verdict {
                    Verdict::Free(reasons) => {
                        let words: Vec<&str> = reasons.iter().map(|reason| reason.word()).collect();
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

/// Conversations are nobody else's business.
fn mode(loaded: &Loaded, findings: &mut Vec<StoreFinding>) {
    let Some(print) = loaded.print.filter(|print| print.mode & 0o077 != 0) else { return };
    findings.push(StoreFinding {
        code: "open-to-others",
        problem: true,
        id: loaded.name().to_owned(),
        reason: format!("others can use it (mode {:03o})", print.mode),
        remedy: format!("chmod 600 {}", loaded.place.path.display()),
        bytes: None,
    });
}
